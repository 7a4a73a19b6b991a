//! Records failed jobs for the emails to their organizations, whether or not their events are delivered.
//!
//! A batch's failures are written after its attempts have ended, while the ledger stores the results, with one write
//! per workflow and organization. If a write fails, its records stay in their queue. When SQS redelivers them, the log
//! is read first, so the events are not delivered twice.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use common::{
    error::Error,
    id::TenantId,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::job_failures::{
        FailedJob, JobFailure, JobFailures, Workflow, WorkflowKey,
        storm::{self, Storm, Write},
    },
};

use crate::{batch::all, record::Undone};

/// The maximum number of storming workflows that a process remembers.
const MOST: usize = 10_000;

/// Records failed jobs.
pub(crate) struct Notes {
    table: JobFailures,
    /// The storming workflows: those that fail so often that not every failure is written.
    storms: Mutex<HashMap<(TenantId, WorkflowKey), Storm>>,
}

/// The failures of a workflow in a batch.
struct Group {
    tenant: TenantId,
    workflow: Workflow,
    failures: Vec<JobFailure>,
    /// The numbers of the failures' records in the batch.
    indexes: Vec<usize>,
}

impl Notes {
    pub(crate) fn new(table: JobFailures) -> Self {
        Self { table, storms: Mutex::default() }
    }

    /// Records a batch's failures. Returns the numbers of the records that stay in their queue.
    pub(crate) async fn note(&self, failed: Vec<(usize, FailedJob)>) -> Vec<(usize, Undone)> {
        if failed.is_empty() {
            return Vec::new();
        }
        let now = Timestamp::now();
        // Boxed, since few batches have failures.
        let noted = groups(failed).into_iter().map(|group| Box::pin(self.note_group(group, now)));
        all(noted).await.into_iter().flatten().collect()
    }

    async fn note_group(&self, group: Group, now: Timestamp) -> Vec<(usize, Undone)> {
        let Group { tenant, workflow, failures, indexes } = group;
        let key = (tenant.clone(), workflow.key.clone());
        let failures = JobFailure::newest_first(failures);
        let new = failures.iter().filter(|failure| !failure.id.is_repeated()).count();
        let write = self.decide(&key, u64::try_from(new).unwrap_or(u64::MAX), now);
        if write == Write::None {
            return Vec::new();
        }
        match self.table.note(&tenant, &workflow, &failures, write, now).await {
            Ok(noted) => {
                self.learn(key, Storm::after(&noted, now));
                Vec::new()
            }
            Err(error) => {
                common::log!("job_failures.unnoted", %tenant, ?error);
                metrics::count("FailureUnnoted");
                indexes.into_iter().map(|index| (index, Error::Busy.into())).collect()
            }
        }
    }

    fn decide(&self, key: &(TenantId, WorkflowKey), new: u64, now: Timestamp) -> Write {
        let mut storms = self.lock();
        let mut storm = storms.remove(key);
        let write = storm::write(&mut storm, new, now);
        storms.extend(storm.map(|storm| (key.clone(), storm)));
        write
    }

    fn learn(&self, key: (TenantId, WorkflowKey), storm: Option<Storm>) {
        let mut storms = self.lock();
        let Some(storm) = storm else {
            storms.remove(&key);
            return;
        };
        if storms.len() >= MOST && !storms.contains_key(&key) {
            storms.clear();
        }
        // An existing entry already counts failures that arrived during the write.
        storms.entry(key).or_insert(storm);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(TenantId, WorkflowKey), Storm>> {
        self.storms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Groups a batch's failures by workflow.
fn groups(failed: Vec<(usize, FailedJob)>) -> Vec<Group> {
    let mut groups: BTreeMap<(TenantId, WorkflowKey), Group> = BTreeMap::new();
    for (index, failed) in failed {
        let Some((workflow, failure)) = failed.read() else { continue };
        let tenant = failed.tenant();
        let group = groups.entry((tenant.clone(), workflow.key.clone()));
        let none = || Group { tenant: tenant.clone(), workflow, failures: Vec::new(), indexes: Vec::new() };
        let group = group.or_insert_with(none);
        group.indexes.push(index);
        group.failures.push(failure);
    }
    groups.into_values().collect()
}
