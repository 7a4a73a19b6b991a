//! The text fields of a form or a link. A page reads them without checks, so it can show rejected values again, with
//! their issues.

use super::{Fields, OPTIONAL, Rejected};
use crate::{
    error::Result,
    http::json::{Json, Object},
};

/// The text fields of a form. They may include passwords, so there is no `Debug`.
#[derive(Clone)]
pub struct FormValues(Object);

impl FormValues {
    /// The fields of a form that is shown with stored values.
    pub fn of<'a>(values: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        Self(values.into_iter().map(|(name, value)| (name.to_owned(), Json::Text(value))).collect())
    }

    /// Returns the value of a field, or an empty string if the field is absent.
    pub fn get(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Json::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether a field with this name is present, even if empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Copies the value of the field `other` to `name` if `name` is empty.
    pub fn or(self, name: &str, other: &str) -> Self {
        let value = self.get(other).to_owned();
        self.or_value(name, &value)
    }

    /// Sets the value of the field `name` if it is empty.
    pub fn or_value(mut self, name: &str, value: &str) -> Self {
        if self.get(name).is_empty() {
            self.0.insert(name.to_owned(), Json::Text(value.to_owned()));
        }
        self
    }

    /// Removes empty fields.
    pub fn without_empty(mut self) -> Self {
        self.0.retain(|_, value| !matches!(value, Json::Text(text) if text.is_empty()));
        self
    }

    /// Reads an input from the fields.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::error::Error::Invalid) with all issues of the input.
    pub fn read<I>(&self, read: impl FnOnce(&mut Fields) -> Result<I, Rejected>) -> Result<I> {
        Fields::read(self.0.clone(), read)
    }
}

impl Fields {
    /// Reads the text fields of a form, or of a link to a page, without checks. The page itself reports issues.
    pub fn typed(&mut self, fields: &[(&'static str, &'static str)]) -> FormValues {
        for (name, about) in fields {
            self.about(about).note::<String>(name, OPTIONAL);
        }
        FormValues(std::mem::take(&mut self.values))
    }
}
