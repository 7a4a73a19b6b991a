//! docs/reference.md lists the routes with their callers, fields and errors, just as the API's description does.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    sync::LazyLock,
};

use serde_json::{Map, Value, json};
use tests::description;

use super::{codes, page, root, rows};

const PAGE: &str = "docs/reference.md";
/// The statuses that every route can return, which the page lists once.
const EVERYWHERE: [&str; 6] = ["200", "303", "400", "413", "500", "503"];

/// The API's description.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| local::openapi().expect("the functions match the template"));

/// Every described route, as `METHOD /path`, with its operation and its responses.
fn described() -> BTreeMap<String, Value> {
    let routes = description::routes().into_iter();
    let resolved = routes.map(|(name, mut route)| {
        for response in route["responses"].as_object_mut().expect("responses").values_mut() {
            *response = description::resolved(response, &DOCUMENT).clone();
        }
        // The description repeats the summary.
        let summary = route["summary"].as_str().expect("a summary");
        let more = route["description"].as_str().expect("a description").strip_prefix(summary).expect("the summary");
        route["description"] = match more.trim() {
            "" => Value::Null,
            more => more.into(),
        };
        (name, route)
    });
    resolved.collect()
}

/// Renders a part of the page from the routes.
type Print = fn(&BTreeMap<String, Value>) -> String;

/// The generated parts of the page, each after a marker with its name.
const PARTS: [(&str, Print); 6] = [
    ("contents", contents),
    ("v1", |described| of(described, is_v1).map(|(name, route)| section(name, route)).collect()),
    ("objects", |_| SHARED.iter().map(|name| object(name)).collect()),
    ("account", |described| {
        let routes: Vec<_> = of(described, |tag| tag == "account").collect();
        let notes = routes.iter().filter_map(|(name, route)| Some((name, route.get("description")?.as_str()?)));
        let notes: String = notes.map(|(name, note)| wrapped(&format!("- `{name}`: {note}"), "  ")).collect();
        format!("{}\n{}\n{notes}", table_of(routes.iter().copied()), fields_of(&routes))
    }),
    ("pages", |described| table_of(of(described, |tag| tag == "pages"))),
    ("reasons", reasons),
];
const END: &str = "<!-- end -->";

/// With `UPDATE_DOCS`, the parts are written instead of compared.
#[test]
fn the_page_is_printed_from_the_routes() {
    let (mut source, described) = (page(PAGE), described());
    for (part, print) in PARTS {
        let mark = format!("<!-- {part} -->\n");
        let from = source.find(&mark).expect("a mark") + mark.len();
        let to = from + source[from..].find(END).expect("an end");
        let printed = format!("\n{}\n", print(&described).trim());
        if env::var_os("UPDATE_DOCS").is_none() {
            assert_eq!(&source[from..to], printed, "run this test with UPDATE_DOCS=1");
        }
        source.replace_range(from..to, &printed);
    }
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join(PAGE), source).expect("a page");
    }
}

/// The routes with one of these tags, in the order of the tags.
fn of(described: &BTreeMap<String, Value>, is_one: fn(&str) -> bool) -> impl Iterator<Item = (&str, &Value)> {
    let tags = DOCUMENT["tags"].as_array().expect("tags").iter().map(|tag| tag["name"].as_str().expect("a name"));
    tags.filter(move |tag| is_one(tag)).flat_map(|tag| {
        let routes = described.iter().filter(move |(_, route)| route["tags"][0] == tag);
        routes.map(|(name, route)| (name.as_str(), route))
    })
}

fn is_v1(tag: &str) -> bool {
    !["account", "pages"].contains(&tag)
}

/// Links to the sections of the page.
fn contents(described: &BTreeMap<String, Value>) -> String {
    let mut tags: Vec<(&Value, Vec<String>)> = Vec::new();
    for (name, route) in of(described, is_v1) {
        let (tag, title) = (&route["tags"][0], title(name));
        let link = format!("[`{title}`](#{})", title.replace('/', "").to_lowercase());
        match tags.last_mut().filter(|(last, _)| *last == tag) {
            Some((_, links)) => links.push(link),
            None => tags.push((tag, vec![link])),
        }
    }
    tags.into_iter().map(|(_, links)| wrapped(&format!("- {}", links.join(", ")), "  ")).collect()
}

