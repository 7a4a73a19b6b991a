//! Erases the text of failed jobs that has not been emailed yet, or is kept in case that an email fails.
//!
//! A failing workflow's item keeps the newest failures until it expires. Their errors, stacks and deployments are removed;
//! the ids of the jobs stay, so the failures are still counted and reported. An email that is being sent during the call
//! may contain the text.

use std::{collections::BTreeSet, pin::pin};

use futures::TryStreamExt;

use super::{
    failure::{JobFailure, job_hash},
    table::{self, AGAIN, JobFailures, NEWEST, PREFIX, WRITES, failure_value, read_failure},
};
use crate::{
    aws::{
        dynamo::{Item, ItemReader, get, number, query_pages, text},
        expression::{Update, query},
    },
    error::{Error, Result},
    id::TenantId,
    webhooks::endpoints::item::{TENANT_ID, WEBHOOK_ENDPOINT_ID},
};

const DOING: &str = "erasing failed jobs";
/// The maximum number of tries while failures are recorded concurrently.
const MAX_TRIES: usize = 5;

impl JobFailures {
    /// Erases the text of failures of these jobs. An interrupted call can be repeated.
    ///
    /// # Errors
    /// New failures were recorded during each try ([`Error::Busy`]), or a call fails.
    pub async fn erase<'a>(&self, tenant: &TenantId, jobs: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let jobs: BTreeSet<u64> = jobs.into_iter().map(|job| job_hash(tenant, job)).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        let keys = TENANT_ID.equals(text(tenant)).and(WEBHOOK_ENDPOINT_ID.begins_with(text(PREFIX)));
        // Page by page: an organization can have many failing workflows, and their texts are long.
        let mut pages = pin!(query_pages(query(&self.dynamodb, &self.table, keys).consistent_read(true), DOING));
        while let Some(page) = pages.try_next().await? {
            for workflow in page {
                self.erase_in(tenant, workflow, &jobs).await?;
            }
        }
        Ok(())
    }

    async fn erase_in(&self, tenant: &TenantId, mut workflow: Item, jobs: &BTreeSet<u64>) -> Result<()> {
        let key = ItemReader::new("failing workflow", &workflow).text(WEBHOOK_ENDPOINT_ID)?.to_owned();
        for _ in 0..MAX_TRIES {
            let Some(update) = self.bare(tenant, &key, &workflow, jobs)? else { return Ok(()) };
            if update.send(&self.dynamodb, DOING).await? {
                return Ok(());
            }
            let again = get(&self.dynamodb, &self.table, table::key(tenant, &key), DOING).await?;
            let Some(again) = again else { return Ok(()) };
            workflow = again;
        }
        Err(Error::Busy)
    }

    /// Builds the write that removes the text of these jobs from a workflow, if it has some. The write fails if a failure
    /// was recorded in the meantime.
    fn bare(&self, tenant: &TenantId, key: &str, workflow: &Item, jobs: &BTreeSet<u64>) -> Result<Option<Update>> {
        let mut bare = Vec::new();
        for place in NEWEST.into_iter().chain([AGAIN]) {
            let Some(failure) = workflow.get(place.name()).map(read_failure).transpose()?.flatten() else { continue };
            if jobs.contains(&failure.id.job) && failure.has_text() {
                let JobFailure { id, job_id, .. } = failure;
                let failure = JobFailure { id, job_id, deployment: None, error: None, stack: None };
                bare.push((place, failure_value(&failure)));
            }
        }
        if bare.is_empty() {
            return Ok(None);
        }
        let writes = ItemReader::new("failing workflow", workflow).number(WRITES)?;
        Ok(Some(self.update(tenant, key).set_all(bare).only_if(WRITES.equals(number(writes)))))
    }
}
