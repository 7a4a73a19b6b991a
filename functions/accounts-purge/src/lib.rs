//! Deletes the remaining data of deleted organizations every minute: endpoints, invitations, keys and the delivery log.
//!
//! Each step can be interrupted and repeated, so there is no lease and no saved progress. Calls and attempts in
//! progress may still store data, so an organization stays listed until a pass at least two minutes after its deletion
//! finds no endpoints and empties the log. A delivery's payload and attempts are deleted before the state that refers
//! to them, and endpoint ids are kept until the log is empty.

use std::{sync::Arc, time::Duration};

use common::{
    accounts::deleted_organizations::{DeletedOrganization, DeletedOrganizations},
    aws::clients::{Aws, CALL_TIMEOUT},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{delivery::Retention, endpoints::Endpoints, log::DeliveryLog},
};
use futures::{StreamExt, TryStreamExt, stream};
use lambda_runtime::LambdaEvent;
use serde::Deserialize;
use tokio::time::Instant;

/// The time after an organization is deleted during which calls and attempts may still store data for it. A call with
/// one of its credentials takes at most 29 seconds. An attempt takes at most 30 seconds, and can start at any time
/// before the first pass, which runs up to a minute after the deletion.
const SETTLING_TIME: Duration = Duration::from_mins(2);
/// The number of organizations that are purged concurrently, so a long log does not delay the others.
const CONCURRENCY: usize = 4;
/// The number of an organization's log shards that are purged concurrently.
const SHARD_CONCURRENCY: usize = 4;
/// The time reserved for calls in progress at the end of an invocation.
const RESERVE: Duration = CALL_TIMEOUT.saturating_mul(2);

/// The function, ready to handle events. Clones share their state.
#[derive(Clone)]
pub struct Purge {
    app: Arc<App>,
}

common::from_env! {
    struct App {
        organizations: DeletedOrganizations,
        endpoints: Endpoints,
        log: DeliveryLog,
        retention: Retention = Retention::from_env,
    }
}

/// A scheduled event, as sent by EventBridge.
#[derive(Debug, Deserialize)]
pub struct Tick {
    /// The scheduled time, in RFC 3339.
    time: String,
}

/// Builds the function with the settings in `env`.
pub fn function(env: &Env) -> Result<Purge, ConfigError> {
    Ok(Purge { app: Arc::new(App::from_env(env, &Aws::new(env)?)?) })
}

impl Purge {
    /// Purges the deleted organizations until the invocation's time runs out.
    ///
    /// # Errors
    /// A call to AWS fails, or the event's time does not parse. The next invocation continues.
    pub async fn handle(&self, event: LambdaEvent<Tick>) -> Result<(), lambda_runtime::Error> {
        let left = event.context.deadline().duration_since(Timestamp::now().into()).unwrap_or_default();
        let end = Instant::now() + left.saturating_sub(RESERVE);
        // Events may be late, but not early. Only tests send a time in the future.
        let now = Timestamp::now().max(event.payload.time.parse()?);
        self.app.purge(now, end).await.map_err(Into::into)
    }
}

impl App {
    /// Purges all deleted organizations. A failure does not stop the others.
    async fn purge(&self, now: Timestamp, end: Instant) -> Result<()> {
        let mut deleted = self.organizations.list().await?;
        // Purged in random order, so that no organization is always last if there are very many.
        deleted.sort_by_cached_key(|_| random::bytes::<4>());
        let passes = deleted.iter().map(async |organization| {
            match self.pass_over(organization, now, end).await {
                // Deleting a long log may exceed the throughput of its partitions. The next pass continues.
                Err(Error::Busy) => {
                    common::log!("purge.throttled", tenant = %organization.id);
                    Ok(())
                }
                Err(error) => {
                    common::log!("purge.failed", tenant = %organization.id, ?error);
                    Err(error)
                }
                Ok(()) => Ok(()),
            }
        });
        let passed: Vec<_> = stream::iter(passes.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).collect().await;
        passed.into_iter().collect()
    }

    async fn pass_over(&self, deleted: &DeletedOrganization, now: Timestamp, end: Instant) -> Result<()> {
        let tenant = &deleted.id;
        if Instant::now() >= end {
            return Ok(());
        }
        let had_endpoints = self.endpoints.delete_all(tenant, self.retention.end(now)).await?;
        self.organizations.delete_invitations_and_keys(tenant).await?;
        let is_empty = self.empty_log(tenant, end).await?;
        // If this pass deleted an endpoint, an attempt to deliver to it may still be in progress.
        if is_empty && !had_endpoints && now.since(deleted.at) >= SETTLING_TIME {
            // The items of endpoints list the log's shards, so these items are deleted last.
            self.endpoints.forget(tenant).await?;
            self.organizations.forget(tenant).await?;
            common::log!("organization.purged", %tenant);
        }
        Ok(())
    }

    /// Deletes the tenant's delivery log until the time runs out. Returns whether the log is empty.
    async fn empty_log(&self, tenant: &TenantId, end: Instant) -> Result<bool> {
        if !self.log.forget_partitions(tenant, end).await? {
            return Ok(false);
        }
        let emptied = self.endpoints.shards_left(tenant).await?.into_iter().map(async |shard| {
            while Instant::now() < end {
                if !self.log.forget_page(tenant, shard).await? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        let emptied = stream::iter(emptied.collect::<Vec<_>>()).buffer_unordered(SHARD_CONCURRENCY);
        emptied.try_fold(true, async |all, is_empty| Ok(all && is_empty)).await
    }
}