/// The name of a route under `/v1`, such as `webhooks/create`.
fn title(name: &str) -> &str {
    name.rsplit("/v1/").next().expect("a path")
}

/// The section of a route under `/v1`.
fn section(name: &str, route: &Value) -> String {
    let credentials = credentials(route);
    let callers = match credentials[..] {
        ["key", "session"] => match scope(route) {
            Some(scope) => format!("Requires an API key with the scope `{scope}`, or a session."),
            None => "Requires an API key or a session.".to_owned(),
        },
        ["session"] => "Requires a session.".to_owned(),
        _ => "Does not require credentials.".to_owned(),
    };
    let key = if takes_key(route) { " Accepts an `idempotency-key`." } else { "" };
    let media = &route["requestBody"]["content"]["application/json"];
    let fields = rows_of("", &media["schema"]["properties"]["json"], true);
    let fields = if fields.is_empty() { String::new() } else { format!("\n{}", table("field", &fields)) };
    let (answer, shared) = match answer_of(route) {
        answer if SHARED.contains(name_of(answer)) => (String::new(), format!(" Returns {}.", kind(answer))),
        answer => {
            // The page explains these once.
            let is_said = |row: &&str| ["| `message` |", "| `success` |"].iter().any(|start| row.starts_with(start));
            let rows = rows_of("", answer, false);
            let rows: String = rows.lines().filter(|row| !is_said(row)).map(|row| format!("{row}\n")).collect();
            match rows.is_empty() {
                true => (String::new(), " Returns `success` and `message`.".to_owned()),
                false => (format!("\n{}", table("response", &rows)), String::new()),
            }
        }
    };
    let callers = format!("{callers}{key}{shared}");
    let about = ["summary", "description"].into_iter().filter_map(|part| route[part].as_str());
    let about = about.chain([callers.as_str()]).collect::<Vec<_>>().join(" ");
    let refusals = responses(route).iter().filter(|(status, _)| ["409", "429"].contains(&status.as_str()));
    let refusals = refusals.flat_map(|(status, response)| {
        let examples = response["content"]["application/json"]["examples"].as_object().expect("examples");
        examples.iter().map(move |(reason, example)| {
            wrapped(&format!("- {status} `{reason}`: {}", example["summary"].as_str().expect("a summary")), "  ")
        })
    });
    let refusals: String = refusals.collect();
    let example = |media: &Value| compact(&media["example"], 0);
    format!(
        "### {title}\n\n{about}{fields}{answer}\n{refusals}{blank}```http\n{name}\n{call}\n\n{done}\n```\n\n",
        title = title(name),
        about = wrapped(&about, ""),
        blank = if refusals.is_empty() { "" } else { "\n" },
        call = example(media),
        done = example(&responses(route)["200"]["content"]["application/json"]),
    )
}

/// The names of the objects that more than one route returns. These have separate sections.
static SHARED: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for (_, route) in of(&described(), is_v1) {
        shared.extend(references(answer_of(route)).into_iter().filter(|name| !seen.insert(name.clone())));
    }
    shared
});

/// The objects that a schema refers to, directly or indirectly.
fn references(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if schema["$ref"].is_string() {
        let resolved = description::resolved(schema, &DOCUMENT);
        found.extend(references(resolved));
        if resolved["properties"].is_object() && name_of(schema) != "Done" {
            found.insert(name_of(schema).to_owned());
        }
    }
    let members = schema.as_object().into_iter().flat_map(Map::values);
    found.extend(members.chain(schema.as_array().into_iter().flatten()).flat_map(references));
    found
}

