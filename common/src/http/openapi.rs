//! The OpenAPI 3.1 description of the API (<https://spec.openapis.org/oas/v3.1.1.html>), generated from the routes.
//! This module is compiled only for the local runner and the tests, not for deployed functions.

use std::collections::BTreeMap;

use api::{
    account::Scope,
    error::{Code, Reason},
};
use lambda_http::http::Method;
use schemars::Schema;
use serde_json::{Map, Value, json};

use super::{
    body_format::BodyFormat,
    fields::IDEMPOTENCY_KEY,
    function::Function,
    info::{API_KEY, Credential, DeclaredError, RouteInfo, ScopeRequirement},
    route::BoundRoute,
    shapes::{Generators, Shapes, without_null},
    status::{envelope_code, factor_code, status},
};

mod examples;
mod refusals;

/// Builds the description of the API that `functions` serve. `webhooks` are the requests that the service sends to
/// receivers.
pub fn document<'a>(functions: impl Iterator<Item = &'a Function>, version: &str, webhooks: Value) -> Value {
    let mut generators = Generators::new();
    let mut refusals = Map::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for function in functions {
        for route in function.routes.iter().filter(|route| !route.info.summary.is_empty()) {
            let operation = operation(route, function.format, &mut generators, &mut refusals);
            paths.entry(route.info.path).or_default().insert(route.info.method.as_str().to_lowercase(), operation);
        }
    }
    refusals::add_schemas(&mut generators);
    let schemas = generators.named();
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
                    "description": "The base URL of the deployment, without a trailing slash. The default is the URL of `cargo local`.",
                } },
            },
            { "url": "/", "description": "The service that this document was fetched from." },
        ],
        "tags": [
            { "name": "webhooks", "description": "Webhook endpoints, in the envelope" },
            { "name": "deliveries", "description": "The delivery log, in the envelope" },
            { "name": "tenant", "description": "The organization, in the envelope" },
            { "name": "audit", "description": "The audit log, in the envelope" },
            { "name": "auth", "description": "Signing up, in the envelope" },
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
                    "type": "apiKey", "in": "header", "name": API_KEY,
                    "description": "An API key that belongs to the organization.",
                },
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "__Host-session_token",
                    "description": "The session cookie. Its name is `session_token` if the API is used over plain http. \
                                    A `POST` with a cookie needs a trusted `Origin` header.",
                },
            },
        },
    });
    examples::add(&mut document);
    document
}

const DESCRIPTION: &str = "Routes under `/v1` accept their fields in `{\"json\": {...}}` and respond in the same \
    envelope; routes under `/api/auth` use plain JSON. If no field is required, the body may be empty or `null`. \
    Durations and limits are those of the default settings; a deployment can have others. Every response has an \
    `x-request-id`. Unknown paths get 404, and calls beyond a route's rate 429, both as `{\"message\": \"...\"}`.";

/// Describes a route. Adds the error responses that routes share to `refusals`, by name.
fn operation(
    route: &BoundRoute,
    format: BodyFormat,
    generators: &mut Generators,
    refusals: &mut Map<String, Value>,
) -> Value {
    let info = &route.info;
    let mut shapes = (route.describe)(generators);
    let (in_path, others): (Vec<_>, Vec<_>) =
        shapes.input.fields.drain(..).partition(|(name, ..)| info.path.contains(&format!("{{{name}}}")));
    shapes.input.fields = others;
    let parameter = |place: &'static str| {
        move |(name, is_required, schema): &(&'static str, bool, Schema)| {
            let (mut schema, is_required) = (Value::from(schema.clone()), *is_required || place == "path");
            // Neither a path nor a query can contain null.
            without_null(&mut schema);
            let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            json!({ "name": name, "in": place, "description": about, "required": is_required, "schema": schema })
        }
    };
    let mut parameters: Vec<Value> = in_path.iter().map(parameter("path")).collect();
    let mut operation = json!({
        "operationId": operation_id(info, format),
        "summary": info.summary,
        "tags": [tag(info.path, format)],
        "security": security(info),
        "responses": responses(info, format, &shapes, refusals),
    });
    let Value::Object(members) = &mut operation else { return operation };
    let also = match info.scope {
        ScopeRequirement::Also(_, scope, calls) => format!(" A key also needs the scope `{scope}` {calls}."),
        ScopeRequirement::Undeclared | ScopeRequirement::Nothing | ScopeRequirement::Always(_) => String::new(),
    };
    let recorded = match info.records {
        [] => String::new(),
        actions => {
            let actions: Vec<_> = actions.iter().map(|action| format!("`{action}`")).collect();
            format!(" The audit log records {}.", actions.join(", "))
        }
    };
    // Tools for language models show only the description, so it repeats the summary.
    let parts = [info.summary, info.description, &also, &recorded].map(str::trim);
    let description: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    members.insert("description".to_owned(), description.join(" ").into());
    if shapes.input.takes_key {
        parameters.push(idempotency_key());
    }
    if info.method == Method::GET {
        parameters.extend(shapes.input.fields.iter().map(parameter("query")));
    } else {
        let required = shapes.input.needs_fields();
        let mut fields = shapes.input.schema(format != BodyFormat::Page);
        let schema = match format {
            BodyFormat::Plain | BodyFormat::Page => fields,
            BodyFormat::Envelope => {
                if let Some(fields) = fields.as_object_mut() {
                    fields.insert("description".to_owned(), "The fields of the call.".into());
                }
                let envelope = json!({ "type": "object", "properties": { "json": fields } });
                let of_any = json!({
                    "required": [],
                    // Fields outside of the envelope are a mistake.
                    "if": { "not": { "propertyNames": { "const": "meta" } } },
                    "then": { "properties": { "json": { "description": "Any value." } }, "required": ["json"] },
                });
                merged(envelope, if required { json!({ "required": ["json"] }) } else { of_any })
            }
        };
        let media = if format == BodyFormat::Page { "application/x-www-form-urlencoded" } else { "application/json" };
        let body = json!({ "required": required, "content": { media: { "schema": schema } } });
        members.insert("requestBody".to_owned(), body);
    }
    if info.method == Method::GET || !parameters.is_empty() {
        members.insert("parameters".to_owned(), parameters.into());
    }
    operation
}

