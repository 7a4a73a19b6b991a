//! The error responses in the description. Routes share them, and all errors of a format have one schema, so that
//! generators make one type of them. Codes and reasons are in the examples.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::http::wire::Wire;

/// The schemas of an error in both formats.
pub(super) fn schemas() -> [(String, Value); 3] {
    let text = json!({ "type": "string" });
    let object = |description: &str, required: &[&str], properties: Value| {
        json!({
            "description": description,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let codes = json!({ "type": "string", "enum": ["invalid_type", "invalid_format", "too_small", "too_big"] });
    let path = "The field and, in an array, the index of the element.";
    let path = json!({ "description": path, "type": "array", "items": text });
    let issue = json!({ "code": codes, "path": path, "message": text });
    let issues = json!({ "type": "array", "items": { "$ref": "#/components/schemas/Issue" } });
    let more = json!({ "issues": issues, "reason": text });
    let error = json!({
        "defined": { "description": "Always false.", "type": "boolean" },
        "code": text,
        "status": { "type": "integer" },
        "message": text,
        "data": { "type": "object", "properties": more, "additionalProperties": false },
    });
    let error = object("The error.", &["defined", "code", "status", "message"], error);
    let plain = json!({ "code": text, "message": text, "issues": issues, "reason": text });
    [
        ("Issue", object("A problem with one field.", &["code", "path", "message"], issue)),
        ("EnvelopeError", object("An error of a route under `/v1`.", &["json"], json!({ "json": error }))),
        ("PlainError", object("An error of any other route.", &["code", "message"], plain)),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
}

/// The name and the response for errors of a status, with an example of each error.
pub(super) fn refusal(wire: Wire, status: u16, errors: &[(String, Option<&'static str>)]) -> (String, Value) {
    let examples: BTreeMap<&str, Value> = errors
        .iter()
        .map(|(code, reason)| {
            let value = example(wire, status, code, *reason);
            (reason.unwrap_or(code), json!({ "value": value }))
        })
        .collect();
    let names: Vec<&str> = examples.keys().copied().collect();
    let (kind, schema) = match wire {
        Wire::Envelope => ("Envelope", "EnvelopeError"),
        Wire::Plain => ("Plain", "PlainError"),
        Wire::Page => ("Page", "PlainError"),
    };
    let name = format!("{kind}{}", names.iter().map(|name| camel_case(name)).collect::<Vec<_>>().join("Or"));
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    let json = json!({ "schema": schema, "examples": examples });
    let content = if wire == Wire::Page {
        json!({ "application/json": json, "text/html": { "schema": { "type": "string" } } })
    } else {
        json!({ "application/json": json })
    };
    (name, json!({ "description": describe(status, &names), "content": content }))
}

fn example(wire: Wire, status: u16, code: &str, reason: Option<&str>) -> Value {
    let message = why(status);
    let more = match reason {
        Some(reason) => Some(("reason", json!(reason))),
        None if code == "BAD_REQUEST" => {
            Some(("issues", json!([{ "code": "invalid_type", "path": ["name"], "message": "Required" }])))
        }
        None => None,
    };
    match (wire, more) {
        (Wire::Envelope, None) => {
            json!({ "json": { "defined": false, "code": code, "status": status, "message": message } })
        }
        (Wire::Envelope, Some((name, more))) => {
            let data = json!({ name: more });
            json!({ "json": { "defined": false, "code": code, "status": status, "message": message, "data": data } })
        }
        (Wire::Plain | Wire::Page, None) => json!({ "code": code, "message": message }),
        (Wire::Plain | Wire::Page, Some((name, more))) => json!({ "code": code, "message": message, name: more }),
    }
}

fn describe(status: u16, names: &[&str]) -> String {
    let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    format!("{} {names}", why(status))
}

fn why(status: u16) -> &'static str {
    match status {
        400 => "The request is malformed, or its fields have the listed issues.",
        401 => "The credential is missing or not valid.",
        403 => "The caller may not do this.",
        404 => "The requested object does not exist, or it belongs to another organization.",
        409 => "The request conflicts with stored data.",
        413 => "The body is larger than 64 KiB.",
        429 => "Too many attempts; `Retry-After` gives the seconds to wait.",
        503 => "Contention or throttling outlasted the retries. Try again.",
        _ => "An internal error; the cause is in the log.",
    }
}

/// `BadRequest` for `BAD_REQUEST`.
fn camel_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        format!("{}{}", first.to_uppercase(), rest.to_lowercase())
    });
    words.collect()
}