fn name_of(reference: &Value) -> &str {
    reference["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default()
}

/// The section of an object that more than one route returns.
fn object(name: &str) -> String {
    let schema = &DOCUMENT["components"]["schemas"][name];
    let about = wrapped(schema["description"].as_str().unwrap_or_default(), "");
    format!("### {name}\n\n{about}\n{}\n", table("member", &rows_of("", schema, false)))
}

fn table(column: &str, rows: &str) -> String {
    format!("| {column} | type | meaning |\n|---|---|---|\n{rows}")
}

/// A row for each member of an object and of its nested objects, except those with their own section.
fn rows_of(before: &str, schema: &Value, is_input: bool) -> String {
    let mut members = members_of(schema);
    if is_input {
        members.sort_by_key(|(.., is_required)| !is_required);
    }
    let rows = members.into_iter().map(|(name, member, is_required)| {
        let required = if is_input && is_required { "Required. " } else { "" };
        let about = member["description"].as_str().expect("a description");
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
        // The page says that `null` counts as absent, so it is named only where it means something else.
        let member = if is_input && !about.contains("`null`") { without_null(member) } else { member };
        let name = format!("{before}{name}");
        let (inner, path) = match member.get("items") {
            Some(items) => (items, format!("{name}[].")),
            None => (&member, format!("{name}.")),
        };
        let inner = if SHARED.contains(name_of(inner)) { String::new() } else { rows_of(&path, inner, is_input) };
        format!("| `{name}` | {} | {required}{about} |\n{inner}", kind(&member))
    });
    rows.collect()
}

/// Removes `null` from the alternatives of a schema.
fn without_null(mut schema: Value) -> Value {
    for name in ["type", "enum", "anyOf"] {
        if let Some(all) = schema.get_mut(name).and_then(Value::as_array_mut) {
            all.retain(|one| !one.is_null() && one != "null" && one["type"] != "null");
        }
    }
    schema
}

/// The members of an object: name, schema, and whether it is required. Members of alternatives are merged.
fn members_of(schema: &Value) -> Vec<(String, Value, bool)> {
    let schema = description::resolved(schema, &DOCUMENT);
    let alternatives = schema["oneOf"].as_array().map_or(std::slice::from_ref(schema), Vec::as_slice);
    let required =
        |one: &Value, name: &str| one["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let mut members: Vec<(String, Value, bool)> = Vec::new();
    for alternative in alternatives {
        for (name, member) in alternative["properties"].as_object().into_iter().flatten() {
            let Some((_, known, _)) = members.iter_mut().find(|(known, ..)| known == name) else {
                let everywhere = alternatives.iter().all(|one| required(one, name));
                members.push((name.clone(), member.clone(), everywhere));
                continue;
            };
            let values = [&*known, member]
                .map(|one| one["enum"].as_array().cloned().unwrap_or_else(|| vec![one["const"].clone()]))
                .map(|values| values.into_iter().filter(|value| !value.is_null()).collect::<Vec<_>>());
            let about = [&*known, member].map(|one| one["description"].as_str().unwrap_or_default().to_owned());
            if values.iter().all(|values| !values.is_empty() && values.iter().all(Value::is_string)) {
                known["enum"] = values.concat().into();
                if about[0] != about[1] {
                    known["description"] = about.join(" ").into();
                }
            }
        }
    }
    members
}

/// The type of a value, and its limits.
fn kind(schema: &Value) -> String {
    if let Some(names) = schema["enum"].as_array() {
        let names: Vec<_> = names.iter().map(|name| format!("`{}`", name.as_str().unwrap_or("null"))).collect();
        let (last, others) = names.split_last().expect("a name");
        return if others.is_empty() { last.clone() } else { format!("{} or {last}", others.join(", ")) };
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if schema["$ref"].is_string() {
        let name = name_of(schema);
        let resolved = description::resolved(schema, &DOCUMENT);
        return if SHARED.contains(name) { format!("[{name}](#{})", name.to_lowercase()) } else { kind(resolved) };
    }
    if let Some(either) = schema["anyOf"].as_array() {
        return either.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    let types: Vec<_> = schema["type"]
        .as_array()
        .map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice)
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let limits = |least: &str, most: &str, unit: &str| match (schema[least].as_u64(), schema[most].as_u64()) {
        (Some(least), Some(most)) if least == most => format!(", {most}{unit}"),
        (Some(least), Some(most)) => format!(", {least} to {most}{unit}"),
        (None, Some(most)) => format!(", at most {most}{unit}"),
        _ => String::new(),
    };
    let of_type = |one: &&str| match (*one, schema["format"].as_str()) {
        ("string", Some("uuid")) => "UUID".to_owned(),
        ("string", Some("date-time")) => "time".to_owned(),
        ("string", Some("email")) => "email".to_owned(),
        ("string", Some("uri")) => format!("URL{}", limits("minLength", "maxLength", " characters")),
        ("string", _) => format!("string{}", limits("minLength", "maxLength", " characters")),
        ("integer", _) => format!("number{}", limits("minimum", "maximum", "")),
        ("array", _) => {
            let limits = limits("minItems", "maxItems", "");
            let items = kind(&schema["items"]);
            let items = items.strip_prefix("string").map_or(items.clone(), |rest| format!("strings{rest}"));
            format!("list of{} {items}", limits.trim_start_matches(','))
        }
        ("null", _) => "`null`".to_owned(),
        ("object", _) => format!("object{}", limits("minProperties", "maxProperties", " members")),
        (other, _) => other.to_owned(),
    };
    types.iter().map(of_type).collect::<Vec<_>>().join(", or ")
}

/// A route's response.
fn answer_of(route: &Value) -> &Value {
    let schema = &responses(route)["200"]["content"]["application/json"]["schema"];
    schema.pointer("/properties/json").unwrap_or(schema)
}

/// Wraps text at the usual length, and indents all lines after the first.
fn wrapped(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if line.len() + word.len() >= 124 {
            lines.push_str(&format!("{}\n", line.trim_end()));
            line = indent.to_owned();
        }
        line.push_str(&format!("{word} "));
    }
    lines + line.trim_end() + "\n"
}

/// Formats JSON on few but readable lines. The envelope is not on a separate line.
fn compact(value: &Value, depth: usize) -> String {
    let (open, parts, close): (_, Vec<String>, _) = match value {
        Value::Object(members) if depth == 0 && members.len() == 1 && members.contains_key("json") => {
            return format!("{{\"json\": {}}}", compact(&value["json"], depth));
        }
        Value::Object(members) => {
            let parts = members.iter().map(|(name, value)| format!("\"{name}\": {}", compact(value, depth + 1)));
            ('{', parts.collect(), '}')
        }
        Value::Array(items) => {
            let inside = depth + usize::from(items.len() != 1);
            ('[', items.iter().map(|item| compact(item, inside)).collect(), ']')
        }
        other => return other.to_string(),
    };
    let line = parts.join(", ");
    // A single element does not need extra lines.
    if (line.len() + 2 * depth < 118 && !line.contains('\n'))
        || matches!(value, Value::Array(items) if items.len() == 1)
    {
        return format!("{open}{line}{close}");
    }
    let indent = "  ".repeat(depth + 1);
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(last) if last.len() + part.len() + indent.len() < 118 && !(last.clone() + &part).contains('\n') => {
                *last = format!("{last}, {part}");
            }
            _ => lines.push(part),
        }
    }
    format!("{open}\n{indent}{}\n{}{close}", lines.join(&format!(",\n{indent}")), "  ".repeat(depth))
}

