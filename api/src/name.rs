//! Closed sets of names.

use std::fmt;

/// A closed set of names.
pub trait ClosedSet: Copy + 'static {
    /// All of them, in the order of their declaration.
    const ALL: &'static [Self];

    /// The name in the API and in the tables.
    fn as_str(self) -> &'static str;
}

/// The text is not one of the names.
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
            /// The name in the API and in the tables.
            #[must_use]
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
