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
    id::{CliLoginId, EndpointId, InvitationId, KeyId, RecoveryId, SessionId, TenantId, UserId},
    name::{Description, Name, Slug},
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, WebhookId},
        event::{EventFilter, EventName},
        log::search::Cursor,
        target::{EndpointUrl, SigningSecret},
    },
};

macro_rules! schemas {
    ($($type:ident { $($json:tt)* })*) => {$(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", $($json)* })
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
        json_schema!({ "type": "array", "items": names, "minItems": 1, "maxItems": MAX_ELEMENTS })
    }
}

schemas! {
    CliLoginId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    Cursor { "examples": ["1769860800999.0123456789abcdef0123456789abcdef"] }
    DeliveryId { "examples": ["callback.3.1769860800999.0123456789abcdef0123456789abcdef"] }
    Description { "maxLength": 500, "examples": ["Our staging server"] }
    Email { "format": "email", "maxLength": 254, "examples": ["ada@example.com"] }
    EndpointId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7467-9431-944eedd69c67"] }
    EndpointUrl { "format": "uri", "maxLength": 2048, "examples": ["https://example.com/hook"] }
    Guess { "writeOnly": true, "examples": ["a long password"] }
    IdOrToken { "examples": ["01a1fd8f-0d9d-7513-8a60-3a93ba91848b"] }
    InvitationId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    InvitationStatus { "enum": ["pending", "accepted", "canceled"] }
    KeyId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    MemberIdOrEmail { "examples": ["bo@example.com"] }
    Name { "minLength": 1, "maxLength": 100, "examples": ["Ada Lovelace"] }
    Password { "minLength": 8, "maxLength": 128, "writeOnly": true, "examples": ["a long password"] }
    RecoveryId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    Role { "enum": ["owner", "member"] }
    SessionId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7513-8a60-3a93ba91848b"] }
    SigningSecret { "minLength": 1, "maxLength": 256, "writeOnly": true, "examples": ["correct-horse-battery-staple"] }
    Slug { "pattern": "^[a-z0-9][a-z0-9-]{0,58}[a-z0-9]$", "examples": ["analytical-engines"] }
    TenantId { "minLength": 1, "maxLength": 128, "examples": ["01a1fd8f-0d9d-7467-9431-944d77e2f0d3"] }
    Timestamp {
        "format": "date-time",
        "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$",
        "examples": ["2026-01-31T12:00:00.000Z"],
    }
    Token { "minLength": 43, "maxLength": 43, "examples": ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"] }
    EventName { "enum": ["job.completed", "job.failed", "webhook.test"] }
    UserId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7467-9431-944eedd69c67"] }
    WebhookId { "pattern": "^msg_[0-9a-f]{32}$", "examples": ["msg_0123456789abcdef0123456789abcdef"] }
}
