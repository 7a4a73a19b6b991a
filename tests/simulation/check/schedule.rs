//! Checks the times of attempts.

use std::time::Duration;

use common::webhooks::delivery::{LAST_HOURS, MAX_AGE};
use serde_json::Value;

use super::{Check, Logged, ends};
use crate::{run::time, script::Manner, world::stamp};

impl Check<'_> {
    /// 5. Punctual attempts.
    pub(super) fn punctual_attempts(&mut self) {
        self.attempts_keep_the_schedule();
        self.attempts_are_prompt();
        self.the_well_do_not_wait_for_the_bad();
        self.no_attempt_is_too_late();
        self.retries_are_spread();
        let overdue = std::mem::take(&mut self.world.state().overdue);
        overdue.into_iter().for_each(|detail| self.fail("without faults, no pending delivery is overdue", detail));
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
                    let is_brought_forward = self.is_late(logged, time(&attempt["at"]) + self.allowance.early);
                    if waited + self.allowance.early < least && !is_brought_forward {
                        wrong.push(format!("{id}: attempt {} after {waited:?} instead of {least:?}", tries + 1));
                    }
                }
                // An attempt that waits or is in progress during a resend counts as the first of the new schedule.
                let (began, ended) = (time(&attempt["at"]), ends(attempt));
                let slack = self.allowance.early;
                let is_restart = self
                    .resent(logged)
                    .any(|when| began <= when.to + self.allowance.read + slack && when.from <= ended + slack);
                tries = if is_retry && !is_restart { tries + 1 } else { 1 };
                let most =
                    if logged.is_test() && self.resent(logged).next().is_none() { 1 } else { schedule.len() + 1 };
                if tries > most {
                    wrong.push(format!("{id}: {tries} attempts in a row"));
                }
                before = Some(attempt);
            }
            let last_attempt = &logged.delivery["last_attempt"];
            let last = last_attempt["outcome"].as_str().unwrap_or_default();
            let is_resent = self.resent(logged).next().is_some();
            let is_late = last_attempt.is_object() && self.is_late(logged, ends(last_attempt));
            let may_end_early = last == "gone" || logged.is_test() || is_late || !self.allowance.is_sound;
            let tries = if is_resent { self.since_the_last_resend(logged) } else { Some(tries) };
            if let Some(tries) = tries.filter(|tries| *tries < schedule.len() + 1 && !may_end_early)
                && logged.text("status") == "failed"
            {
                wrong.push(format!("{id} has failed after {tries} attempts: {last}"));
            }
        }
        self.too_early(&mut wrong);
        wrong.into_iter().for_each(|wrong| self.fail("attempts keep the schedule", wrong));
    }

    /// The number of attempts during or after a delivery's last resend, which starts the whole schedule over. `None` if
    /// the number is uncertain, because a copy of the event or a recovery may have intervened.
    fn since_the_last_resend(&self, logged: &Logged) -> Option<usize> {
        let resends = self.known.resends.iter().filter(|resend| resend.delivery == logged.text("delivery_id"));
        let last = resends.filter(|resend| resend.is_done).map(|resend| resend.when.from).max()?;
        let is_certain = self.resent(logged).count() == 1 && !self.allowance.has_duplicates;
        let since = logged.attempts.iter().filter(|attempt| ends(attempt) + self.allowance.early >= last);
        is_certain.then(|| since.count())
    }

    /// The next attempt waits as long as the receiver's `Retry-After` requires.
    fn too_early(&self, wrong: &mut Vec<String>) {
        if !self.allowance.is_sound {
            return;
        }
        for (number, post) in self.posts.iter().enumerate() {
            let phase = self.world.receiver(post.to).phases.iter().find(|(until, _)| post.at < *until);
            let Some((_, Manner::Answers(429 | 503, _, Some(asked)))) = phase else { continue };
            let again = self.posts[number + 1..].iter().find(|later| later.id == post.id);
            let Some(again) = again.filter(|_| post.status != 0) else { continue };
            let logged = self.logged.iter().find(|logged| logged.text("webhook_id") == post.id);
            let is_resent = logged.is_none_or(|logged| self.resent(logged).next().is_some());
            let waited = again.at.saturating_sub(post.at) + self.allowance.early;
            if waited < Duration::from_secs(*asked) && !is_resent && !self.allowance.has_duplicates {
                wrong.push(format!("{} is retried after {waited:?} instead of {asked} s", post.id));
            }
        }
    }

    /// Without faults, and with capacity for every attempt, no attempt is late.
    fn attempts_are_prompt(&mut self) {
        let script = &self.world.script;
        if !script.faults.is_empty() || script.slots < 100 || script.sweep_every > 2 {
            return;
        }
        let mut wrong = Vec::new();
        let is_slow = |attempt: &Value| {
            attempt["outcome"] == "unanswered"
                || attempt["duration_ms"].as_u64().is_none_or(|ms| ms >= self.allowance.slow)
        };
        for logged in &self.logged {
            let mut own =
                self.logged.iter().filter(|other| (other.tenant, other.endpoint) == (logged.tenant, logged.endpoint));
            // Attempts at a slow or hanging receiver wait.
            if own.any(|other| other.attempts.iter().any(is_slow)) {
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
                    // The maximum delay: the longest one in the schedule, with jitter, or the one that the receiver
                    // requested, plus the wait for a process.
                    let most = Duration::from_secs(longest.max(90)).mul_f64(1.2) + self.allowance.prompt;
                    if is_retry && waited > most {
                        wrong.push(format!("{id} is retried after {waited:?}"));
                    }
                }
                before = Some(ends(attempt));
            }
            // A held delivery waits until its tenant resends it.
            if let Some(first) = logged.attempts.first().filter(|first| first["trigger"] == "event") {
                let waited = time(&first["at"]).saturating_sub(time(&logged.delivery["created_at"]));
                if waited > self.allowance.prompt {
                    wrong.push(format!("{id} is tried after {waited:?}"));
                }
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("without faults, attempts are prompt", wrong));
    }

    /// Without faults on the service's side, the first attempt at an always healthy receiver is made soon, regardless
    /// of other receivers.
    fn the_well_do_not_wait_for_the_bad(&mut self) {
        let script = &self.world.script;
        if !script.faults.is_empty() || script.slots < 100 {
            return;
        }
        let mut late = Vec::new();
        for logged in self.logged.iter().filter(|logged| !logged.is_test()) {
            let Some(first) = logged.attempts.first() else { continue };
            let waited = time(&first["at"]).saturating_sub(time(&logged.delivery["created_at"]));
            let is_well = self.is_well(logged);
            let is_resent = self.resent(logged).next().is_some();
            if is_well && !is_resent && waited > self.allowance.beside_bad {
                late.push(format!("{} is tried after {waited:?}", logged.text("webhook_id")));
            }
        }
        late.into_iter().for_each(|late| self.fail("good receivers do not wait for bad ones", late));
    }

    /// Without faults, a delivery that could not be attempted for three days expires, even if its receiver is busy.
    fn no_attempt_is_too_late(&mut self) {
        let script = &self.world.script;
        if !script.faults.is_empty() || script.slots < 100 {
            return;
        }
        let mut late = Vec::new();
        for logged in self.logged.iter().filter(|logged| !logged.is_test() && self.resent(logged).next().is_none()) {
            let event = script.events.iter().find(|event| event.job() == logged.text("job_id")).expect("an event");
            let end = event.at + MAX_AGE.saturating_sub(script.age) + self.allowance.expiring;
            let made = logged.attempts.iter().filter(|attempt| attempt["outcome"] != "unanswered");
            let made = made.map(|attempt| time(&attempt["at"])).filter(|at| *at > end);
            late.extend(made.map(|at| format!("{} is tried at {}", logged.text("webhook_id"), stamp(at))));
        }
        late.into_iter().for_each(|late| self.fail("no delivery is attempted after three days", late));
    }

    /// Retries have jitter: deliveries that failed together are not retried together.
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

    /// Whether this time is within a delivery's last hours, when its last attempt is made, or later.
    fn is_late(&self, logged: &Logged, at: Duration) -> bool {
        at + self.world.script.age >= time(&logged.delivery["created_at"]) + MAX_AGE - LAST_HOURS
    }
}
