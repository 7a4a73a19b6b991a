//! The ceiling that an endpoint sets on the attempts in progress at its receiver.

use std::num::NonZero;

use schemars::JsonSchema;

use crate::issue::{IssueCode, Problem};

/// A number of attempts from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
pub struct Concurrency(NonZero<u8>);

impl Concurrency {
    /// The smallest and the largest number.
    pub const RANGE: std::ops::RangeInclusive<u32> = 1..=100;

    /// Returns `None` if the number is out of range.
    pub fn new(attempts: u32) -> Option<Self> {
        Self::RANGE.contains(&attempts).then_some(attempts)?.try_into().ok().and_then(NonZero::new).map(Self)
    }

    /// Parses a number that a person typed.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let parsed = text.trim().parse().ok().and_then(Self::new);
        let message = format!("Must be a whole number from {} to {}", Self::RANGE.start(), Self::RANGE.end());
        parsed.ok_or_else(|| vec![Problem { code: IssueCode::InvalidFormat, message }])
    }

    pub fn get(self) -> u8 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_a_number_from_1_to_100() {
        assert_eq!(
            [0, 1, 100, 101, 257].map(|number| Concurrency::new(number).map(Concurrency::get)),
            [None, Some(1), Some(100), None, None]
        );
        assert_eq!(
            ["7 ", "0", "x", "-1", "1.5"].map(|text| Concurrency::parse(text).is_ok()),
            [true, false, false, false, false]
        );
    }
}
