//! The OpenAPI 3.1 description of the API (<https://spec.openapis.org/oas/v3.1.1.html>), generated from the routes.
//! Only the local runner and the tests build this module: no deployed function contains it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use super::{
    Fault, Function, RouteInfo, Takes, Wire,
    auth::Credential,
    fields::{IDEMPOTENCY_KEY, Presence},
    route::BoundRoute,
};

/// The schemas of a route's input and output.
pub struct Shapes {
    pub(super) input: FieldDescriptions,
    /// `None` for a page.
    pub(super) output: Option<Schema>,
}

/// The fields that an input asks for.
#[derive(Default)]
pub struct FieldDescriptions {
    pub(super) generator: SchemaGenerator,
    fields: Vec<(&'static str, Presence, Schema)>,
    /// Whether it takes an idempotency key.
    pub(super) takes_key: bool,
}

impl FieldDescriptions {
    pub(super) fn new(generator: SchemaGenerator) -> Self {
        Self { generator, fields: Vec::new(), takes_key: false }
    }

    pub(super) fn note<T: JsonSchema>(&mut self, name: &'static str, presence: Presence) {
        let schema = match presence {
            Presence::Nullable => self.generator.subschema_for::<Option<T>>(),
            Presence::Required | Presence::Optional => self.generator.subschema_for::<T>(),
        };
        self.fields.push((name, presence, schema));
    }

    pub(super) fn note_number(&mut self, name: &'static str, range: &RangeInclusive<u32>) {
        let schema = json_schema!({ "type": "integer", "minimum": range.start(), "maximum": range.end() });
        self.fields.push((name, Presence::Optional, schema));
    }

    fn required(&self) -> Vec<&'static str> {
        self.fields.iter().filter(|(_, presence, _)| *presence == Presence::Required).map(|(name, ..)| *name).collect()
    }

    /// Additional properties stay allowed: unknown fields are ignored.
    fn schema(&self) -> Value {
        let properties: Map<String, Value> =
            self.fields.iter().map(|(name, _, schema)| ((*name).to_owned(), schema.clone().into())).collect();
        json!({ "type": "object", "properties": properties, "required": self.required() })
    }
}

/// The description of the API that `functions` serve. `webhooks` are the requests that we send to receivers.
pub fn document<'a>(functions: impl Iterator<Item = &'a Function>, version: &str, webhooks: Value) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for function in functions {
        for route in function.routes.iter() {
            let operation = operation(route, function.wire, &mut generator);
            paths.entry(route.info.path).or_default().insert(route.info.method.as_str().to_lowercase(), operation);
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Accounts and webhooks",
            "version": version,
            "description": DESCRIPTION,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:9000", "description": "cargo local" }],
        "tags": [
            { "name": "auth", "description": "Signing up, in the envelope" },
            { "name": "webhooks", "description": "Webhook endpoints, in the envelope" },
            { "name": "deliveries", "description": "The delivery log, in the envelope" },
            { "name": "account", "description": "The command-line authentication flow, in plain JSON" },
            { "name": "pages", "description": "Pages for people" },
        ],
        "paths": paths,
        "webhooks": webhooks,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "key": {
                    "type": "apiKey", "in": "header", "name": "x-api-key",
                    "description": "An API key of the organization.",
                },
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "__Host-session_token",
                    "description": "The session cookie; `session_token` where the API is reached over plain http. A \
                                    `POST` with a cookie needs a trusted `Origin` header.",
                },
            },
        },
    });
    add_examples(&mut document);
    document
}

const DESCRIPTION: &str = "Routes under `/v1` take their fields in `{\"json\": {...}}` and answer in the same envelope; \
    routes under `/api/auth` speak plain JSON. Every answer has an `x-request-id`. API Gateway itself answers a path that \
    no function is mapped to with 404, and a route that is called too often with 429, both as `{\"message\": \"...\"}`.";

fn operation(route: &BoundRoute, wire: Wire, generator: &mut SchemaGenerator) -> Value {
    let info = &route.info;
    let shapes = (route.describe)(generator);
    let mut operation = json!({
        "operationId": operation_id(info, wire),
        "summary": info.summary,
        "tags": [tag(info.path, wire)],
        "security": security(info.credentials),
        "responses": responses(info, wire, &shapes),
    });
    let Value::Object(members) = &mut operation else { return operation };
    if shapes.input.takes_key {
        members.insert("parameters".to_owned(), json!([idempotency_key()]));
    }
    match info.takes {
        Takes::Query => {
            let parameters = shapes.input.fields.iter().map(|(name, presence, schema)| {
                json!({ "name": name, "in": "query", "required": *presence == Presence::Required, "schema": schema })
            });
            members.insert("parameters".to_owned(), parameters.collect());
        }
        Takes::Json | Takes::Form => {
            let media =
                if info.takes == Takes::Form { "application/x-www-form-urlencoded" } else { "application/json" };
            let (fields, required) = (shapes.input.schema(), !shapes.input.required().is_empty());
            let schema = match wire {
                Wire::Plain | Wire::Page => fields,
                Wire::Envelope if required => {
                    json!({ "type": "object", "properties": { "json": fields }, "required": ["json"] })
                }
                Wire::Envelope => json!({ "type": "object", "properties": { "json": fields } }),
            };
            members.insert(
                "requestBody".to_owned(),
                json!({ "required": required, "content": { media: { "schema": schema } } }),
            );
        }
    }
    operation
}

