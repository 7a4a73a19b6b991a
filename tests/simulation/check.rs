//! What must hold after every life.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{
    life::{Endpoint, Known, Within, callback_secret, pending, time},
    receivers::Post,
    script::{Audience, Fault, Time},
    world::{NEW, World, stamp},
};

/// What a process has read of an endpoint may be as old as an invocation can be.
const READ: Duration = Duration::from_secs(33);
/// How long an attempt waits at most for a process, if nothing goes wrong: a batch may have to wait for a whole one.
const PROMPT: Duration = Duration::from_secs(300);
/// How much too early an attempt may be.
const EARLY: Duration = Duration::from_secs(1);

/// Something that must not be.
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
    entry: Value,
    attempts: Vec<Value>,
}

impl Logged {
    fn text(&self, name: &str) -> &str {
        self.entry[name].as_str().unwrap_or_default()
    }

    fn is_test(&self) -> bool {
        self.text("event") == "webhook.test"
    }

    /// When its last attempt began, if the delivery was given up.
    fn failed_at(&self) -> Option<Time> {
        (self.text("status") == "failed").then(|| time(&self.entry["last_attempt"]["at"]))
    }
}

struct Check<'a> {
    world: &'a World,
    known: &'a Known,
    posts: Vec<Post>,
    logged: Vec<Logged>,
    /// How many things went wrong on our side.
    faults: usize,
    /// How often they can make something happen once more.
    repeating: usize,
    skew: Duration,
    violations: Vec<Violation>,
}