fn table_of<'a>(routes: impl Iterator<Item = (&'a str, &'a Value)>) -> String {
    let rows = routes.map(|(name, route)| row(name, route)).collect::<String>();
    format!("| route | callers | description | fields | response | errors |\n|---|---|---|---|---|---|\n{rows}")
}

/// The fields of routes. Equal descriptions appear once.
fn fields_of(routes: &[(&str, &Value)]) -> String {
    let mut rows: BTreeSet<String> = BTreeSet::new();
    for (_, route) in routes {
        rows.extend(
            rows_of("", &route["requestBody"]["content"]["application/json"]["schema"], false)
                .lines()
                .map(str::to_owned),
        );
        for one in route["parameters"].as_array().into_iter().flatten() {
            let mut property = one["schema"].clone();
            property["description"] = one["description"].clone();
            let name = one["name"].as_str().expect("a name");
            rows.extend(rows_of("", &json!({ "properties": { name: property } }), false).lines().map(str::to_owned));
        }
    }
    table("field", &rows.into_iter().map(|row| row + "\n").collect::<String>())
}

/// The reasons for a conflict, each with its routes and its remedy.
fn reasons(described: &BTreeMap<String, Value>) -> String {
    let mut reasons: BTreeMap<&str, (&str, Vec<String>)> = BTreeMap::new();
    for (name, route) in of(described, |tag| tag != "pages") {
        let examples = responses(route).get("409").map(|response| &response["content"]["application/json"]["examples"]);
        for (reason, example) in examples.and_then(Value::as_object).into_iter().flatten() {
            let about = example["summary"].as_str().expect("a summary");
            let name = format!("`{}`", title(name).rsplit("/api/auth/").next().unwrap_or(name));
            reasons.entry(reason).or_insert((about, Vec::new())).1.push(name);
        }
    }
    let rows =
        reasons.iter().map(|(reason, (about, routes))| format!("| `{reason}` | {} | {about} |\n", routes.join(", ")));
    format!("| `reason` of a 409 | from | meaning |\n|---|---|---|\n{}", rows.collect::<String>())
}