fn idempotency_key() -> Value {
    json!({
        "name": IDEMPOTENCY_KEY, "in": "header", "required": false,
        "description": "A call that is repeated with the same key within 24 hours answers as the first did, and does \
                        nothing.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
    })
}

/// `webhooksCreate`, `getVerifyEmail`, `getResetPasswordPage`: the words of the path, with the method where paths alone are
/// not unique. A page can have the name of a route under `/api/auth`.
fn operation_id(info: &RouteInfo, wire: Wire) -> String {
    let path = info.path.trim_start_matches("/v1/").trim_start_matches("/api/auth/");
    let words = path.split(['/', '-']);
    let mut id = match wire {
        Wire::Envelope => String::new(),
        Wire::Plain | Wire::Page => info.method.as_str().to_lowercase(),
    };
    for word in words {
        let mut letters = word.chars();
        let first = letters.next().map(|first| if id.is_empty() { first } else { first.to_ascii_uppercase() });
        id.extend(first.into_iter().chain(letters));
    }
    if wire == Wire::Page && !info.path.starts_with("/api/auth/") {
        id.push_str("Page");
    }
    id
}

fn tag(path: &str, wire: Wire) -> &str {
    match wire {
        Wire::Envelope => path.trim_start_matches("/v1/").split('/').next().unwrap_or_default(),
        Wire::Plain => "account",
        Wire::Page => "pages",
    }
}

fn security(credentials: &[Credential]) -> Value {
    let one = |credential: &Credential| match credential {
        Credential::Key => json!({ "key": [] }),
        Credential::Session => json!({ "session": [] }),
        Credential::None => json!({}),
    };
    credentials.iter().map(one).collect()
}

fn responses(info: &RouteInfo, wire: Wire, shapes: &Shapes) -> Value {
    let mut responses = Map::new();
    let mut add = |status: u16, response: Value| responses.insert(status.to_string(), response);
    match &shapes.output {
        Some(schema) => {
            let schema = match wire {
                Wire::Plain | Wire::Page => schema.clone().into(),
                Wire::Envelope => json!({ "type": "object", "properties": { "json": schema }, "required": ["json"] }),
            };
            add(200, json!({ "description": "Done.", "content": { "application/json": { "schema": schema } } }));
        }
        None => {
            add(200, page("A page."));
        }
    }
    if info.redirects {
        add(303, json!({ "description": "Done: the browser goes on at the `Location`." }));
    }
    let everywhere = errors(info, &[], wire);
    for (status, errors) in errors(info, info.faults, wire) {
        if shapes.output.is_none() && !everywhere.contains_key(&status) {
            add(status, page("A page that says why."));
            continue;
        }
        let codes: BTreeSet<&str> = errors.iter().map(|(code, _)| code.as_str()).collect();
        let codes = Vec::from_iter(codes);
        let reasons: Vec<&str> = errors.iter().filter_map(|(_, reason)| *reason).collect();
        let mut media = json!({ "application/json": { "schema": error_schema(wire, status, &codes, &reasons) } });
        if let (None, Value::Object(media)) = (&shapes.output, &mut media) {
            media.insert("text/html".to_owned(), json!({ "schema": { "type": "string" } }));
        }
        add(status, json!({ "description": describe(status, &codes, &reasons), "content": media }));
    }
    responses.into()
}

fn page(description: &str) -> Value {
    json!({ "description": description, "content": { "text/html": { "schema": { "type": "string" } } } })
}

