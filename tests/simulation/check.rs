//! The invariants, checked after every run.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    receivers::Post,
    run::{Known, Within, time},
    script::Time,
    world::World,
};

mod allowance;
mod endpoints;
mod job_failures;
mod log;
mod receivers;
mod schedule;

use allowance::Allowance;
pub(crate) use log::log_key;

/// A violation.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// The violated invariant.
    pub(crate) invariant: &'static str,
    pub(crate) detail: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, detail: impl Into<String>) -> Self {
        Self { invariant, detail: detail.into() }
    }
}

/// A delivery in the log, with all its attempts.
struct Logged {
    tenant: usize,
    endpoint: Option<usize>,
    delivery: Value,
    attempts: Vec<Value>,
}

impl Logged {
    fn text(&self, name: &str) -> &str {
        self.delivery[name].as_str().unwrap_or_default()
    }

    fn is_test(&self) -> bool {
        self.text("event") == "webhook.test"
    }

    /// The start of its last attempt, if the delivery has failed.
    fn failed_at(&self) -> Option<Time> {
        (self.text("status") == "failed").then(|| time(&self.delivery["last_attempt"]["at"]))
    }
}

struct Check<'a> {
    world: &'a World,
    known: &'a Known,
    posts: Vec<Post>,
    logged: Vec<Logged>,
    allowance: Allowance,
    violations: Vec<Violation>,
}

pub(crate) async fn all(world: &Arc<World>, known: &Known) -> Vec<Violation> {
    let mut logged = Vec::new();
    for (number, tenant) in known.tenants.iter().enumerate() {
        for delivery in tenant.client.deliveries(&json!({"limit": 100})).await {
            let id = json!({"delivery_id": delivery["delivery_id"]});
            let attempts = if delivery["attempts"] == 1 {
                vec![delivery["last_attempt"].clone()]
            } else {
                let (status, details) = tenant.client.observer().call("deliveries-get", &id, None).await;
                assert_eq!(status, 200, "{details}");
                details["attempts"].as_array().expect("attempts").clone()
            };
            let endpoint = delivery["webhook_endpoint_id"].as_str();
            let endpoint = endpoint.and_then(|id| tenant.endpoints.iter().position(|known| known.id == id));
            logged.push(Logged { tenant: number, endpoint, delivery, attempts });
        }
    }
    let allowance = Allowance::of(world);
    let posts = world.state().posts.clone();
    let mut check = Check { world, known, posts, logged, allowance, violations: Vec::new() };
    // In the order of the promises in docs/reliability.md.
    check.deliveries_end();
    check.prompt_log();
    check.correct_log();
    check.at_least_once();
    check.punctual_attempts();
    check.stable_ids();
    check.valid_signatures();
    check.permitted_destinations();
    check.accepted_calls_take_effect();
    check.endpoints();
    check.correct_counts().await;
    check.failed_jobs();
    check.violations
}

impl Check<'_> {
    fn fail(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.violations.push(Violation::new(invariant, detail));
    }

    /// Whether a delivery's receiver always accepts deliveries quickly.
    fn is_well(&self, logged: &Logged) -> bool {
        self.world.receiver((logged.tenant, logged.endpoint)).is_well()
    }

    /// The times at which a delivery was resent.
    fn resent<'b>(&'b self, logged: &'b Logged) -> impl Iterator<Item = Within> {
        let id = logged.text("delivery_id");
        let one = self.known.resends.iter().filter(move |resend| resend.delivery == id).map(|resend| resend.when);
        let (tenant, endpoint) = (logged.tenant, logged.endpoint);
        let many = self.known.recoveries.iter();
        let many = many.filter(move |recovery| (recovery.tenant, Some(recovery.endpoint)) == (tenant, endpoint));
        one.chain(many.map(|recovery| recovery.when))
    }
}

/// When an attempt ended.
pub(crate) fn ends(attempt: &Value) -> Time {
    time(&attempt["at"]) + Duration::from_millis(attempt["duration_ms"].as_u64().unwrap_or(0))
}
