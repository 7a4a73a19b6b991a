//! Reading the fields of an input. Every field is looked at before anything is refused, so the caller learns
//! of all problems at once.

use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    issue::{Issue, IssueCode, Problem},
};

/// The fields of an input, and the issues found so far.
pub struct Fields {
    values: Map<String, Value>,
    issues: Vec<Issue>,
}

/// A field with an issue, which is noted in the [`Fields`] that it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected;

impl Fields {
    pub(super) fn new(values: Map<String, Value>) -> Self {
        Self { values, issues: Vec::new() }
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// It is missing, no text, or not what `parse` takes.
    pub fn text<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>) -> Result<T, Rejected> {
        match self.values.remove(name) {
            None => Err(self.wrong_type(name, "Required")),
            Some(value) => self.parse(name, &value, parse),
        }
    }

    /// A text that may be absent, but not `null`.
    ///
    /// # Errors
    /// It is no text, or not what `parse` takes.
    pub fn optional_text<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<T>, Rejected> {
        self.values.remove(name).map(|value| self.parse(name, &value, parse)).transpose()
    }

    /// A text that may be absent (`None`) or `null` (`Some(None)`).
    ///
    /// # Errors
    /// It is neither `null` nor a text, or not what `parse` takes.
    pub fn nullable_text<T>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<Option<T>>, Rejected> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(value) => self.parse(name, &value, parse).map(|parsed| Some(Some(parsed))),
        }
    }

    /// A boolean that may be absent, but not `null`.
    ///
    /// # Errors
    /// It is no boolean.
    pub fn optional_bool(&mut self, name: &str) -> Result<Option<bool>, Rejected> {
        match self.values.remove(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(self.wrong_type(name, "Must be true or false")),
        }
    }

    fn parse<T>(
        &mut self,
        name: &str,
        value: &Value,
        parse: impl FnOnce(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<T, Rejected> {
        let Value::String(text) = value else { return Err(self.wrong_type(name, "Must be a string")) };
        parse(text).map_err(|problems| {
            self.issues.extend(problems.into_iter().map(|problem| Issue {
                code: problem.code,
                path: vec![name.to_owned()],
                message: problem.message,
            }));
            Rejected
        })
    }

    fn wrong_type(&mut self, name: &str, message: &str) -> Rejected {
        let path = vec![name.to_owned()];
        self.issues.push(Issue { code: IssueCode::InvalidType, path, message: message.to_owned() });
        Rejected
    }

    /// The input, if no field was rejected.
    pub(super) fn finish<I>(self, input: Result<I, Rejected>) -> Result<I> {
        match input {
            Ok(input) if self.issues.is_empty() => Ok(input),
            _ => Err(Error::Invalid(self.issues)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::name::{Name, Slug};

    fn fields(value: Value) -> Fields {
        let Value::Object(values) = value else { unreachable!("an object") };
        Fields::new(values)
    }

    #[test]
    fn every_issue_of_every_field_is_found() {
        let mut fields = fields(json!({"slug": "A", "active": null, "url": 7}));
        let name = fields.text("name", Name::parse);
        let slug = fields.text("slug", Slug::parse);
        let active = fields.optional_bool("active");
        let url = fields.optional_text("url", Name::parse);
        assert!(name.is_err() && slug.is_err() && active.is_err() && url.is_err());
        let Err(Error::Invalid(issues)) = fields.finish(name) else { unreachable!("issues") };
        let found: Vec<_> = issues.iter().map(|issue| (issue.path[0].as_str(), issue.code)).collect();
        assert_eq!(
            found,
            [
                ("name", IssueCode::InvalidType),
                ("slug", IssueCode::TooSmall),
                ("slug", IssueCode::InvalidFormat),
                ("active", IssueCode::InvalidType),
                ("url", IssueCode::InvalidType),
            ]
        );
    }

    #[test]
    fn absent_and_null_are_not_the_same() {
        let mut fields = fields(json!({"description": null}));
        assert!(matches!(fields.nullable_text("description", Name::parse), Ok(Some(None))));
        assert!(matches!(fields.nullable_text("description", Name::parse), Ok(None)));
    }
}
