//! Checks failed jobs, and the emails to their organizations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Check;

impl Check<'_> {
    /// 12. Failed jobs.
    pub(super) fn failed_jobs(&mut self) {
        let mut wrong = Vec::new();
        let (stored, mails) = (self.world.stored(), self.world.state().mails.clone());
        for (number, tenant) in self.known.tenants.iter().enumerate() {
            let events = self.world.script.events.iter().filter(|event| event.tenant == number && event.failed);
            let jobs: BTreeSet<_> = events.map(crate::script::Event::job).collect();
            // No job in a run has a workflow, so each tenant has one item.
            let is_failing = |row: &&Value| {
                let key = row["webhook_endpoint_id"]["S"].as_str().unwrap_or_default();
                key.starts_with("#failing#") && row["tenant_id"]["S"] == tenant.id.as_str()
            };
            let rows: Vec<_> = stored.endpoints.iter().filter(is_failing).collect();
            let noted: BTreeSet<_> =
                rows.iter().flat_map(|row| ["told", "failed"].map(|set| noted(row, set))).flatten().collect();
            if rows.len() != usize::from(!jobs.is_empty()) || noted.len() != jobs.len() {
                wrong.push(format!("{} jobs of {number} have failed, but {noted:?} are recorded", jobs.len()));
            }
            let address = format!("t{number}@example.com");
            let told = mails.iter().filter(|mail| mail.to == address && mail.subject.ends_with("failed")).count();
            let hours = usize::try_from(self.world.now().as_secs() / 3600).unwrap_or(0) + 1;
            if (told == 0) != jobs.is_empty() || told > hours + self.allowance.faults {
                wrong.push(format!("{} jobs of {number} have failed, but there are {told} emails", jobs.len()));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("failed jobs are reported", wrong));
    }
}

/// The jobs in a set of ids, without the times of the events.
fn noted(row: &Value, set: &str) -> Vec<String> {
    let ids = row[set]["SS"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let jobs = ids.filter_map(|id| id.split('.').nth(1));
    jobs.map(|job| job.trim_end_matches('r').to_owned()).collect()
}
