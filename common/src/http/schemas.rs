//! The JSON schemas of the domain's values, for the description of the API only.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::json::MAX_ELEMENTS;
use crate::{
    accounts::{
        email::Email,
        invitations::InvitationStatus,
        members::MemberIdOrEmail,
        password::{Guess, Password},
        sessions::IdOrToken,
        token::Token,
        users::Role,
    },
    id::{CliLoginId, EndpointId, InvitationId, KeyId, LeaseId, RecoveryId, SessionId, TenantId, UserId},
    name::{Description, Name, Slug},
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, WebhookId},
        destination::{EndpointUrl, Headers, SigningSecret, headers},
        event::{EventFilter, EventName},
        log::search::Cursor,
    },
};

/// Schemas of texts. `input` applies only to values that the service accepts, `output` only to values that it returns.
macro_rules! schemas {
    ($($type:ident { $($json:tt)* } $(+ input { $($input:tt)* })? $(+ output { $($output:tt)* })?)*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                if generator.contract().is_deserialize() {
                    json_schema!({ "type": "string", $($($input)*,)? $($json)* })
                } else {
                    json_schema!({ "type": "string", $($($output)*,)? $($json)* })
                }
            }
        }
    )*};
}

/// Schemas of closed sets. They have a name in the description, so that generators make one type of each.
macro_rules! enumerations {
    ($($type:ident $description:literal [$($value:literal),*])*) => {$(
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "description": $description, "type": "string", "enum": [$($value),*] })
            }
        }
    )*};
}

impl JsonSchema for EventFilter {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EventFilter".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = json_schema!({ "type": "string", "enum": ["job.completed", "job.failed"] });
        json_schema!({
            "description": "Duplicates are ignored.",
            "type": "array",
            "items": names,
            "minItems": 1,
            "maxItems": MAX_ELEMENTS,
        })
    }
}

impl JsonSchema for Headers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Headers".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = headers::RESERVED.iter().map(|name| format!("`{name}`"));
        let prefixes = headers::RESERVED_PREFIXES.iter().map(|prefix| format!("`{prefix}*`"));
        let reserved: Vec<_> = names.chain(prefixes).collect();
        json_schema!({
            "description": format!("Names are HTTP tokens, unique regardless of case, and stored in lower case. \
                                    Values consist of visible ASCII characters, with spaces only between them. \
                                    Reserved names: {}.", reserved.join(", ")),
            "type": "object",
            "maxProperties": headers::MOST,
            "propertyNames": {
                "maxLength": headers::LONGEST_NAME,
                "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
                "not": { "pattern": reserved_names() },
            },
            "additionalProperties": {
                "type": "string",
                "minLength": 1,
                "maxLength": headers::LONGEST_VALUE,
                "pattern": "^[!-~]([ -~]*[!-~])?$",
            },
            "writeOnly": true,
            "examples": [{ "authorization": "Bearer correct-horse" }],
        })
    }
}

/// The pattern that matches a reserved name in upper or lower case. JSON Schema patterns have no flags.
fn reserved_names() -> String {
    let any_case = |name: &&str| -> String {
        let letter =
            |c: char| if c.is_ascii_alphabetic() { format!("[{}{c}]", c.to_ascii_uppercase()) } else { c.into() };
        name.chars().map(letter).collect()
    };
    let whole: Vec<_> = headers::RESERVED.iter().map(any_case).collect();
    let prefixes: Vec<_> = headers::RESERVED_PREFIXES.iter().map(any_case).collect();
    format!("^(({})$|({}))", whole.join("|"), prefixes.join("|"))
}

enumerations! {
    EventName "The name of an event." ["job.completed", "job.failed", "webhook.test"]
    InvitationStatus "The state of an invitation. An expired invitation stays `pending`." ["pending", "accepted", "canceled"]
    Role "The rights of a member." ["owner", "member"]
}

schemas! {
    CliLoginId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    Cursor {
        "pattern": r"^[0-9]{13}\.[0-9a-f]{32}$",
        "examples": ["1769860800999.0123456789abcdef0123456789abcdef"],
    }
    DeliveryId {
        "pattern": r"^(callback|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\.[0-7]\.[0-9]{13}\.[0-9a-f]{32}$",
        "examples": ["callback.3.1769860800999.0123456789abcdef0123456789abcdef"],
    }
    Description { "maxLength": 500, "examples": ["Our staging server"] }
    Email { "format": "email", "maxLength": 254, "examples": ["ada@example.com"] } + input {
        "description": "The local part must be ASCII without quotes, and the domain must contain a dot. The address \
                        is trimmed and stored in lower case."
    }
    EndpointId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7467-9431-944eedd69c67"] }
    EndpointUrl { "format": "uri", "maxLength": 2048, "examples": ["https://example.com/hook"] } + input {
        "description": "It must be an https URL on the public internet with a host name that can exist, without user info or a \
                        fragment."
    }
    Guess { "writeOnly": true, "examples": ["a long password"] }
    IdOrToken {
        "pattern": r"^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$",
        "examples": ["01a1fd8f-0d9d-7513-8a60-3a93ba91848b"],
    }
    InvitationId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    KeyId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    LeaseId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    MemberIdOrEmail {
        "pattern": "^(.+@.+|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$",
        "examples": ["bo@example.com"],
    }
    Name { "minLength": 1, "maxLength": 100, "examples": ["Ada Lovelace"] } + input {
        "description": "The name is trimmed. It must contain at least one visible character and no control characters.",
        // No characters that break the line or change the direction of text.
        "pattern": r"^[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*$"
    }
    Password { "minLength": 8, "maxLength": 128, "writeOnly": true, "examples": ["a long password"] } + input {
        "description": "Passwords are never trimmed. Characters that can be written in several ways, such as accented letters, \
                        and all kinds of spaces count as the same."
    }
    RecoveryId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    SessionId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7513-8a60-3a93ba91848b"] }
    SigningSecret {
        "description": "It must have at least 16 visible characters, not counting a leading `whsec_`, and begin and \
                        end with one of them. It must not decode to an empty key, as a text of hyphens alone does.",
        "minLength": 16,
        "maxLength": 256,
        "pattern": r"^\S(\s*\S){15,}$",
        // After the prefix too few characters or at most one base64 symbol; without it, only ASCII characters other than
        // base64 symbols.
        "not": { "pattern": r"^(whsec_((\s*\S){0,15}\s*|[^A-Za-z0-9+/]*[A-Za-z0-9+/]?[^A-Za-z0-9+/]*)|[\x00-*,-.:-@\[-`{-\x7f]*)$" },
        "writeOnly": true,
        "examples": ["correct-horse-battery-staple"],
    }
    Slug { "pattern": "^[a-z0-9][a-z0-9-]{0,58}[a-z0-9]$", "examples": ["analytical-engines"] } + input {
        "description": "2 to 60 of `a-z`, `0-9` and `-`; neither first nor last a `-`."
    }
    TenantId {
        "minLength": 1,
        "maxLength": 128,
        "pattern": "^[!-~]+$",
        "examples": ["01a1fd8f-0d9d-7467-9431-944d77e2f0d3"],
    }
    Timestamp { "format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"] } + input {
        "description": "The format is RFC 3339, with any UTC offset."
    } + output {
        "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
    }
    Token {
        "minLength": 43,
        "maxLength": 43,
        "pattern": "^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$",
        "examples": ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"],
    }
    UserId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7467-9431-944eedd69c67"] }
    WebhookId { "pattern": "^msg_[0-9a-f]{32}$", "examples": ["msg_0123456789abcdef0123456789abcdef"] }
}
