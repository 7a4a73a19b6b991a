//! docs/reference.md names the routes, who may call them, their fields and how they refuse, as the description of the API does.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    sync::LazyLock,
};

use serde_json::{Map, Value};
use tests::description;

use super::{code, codes, page, root, rows};

const PAGE: &str = "docs/reference.md";
/// The statuses of every route, which the page lists once for all of them.
const EVERYWHERE: [&str; 6] = ["200", "303", "400", "413", "500", "503"];

/// The description of the API.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| local::openapi().expect("the functions fit to the template"));

/// Every route that is described: as `METHOD /path`, with its operation and the responses that it refers to.
fn described() -> BTreeMap<String, Value> {
    let routes = description::routes().into_iter();
    let resolved = routes.map(|(name, mut route)| {
        for response in route["responses"].as_object_mut().expect("responses").values_mut() {
            *response = description::resolved(response, &DOCUMENT).clone();
        }
        (name, route)
    });
    resolved.collect()
}

/// The tables of routes, each after a mark of this name.
const TABLES: [&str; 3] = ["envelope", "plain", "pages"];
const END: &str = "<!-- end -->";

/// With `UPDATE_DOCS`, the tables are written and not compared.
#[test]
fn the_tables_of_routes_are_printed_from_the_routes() {
    let (mut source, described) = (page(PAGE), described());
    for table in TABLES {
        let mark = format!("<!-- routes: {table} -->\n");
        let rows = described.iter().filter(|(_, route)| table_of(route) == table);
        let table = rows.map(|(name, route)| row(name, route)).collect::<String>();
        let table =
            format!("| route | who | does | fields | answers | refuses with |\n|---|---|---|---|---|---|\n{table}");
        let from = source.find(&mark).expect("a mark") + mark.len();
        let to = from + source[from..].find(END).expect("an end");
        if env::var_os("UPDATE_DOCS").is_none() {
            assert_eq!(&source[from..to], table, "run this test with UPDATE_DOCS=1");
        }
        source.replace_range(from..to, &table);
    }
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join(PAGE), source).expect("a page");
    }
}

/// The table that a route is in.
fn table_of(route: &Value) -> &'static str {
    match route["tags"][0].as_str() {
        Some("account") => "plain",
        Some("pages") => "pages",
        _ => "envelope",
    }
}

/// The row of a route.
fn row(name: &str, route: &Value) -> String {
    let credentials = route["security"].as_array().expect("a list").iter();
    let credentials =
        credentials.map(|one| one.as_object().expect("an object").keys().next().map_or("anyone", |name| name));
    let fields = fields(route).into_iter().map(|(name, required)| optional(name, required));
    let done = &responses(route)["200"]["content"];
    let answers = done.get("application/json").map_or("a page".to_owned(), |media| {
        let schema = &media["schema"];
        members(schema["properties"].get("json").unwrap_or(schema))
    });
    let redirects = if responses(route).contains_key("303") { ", or 303" } else { "" };
    let own = responses(route).iter().filter(|(status, response)| {
        !EVERYWHERE.contains(&status.as_str()) && values(response, "code") != ["INVALID_ORIGIN"].into()
    });
    let [credentials, fields, refusals] = [
        credentials.collect::<Vec<_>>().join(", "),
        fields.collect::<Vec<_>>().join(", "),
        own.map(|(status, _)| status.as_str()).collect::<Vec<_>>().join(", "),
    ];
    let summary = route["summary"].as_str().expect("a summary");
    format!("| `{name}` | {credentials} | {summary} | {fields} | {answers}{redirects} | {refusals} |\n")
}

/// The members of an answer.
fn members(schema: &Value) -> String {
    let schema = description::resolved(schema, &DOCUMENT);
    if schema["type"] == "null" {
        return "`null`".to_owned();
    }
    if let Some(variants) = schema.get("oneOf").or_else(|| schema.get("anyOf")) {
        let mut variants = variants.as_array().expect("a list").iter().map(members).collect::<Vec<_>>();
        variants.dedup();
        return variants.join("; or ");
    }
    if let Some(items) = schema.get("items") {
        return format!("a list of {}", members(items));
    }
    let required = schema["required"].as_array().into_iter().flatten().collect::<Vec<_>>();
    let names = schema["properties"].as_object().into_iter().flat_map(Map::keys);
    names.map(|name| optional(name, required.iter().any(|one| *one == name))).collect::<Vec<_>>().join(", ")
}

