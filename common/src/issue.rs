//! What is wrong with an input, field by field.

use std::fmt;

use serde::Serialize;

/// One problem of an input, as `data.issues` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// The kind of problem.
    pub code: IssueCode,
    /// The field.
    pub path: Vec<String>,
    /// The problem in words. Never holds the value.
    pub message: String,
}

/// "password: must have at least 8 characters".
impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut message = self.message.chars();
        let first = message.next().unwrap_or_default().to_ascii_lowercase();
        write!(f, "{}: {first}{}", self.path.join("."), message.as_str())
    }
}

/// The kinds of problem, as zod (and so every oRPC client) names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IssueCode {
    /// Missing, or not of the JSON type.
    InvalidType,
    /// Of the right type, with content that the field does not allow.
    InvalidFormat,
    /// Shorter than allowed.
    TooSmall,
    /// Longer than allowed.
    TooBig,
}

/// What a domain type finds wrong with a text: an [`Issue`] that does not know its field yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of problem.
    pub code: IssueCode,
    /// The problem in words. Never holds the value.
    pub message: String,
}

impl Problem {
    /// Content that the field does not allow.
    pub fn format(message: impl Into<String>) -> Self {
        Self { code: IssueCode::InvalidFormat, message: message.into() }
    }

    /// The problem of a text of `length` characters, if it has to have `min` to `max`.
    #[must_use]
    pub fn length(length: usize, min: usize, max: usize) -> Option<Self> {
        let characters = |n: usize| if n == 1 { "1 character".to_owned() } else { format!("{n} characters") };
        if length < min {
            Some(Self { code: IssueCode::TooSmall, message: format!("Must have at least {}", characters(min)) })
        } else if length > max {
            Some(Self { code: IssueCode::TooBig, message: format!("Must have at most {}", characters(max)) })
        } else {
            None
        }
    }
}
