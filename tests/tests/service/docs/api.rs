//! docs/api.md names the routes, who may call them, their fields and how they refuse, as the description of the API does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tests::description;

use super::{code, codes, page, rows};

const PAGE: &str = "docs/api.md";
/// What every route can answer, so that the page says it once for all of them.
const EVERYWHERE: [&str; 6] = ["200", "303", "400", "413", "500", "503"];

/// Every route that is described: as `METHOD /path`, with its operation and the responses that it refers to.
fn described() -> BTreeMap<String, Value> {
    let document = local::openapi().expect("the functions fit to the template");
    let paths = document["paths"].as_object().expect("paths");
    let routes = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(move |(method, route)| (format!("{} {path}", method.to_uppercase()), route.clone()))
    });
    let resolved = routes.map(|(name, mut route)| {
        for response in route["responses"].as_object_mut().expect("responses").values_mut() {
            *response = description::resolved(response, &document).clone();
        }
        (name, route)
    });
    resolved.collect()
}

/// The rows of the tables of routes, by route.
fn listed(source: &str) -> BTreeMap<&str, Vec<&str>> {
    let enveloped = rows(source, &["route", "who", "fields", "answers"]);
    let plain = rows(source, &["route", "who", "in", "answers", "refuses with"]);
    let mut listed = BTreeMap::new();
    for row in enveloped.into_iter().chain(plain) {
        let name = code(row[0]);
        assert_eq!(listed.insert(name, row), None, "{name} is there twice");
    }
    listed
}

#[test]
fn every_route_is_listed_with_who_may_call_it() {
    let source = page(PAGE);
    let (listed, described) = (listed(&source), described());
    assert_eq!(listed.keys().copied().collect::<Vec<_>>(), described.keys().collect::<Vec<_>>());
    for (name, route) in &described {
        let credential = |one: &Value| Some(one.as_object()?.keys().next()?.clone());
        let credentials = route["security"].as_array().expect("a list").iter().map(credential);
        // None where one of them is no credential. Such a route may still do something with one.
        if let Some(credentials) = credentials.collect::<Option<BTreeSet<_>>>() {
            let listed: BTreeSet<_> = listed[name.as_str()][1].split(", ").map(str::to_owned).collect();
            assert_eq!(listed, credentials, "{name}");
        }
    }
}

#[test]
fn every_field_is_listed() {
    let source = page(PAGE);
    let (listed, described) = (listed(&source), described());
    for (name, route) in &described {
        // A page says itself what is missing, so nothing of what it takes is described as required.
        let is_page = responses(route)["200"]["content"].get("text/html").is_some();
        let listed: BTreeMap<_, _> = codes(listed[name.as_str()][2])
            .into_iter()
            .map(|(field, after)| (field, !after.starts_with('?') && !is_page))
            .collect();
        assert_eq!(listed, fields(route), "{name}");
    }
}

#[test]
fn every_route_that_takes_an_idempotency_key_is_named() {
    let source = page(PAGE);
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
fn every_refusal_is_listed() {
    let source = page(PAGE);
    let (listed, described) = (listed(&source), described());
    for (name, route) in &described {
        let Some(refuses) = listed[name.as_str()].get(4) else { continue };
        let own = responses(route).iter().filter(|(status, response)| {
            !EVERYWHERE.contains(&status.as_str()) && values(response, "code") != ["INVALID_ORIGIN"].into()
        });
        let listed = refuses.split(", ").filter(|word| word.parse::<u16>().is_ok() && *word != "400");
        assert_eq!(listed.collect::<Vec<_>>(), own.map(|(status, _)| status.as_str()).collect::<Vec<_>>(), "{name}");
    }
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

/// What the member `code` or `reason` of an error may be.
fn values<'a>(response: &'a Value, member: &str) -> BTreeSet<&'a str> {
    let examples = description::examples(&response["content"]["application/json"]);
    let members = examples.filter_map(|example| {
        let error = example.get("json").unwrap_or(example);
        error.get(member).or_else(|| error.get("data")?.get(member))?.as_str()
    });
    members.collect()
}
