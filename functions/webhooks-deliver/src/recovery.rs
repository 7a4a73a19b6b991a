//! New recoveries: resends their first pages at once, so that they do not wait for a sweep.

use std::time::Duration;

use common::{
    error::Error,
    id::{RecoveryId, TenantId},
    timestamp::Timestamp,
    webhooks::recoveries::Turn,
};
use tokio::time::Instant;

use crate::{batch::Batch, ledger::Ledger, record::Undone};

/// The time after which a recovery continues in another invocation, because other organizations may be waiting.
const RUN: Duration = Duration::from_secs(2);
/// The number of consecutive throttled pages after which a recovery waits for the next sweep.
const THROTTLED: u32 = 3;

/// Resends pages of a recovery for some seconds, and sends the message that continues it. The sweep continues it after
/// enough attempts have been scheduled.
pub(crate) async fn run(tenant: TenantId, id: RecoveryId, ledger: &Ledger, batch: &Batch) -> Result<(), Undone> {
    let end = batch.last_start.min(Instant::now() + RUN);
    let mut throttled = 0;
    while Instant::now() < end {
        match ledger.recoveries.turn(&tenant, id, Timestamp::now(), end).await {
            Ok(Turn::More) => throttled = 0,
            Ok(Turn::Done | Turn::Waits) => return Ok(()),
            Err(Error::Busy) if throttled < THROTTLED => throttled += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ledger.queues.send_recovery(&tenant, id, Timestamp::now()).await?)
}
