//! What must hold after every run.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    receivers::Post,
    run::{Known, Within, time},
    script::{Fault, Time},
    world::{NEW, World},
};

mod endpoints;
mod log;
mod receivers;
mod schedule;

/// What a process has read of an endpoint may be as old as an invocation can be.
const READ: Duration = Duration::from_secs(33);
/// How much too early an attempt may be.
const EARLY: Duration = Duration::from_secs(1);

/// Something that went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    /// What should have held.
    pub(crate) invariant: &'static str,
    pub(crate) detail: String,
}

impl Violation {
    pub(crate) fn new(invariant: &'static str, detail: impl Into<String>) -> Self {
        Self { invariant, detail: detail.into() }
    }
}

/// A delivery in the log, with its attempts.
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

    /// When its last attempt began, if the delivery has failed.
    fn failed_at(&self) -> Option<Time> {
        (self.text("status") == "failed").then(|| time(&self.delivery["last_attempt"]["at"]))
    }
}

struct Check<'a> {
    world: &'a World,
    known: &'a Known,
    posts: Vec<Post>,
    logged: Vec<Logged>,
    /// How many things went wrong on our side.
    faults: usize,
    /// How often faults can make something happen once more.
    repeating: usize,
    /// How many faults can do so only where another attempt follows.
    harmless: usize,
    skew: Duration,
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
    let (posts, faults, harmless, copies) = {
        let state = world.state();
        (state.posts.clone(), state.faults, state.harmless, state.copies)
    };
    let skew = Duration::from_millis(world.script.skew.unsigned_abs());
    // A copy of an event also sends another message for its next attempt, which two processes can get at the same moment.
    let repeating = faults - harmless + copies;
    let mut check = Check { world, known, posts, logged, faults, repeating, harmless, skew, violations: Vec::new() };
    check.tenants_never_meet();
    check.each_destination_has_its_delivery();
    check.the_log_tells_the_truth();
    check.what_took_place_is_in_the_log();
    check.the_log_goes_on();
    check.attempts_keep_the_schedule();
    check.attempts_are_prompt();
    check.retries_are_spread();
    check.ids_and_times_stay();
    check.signatures_verify();
    check.nothing_goes_where_it_must_not();
    check.what_was_asked_for_is_done();
    check.endpoints_are_as_their_history();
    check.dead_letters();
    check.counts_agree().await;
    check.violations
}

impl Check<'_> {
    fn fail(&mut self, invariant: &'static str, detail: impl Into<String>) {
        self.violations.push(Violation::new(invariant, detail));
    }

    /// Whether nothing went wrong that makes a process do something twice, or forget it.
    fn is_sound(&self) -> bool {
        self.world.script.faults.iter().all(|fault| {
            matches!(fault, Fault::Duplicate(..) | Fault::Undeleted(_) | Fault::NoSweep(_) | Fault::TwoSweeps(_))
        })
    }

    /// Whether messages came twice within a short time: then the copy of an event is handled as a new event.
    fn has_duplicates(&self) -> bool {
        self.world
            .script
            .faults
            .iter()
            .any(|fault| matches!(fault, Fault::Duplicate(_, seconds) if Duration::from_secs(*seconds) <= NEW))
    }

    /// When a delivery was resent.
    fn resent<'b>(&'b self, logged: &'b Logged) -> impl Iterator<Item = Within> {
        let id = logged.text("delivery_id");
        let one = self.known.resends.iter().filter(move |resend| resend.delivery == id).map(|resend| resend.when);
        let (tenant, endpoint) = (logged.tenant, logged.endpoint);
        let many = self.known.recoveries.iter();
        let many = many.filter(move |recovery| (recovery.tenant, Some(recovery.endpoint)) == (tenant, endpoint));
        one.chain(many.map(|recovery| recovery.when))
    }

    /// Whether a write took effect long after it was repeated: then it undoes what came meanwhile.
    fn has_late_writes(&self) -> bool {
        self.world.script.faults.iter().any(|fault| matches!(fault, Fault::Late(..)))
    }

    fn tenants_never_meet(&mut self) {
        let mut wrong = Vec::new();
        for post in &self.posts {
            let body: Value = serde_json::from_str(&post.body).unwrap_or_default();
            let job = body["job_id"].as_str().unwrap_or_default();
            if job != "test" && !job.starts_with(&format!("t{}-", post.to.0)) {
                wrong.push(format!("{job} went to {:?}", post.to));
            }
        }
        for logged in &self.logged {
            let job = logged.text("job_id");
            if !logged.is_test() && !job.starts_with(&format!("t{}-", logged.tenant)) {
                wrong.push(format!("{job} is in the log of {}", logged.tenant));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("tenants never meet", wrong));
    }

    fn dead_letters(&mut self) {
        let dead: Vec<_> = self.world.state().queues.values().flat_map(|queue| queue.dead.clone()).collect();
        dead.into_iter().for_each(|body| self.fail("nothing is a dead letter", body));
    }
}

/// When an attempt ended.
fn ends(attempt: &Value) -> Time {
    time(&attempt["at"]) + Duration::from_millis(attempt["duration_ms"].as_u64().unwrap_or(0))
}
