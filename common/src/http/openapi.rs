//! The OpenAPI 3.1 description of the API (<https://spec.openapis.org/oas/v3.1.1.html>), generated from the routes.
//! Only the local runner and the tests build this module: no deployed function contains it.

use std::{collections::BTreeMap, ops::RangeInclusive};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use super::{
    Fault, Function, RouteInfo, Takes, Wire,
    auth::Credential,
    fields::{IDEMPOTENCY_KEY, Presence},
    route::BoundRoute,
};

mod examples;
mod refusals;

/// The schemas of a route's input and output.
pub struct Shapes {
    pub(super) input: FieldDescriptions,
    /// `None` for a page.
    pub(super) output: Option<Schema>,
}

/// They make the schemas. The service takes some values in more forms than it answers them.
pub struct Generators {
    pub(super) inputs: SchemaGenerator,
    pub(super) outputs: SchemaGenerator,
}

impl Generators {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let (inputs, outputs) = (settings.clone().for_deserialize(), settings.for_serialize());
        Self { inputs: inputs.into_generator(), outputs: outputs.into_generator() }
    }

    /// The schemas that have a name. Of those, inputs only have enumerations, which are the same both ways.
    fn named(mut self) -> Map<String, Value> {
        let mut schemas = self.inputs.take_definitions(true);
        schemas.append(&mut self.outputs.take_definitions(true));
        schemas.values_mut().for_each(join_names);
        schemas
    }
}

/// Makes one `enum` of names that are described one by one: to clients of openapi-generator, each of those alternatives fits
/// any text.
fn join_names(schema: &mut Value) {
    let variants = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named: Option<Vec<_>> = variants.iter().map(|one| one["const"].as_str().map(|name| (name, one))).collect();
    let Some(named) = named.filter(|named| !named.is_empty()) else { return };
    let mut description = schema["description"].as_str().unwrap_or_default().to_owned();
    for (name, one) in &named {
        description.push_str(&format!(" `{name}`: {}", one["description"].as_str().unwrap_or_default()));
    }
    let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
    *schema = json!({ "description": description, "type": "string", "enum": names });
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

    /// Additional properties stay allowed: unknown fields are ignored. A JSON body may be `null` where nothing is required.
    fn schema(&self, takes: Takes) -> Value {
        let properties: Map<String, Value> =
            self.fields.iter().map(|(name, _, schema)| ((*name).to_owned(), schema.clone().into())).collect();
        let required = self.required();
        let kind =
            if takes == Takes::Json && required.is_empty() { json!(["object", "null"]) } else { json!("object") };
        json!({ "type": kind, "properties": properties, "required": required })
    }
}

/// The description of the API that `functions` serve. `webhooks` are the requests that we send to receivers.
pub fn document<'a>(functions: impl Iterator<Item = &'a Function>, version: &str, webhooks: Value) -> Value {
    let mut generators = Generators::new();
    let mut refusals = Map::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for function in functions {
        for route in function.routes.iter() {
            let operation = operation(route, function.wire, &mut generators, &mut refusals);
            paths.entry(route.info.path).or_default().insert(route.info.method.as_str().to_lowercase(), operation);
        }
    }
    let mut schemas = generators.named();
    schemas.extend(refusals::schemas());
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Accounts and webhooks",
            "version": version,
            "description": DESCRIPTION,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [
            {
                "url": "{base_url}",
                "description": "A deployment, or `cargo local`.",
                "variables": { "base_url": {
                    "default": "http://127.0.0.1:9000",
                    "description": "The base URL of the deployment, without a slash at its end; by default that of `cargo local`.",
                } },
            },
            { "url": "/", "description": "The service that this document was fetched from." },
        ],
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
            "schemas": schemas,
            "responses": refusals,
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
    examples::add(&mut document);
    document
}

const DESCRIPTION: &str = "Routes under `/v1` take their fields in `{\"json\": {...}}` and answer in the same envelope; \
    routes under `/api/auth` speak plain JSON. Where no field is required, the body may be empty, and `null` means no fields. \
    Every answer has an `x-request-id`. API Gateway itself answers a path that no function is mapped to with 404, and a route \
    that is called too often with 429, both as `{\"message\": \"...\"}`.";

/// Describes a route. The responses that it shares with others go to `refusals`, by name.
fn operation(route: &BoundRoute, wire: Wire, generators: &mut Generators, refusals: &mut Map<String, Value>) -> Value {
    let info = &route.info;
    let shapes = (route.describe)(generators);
    let mut operation = json!({
        "operationId": operation_id(info, wire),
        "summary": info.summary,
        "tags": [tag(info.path, wire)],
        "security": security(info.credentials),
        "responses": responses(info, wire, &shapes, refusals),
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
            let (fields, required) = (shapes.input.schema(info.takes), !shapes.input.required().is_empty());
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

fn responses(info: &RouteInfo, wire: Wire, shapes: &Shapes, refusals: &mut Map<String, Value>) -> Value {
    let mut responses = Map::new();
    let done = match &shapes.output {
        Some(schema) => {
            let schema = match wire {
                Wire::Plain | Wire::Page => schema.clone().into(),
                Wire::Envelope => json!({ "type": "object", "properties": { "json": schema }, "required": ["json"] }),
            };
            json!({ "description": "Done.", "content": { "application/json": { "schema": schema } } })
        }
        None => page("A page."),
    };
    responses.insert("200".to_owned(), done);
    if info.redirects {
        let redirect = json!({ "description": "Done: the browser goes on at the `Location`." });
        responses.insert("303".to_owned(), redirect);
    }
    let everywhere = errors(info, &[], wire);
    for (status, errors) in errors(info, info.faults, wire) {
        let (name, refusal) = if wire == Wire::Page && !everywhere.contains_key(&status) {
            ("PageRefusal".to_owned(), page("A page that says why."))
        } else {
            refusals::refusal(wire, status, &errors)
        };
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
        refusals.insert(name, refusal);
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
