//! Reads and writes the items of failing workflows: records failures, and notifies organizations.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    failing_workflow::{FULL, Failing},
    failure::{JobFailure, Workflow, WorkflowKey},
    storm::Write,
    table::{
        AGAIN, CALL, FAILED, INDEX, JobFailures, MORE, NEWEST, Noted, PENDING, PREFIX, TOLD, TOLD_UNTIL, WORKFLOW,
        WRITES, failure_value, ids, key, once, read, sort_key,
    },
};
use crate::{
    aws::{
        dynamo::{Attribute, Item, ItemReader, get, number, text},
        expression::{Condition, Update, query},
        failure,
    },
    error::{Error, Result},
    id::TenantId,
    runtime_sources,
    timestamp::Timestamp,
    webhooks::endpoints::{
        item::*,
        notice::{is_pending_since, one_try},
    },
};

/// The time that an item is kept after its last failure, which is longer than a notice may be pending.
const ITEM_LIFETIME: Duration = Duration::from_hours(4 * 24);
/// The maximum number of index pages that a sweep reads. A page contains about ten thousand workflows.
const PAGES: usize = 20;

impl JobFailures {
    /// Records a workflow's failures (at least one, newest first), creating a pending notice. Until the notice has
    /// [`FULL`] ids, each failure counts once, even if the call is repeated. From then on, failures are only counted,
    /// and a repeated call counts them twice unless the SDK repeats it at once. The item therefore stays small even if
    /// the email is late.
    pub async fn note(
        &self,
        tenant: &TenantId,
        workflow: &Workflow,
        failures: &[JobFailure],
        write: Write,
        now: Timestamp,
    ) -> Result<Noted> {
        let call = text(runtime_sources::uuid());
        let send = |update| once(update, &call).send_and_read(&self.dynamodb, "noting a failed job");
        let counted = |more| self.counting(tenant, workflow, failures, more, now);
        let noted = match write {
            Write::Ids { more } => {
                let full = i64::try_from(FULL).unwrap_or(i64::MAX);
                let has_room = FAILED.is_absent().or(FAILED.is_smaller_than(number(full)));
                let mut with_ids = counted(more).only_if(has_room);
                if let Some(ids) = ids(failures.iter().map(|failure| &failure.id)) {
                    with_ids = with_ids.add(FAILED, ids);
                }
                let new = failures.iter().filter(|failure| !failure.id.is_repeated).count();
                let new = u64::try_from(new).unwrap_or(u64::MAX);
                match send(with_ids).await? {
                    (false, full) if full.get(CALL.name()) != Some(&call) => {
                        send(counted(more.saturating_add(new))).await?
                    }
                    noted => noted,
                }
            }
            Write::Count { more } => send(counted(more)).await?,
        };
        // If the update was refused, this call had already made it.
        let (_, noted) = noted;
        let failing =
            read(&noted)?.ok_or_else(|| Error::Internal("a failed job was recorded without a notice".to_owned()))?;
        Ok(Noted { is_full: failing.is_full(), due: failing.due() })
    }

    /// Builds the update that makes `failures` the newest ones, and counts `more` failures.
    fn counting(
        &self,
        tenant: &TenantId,
        workflow: &Workflow,
        failures: &[JobFailure],
        more: u64,
        now: Timestamp,
    ) -> Update {
        let (again, new): (Vec<_>, Vec<_>) = failures.iter().partition(|failure| failure.id.is_repeated);
        let newest = NEWEST.into_iter().zip(&new).chain([AGAIN].into_iter().zip(&again));
        let mut update = self
            .update(tenant, &sort_key(&workflow.key))
            .set(NOTICE, text(PENDING))
            .set_once(NOTICE_AT, number(now.as_millisecond()))
            .set(DELETE_AT, number(now.after(ITEM_LIFETIME).as_second()))
            .set_all(workflow.name.as_ref().map(|name| (WORKFLOW, text(name))))
            .set_all(newest.map(|(place, failure)| (place, failure_value(failure))))
            .add(WRITES, number(1));
        // New failures push earlier ones down the list.
        for (from, to) in NEWEST.into_iter().zip(NEWEST.into_iter().skip(new.len())).filter(|_| !new.is_empty()) {
            update = update.copy_or(to, from, AttributeValue::M(Item::new()));
        }
        if more > 0 {
            update = update.add(MORE, number(i64::try_from(more).unwrap_or(i64::MAX)));
        }
        update
    }

