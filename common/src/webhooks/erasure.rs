//! Erases deliveries' payloads and receivers' responses, for the routes and pages that do so.

use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};

use super::{
    delivery::{Delivery, DeliveryId, Status},
    endpoints::Endpoints,
    log::{
        Log,
        search::{Cursor, Filter},
    },
};
use crate::{
    error::{Conflict, Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

/// The maximum time that a call spends searching, well below API Gateway's timeout: to erase what it has found may take
/// several times as long.
const TIME: Duration = Duration::from_secs(8);
const TIME_IN_PERIOD: Duration = Duration::from_secs(2);
/// The maximum number of deliveries per search page.
const PAGE: usize = 500;
/// The maximum number of a period's deliveries that a call erases.
const MOST: usize = 10_000;
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
    pub log: &'a Log,
    pub tenant: &'a TenantId,
    pub now: Timestamp,
}

impl Erasure<'_> {
    /// Erases one delivery, as [`Log::erase`] does.
    pub async fn of_one(self, id: DeliveryId) -> Result<Erased> {
        self.erase(vec![id], false, None).await
    }

    /// Erases a job's deliveries, starting at the cursor.
    ///
    /// # Errors
    /// One of them is pending.
    pub async fn of_job(self, job_id: String, cursor: Option<Cursor>) -> Result<Erased> {
        let filter = Filter { job_id: Some(job_id), ..Filter::default() };
        let (ids, next) = self
            .search(None, &filter, cursor, (TIME, usize::MAX), |delivery| match delivery.needs_payload() {
                true => Err(Error::Conflict(Conflict::DeliveryPending)),
                false => Ok(true),
            })
            .await?;
        self.erase(ids, false, next).await
    }

    /// Erases the deliveries of a period that have ended, all or those to an endpoint, starting at the cursor. Leaves out
    /// those that have been erased, and those that are resent meanwhile.
    pub async fn of_period(
        self,
        endpoint: Option<EndpointId>,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
        cursor: Option<Cursor>,
    ) -> Result<Erased> {
        let filter = Filter { since, until, ..Filter::default() };
        let (ids, next) = self
            .search(endpoint, &filter, cursor, (TIME_IN_PERIOD, MOST), |delivery| {
                let has_ended = matches!(delivery.status, Status::Delivered | Status::Failed | Status::Ended);
                Ok(has_ended && delivery.erased_at.is_none() && !delivery.needs_payload())
            })
            .await?;
        self.erase(ids, true, next).await
    }

    /// Finds deliveries until there are no more, or the time or the number is reached.
    async fn search(
        self,
        endpoint: Option<EndpointId>,
        filter: &Filter,
        mut cursor: Option<Cursor>,
        (time, most): (Duration, usize),
        is_wanted: impl Fn(&Delivery) -> Result<bool>,
    ) -> Result<(Vec<DeliveryId>, Option<Cursor>)> {
        let Self { endpoints, log, tenant, now } = self;
        let (end, shards) = (Instant::now() + time, endpoints.shards(tenant, endpoint).await?);
        let mut ids = Vec::new();
        loop {
            let page = log.search(tenant, &shards, filter, cursor.as_ref(), PAGE, now).await?;
            for delivery in &page.deliveries {
                ids.extend(is_wanted(delivery)?.then_some(delivery.id));
            }
            cursor = page.next;
            if cursor.is_none() || ids.len().saturating_add(PAGE) > most || Instant::now() >= end {
                return Ok((ids, cursor));
            }
        }
    }

    /// Erases deliveries, and the payloads that only they shared.
    async fn erase(self, ids: Vec<DeliveryId>, leaves_out_pending: bool, next: Option<Cursor>) -> Result<Erased> {
        let Self { endpoints, log, tenant, now } = self;
        let calls = ids.iter().map(async |id| match log.erase(tenant, id, now).await {
            Err(Error::Conflict(Conflict::DeliveryPending)) if leaves_out_pending => Ok(None),
            erased => erased.map(Some),
        });
        let calls: Vec<_> = calls.collect();
        let erased: Vec<_> = stream::iter(calls).buffer_unordered(CONCURRENCY).try_collect().await?;
        let erased: Vec<_> = erased.into_iter().flatten().collect();
        let count = erased.len();
        let sharing: Vec<_> = erased.into_iter().flatten().collect();
        if !sharing.is_empty() {
            let shards = endpoints.shards(tenant, None).await?;
            log.erase_shared(tenant, &sharing, &shards).await?;
        }
        Ok(Erased { count, next })
    }
}
