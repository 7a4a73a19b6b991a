//! What became of events is told to the service, many in one call.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    api::Api,
    clock,
    failure::Failure,
    terminal::{cell, line, note, say},
};

/// How many settlements a call has, and how long it may be: the service takes 64 KiB.
const MOST: usize = 40;
const LONGEST: usize = 60 << 10;
/// How long a settlement is worth sending, from the call that took the event on.
const LEASE: Duration = Duration::from_secs(60);
/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(500);

/// An event that has been posted, or is given back.
pub(super) struct Done {
    pub(super) delivery: Value,
    pub(super) settlement: Value,
    /// What came back, and after how many milliseconds; `None` if it was not posted.
    pub(super) outcome: Option<(String, u64)>,
    pub(super) is_json: bool,
    /// When it was taken.
    pub(super) taken: Instant,
}

pub(super) struct Settler {
    api: Api,
    is_json: bool,
}

impl Settler {
    pub(super) fn new(api: Api, is_json: bool) -> Self {
        Self { api, is_json }
    }

    /// Settles what comes, until nothing more can come.
    pub(super) async fn run(self, mut done: mpsc::UnboundedReceiver<Done>) -> Result<(), Failure> {
        let (mut batch, mut next) = (Vec::new(), None);
        while let Some(first) = match next.take() {
            Some(left) => Some(left),
            None => done.recv().await,
        } {
            let mut length = 0;
            let mut more = Some(first);
            while let Some(one) = more {
                length += one.settlement.to_string().len();
                if !batch.is_empty() && length > LONGEST {
                    next = Some(one);
                    break;
                }
                batch.push(one);
                more = if batch.len() < MOST { done.try_recv().ok() } else { None };
            }
            self.settle(std::mem::take(&mut batch)).await?;
        }
        Ok(())
    }

    async fn settle(&self, batch: Vec<Done>) -> Result<(), Failure> {
        let settlements: Vec<_> = batch.iter().map(|done| done.settlement.clone()).collect();
        let fields = json!({ "settlements": settlements });
        let results = loop {
            match self.api.call("deliveries/settle", fields.clone()).await {
                Ok(answer) => break answer["settlements"].as_array().cloned().unwrap_or_default(),
                Err(error) if error.is_passing() && batch.iter().any(|done| done.taken.elapsed() < LEASE) => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) if error.is_passing() => break Vec::new(),
                Err(error) => return Err(error),
            }
        };
        for (number, done) in batch.iter().enumerate() {
            self.show(done, results.get(number).unwrap_or(&Value::Null))?;
        }
        Ok(())
    }

    fn show(&self, done: &Done, result: &Value) -> Result<(), Failure> {
        let Done { delivery, outcome, .. } = done;
        let (event, job) = (&delivery["event"], &delivery["job_id"]);
        let Some((outcome, took)) = outcome else {
            if !self.is_json {
                note(&format!("{} of {} was given back, and comes again.", cell(event), cell(job)));
            }
            return Ok(());
        };
        let page = self.api.page(&format!("/console/deliveries/{}", cell(&delivery["delivery_id"])));
        let is_late = result["result"] != "settled";
        if done.is_json {
            let line = json!({
                "at": clock::time_of_day(), "delivery_id": delivery["delivery_id"], "event": event, "job_id": job,
                "attempt": delivery["attempt"], "outcome": outcome, "duration_ms": took, "result": result["result"],
                "status": result["status"], "page": page,
            });
            return Ok(say(&line.to_string())?);
        }
        let text = format!("{}  {}  {}  {outcome}  {took} ms  {page}", clock::time_of_day(), cell(event), cell(job));
        line(&text)?;
        if is_late {
            note(&format!("The lease of {} was over before this was settled: it comes again.", cell(job)));
        }
        Ok(())
    }
}
