//! Issues with an input, by field.

use api::ClosedSet;
pub use api::error::{Issue, IssueCode};
use text::Untrusted;

/// A problem that a domain type finds in a string: an [`Issue`] without its field. Parsers return one for each violated
/// rule, and have no `# Errors` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub code: IssueCode,
    /// A description of the issue, never including the value.
    pub message: String,
}

/// Parses a member of a closed set from its name.
pub fn parse_name<T: ClosedSet>(text: &str) -> Result<T, Vec<Problem>> {
    T::ALL.iter().find(|name| name.as_str() == text).copied().ok_or_else(|| {
        let names: Vec<_> = T::ALL.iter().map(|name| name.as_str()).collect();
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        vec![Problem::format(format!("Must be {} or {last}", others.join(", ")))]
    })
}

impl Problem {
    /// A value in the wrong format.
    pub fn format(message: impl Into<String>) -> Self {
        Self { code: IssueCode::InvalidFormat, message: message.into() }
    }

    /// A missing required field.
    pub fn missing() -> Self {
        Self { code: IssueCode::InvalidType, message: "Required".to_owned() }
    }

    /// Returns a problem if a text contains an invisible character, which it names.
    pub fn invisible(text: &str) -> Option<Self> {
        let found = Untrusted::new(text).first_invisible()?;
        Some(Self::format(format!("Must not contain the invisible character U+{:04X}", u32::from(found))))
    }

    /// Returns a problem if a string of `length` characters is shorter than `min` or longer than `max`.
    pub fn length(length: usize, min: usize, max: usize) -> Option<Self> {
        Self::amount("character", length, min, max)
    }

    /// Returns a problem if a string of `bytes` bytes is longer than `max`.
    pub fn bytes(bytes: usize, max: usize) -> Option<Self> {
        Self::amount("byte", bytes, 0, max)
    }

    /// Returns a problem if a list of `count` elements has fewer than `min` or more than `max`.
    pub fn count(count: usize, min: usize, max: usize) -> Option<Self> {
        Self::amount("element", count, min, max)
    }

    /// Returns a problem if an object of `count` members has more than `most`.
    pub fn members(count: usize, most: usize) -> Option<Self> {
        Self::amount("member", count, 0, most)
    }

    fn amount(of: &str, amount: usize, min: usize, max: usize) -> Option<Self> {
        let several = |n: usize| if n == 1 { format!("1 {of}") } else { format!("{n} {of}s") };
        if amount < min {
            Some(Self { code: IssueCode::TooSmall, message: format!("Must have at least {}", several(min)) })
        } else if amount > max {
            Some(Self { code: IssueCode::TooBig, message: format!("Must have at most {}", several(max)) })
        } else {
            None
        }
    }
}

/// A problem that a domain type finds in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberProblem {
    /// The member's name; `None` if the name itself is invalid, or the problem concerns the entire object.
    pub member: Option<String>,
    /// The problem with the member or the object.
    pub problem: Problem,
}

impl MemberProblem {
    /// A problem with the entire object.
    pub fn of_all(problem: Problem) -> Self {
        Self { member: None, problem }
    }
}
