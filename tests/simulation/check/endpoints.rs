//! Checks endpoints, and the notices to their tenants.

use serde_json::Value;

use super::{Check, ends};
use crate::run::{Endpoint, pending, time};

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
                if disabled > starts + faults || failing > hours + faults || recovered > failing + faults {
                    wrong.push(format!(
                        "endpoint {index} of {number}: {failing} emails that it fails, {disabled} that it is disabled, \
                         {recovered} that it works again"
                    ));
                }
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
        let (is_active, is_failing) = (row["active"]["BOOL"] == true, row.get("failing_since").is_some());
        for (at, logged) in failed.clone() {
            let is_newest = [last_success, last_switch].into_iter().flatten().all(|other| other + slack < at);
            let is_gone = logged.delivery["last_attempt"]["status_code"] == 410;
            if is_newest && !is_failing && is_active {
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
        if is_failing && is_well && self.allowance.faults == 0 && is_active {
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
