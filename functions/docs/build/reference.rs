//! Generates the index of the documentation and the pages about API calls from `docs/openapi.json`.

use std::sync::LazyLock;

use super::API;
use maud::{Markup, Render, html};
use serde_json::{Map, Value};

/// The placeholder for a session cookie in examples.
const COOKIE: &str = "$COOKIE";

/// The OpenAPI description. A test compares it with the routes.
static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../docs/openapi.json")).expect("docs/openapi.json is JSON")
});

/// The groups of calls, by tag and title. The console's routes need no documentation.
const GROUPS: [(&str, &str); 6] = [
    ("webhooks", "Webhook endpoints"),
    ("deliveries", "Deliveries"),
    ("tenant", "Organization"),
    ("audit", "Audit log"),
    ("auth", "Sign-up and browser logins"),
    ("account", "Accounts, in plain JSON"),
];
/// The names of the security schemes.
const KEY: &str = "key";
const SESSION: &str = "session";

/// The maximum depth at which nested fields are listed.
const DEEPEST: usize = 4;

/// The ids of the calls that have a page.
pub(crate) fn ids() -> impl Iterator<Item = &'static str> {
    calls().map(|call| call.id())
}

/// The calls that come first in their group, in this order. Others follow in the order of their paths.
const FIRST: [&str; 14] = [
    "webhooksCreate",
    "webhooksList",
    "webhooksUpdate",
    "webhooksTest",
    "webhooksDelete",
    "deliveriesList",
    "deliveriesGet",
    "deliveriesResend",
    "deliveriesRecover",
    "deliveriesStats",
    "deliveriesReceive",
    "deliveriesSettle",
    "deliveriesErase",
    "authSignupAndCreateOrg",
];

/// Renders the index. `guides` are the links to the guides for customers, and `operators` those for the operator.
pub(crate) fn index(guides: &Markup, operators: &Markup) -> Markup {
    let groups = GROUPS.map(|(tag, title)| {
        let mut calls: Vec<_> = operations().filter(|call| call.is_in(tag)).collect();
        calls.sort_by_key(|call| FIRST.iter().position(|id| *id == call.id()).unwrap_or(FIRST.len()));
        (title, calls)
    });
    html! {
        p {
            "A job is a piece of work that the operator of this service runs for your organization on their platform. \
             When a job completes or fails, the platform reports it as an event, and the service posts the event to \
             your webhook endpoints. Each attempt is signed, retried if it fails, and recorded in the delivery log."
        }
        (guides)
        h2 { "Calls" }
        (prose(text(within(&DOCUMENT, "/info"), "description")))
        h2 { "Authentication" }
        p { "Programs send an " a href="/console/keys" { "API key" } " in the header " code { "x-api-key" } ":" }
        (scrolling("Example", &format!("curl {API}/v1/webhooks/list -H \"x-api-key: $KEY\" -d '{{}}'")))
        @for (title, calls) in &groups {
            h2 { (title) }
            dl .calls {
                @for call in calls {
                    dt { a .mono href={ "/docs/" (call.id()) } { (call.name()) } }
                    dd { (inline(text(call.operation, "summary"))) }
                }
            }
        }
        h2 { "For the operator of this service" }
        (operators)
    }
}

/// Returns the id, the name and the page of each call.
pub(crate) fn pages() -> impl Iterator<Item = (&'static str, &'static str, Markup)> {
    calls().map(|call| (call.id(), call.name(), call.page()))
}

/// An API call in the description.
struct Operation {
    method: String,
    path: &'static str,
    operation: &'static Value,
}

fn operations() -> impl Iterator<Item = Operation> {
    members(within(&DOCUMENT, "/paths")).flat_map(|(path, methods)| {
        members(methods).map(move |(method, operation)| Operation { method: method.to_uppercase(), path, operation })
    })
}

/// Returns the operations of all groups.
fn calls() -> impl Iterator<Item = Operation> {
    operations().filter(|call| GROUPS.iter().any(|(tag, _)| call.is_in(tag)))
}

impl Operation {
    fn page(&self) -> Markup {
        let (input, output) = (self.input(), self.output());
        html! {
            (prose(text(self.operation, "summary")))
            (prose(text(self.operation, "description")))
            dl {
                dt { "Request" } dd .mono { (self.method) " " (self.path) }
                dt { "Authentication" } dd { (self.callers()) }
            }
            h2 { "Fields" }
            @if input.is_empty() { p { "The call has no fields." } } @else { (table(&input, true)) }
            h2 { "Response" }
            @if output.is_empty() { p { "The response has no fields." } } @else { (table(&output, false)) }
            h2 { "Errors" }
            dl { @for (status, meaning) in self.errors() { dt { (status) } dd { (inline(&meaning)) } } }
            h2 { "Example" }
            (scrolling("Request", &self.curl()))
            @if self.credential() == Some(SESSION) {
                p { (inline("`$COOKIE` is the `name=value` pair at the start of the `set-cookie` header in the response \
                             to a sign-in or sign-up.")) }
            }
            @if let Some(example) = self.answer().get("example") { (scrolling("Response", &pretty(example))) }
            p { a href="/docs" { "All calls" } }
        }
    }