/// All that is violated.
pub(crate) async fn all(world: &Arc<World>, known: &Known) -> Vec<Violation> {
    let mut logged = Vec::new();
    for (number, tenant) in known.tenants.iter().enumerate() {
        for entry in tenant.client.deliveries(&json!({"limit": 100})).await {
            let id = json!({"delivery_id": entry["delivery_id"]});
            let attempts = if entry["attempts"] == 1 {
                vec![entry["last_attempt"].clone()]
            } else {
                let (status, details) = tenant.client.observer().call("deliveries-get", &id, None).await;
                assert_eq!(status, 200, "{details}");
                details["attempts"].as_array().expect("attempts").clone()
            };
            let endpoint = entry["webhook_endpoint_id"].as_str();
            let endpoint = endpoint.and_then(|id| tenant.endpoints.iter().position(|known| known.id == id));
            logged.push(Logged { tenant: number, endpoint, entry, attempts });
        }
    }
    let (posts, faults, harmless, copies) = {
        let state = world.state();
        (state.posts.clone(), state.faults, state.harmless, state.copies)
    };
    let skew = Duration::from_millis(world.script.skew.unsigned_abs());
    // A copy of an event also sends another message for its next attempt, which two processes can get at the same moment.
    let repeating = faults - harmless + copies;
    let mut check = Check { world, known, posts, logged, faults, repeating, skew, violations: Vec::new() };
    check.tenants_never_meet();
    check.each_destination_has_its_delivery();
    check.the_log_tells_the_truth();
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

    /// Whether messages came twice soon after one another: then an event is handled as if it was new.
    fn has_duplicates(&self) -> bool {
        self.world
            .script
            .faults
            .iter()
            .any(|fault| matches!(fault, Fault::Duplicate(_, seconds) if Duration::from_secs(*seconds) <= NEW))
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

    fn each_destination_has_its_delivery(&mut self) {
        let mut wrong = Vec::new();
        let handled = self.world.state().handled.clone();
        for event in &self.world.script.events {
            let job = format!("t{}-j{}", event.tenant, event.number);
            let rows: Vec<_> = self.logged.iter().filter(|logged| logged.text("job_id") == job).collect();
            let posts: Vec<_> = self.posts.iter().filter(|post| post.body.contains(&format!("\"{job}\""))).collect();
            let callbacks = rows.iter().filter(|row| row.entry.get("webhook_endpoint_id").is_none()).count();
            let is_callback = event.audience == Audience::Callback;
            // A success whose row could not be written is not sent again for that.
            let unlogged = |to| self.faults > 0 && posts.iter().any(|post| post.to == to && post.taken);
            if is_callback && callbacks != 1 && !(callbacks == 0 && unlogged((event.tenant, None))) {
                wrong.push(format!("{job} has {callbacks} deliveries to its callback"));
            }
            if !is_callback && (callbacks > 0 || posts.iter().any(|post| post.to.1.is_none())) {
                wrong.push(format!("{job} goes to a callback"));
            }
            let endpoints = self.known.tenants[event.tenant].endpoints.iter();
            for (place, endpoint) in endpoints.enumerate() {
                let found = rows.iter().filter(|row| row.endpoint == Some(place)).count();
                let wants = !self.world.script.tenants[event.tenant].endpoints[place].only_failures || event.failed;
                let to = (event.tenant, Some(place));
                let is_for_it = wants && event.audience == Audience::Endpoints;
                if !is_for_it && (found > 0 || posts.iter().any(|post| post.to == to)) {
                    wrong.push(format!("{job} goes to endpoint {place}, which it is not for"));
                }
                let is_its_receiver = handled.get(&job).is_some_and(|handled| {
                    is_on(endpoint, *handled) && !self.was_disabled(event.tenant, place, handled.to)
                });
                let is_missing = found == 0 && is_its_receiver && !unlogged(to);
                if is_for_it && (found > 1 || is_missing) {
                    wrong.push(format!("{job} has {found} deliveries to endpoint {place}"));
                }
            }
        }
        for logged in &self.logged {
            if logged.text("status") == "pending" {
                wrong.push(format!("{} is still pending", logged.text("delivery_id")));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("each destination has its delivery, and it ends", wrong));
    }

    /// Whether an endpoint may have been disabled before some time.
    fn was_disabled(&self, tenant: usize, place: usize, before: Time) -> bool {
        let (here, before) = ((tenant, Some(place)), before + self.skew * 2);
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

    fn the_log_tells_the_truth(&mut self) {
        let mut wrong = Vec::new();
        for logged in &self.logged {
            let (id, status) = (logged.text("webhook_id"), logged.text("status"));
            let posts: Vec<_> = self.posts.iter().filter(|post| post.id == id).collect();
            if status == "delivered" && !posts.iter().any(|post| post.taken) {
                wrong.push(("what is delivered was taken", format!("{id} was taken by nobody")));
            }
            let resent = self.resent(logged).map(|when| when.from).max().unwrap_or_default();
            let taken = posts.iter().find(|post| post.taken && post.at >= resent);
            if let Some(post) = taken.filter(|_| status != "delivered" && self.is_sound()) {
                let detail = format!("{id} is {status}, and was taken at {}", stamp(post.at));
                wrong.push(("what was taken is delivered", detail));
            }
            let answered = logged.attempts.iter().filter(|attempt| attempt.get("status_code").is_some()).count();
            if answered > posts.len() {
                wrong.push((
                    "what the log has took place",
                    format!("{id}: {answered} answers to {} posts", posts.len()),
                ));
            }
            let count = logged.attempts.len();
            if count != usize::try_from(logged.entry["attempts"].as_u64().unwrap_or(0)).unwrap_or(0)
                && self.is_sound()
                && !self.has_duplicates()
            {
                wrong.push(("the log has all attempts", format!("{id}: {count} of {}", logged.entry["attempts"])));
            }
            // While an attempt is due, a resend asks for the same one: two processes may make it at the same time.
            let resends = self.resent(logged).count();
            // A copy of an event's message that succeeds at once takes the place of what was there.
            let count =
                if self.has_duplicates() { (resends + 1) * (self.world.script.schedule.len() + 1) } else { count };
            // A request that an idle connection does not answer is sent once more, over a new one: perhaps the receiver had
            // closed it before.
            let cut = posts.iter().filter(|post| post.is_cut).count();
            if posts.len() > count + self.repeating + resends + cut {
                let detail = format!(
                    "{id}: {} posts, {count} attempts, {resends} resends, {} faults",
                    posts.len(),
                    self.repeating
                );
                wrong.push(("only a fault repeats an attempt", detail));
            }
        }
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
        for logged in self.logged.iter().filter(|logged| self.faults == 0 && self.resent(logged).next().is_none()) {
            let posts = self.posts.iter().filter(|post| post.id == logged.text("webhook_id"));
            let mut seen: Vec<_> = posts.map(|post| u64::from(post.status)).filter(|status| *status > 0).collect();
            let mut told: Vec<_> =
                logged.attempts.iter().filter_map(|attempt| attempt["status_code"].as_u64()).collect();
            seen.sort_unstable();
            told.sort_unstable();
            answered.push((logged.text("webhook_id"), seen, told));
        }
        for (id, seen, told) in answered.into_iter().filter(|(_, seen, told)| seen != told) {
            wrong.push(("the log has what was answered", format!("{id}: {told:?}, and receivers answered {seen:?}")));
        }
        let failures = self.world.state().failures.clone();
        for failure in failures.into_iter().filter(|_| self.world.script.faults.is_empty()) {
            wrong.push(("nothing fails where nothing goes wrong", failure));
        }
        for post in self.posts.iter().filter(|_| self.faults == 0) {
            if !self.logged.iter().any(|logged| logged.text("webhook_id") == post.id) {
                wrong.push(("what took place is in the log", format!("{} is not", post.id)));
            }
        }
        wrong.into_iter().for_each(|(invariant, detail)| self.fail(invariant, detail));
    }

    fn the_log_goes_on(&mut self) {
        let misled = std::mem::take(&mut self.world.state().misled);
        misled.into_iter().for_each(|detail| self.fail("the log forgets no attempt and takes back no success", detail));
    }

    /// Where nothing goes wrong, and there is room for every attempt, none is late.
    fn attempts_are_prompt(&mut self) {
        let script = &self.world.script;
        if !script.faults.is_empty() || script.slots < 100 || script.sweep_every > 2 {
            return;
        }
        let mut wrong = Vec::new();
        let is_silent = |attempt: &Value| attempt.get("status_code").is_none();
        for logged in &self.logged {
            let mut own =
                self.logged.iter().filter(|other| (other.tenant, other.endpoint) == (logged.tenant, logged.endpoint));
            // One that does not answer makes others wait.
            if own.any(|other| other.attempts.iter().any(is_silent)) {
                continue;
            }
            let id = logged.text("webhook_id");
            let longest = script.schedule.iter().max().copied().unwrap_or_default();
            let mut before = None;
            for attempt in &logged.attempts {
                let at = time(&attempt["at"]);
                if let Some(before) = before {
                    let is_retry = attempt["trigger"] == "schedule";
                    let waited = at.saturating_sub(before);
                    // The longest delay, with its jitter, or what a receiver asked for; and the wait for a process.
                    let most = Duration::from_secs(longest.max(90)).mul_f64(1.2) + PROMPT;
                    if is_retry && waited > most {
                        wrong.push(format!("{id} is tried again after {waited:?}"));
                    }
                }
                before = Some(ends(attempt));
            }
            if let Some(first) = logged.attempts.first().filter(|_| !logged.is_test()) {
                let waited = time(&first["at"]).saturating_sub(time(&logged.entry["created_at"]));
                if waited > PROMPT {
                    wrong.push(format!("{id} is tried after {waited:?}"));
                }
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("attempts are prompt where nothing goes wrong", wrong));
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

    fn attempts_keep_the_schedule(&mut self) {
        let mut wrong = Vec::new();
        let schedule = self.world.script.schedule;
        for logged in &self.logged {
            let id = logged.text("webhook_id");
            let mut tries = 0;
            let mut before: Option<&Value> = None;
            for attempt in &logged.attempts {
                let trigger = attempt["trigger"].as_str().unwrap_or_default();
                let is_retry = trigger == "schedule";
                if let Some(before) = before.filter(|_| is_retry) {
                    let waited = time(&attempt["at"]).saturating_sub(ends(before));
                    let least = schedule.get(tries - 1).copied().map_or(Duration::ZERO, Duration::from_secs);
                    if waited + EARLY + self.skew * 2 < least {
                        wrong.push(format!("{id}: attempt {} after {waited:?} and not {least:?}", tries + 1));
                    }
                }
                // An attempt that was under way during a resend, or waited for its turn, counts as the first of the new
                // schedule.
                let (began, ended) = (time(&attempt["at"]), ends(attempt));
                let slack = EARLY + self.skew * 2;
                let is_restart =
                    self.resent(logged).any(|when| began <= when.to + READ + slack && when.from <= ended + slack);
                tries = if is_retry && !is_restart { tries + 1 } else { 1 };
                let most =
                    if logged.is_test() && self.resent(logged).next().is_none() { 1 } else { schedule.len() + 1 };
                if tries > most {
                    wrong.push(format!("{id}: {tries} attempts in a row"));
                }
                before = Some(attempt);
            }
            let last = logged.entry["last_attempt"]["outcome"].as_str().unwrap_or_default();
            let is_resent = self.resent(logged).next().is_some();
            let may_end_early = last == "gone" || logged.is_test() || is_resent || !self.is_sound();
            if logged.text("status") == "failed" && tries < schedule.len() + 1 && !may_end_early {
                wrong.push(format!("{id} is given up after {tries} attempts: {last}"));
            }
        }
        self.too_early(&mut wrong);
        wrong.into_iter().for_each(|wrong| self.fail("attempts keep the schedule", wrong));
    }

    /// A receiver that asked for time gets it.
    fn too_early(&self, wrong: &mut Vec<String>) {
        use crate::script::Manner;
        if !self.is_sound() {
            return;
        }
        for (number, post) in self.posts.iter().enumerate() {
            let receiver = &self.world.script.tenants[post.to.0];
            let receiver = post.to.1.map_or(&receiver.callbacks, |endpoint| &receiver.endpoints[endpoint]);
            let phase = receiver.phases.iter().find(|(until, _)| post.at < *until);
            let Some((_, Manner::Answers(429 | 503, _, Some(asked)))) = phase else { continue };
            let again = self.posts[number + 1..].iter().find(|later| later.id == post.id);
            let Some(again) = again.filter(|_| post.status != 0) else { continue };
            let logged = self.logged.iter().find(|logged| logged.text("webhook_id") == post.id);
            let is_resent = logged.is_none_or(|logged| self.resent(logged).next().is_some());
            let waited = again.at.saturating_sub(post.at) + EARLY + self.skew * 2;
            if waited < Duration::from_secs(*asked) && !is_resent && !self.has_duplicates() {
                wrong.push(format!("{} comes again after {waited:?} and not {asked} s", post.id));
            }
        }
    }

    /// Retries have jitter: what failed together does not come back together.
    fn retries_are_spread(&mut self) {
        let mut extra = Vec::new();
        for logged in &self.logged {
            for pair in logged.attempts.windows(2) {
                let [before, after] = pair else { continue };
                let waited = time(&after["at"]).saturating_sub(ends(before)).as_secs_f64();
                let mut base =
                    self.world.script.schedule.iter().filter(|delay| **delay >= 20).map(|delay| *delay as f64);
                if let Some(base) = base.rfind(|base| (0.95..1.3).contains(&(waited / base))) {
                    extra.push(waited / base - 1.0);
                }
            }
        }
        let (most, least) = (extra.iter().copied().fold(0.0, f64::max), extra.iter().copied().fold(1.0, f64::min));
        if extra.len() >= 8 && most - least < 0.02 {
            self.fail("retries are spread", format!("{} retries are all {least} to {most} too late", extra.len()));
        }
    }

    fn ids_and_times_stay(&mut self) {
        let mut wrong = Vec::new();
        let (mut ids, mut times) = (BTreeMap::new(), BTreeMap::new());
        for post in &self.posts {
            let body: Value = serde_json::from_str(&post.body).unwrap_or_default();
            if body["job_id"] != "test" {
                let known = ids.entry((post.to, body["job_id"].to_string())).or_insert_with(|| post.id.clone());
                if *known != post.id {
                    wrong.push(format!("{} and {} are the same delivery", known, post.id));
                }
            }
            let known = times.entry(&post.id).or_insert_with(|| post.event_time.clone());
            if *known != post.event_time {
                wrong.push(format!("{} has the times {known} and {}", post.id, post.event_time));
            }
            let logged = self.logged.iter().find(|logged| logged.text("webhook_id") == post.id);
            if logged.is_some_and(|logged| logged.text("created_at") != post.event_time) {
                wrong.push(format!("{} has another time in the log than {}", post.id, post.event_time));
            }
            let right = i64::try_from((crate::world::BEGINNING + post.at).as_secs()).unwrap_or(0);
            let off = post.timestamp.abs_diff(right);
            if off > 7 + self.skew.as_secs() {
                wrong.push(format!("{}: its signature is {off} s off", post.id));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("ids and times stay", wrong));
    }

    fn signatures_verify(&mut self) {
        let mut wrong = Vec::new();
        for post in &self.posts {
            let start = Within { from: Time::ZERO, to: Time::ZERO };
            let callback = [(callback_secret(post.to.0), start)];
            let secrets = match post.to.1 {
                Some(endpoint) => self.known.tenants[post.to.0].endpoints[endpoint].secrets.as_slice(),
                None => &callback,
            };
            if let Err(problem) = self.verify(post, secrets) {
                wrong.push(format!("{} at {}: {problem}", post.id, stamp(post.at)));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("signatures verify", wrong));
    }

    fn verify(&self, post: &Post, secrets: &[(String, Within)]) -> Result<(), String> {
        let signed = format!("{}.{}.{}", post.id, post.timestamp, post.body);
        let by = |signature: &str| {
            secrets.iter().position(|(secret, _)| {
                format!("v1,{}", BASE64_STANDARD.encode(hmac(secret, signed.as_bytes()))) == signature
            })
        };
        let found: Vec<_> = post.signatures.split(' ').map(by).collect();
        let Some(current) = found.first().copied().flatten() else { return Err("the secret is unknown".to_owned()) };
        let (secret, since) = &secrets[current];
        if hex::encode(hmac(secret, post.body.as_bytes())) != post.body_signature {
            return Err("the body's signature is of another secret".to_owned());
        }
        let slack = READ + self.skew * 2;
        // A rotation whose answer the life did not live to see is not known.
        let replaced = secrets.get(current + 1).map(|(_, when)| when.to);
        if since.from > post.at + self.skew || replaced.is_some_and(|replaced| replaced + slack < post.at) {
            return Err(format!("secret {current} is not current"));
        }
        if found.len() > 2 {
            return Err("there are too many signatures".to_owned());
        }
        let overlap = Duration::from_secs(self.world.script.overlap);
        let ends = (since.from + overlap, since.to + overlap);
        match found.get(1) {
            Some(Some(previous)) if *previous + 1 == current && post.at <= ends.1 + slack => Ok(()),
            Some(_) => Err("a signature is of a secret that ended".to_owned()),
            None if current > 0 && post.at + slack < ends.0 => Err("the previous secret does not sign".to_owned()),
            None => Ok(()),
        }
    }

    fn nothing_goes_where_it_must_not(&mut self) {
        let mut wrong = Vec::new();
        for post in &self.posts {
            let (tenant, Some(place)) = post.to else { continue };
            let endpoint = &self.known.tenants[tenant].endpoints[place];
            let is_test = post.body.contains("\"webhook.test\"");
            if is_off(endpoint, post.at, is_test) {
                wrong.push(format!("{} went to endpoint {place} of {tenant} at {}", post.id, stamp(post.at)));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("nothing goes to an endpoint that is off", wrong));
    }

    fn what_was_asked_for_is_done(&mut self) {
        let mut wrong = Vec::new();
        let find = |tenant: usize, id: &str| {
            self.logged.iter().find(|logged| logged.tenant == tenant && logged.text("delivery_id") == id)
        };
        let attempted = |logged: &Logged, when: Within| {
            // One that is under way meanwhile counts.
            logged.attempts.iter().any(|attempt| ends(attempt) + self.skew * 2 + EARLY >= when.from)
        };
        for resend in self.known.resends.iter().filter(|resend| resend.is_done) {
            match find(resend.tenant, &resend.delivery) {
                Some(logged) if logged.text("status") == "ended" || attempted(logged, resend.when) => {}
                Some(_) if self.has_duplicates() => {}
                _ => wrong.push(format!("{} was not resent", resend.delivery)),
            }
        }
        for recovery in &self.known.recoveries {
            for id in &recovery.failed {
                match find(recovery.tenant, id) {
                    Some(logged) if logged.text("status") == "ended" || attempted(logged, recovery.when) => {}
                    Some(_) if self.has_duplicates() => {}
                    _ => wrong.push(format!("{id} was not recovered")),
                }
            }
        }
        let tests: BTreeSet<_> = self.known.tests.iter().map(|test| (test.to.0, test.delivery.as_str())).collect();
        for logged in self.logged.iter().filter(|logged| logged.is_test()) {
            if !tests.contains(&(logged.tenant, logged.text("delivery_id"))) {
                wrong.push(format!("nobody asked for {}", logged.text("delivery_id")));
            }
        }
        for test in &self.known.tests {
            let endpoint = &self.known.tenants[test.to.0].endpoints[test.to.1];
            match find(test.to.0, &test.delivery) {
                Some(logged) if logged.attempts.is_empty() && endpoint.deleted.is_none() => {
                    wrong.push(format!("the test {} was not made at {}", test.delivery, stamp(test.when.to)));
                }
                Some(_) => {}
                None => wrong.push(format!("the test {} is gone", test.delivery)),
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("what was asked for is done", wrong));
    }

    fn endpoints_are_as_their_history(&mut self) {
        let mut wrong = Vec::new();
        let stored = self.world.stored();
        let rows = &stored.endpoints;
        let mails = self.world.state().mails.clone();
        for (number, tenant) in self.known.tenants.iter().enumerate() {
            for (place, endpoint) in tenant.endpoints.iter().enumerate() {
                let row = rows.iter().find(|row| row["webhook_endpoint_id"]["S"] == endpoint.id.as_str());
                let row = row.filter(|row| row["tenant_id"]["S"] == tenant.id.as_str());
                match (row, endpoint.deleted) {
                    (Some(_), Some(_)) => wrong.push(format!("endpoint {place} of {number} is deleted and there")),
                    (None, None) => wrong.push(format!("endpoint {place} of {number} is gone")),
                    (Some(row), None) => self.health(&mut wrong, (number, place), endpoint, row),
                    (None, Some(_)) => {}
                }
                let about: Vec<_> = mails.iter().filter(|mail| mail.text.contains(&endpoint.id)).collect();
                if about.iter().any(|mail| mail.to != format!("t{number}@example.com")) {
                    wrong.push(format!("a mail about endpoint {place} of {number} went to others"));
                }
                let starts = 1 + endpoint.switches.iter().filter(|(active, _)| *active).count();
                let disabled = about.iter().filter(|mail| mail.subject.contains("disabled")).count();
                let failing = about.len() - disabled;
                let hours = usize::try_from(self.world.now().as_secs() / 3600).unwrap_or(0) + 1;
                let faults = self.world.state().faults;
                if disabled > starts + faults || failing > hours + faults {
                    wrong.push(format!(
                        "endpoint {place} of {number}: {failing} mails that it fails, {disabled} that it is disabled"
                    ));
                }
                let is_impaired = row.is_some_and(|row| row.get("failing_since").or(row.get("disabled_at")).is_some());
                let is_disabled = row.is_some_and(|row| row.get("disabled_at").is_some());
                if is_impaired && about.is_empty() || is_disabled && disabled == 0 {
                    wrong.push(format!("nobody was told of endpoint {place} of {number}"));
                }
            }
        }
        for notice in pending(self.world).1 {
            if notice.get("mailed_at").is_none() {
                wrong.push(format!("a notice waits: {notice}"));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("endpoints and mails are as their history", wrong));
    }

    /// What an endpoint's record says about its receiver.
    fn health(&self, wrong: &mut Vec<String>, (tenant, place): (usize, usize), endpoint: &Endpoint, row: &Value) {
        let (slack, here) = (READ + self.skew * 2, (tenant, Some(place)));
        let own = || self.logged.iter().filter(|logged| (logged.tenant, logged.endpoint) == here);
        let successes =
            || own().flat_map(|logged| &logged.attempts).filter(|attempt| attempt["outcome"] == "delivered");
        let last_success = successes().map(ends).max();
        let last_start = successes().map(|attempt| time(&attempt["at"])).max();
        let last_switch = endpoint.switches.last().map(|(_, when)| when.to);
        let given_up =
            own().filter(|logged| !logged.is_test()).filter_map(|logged| Some((logged.failed_at()?, logged)));
        let (is_active, is_failing) = (row["active"]["BOOL"] == true, row.get("failing_since").is_some());
        for (at, logged) in given_up.clone() {
            let is_newest = [last_success, last_switch].into_iter().flatten().all(|other| other + slack < at);
            let is_gone = logged.entry["last_attempt"]["status_code"] == 410;
            if is_newest && !is_failing && is_active {
                wrong.push(format!(
                    "endpoint {place} of {tenant} is not failing, though {} was given up",
                    logged.text("webhook_id")
                ));
            }
            if is_newest && is_gone && (is_active || row["disabled_reason"]["S"] != "gone") {
                wrong.push(format!(
                    "endpoint {place} of {tenant} is not disabled, though {} met 410",
                    logged.text("webhook_id")
                ));
            }
        }
        // What an attempt has shown is noted by the next one if a call fails.
        let last_given_up = given_up.map(|(at, _)| at).max();
        let is_well = last_start.is_some_and(|start| last_given_up.is_none_or(|at| at + slack + slack < start));
        if is_failing && is_well && self.faults == 0 && is_active {
            wrong.push(format!("endpoint {place} of {tenant} is failing after a success"));
        }
        let (after, lived) = (self.world.script.disable_after, self.world.now().as_secs());
        if (after == 0 || after > lived) && row["disabled_reason"]["S"] == "failing" {
            wrong.push(format!("endpoint {place} of {tenant} was disabled"));
        }
        if is_active && (row.get("disabled_at").is_some() || row.get("disabled_reason").is_some()) {
            wrong.push(format!("endpoint {place} of {tenant} is active, and called disabled"));
        }
        let was_refused = own().filter(|logged| !logged.is_test()).any(|logged| {
            let posts = self.posts.iter().filter(|post| post.id == logged.text("webhook_id"));
            posts.into_iter().any(|post| !post.taken)
                || logged.attempts.iter().any(|attempt| attempt["outcome"] != "delivered")
        });
        if is_failing && !was_refused && self.faults == 0 {
            wrong.push(format!("endpoint {place} of {tenant} is failing, and took every delivery"));
        }
        let is_switched = endpoint.switches.last().is_some_and(|(active, _)| !active);
        if !is_active && !is_switched && row.get("disabled_at").is_none() {
            wrong.push(format!("endpoint {place} of {tenant} is inactive, and nobody did it"));
        }
    }

    fn dead_letters(&mut self) {
        let dead: Vec<_> = self.world.state().queues.values().flat_map(|queue| queue.dead.clone()).collect();
        dead.into_iter().for_each(|body| self.fail("nothing is a dead letter", body));
    }

    async fn counts_agree(&mut self) {
        for (number, tenant) in self.known.tenants.iter().enumerate() {
            let fields = json!({"since": "2026-01-31T11:00:00Z"});
            let (status, stats) = tenant.client.observer().call("deliveries-stats", &fields, None).await;
            assert_eq!(status, 200, "{stats}");
            for state in ["pending", "delivered", "failed", "ended"] {
                let listed =
                    self.logged.iter().filter(|logged| logged.tenant == number && logged.text("status") == state);
                let (listed, counted) = (listed.count() as u64, stats["total"][state].as_u64());
                let hours: u64 =
                    stats["hours"].as_array().into_iter().flatten().filter_map(|hour| hour[state].as_u64()).sum();
                if counted != Some(listed) || hours != listed {
                    let detail = format!("{state} of {number}: {listed} listed, {counted:?} counted, {hours} by hours");
                    self.violations.push(Violation::new("counts agree with lists", detail));
                }
            }
            // One of them at a time, and rarely in short pages: the answers to all would take longer than many a life.
            let seed = self.world.script.seed;
            let limit = if seed.is_multiple_of(8) { 3 } else { 100 };
            for status in [["delivered", "failed", "ended"][usize::try_from(seed % 3).unwrap_or(0)]] {
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

/// When an attempt ended.
fn ends(attempt: &Value) -> Time {
    time(&attempt["at"]) + Duration::from_millis(attempt["duration_ms"].as_u64().unwrap_or(0))
}

/// Whether an endpoint was certainly off for so long that nothing may go to it any more.
fn is_off(endpoint: &Endpoint, at: Time, is_test: bool) -> bool {
    if endpoint.deleted.is_some_and(|when| when.to + READ < at) {
        return true;
    }
    let next = |place: usize| endpoint.switches.get(place + 1).map(|(_, when)| when.from);
    !is_test
        && endpoint
            .switches
            .iter()
            .enumerate()
            .any(|(place, (active, when))| !active && when.to + READ < at && next(place).is_none_or(|next| at < next))
}

/// Whether an endpoint was certainly on, all that time.
fn is_on(endpoint: &Endpoint, when: Within) -> bool {
    if endpoint.deleted.is_some_and(|deleted| deleted.from <= when.to) {
        return false;
    }
    // The last switch that began before the end decides, and no other may lie within.
    let last = endpoint.switches.iter().rfind(|(_, switch)| switch.from <= when.to);
    last.is_none_or(|(active, switch)| *active && switch.to < when.from)
}

fn hmac(secret: &str, bytes: &[u8]) -> Vec<u8> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    hmac.update(bytes);
    hmac.finalize().into_bytes().to_vec()
}
