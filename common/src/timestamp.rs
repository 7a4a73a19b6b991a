//! Times, as we store and answer them.

/// RFC 3339, UTC, milliseconds: `2026-01-31T12:00:00.000Z`.
#[must_use]
pub fn rfc3339(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_a_z() {
        let time = "2026-01-31T12:00:00Z".parse().expect("a time");
        assert_eq!(rfc3339(time), "2026-01-31T12:00:00.000Z");
    }
}
