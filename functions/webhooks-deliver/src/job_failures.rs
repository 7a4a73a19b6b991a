//! Records failed jobs for the emails to their organizations, whether or not their events are delivered.
//!
//! A batch's failures are written after its attempts have ended, while the ledger stores the results, with one write
//! per workflow and organization, or two if the workflow's notice is full. If a write fails, its records stay in their
//! queue. When SQS redelivers them, the log is read first, so the events are not delivered twice.

use std::{collections::BTreeMap, num::NonZero, sync::Mutex};

use common::{
    error::Error,
    id::TenantId,
    lock::lock,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::job_failures::{
        FailedJob, JobFailure, JobFailures, Workflow, WorkflowKey,
        storm::{self, Storm},
    },
};
use lru::LruCache;

use crate::{batch::all, record::RecordError};

/// The number of workflows whose storms a process remembers: those that failed last.
const MAX_KNOWN_WORKFLOWS: NonZero<usize> = NonZero::new(10_000).expect("it is not zero");

type StormKey = (TenantId, WorkflowKey);

/// Records failed jobs.
pub(crate) struct Notes {
    table: JobFailures,
    /// The storms of workflows that fail so often that not every failure is written.
    storms: Mutex<LruCache<StormKey, Option<Storm>>>,
}

/// The failures of a workflow in a batch.
struct Group {
    workflow: Workflow,
    failures: Vec<JobFailure>,
    /// The numbers of the failures' records in the batch.
    indexes: Vec<usize>,
}

impl Notes {
    pub(crate) fn new(table: JobFailures) -> Self {
        Self { table, storms: Mutex::new(LruCache::new(MAX_KNOWN_WORKFLOWS)) }
    }

    /// Records a batch's failures. Returns the numbers of the records that stay in their queue.
    pub(crate) async fn note(&self, failed: Vec<(usize, FailedJob)>) -> Vec<(usize, RecordError)> {
        if failed.is_empty() {
            return Vec::new();
        }
        let now = Timestamp::now();
        // Boxed, since few batches have failures.
        let noted = groups(failed).into_iter().map(|(key, group)| Box::pin(self.note_group(key, group, now)));
        all(noted).await.into_iter().flatten().collect()
    }

    async fn note_group(&self, key: StormKey, group: Group, now: Timestamp) -> Vec<(usize, RecordError)> {
        let Group { workflow, failures, indexes } = group;
        let failures = JobFailure::newest_first(failures);
        let new = failures.iter().filter(|failure| !failure.id.is_repeated()).count();
        let new = u64::try_from(new).unwrap_or(u64::MAX);
        let Some(write) = storm::write(lock(&self.storms).get_or_insert_mut(key.clone(), || None), new, now) else {
            return Vec::new();
        };
        match self.table.note(&key.0, &workflow, &failures, write, now).await {
            Ok(noted) => {
                let mut storms = lock(&self.storms);
                let known = storms.get_or_insert_mut(key, || None);
                // A known storm already counts failures that arrived during the write.
                *known = Storm::after(&noted, now).map(|storm| known.unwrap_or(storm));
                Vec::new()
            }
            Err(error) => {
                common::log!("job_failures.unnoted", tenant = %key.0, ?error);
                metrics::count("FailureUnnoted");
                indexes.into_iter().map(|index| (index, Error::Busy.into())).collect()
            }
        }
    }
}

/// Groups a batch's failures by workflow.
fn groups(failed: Vec<(usize, FailedJob)>) -> BTreeMap<StormKey, Group> {
    let mut groups = BTreeMap::new();
    for (index, failed) in failed {
        let Some((workflow, failure)) = failed.read() else { continue };
        let group = groups.entry((failed.tenant().clone(), workflow.key.clone()));
        let group = group.or_insert_with(|| Group { workflow, failures: Vec::new(), indexes: Vec::new() });
        group.indexes.push(index);
        group.failures.push(failure);
    }
    groups
}
