//! API calls: each route's path, input and response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The maximum number of elements in a list or members in an object. It is bounded because the response can contain an
/// issue for each of them.
pub const MAX_ELEMENTS: usize = 100;

/// A call to a route, with its fields.
pub trait Call: Serialize {
    /// The path of the route. Routes under `/v1` accept and return their values in the envelope.
    const PATH: &'static str;
    /// Whether the route is a `GET`.
    const IS_GET: bool;
    /// The response.
    type Answer: DeserializeOwned;
}

/// The response of routes that return nothing else.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct Done {
    /// Always `true`; failures are returned as errors.
    pub success: bool,
    /// A human-readable summary of the result.
    #[schemars(extend("examples" = ["Done"]))]
    pub message: String,
}

impl Done {
    /// Returns a successful response with `message`.
    pub fn new(message: &str) -> Self {
        Self { success: true, message: message.to_owned() }
    }
}

/// Declares inputs: structs with their fields, and the names of the fields in `NAMES`. An `optional` field of the type
/// `Option` can be sent as null.
macro_rules! inputs {
    ($($(#[$doc:meta])* $input:ident {
        required { $($needed:ident $(= $needed_name:literal)?: $needed_type:ty),* $(,)? }
        optional { $($field:ident $(= $field_name:literal)?: $type:ty),* $(,)? }
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, serde::Serialize)]
        pub struct $input {
            $($(#[serde(rename = $needed_name)])? pub $needed: $needed_type,)*
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                $(#[serde(rename = $field_name)])?
                pub $field: Option<$type>,
            )*
        }

        const _: () = {
            /// The names of the fields.
            pub struct Names {
                $(pub $needed: &'static str,)*
                $(pub $field: &'static str,)*
            }

            #[allow(clippy::new_without_default, reason = "most inputs have required fields")]
            impl $input {
                pub const NAMES: Names = Names {
                    $($needed: name!($needed $($needed_name)?),)*
                    $($field: name!($field $($field_name)?),)*
                };

                /// Returns the input without optional fields.
                pub fn new($($needed: $needed_type),*) -> Self {
                    Self { $($needed,)* $($field: None,)* }
                }
            }
        };
    )*};
}

/// The name of a field: the given one, or the identifier.
macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $name:literal) => {
        $name
    };
}

/// Declares calls, and lists their paths and the names of their fields in `CALLS`.
macro_rules! calls {
    ($($(#[$doc:meta])* $method:ident $path:literal $call:ident -> $answer:ty {
        required { $($needed:ident $(= $needed_name:literal)?: $needed_type:ty),* $(,)? }
        optional { $($field:ident $(= $field_name:literal)?: $type:ty),* $(,)? }
    })*) => {
        inputs! {$(
            $(#[$doc])*
            $call {
                required { $($needed $(= $needed_name)?: $needed_type),* }
                optional { $($field $(= $field_name)?: $type),* }
            }
        )*}

        $(impl crate::call::Call for $call {
            const PATH: &'static str = $path;
            const IS_GET: bool = is_get!($method);
            type Answer = $answer;
        })*

        /// The path of each route, and the names of its fields.
        pub const CALLS: &[(&str, &[&str])] = &[$(($path, &[
            $(name!($needed $($needed_name)?),)*
            $(name!($field $($field_name)?),)*
        ])),*];
    };
}

macro_rules! is_get {
    (GET) => {
        true
    };
    (POST) => {
        false
    };
}
