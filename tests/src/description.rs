//! Checks every response that a test sees against the OpenAPI description, so that the description stays true.

use std::{collections::HashMap, sync::OnceLock};

use jsonschema::Validator;
use reqwest::Method;
use serde_json::Value;

/// The described responses of a route, by status.
struct Operation(HashMap<u16, Response>);

enum Response {
    /// JSON that matches this schema, or a page if the description allows one too.
    Json(Box<Validator>),
    /// Anything else: a page, or nothing.
    Other,
}

/// Checks a response of the API. Paths that are not described are answered by API Gateway, not by us.
pub(crate) fn check(method: &Method, path: &str, status: u16, body: &Value) {
    let Some(operation) = operations().get(&(method.as_str().to_lowercase(), path.to_owned())) else { return };
    let response = operation.0.get(&status);
    let response =
        response.unwrap_or_else(|| unreachable!("{method} {path} does not describe the answer {status}: {body}"));
    if let (Response::Json(schema), false) = (response, is_page(body)) {
        let problems: Vec<_> = schema.iter_errors(body).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{method} {path} {status} is not as described: {problems:?} in {body}");
    }
}

fn is_page(body: &Value) -> bool {
    body.as_str().is_some_and(|text| text.starts_with("<!DOCTYPE html>"))
}

fn operations() -> &'static HashMap<(String, String), Operation> {
    static OPERATIONS: OnceLock<HashMap<(String, String), Operation>> = OnceLock::new();
    OPERATIONS.get_or_init(|| {
        let document = local::openapi().expect("the functions match the template");
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
        let schema = response.pointer("/content/application~1json/schema");
        let response = schema.map_or(Response::Other, |schema| Response::Json(Box::new(validator(schema, document))));
        (status.parse().expect("a status"), response)
    });
    Operation(read.collect())
}

/// The schema refers to the document's components, so they are added before compiling it.
fn validator(schema: &Value, document: &Value) -> Validator {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    jsonschema::draft202012::new(&schema).expect("a schema")
}
