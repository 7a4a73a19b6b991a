//! The writes to the items of failing workflows: noting failures, and telling organizations.

use std::time::Duration;

use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemFluentBuilder,
    types::{AttributeValue, ReturnValue},
};

use super::{
    failing::Failing,
    failure::{JobFailure, Workflow, WorkflowKey},
    storm::Write,
    table::{AGAIN, INDEX, JobFailures, NEWEST, Noted, PENDING, PREFIX, failure_value, ids, key, read, sort_key},
};
use crate::{
    aws::{
        dynamo::{Item, Record, number, text, update_if},
        failure,
    },
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
};

/// The time for which an item is kept after its last failure. It exceeds the time for which its notice may be pending.
const ITEM_LIFETIME: Duration = Duration::from_secs(4 * 24 * 60 * 60);
/// The number of index pages that a sweep reads. Each has about ten thousand workflows.
const PAGES: usize = 20;

impl JobFailures {
    /// Notes failures of a workflow (at least one, newest first) and makes a notice pending. Repeating the call is
    /// safe, since each failure counts once.
    ///
    /// # Errors
    /// The write failed.
    pub async fn note(
        &self,
        tenant: &TenantId,
        workflow: &Workflow,
        failures: &[JobFailure],
        write: Write,
        now: Timestamp,
    ) -> Result<Noted> {
        let (has_ids, more) = match write {
            Write::Ids { more } => (true, more),
            Write::Count { more } => (false, more),
            Write::None => (false, 0),
        };
        let mut set = "notice = :pending, notice_at = if_not_exists(notice_at, :now), delete_at = :end".to_owned();
        let mut add = "writes :one".to_owned();
        let mut update = self
            .change(tenant, &sort_key(&workflow.key))
            .expression_attribute_values(":pending", text(PENDING))
            .expression_attribute_values(":now", number(now.as_millisecond()))
            .expression_attribute_values(":end", number(now.after(ITEM_LIFETIME).as_second()))
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::AllNew);
        if let Some(name) = &workflow.name {
            set.push_str(", workflow = :workflow");
            update = update.expression_attribute_values(":workflow", text(name));
        }
        let (again, new): (Vec<_>, Vec<_>) = failures.iter().partition(|failure| failure.id.is_repeated);
        for (place, failure) in NEWEST.iter().zip(&new).chain([&AGAIN].into_iter().zip(&again)) {
            set.push_str(&format!(", {place} = :{place}"));
            update = update.expression_attribute_values(format!(":{place}"), failure_value(failure));
        }
        // New failures move the others back.
        for (from, to) in NEWEST.iter().zip(NEWEST.iter().skip(new.len())).filter(|_| !new.is_empty()) {
            set.push_str(&format!(", {to} = if_not_exists({from}, :none)"));
            update = update.expression_attribute_values(":none", AttributeValue::M(Item::new()));
        }
        if let Some(ids) = ids(failures.iter().map(|failure| &failure.id)).filter(|_| has_ids) {
            add.push_str(", failed :ids");
            update = update.expression_attribute_values(":ids", ids);
        }
        if more > 0 {
            add.push_str(", more :more");
            update = update.expression_attribute_values(":more", number(i64::try_from(more).unwrap_or(i64::MAX)));
        }
        let noted = Box::pin(update.update_expression(format!("SET {set} ADD {add}")).send()).await;
        let noted = noted.map_err(failure("noting a failed job"))?.attributes.unwrap_or_default();
        let failing =
            read(&noted)?.ok_or_else(|| Error::Internal("a failed job was noted without a notice".to_owned()))?;
        Ok(Noted { is_full: failing.is_full(), due: failing.due() })
    }

    /// The workflows with a pending notice, by tenant: all, or many of them. The index lags behind the table.
    ///
    /// # Errors
    /// A read failed.
    pub async fn pending(&self) -> Result<Vec<(TenantId, WorkflowKey)>> {
        let (mut found, mut after) = (Vec::new(), " ".to_owned());
        for _ in 0..PAGES {
            let query = self.dynamodb.query().table_name(&self.table).index_name(INDEX);
            let query = query
                .key_condition_expression("notice = :pending AND tenant_id > :after")
                .expression_attribute_values(":pending", text(PENDING))
                .expression_attribute_values(":after", text(&after));
            let page = query.send().await.map_err(failure("listing failing workflows"))?;
            for item in page.items.unwrap_or_default() {
                let record = Record::new("failing workflow", &item);
                let workflow = record.text("webhook_endpoint_id")?.trim_start_matches(PREFIX);
                found.push((record.parsed("tenant_id")?, WorkflowKey::stored(workflow)));
            }
            // The rest of a tenant that fills pages is left for later, so that the next tenants get their turn.
            match page.last_evaluated_key.as_ref().and_then(|last| last.get("tenant_id")?.as_s().ok()) {
                Some(last) => last.clone_into(&mut after),
                None => break,
            }
        }
        Ok(found)
    }

    /// A workflow with a pending notice, read consistently.
    ///
    /// # Errors
    /// The read failed, or the item cannot be read.
    pub async fn failing(&self, tenant: &TenantId, workflow: &WorkflowKey) -> Result<Option<Failing>> {
        let found = self.dynamodb.get_item().table_name(&self.table).set_key(Some(key(tenant, &sort_key(workflow))));
        let found = found.consistent_read(true).send().await.map_err(failure("reading a failing workflow"))?;
        found.item.as_ref().map(read).transpose().map(Option::flatten)
    }

    /// Counts a try to send the notice. Returns the updated notice, or `None` if another process sends it.
    pub async fn try_notice(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowKey,
        failing: Failing,
    ) -> Result<Option<Failing>> {
        let tries = failing.tries.saturating_add(1);
        let update = self
            .change(tenant, &sort_key(workflow))
            .update_expression("SET notice_tries = :tried")
            .expression_attribute_values(":tried", number(tries.into()))
            .expression_attribute_values(":at", number(failing.at.as_millisecond()));
        let update = match failing.tries {
            0 => update.condition_expression("notice_at = :at AND attribute_not_exists(notice_tries)"),
            tries => update
                .condition_expression("notice_at = :at AND notice_tries = :tries")
                .expression_attribute_values(":tries", number(tries.into())),
        };
        Ok(update_if(update, "counting a try to send an email about failed jobs")
            .await?
            .then_some(Failing { tries, ..failing }))
    }

    /// Notes that an email has told the failures in `failing`. Failures noted since stay pending for the next email.
    pub async fn told(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowKey,
        failing: &Failing,
        now: Timestamp,
    ) -> Result<()> {
        const DOING: &str = "noting that failed jobs were told";
        let told = || {
            let update = self.change(tenant, &sort_key(workflow));
            let update = update.expression_attribute_values(":now", number(now.as_millisecond()));
            match ids(failing.told_with_these().iter()) {
                Some(told) => ("SET mailed_at = :now, told = :told", update.expression_attribute_values(":told", told)),
                None => ("SET mailed_at = :now", update),
            }
        };
        let until = if failing.count().is_exact { "" } else { ", told_until = :now" };
        let (set, update) = told();
        let update = update.update_expression(format!("{set}{until} REMOVE {}", done()));
        if update_if(if_unchanged(update, failing), DOING).await? {
            return Ok(());
        }
        let (set, mut update) = told();
        let mut set = format!("{set}{until}, notice_at = :now");
        if failing.more > 0 {
            set.push_str(", more = more - :more");
            update =
                update.expression_attribute_values(":more", number(i64::try_from(failing.more).unwrap_or(i64::MAX)));
        }
        let mut delete = String::new();
        if let Some(ids) = ids(failing.failed.iter()) {
            delete.push_str(" DELETE failed :ids");
            update = update.expression_attribute_values(":ids", ids);
        }
        // The notice is gone if the organization was deleted meanwhile.
        let update = update.condition_expression("attribute_exists(notice)");
        update_if(update.update_expression(format!("{set} REMOVE notice_tries{delete}")), DOING).await.map(drop)
    }

    /// Removes a notice whose failures have all been told, unless a failure has been noted since.
    pub async fn drop_notice(&self, tenant: &TenantId, workflow: &WorkflowKey, failing: &Failing) -> Result<()> {
        let update = self.change(tenant, &sort_key(workflow)).update_expression(format!("REMOVE {}", done()));
        update_if(if_unchanged(update, failing), "dropping a notice about failed jobs").await.map(drop)
    }
}

/// The attributes that exist only while a notice is pending.
fn done() -> String {
    ["notice", "notice_at", "notice_tries", "failed", "more", AGAIN]
        .into_iter()
        .chain(NEWEST)
        .collect::<Vec<_>>()
        .join(", ")
}

fn if_unchanged(update: UpdateItemFluentBuilder, failing: &Failing) -> UpdateItemFluentBuilder {
    update.condition_expression("writes = :writes").expression_attribute_values(":writes", number(failing.writes))
}
