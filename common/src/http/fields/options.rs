//! Reads the options of an endpoint, which [`api::endpoint_options`] declares.

use api::{MAX_ELEMENTS, MAX_WORKFLOWS};

use super::{Fields, Rejected};
use crate::{
    issue::parse_name,
    name::Description,
    patch::Patch,
    webhooks::{
        endpoints::{Concurrency, OptionsChange},
        event::{EventFilter, PayloadForm, WorkflowFilter},
    },
};

/// The type of an option.
trait ReadOption: Sized {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Patch<Self>, Rejected>;
}

macro_rules! read_options {
    ($($(#[$doc:meta])* $name:ident: $type:ident {
        field: $field:ty, member: $member:ty as $schema:literal, create: $create:literal,
        update: $update:literal,
    })*) => {
        impl Fields {
            /// Reads the options of a new endpoint, or of a change to an existing one. An absent field keeps the value
            /// or the default, and `null` removes the value.
            pub fn endpoint_options(&mut self, is_new: bool) -> Result<OptionsChange, Rejected> {
                $(let $name = <$type>::read(self.about(if is_new { $create } else { $update }), stringify!($name));)*
                Ok(OptionsChange { $($name: $name?,)* })
            }
        }
    };
}

api::endpoint_options!(read_options);

impl ReadOption for Description {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Patch<Self>, Rejected> {
        fields.nullable_text(name, Self::parse)
    }
}

impl ReadOption for EventFilter {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Patch<Self>, Rejected> {
        fields.nullable_list(name, MAX_ELEMENTS, Self::parse_name)
    }
}

impl ReadOption for WorkflowFilter {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Patch<Self>, Rejected> {
        fields.nullable_list(name, MAX_WORKFLOWS, Self::parse_name)
    }
}

impl ReadOption for PayloadForm {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Patch<Self>, Rejected> {
        fields.nullable_text(name, parse_name::<Self>)
    }
}

impl ReadOption for bool {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Patch<Self>, Rejected> {
        fields.nullable_bool(name)
    }
}

impl ReadOption for Concurrency {
    fn read(fields: &mut Fields, name: &'static str) -> Result<Patch<Self>, Rejected> {
        let is_null = fields.is_null(name);
        let number = fields.optional_number(name, Self::RANGE)?;
        Ok(number.and_then(Self::new).map_or(if is_null { Patch::Clear } else { Patch::Keep }, Patch::Set))
    }
}
