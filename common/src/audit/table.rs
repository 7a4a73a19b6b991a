//! The audit table: the attributes of entries, and their order.

use std::{fmt, str::FromStr};

use crate::{aws::dynamo::attributes, id::NotAnId, issue::Problem, random, timestamp::Timestamp};

/// Entries are kept for a year. Reads check the age of each entry; the table's TTL only cleans up.
pub(super) const KEPT_SECONDS: i64 = 365 * 24 * 60 * 60;
/// The last Unix time in milliseconds that has 13 digits, in the year 2286.
const LAST: u64 = 9_999_999_999_999;

attributes! { pub(super)
    TENANT_ID = "tenant_id",
    // The time and a random number, so two entries in the same millisecond have different keys.
    ENTRY = "entry",
    ACTION = "action", ACTOR_ID = "actor_id",
    // The entry in the API's format.
    DETAILS = "details",
    EXPIRES_AT = "expires_at",
}

/// An entry's position among its organization's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    millisecond: u64,
    random: u128,
}

impl Position {
    /// The position after all entries.
    pub(super) const LAST: Self = Self { millisecond: LAST, random: 0 };

    /// A unique position for an entry at this time.
    pub(super) fn new(at: Timestamp) -> Self {
        Self { random: u128::from_le_bytes(random::bytes()), ..Self::start_of(at) }
    }

    /// The position before all entries at this time. Times with more digits would not sort as text.
    pub(super) fn start_of(at: Timestamp) -> Self {
        Self { millisecond: at.as_millisecond().try_into().unwrap_or(0).min(LAST), random: 0 }
    }

    pub(super) fn previous(self) -> Self {
        match self.random.checked_sub(1) {
            Some(random) => Self { random, ..self },
            None => Self { millisecond: self.millisecond.saturating_sub(1), random: u128::MAX },
        }
    }

    /// Parses a cursor from a request.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        text.parse().map_err(|NotAnId| vec![Problem::format("Must be the next_cursor from an earlier page")])
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013}.{:032x}", self.millisecond, self.random)
    }
}

impl FromStr for Position {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let (millisecond, random) = text.split_once('.').ok_or(NotAnId)?;
        let position = Self {
            millisecond: millisecond.parse().map_err(|_not_a_number| NotAnId)?,
            random: u128::from_str_radix(random, 16).map_err(|_not_a_number| NotAnId)?,
        };
        if position.millisecond <= LAST && position.to_string() == text { Ok(position) } else { Err(NotAnId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_of_a_place_is_a_cursor() {
        let position = Position::new(Timestamp::from_millisecond(1_700_000_000_000));
        assert_eq!(Position::parse(&position.to_string()).expect("its own form"), position);
        for text in
            ["", ".", "1.2", "1700000000000", "1700000000000.", "1700000000000.0000000000000000000000000000000G", "~.~"]
        {
            assert!(Position::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_text_of_a_place_sorts_as_the_place() {
        let places = [(0, 0), (0, 9), (0, u128::MAX), (1, 0), (1_700_000_000_000, 0), (1_700_000_000_000, 255)];
        let places = places.map(|(millisecond, random)| Position { millisecond, random });
        assert!(places.is_sorted());
        assert!(places.map(|place| place.to_string()).is_sorted());
        let far = ["2286-11-20T17:46:39.999Z", "2286-11-20T17:46:40Z", "7018-09-23T00:00:00Z", "9999-12-31T23:59:59Z"];
        let far = far.map(|at| Position::start_of(at.parse().expect("a time")).to_string());
        assert!(far.is_sorted() && far[0] > places[5].to_string());
        assert!(places.windows(2).all(|pair| pair[0] <= pair[1].previous() && pair[1].previous() < pair[1]));
    }
}