/// The members of both objects.
fn merged(mut object: Value, more: Value) -> Value {
    if let (Some(members), Value::Object(more)) = (object.as_object_mut(), more) {
        members.extend(more);
    }
    object
}

/// Permits members that a later version adds to responses and webhooks. Otherwise, clients generated from the document
/// would reject them. Tests use the document without this change, to find members that it does not describe.
pub fn open(document: &mut Value) {
    match document {
        Value::Object(members) => {
            if members.get("additionalProperties") == Some(&Value::Bool(false)) {
                members.remove("additionalProperties");
            }
            members.values_mut().for_each(open);
        }
        Value::Array(elements) => elements.iter_mut().for_each(open),
        _ => {}
    }
}

fn idempotency_key() -> Value {
    json!({
        "name": IDEMPOTENCY_KEY, "in": "header", "required": false,
        "description": "Makes the call repeatable: a call with the same key within 24 hours returns the first call's \
         response, and has no further effect. Use a new key for each new call: tools that invent one value for all \
         calls must omit the header.",
        "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
    })
}

/// Builds an id from the parts of the path, such as `webhooksCreate`, and from the method if the path is not unique,
/// such as `getVerifyEmail` and `getResetPasswordPage`. The suffix `Page` distinguishes pages from routes with the same
/// name under `/api/auth`.
fn operation_id(info: &RouteInfo, format: BodyFormat) -> String {
    let path = info.path.trim_start_matches("/v1/").trim_start_matches("/api/auth/");
    let words = path.split(['/', '-']).map(|word| word.trim_matches(['{', '}']));
    let mut id = match format {
        BodyFormat::Envelope => String::new(),
        BodyFormat::Plain | BodyFormat::Page => info.method.as_str().to_lowercase(),
    };
    for word in words {
        let mut letters = word.chars();
        let first = letters.next().map(|first| if id.is_empty() { first } else { first.to_ascii_uppercase() });
        id.extend(first.into_iter().chain(letters));
    }
    if format == BodyFormat::Page && !info.path.starts_with("/api/auth/") {
        id.push_str("Page");
    }
    id
}

fn tag(path: &str, format: BodyFormat) -> &str {
    match format {
        BodyFormat::Envelope => path.trim_start_matches("/v1/").split('/').next().unwrap_or_default(),
        BodyFormat::Plain => "account",
        BodyFormat::Page => "pages",
    }
}

/// The credentials of a route, with the scopes that a key needs. (OpenAPI 3.1 permits scopes for every kind of
/// credential.)
fn security(info: &RouteInfo) -> Value {
    // A test looks for this name to find routes that declare no scope.
    let undeclared = (info.scope == ScopeRequirement::Undeclared).then_some("undeclared");
    let scopes: Vec<_> = info.scope.always().map(Scope::as_str).or(undeclared).into_iter().collect();
    let one = |credential: &Credential| match credential {
        Credential::Key => json!({ "key": scopes }),
        Credential::Session => json!({ "session": [] }),
        Credential::None => json!({}),
    };
    info.credentials.iter().map(one).collect()
}

