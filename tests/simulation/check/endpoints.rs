//! Checks endpoints, and the notices to their tenants.

use std::time::Duration;

use common::webhooks::endpoints::LONG;
use serde_json::Value;

use super::{Allowance, Check, Logged, ends};
use crate::{
    run::{Endpoint, Within, pending, time},
    script::{DeclaredError, Time},
    world::{EmailMessage, stamp},
};

/// The minimum time between two emails that an endpoint is failing.
const HOUR: Duration = Duration::from_hours(1);

impl Check<'_> {
    /// 10. Endpoints.
    pub(super) fn endpoints(&mut self) {
        let mut wrong = Vec::new();
        let stored = self.world.stored();
        let rows = &stored.endpoints;
        let mails = self.world.state().mails.clone();
        for (number, tenant) in self.known.tenants.iter().enumerate() {
            for (index, endpoint) in tenant.endpoints.iter().enumerate() {
                let row = rows.iter().find(|row| row["webhook_endpoint_id"]["S"] == endpoint.id.as_str());
                let row = row.filter(|row| row["tenant_id"]["S"] == tenant.id.as_str());
                match (row, endpoint.deleted) {
                    (Some(_), Some(_)) => wrong.push(format!("endpoint {index} of {number} was deleted but exists")),
                    (None, None) => wrong.push(format!("endpoint {index} of {number} is missing")),
                    (Some(row), None) => self.health(&mut wrong, (number, index), endpoint, row),
                    (None, Some(_)) => {}
                }
                let about: Vec<_> = mails.iter().filter(|mail| mail.text.contains(&endpoint.id)).collect();
                if about.iter().any(|mail| mail.to != format!("t{number}@example.com")) {
                    wrong.push(format!("an email about endpoint {index} of {number} went to another address"));
                }
                let starts = 1 + endpoint.switches.iter().filter(|(active, _)| *active).count();
                let disabled = about.iter().filter(|mail| mail.subject.contains("disabled")).count();
                let recovered = about.iter().filter(|mail| mail.subject.contains("works again")).count();
                let failing = about.len() - disabled - recovered;
                let hours = usize::try_from(self.world.now().as_secs() / 3600).unwrap_or(0) + 1;
                let faults = self.allowance.faults;
                if disabled > starts + faults || failing > hours + starts - 1 + faults || recovered > failing + faults {
                    wrong.push(format!(
                        "endpoint {index} of {number}: {failing} emails that it fails, {disabled} that it is disabled, \
                         {recovered} that it works again"
                    ));
                }
                self.outages(&mut wrong, (number, index), endpoint, &about);
                let is_impaired = row.is_some_and(|row| row.get("failing_since").or(row.get("disabled_at")).is_some());
                let is_disabled = row.is_some_and(|row| row.get("disabled_at").is_some());
                if is_impaired && about.is_empty() || is_disabled && disabled == 0 {
                    wrong.push(format!("there was no email about endpoint {index} of {number}"));
                }
            }
        }
        for notice in pending(self.world).1 {
            if notice.get("mailed_at").is_none() {
                wrong.push(format!("a notice waits: {notice}"));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("endpoints and emails match their history", wrong));
    }

    /// Checks that an outage is reported within ten minutes and once, and that nothing else is.
    fn outages(
        &self,
        wrong: &mut Vec<String>,
        (tenant, index): (usize, usize),
        endpoint: &Endpoint,
        about: &[&EmailMessage],
    ) {
        let Allowance { stale, apart, faults, has_duplicates, .. } = self.allowance;
        let here = (tenant, Some(index));
        let taken = self.posts.iter().filter(|post| post.to == here && post.taken);
        let successes: Vec<_> = taken.map(|post| Within { from: post.at, to: post.ended.unwrap_or(post.at) }).collect();
        let changes = endpoint.switches.iter().map(|(_, when)| *when).chain(endpoint.deleted);
        let ends_of_outages: Vec<_> = successes.iter().copied().chain(changes).collect();
        let is_failing = |mail: &&&EmailMessage| mail.subject.ends_with("is failing");
        let mails: Vec<_> = about.iter().filter(is_failing).map(|mail| mail.at).collect();
        let own = || self.logged.iter().filter(|it| (it.tenant, it.endpoint) == here && !it.is_test());
        let begins = |attempt: &Value| time(&attempt["at"]);

        // Calls that fail may leave out an attempt, and delay an email. So does a sweep that does not run.
        let is_sweep = |fault: &&DeclaredError| matches!(fault, DeclaredError::NoSweep(_));
        let unswept = u64::try_from(self.world.script.faults.iter().filter(is_sweep).count()).expect("few");
        let patience = if faults == 0 { 60 * (self.world.script.sweep_every * (1 + unswept) + 1) } else { 3600 };
        for logged in own() {
            for attempts in logged.attempts.windows(usize::try_from(LONG.0).expect("few") + faults) {
                let (Some(first), Some(last)) = (attempts.first(), attempts.last()) else { continue };
                let (first, last) = (begins(first), ends(last));
                let latest = (first + LONG.1).max(last) + Duration::from_secs(patience) + stale;
                // An attempt within five seconds after a success is not counted.
                let is_over = |end: &Within| end.from <= latest && end.to + stale + Duration::from_secs(5) >= first;
                let is_failed = attempts.iter().all(|attempt| attempt["outcome"] != "delivered");
                if !is_failed || ends_of_outages.iter().any(is_over) || latest > self.world.now() {
                    continue;
                }
                let healthy = ends_of_outages.iter().map(|end| end.to).filter(|to| *to < first).max();
                let is_told = about.iter().any(|mail| mail.at <= latest && Some(mail.at + stale) >= healthy);
                // There is at most one email an hour, unless the endpoint is enabled in between.
                let enabled = endpoint.switches.iter().filter(|(active, _)| *active).map(|(_, when)| when.from);
                let enabled = enabled.filter(|at| *at <= first).max().unwrap_or_default();
                let is_recent = |at: &Time| *at + HOUR + Duration::from_mins(1) >= first && *at + stale >= enabled;
                let is_early = mails.iter().any(|at| *at <= latest && is_recent(at));
                if !is_told && !is_early {
                    wrong.push(format!(
                        "the outage of endpoint {index} of {tenant} from {} on was not reported by {}",
                        stamp(first),
                        stamp(latest)
                    ));
                }
            }
        }
        let is_repeated = |pair: &&[Time]| {
            !ends_of_outages.iter().any(|end| end.to + stale >= pair[0] && end.from <= pair[1] + apart)
        };
        if mails.windows(2).filter(is_repeated).count() > faults {
            wrong.push(format!("an outage of endpoint {index} of {tenant} was reported twice"));
        }
        for at in mails.into_iter().filter(|_| faults == 0 && !has_duplicates) {
            let healthy = successes.iter().filter(|success| success.to + stale < at).map(|it| it.from).max();
            let healthy = healthy.unwrap_or_default();
            let has_failed = |logged: &Logged| {
                // A delivery that was resent may have failed before.
                let is_resent = self.resent(logged).next().is_some();
                is_resent || logged.failed_at().is_some_and(|failed| failed + stale >= healthy && failed <= at + apart)
            };
            let failed = own().flat_map(|logged| &logged.attempts).filter(|attempt| attempt["outcome"] != "delivered");
            let failed = failed.map(begins).filter(|began| *began + stale >= healthy && *began <= at + apart);
            let failed: Vec<_> = failed.collect();
            let is_long = failed.iter().min().is_some_and(|first| *first + LONG.1 <= at + apart);
            let is_failing = is_long && failed.len() >= usize::try_from(LONG.0).expect("few");
            if !is_failing && !own().any(has_failed) {
                wrong.push(format!("endpoint {index} of {tenant} was reported as failing at {}", stamp(at)));
            }
        }
    }

    /// Checks the receiver's health in the endpoint's item.
    fn health(&self, wrong: &mut Vec<String>, (tenant, index): (usize, usize), endpoint: &Endpoint, row: &Value) {
        let (slack, here) = (self.allowance.stale, (tenant, Some(index)));
        let own = || self.logged.iter().filter(|logged| (logged.tenant, logged.endpoint) == here);
        let successes =
            || own().flat_map(|logged| &logged.attempts).filter(|attempt| attempt["outcome"] == "delivered");
        let last_success = successes().map(ends).max();
        let last_start = successes().map(|attempt| time(&attempt["at"])).max();
        let last_switch = endpoint.switches.last().map(|(_, when)| when.to);
        let failed = own().filter(|logged| !logged.is_test()).filter_map(|logged| Some((logged.failed_at()?, logged)));
        let (is_active, has_failed) = (row["active"]["BOOL"] == true, row.get("failing_since").is_some());
        for (at, logged) in failed.clone() {
            let is_newest = [last_success, last_switch].into_iter().flatten().all(|other| other + slack < at);
            let is_gone = logged.delivery["last_attempt"]["status_code"] == 410;
            if is_newest && !has_failed && is_active {
                wrong.push(format!(
                    "endpoint {index} of {tenant} is not failing, although {} has failed",
                    logged.text("webhook_id")
                ));
            }
            if is_newest && is_gone && (is_active || row["disabled_reason"]["S"] != "gone") {
                wrong.push(format!(
                    "endpoint {index} of {tenant} is not disabled, although {} got a 410",
                    logged.text("webhook_id")
                ));
            }
        }
        // If the call that records the receiver's state fails, the next attempt records it.
        let last_failed = failed.map(|(at, _)| at).max();
        let is_well = last_start.is_some_and(|start| last_failed.is_none_or(|at| at + slack + slack < start));
        let is_failing = has_failed || row.get("streak").is_some();
        if has_failed && is_well && self.allowance.faults == 0 && is_active {
            wrong.push(format!("endpoint {index} of {tenant} is failing after a success"));
        }
        let (after, span) = (self.world.script.disable_after, self.world.now().as_secs());
        if (after == 0 || after > span) && row["disabled_reason"]["S"] == "failing" {
            wrong.push(format!("endpoint {index} of {tenant} was disabled"));
        }
        if is_active && (row.get("disabled_at").is_some() || row.get("disabled_reason").is_some()) {
            wrong.push(format!("endpoint {index} of {tenant} is active but marked as disabled"));
        }
        let was_refused = own().filter(|logged| !logged.is_test()).any(|logged| {
            let posts = self.posts.iter().filter(|post| post.id == logged.text("webhook_id"));
            posts.into_iter().any(|post| !post.taken)
                || logged.attempts.iter().any(|attempt| attempt["outcome"] != "delivered")
        });
        if is_failing && !was_refused && self.allowance.faults == 0 {
            wrong.push(format!("endpoint {index} of {tenant} is failing, although it accepted every delivery"));
        }
        let is_switched = endpoint.switches.last().is_some_and(|(active, _)| !active);
        if !is_active && !is_switched && row.get("disabled_at").is_none() {
            wrong.push(format!("endpoint {index} of {tenant} is inactive without a reason"));
        }
    }
}
