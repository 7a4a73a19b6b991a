//! The error responses in the description. Routes share these responses, and all errors in the same format share one
//! schema, so code generators create a single type for them. The examples show the codes and reasons.

use std::collections::BTreeMap;

use api::{
    account::Scope,
    error::{Code, EnvelopeError, PlainError, Reason},
};
use serde_json::{Map, Value, json};

use crate::http::{body_format::BodyFormat, shapes::Generators};

/// Adds the error schemas of both formats.
pub(super) fn add_schemas(generators: &mut Generators) {
    generators.outputs.subschema_for::<EnvelopeError>();
    generators.outputs.subschema_for::<PlainError>();
}

/// Returns the name and the response for errors with the given status, with an example of each error.
pub(super) fn refusal(format: BodyFormat, status: u16, errors: &[(Code, Option<Reason>)]) -> (String, Value) {
    let examples: BTreeMap<&str, Value> = errors
        .iter()
        .map(|(code, reason)| {
            let value = example(format, status, *code, *reason);
            (reason.map_or(code.as_str(), Reason::as_str), json!({ "summary": remedy(*code, *reason), "value": value }))
        })
        .collect();
    let names: Vec<&str> = examples.keys().copied().collect();
    let (kind, schema) = match format {
        BodyFormat::Envelope => ("Envelope", "EnvelopeError"),
        BodyFormat::Plain => ("Plain", "PlainError"),
        BodyFormat::Page => ("Page", "PlainError"),
    };
    let name = format!("{kind}{}", names.iter().map(|name| camel_case(name)).collect::<Vec<_>>().join("Or"));
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    let json = json!({ "schema": schema, "examples": examples });
    let content = if format == BodyFormat::Page {
        json!({ "application/json": json, "text/html": { "schema": { "type": "string" } } })
    } else {
        json!({ "application/json": json })
    };
    let mut response =
        Map::from_iter([("description".to_owned(), json!(describe(status, &names))), ("content".to_owned(), content)]);
    if matches!(status, 429 | 503) {
        let seconds = json!({ "type": "integer", "minimum": 0 });
        let wait = json!({ "description": "The number of seconds to wait.", "schema": seconds });
        response.insert("headers".to_owned(), json!({ "Retry-After": wait }));
    }
    (name, response.into())
}

fn example(format: BodyFormat, status: u16, code: Code, reason: Option<Reason>) -> Value {
    let (message, plain) = (why(status), format != BodyFormat::Envelope);
    let of_conflict = reason.filter(|_| plain && code == Code::Conflict);
    let kind = of_conflict.map_or(code.as_str().to_owned(), |reason| reason.as_str().to_uppercase());
    let more = match reason {
        Some(reason) => Some(("reason", json!(reason))),
        None if code == Code::BadRequest => {
            Some(("issues", json!([{ "code": "invalid_type", "path": ["name"], "message": "Required" }])))
        }
        None => None,
    };
    let scope = (reason == Some(Reason::ScopeMissing)).then_some(("scope", json!(Scope::WebhooksRead)));
    let more: Map<String, Value> =
        more.into_iter().chain(scope).map(|(name, value)| (name.to_owned(), value)).collect();
    let mut error = json!({ "code": kind, "message": message });
    let Some(members) = error.as_object_mut() else { return error };
    if plain {
        members.extend(more);
        return error;
    }
    members.extend([("defined".to_owned(), json!(false)), ("status".to_owned(), json!(status))]);
    if !more.is_empty() {
        members.insert("data".to_owned(), more.into());
    }
    json!({ "json": error })
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
        413 => "The body is too large.",
        429 => "Too many attempts. `Retry-After` gives the number of seconds to wait.",
        503 => {
            "Contention, a concurrent change or throttling outlasted the service's retries. Try again after `Retry-After` seconds."
        }
        _ => "An internal error. The operator can look up the cause by its `x-request-id`.",
    }
}

