//! The documentation of the API: an index of its calls, and a page for each, made from `docs/openapi.json`. It needs no
//! script and no session.

use std::sync::{Arc, LazyLock};

use common::{
    error::{Error, Result},
    http::{Call, Fault, Public, Reply, Route, Typed, page::Page},
};
use maud::{Markup, Render, html};
use serde_json::{Map, Value};

use crate::app::App;

const INDEX: &str = "/docs";

/// The description of the API. A test compares it with the routes.
static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../../docs/openapi.json")).unwrap_or_default());

/// The groups of calls, by their tags, and their titles. The pages for people need no documentation.
const GROUPS: [(&str, &str); 5] = [
    ("webhooks", "Webhook endpoints"),
    ("deliveries", "Deliveries"),
    ("tenant", "Organization"),
    ("auth", "Signing up and browser logins"),
    ("account", "Accounts, in plain JSON"),
];
/// The depth to which fields are listed.
const DEEPEST: usize = 4;

pub(crate) fn index() -> Route<App> {
    Route::get(INDEX, Public, |_, _| Ok(()), open_index)
        .summary("Shows the documentation of the API, or redirects to `DOCS_URL`.")
        .redirects()
}

pub(crate) fn call() -> Route<App> {
    Route::get(
        "/docs/{call}",
        Public,
        |_, fields| Ok(fields.typed(&[("call", "The `operationId` of the call.")])),
        open,
    )
    .summary("Shows the fields, the response and the errors of a call.")
    .faults(&[Fault::NotFound])
}

async fn open_index(app: Arc<App>, call: Call<()>, (): ()) -> Result<Reply> {
    if app.docs.0 != INDEX {
        return Ok(Reply::Redirect { to: app.docs.0.clone(), cookies: Vec::new() });
    }
    let groups = GROUPS.map(|(tag, title)| (title, operations().filter(|call| call.is_in(tag)).collect::<Vec<_>>()));
    let content = html! {
        (prose(text(within(&DOCUMENT, "/info"), "description")))
        h2 { "Authentication" }
        p { "Programs send an " a href="/console/keys" { "API key" } " in the header " code { "x-api-key" } ":" }
        (scrolling("Example", &format!("curl {}/v1/webhooks/list -H \"x-api-key: $KEY\" -d '{{}}'", call.base)))
        @for (title, calls) in &groups {
            h2 { (title) }
            dl .calls {
                @for call in calls {
                    dt { a .mono href={ (INDEX) "/" (call.id()) } { (call.name()) } }
                    dd { (inline(text(call.operation, "summary"))) }
                }
            }
        }
    };
    Ok(Page::new("API documentation", content).within(frame()).into())
}

async fn open(_: Arc<App>, call: Call<()>, link: Typed) -> Result<Page> {
    let found = operations().find(|found| found.id() == link.get("call")).ok_or(Error::NotFound("Call not found"))?;
    let operation = found.operation;
    let (input, output) = (found.input(), found.output());
    let content = html! {
        (prose(text(operation, "summary")))
        (prose(text(operation, "description")))
        dl {
            dt { "Request" } dd .mono { (found.method) " " (found.path) }
            dt { "Called with" } dd { (found.callers()) }
        }
        h2 { "Fields" }
        @if input.is_empty() { p { "The call has no fields." } } @else { (table(&input, true)) }
        h2 { "Response" }
        @if output.is_empty() { p { "The response has no fields." } } @else { (table(&output, false)) }
        h2 { "Errors" }
        dl { @for (status, meaning) in found.errors() { dt { (status) } dd { (inline(&meaning)) } } }
        h2 { "Example" }
        (scrolling("Request", &found.curl(call.base.as_str())))
        @if let Some(example) = found.answer().get("example") { (scrolling("Response", &pretty(example))) }
        p { a href=(INDEX) { "All calls" } }
    };
    Ok(Page::new(found.name().to_owned(), content).within(frame()))
}

/// The header of the documentation, which readers open with and without a session.
fn frame() -> Markup {
    html! {
        nav aria-label="Documentation" {
            a href=(INDEX) { "API documentation" }
            a href="/console" { "Console" }
        }
    }
}