fn optional(name: &str, is_required: bool) -> String {
    format!("`{name}`{}", if is_required { "" } else { "?" })
}

#[test]
fn every_route_that_takes_an_idempotency_key_is_named() {
    let source = page("docs/api.md");
    let (named, _) = source.split_once(" take an `idempotency-key` header").expect("a sentence");
    let named = named.rsplit("\n\n").next().unwrap_or_default();
    let named: BTreeSet<_> = codes(named).into_iter().map(|(route, _)| format!("POST /v1/{route}")).collect();
    let described = described();
    let takes =
        |route: &Value| route["parameters"].as_array().is_some_and(|all| all.iter().any(|one| one["in"] == "header"));
    let takers = described.iter().filter(|(_, route)| takes(route)).map(|(name, _)| name.clone());
    assert_eq!(named, takers.collect());
}

#[test]
fn every_error_code_is_listed_with_its_status() {
    let source = page(PAGE);
    let mut listed = BTreeSet::new();
    for row in rows(&source, &["status", "`code`", "when"]) {
        for (code, after) in codes(row[1]) {
            assert!(listed.insert((row[0], code, after.starts_with(" *"))), "{code} is there twice");
        }
    }
    // A method that a path does not have is no route, so no route describes it.
    assert!(listed.remove(&("405", "METHOD_NOT_SUPPORTED", false)));
    let described = described();
    let mut enveloped = BTreeSet::new();
    let mut all = BTreeSet::new();
    for (name, route) in &described {
        for (status, response) in responses(route) {
            for code in values(response, "code") {
                all.insert((status.as_str(), code));
                if name.contains(" /v1/") {
                    enveloped.insert(code);
                }
            }
        }
    }
    assert_eq!(listed, all.into_iter().map(|(status, code)| (status, code, !enveloped.contains(code))).collect());
}

#[test]
fn every_reason_of_a_conflict_is_listed() {
    let source = page(PAGE);
    let listed = rows(&source, &["`reason` of a 409", "from", "meaning"]);
    let described = described();
    let responses = described.values().flat_map(|route| responses(route).values());
    let reasons: BTreeSet<_> = responses.flat_map(|response| values(response, "reason")).collect();
    assert_eq!(listed.len(), reasons.len());
    assert_eq!(listed.iter().map(|row| code(row[0])).collect::<BTreeSet<_>>(), reasons);
}

fn responses(route: &Value) -> &Map<String, Value> {
    route["responses"].as_object().expect("responses")
}

/// The fields of a route, and whether each is required.
fn fields(route: &Value) -> BTreeMap<&str, bool> {
    let parameters = route["parameters"].as_array().into_iter().flatten();
    let in_query = parameters
        .filter(|one| one["in"] == "query")
        .map(|one| (one["name"].as_str().expect("a name"), one["required"] == true));
    let bodies = route["requestBody"]["content"].as_object().into_iter().flat_map(Map::values);
    let in_body = bodies.flat_map(|media| {
        let schema = media["schema"].pointer("/properties/json").unwrap_or(&media["schema"]);
        let required = schema["required"].as_array().expect("a list");
        let names = schema["properties"].as_object().expect("properties").keys();
        names.map(move |name| (name.as_str(), required.iter().any(|field| field == name)))
    });
    in_query.chain(in_body).collect()
}

/// The possible values of the member `code` or `reason` of an error.
fn values<'a>(response: &'a Value, member: &str) -> BTreeSet<&'a str> {
    let examples = description::examples(&response["content"]["application/json"]);
    let members = examples.filter_map(|example| {
        let error = example.get("json").unwrap_or(example);
        error.get(member).or_else(|| error.get("data")?.get(member))?.as_str()
    });
    members.collect()
}
