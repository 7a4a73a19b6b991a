//! The items of failing workflows, in the table of endpoints.

use aws_sdk_dynamodb::{Client, operation::update_item::builders::UpdateItemFluentBuilder, types::AttributeValue};

use super::{
    failing::Failing,
    failure::{FailureId, JobFailure, WorkflowKey},
};
use crate::{
    aws::{
        clients::Aws,
        dynamo::{Item, Record, item, text, texts},
    },
    config::{ConfigError, Env},
    error::Result,
    id::{NotAnId, TenantId},
    issue::Problem,
    timestamp::Timestamp,
};

/// The table of endpoints, which also stores the failing workflows.
#[derive(Clone)]
pub struct JobFailures {
    pub(super) dynamodb: Client,
    pub(super) table: String,
}

/// The state of a notice after a process has noted failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Whether further failures are only counted.
    pub is_full: bool,
    /// The earliest time at which the notice is sent.
    pub due: Timestamp,
}

/// The index of pending notices, and its partition for workflows.
pub(super) const INDEX: &str = "by-notice";
pub(super) const PENDING: &str = "failures";
/// The prefix of the sort keys of workflows. These keys sort before every id of an endpoint.
pub(super) const PREFIX: &str = "#failing#";
/// The attributes with the newest failures, newest first.
pub(super) const NEWEST: [&str; 3] = ["newest_1", "newest_2", "newest_3"];
/// The attribute of a failure whose event came repeatedly. It may equal one of the others, so it does not move them.
pub(super) const AGAIN: &str = "again";

impl JobFailures {
    /// Opens the table that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), table: env.required("WEBHOOK_ENDPOINTS_TABLE")? })
    }

    pub(super) fn change(&self, tenant: &TenantId, key: &str) -> UpdateItemFluentBuilder {
        self.dynamodb.update_item().table_name(&self.table).set_key(Some(self::key(tenant, key)))
    }
}

pub(super) fn key(tenant: &TenantId, key: &str) -> Item {
    item([("tenant_id", text(tenant)), ("webhook_endpoint_id", text(key))])
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
    let mut value = item([("id", text(id)), ("job", text(job_id))]);
    for (name, told) in [("deployment", deployment), ("error", error), ("stack", stack)] {
        value.extend(told.as_ref().map(|told| (name.to_owned(), text(told))));
    }
    AttributeValue::M(value)
}

fn read_failure(value: &AttributeValue) -> Result<Option<JobFailure>> {
    let Some(found) = value.as_m().ok().filter(|found| !found.is_empty()) else { return Ok(None) };
    let record = Record::new("job failure", found);
    let told = |name| record.optional_text(name).map(str::to_owned);
    Ok(Some(JobFailure {
        id: record.parsed("id")?,
        job_id: record.text("job")?.to_owned(),
        deployment: told("deployment"),
        error: told("error"),
        stack: told("stack"),
    }))
}

fn read_id(text: &str) -> Result<FailureId, Vec<Problem>> {
    text.parse().map_err(|NotAnId| vec![Problem::format("Must be the id of a failure")])
}

/// Reads the item of a workflow; `None` if no notice is pending.
pub(super) fn read(item: &Item) -> Result<Option<Failing>> {
    let record = Record::new("failing workflow", item);
    if record.optional_text("notice").is_none() {
        return Ok(None);
    }
    let time = |name| record.optional_number(name).map(Timestamp::from_millisecond);
    let count = |name| record.optional_number(name).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
    let newest = NEWEST.iter().chain([&AGAIN]).filter_map(|name| item.get(*name)).map(read_failure);
    Ok(Some(Failing {
        workflow: record.optional_text("workflow").map(str::to_owned),
        newest: newest.filter_map(Result::transpose).collect::<Result<_>>()?,
        failed: record.optional_set("failed", read_id)?.unwrap_or_default(),
        more: count("more"),
        told: record.optional_set("told", read_id)?.unwrap_or_default(),
        told_until: time("told_until"),
        at: record.time("notice_at")?,
        tries: u32::try_from(count("notice_tries")).unwrap_or(u32::MAX),
        mailed_at: time("mailed_at"),
        writes: record.number("writes")?,
    }))
}