    fn id(&self) -> &'static str {
        text(self.operation, "operationId")
    }

    /// Returns the path without the prefix that all calls of this style share.
    fn name(&self) -> &'static str {
        let path = self.path.strip_prefix("/v1/").or(self.path.strip_prefix("/api/auth/"));
        path.unwrap_or(self.path)
    }

    fn is_in(&self, tag: &str) -> bool {
        elements(&self.operation["tags"]).any(|own| own == tag)
    }

    fn callers(&self) -> String {
        let scope = elements(&self.operation["security"]).find_map(|scheme| scheme.pointer("/key/0")?.as_str());
        let names = self.schemes().map(|scheme| match (scheme, scope) {
            (None, _) => "no credential".to_owned(),
            (Some(KEY), Some(scope)) => format!("an API key with the scope {scope}"),
            (Some(KEY), None) => "an API key".to_owned(),
            (Some(_), _) => "a session".to_owned(),
        });
        names.collect::<Vec<_>>().join(" or ")
    }

    /// Returns the security schemes that the call accepts; `None` stands for a call without a credential.
    fn schemes(&self) -> impl Iterator<Item = Option<&'static str>> {
        elements(&self.operation["security"]).map(|scheme| members(scheme).next().map(|(name, _)| name))
    }

    /// Returns the credential for the example: a key if the call accepts one.
    fn credential(&self) -> Option<&'static str> {
        self.schemes().flatten().min_by_key(|scheme| *scheme != KEY)
    }

    fn request(&self) -> &'static Value {
        within(self.operation, "/requestBody/content/application~1json")
    }

    fn answer(&self) -> &'static Value {
        within(self.operation, "/responses/200/content/application~1json")
    }

    fn input(&self) -> Vec<Field> {
        let parameters = elements(&self.operation["parameters"]).map(|parameter| Field {
            name: text(parameter, "name").to_owned(),
            kind: match text(parameter, "in") {
                "header" => format!("header, {}", kind(&parameter["schema"])),
                _ => kind(&parameter["schema"]),
            },
            about: text(parameter, "description"),
            is_required: parameter["required"] == true,
        });
        let mut fields = within_envelope(&self.request()["schema"]);
        fields.extend(parameters);
        fields
    }

    fn output(&self) -> Vec<Field> {
        within_envelope(&self.answer()["schema"])
    }

    fn errors(&self) -> impl Iterator<Item = (&'static str, String)> {
        let refused = members(&self.operation["responses"]).filter(|(status, _)| !status.starts_with(['2', '3']));
        refused.map(|(status, response)| (status, text(resolved(response), "description").to_owned()))
    }

    /// Returns the call as a `curl` command. With a cookie, a `POST` also needs the header `origin`.
    fn curl(&self) -> String {
        let credential = match self.credential() {
            Some(KEY) => " \\\n  -H \"x-api-key: $KEY\"".to_owned(),
            Some(_) if self.method == "POST" => {
                format!(" \\\n  -H \"cookie: {COOKIE}\" -H \"origin: {API}\"")
            }
            Some(_) => format!(" \\\n  -H \"cookie: {COOKIE}\""),
            None => String::new(),
        };
        let body = self
            .request()
            .get("example")
            .map_or_else(String::new, |example| format!(" \\\n  -d '{}'", pretty(example).replace('\'', "'\\''")));
        format!("curl {API}{}{credential}{body}", self.path)
    }
}

/// A field in a table.
#[derive(Clone)]
struct Field {
    name: String,
    kind: String,
    about: &'static str,
    is_required: bool,
}

/// Returns the fields inside `json` if the schema is an envelope, and otherwise the fields of the schema.
fn within_envelope(schema: &'static Value) -> Vec<Field> {
    let schema = resolved(schema);
    let mut fields = Vec::new();
    list(&mut fields, schema["properties"].get("json").unwrap_or(schema), "", 0);
    fields
}

