//! Checks every response that a test gets against the OpenAPI description.

#![expect(clippy::missing_panics_doc, reason = "a wrong description fails the test")]

use std::{collections::HashMap, sync::OnceLock};

use jsonschema::Validator;
use reqwest::Method;
use serde_json::{Value, json};

/// A route's described responses, by status.
struct Operation(HashMap<u16, Response>);

enum Response {
    /// JSON that matches this schema, or a page if the description also allows one. An error must match one of the
    /// examples, except for its message.
    Json { schema: Box<Validator>, examples: Vec<[Value; 3]> },
    /// A page, or an empty body.
    Other,
}

/// Checks a response from the API. API Gateway itself answers requests to undescribed paths.
pub(crate) fn check(method: &Method, path: &str, status: u16, body: &Value) {
    let Some(operation) = operations().get(&(method.as_str().to_lowercase(), path.to_owned())) else { return };
    let response = operation.0.get(&status);
    let response =
        response.unwrap_or_else(|| unreachable!("{method} {path} does not describe the answer {status}: {body}"));
    if let (Response::Json { schema, examples }, false) = (response, is_page(body)) {
        let problems: Vec<_> = schema.iter_errors(body).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{method} {path} {status} is not as described: {problems:?} in {body}");
        let is_described = status == 200 || examples.contains(&what(body));
        assert!(is_described, "{method} {path} does not describe this error: {body}");
    }
}

/// An error without its message.
fn what(error: &Value) -> [Value; 3] {
    let error = error.get("json").unwrap_or(error);
    let reason = error.pointer("/data/reason").unwrap_or(&error["reason"]);
    [&error["status"], &error["code"], reason].map(Value::clone)
}

fn is_page(body: &Value) -> bool {
    body.as_str().is_some_and(|text| text.starts_with("<!DOCTYPE html>"))
}

fn operations() -> &'static HashMap<(String, String), Operation> {
    static OPERATIONS: OnceLock<HashMap<(String, String), Operation>> = OnceLock::new();
    OPERATIONS.get_or_init(|| {
        let document = local::exact_openapi().expect("the functions match the template");
        let paths = document["paths"].as_object().expect("paths");
        let described = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods");
            methods.iter().map(|(method, operation)| ((method.clone(), path.clone()), read(operation, &document)))
        });
        described.collect()
    })
}

fn read(operation: &Value, document: &Value) -> Operation {
    let responses = operation["responses"].as_object().expect("responses");
    let read = responses.iter().map(|(status, response)| {
        let response = resolved(response, document);
        let response = match response.pointer("/content/application~1json") {
            Some(media) => Response::Json {
                schema: Box::new(validator(&media["schema"], document, false)),
                examples: examples(media).map(what).collect(),
            },
            None => Response::Other,
        };
        (status.parse().expect("a status"), response)
    });
    Operation(read.collect())
}

/// Every described route: `METHOD /path`, with its operation.
#[must_use]
pub fn routes() -> Vec<(String, Value)> {
    let document = local::openapi().expect("the functions match the template");
    let paths = document["paths"].as_object().expect("paths");
    let routes = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().expect("methods");
        methods.iter().map(move |(method, route)| (format!("{} {path}", method.to_uppercase()), route.clone()))
    });
    routes.collect()
}

/// A part of the document. If it is a reference, the target of the reference.
#[must_use]
pub fn resolved<'a>(part: &'a Value, document: &'a Value) -> &'a Value {
    let Some(reference) = part["$ref"].as_str() else { return part };
    document.pointer(reference.trim_start_matches('#')).expect("the target of a reference")
}

/// The examples of a response that has several.
pub fn examples(media: &Value) -> impl Iterator<Item = &Value> {
    media["examples"].as_object().into_iter().flatten().map(|(_, example)| &example["value"])
}

/// Checks values against a schema in the document. Formats are checked only in requests, because a response can contain
/// values that were stored before a rule existed.
#[must_use]
pub fn validator(schema: &Value, document: &Value, formats: bool) -> Validator {
    let mut schema = schema.clone();
    // The schema refers to the document's components.
    schema["components"] = json!({ "schemas": document["components"]["schemas"] });
    jsonschema::draft202012::options().should_validate_formats(formats).build(&schema).expect("a schema")
}
