//! Human-readable reasons for failed attempts. The names for programs are in [`Failure::reason`].
//!
//! [`Failure::reason`]: super::Failure::reason

use api::outcome;
pub use api::outcome::{OUTCOMES, error_name};

use super::detail::Detail;
use crate::issue::Problem;

/// Parses the outcome of an attempt from a request.
pub fn parse_outcome(text: &str) -> Result<String, Vec<Problem>> {
    match OUTCOMES.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(vec![Problem::format(format!("Must be one of {}", OUTCOMES.join(", ")))]),
    }
}

/// Explains a failure: returns its detail or, if there is none, the meaning of its reason, as sentences.
pub fn error_meaning(reason: &str, detail: Option<&Detail>) -> String {
    outcome::error_meaning(reason, detail.map(Detail::as_str))
}
