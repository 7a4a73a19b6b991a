//! The error responses in the description. Routes share them, and all errors of a format have one schema, so that
//! generators make one type of them. Codes and reasons are in the examples.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::http::wire::Wire;

/// The schemas of an error in both formats.
pub(super) fn schemas() -> [(String, Value); 3] {
    let text = |description: &str| json!({ "description": description, "type": "string" });
    let code = text("The kind of error, for programs.");
    let message = text("The cause and the remedy, for people. The wording may change.");
    let reason = text("The reason for a conflict with stored data. Present only in errors with the status 409.");
    let object = |description: &str, required: &[&str], properties: Value| {
        json!({
            "description": description,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    };
    let codes = json!({
        "description": "The kind of problem. `invalid_type` means that the field is missing or has the wrong JSON \
                        type.",
        "type": "string",
        "enum": ["invalid_type", "invalid_format", "too_small", "too_big"],
    });
    let path =
        "The field and, in an array, the index of the element, starting at `0`; in `headers`, the name of the header.";
    let path = json!({ "description": path, "type": "array", "items": { "type": "string" } });
    let of_issue = text("The rule that the field violates. The message never repeats the value.");
    let issue = json!({ "code": codes, "path": path, "message": of_issue });
    let issues = json!({
        "description": "All issues of all fields. Present only in errors with the status 400.",
        "type": "array",
        "items": { "$ref": "#/components/schemas/Issue" },
    });
    let more = json!({ "issues": issues, "reason": reason });
    let error = json!({
        "defined": { "description": "Always false.", "type": "boolean" },
        "code": code,
        "status": { "description": "The HTTP status of the response.", "type": "integer" },
        "message": message,
        "data": {
            "description": "Details of the error; absent if there are none.",
            "type": "object",
            "properties": more,
            "additionalProperties": false,
        },
    });
    let error = object("The error.", &["defined", "code", "status", "message"], error);
    let plain = json!({ "code": code, "message": message, "issues": issues, "reason": reason });
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
            (reason.unwrap_or(code), json!({ "summary": remedy(code, *reason), "value": value }))
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
        403 => "The caller is not allowed to do this.",
        404 => "The requested object does not exist, or it belongs to another organization.",
        409 => "The request conflicts with stored data.",
        413 => "The body is larger than 64 KiB.",
        429 => "Too many attempts. `Retry-After` gives the number of seconds to wait.",
        503 => "Contention or throttling outlasted the service's retries. Try again.",
        _ => "An internal error; the cause is in the log.",
    }
}

/// The meaning of an error and its remedy.
fn remedy(code: &str, reason: Option<&str>) -> &'static str {
    match reason.unwrap_or(code) {
        "slug_taken" => "Another organization already has this slug. Choose a different one.",
        "email_taken" => "The address already has an account. Sign in, or use another address.",
        "invitation_expired" => "The invitation is older than 7 days. Ask an owner for a new one.",
        "invitation_used" => {
            "The invitation was accepted, canceled or replaced by a newer one. Use the newest invitation, or sign in."
        }
        "last_owner" => "This would leave the organization without an owner. Make another member an owner first.",
        "endpoint_limit" => "The organization has reached its limit of endpoints. Delete an endpoint first.",
        "key_limit" => "The organization has 100 API keys, including expired ones. Delete a key first.",
        "payload_not_kept" => {
            "The delivery succeeded, and its payload was too large to be kept, so it cannot be resent. Ask the \
             producer for a new event."
        }
        "endpoint_inactive" => {
            "The endpoint is inactive, and its deliveries are held. Enable it with the `active` field of \
             `webhooks/update`, then `recover` the deliveries."
        }
        "not_a_pull_endpoint" => {
            "Deliveries of this endpoint are posted to its `url`. Create an endpoint of the kind `pull` to receive deliveries."
        }
        "pull_endpoint" => "A pull endpoint has no `url`. Omit the field, or create a push endpoint.",
        "headers_needed" => {
            "The endpoint has headers, which are secrets that the new `url` would receive. Send `headers` in the same \
             call: the current headers, different ones or `null`."
        }
        "recovery_limit" => "The organization has 100 unfinished recoveries. Wait until one of them finishes.",
        "idempotency_key_reused" => {
            "The key was already used for a call with different fields. Use a new key for each new call."
        }
        "BAD_REQUEST" => "The request is malformed, or a field is not valid. Correct the fields listed in `issues`.",
        "INVALID_PASSWORD" => "The current password is wrong. Ask for it again.",
        "INVALID_TOKEN" => "The token is malformed, unknown, used or expired. Request another email.",
        "CONFIRMATION_REQUIRED" => {
            "Only a person can confirm an email address. Open the link in a browser, and press the button."
        }
        "UNAUTHORIZED" => {
            "The key or session is missing, unknown, expired or ended, or the call requires a session and was made \
             with a key. Sign in, or use another key."
        }
        "INVALID_EMAIL_OR_PASSWORD" => "The email or the password is wrong. Ask for both again.",
        "INVALID_ORIGIN" => {
            "The `Origin` is not trusted, or the request has a cookie but no `Origin`. Send the `Origin` that the \
             message names."
        }
        "EMAIL_NOT_VERIFIED" => "The email is not verified. Open the link in the verification email.",
        "USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION" => {
            "The organization is not the caller's. Send the caller's organization, or omit the field."
        }
        "FORBIDDEN" => {
            "The email is not verified, the caller is not an owner, or the `Origin` is not trusted: the message says which."
        }
        "NOT_FOUND" => "The object does not exist, or it belongs to another organization. Check the id.",
        "PAYLOAD_TOO_LARGE" => "The body is larger than 64 KiB. Split the call.",
        "TOO_MANY_REQUESTS" => "A rate limit was reached. Wait the number of seconds given in `Retry-After`.",
        "SERVICE_UNAVAILABLE" => "The service is busy. Retry the call in a moment.",
        _ => "The service failed. Retry the call; the cause is in the log.",
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
