//! Endpoints' filters, which select events by name and by the job's workflow.

use std::collections::BTreeSet;

use super::name::EventName;
use crate::issue::Problem;

/// The events that an endpoint gets, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter(Vec<EventName>);

impl EventFilter {
    /// Parses the name of an event that can be filtered.
    pub fn parse_name(text: &str) -> Result<EventName, Vec<Problem>> {
        let known = EventName::CHOICES.into_iter().find(|name| name.as_str() == text);
        known.ok_or_else(|| {
            vec![Problem::format(format!("Must be one of {}", EventName::CHOICES.map(EventName::as_str).join(", ")))]
        })
    }

    /// Whether the filter includes this event.
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

/// The workflows whose events an endpoint gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkflowFilter(BTreeSet<String>);

/// The maximum length of a workflow name in a filter, in characters.
const LONGEST: usize = 100;

impl WorkflowFilter {
    /// Checks that `text` has 1 to 100 characters and no control characters.
    pub fn parse_name(text: &str) -> Result<String, Vec<Problem>> {
        let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 1, LONGEST));
        if text.chars().any(char::is_control) {
            problems.push(Problem::format("Must not contain control characters"));
        }
        if problems.is_empty() { Ok(text.to_owned()) } else { Err(problems) }
    }

    /// Whether the filter includes this workflow. No filter includes events without a workflow.
    pub fn wants(&self, workflow: Option<&str>) -> bool {
        workflow.is_some_and(|name| self.0.contains(name))
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl FromIterator<String> for WorkflowFilter {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

impl From<WorkflowFilter> for api::WorkflowFilter {
    fn from(filter: WorkflowFilter) -> Self {
        Self(filter.0.into_iter().map(Into::into).collect())
    }
}

impl From<EventFilter> for api::EventFilter {
    fn from(filter: EventFilter) -> Self {
        Self(filter.0.into_iter().map(Into::into).collect())
    }
}
