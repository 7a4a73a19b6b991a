//! Filters of endpoints: the events that an endpoint gets.

use super::name::EventName;
use crate::issue::Problem;

/// The events that an endpoint gets, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter(Vec<EventName>);

impl EventFilter {
    /// Parses the name of an event that can be filtered.
    ///
    /// # Errors
    /// There is no such event.
    pub fn parse_name(text: &str) -> Result<EventName, Vec<Problem>> {
        let known = EventName::OF_JOBS.into_iter().find(|name| name.as_str() == text);
        known.ok_or_else(|| {
            vec![Problem::format(format!("Must be {}", EventName::OF_JOBS.map(EventName::as_str).join(" or ")))]
        })
    }

    /// Whether the filter includes this event.
    #[must_use]
    pub fn wants(&self, event: EventName) -> bool {
        self.0.contains(&event)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|name| name.as_str())
    }
}

impl FromIterator<EventName> for EventFilter {
    fn from_iter<I: IntoIterator<Item = EventName>>(names: I) -> Self {
        let mut names = Vec::from_iter(names);
        names.sort_unstable_by_key(|name| name.as_str());
        names.dedup();
        Self(names)
    }
}

impl From<EventFilter> for api::EventFilter {
    fn from(filter: EventFilter) -> Self {
        Self(filter.0.into_iter().map(Into::into).collect())
    }
}
