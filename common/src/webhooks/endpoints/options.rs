//! The options of an endpoint: what users set when they create it or change it later, and what has a default. They are
//! declared in [`api::endpoint_options`].

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;

use super::concurrency::Concurrency;
use crate::{
    audit::{self, initial},
    aws::{
        dynamo::{Attribute, ItemReader, boolean, number, text, texts},
        expression::Update,
    },
    error::Result,
    name::Description,
    patch::Patch,
    webhooks::event::{EventFilter, PayloadForm, WorkflowFilter},
};

/// The value of an option, which one attribute of the endpoint's item holds.
trait Value: PartialEq + Sized {
    fn read(record: &ItemReader<'_>, attribute: Attribute) -> Result<Option<Self>>;
    fn to_attribute(&self) -> AttributeValue;
    /// The value in the audit log.
    fn audited(&self) -> String;
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ident { $($more:tt)* })*) => {
        /// The options of an endpoint.
        #[derive(Clone, Debug, Default)]
        pub struct Options {$(
            $(#[$doc])*
            pub $name: Option<$type>,
        )*}

        /// A change of options.
        #[derive(Debug, Default, PartialEq)]
        pub struct OptionsChange {$(
            $(#[$doc])*
            pub $name: Patch<$type>,
        )*}

        impl Options {
            pub(super) const ATTRIBUTES: &[Attribute] = &[$(Attribute(stringify!($name))),*];

            /// Reads the options in an item.
            pub(super) fn read(record: &ItemReader<'_>) -> Result<Self> {
                Ok(Self {
                    $($name: <$type>::read(record, Attribute(stringify!($name)))?,)*
                })
            }

            pub(super) fn attributes(&self) -> impl Iterator<Item = (Attribute, AttributeValue)> {
                [$(self.$name.as_ref().map(|it| (Attribute(stringify!($name)), it.to_attribute()))),*].into_iter().flatten()
            }

            /// The audited fields of a new endpoint.
            pub(super) fn audited(&self) -> impl Iterator<Item = audit::Change> {
                [$(self.$name.as_ref().map(|it| initial(stringify!($name), it.audited()))),*].into_iter().flatten()
            }

            /// The change from these options to others.
            pub fn change_to(self, new: Self) -> OptionsChange {
                OptionsChange { $($name: Patch::between(self.$name, new.$name),)* }
            }
        }

        impl OptionsChange {
            /// The options of a new endpoint.
            pub fn into_options(self) -> Options {
                Options { $($name: self.$name.into_option(),)* }
            }

            pub(super) fn set(&self, update: Update) -> Update {
                $(let update = match &self.$name {
                    Patch::Set(value) => update.set(Attribute(stringify!($name)), value.to_attribute()),
                    Patch::Clear => update.remove([Attribute(stringify!($name))]),
                    Patch::Keep => update,
                };)*
                update
            }

            /// The audited changes to the endpoint in `record`. A stored value that cannot be read counts as none.
            pub(super) fn audited(&self, record: &ItemReader<'_>) -> impl Iterator<Item = audit::Change> {
                [$({
                    let stored = || <$type>::read(record, Attribute(stringify!($name))).ok().flatten();
                    let new = match &self.$name {
                        Patch::Set(new) => Some(Some(new.audited())),
                        Patch::Clear => Some(None),
                        Patch::Keep => None,
                    };
                    let change = new.map(|new| (stored().map(|old| old.audited()), new)).filter(|(old, new)| old != new);
                    change.map(|(old, new)| audit::change(stringify!($name), old, new))
                }),*].into_iter().flatten()
            }
        }
    };
}

api::endpoint_options!(options);

/// Joins names, sorted, for the audit log.
fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    Vec::from_iter(BTreeSet::from_iter(names)).join(", ")
}

impl Value for Description {
    fn read(record: &ItemReader<'_>, attribute: Attribute) -> Result<Option<Self>> {
        record.optional_checked(attribute, Self::parse)
    }

    fn to_attribute(&self) -> AttributeValue {
        text(self.as_str())
    }

    fn audited(&self) -> String {
        self.as_str().to_owned()
    }
}

impl Value for EventFilter {
    fn read(record: &ItemReader<'_>, attribute: Attribute) -> Result<Option<Self>> {
        record.optional_set(attribute, Self::parse_name)
    }

    fn to_attribute(&self) -> AttributeValue {
        texts(self.names())
    }

    fn audited(&self) -> String {
        joined(self.names())
    }
}

impl Value for WorkflowFilter {
    fn read(record: &ItemReader<'_>, attribute: Attribute) -> Result<Option<Self>> {
        record.optional_set(attribute, Self::stored_name)
    }

    fn to_attribute(&self) -> AttributeValue {
        texts(self.names())
    }

    fn audited(&self) -> String {
        joined(self.names())
    }
}

impl Value for PayloadForm {
    fn read(record: &ItemReader<'_>, attribute: Attribute) -> Result<Option<Self>> {
        record.optional_parsed(attribute)
    }

    fn to_attribute(&self) -> AttributeValue {
        text(self)
    }

    fn audited(&self) -> String {
        self.to_string()
    }
}

impl Value for bool {
    fn read(record: &ItemReader<'_>, attribute: Attribute) -> Result<Option<Self>> {
        Ok(record.optional_boolean(attribute))
    }

    fn to_attribute(&self) -> AttributeValue {
        boolean(*self)
    }

    fn audited(&self) -> String {
        self.to_string()
    }
}

impl Value for Concurrency {
    fn read(record: &ItemReader<'_>, attribute: Attribute) -> Result<Option<Self>> {
        Ok(record.optional_integer(attribute).and_then(Self::new))
    }

    fn to_attribute(&self) -> AttributeValue {
        number(self.get().into())
    }

    fn audited(&self) -> String {
        self.get().to_string()
    }
}
