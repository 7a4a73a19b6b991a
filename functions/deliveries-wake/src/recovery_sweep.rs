//! Continues recoveries: resends deliveries that endpoints missed, page by page.

use std::collections::{HashMap, VecDeque};

use common::{
    error::{Error, Result},
    id::{RecoveryId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        log::{due_rows::Sweeper, recovery::Recovery},
        recoveries::{MAX_THROTTLED_PAGES, RecoveryStep},
    },
};
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::App;

/// The number of pages that are resent concurrently. Each one may have as many calls in progress as the log allows per
/// caller.
const CONCURRENCY: usize = 8;

/// A tenant's recoveries, in the order of their next pages, each with the number of throttled pages in a row.
type RecoveryQueue = VecDeque<(RecoveryId, u32)>;

impl App {
    /// Continues all recoveries until `end`: one page of each tenant in turn, and for a tenant, one page of each
    /// recovery in turn. If a recovery fails, it resumes in the next sweep without delaying others.
    pub(super) async fn recover(&self, sweeper: Sweeper, now: Timestamp, end: Instant) -> Result<()> {
        let mut open = by_tenant(self.log.open_recoveries(|tenant| sweeper.recovers(tenant)).await?);
        let mut failed = Ok(());
        while !open.is_empty() {
            let turns = open.into_iter().map(async |(tenant, mut waiting)| {
                if Instant::now() >= end {
                    return (tenant, RecoveryQueue::new(), Ok(()));
                }
                let turn = self.next_page(&tenant, &mut waiting, now, end).await;
                (tenant, waiting, turn)
            });
            let turns: Vec<_> = turns.collect();
            let turns: Vec<_> = stream::iter(turns).buffered(CONCURRENCY).collect().await;
            open = Vec::new();
            for (tenant, waiting, turn) in turns {
                failed = turn.and(failed);
                open.extend((!waiting.is_empty()).then_some((tenant, waiting)));
            }
        }
        failed
    }

    /// Resends a page of the tenant's next recovery, and puts it at the end of the line if more pages follow.
    async fn next_page(
        &self,
        tenant: &TenantId,
        waiting: &mut RecoveryQueue,
        now: Timestamp,
        end: Instant,
    ) -> Result<()> {
        let Some((id, throttled)) = waiting.pop_front() else { return Ok(()) };
        match self.recoveries.resend_page(tenant, id, now.max(Timestamp::now()), end).await {
            Ok(RecoveryStep::More) => waiting.push_back((id, 0)),
            Ok(RecoveryStep::Done | RecoveryStep::Waits) => {}
            // The partition was throttled for most of a second. The rest of the page is resent in the next round.
            Err(Error::Busy) if throttled < MAX_THROTTLED_PAGES => waiting.push_back((id, throttled + 1)),
            Err(error) => {
                common::log!("recovery.failed", %tenant, recovery_id = %id, ?error);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Groups recoveries by tenant, in the order of each tenant's first one.
fn by_tenant(open: Vec<(TenantId, Recovery)>) -> Vec<(TenantId, RecoveryQueue)> {
    let mut places = HashMap::new();
    let mut tenants: Vec<(TenantId, RecoveryQueue)> = Vec::new();
    for (tenant, recovery) in open {
        let place = *places.entry(tenant.clone()).or_insert(tenants.len());
        if place == tenants.len() {
            tenants.push((tenant, RecoveryQueue::new()));
        }
        if let Some((_, waiting)) = tenants.get_mut(place) {
            waiting.push_back((recovery.id, 0));
        }
    }
    tenants
}
