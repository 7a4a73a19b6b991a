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
const MAX_WORKFLOW_LENGTH: usize = 100;

impl WorkflowFilter {
    /// Parses an entry of a filter: a name, or the beginning of names followed by `*`. Surrounding white space is
    /// removed. The rest must have 1 to 100 characters, none of them a control character or invisible.
    pub fn parse_name(text: &str) -> Result<String, Vec<Problem>> {
        let text = text.trim();
        let mut problems = Vec::from_iter(Problem::length(text.chars().count(), 1, MAX_WORKFLOW_LENGTH));
        if text.chars().any(::text::is_control) {
            problems.push(Problem::format("Must not contain control characters"));
        }
        problems.extend(Problem::invisible(text));
        if problems.is_empty() { Ok(text.to_owned()) } else { Err(problems) }
    }

    /// Reads a stored entry. One that would no longer be accepted stays valid, so that no event is lost.
    pub(in crate::webhooks) fn stored_name(text: &str) -> Result<String, Vec<Problem>> {
        Ok(text.to_owned())
    }

    /// Whether the filter includes this workflow. No filter includes events without a workflow.
    pub fn wants(&self, workflow: Option<&str>) -> bool {
        let begins =
            |name: &str| self.0.iter().filter_map(|entry| entry.strip_suffix('*')).any(|it| name.starts_with(it));
        workflow.is_some_and(|name| self.0.contains(name) || begins(name))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asterisk_at_the_end_selects_names_by_their_beginning() {
        let filter: WorkflowFilter = ["nightly-*", "import", "a*b"].map(str::to_owned).into_iter().collect();
        for (workflow, is_wanted) in [
            ("nightly-", true),
            ("nightly-eu", true),
            ("nightly", false),
            ("import", true),
            ("import-2", false),
            ("a*b", true),
            ("axb", false),
        ] {
            assert_eq!(filter.wants(Some(workflow)), is_wanted, "{workflow}");
        }
        let all = WorkflowFilter::from_iter(["*".to_owned()]);
        assert!(all.wants(Some("any")) && all.wants(Some("")) && !all.wants(None));
    }

    #[test]
    fn an_entry_is_trimmed_and_has_no_invisible_character() {
        assert_eq!(WorkflowFilter::parse_name(" nightly \n").as_deref(), Ok("nightly"));
        let refused = |text: &str| WorkflowFilter::parse_name(text).expect_err("a problem")[0].message.clone();
        assert_eq!(refused("night\u{200b}ly"), "Must not contain the invisible character U+200B");
        assert_eq!(refused("   "), "Must have at least 1 character");
        for text in ["a\u{2060}", "\u{feff}a", "a\u{ad}b", "a\u{202e}b", "a\u{e0001}b", "a\u{200d}", "a\u{3164}b"] {
            assert!(WorkflowFilter::parse_name(text).is_err(), "{text:?}");
        }
        for text in ["Übernacht 2", "夜間", "a b", "e\u{301}"] {
            assert!(WorkflowFilter::parse_name(text).is_ok(), "{text:?}");
        }
    }
}