/// The credentials that a route accepts.
fn credentials(route: &Value) -> Vec<&str> {
    let all = route["security"].as_array().expect("a list").iter();
    all.map(|one| one.as_object().expect("an object").keys().next().map_or("anyone", |name| name)).collect()
}

/// The scope that a key needs.
fn scope(route: &Value) -> Option<&str> {
    route["security"].as_array().expect("a list").iter().find_map(|one| one["key"][0].as_str())
}

fn takes_key(route: &Value) -> bool {
    route["parameters"].as_array().is_some_and(|all| all.iter().any(|one| one["in"] == "header"))
}

/// The row of a route.
fn row(name: &str, route: &Value) -> String {
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
        credentials(route).join(", ") + &scope(route).map_or_else(String::new, |scope| format!(" (`{scope}`)")),
        fields.collect::<Vec<_>>().join(", "),
        own.map(|(status, _)| status.as_str()).collect::<Vec<_>>().join(", "),
    ];
    let summary = route["summary"].as_str().expect("a summary");
    format!("| `{name}` | {credentials} | {summary} | {fields} | {answers}{redirects} | {refusals} |\n")
}

/// A response's members.
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
    let (named, _) = source.split_once(" accept an `idempotency-key` header").expect("a sentence");
    let named = named.rsplit("\n\n").next().unwrap_or_default();
    let named: BTreeSet<_> = codes(named).into_iter().map(|(route, _)| format!("POST /v1/{route}")).collect();
    let described = described();
    let takers = described.iter().filter(|(_, route)| takes_key(route)).map(|(name, _)| name.clone());
    assert_eq!(named, takers.collect());
}

#[test]
fn every_error_code_is_listed_with_its_status() {
    let source = page(PAGE);
    let mut listed = BTreeSet::new();
    for row in rows(&source, &["status", "`code`", "when"]) {
        for (code, after) in codes(row[1]) {
            assert!(listed.insert((row[0], code, after.starts_with(" *"))), "{code} is listed twice");
        }
    }
    // No route describes the response to an unsupported method.
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

fn responses(route: &Value) -> &Map<String, Value> {
    route["responses"].as_object().expect("responses")
}

/// A route's fields, and whether each is required.
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

/// The possible values of an error's `code` or `reason`.
fn values<'a>(response: &'a Value, member: &str) -> BTreeSet<&'a str> {
    let examples = description::examples(&response["content"]["application/json"]);
    let members = examples.filter_map(|example| {
        let error = example.get("json").unwrap_or(example);
        error.get(member).or_else(|| error.get("data")?.get(member))?.as_str()
    });
    members.collect()
}