/// Status, code and, for a conflict, reason of the errors that every route of its kind can return, and of `faults`.
fn errors(info: &RouteInfo, faults: &[Fault], wire: Wire) -> BTreeMap<u16, Vec<(String, Option<&'static str>)>> {
    let plain = wire != Wire::Envelope;
    let mut errors: BTreeMap<u16, Vec<(String, Option<&'static str>)>> = BTreeMap::new();
    let mut add = |status, code: &str, reason| errors.entry(status).or_default().push((code.to_owned(), reason));
    add(400, "BAD_REQUEST", None);
    add(413, "PAYLOAD_TOO_LARGE", None);
    add(500, "INTERNAL_SERVER_ERROR", None);
    add(503, "SERVICE_UNAVAILABLE", None);
    if !info.credentials.contains(&Credential::None) {
        add(401, "UNAUTHORIZED", None);
    }
    if info.method == super::Method::POST {
        add(403, if plain { "INVALID_ORIGIN" } else { "FORBIDDEN" }, None);
    }
    for fault in faults {
        match fault {
            Fault::WrongPassword if plain => add(401, "INVALID_EMAIL_OR_PASSWORD", None),
            Fault::WrongPassword => add(401, "UNAUTHORIZED", None),
            Fault::InvalidPassword if plain => add(400, "INVALID_PASSWORD", None),
            Fault::InvalidToken if plain => add(400, "INVALID_TOKEN", None),
            Fault::ConfirmationRequired if plain => add(400, "CONFIRMATION_REQUIRED", None),
            Fault::InvalidPassword | Fault::InvalidToken | Fault::ConfirmationRequired => {
                add(400, "BAD_REQUEST", None);
            }
            Fault::EmailNotVerified if plain => add(403, "EMAIL_NOT_VERIFIED", None),
            Fault::NotAMember if plain => add(403, "USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION", None),
            Fault::EmailNotVerified | Fault::OwnersOnly | Fault::NotAMember => add(403, "FORBIDDEN", None),
            Fault::NotFound => add(404, "NOT_FOUND", None),
            Fault::Conflict(reason) if plain => add(409, &reason.to_uppercase(), Some(reason)),
            Fault::Conflict(reason) => add(409, "CONFLICT", Some(reason)),
            Fault::TooMany => add(429, "TOO_MANY_REQUESTS", None),
        }
    }
    errors
}

fn describe(status: u16, codes: &[&str], reasons: &[&str]) -> String {
    let why = match status {
        400 => "The request is malformed, or the issues say what is wrong with its fields.",
        401 => "The credential is missing or not valid.",
        403 => "The caller may not do this.",
        404 => "It does not exist, or it belongs to another tenant.",
        409 => "The request conflicts with what is stored.",
        413 => "The body has more than 64 KiB.",
        429 => "Too many attempts; `Retry-After` gives the seconds to wait.",
        503 => "Contention or throttling that outlasted the retries: try again.",
        _ => "An internal error; the cause is in the log.",
    };
    let names = if reasons.is_empty() { codes } else { reasons };
    format!("{why} {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
}

/// The schema of an error response.
fn error_schema(wire: Wire, status: u16, codes: &[&str], reasons: &[&str]) -> Value {
    let text = json!({ "type": "string" });
    let issues = json!({ "type": "array", "items": {
        "type": "object",
        "properties": {
            "code": { "enum": ["invalid_type", "invalid_format", "too_small", "too_big"] },
            "path": { "type": "array", "items": text },
            "message": text,
        },
        "required": ["code", "path", "message"],
        "additionalProperties": false,
    }});
    let data = match status {
        400 => Some(("issues", issues)),
        409 => Some(("reason", json!({ "enum": reasons }))),
        _ => None,
    };
    let mut properties = json!({ "code": { "enum": codes }, "message": text });
    let mut required = vec!["code", "message"];
    let Value::Object(members) = &mut properties else { return properties };
    if wire != Wire::Envelope {
        if let Some((name, schema)) = data {
            members.insert(name.to_owned(), schema);
        }
    } else {
        members.insert("defined".to_owned(), json!({ "const": false }));
        members.insert("status".to_owned(), json!({ "const": status }));
        required.extend(["defined", "status"]);
        if let Some((name, schema)) = data {
            let data = json!({
                "type": "object", "properties": { name: schema }, "required": [name], "additionalProperties": false,
            });
            members.insert("data".to_owned(), data);
        }
    }
    if status == 409 {
        required.push(if wire == Wire::Envelope { "data" } else { "reason" });
    }
    let error =
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    match wire {
        Wire::Plain | Wire::Page => error,
        Wire::Envelope => json!({
            "type": "object", "properties": { "json": error }, "required": ["json"], "additionalProperties": false,
        }),
    }
}

/// Adds an example to every JSON body, composed of the examples of its parts.
fn add_examples(document: &mut Value) {
    let schemas = document.pointer("/components/schemas").cloned().unwrap_or_default();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(|path| path.values_mut()) {
        if let Some(content) = operation.pointer_mut("/requestBody/content") {
            add_example(content, &schemas);
        }
        let responses = operation["responses"].as_object_mut().into_iter().flat_map(|responses| responses.values_mut());
        for content in responses.filter_map(|response| response.get_mut("content")) {
            add_example(content, &schemas);
        }
    }
}

fn add_example(content: &mut Value, schemas: &Value) {
    let media = content.as_object_mut().into_iter().flat_map(|media| media.iter_mut());
    for (_, media) in media.filter(|(name, _)| *name != "text/html") {
        let example = example(&media["schema"], schemas);
        media["example"] = example;
    }
}

/// An example of `schema`: the first alternative that has a meaningful value.
fn example(schema: &Value, schemas: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return example(&schemas[name], schemas);
    }
    let mut given =
        [schema.get("const"), schema.pointer("/examples/0"), schema.pointer("/enum/0")].into_iter().flatten();
    if let Some(given) = given.next() {
        return given.clone();
    }
    if let Some(either) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        return either.first().map(|first| example(first, schemas)).unwrap_or_default();
    }
    let kind = schema["type"].as_str().or_else(|| schema.pointer("/type/0").and_then(Value::as_str));
    match kind {
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties.map(|(name, property)| (name.clone(), example(property, schemas))).collect::<Map<_, _>>().into()
        }
        Some("array") => json!([example(&schema["items"], schemas)]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("string") => json!("text"),
        _ => Value::Null,
    }
}
