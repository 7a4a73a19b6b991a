//! Failed jobs, with the fields that are reported to the organization.

use std::{borrow::Cow, cmp::Reverse, collections::HashSet, fmt, str::FromStr};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use text::readable_json;

use crate::{
    id::{NotAnId, TenantId},
    timestamp::Timestamp,
    webhooks::event::{EventName, JobEvent},
};

/// The maximum lengths, in characters, of a job's error, its mapped stack, and a name in emails.
const ERROR: usize = 2000;
const STACK: usize = 4000;
const NAME: usize = 200;

/// A failed job. Its fields may contain secrets, so there is no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct JobFailure {
    /// Identifies the failure within its workflow.
    pub id: FailureId,
    /// The job's id, as sent by the producer, or the beginning of a long id.
    pub job_id: String,
    /// The id of the deployment, as sent by the producer.
    pub deployment: Option<String>,
    /// The beginning of the error.
    pub error: Option<String>,
    /// The beginning of the mapped stack.
    pub stack: Option<String>,
}

/// Identifies a failure within its workflow. All copies of an event have the same `job`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureId {
    /// When the event entered the queue, in Unix milliseconds.
    pub(super) at: i64,
    /// A hash of the job's id.
    pub(super) job: u64,
    /// Whether the event was received before. If so, its failure may already have been reported, and its id removed.
    pub(super) is_repeated: bool,
}

/// A failed job's event, to be parsed after the delivery attempts.
pub struct FailedJob {
    tenant: TenantId,
    job_id: String,
    at: Timestamp,
    is_repeated: bool,
    body: Bytes,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Workflow {
    /// The key of the workflow's item.
    pub key: WorkflowKey,
    /// The workflow's name, as sent by the producer, or the beginning of a long name.
    pub name: Option<String>,
}

/// Identifies a workflow within its tenant: a hash of its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkflowKey(String);

/// The members of a delivery's body that appear in emails.
#[derive(Deserialize)]
struct EmailedMembers<'a> {
    #[serde(borrow, default)]
    workflow: Option<&'a RawValue>,
    #[serde(borrow, default)]
    deployment_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mapped_stack: Option<&'a RawValue>,
}

impl JobFailure {
    /// Whether `job_id` is the complete id of the job and can be used to find its deliveries.
    pub fn has_whole_id(&self) -> bool {
        self.job_id.chars().count() < NAME
    }

    /// Whether it has text of the job beside its id.
    pub(super) fn has_text(&self) -> bool {
        self.deployment.is_some() || self.error.is_some() || self.stack.is_some()
    }
}

impl FailedJob {
    /// Keeps the event if its job failed; otherwise returns `None`. `is_repeated` is whether the event was received
    /// before.
    pub fn of(event: &JobEvent, is_repeated: bool) -> Option<Self> {
        (event.name == EventName::Failed).then(|| Self {
            tenant: event.tenant.clone(),
            job_id: event.job_id.clone(),
            at: event.at,
            is_repeated,
            body: event.body.clone(),
        })
    }

    /// The tenant that owns the job.
    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// Parses the workflow and the failure. Returns `None` if the body is not a JSON object, which cannot happen for an
    /// event.
    pub fn read(&self) -> Option<(Workflow, JobFailure)> {
        let Self { tenant, job_id, at, is_repeated, body } = self;
        let body: EmailedMembers<'_> = serde_json::from_slice(body).ok()?;
        let workflow = Workflow {
            key: WorkflowKey::of(body.workflow.map_or("null", RawValue::get)),
            name: body.workflow.map(|name| beginning(name, NAME)),
        };
        let job = job_hash(tenant, job_id);
        let failure = JobFailure {
            id: FailureId { at: at.as_millisecond(), job, is_repeated: *is_repeated },
            job_id: job_id.chars().take(NAME).collect(),
            deployment: body.deployment_id.map(|deployment| beginning(deployment, NAME)),
            error: body.error.map(|error| beginning(error, ERROR)),
            stack: body.mapped_stack.map(|stack| beginning(stack, STACK)),
        };
        Some((workflow, failure))
    }
}

impl JobFailure {
    /// Removes duplicates, and sorts the newest failure first.
    pub fn newest_first(mut failures: Vec<Self>) -> Vec<Self> {
        let mut jobs = HashSet::new();
        failures.retain(|failure| jobs.insert(failure.id.job));
        failures.sort_by_key(|failure| failure.id.order());
        failures
    }
}

