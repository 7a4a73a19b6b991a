//! The API's string types. Each type's schema describes its format.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// Declares string types. `input` applies only to values that the service accepts, and `output` only to values that it
/// returns.
macro_rules! texts {
    ($($type:ident { $($json:tt)* } $(+ input { $($input:tt)* })? $(+ output { $($output:tt)* })?)*) => {$(
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
        #[serde(transparent)]
        pub struct $type(String);

        impl $type {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<T: Into<String>> From<T> for $type {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

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

texts! {
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
    EmailAddress { "format": "email", "maxLength": 254, "examples": ["ada@example.com"] } + input {
        "description": "The local part must be ASCII without quotes, and the domain must contain a dot. The address \
                        is trimmed and stored in lower case."
    }
    EndpointId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7467-9431-944eedd69c67"] }
    InvitationId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    KeyId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    LeaseId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    Name { "minLength": 1, "maxLength": 100, "examples": ["Ada Lovelace"] } + input {
        "description": "The name is trimmed. It must contain at least one visible character and no control characters.",
        // Excludes characters that break lines or change the direction of text. Clients in Ruby do not load with `\x9f`.
        // U+2028 is excluded as white space that
        // is not listed, because generators of zod schemas write its escape as the character, which breaks their code.
        "pattern": r"^([ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\ufeff]|[^\s\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])*$"
    }
    RecoveryId { "format": "uuid", "examples": ["01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"] }
    Slug { "pattern": "^[a-z0-9][a-z0-9-]{0,58}[a-z0-9]$", "examples": ["analytical-engines"] } + input {
        "description": "2 to 60 characters from `a-z`, `0-9` and `-`; the first and last must not be `-`."
    }
    TenantId {
        "minLength": 1,
        "maxLength": 128,
        "pattern": "^[!-~]+$",
        "examples": ["01a1fd8f-0d9d-7467-9431-944d77e2f0d3"],
    }
    Timestamp { "format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"] } + input {
        "description": "In RFC 3339 format, with any UTC offset."
    } + output {
        "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
    }
    UserId { "format": "uuid", "examples": ["01a1fd8f-0d9d-7467-9431-944eedd69c67"] }
    WebhookId { "pattern": "^msg_[0-9a-f]{32}$", "examples": ["msg_0123456789abcdef0123456789abcdef"] }
    Workflow { "minLength": 1, "maxLength": 100, "examples": ["nightly-import"] } + input {
        // Spaces, and visible characters, at least one of them.
        "pattern": r"^[ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]*[^\s\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]([ \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]|[^\s\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb])*$"
    }
}

/// A secret. It is wiped on drop and cannot be printed. Only its JSON form contains the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(Zeroizing::new(text.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}
