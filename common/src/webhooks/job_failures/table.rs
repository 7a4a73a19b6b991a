//! The items of failing workflows, in the endpoints table.

use aws_sdk_dynamodb::{Client, types::AttributeValue};

use super::{
    failing_workflow::Failing,
    failure::{FailureId, JobFailure, WorkflowKey},
};
use crate::{
    aws::{
        dynamo::{Attribute, Item, ItemReader, attributes, item, text, texts},
        expression::Update,
    },
    error::Result,
    id::{NotAnId, TenantId},
    issue::Problem,
    timestamp::Timestamp,
    webhooks::endpoints::item::{MAILED_AT, NOTICE, NOTICE_AT, NOTICE_TRIES, TENANT_ID, WEBHOOK_ENDPOINT_ID},
};

crate::from_env! {
    /// The endpoints table, which also stores failing workflows.
    #[derive(Clone)]
    pub struct JobFailures {
        pub(super) dynamodb: Client,
        pub(super) table: String = "WEBHOOK_ENDPOINTS_TABLE",
    }
}

/// A notice's state after a process has recorded failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Whether further failures are only counted.
    pub is_full: bool,
    /// The earliest time when the notice can be sent.
    pub due: Timestamp,
}

/// The index of pending notices, and its partition for workflows.
pub(super) const INDEX: &str = "by-notice";
pub(super) const PENDING: &str = "failures";
/// The sort key prefix of workflows, which sort before every endpoint's id.
pub(super) const PREFIX: &str = "#failing#";
/// The attributes with the newest failures, newest first.
pub(super) const NEWEST: [Attribute; 3] = [Attribute("newest_1"), Attribute("newest_2"), Attribute("newest_3")];
attributes! { pub(super)
    // A failure whose event was received more than once. It may equal one of the newest failures, so it is stored
    // separately.
    AGAIN = "again",
    WORKFLOW = "workflow", FAILED = "failed", MORE = "more", TOLD = "told", TOLD_UNTIL = "told_until",
    WRITES = "writes",
    // Identifies the call that was counted last.
    CALL = "call",
}
// The attributes of a failure.
attributes! {
    ID = "id", JOB = "job", DEPLOYMENT = "deployment", ERROR = "error", STACK = "stack",
}

impl JobFailures {
    pub(super) fn update(&self, tenant: &TenantId, key: &str) -> Update {
        Update::of(&self.table, self::key(tenant, key))
    }
}

/// Counts the call that `update` belongs to, unless it was counted last: the SDK repeats an update whose response was
/// lost.
pub(super) fn once(update: Update, call: &AttributeValue) -> Update {
    update.set(CALL, call.clone()).only_if(CALL.is_absent().or(CALL.differs_from(call.clone())))
}

pub(super) fn key(tenant: &TenantId, key: &str) -> Item {
    item([(TENANT_ID, text(tenant)), (WEBHOOK_ENDPOINT_ID, text(key))])
}

pub(super) fn sort_key(workflow: &WorkflowKey) -> String {
    format!("{PREFIX}{workflow}")
}

/// A set of ids, or `None` if there are none.
pub(super) fn ids<'a>(ids: impl Iterator<Item = &'a FailureId>) -> Option<AttributeValue> {
    let ids: Vec<String> = ids.map(ToString::to_string).collect();
    (!ids.is_empty()).then(|| texts(ids.iter().map(String::as_str)))
}

pub(super) fn failure_value(failure: &JobFailure) -> AttributeValue {
    let JobFailure { id, job_id, deployment, error, stack } = failure;
    let mut value = item([(ID, text(id)), (JOB, text(job_id))]);
    for (name, reported) in [(DEPLOYMENT, deployment), (ERROR, error), (STACK, stack)] {
        value.extend(reported.as_ref().map(|reported| name.with(text(reported))));
    }
    AttributeValue::M(value)
}

pub(super) fn read_failure(value: &AttributeValue) -> Result<Option<JobFailure>> {
    let Some(found) = value.as_m().ok().filter(|found| !found.is_empty()) else { return Ok(None) };
    let record = ItemReader::new("job failure", found);
    let reported = |name| record.optional_text(name).map(str::to_owned);
    Ok(Some(JobFailure {
        id: record.parsed(ID)?,
        job_id: record.text(JOB)?.to_owned(),
        deployment: reported(DEPLOYMENT),
        error: reported(ERROR),
        stack: reported(STACK),
    }))
}

fn read_id(text: &str) -> Result<FailureId, Vec<Problem>> {
    text.parse().map_err(|NotAnId| vec![Problem::format("Must be the id of a failure")])
}

/// Reads a workflow's item. Returns `None` if no notice is pending.
pub(super) fn read(item: &Item) -> Result<Option<Failing>> {
    let record = ItemReader::new("failing workflow", item);
    if record.optional_text(NOTICE).is_none() {
        return Ok(None);
    }
    let time = |name| record.optional_time(name);
    let count = |name| record.optional_number(name).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
    let newest = NEWEST.iter().chain([&AGAIN]).filter_map(|name| item.get(name.name())).map(read_failure);
    Ok(Some(Failing {
        workflow: record.optional_text(WORKFLOW).map(str::to_owned),
        newest: newest.filter_map(Result::transpose).collect::<Result<_>>()?,
        failed: record.optional_set(FAILED, read_id)?.unwrap_or_default(),
        more: count(MORE),
        reported: record.optional_set(TOLD, read_id)?.unwrap_or_default(),
        reported_until: time(TOLD_UNTIL),
        at: record.time(NOTICE_AT)?,
        tries: u32::try_from(count(NOTICE_TRIES)).unwrap_or(u32::MAX),
        mailed_at: time(MAILED_AT),
        writes: record.number(WRITES)?,
    }))
}
