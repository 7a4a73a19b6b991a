//! Describes the fields of an input for the OpenAPI description. The code that reads the fields runs without values,
//! and each field is recorded. In a deployed function, these functions do nothing.

use std::ops::RangeInclusive;

use schemars::JsonSchema;

use super::{Fields, Rejected};
use crate::http::info::Case;
#[cfg(feature = "openapi")]
use crate::http::{json::Object, shapes::FieldDescriptions};

impl Fields {
    /// Describes the fields that `read` reads.
    #[cfg(feature = "openapi")]
    pub(in crate::http) fn describe<I>(
        generator: &mut schemars::SchemaGenerator,
        read: impl FnOnce(&mut Self) -> Result<I, Rejected>,
    ) -> FieldDescriptions {
        let description = Some(FieldDescriptions::new(std::mem::take(generator)));
        let mut fields = Self { values: Object::new(), issues: Vec::new(), key: None, description };
        // There are no values, so required fields are rejected, but every field that `read` reads is recorded.
        let (Ok(_) | Err(Rejected)) = read(&mut fields);
        let mut description = fields.description.unwrap_or_default();
        *generator = std::mem::take(&mut description.generator);
        description
    }

    /// Describes the purpose and the default of the next field to be read, for the API reference. The field's type
    /// describes its form.
    pub fn about(&mut self, _text: &'static str) -> &mut Self {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.about = _text;
        }
        self
    }

    /// Sets an example for the next string to be read, if its type has no example.
    pub fn example(&mut self, _text: &'static str) -> &mut Self {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.example = _text;
        }
        self
    }

    /// Declares the only values of the next string to be read.
    pub fn choices(&mut self, _choices: &'static [&'static str]) -> &mut Self {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.choices = _choices;
        }
        self
    }

    /// Declares optional fields of which at least one is required. This only affects the description: the code that
    /// reads the fields enforces the rule.
    pub fn at_least_one(&mut self, _names: &'static [&'static str]) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.at_least_one = _names;
        }
    }

    /// Declares that the value of a field determines which other fields are required. The fields listed with a value
    /// are required for that value and rejected for all others. The first value is the default. This only affects the
    /// description: the code that reads the fields enforces the rule.
    pub fn cases(&mut self, _name: &'static str, _cases: &'static [Case]) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.cases = Some((_name, _cases));
        }
    }

    /// Declares groups of optional fields, of which only one can have fields that are present. This only affects the
    /// description: the code that reads the fields enforces the rule.
    pub fn either(&mut self, _groups: &'static [&'static [&'static str]]) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.either = _groups;
        }
    }

    /// Records a field whose type has a schema.
    #[cfg_attr(not(feature = "openapi"), expect(clippy::unused_self, reason = "only a description records fields"))]
    pub(super) fn note<T: JsonSchema>(&mut self, _name: &'static str, _is_required: bool) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.note::<T>(_name, _is_required);
        }
    }

    /// Records an optional number.
    #[cfg_attr(not(feature = "openapi"), expect(clippy::unused_self, reason = "only a description records fields"))]
    pub(super) fn note_number(&mut self, _name: &'static str, _range: &RangeInclusive<u32>) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.note_number(_name, _range);
        }
    }

    /// Records a required object with the fields that `read` reads.
    #[cfg_attr(not(feature = "openapi"), expect(clippy::unused_self, reason = "only a description records fields"))]
    pub(super) fn note_object<T>(&mut self, _name: &'static str, _read: impl Fn(&mut Self) -> Result<T, Rejected>) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            let fields = Self::describe(&mut description.generator, _read);
            description.note_object(_name, &fields);
        }
    }

    /// Records a required array of objects with the fields that `read` reads.
    #[cfg_attr(not(feature = "openapi"), expect(clippy::unused_self, reason = "only a description records fields"))]
    pub(super) fn note_objects<T>(&mut self, _name: &'static str, _read: impl Fn(&mut Self) -> Result<T, Rejected>) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            let element = Self::describe(&mut description.generator, _read);
            description.note_objects(_name, &element, api::MAX_ELEMENTS);
        }
    }

    /// Declares that the call accepts an idempotency key.
    #[cfg_attr(not(feature = "openapi"), expect(clippy::unused_self, reason = "only a description records it"))]
    pub(super) fn note_key(&mut self) {
        #[cfg(feature = "openapi")]
        if let Some(description) = &mut self.description {
            description.takes_key = true;
        }
    }
}
