//! Closed sets of names.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// A closed set of names.
pub trait ClosedSet: Copy + 'static {
    /// All names, in declaration order.
    const ALL: &'static [Self];

    /// The name in the API and the tables.
    fn as_str(self) -> &'static str;
}

/// The error for a string that is not one of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAName;

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a known name")
    }
}

impl std::error::Error for NotAName {}

/// Declares closed sets of names. Their comments are part of the OpenAPI description.
macro_rules! names {
    ($($(#[$attribute:meta])* $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)* })*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(schemars::JsonSchema, serde::Deserialize, serde::Serialize)]
        $(#[$attribute])*
        pub enum $type {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl $type {
            /// The name in the API and the tables.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl crate::name::ClosedSet for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::name::NotAName;

            fn from_str(text: &str) -> Result<Self, crate::name::NotAName> {
                match text {
                    $($name => Ok(Self::$variant),)*
                    _ => Err(crate::name::NotAName),
                }
            }
        }
    )*};
}

/// A name in a response. Clients read names that a later version of the service has added as `Later`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
#[serde(untagged)]
pub enum Extensible<T> {
    Known(T),
    Later(String),
}

impl<T> From<T> for Extensible<T> {
    fn from(name: T) -> Self {
        Self::Known(name)
    }
}

impl<T: PartialEq> PartialEq<T> for Extensible<T> {
    fn eq(&self, name: &T) -> bool {
        matches!(self, Self::Known(known) if known == name)
    }
}

impl<T: fmt::Display> fmt::Display for Extensible<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(name) => name.fmt(f),
            Self::Later(name) => f.write_str(name),
        }
    }
}

/// The schema lists the known names.
impl<T: JsonSchema> JsonSchema for Extensible<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::Extensible;
    use crate::deliveries::Status;

    #[test]
    fn names_of_later_versions_are_read() {
        let read = |text: &str| serde_json::from_str::<Extensible<Status>>(text).expect("a name");
        assert_eq!(read(r#""held""#), Status::Held);
        assert_eq!(read(r#""paused""#), Extensible::Later("paused".to_owned()));
        assert_eq!(read(r#""paused""#).to_string(), "paused");
    }
}
