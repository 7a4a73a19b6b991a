//! Checks the log: it contains every delivery, every delivery ends, and its entries are correct.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Check, Logged, Violation, ends};
use crate::{
    receivers::Post,
    run::{Endpoint, Within, time},
    script::{Audience, Time},
    world::stamp,
};

/// The maximum time from receiving an event to logging its delivery, regardless of the receiver.
const AT_ONCE: Time = Time::from_secs(2);

/// The number of ids that a check looks up.
const MOST_SOUGHT: usize = 24;

impl Check<'_> {
    /// 1. Deliveries end. (The end of the run detects deliveries that are still waiting.)
    pub(super) fn deliveries_end(&mut self) {
        let mut wrong = Vec::new();
        let handled = self.world.state().handled.clone();
        for event in &self.world.script.events {
            let job = event.job();
            let rows: Vec<_> = self.logged.iter().filter(|logged| logged.text("job_id") == job).collect();
            let posts: Vec<_> = self.posts.iter().filter(|post| post.body.contains(&format!("\"{job}\""))).collect();
            let callbacks = rows.iter().filter(|row| row.delivery.get("webhook_endpoint_id").is_none()).count();
            let is_callback = event.audience == Audience::Callback;
            // A successful delivery is not repeated, even if its row could not be written.
            let may_be_unlogged = self.allowance.faults > 0 && !self.world.script.faults.is_empty();
            let unlogged = |to| may_be_unlogged && posts.iter().any(|post| post.to == to && post.taken);
            if is_callback && callbacks != 1 && !(callbacks == 0 && unlogged((event.tenant, None))) {
                wrong.push(format!("{job} has {callbacks} deliveries to its callback"));
            }
            if !is_callback && (callbacks > 0 || posts.iter().any(|post| post.to.1.is_none())) {
                wrong.push(format!("{job} goes to a callback instead of endpoints"));
            }
            let endpoints = self.known.tenants[event.tenant].endpoints.iter();
            for (index, endpoint) in endpoints.enumerate() {
                let found = rows.iter().filter(|row| row.endpoint == Some(index)).count();
                let wants = !self.world.script.tenants[event.tenant].endpoints[index].only_failures || event.failed;
                let to = (event.tenant, Some(index));
                let is_for_it = wants && event.audience == Audience::Endpoints;
                if !is_for_it && (found > 0 || posts.iter().any(|post| post.to == to)) {
                    wrong.push(format!("{job} goes to endpoint {index}, which should not get it"));
                }
                let is_its_receiver = handled.get(&job).is_some_and(|handled| {
                    let is_there = endpoint.deleted.is_none_or(|deleted| handled.to < deleted.from);
                    let is_active = is_on(endpoint, *handled) && !self.was_disabled(event.tenant, index, handled.to);
                    // Events for the endpoint are held while it is inactive.
                    is_active || is_there && self.holds_for_long()
                });
                let is_missing = found == 0 && is_its_receiver && !unlogged(to);
                // A copy of an event is stored in a different shard if the log has since been spread over more shards.
                let most = if self.allowance.has_duplicates || self.allowance.has_late_writes { 2 } else { 1 };
                if is_for_it && (found > most || is_missing) {
                    wrong.push(format!("{job} has {found} deliveries to endpoint {index}"));
                }
            }
        }
        for logged in &self.logged {
            let (id, status) = (logged.text("delivery_id"), logged.text("status"));
            let endpoint = logged.endpoint.map(|index| &self.known.tenants[logged.tenant].endpoints[index]);
            let is_deleted = endpoint.is_some_and(|endpoint| endpoint.deleted.is_some());
            let was_off = endpoint.is_some_and(|endpoint| endpoint.switches.iter().any(|(active, _)| !active))
                || logged.endpoint.is_some_and(|index| self.was_disabled(logged.tenant, index, Time::MAX / 2));
            let may_be = match status {
                "pending" => false,
                "held" => was_off,
                "ended" => is_deleted,
                _ => true,
            };
            if !may_be {
                wrong.push(format!("{id} is {status}"));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("each destination has its delivery, and it ends", wrong));
        let dead: Vec<_> = self.world.state().queues.values().flat_map(|queue| queue.dead.clone()).collect();
        dead.into_iter().for_each(|body| self.fail("there are no dead letters", body));
    }

    /// 2. Prompt log: without faults, each delivery within two seconds of its event's receipt.
    pub(super) fn prompt_log(&mut self) {
        let script = &self.world.script;
        if !script.faults.is_empty() || script.slots < 100 {
            return;
        }
        let (handled, listed) = {
            let state = self.world.state();
            (state.handled.clone(), state.logged.clone())
        };
        let mut wrong = Vec::new();
        let is_meant = |logged: &&Logged| !logged.is_test() && (script.units == 0 || self.is_well(logged));
        for logged in self.logged.iter().filter(is_meant) {
            let id = logged.text("delivery_id");
            let key = log_key(&self.known.tenants[logged.tenant].id, id);
            let (Some(received), Some(listed)) = (handled.get(logged.text("job_id")), listed.get(&key)) else {
                wrong.push(format!("{id}: not seen"));
                continue;
            };
            let took = listed.saturating_sub(received.from);
            if took > AT_ONCE {
                wrong.push(format!("{id} is in the log {took:?} after its event was received"));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("each delivery is in the log at once", wrong));
    }

    /// Whether an inactive endpoint collects events until the end of the run.
    fn holds_for_long(&self) -> bool {
        self.world.script.hold_for > 86_400
    }

    /// Whether an endpoint may have been disabled before a certain time.
    fn was_disabled(&self, tenant: usize, index: usize, before: Time) -> bool {
        let (here, before) = ((tenant, Some(index)), before + self.allowance.apart);
        let was_gone = self.posts.iter().any(|post| post.to == here && post.status == 410 && post.at <= before);
        let was_failing = self.logged.iter().any(|logged| {
            let failed = logged
                .attempts
                .iter()
                .any(|attempt| attempt["outcome"] != "delivered" && time(&attempt["at"]) <= before);
            (logged.tenant, logged.endpoint) == here && failed && !logged.is_test()
        });
        was_gone || was_failing && (1..86_400).contains(&self.world.script.disable_after)
    }

    /// 3. Correct log.
    pub(super) fn correct_log(&mut self) {
        let mut wrong = Vec::new();
        for logged in &self.logged {
            let (id, status) = (logged.text("webhook_id"), logged.text("status"));
            let posts: Vec<_> = self.posts.iter().filter(|post| post.id == id).collect();
            if status == "delivered" && !posts.iter().any(|post| post.taken) {
                wrong.push(("delivered means that the receiver accepted it", format!("no receiver accepted {id}")));
            }
            let resent = self.resent(logged).map(|when| when.from).max().unwrap_or_default();
            let taken = posts.iter().find(|post| post.taken && post.at >= resent);
            if let Some(post) = taken.filter(|_| status != "delivered" && self.allowance.is_sound) {
                let detail = format!("{id} is {status}, but was accepted at {}", stamp(post.at));
                wrong.push(("an accepted delivery is delivered in the log", detail));
            }
            let answered = logged.attempts.iter().filter(|attempt| attempt.get("status_code").is_some()).count();
            if answered > posts.len() {
                wrong
                    .push(("logged attempts took place", format!("{id}: {answered} answers to {} posts", posts.len())));
            }
            let is_short = |attempt: &&Value| {
                attempt["outcome"] == "timeout" && ends(attempt) - time(&attempt["at"]) < self.allowance.timeout
            };
            if let Some(attempt) = logged.attempts.iter().find(is_short) {
                wrong.push(("an attempt times out after the whole timeout", format!("{id}: {attempt}")));
            }
            let count = logged.attempts.len();
            if count != usize::try_from(logged.delivery["attempts"].as_u64().unwrap_or(0)).unwrap_or(0)
                && self.allowance.is_sound
                && !self.allowance.has_duplicates
            {
                wrong.push(("the log has all attempts", format!("{id}: {count} of {}", logged.delivery["attempts"])));
            }
        }
        wrong.into_iter().for_each(|(invariant, detail)| self.fail(invariant, detail));
        self.each_delivery_is_in_the_log();
        let misled = std::mem::take(&mut self.world.state().misled);
        misled.into_iter().for_each(|detail| self.fail("the log loses no attempt and reverts no success", detail));
    }

    /// 4. At least once, and repeated only after a fault.
    pub(super) fn at_least_once(&mut self) {
        let (mut wrong, mut early_ones) = (Vec::new(), Vec::new());
        for logged in &self.logged {
            let (id, count) = (logged.text("webhook_id"), logged.attempts.len());
            let posts: Vec<_> = self.posts.iter().filter(|post| post.id == id).collect();
            // If a delivery is resent while an attempt is due, the resend requests the same attempt, so two processes
            // may make it at the same time.
            let resends = self.resent(logged).count();
            // A copy of an event's message that succeeds at once replaces the earlier state.
            let count = if self.allowance.has_duplicates {
                (resends + 1) * (self.world.script.schedule.len() + 1)
            } else {
                count
            };
            // A request without a response on a reused connection is repeated on a new one, because the receiver may
            // already have closed the reused connection.
            let cut = posts.iter().filter(|post| post.is_cut).count();
            // After a late copy, the process finds the delivery in the log, and resends the message for the next
            // attempt, if any.
            let repeating = if logged.attempts.len() > 1 {
                self.allowance.repeating + self.allowance.harmless
            } else {
                self.allowance.repeating
            };
            let repeated = repeating * (1 + self.allowance.long_waits);
            if posts.len() > count + repeated + resends + cut {
                let detail = format!(
                    "{id}: {} posts, {count} attempts, {resends} resends, {} faults",
                    posts.len(),
                    self.allowance.repeating
                );
                wrong.push(detail);
            }
            // A request that is open when its process dies ends with the process.
            let begins_early = |pair: &&[&Post]| pair[0].ended.is_none_or(|end| pair[1].at < end);
            let early = posts.windows(2).filter(begins_early).count();
            let copies = if self.allowance.has_duplicates { posts.len() } else { 0 };
            // The request of a resend can be open beside the attempt that was in progress, and beside the one after it.
            if early > repeated + 2 * resends + copies {
                early_ones.push(format!("{id}: {early} of {} posts", posts.len()));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("only a fault repeats an attempt", wrong));
        let invariant = "no request begins while an earlier one of the same delivery is open";
        early_ones.into_iter().for_each(|early| self.fail(invariant, early));
    }

    fn each_delivery_is_in_the_log(&mut self) {
        let mut wrong = Vec::new();
        let mut bodies = BTreeMap::new();
        for post in &self.posts {
            if *bodies.entry(&post.id).or_insert(&post.body) != &post.body {
                wrong.push(("a delivery has one body", format!("{} has two", post.id)));
            }
            let logged = self.logged.iter().find(|logged| logged.text("webhook_id") == post.id);
            let to = logged.map(|logged| (logged.tenant, logged.endpoint));
            if to.is_some_and(|to| to != post.to) {
                wrong.push(("a delivery has one destination", format!("{} goes to {:?} and {to:?}", post.id, post.to)));
            }
        }
        let mut answered: Vec<_> = Vec::new();
        for logged in
            self.logged.iter().filter(|logged| self.allowance.faults == 0 && self.resent(logged).next().is_none())
        {
            let posts = self.posts.iter().filter(|post| post.id == logged.text("webhook_id"));
            let mut seen: Vec<_> = posts.map(|post| u64::from(post.status)).filter(|status| *status > 0).collect();
            let mut told: Vec<_> =
                logged.attempts.iter().filter_map(|attempt| attempt["status_code"].as_u64()).collect();
            seen.sort_unstable();
            told.sort_unstable();
            answered.push((logged.text("webhook_id"), seen, told));
        }
        for (id, seen, told) in answered.into_iter().filter(|(_, seen, told)| seen != told) {
            wrong.push((
                "the log has the answers of receivers",
                format!("{id}: {told:?}, and receivers answered {seen:?}"),
            ));
        }
        let failures = self.world.state().failures.clone();
        for failure in
            failures.into_iter().filter(|_| self.world.script.faults.is_empty() && self.world.script.units == 0)
        {
            wrong.push(("no delivery fails without a fault", failure));
        }
        for post in self.posts.iter().filter(|_| self.allowance.faults == 0) {
            if !self.logged.iter().any(|logged| logged.text("webhook_id") == post.id) {
                wrong.push(("attempts that took place are in the log", format!("{} is not", post.id)));
            }
        }
        wrong.into_iter().for_each(|(invariant, detail)| self.fail(invariant, detail));
    }

    /// Events for an endpoint that is certainly inactive are held until they are resent or recovered, or the endpoint is
    /// deleted.
    pub(super) fn held_deliveries_stay(&mut self) {
        let mut wrong = std::mem::take(&mut self.world.state().unasked);
        let handled = self.world.state().handled.clone();
        for logged in self.logged.iter().filter(|logged| !logged.is_test() && self.resent(logged).next().is_none()) {
            let Some((index, handled)) = logged.endpoint.zip(handled.get(logged.text("job_id"))) else { continue };
            let endpoint = &self.known.tenants[logged.tenant].endpoints[index];
            // The first of two `active` calls may have taken effect again after the second.
            let is_certain = endpoint.switches.len() < 2 || !self.allowance.has_late_writes;
            let is_collected = is_certain && self.holds_for_long() && is_inactive(endpoint, *handled);
            let is_kept = match logged.text("status") {
                "held" => true,
                "ended" => endpoint.deleted.is_some(),
                _ => false,
            };
            if is_collected && !(is_kept && logged.attempts.is_empty()) {
                wrong.push(format!("{} is {} without a request", logged.text("webhook_id"), logged.text("status")));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("held deliveries are sent only on request", wrong));
    }

    /// Whether a delivery could not be resent, because its endpoint was deleted or may have been inactive.
    fn could_not_be(&self, logged: &Logged, when: Within) -> bool {
        let Some(index) = logged.endpoint else { return false };
        let endpoint = &self.known.tenants[logged.tenant].endpoints[index];
        let since = Within { from: when.from, to: Time::MAX };
        match logged.text("status") {
            "ended" => true,
            "held" => !is_on(endpoint, since) || self.was_disabled(logged.tenant, index, Time::MAX / 2),
            _ => false,
        }
    }

    /// 9. Accepted calls take effect.
    pub(super) fn accepted_calls_take_effect(&mut self) {
        let mut wrong = Vec::new();
        let find = |tenant: usize, id: &str| {
            self.logged.iter().find(|logged| logged.tenant == tenant && logged.text("delivery_id") == id)
        };
        let attempted = |logged: &Logged, when: Within| {
            // An attempt that was in progress at that time counts, too.
            logged.attempts.iter().any(|attempt| ends(attempt) + self.allowance.early >= when.from)
        };
        for resend in self.known.resends.iter().filter(|resend| resend.is_done) {
            match find(resend.tenant, &resend.delivery) {
                Some(logged) if self.could_not_be(logged, resend.when) || attempted(logged, resend.when) => {}
                Some(_) if self.allowance.has_duplicates || self.allowance.has_late_writes => {}
                _ => wrong.push(format!("{} was not resent", resend.delivery)),
            }
        }
        for recovery in &self.known.recoveries {
            for id in &recovery.missed {
                match find(recovery.tenant, id) {
                    Some(logged) if self.could_not_be(logged, recovery.when) || attempted(logged, recovery.when) => {}
                    Some(_) if self.allowance.has_duplicates || self.allowance.has_late_writes => {}
                    _ => wrong.push(format!("{id} was not recovered")),
                }
            }
        }
        let tests: BTreeSet<_> = self.known.tests.iter().map(|test| (test.to.0, test.delivery.as_str())).collect();
        for logged in self.logged.iter().filter(|logged| logged.is_test()) {
            if !tests.contains(&(logged.tenant, logged.text("delivery_id"))) {
                wrong.push(format!("no call requested {}", logged.text("delivery_id")));
            }
        }
        for test in &self.known.tests {
            let endpoint = &self.known.tenants[test.to.0].endpoints[test.to.1];
            match find(test.to.0, &test.delivery) {
                // A resent test counts as a resend, and is held if its endpoint is inactive.
                Some(logged) if self.resent(logged).next().is_some() => {}
                Some(logged) if logged.attempts.is_empty() && endpoint.deleted.is_none() => {
                    wrong.push(format!("the test {} was not made at {}", test.delivery, stamp(test.when.to)));
                }
                Some(_) => {}
                None => wrong.push(format!("the test {} is missing", test.delivery)),
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("accepted calls take effect", wrong));
    }

    /// A job's deliveries are found by its id, and each by its `webhook-id`.
    async fn correct_searches(&mut self) {
        let mut expected = BTreeMap::<_, BTreeSet<&str>>::new();
        for logged in &self.logged {
            for field in ["job_id", "webhook_id"] {
                let deliveries = expected.entry((logged.tenant, field, logged.text(field))).or_default();
                deliveries.insert(logged.text("delivery_id"));
            }
        }
        let (mut wrong, step) = (Vec::new(), expected.len().div_ceil(MOST_SOUGHT).max(1));
        for ((tenant, field, id), expected) in expected.into_iter().step_by(step) {
            let found = self.known.tenants[tenant].client.deliveries(&json!({field: id, "limit": 100})).await;
            let found: BTreeSet<_> =
                found.iter().map(|delivery| delivery["delivery_id"].as_str().unwrap_or_default()).collect();
            if found != expected {
                wrong.push(format!("{field} {id}: {found:?} instead of {expected:?}"));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("deliveries are found by job and by webhook-id", wrong));
    }

    /// 11. Correct counts.
    pub(super) async fn correct_counts(&mut self) {
        self.correct_searches().await;
        if !self.world.script.age.is_zero() {
            // The counts are of the last hours.
            return;
        }
        for (number, tenant) in self.known.tenants.iter().enumerate() {
            let fields = json!({"since": "2026-01-31T11:00:00Z"});
            let (status, stats) = tenant.client.observer().call("deliveries-stats", &fields, None).await;
            assert_eq!(status, 200, "{stats}");
            for state in ["pending", "delivered", "failed", "held", "ended"] {
                let of_tenant = self.logged.iter().filter(|logged| logged.tenant == number);
                let listed = of_tenant.filter(|logged| logged.text("status") == state && !logged.is_test());
                let (listed, counted) = (listed.count() as u64, stats["total"][state].as_u64());
                let hours: u64 =
                    stats["hours"].as_array().into_iter().flatten().filter_map(|hour| hour[state].as_u64()).sum();
                if counted != Some(listed) || hours != listed {
                    let detail = format!("{state} of {number}: {listed} listed, {counted:?} counted, {hours} by hours");
                    self.violations.push(Violation::new("counts agree with lists", detail));
                }
            }
            // Each run lists one status, occasionally in short pages, because listing all of them would take longer
            // than many runs.
            let seed = self.world.script.seed;
            let limit = if seed.is_multiple_of(8) { 3 } else { 100 };
            for status in [["delivered", "failed", "ended", "held"][usize::try_from(seed / 2 % 4).unwrap_or(0)]] {
                let some = tenant.client.deliveries(&json!({"limit": limit, "status": status})).await.len();
                let all =
                    self.logged.iter().filter(|logged| logged.tenant == number && logged.text("status") == status);
                if some != all.count() {
                    let detail = format!("{status} of {number}: {some} by the filter");
                    self.violations.push(Violation::new("counts agree with lists", detail));
                }
            }
        }
    }
}

/// Converts a delivery's id to its key in the log.
pub(crate) fn log_key(tenant: &str, id: &str) -> [String; 2] {
    let (second, _) = id.match_indices('.').nth(1).expect("an id");
    [format!("{tenant}/{}", &id[..second]), id[second + 1..].to_owned()]
}

/// Whether an endpoint was certainly active during the whole period.
fn is_on(endpoint: &Endpoint, when: Within) -> bool {
    if endpoint.deleted.is_some_and(|deleted| deleted.from <= when.to) {
        return false;
    }
    // The last change that began before the period determines the state, and no other change may fall within the
    // period.
    let last = endpoint.switches.iter().rfind(|(_, switch)| switch.from <= when.to);
    last.is_none_or(|(active, switch)| *active && switch.to < when.from)
}

/// Whether the tenant had certainly disabled the endpoint during the whole period.
fn is_inactive(endpoint: &Endpoint, when: Within) -> bool {
    let last = endpoint.switches.iter().rfind(|(_, switch)| switch.from <= when.to);
    let is_deleted = endpoint.deleted.is_some_and(|deleted| deleted.from <= when.to);
    !is_deleted && last.is_some_and(|(active, switch)| !active && switch.to < when.from)
}
