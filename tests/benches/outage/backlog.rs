//! The backlog in the log after an hour of failures.

use std::time::Duration;

use common::{
    audit::Recorder,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Delivery, Destination, Failure, Outcome, Payload, Trigger},
        event::JobEvent,
        log::{
            DeliveryLog,
            due_rows::Minute,
            recovery::{Missed, Selection},
        },
    },
};

use crate::on_the_minute;

/// The number of rows written at once.
const BATCH: usize = 5_000;
/// The wait after which all deliveries come due in the same minute, when the sweep runs. Longer than SQS's longest
/// delay.
const WAIT: Duration = Duration::from_mins(30);

/// The log, and tenants with one endpoint each.
pub(crate) struct Backlog {
    log: DeliveryLog,
    recorder: Recorder,
    destinations: Vec<(TenantId, EndpointId)>,
    now: Timestamp,
}

impl Backlog {
    pub(crate) fn of(world: &tests::World, tenants: usize) -> Self {
        let destinations = (0..tenants).map(|_| (TenantId::generate(), EndpointId::generate()));
        let now = on_the_minute(Timestamp::now());
        let recorder = Recorder::system(&world.delivering()).expect("settings");
        Self { log: world.delivery_log(), recorder, destinations: destinations.collect(), now }
    }

    /// Stores deliveries whose next attempts are all due in the same minute, and returns that minute. Their states
    /// contain a later attempt, as if they had been resent, so the later check of that minute finds no work.
    pub(crate) async fn wait(&self, number: usize) -> Timestamp {
        for first in (0..number).step_by(BATCH) {
            let jobs = first..number.min(first + BATCH);
            let made: Vec<_> = jobs.map(|job| self.failed(job, job * 60_000 / number, &[WAIT])).collect();
            let rows = made.iter().map(|(tenant, waits, _)| {
                let minute = Minute::of(waits.next_attempt_at.expect("it waits"));
                assert_eq!(minute, Minute::of(self.now.after(WAIT)), "all are due in one minute");
                ((), self.log.due_row(tenant, waits, self.now))
            });
            assert!(self.log.put(rows.collect()).await.is_empty(), "all are written");
            let later: Vec<_> = made
                .into_iter()
                .map(|(tenant, waits, payload)| {
                    let next_attempt_at = waits.next_attempt_at.map(|at| at.after(WAIT * 20));
                    (tenant, Delivery { next_attempt_at, ..waits }, payload)
                })
                .collect();
            self.begin(&later).await;
        }
        self.now.after(WAIT)
    }

    /// Creates permanently failed deliveries, and a recovery for each tenant.
    pub(crate) async fn fail(&self, number: usize) {
        for first in (0..number).step_by(BATCH) {
            let jobs = first..number.min(first + BATCH);
            let made: Vec<_> = jobs.map(|job| self.failed(1_000_000 + job, 0, &[])).collect();
            self.begin(&made).await;
        }
        let time = self.now.before(WAIT)..self.now.after(WAIT);
        for (tenant, endpoint) in &self.destinations {
            let selection = Selection {
                endpoint: Some(*endpoint),
                time: time.clone(),
                status: Missed::Failed,
                outcome: None,
                workflow: None,
            };
            let started = self.log.start_recovery(&self.recorder, tenant, &selection, |_| Ok(None), self.now);
            started.await.expect("the write succeeds");
        }
    }

    async fn begin(&self, made: &[(TenantId, Delivery, Payload)]) {
        let states = made
            .iter()
            .map(|(tenant, delivery, payload)| self.log.first_row(tenant, delivery, Some(payload), self.now));
        for begun in self.log.begin(states.collect()).await {
            begun.expect("it is new and written");
        }
    }

    /// A delivery whose attempt failed this many milliseconds after the start.
    fn failed(&self, job: usize, after: usize, schedule: &[Duration]) -> (TenantId, Delivery, Payload) {
        let (tenant, endpoint) = &self.destinations[job % self.destinations.len()];
        let at = self.now.after(Duration::from_millis(u64::try_from(after).expect("a small number")));
        let event = serde_json::json!({
            "event": "job.completed", "tenant_id": tenant, "job_id": job.to_string(), "result": "a".repeat(100),
        });
        let event = JobEvent::parse(&event.to_string(), at).expect("a job event");
        let destination = Destination::Endpoint(*endpoint);
        let outcome = Outcome::Failed(Failure::Status(500, None));
        let made = AttemptResult::Made(Attempt::new(at, 12, outcome, None, Trigger::Event), outcome);
        let delivery = Delivery::first(&event, &destination, 1).after(&made, schedule, || 0.0, at);
        (tenant.clone(), delivery, Payload { destination, body: event.body.into(), trace: None })
    }
}
