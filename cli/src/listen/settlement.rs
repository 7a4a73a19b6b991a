//! Settles events at the service, many per call.

use api::deliveries::{Settle, Settled, Settlement};
use tokio::sync::mpsc;

use super::{
    outcome::Done,
    output::{ListenSummary, Show},
    status_changes::pause,
};
use crate::{calls::Api, failure::Failure};

/// The maximum number of settlements in a call, and their maximum total size in bytes. The service accepts 64 KiB.
const MAX_SETTLEMENTS: usize = 40;
const MAX_CALL_BYTES: usize = 60 << 10;

pub(super) struct Settler {
    api: Api,
    show: Show,
}

impl Settler {
    pub(super) fn new(api: Api, show: Show) -> Self {
        Self { api, show }
    }

    /// Settles events until the channel closes. Returns the number of events by result.
    pub(super) async fn run(mut self, mut done: mpsc::UnboundedReceiver<Done>) -> Result<ListenSummary, Failure> {
        let mut next = None;
        while let Some(first) = match next.take() {
            Some(left) => Some(left),
            None => done.recv().await,
        } {
            let (mut batch, mut settlements, mut length) = (Vec::new(), Vec::new(), 0);
            let mut more = Some(first);
            while let Some(one) = more {
                let settlement = one.settlement();
                length += serde_json::to_string(&settlement).map_or(0, |json| json.len());
                if !batch.is_empty() && length > MAX_CALL_BYTES {
                    next = Some(one);
                    break;
                }
                batch.push(one);
                settlements.push(settlement);
                more = if batch.len() < MAX_SETTLEMENTS { done.try_recv().ok() } else { None };
            }
            let mut results = self.settle(&batch, settlements).await?.into_iter();
            for done in &batch {
                self.show.event(done, results.next())?;
            }
        }
        Ok(self.show.sum())
    }

    /// Returns the results of the settlements, or none if the service did not respond before the leases expired.
    async fn settle(&self, batch: &[Done], settlements: Vec<Settlement>) -> Result<Vec<Settled>, Failure> {
        let settle = Settle::new(settlements);
        for failures in 0.. {
            match self.api.call(&settle).await {
                Ok(results) => return Ok(results.settlements),
                Err(error) if error.is_passing() && !batch.iter().all(|done| done.lease.is_over()) => {
                    tokio::time::sleep(pause(failures, &error)).await;
                }
                Err(error) if error.is_passing() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Vec::new())
    }
}
