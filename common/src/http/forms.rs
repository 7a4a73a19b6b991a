//! Domain values in the API: their formats and schemas, and the responses that contain them.

use std::borrow::Cow;

use api::{account, deliveries};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    accounts::{
        email::EmailAddress,
        members::{Member, MemberIdOrEmail},
        organizations::Organization,
        password::{Guess, Password},
        sessions::IdOrToken,
        token::Token,
        users::User,
    },
    audit::Position,
    id::{CliLoginId, EndpointId, InvitationId, KeyId, LeaseId, RecoveryId, SessionId, TenantId, UserId},
    name::{Description, Name, Slug},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, DeliveryId, WebhookId},
        destination::{EndpointUrl, Headers, SigningSecret, headers},
        event::{EventFilter, WorkflowFilter},
        log::{
            recovery::{Recovery, Selection},
            search::Cursor,
        },
        verification::{Computed, ReceivedBody, ReceivedHeaders},
    },
};

/// Converts domain values to their API formats. Input fields of these types have the same schemas.
macro_rules! forms {
    ($($type:ident $(: $text:ident)?,)*) => {$(
        $(impl From<$type> for api::$type {
            fn from(value: $type) -> Self {
                value.$text().into()
            }
        })?

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                api::$type::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                api::$type::json_schema(generator)
            }
        }
    )*};
}

forms! {
    CliLoginId: to_string,
    Cursor: as_str,
    DeliveryId: to_string,
    Description: as_str,
    EmailAddress: as_str,
    EndpointId: to_string,
    EventFilter,
    InvitationId: to_string,
    KeyId: to_string,
    LeaseId: to_string,
    Name: as_str,
    RecoveryId: to_string,
    Slug: as_str,
    TenantId: as_str,
    Timestamp: to_string,
    UserId: to_string,
    WebhookId: to_string,
    WorkflowFilter,
}

impl From<Position> for api::Cursor {
    fn from(position: Position) -> Self {
        position.to_string().into()
    }
}

impl JsonSchema for Position {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        api::Cursor::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        api::Cursor::json_schema(generator)
    }
}

impl From<Delivery> for deliveries::Delivery {
    fn from(delivery: Delivery) -> Self {
        let Delivery { id, webhook_id, webhook_endpoint_id, event, job_id, workflow, status, attempts, .. } = delivery;
        Self {
            delivery_id: id.into(),
            webhook_id: webhook_id.into(),
            webhook_endpoint_id: webhook_endpoint_id.map(Into::into),
            event: event.into(),
            job_id,
            workflow,
            status: status.into(),
            attempts,
            created_at: delivery.created_at.into(),
            next_attempt_at: delivery.next_attempt_at.map(Into::into),
            last_attempt: delivery.last_attempt.map(Into::into),
            erased_at: delivery.erased_at.map(Into::into),
        }
    }
}

impl From<Attempt> for deliveries::Attempt {
    fn from(attempt: Attempt) -> Self {
        let Attempt { at, outcome, status_code, detail, duration_ms, response, trigger } = attempt;
        let detail = detail.map(|detail| detail.as_str().to_owned());
        Self { at: at.into(), outcome, status_code, detail, duration_ms, response, trigger: trigger.into() }
    }
}

impl From<Recovery> for deliveries::Recovery {
    fn from(recovery: Recovery) -> Self {
        let Recovery { id, selection, resent, done, .. } = recovery;
        let Selection { endpoint, time, status, outcome, workflow } = selection;
        Self {
            recovery_id: id.into(),
            webhook_endpoint_id: endpoint.map(Into::into),
            since: time.start.into(),
            until: time.end.into(),
            status: status.into(),
            outcome,
            workflow,
            resent,
            done,
        }
    }
}

impl From<Organization> for account::Organization {
    fn from(organization: Organization) -> Self {
        let Organization { id, name, slug, created_at, .. } = organization;
        Self { id: id.into(), name: name.into(), slug: slug.into(), created_at: created_at.into() }
    }
}

impl From<Member> for account::Member {
    fn from(member: Member) -> Self {
        let Member { user: User { id, name, email, organization, role, .. }, joined_at } = member;
        Self {
            id: id.into(),
            organization_id: organization.into(),
            user_id: id.into(),
            role: role.into(),
            created_at: joined_at.into(),
            user: account::Profile { id: id.into(), name: name.into(), email: email.into() },
        }
    }
}

impl From<User> for account::User {
    fn from(user: User) -> Self {
        let User { id, email, name, email_verified, has_two_factor, .. } = user;
        Self {
            id: id.into(),
            email: email.into(),
            name: name.into(),
            email_verified,
            two_factor_enabled: has_two_factor,
        }
    }
}

/// Schemas of strings that do not appear in the responses of the crate `api`.
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
            "maxProperties": headers::MAX_HEADERS,
            "propertyNames": {
                "maxLength": headers::MAX_NAME_LENGTH,
                "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
                "not": { "pattern": reserved_names() },
            },
            "additionalProperties": {
                "type": "string",
                "minLength": 1,
                "maxLength": headers::MAX_VALUE_LENGTH,
                "pattern": "^[!-~]([ -~]*[!-~])?$",
            },
            "writeOnly": true,
            "examples": [{ "authorization": "Bearer correct-horse" }],
        })
    }
}

/// A pattern that matches a reserved name in upper or lower case, because JSON Schema patterns have no flags.
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

schemas! {
    Computed {
        "maxLength": 1024,
        "writeOnly": true,
        "examples": ["v1,Kzdojas9V/Zecr9NXeWoKBLN86mQqQT/PRtB3A6g+AM="],
    }
    EndpointUrl {
        "description": "It must be an https URL with a valid host name on the public internet, without user info or a \
                        fragment.",
        "format": "uri",
        "maxLength": 2048,
        "examples": ["https://example.com/hook"],
    }
    Guess { "writeOnly": true, "examples": ["a long password"] }
    IdOrToken {
        "pattern": r"^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048])$",
        "examples": ["01a1fd8f-0d9d-7513-8a60-3a93ba91848b"],
    }
    MemberIdOrEmail {
        "pattern": "^(.+@.+|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$",
        "examples": ["bo@example.com"],
    }
    Password {
        "description": "Passwords are never trimmed. Different encodings of a character, such as an accented letter, are \
                        equivalent, and so are all kinds of spaces.",
        "minLength": 8,
        "maxLength": 128,
        "writeOnly": true,
        "examples": ["a long password"],
    }
    SessionId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7513-8a60-3a93ba91848b"] }
    ReceivedBody { "format": "byte", "maxLength": 1_466_668, "examples": ["e30="] }
    ReceivedHeaders {
        "maxLength": 32768,
        "examples": ["webhook-id: msg_0123456789abcdef0123456789abcdef\nwebhook-timestamp: 1769860800"],
    }
    SigningSecret {
        "description": "Use at least 16 visible characters, not counting a leading `whsec_`, without white space around \
                        them: the `message` of the response names the flaws of other secrets.",
        "minLength": 1,
        "maxLength": 256,
        "pattern": r"\S",
        "writeOnly": true,
        "examples": ["correct-horse-battery-staple"],
    }
    Token {
        "minLength": 43,
        "maxLength": 43,
        "pattern": "^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$",
        "examples": ["_TeF3Q54Jj440YaMYyjwXd4DHAlG444melsIL85Gkhs"],
    }
}