fn responses(info: &RouteInfo, format: BodyFormat, shapes: &Shapes, refusals: &mut Map<String, Value>) -> Value {
    let mut responses = Map::new();
    let done = match &shapes.output {
        Some(schema) => {
            let schema = &with_tags_described(schema.clone());
            let schema = match format {
                BodyFormat::Plain | BodyFormat::Page => schema.clone().into(),
                BodyFormat::Envelope => {
                    let mut schema = schema.clone();
                    schema.insert("description".to_owned(), "The response.".into());
                    json!({ "type": "object", "properties": { "json": schema }, "required": ["json"] })
                }
            };
            json!({ "description": "Done.", "content": { "application/json": { "schema": schema } } })
        }
        None => page("A page."),
    };
    responses.insert("200".to_owned(), done);
    let done = info.redirects.then_some("Done. The browser continues at the `Location`.");
    // A page for signed-in users redirects visitors who are not signed in to the sign-in page.
    let sign_in = (format == BodyFormat::Page && info.credentials == [Credential::Session])
        .then_some("Without a session, the browser is redirected to the sign-in page, and back.");
    let redirects: Vec<_> = done.into_iter().chain(sign_in).collect();
    if !redirects.is_empty() {
        responses.insert("303".to_owned(), json!({ "description": redirects.join(" ") }));
    }
    let key_reused = shapes.input.takes_key.then_some(DeclaredError::Conflict(Reason::IdempotencyKeyReused));
    let declared: Vec<_> = info.errors.iter().copied().chain(key_reused).collect();
    let everywhere = errors(info, &[], format);
    for (status, errors) in errors(info, &declared, format) {
        let (name, refusal) = if format == BodyFormat::Page && !everywhere.contains_key(&status) {
            ("PageRefusal".to_owned(), page("A page with the error."))
        } else {
            refusals::refusal(format, status, &errors)
        };
        responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
        refusals.insert(name, refusal);
    }
    responses.into()
}

/// In each alternative, describes the distinguishing member as a constant.
fn with_tags_described(mut schema: Schema) -> Schema {
    for variant in schema.get_mut("oneOf").and_then(Value::as_array_mut).into_iter().flatten() {
        let description = variant["description"].clone();
        let members = variant["properties"].as_object_mut().into_iter().flat_map(|members| members.values_mut());
        for tag in members.filter_map(Value::as_object_mut).filter(|member| member.contains_key("const")) {
            tag.insert("description".to_owned(), description.clone());
        }
    }
    schema
}

fn page(description: &str) -> Value {
    json!({ "description": description, "content": { "text/html": { "schema": { "type": "string" } } } })
}

/// The errors that a route of this kind can return, including `declared`: by status, with their codes and, for conflicts,
/// reasons.
fn errors(
    info: &RouteInfo,
    declared: &[DeclaredError],
    format: BodyFormat,
) -> BTreeMap<u16, Vec<(Code, Option<Reason>)>> {
    let mut errors: BTreeMap<u16, Vec<(Code, Option<Reason>)>> = BTreeMap::new();
    let mut add = |code, reason| {
        let code = if format == BodyFormat::Envelope { envelope_code(code) } else { code };
        errors.entry(status(code).as_u16()).or_default().push((code, reason));
    };
    add(Code::BadRequest, None);
    add(Code::PayloadTooLarge, None);
    add(Code::InternalServerError, None);
    add(Code::ServiceUnavailable, None);
    if !info.credentials.contains(&Credential::None) {
        add(Code::Unauthorized, None);
    }
    if info.scope.all().next().is_some() {
        add(Code::Forbidden, Some(Reason::ScopeMissing));
    }
    if info.credentials.contains(&Credential::Session) && !info.before_two_factor {
        add(Code::Forbidden, Some(Reason::TwoFactorRequired));
    }
    if info.method == Method::POST {
        add(Code::InvalidOrigin, None);
    }
    for error in declared {
        match error {
            DeclaredError::WrongPassword => add(Code::InvalidEmailOrPassword, None),
            DeclaredError::InvalidPassword => add(Code::InvalidPassword, None),
            DeclaredError::InvalidToken => add(Code::InvalidToken, None),
            DeclaredError::TwoFactor(problem) => add(factor_code(*problem), None),
            DeclaredError::ConfirmationRequired => add(Code::ConfirmationRequired, None),
            DeclaredError::EmailNotVerified => add(Code::EmailNotVerified, None),
            DeclaredError::OwnersOnly => add(Code::Forbidden, None),
            DeclaredError::NotAMember => add(Code::NotAMember, None),
            DeclaredError::NotTheRecipient => add(Code::NotTheRecipient, None),
            DeclaredError::NotFound => add(Code::NotFound, None),
            DeclaredError::Conflict(reason) => add(Code::Conflict, Some(*reason)),
            DeclaredError::TooMany => add(Code::TooManyRequests, None),
        }
    }
    errors
}
