//! What became of events is told to the service, many in one call.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{lease::Lease, news::pause, show::Show};
use crate::{
    api::Api,
    failure::Failure,
    http::{NoAnswer, Posted},
};

/// How many settlements a call has, and how long it may be: the service takes 64 KiB.
const MOST: usize = 40;
const LONGEST: usize = 60 << 10;

/// An event that has been posted, or is given back.
pub(super) struct Done {
    pub(super) delivery: Value,
    /// What came of the post; `None` if there was none.
    pub(super) tried: Option<Tried>,
    pub(super) lease: Lease,
}

/// What came of a post.
pub(super) struct Tried {
    pub(super) answer: Result<Posted, NoAnswer>,
    /// In milliseconds.
    pub(super) took: u64,
}

impl Done {
    fn settlement(&self) -> Value {
        let mut settlement = self.tried.as_ref().map_or_else(|| json!({}), Tried::fields);
        settlement["delivery_id"] = self.delivery["delivery_id"].clone();
        settlement["lease"] = self.delivery["lease"].clone();
        settlement
    }
}

pub(super) struct Settler {
    api: Api,
    show: Show,
}

impl Settler {
    pub(super) fn new(api: Api, show: Show) -> Self {
        Self { api, show }
    }

    /// Settles what comes, until nothing more can come.
    pub(super) async fn run(self, mut done: mpsc::UnboundedReceiver<Done>) -> Result<(), Failure> {
        let mut next = None;
        while let Some(first) = match next.take() {
            Some(left) => Some(left),
            None => done.recv().await,
        } {
            let (mut batch, mut settlements, mut length) = (Vec::new(), Vec::new(), 0);
            let mut more = Some(first);
            while let Some(one) = more {
                let settlement = one.settlement();
                length += settlement.to_string().len();
                if !batch.is_empty() && length > LONGEST {
                    next = Some(one);
                    break;
                }
                batch.push(one);
                settlements.push(settlement);
                more = if batch.len() < MOST { done.try_recv().ok() } else { None };
            }
            let results = self.settle(&batch, settlements).await?;
            for (number, done) in batch.iter().enumerate() {
                self.show.event(done, results.get(number).unwrap_or(&Value::Null))?;
            }
        }
        Ok(())
    }

    /// The results, as far as the service has answered before the leases were over.
    async fn settle(&self, batch: &[Done], settlements: Vec<Value>) -> Result<Vec<Value>, Failure> {
        let fields = json!({ "settlements": settlements });
        for failures in 0.. {
            match self.api.call("deliveries/settle", fields.clone()).await {
                Ok(answer) => return Ok(answer["settlements"].as_array().cloned().unwrap_or_default()),
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