/// Adds the fields of an object, of the elements of a list, and of all alternatives of a choice.
fn list(fields: &mut Vec<Field>, schema: &'static Value, prefix: &str, depth: usize) {
    let schema = resolved(schema);
    if depth > DEEPEST {
        return;
    }
    // Beside properties, the alternatives only restrict them.
    let alternatives = ["oneOf", "anyOf"].into_iter().filter(|_| schema.get("properties").is_none());
    let choices = alternatives.flat_map(|choice| elements(&schema[choice])).map(|choice| {
        let mut own = Vec::new();
        list(&mut own, choice, prefix, depth);
        own
    });
    let choices: Vec<_> = choices.filter(|own| !own.is_empty()).collect();
    for field in choices.iter().flatten() {
        // If only some alternatives require a field, the field's description explains when it is required.
        let requires = |own: &Vec<Field>| own.iter().any(|own| own.is_required && own.name == field.name);
        add(fields, Field { is_required: choices.iter().all(requires), ..field.clone() });
    }
    if schema["items"].is_object() {
        list(fields, &schema["items"], &format!("{prefix}[]"), depth + 1);
    }
    let is_required = |name: &str| elements(&schema["required"]).any(|required| required == name);
    let mut properties: Vec<_> = members(&schema["properties"]).collect();
    properties.sort_by_key(|(name, _)| !is_required(name));
    for (name, property) in properties {
        let is_required = is_required(name);
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let target = resolved(property);
        let about =
            [text(property, "description"), text(target, "description")].into_iter().find(|text| !text.is_empty());
        add(fields, Field { name: name.clone(), kind: kind(target), about: about.unwrap_or_default(), is_required });
        list(fields, property, &name, depth + 1);
    }
}

/// Adds a field. If the field is already listed, adds only its type.
fn add(fields: &mut Vec<Field>, field: Field) {
    match fields.iter_mut().find(|known| known.name == field.name) {
        Some(known) if known.kind.split(" or ").any(|kind| kind == field.kind) || known.kind == field.kind => {}
        Some(known) => known.kind = format!("{} or {}", known.kind, field.kind),
        None => fields.push(field),
    }
}

/// Describes the type of a value in words.
fn kind(schema: &'static Value) -> String {
    let schema = resolved(schema);
    let values = elements(&schema["enum"]).filter(|value| !value.is_null());
    let values: Vec<_> = values.chain(schema.get("const")).map(plain).collect();
    if !values.is_empty() {
        return values.join(" or ");
    }
    let choices: Vec<_> =
        ["oneOf", "anyOf"].into_iter().flat_map(|choice| elements(&schema[choice])).map(kind).collect();
    if !choices.is_empty() {
        let mut choices = choices;
        choices.dedup();
        return choices.join(" or ");
    }
    let names: Vec<_> = match &schema["type"] {
        Value::Array(names) => names.iter().map(plain).collect(),
        Value::Null => vec!["any JSON".to_owned()],
        name => vec![plain(name)],
    };
    let words = names.iter().map(|name| match (name.as_str(), text(schema, "format")) {
        ("string", "uuid") => "UUID".to_owned(),
        ("string", "date-time") => "time".to_owned(),
        ("string", "uri") => "URL".to_owned(),
        ("string", "email") => "email".to_owned(),
        ("array", _) => match kind(&schema["items"]) {
            choices if choices.contains(" or ") => format!("list of ({choices})"),
            kind => format!("list of {kind}"),
        },
        (name, _) => name.to_owned(),
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// Resolves a reference to a schema or response. Returns other values unchanged.
fn resolved(value: &'static Value) -> &'static Value {
    let path = value.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    path.and_then(|path| DOCUMENT.pointer(path)).unwrap_or(value)
}

/// Returns the value at a JSON pointer, or null.
fn within(value: &'static Value, pointer: &str) -> &'static Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

fn text(value: &'static Value, name: &str) -> &'static str {
    value[name].as_str().unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn members(value: &'static Value) -> impl Iterator<Item = (&'static str, &'static Value)> {
    value.as_object().into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}

fn elements(value: &'static Value) -> impl Iterator<Item = &'static Value> {
    value.as_array().into_iter().flatten()
}

fn pretty(example: &Value) -> String {
    serde_json::to_string_pretty(example).unwrap_or_default()
}

/// Renders text in a box that scrolls sideways. The box is focusable, so that keyboard users can scroll it.
fn scrolling(name: &str, text: &str) -> Markup {
    html! { pre .code tabindex="0" role="group" aria-label=(name) { (text) } }
}

fn table(fields: &[Field], is_input: bool) -> Markup {
    html! {
        dl .fields {
            @for field in fields {
                dt { code { (field.name) } }
                dd {
                    span .soft { (field.kind) @if is_input && field.is_required { ", required" } }
                    (prose(field.about))
                }
            }
        }
    }
}

/// Renders a paragraph of Markdown.
fn prose(text: &str) -> Markup {
    html! { @if !text.is_empty() { p { (inline(text)) } } }
}

/// Renders inline Markdown. Code is the only markup in the OpenAPI description.
fn inline(text: &str) -> impl Render {
    html! {
        @for (number, part) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