/// A call of the API in the description.
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

impl Operation {
    fn id(&self) -> &'static str {
        text(self.operation, "operationId")
    }

    /// The path without the part that all calls of its kind share.
    fn name(&self) -> &'static str {
        let path = self.path.strip_prefix("/v1/").or(self.path.strip_prefix("/api/auth/"));
        path.unwrap_or(self.path)
    }

    fn is_in(&self, tag: &str) -> bool {
        elements(&self.operation["tags"]).any(|own| own == tag)
    }

    fn callers(&self) -> String {
        let name = |scheme: &'static Value| match members(scheme).next() {
            None => "no credential",
            Some(("key", _)) => "an API key",
            Some(_) => "a session",
        };
        elements(&self.operation["security"]).map(name).collect::<Vec<_>>().join(" or ")
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

    fn curl(&self, base: &str) -> String {
        let key = if self.callers().contains("key") { " \\\n  -H \"x-api-key: $KEY\"" } else { "" };
        match self.request().get("example") {
            Some(example) => {
                format!("curl {base}{}{key} \\\n  -d '{}'", self.path, pretty(example).replace('\'', "'\\''"))
            }
            None => format!("curl {base}{}{key}", self.path),
        }
    }
}

/// A field in a table.
struct Field {
    name: String,
    kind: String,
    about: &'static str,
    is_required: bool,
}

/// The fields inside `json`, if the schema is an envelope, and else those of the schema.
fn within_envelope(schema: &'static Value) -> Vec<Field> {
    let schema = resolved(schema);
    let mut fields = Vec::new();
    list(&mut fields, schema["properties"].get("json").unwrap_or(schema), "", 0);
    fields
}

/// Lists the fields of an object, of the elements of a list, and of all forms of a choice.
fn list(fields: &mut Vec<Field>, schema: &'static Value, prefix: &str, depth: usize) {
    let schema = resolved(schema);
    if depth > DEEPEST {
        return;
    }
    for choice in ["oneOf", "anyOf"].into_iter().flat_map(|choice| elements(&schema[choice])) {
        list(fields, choice, prefix, depth);
    }
    if schema["items"].is_object() {
        list(fields, &schema["items"], &format!("{prefix}[]"), depth + 1);
    }
    for (name, property) in members(&schema["properties"]) {
        let is_required = elements(&schema["required"]).any(|required| required == name);
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let target = resolved(property);
        if let Some(field) = fields.iter_mut().find(|field| field.name == name) {
            let kind = kind(target);
            if field.kind != kind && !field.kind.split(" or ").any(|known| known == kind) {
                field.kind = format!("{} or {kind}", field.kind);
            }
            continue;
        }
        let about =
            [text(property, "description"), text(target, "description")].into_iter().find(|text| !text.is_empty());
        fields.push(Field { name: name.clone(), kind: kind(target), about: about.unwrap_or_default(), is_required });
        list(fields, property, &name, depth + 1);
    }
}

/// The type of a value in words.
fn kind(schema: &'static Value) -> String {
    let schema = resolved(schema);
    let values: Vec<_> = elements(&schema["enum"]).chain(schema.get("const")).map(plain).collect();
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
        ("array", _) => format!("list of {}", kind(&schema["items"])),
        (name, _) => name.to_owned(),
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// The schema or response that a reference names, and any other one itself.
fn resolved(value: &'static Value) -> &'static Value {
    let path = value.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    path.and_then(|path| DOCUMENT.pointer(path)).unwrap_or(value)
}

/// The value at a JSON pointer, or null.
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

/// Text in a box that scrolls sideways. It takes the focus, so that the keyboard can scroll it.
fn scrolling(name: &str, text: &str) -> Markup {
    html! { pre tabindex="0" role="group" aria-label=(name) { (text) } }
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

/// A paragraph of Markdown.
fn prose(text: &str) -> Markup {
    html! { @if !text.is_empty() { p { (inline(text)) } } }
}

/// Markdown of one paragraph: the only marks of the description are those of code.
fn inline(text: &str) -> impl Render {
    html! {
        @for (number, part) in text.split('`').enumerate() {
            @if number % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
