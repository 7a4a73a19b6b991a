//! Erases deliveries' payloads and receivers' responses, for the routes and pages that do so, and the text of these jobs
//! that waits to be emailed.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};

use super::{
    delivery::{Delivery, DeliveryId, Status},
    endpoints::Endpoints,
    event::EventName,
    job_failures::JobFailures,
    log::{
        DeliveryLog,
        search::{Cursor, Filter},
    },
};
use crate::{
    audit::{self, Action, Change, Entry, Recorder, TargetKind, initial},
    error::{Conflict, Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

/// The maximum time that a call spends searching, well below API Gateway's timeout.
const SEARCH_TIME: Duration = Duration::from_secs(8);
/// The time in which a repeated call erases a period's deliveries again.
const REPEAT_TIME: Duration = Duration::from_hours(1);
/// The maximum number of deliveries per search page.
const PAGE_SIZE: usize = 500;
/// The maximum number of a period's deliveries that a call erases.
const MAX_ERASED: usize = 10_000;
/// The number of deliveries that are erased concurrently.
const CONCURRENCY: usize = 25;

/// The number of deliveries that a call has erased, and where the next one continues.
#[derive(Debug)]
pub struct Erased {
    pub count: usize,
    pub next: Option<Cursor>,
}

/// The tables that an erasure reads and writes.
#[derive(Clone, Copy)]
pub struct Erasure<'a> {
    pub endpoints: &'a Endpoints,
    pub log: &'a DeliveryLog,
    pub tenant: &'a TenantId,
    pub now: Timestamp,
}

impl Erasure<'_> {
    /// Erases one delivery, as [`DeliveryLog::erase`] does.
    pub async fn of_one(self, recorder: &Recorder, id: DeliveryId, failures: &JobFailures) -> Result<Erased> {
        self.record(recorder, TargetKind::Delivery, &id, []).await?;
        self.erase(vec![id], false, None, failures).await
    }

    /// Erases a job's deliveries, starting at the cursor.
    ///
    /// # Errors
    /// One of them is pending, a client has a lease of it, or the payload that it shares was stored within a minute.
    pub async fn of_job(
        self,
        recorder: &Recorder,
        job_id: String,
        cursor: Option<Cursor>,
        failures: &JobFailures,
    ) -> Result<Erased> {
        self.record(recorder, TargetKind::Job, &job_id, []).await?;
        let now = self.now;
        let job = job_id.clone();
        let filter = Filter { job_id: Some(job_id), ..Filter::default() };
        let mut sharing = Vec::new();
        let is_wanted = |delivery: &Delivery| {
            if !delivery.can_be_erased(now) {
                return Err(Error::Conflict(Conflict::DeliveryPending));
            }
            sharing.extend(delivery.is_shared.then(|| delivery.clone()));
            Ok(true)
        };
        let (ids, next) = self.search(None, &filter, cursor, SEARCH_TIME, usize::MAX, is_wanted).await?;
        // The deliveries of an event share a payload.
        sharing.dedup_by_key(|delivery| (delivery.id.at, delivery.event));
        for delivery in &sharing {
            if self.log.is_relied_on(self.tenant, delivery, now).await? {
                return Err(Error::Conflict(Conflict::DeliveryPending));
            }
        }
        // The job may have failed without any delivery.
        failures.erase(self.tenant, [job.as_str()]).await?;
        self.erase(ids, false, next, failures).await
    }

    /// Erases the deliveries of a period that have ended, all or those to an endpoint, starting at the cursor. Leaves out
    /// those that are resent meanwhile, and those that were erased more than an hour ago: a more recent call may have
    /// been interrupted, and is repeated.
    pub async fn of_period(
        self,
        recorder: &Recorder,
        endpoint: Option<EndpointId>,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
        cursor: Option<Cursor>,
        failures: &JobFailures,
    ) -> Result<Erased> {
        let changes = [since.map(|since| initial("since", since)), until.map(|until| initial("until", until))];
        let changes = changes.into_iter().flatten();
        match endpoint {
            Some(endpoint) => self.record(recorder, TargetKind::Endpoint, &endpoint, changes).await?,
            None => self.record(recorder, TargetKind::Organization, self.tenant, changes).await?,
        }
        let filter = Filter { since, until, ..Filter::default() };
        let is_wanted = |delivery: &Delivery| {
            let has_ended = matches!(delivery.status, Status::Delivered | Status::Failed | Status::Ended);
            let is_left = delivery.erased_at.is_none_or(|at| self.now.since(at) < REPEAT_TIME);
            Ok(has_ended && is_left && !delivery.needs_payload())
        };
        let (end, mut count, mut next) = (Instant::now() + SEARCH_TIME, 0, cursor);
        // Page by page, so that an interrupted call has finished all but the last.
        loop {
            let (ids, more) = self.search(endpoint, &filter, next.take(), Duration::ZERO, PAGE_SIZE, is_wanted).await?;
            let erased = self.erase(ids, true, more, failures).await?;
            count += erased.count;
            next = erased.next;
            if next.is_none() || count + PAGE_SIZE > MAX_ERASED || Instant::now() >= end {
                return Ok(Erased { count, next });
            }
        }
    }

    /// Erases what the log still has of a delivery, if its endpoint does not keep it. A payload that it shares stays if
    /// another delivery needs it, or may be about to.
    pub async fn erase_unkept(self, delivery: &Delivery) -> Result<()> {
        let Self { endpoints, log, tenant, now } = self;
        if delivery.erased_at.is_none() {
            return Ok(());
        }
        // An earlier try may have written the payload before the endpoint's log was spread over more shards.
        for shard in BTreeSet::from([0, delivery.id.shard]) {
            log.erase_details(tenant, &DeliveryId { shard, ..delivery.id }).await?;
        }
        if delivery.is_shared && !log.is_relied_on(tenant, delivery, now).await? {
            let shards = endpoints.shards(tenant, None).await?;
            log.erase_shared(tenant, std::slice::from_ref(delivery), &shards).await?;
        }
        Ok(())
    }

    /// Records the request before the first payload is erased, because the process may die before the last one. The call
    /// for a later page is recorded, too: anyone can pass a cursor to their first call.
    async fn record(
        self,
        recorder: &Recorder,
        kind: TargetKind,
        id: &impl ToString,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<()> {
        let target = audit::target(kind, id.to_string(), None);
        self.log.record_erasure(recorder, Entry::new(Action::ErasureRequested, self.tenant, target).with(changes)).await
    }

    /// Finds deliveries until there are no more, or the time or the number is reached.
    async fn search(
        self,
        endpoint: Option<EndpointId>,
        filter: &Filter,
        mut cursor: Option<Cursor>,
        time: Duration,
        most: usize,
        mut is_wanted: impl FnMut(&Delivery) -> Result<bool>,
    ) -> Result<(Vec<DeliveryId>, Option<Cursor>)> {
        let Self { endpoints, log, tenant, now } = self;
        let (end, shards) = (Instant::now() + time, endpoints.every_shard(tenant, endpoint).await?);
        let mut ids = Vec::new();
        loop {
            let page = log.search_strictly(tenant, &shards, filter, cursor.as_ref(), PAGE_SIZE, now).await?;
            for delivery in &page.deliveries {
                ids.extend(is_wanted(delivery)?.then_some(delivery.id));
            }
            cursor = page.next;
            if cursor.is_none() || ids.len().saturating_add(PAGE_SIZE) > most || Instant::now() >= end {
                return Ok((ids, cursor));
            }
        }
    }

    /// Erases deliveries, the payloads that only they shared, and the text of their jobs that waits to be emailed.
    async fn erase(
        self,
        ids: Vec<DeliveryId>,
        leaves_out_pending: bool,
        next: Option<Cursor>,
        failures: &JobFailures,
    ) -> Result<Erased> {
        let Self { endpoints, log, tenant, now } = self;
        let calls = ids.iter().map(async |id| match log.erase(tenant, id, now).await {
            Err(Error::Conflict(Conflict::DeliveryPending)) if leaves_out_pending => Ok(None),
            erased => erased.map(Some),
        });
        let calls: Vec<_> = calls.collect();
        let all: Vec<_> = stream::iter(calls).buffer_unordered(CONCURRENCY).collect().await;
        let (erased, failed): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
        let erased: Vec<_> = erased.into_iter().flatten().flatten().collect();
        let count = erased.len();
        let failed_jobs = erased.iter().filter(|delivery| delivery.event == EventName::Failed);
        failures.erase(tenant, failed_jobs.map(|delivery| delivery.job_id.as_str())).await?;
        let sharing: Vec<_> = erased.into_iter().filter(|delivery| delivery.is_shared).collect();
        if !sharing.is_empty() {
            let shards = endpoints.every_shard(tenant, None).await?;
            log.erase_shared(tenant, &sharing, &shards).await?;
        }
        match failed.into_iter().find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(Erased { count, next }),
        }
    }
}