/// The meaning of an error and its remedy.
fn remedy(code: Code, reason: Option<Reason>) -> &'static str {
    match code {
        Code::BadRequest => "The request is malformed, or a field is not valid. Correct the fields listed in `issues`.",
        Code::InvalidPassword => "The current password is wrong. Ask for it again.",
        Code::InvalidToken => "The token is malformed, unknown, used or expired. Request another email.",
        Code::InvalidCode => "The code is wrong or was used before. Ask for the current code in the authenticator app.",
        Code::InvalidBackupCode => "The backup code is wrong or was used before. Ask for another one.",
        Code::InvalidTwoFactorCookie => {
            "No password was entered in the last five minutes, or the sign-in was finished. Start with `sign-in/email`."
        }
        Code::TotpAlreadyEnabled => "A second factor is already enabled. Disable it before you set up another one.",
        Code::TotpNotEnabled => "No secret was issued. Call `two-factor/enable` first.",
        Code::TwoFactorNotEnabled => "No second factor is enabled, so there is nothing to do.",
        Code::ConfirmationRequired => {
            "Only a person can confirm an email address. Open the link in a browser, and press the button."
        }
        Code::Unauthorized => {
            "The key or session is missing, unknown, expired or ended, or the call requires a session and was made \
             with a key. Sign in, or use another key."
        }
        Code::InvalidEmailOrPassword => "The email or the password is wrong. Ask for both again.",
        Code::InvalidOrigin => {
            "The `Origin` is not trusted, or the request has a cookie but no `Origin`. Send the `Origin` given in the \
             message."
        }
        Code::EmailNotVerified => "The email is not verified. Open the link in the verification email.",
        Code::NotAMember => "The organization is not the caller's. Send the caller's organization, or omit the field.",
        Code::NotTheRecipient => {
            "The invitation is for another email address. Sign in with that address, or ask for an invitation to yours."
        }
        Code::Forbidden if let Some(reason) = reason => remedy_of_reason(reason),
        Code::Forbidden => {
            "The email is not verified, the caller is not an owner, or the `Origin` is not trusted, as the message \
            explains."
        }
        Code::NotFound => "The object does not exist, or it belongs to another organization. Check the id.",
        Code::PayloadTooLarge => "The body is larger than 64 KiB or, for `webhooks/verify`, 2 MiB. Split the call.",
        Code::TooManyRequests => "A rate limit was reached. Wait the number of seconds given in `Retry-After`.",
        Code::ServiceUnavailable => {
            "The service is busy, or the caller's account was changed during the call. Retry the call after \
             `Retry-After` seconds."
        }
        Code::Conflict => reason.map_or("", remedy_of_reason),
        Code::MethodNotSupported | Code::InternalServerError => {
            "The service failed. Retry the call. The operator can look up the cause by its `x-request-id`."
        }
    }
}

fn remedy_of_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::ScopeMissing => "The API key lacks the scope in `scope`. Use a key that has it, or sign in.",
        Reason::TwoFactorRequired => {
            "The organization requires a second factor, which the session's user has not set up. Call \
             `two-factor/enable`, or open `/console/two-factor`."
        }
        Reason::SlugTaken => "Another organization already has this slug. Choose a different one.",
        Reason::EmailTaken => "The address already has an account. Sign in, or use another address.",
        Reason::EmailSuppressed => {
            "Earlier emails to the address bounced or were reported as spam, or its owner stopped the organization's \
             emails, so it cannot be invited. Check the address. Its owner can end a suppression with the link in an \
             email that resets a password or verifies the address, and agree to emails again on the page to which the \
             last one links."
        }
        Reason::InvitationExpired => "The invitation is older than 7 days. Ask an owner for a new one.",
        Reason::InvitationUsed => {
            "The invitation was accepted, declined, canceled or replaced by a newer one. Use the newest invitation, or \
             sign in."
        }
        Reason::LastOwner => "This would leave the organization without an owner. Make another member an owner first.",
        Reason::LastMember => {
            "The caller is the last member of their organization, so it would be deleted. Send `deleteOrganization` \
             `true` to delete it, or invite another owner first."
        }
        Reason::AlreadyAMember => "The user is already a member of the organization. No action is needed.",
        Reason::OrganizationChanged => {
            "The caller has joined another organization since the call began. Repeat the call to leave that organization."
        }
        Reason::EndpointLimit => "The organization has reached its limit of endpoints. Delete an endpoint first.",
        Reason::KeyLimit => "The organization has 100 API keys, including expired ones. Delete a key first.",
        Reason::PayloadNotKept => {
            "The payload was erased, or was too large to be kept after the delivery succeeded, so the delivery cannot be \
             resent. Ask the producer for a new event."
        }
        Reason::DeliveryPending => {
            "The delivery is pending or leased by a client, so its payload is still needed. Wait until it is delivered or \
             has failed, or disable its endpoint, which holds the delivery. One that waits at a pull endpoint can be \
             erased once no client has leased it."
        }
        Reason::EndpointInactive => {
            "The endpoint is inactive, and its deliveries are held. Enable it with the `active` field of \
             `webhooks/update`, then `recover` the deliveries."
        }
        Reason::NotAPullEndpoint => {
            "Deliveries to this endpoint are posted to its `url`. To receive deliveries, create a pull endpoint."
        }
        Reason::PullEndpoint => "A pull endpoint has no `url`. Omit the field, or create a push endpoint.",
        Reason::HeadersNeeded => {
            "A new `url` would send the endpoint's secret headers to another receiver. Send `headers` in the same \
             call: the current headers, different ones or `null`."
        }
        Reason::RecoveryLimit => "The organization has 100 unfinished recoveries. Wait until one of them finishes.",
        Reason::IdempotencyKeyReused => {
            "The key was already used for a call with different fields. Use a new key for each new call."
        }
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
