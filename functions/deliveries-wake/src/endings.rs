//! Ends the waiting deliveries of deleted endpoints.

use common::{
    error::{Error, Result},
    timestamp::Timestamp,
    webhooks::log::{due_rows::Sweeper, endings::Ending},
};
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::App;

/// The number of endpoints whose deliveries are ended concurrently.
const CONCURRENCY: usize = 4;

impl App {
    /// Ends the deliveries of the endpoints that were deleted before `now`, until `end`. An endpoint whose deliveries
    /// could not be ended does not delay others; the next sweep continues.
    pub(super) async fn end(&self, sweeper: Sweeper, now: Timestamp, end: Instant) -> Result<()> {
        let endings = self.log.endings(|tenant| sweeper.recovers(tenant), now).await?;
        let ended = endings.iter().map(|ending| self.end_of(ending, now, end));
        let ended: Vec<_> = stream::iter(ended.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).collect().await;
        ended.into_iter().collect()
    }

    async fn end_of(&self, ending: &Ending, now: Timestamp, end: Instant) -> Result<()> {
        if Instant::now() >= end {
            return Ok(());
        }
        let ended = match self.notices.endpoints.require(&ending.tenant, ending.endpoint).await {
            // A delivery was resent to an existing endpoint.
            Ok(()) => self.log.pass_ending(ending, false).await,
            Err(Error::NotFound(_)) => self.log.end_waiting(ending, now, end).await,
            Err(error) => Err(error),
        };
        ended.inspect_err(|error| {
            let Ending { tenant, endpoint, .. } = ending;
            common::log!("endpoint.unended", %tenant, %endpoint, ?error);
        })
    }
}
