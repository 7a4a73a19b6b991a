//! Deletes what deleted organizations leave behind, every minute: endpoints, invitations, keys and the delivery log.
//!
//! Each step can stop anywhere and be repeated, so there is no lease, and no progress is saved: an organization stays listed
//! until nothing is left of it. It is passed over once more after two minutes, and after a pass that found an endpoint: a
//! call or an attempt that was under way may have stored something since.

use std::{sync::Arc, time::Duration};

use common::{
    accounts::deleted_organizations::{DeletedOrganization, DeletedOrganizations},
    aws::clients::{Aws, CALL_TIMEOUT},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    random,
    timestamp::Timestamp,
    webhooks::{
        endpoints::Endpoints,
        log::{Log, Retention},
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use lambda_runtime::LambdaEvent;
use serde::Deserialize;
use tokio::time::Instant;

/// How long after its deletion an organization may still get something new. A call by one of its credentials takes 29
/// seconds at most. An attempt takes 30, and may have begun before the first pass, which comes within a minute.
const SETTLED: Duration = Duration::from_secs(2 * 60);
/// How many organizations are worked on at once, so that one with a long log does not hold up the others.
const ORGANIZATIONS: usize = 4;
/// How many shards of the log of each are worked on at once.
const SHARDS: usize = 4;
/// The time kept free at the end of an invocation for calls under way.
const RESERVE: Duration = CALL_TIMEOUT.saturating_mul(2);

/// The function, ready to be called. Cloning is cheap.
#[derive(Clone)]
pub struct Purge {
    app: Arc<App>,
}

struct App {
    organizations: DeletedOrganizations,
    endpoints: Endpoints,
    log: Log,
    retention: Retention,
}

/// The event of a schedule, as EventBridge sends it.
#[derive(Debug, Deserialize)]
pub struct Tick {
    /// The time it was sent for, in RFC 3339.
    time: String,
}

/// The function, with the settings in `env`.
pub fn function(env: &Env) -> Result<Purge, ConfigError> {
    let aws = Aws::new(env)?;
    let app = App {
        organizations: DeletedOrganizations::from_env(env, &aws)?,
        endpoints: Endpoints::from_env(env, &aws)?,
        log: Log::from_env(env, &aws)?,
        retention: Retention::from_env(env)?,
    };
    Ok(Purge { app: Arc::new(app) })
}

impl Purge {
    /// Passes over the deleted organizations, as far as there is time.
    ///
    /// # Errors
    /// A call failed, or the event has no time. The next invocation goes on.
    pub async fn handle(&self, event: LambdaEvent<Tick>) -> Result<(), lambda_runtime::Error> {
        let left = event.context.deadline().duration_since(Timestamp::now().into()).unwrap_or_default();
        let end = Instant::now() + left.saturating_sub(RESERVE);
        // The event may be late, but not early; only a test sends one from the future.
        let now = Timestamp::now().max(event.payload.time.parse()?);
        self.app.purge(now, end).await.map_err(report)
    }
}

/// Fails the invocation: EventBridge then repeats it, and an alarm counts it.
fn report(error: Error) -> lambda_runtime::Error {
    match error {
        Error::Internal(cause) => cause.into(),
        error => format!("{error:?}").into(),
    }
}

impl App {
    /// Passes over all deleted organizations. One that fails does not hold up the others.
    async fn purge(&self, now: Timestamp, end: Instant) -> Result<()> {
        let mut deleted = self.organizations.list().await?;
        // In random order, so that none is always last if there are very many.
        deleted.sort_by_cached_key(|_| random::bytes::<4>());
        let passes = deleted.iter().map(async |organization| {
            match self.pass_over(organization, now, end).await {
                // A long log may throttle its partitions. What was deleted up to then stays deleted.
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
        let passed: Vec<_> = stream::iter(passes.collect::<Vec<_>>()).buffer_unordered(ORGANIZATIONS).collect().await;
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
        // An attempt to deliver to an endpoint that this pass has deleted may be under way.
        if is_empty && !had_endpoints && now.since(deleted.at) >= SETTLED {
            // Until here, the table of endpoints says which shards the log may have.
            self.endpoints.forget(tenant).await?;
            self.organizations.forget(tenant).await?;
            common::log!("organization.purged", %tenant);
        }
        Ok(())
    }

    /// Deletes the delivery log of `tenant`, as far as there is time. Returns whether that was all.
    async fn empty_log(&self, tenant: &TenantId, end: Instant) -> Result<bool> {
        self.log.forget_recoveries(tenant).await?;
        let emptied = self.endpoints.shards_left(tenant).await?.into_iter().map(async |shard| {
            while Instant::now() < end {
                if !self.log.forget_page(tenant, shard).await? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        let emptied = stream::iter(emptied.collect::<Vec<_>>()).buffer_unordered(SHARDS);
        emptied.try_fold(true, async |all, is_empty| Ok(all && is_empty)).await
    }
}