/// Returns the first characters of a string, or of any other value as JSON without escapes of visible text.
fn beginning(value: &RawValue, characters: usize) -> String {
    let json = value.get();
    // A string with an unpaired surrogate does not parse.
    let text: Option<Cow<'_, str>> = json.starts_with('"').then(|| serde_json::from_str(json).ok()).flatten();
    text.unwrap_or_else(|| readable_json(json)).chars().take(characters).collect()
}

/// Identifies a job within its tenant.
pub(super) fn job_hash(tenant: &TenantId, job_id: &str) -> u64 {
    hash(&[tenant.as_str(), job_id])
}

/// Computes a 64-bit hash of these parts, each prefixed with its length.
fn hash(parts: &[&str]) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    u64::from_be_bytes(hash.finalize().first_chunk().copied().unwrap_or_default())
}

impl WorkflowKey {
    /// The key of the workflow whose name is this JSON value.
    fn of(name: &str) -> Self {
        Self(format!("{:016x}{:016x}", hash(&["workflow", name]), hash(&[name, "workflow"])))
    }

    pub(super) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for WorkflowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FailureId {
    /// When the event entered the queue.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_millisecond(self.at)
    }

    /// Whether the event was received before.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Sorts the newest failure first.
    pub(super) fn order(&self) -> Reverse<(i64, u64)> {
        Reverse((self.at, self.job))
    }
}

impl fmt::Display for FailureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}{}", self.at, self.job, if self.is_repeated { "r" } else { "" })
    }
}

impl FromStr for FailureId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let (at, job) = text.split_once('.').ok_or(NotAnId)?;
        let (job, is_repeated) = job.strip_suffix('r').map_or((job, false), |job| (job, true));
        let at = at.parse().map_err(|_not_a_number| NotAnId)?;
        let job = u64::from_str_radix(job, 16).map_err(|_not_hex| NotAnId)?;
        Ok(Self { at, job, is_repeated })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn failure(number: i64) -> JobFailure {
        let body = r#"{"event":"job.failed","error":"no"}"#;
        read(&format!("j{number}"), Timestamp::from_millisecond(1_769_860_800_000 + number), body).1
    }

    fn read(job: &str, at: Timestamp, body: &str) -> (Workflow, JobFailure) {
        let (tenant, body) = ("t".parse().expect("an id"), Bytes::copy_from_slice(body.as_bytes()));
        let failed = FailedJob { tenant, job_id: job.to_owned(), at, is_repeated: false, body };
        failed.read().expect("a failure")
    }

    #[test]
    fn a_string_is_shown_as_it_is_and_other_values_as_json() {
        let now = Timestamp::now();
        let of = |error: &str| read("j", now, &format!(r#"{{"error":{error}}}"#)).1.error;
        for (error, reported) in [
            (r#""out of \"cogs\"\n""#, "out of \"cogs\"\n"),
            (r#"{"message":"out of cogs"}"#, r#"{"message":"out of cogs"}"#),
            (r#"{"message":"\u00dcberlauf \ud83d\ude00"}"#, r#"{"message":"Überlauf 😀"}"#),
            (r#"["a\u0000\n", "\u00ff"]"#, r#"["a\u0000\n", "ÿ"]"#),
            ("7", "7"),
            (r#""\ud800""#, r#""\ud800""#),
        ] {
            assert_eq!(of(error).as_deref(), Some(reported));
        }
        assert_eq!(of("null"), None);
        let long = "ü".repeat(ERROR + 1);
        assert_eq!(of(&format!("\"{long}\"")).map(|error| error.chars().count()), Some(ERROR));
    }

    #[test]
    fn workflows_differ_by_name_and_failures_by_job() {
        let now = Timestamp::now();
        let key = |workflow: &str| read("j", now, &format!(r#"{{"workflow":{workflow}}}"#)).0.key;
        assert_eq!(key("\"a\""), key("\"a\""));
        assert_ne!(key("\"a\""), key("\"b\""));
        assert_ne!(key("null"), key("\"null\""));
        assert_ne!(read("a", now, "{}").1.id.job, read("b", now, "{}").1.id.job);
    }

    proptest! {
        #[test]
        fn an_id_survives_storage(at in any::<i64>(), job in any::<u64>(), is_repeated in any::<bool>()) {
            let id = FailureId { at, job, is_repeated };
            prop_assert_eq!(id.to_string().parse(), Ok(id));
        }
    }
}
