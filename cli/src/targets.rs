//! The local programs that `listen` posts events to, and the rules by which each event has exactly one of them.

use std::{collections::HashMap, fmt, sync::Arc};

use api::{ClosedSet, webhooks::EventName};
use serde_json::value::RawValue;
use url::Url;

use crate::{address::program, failure::Failure, terminal::shown};

/// The part of a target before its address, such as `job.failed` or `nightly-*`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    /// Events with this name or, if it ends in `*`, with this beginning.
    Event(String),
    /// Events about jobs of this workflow or, if it ends in `*`, of all whose names begin with it.
    Workflow(String),
    /// All other events.
    Others,
}

/// A local program, and the events that it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    rule: Rule,
    pub(crate) url: Url,
}

/// The targets in the order of the command line. The first one whose rule matches gets an event.
#[derive(Clone, Debug)]
pub(crate) struct Targets(Arc<[Target]>);

/// Parses a target: an address, after a rule and `=` if it does not get all events. The rule of an address with a `=` in
/// its query would contain one of the characters `/?:`, which a rule cannot.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    let (rule, address) = match text.split_once('=') {
        Some((rule, address)) if !rule.contains(['/', '?', ':']) => (self::rule(rule.trim())?, address),
        _ => (Rule::Others, text),
    };
    Ok(Target { rule, url: program(address)? })
}

fn rule(text: &str) -> Result<Rule, String> {
    let is_event = |text: &str| text.split_once('.').is_some_and(|(kind, _)| KINDS.contains(&kind));
    match text {
        "" => Err("must have an event or a workflow before the =".to_owned()),
        "*" => Ok(Rule::Others),
        _ if !is_event(text) => Ok(Rule::Workflow(text.to_owned())),
        _ if EventName::ALL.iter().any(|event| fits(text, event.as_str())) => Ok(Rule::Event(text.to_owned())),
        _ => {
            let all: Vec<_> = EventName::ALL.iter().map(|event| event.as_str()).collect();
            Err(format!("{} is not an event: the events are {}", shown(text), all.join(", ")))
        }
    }
}

/// The beginnings of the names of events.
const KINDS: [&str; 3] = ["job", "endpoint", "webhook"];

/// Whether `name` is the pattern or, if the pattern ends in `*`, begins with the part before it, as in an endpoint's
/// `workflows`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

impl Target {
    /// The option that sets this target, for a hint.
    pub(crate) fn option(&self) -> String {
        match &self.rule {
            Rule::Others => "--to".to_owned(),
            Rule::Event(pattern) | Rule::Workflow(pattern) => format!("--to '{}=...'", shown(pattern)),
        }
    }
}

/// The events of a target, in words.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Event(pattern) => f.write_str(&shown(pattern)),
            Rule::Workflow(pattern) => write!(f, "workflow {}", shown(pattern)),
            Rule::Others => f.write_str("other events"),
        }
    }
}

impl Targets {
    /// # Errors
    /// No target gets the other events, or a target never gets any.
    pub(crate) fn new(targets: Vec<Target>) -> Result<Self, Failure> {
        let Some(others) = targets.iter().position(|target| target.rule == Rule::Others) else {
            // Another event could only be settled as failed or delivered, and would be neither.
            return Err(Failure::usage("No --to gets the events that the others leave.")
                .hint("Add one without a rule, such as --to 3000/hook."));
        };
        if let Some(unused) = targets.get(others + 1) {
            return Err(Failure::usage(format!("The --to of {unused} never gets an event: one before it gets all."))
                .hint("Put the --to without a rule last."));
        }
        let is_repeated = |at: usize, target: &Target| targets.iter().take(at).any(|before| before.rule == target.rule);
        if let Some((_, unused)) = targets.iter().enumerate().find(|(at, target)| is_repeated(*at, target)) {
            return Err(Failure::usage(format!("The second --to of {unused} never gets an event.")).hint(
                "The first --to that matches gets an event. Run a second `fanfare listen --name` to get it twice.",
            ));
        }
        Ok(Self(targets.into()))
    }

    /// The only target, if there is one.
    pub(crate) fn only(&self) -> Option<&Target> {
        self.0.first().filter(|_| self.0.len() == 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.0.iter()
    }

    /// The target that gets an event with this name and body.
    pub(crate) fn getting(&self, event: &str, body: &str) -> Option<&Target> {
        // The body may be large, so it is parsed only if its workflow matters.
        let workflow = if self.only().is_some() { None } else { workflow(body) };
        self.0.iter().find(|target| match &target.rule {
            Rule::Event(pattern) => fits(pattern, event),
            Rule::Workflow(pattern) => workflow.as_deref().is_some_and(|name| fits(pattern, name)),
            Rule::Others => true,
        })
    }
}

/// The name of the workflow in an event's body, if it has one.
fn workflow(body: &str) -> Option<String> {
    let mut members: HashMap<String, Box<RawValue>> = serde_json::from_str(body).ok()?;
    serde_json::from_str(members.remove("workflow")?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(texts: &[&str]) -> Targets {
        Targets::new(texts.iter().map(|text| target(text).expect(text)).collect()).expect("targets")
    }

    #[test]
    fn the_first_matching_rule_gets_an_event() {
        let targets = targets(&["job.failed=3001", "nightly-*=3002", "etl=3003", "endpoint.*=3004", "3000/hook?a=b"]);
        for (event, body, port) in [
            ("job.failed", r#"{"workflow":"nightly-1"}"#, 3001),
            ("job.completed", r#"{"workflow":"nightly-1","n":1e999}"#, 3002),
            ("job.completed", r#"{"workflow":"x","workflow":"nightly-"}"#, 3002),
            ("job.completed", r#"{"workflow":"etl"}"#, 3003),
            ("job.completed", r#"{"workflow":"etl2"}"#, 3000),
            ("job.completed", r#"{"workflow":7}"#, 3000),
            ("job.completed", "{}", 3000),
            ("endpoint.failing", r#"{"workflow":null}"#, 3004),
            ("an.event.of.a.later.version", "not JSON", 3000),
        ] {
            let target = targets.getting(event, body).expect("a target");
            assert_eq!(target.url.port(), Some(port), "{event} {body}");
        }
    }

    #[test]
    fn an_address_with_a_query_has_no_rule() {
        for text in ["3000?a=b", "localhost:3000=x", "http://localhost:3000/?a=b"] {
            assert!(target(text).is_err() || target(text).expect("a target").rule == Rule::Others, "{text}");
        }
        assert_eq!(target("*=3000").expect("a target").rule, Rule::Others);
        assert_eq!(target("etl*=3000").expect("a target").to_string(), "workflow etl*");
    }

    #[test]
    fn a_misspelled_event_is_refused() {
        for wrong in ["job.faild=3000", "=3000", "job.x*=3000", "job.failed=", "job.failed=/hook"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_event_has_a_target_and_every_target_events() {
        let refused = |texts: &[&str]| {
            let targets = texts.iter().map(|text| target(text).expect(text)).collect();
            Targets::new(targets).expect_err("refused").to_string()
        };
        assert_eq!(refused(&["job.failed=3000"]), "No --to gets the events that the others leave.");
        let repeated = refused(&["job.failed=3000", "etl=3001", "job.failed=3002", "3003"]);
        assert_eq!(repeated, "The second --to of job.failed never gets an event.");
        let unused = "The --to of job.failed never gets an event: one before it gets all.";
        assert_eq!(refused(&["3000", "job.failed=3001"]), unused);
        assert_eq!(refused(&["3000", "3001"]), "The --to of other events never gets an event: one before it gets all.");
    }
}