    /// Lists workflows with a pending notice, by tenant. If there are very many, the list is incomplete. The index lags
    /// behind the table.
    pub async fn pending(&self) -> Result<Vec<(TenantId, WorkflowKey)>> {
        let (mut found, mut after) = (Vec::new(), " ".to_owned());
        for _ in 0..PAGES {
            let keys = NOTICE.equals(text(PENDING)).and(TENANT_ID.is_above(text(&after)));
            let query = query(&self.dynamodb, &self.table, keys).index_name(INDEX);
            let page = query.send().await.map_err(failure("listing failing workflows"))?;
            for item in page.items.unwrap_or_default() {
                let record = ItemReader::new("failing workflow", &item);
                let workflow = record.text(WEBHOOK_ENDPOINT_ID)?.trim_start_matches(PREFIX);
                found.push((record.parsed(TENANT_ID)?, WorkflowKey::stored(workflow)));
            }
            // If a tenant's workflows fill several pages, the rest of them are postponed so that other tenants get
            // their turn.
            match page.last_evaluated_key.as_ref().and_then(|last| last.get(TENANT_ID.name())?.as_s().ok()) {
                Some(last) => last.clone_into(&mut after),
                None => break,
            }
        }
        Ok(found)
    }

    /// Reads a workflow with a pending notice. The read is strongly consistent.
    pub async fn failing(&self, tenant: &TenantId, workflow: &WorkflowKey) -> Result<Option<Failing>> {
        let key = key(tenant, &sort_key(workflow));
        let found = get(&self.dynamodb, &self.table, key, "reading a failing workflow").await?;
        found.as_ref().map(read).transpose().map(Option::flatten)
    }

    /// Counts a try to send the notice. Returns the updated notice, or `None` if another process is sending it.
    pub async fn try_notice(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowKey,
        failing: Failing,
    ) -> Result<Option<Failing>> {
        let (update, tries) = one_try(self.update(tenant, &sort_key(workflow)), failing.at, failing.tries);
        let is_counted = update.send(&self.dynamodb, "counting a try to send an email about failed jobs").await?;
        Ok(is_counted.then_some(Failing { tries, ..failing }))
    }

    /// Records that an email has reported the failures in `failing`. Failures recorded in the meantime remain pending
    /// for the next email.
    pub async fn reported(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowKey,
        failing: &Failing,
        now: Timestamp,
    ) -> Result<()> {
        const DOING: &str = "noting that failed jobs were reported";
        let reported = || {
            let until = (!failing.count().is_exact).then(|| (TOLD_UNTIL, number(now.as_millisecond())));
            self.update(tenant, &sort_key(workflow))
                .set(MAILED_AT, number(now.as_millisecond()))
                .set_all(ids(failing.reported_with_these().iter()).map(|ids| (TOLD, ids)))
                .set_all(until)
        };
        if reported().remove(DONE).only_if(is_unchanged(failing)).send(&self.dynamodb, DOING).await? {
            return Ok(());
        }
        // The notice no longer exists if the organization has been deleted in the meantime. It has another time if this
        // write is repeated because its response was lost.
        let mut rest = reported()
            .set(NOTICE_AT, number(now.as_millisecond()))
            .remove([NOTICE_TRIES])
            .only_if(is_pending_since(failing.at));
        if failing.more > 0 {
            rest = rest.change_by(MORE, -i64::try_from(failing.more).unwrap_or(i64::MAX));
        }
        if let Some(ids) = ids(failing.failed.iter()) {
            rest = rest.delete(FAILED, ids);
        }
        rest.send(&self.dynamodb, DOING).await.map(drop)
    }

    /// Removes a notice whose failures have all been reported, unless a failure has been recorded in the meantime.
    pub async fn drop_notice(&self, tenant: &TenantId, workflow: &WorkflowKey, failing: &Failing) -> Result<()> {
        let drop_all = self.update(tenant, &sort_key(workflow)).remove(DONE).only_if(is_unchanged(failing));
        drop_all.send(&self.dynamodb, "dropping a notice about failed jobs").await.map(drop)
    }
}

/// The attributes that exist only while a notice is pending.
#[rustfmt::skip]
const DONE: [Attribute; 10] = [
    NOTICE, NOTICE_AT, NOTICE_TRIES, NOTICE_TRY, FAILED, MORE, AGAIN, NEWEST[0], NEWEST[1], NEWEST[2],
];

fn is_unchanged(failing: &Failing) -> Condition {
    WRITES.equals(number(failing.writes))
}
