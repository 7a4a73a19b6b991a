//! Tells tenants that an endpoint of theirs is failing, or has been disabled: a mail to the address that their
//! organization has for that.

use std::time::Duration;

use common::{
    accounts::{mail::Mailer, organizations::Organizations},
    base_url::BaseUrl,
    error::Result,
    id::{EndpointId, TenantId},
    random,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{
        delivery::{MAX_AGE, Status},
        endpoints::{
            Endpoints, HoldFor,
            notice::{Notice, Step},
        },
        log::{Log, search::Filter},
    },
};
use tokio::time::Instant;

use crate::mail::{self, Failures, Held};

/// How many notices are looked at in a sweep.
const NOTICES: usize = 200;
/// How long a sweep sends notices: its other work must not wait for a slow mail service.
const TIME: Duration = Duration::from_secs(15);
/// How many deliveries of a status are counted.
const COUNTED: usize = 1000;

pub(crate) struct Notices {
    pub(crate) log: Log,
    pub(crate) endpoints: Endpoints,
    pub(crate) organizations: Organizations,
    pub(crate) mailer: Mailer,
    /// Where the pages are that the mails link to.
    pub(crate) base: BaseUrl,
    /// How long an endpoint may be failing; zero is forever.
    pub(crate) disable_after: Duration,
    /// How long inactive endpoints collect what they miss.
    pub(crate) hold_for: HoldFor,
}

impl Notices {
    /// Sends the pending notices, as far as there is time. A notice that cannot be sent does not hold up the others.
    pub(crate) async fn send(&self, now: Timestamp, end: Instant) -> Result<()> {
        let end = end.min(Instant::now() + TIME);
        let mut pending = self.endpoints.pending_notices().await?;
        // In random order, so that none is always last if there are very many.
        pending.sort_by_cached_key(|_| random::bytes::<4>());
        let mut sent = Ok(());
        for (tenant, endpoint) in pending.into_iter().take(NOTICES).take_while(|_| Instant::now() < end) {
            if let Err(error) = self.send_one(&tenant, endpoint, now).await {
                common::log!("notice.failed", %tenant, %endpoint, ?error);
                sent = Err(error);
            }
        }
        sent
    }

    async fn send_one(&self, tenant: &TenantId, endpoint: EndpointId, now: Timestamp) -> Result<()> {
        let Some(notice) = self.endpoints.notice(tenant, endpoint).await? else { return Ok(()) };
        match notice.step(now) {
            Step::Wait => return Ok(()),
            Step::Drop => {}
            Step::GiveUp => {
                common::log!("notice.abandoned", %tenant, %endpoint);
                metrics::count("NoticeGivenUp");
            }
            Step::Send => {
                let Some(notice) = self.endpoints.try_notice(tenant, notice).await? else { return Ok(()) };
                // The tenant's address may be wrong: that is no failure of the sweep.
                return match self.mail(tenant, &notice, now).await {
                    Ok(()) => self.endpoints.settle_notice(tenant, &notice, Some(now)).await,
                    Err(error) => {
                        common::log!("notice.email_failed", %tenant, %endpoint, ?error);
                        Ok(())
                    }
                };
            }
        }
        self.endpoints.settle_notice(tenant, &notice, None).await
    }

    async fn mail(&self, tenant: &TenantId, notice: &Notice, now: Timestamp) -> Result<()> {
        // A deleted organization has nobody to tell, and its endpoints follow it.
        let Some(organization) = self.organizations.find(tenant).await? else { return Ok(()) };
        let earliest = notice.since(now).before(MAX_AGE);
        let failures = self.failures(tenant, notice, earliest, now).await?;
        let held = match notice.disabled.and_then(|(at, _)| self.hold_for.end(at)) {
            Some(until) => Some(self.held(tenant, notice, earliest, until, now).await?),
            None => None,
        };
        let (name, held) = (&organization.name, held.as_ref());
        let mail = mail::about(&self.base, name, notice, &failures, held, self.disable_after);
        self.mailer.try_send(&organization.debug_notification_email, mail).await
    }

    /// What has failed since the endpoint began to fail.
    async fn failures(
        &self,
        tenant: &TenantId,
        notice: &Notice,
        earliest: Timestamp,
        now: Timestamp,
    ) -> Result<Failures> {
        let since = notice.since(now);
        let filter = Filter { status: Some(Status::Failed), since: Some(earliest), ..Filter::default() };
        let page = self.log.search(tenant, &notice.shards, &filter, None, COUNTED, now).await?;
        let is_complete = page.next.is_none();
        let mut deliveries = page.deliveries;
        deliveries.retain(|delivery| delivery.last_attempt.as_ref().is_some_and(|attempt| attempt.at >= since));
        let oldest = deliveries.iter().map(|delivery| delivery.created_at).min().filter(|_| is_complete);
        let count = deliveries.len();
        let last = deliveries.into_iter().filter_map(|delivery| delivery.last_attempt).max_by_key(|attempt| attempt.at);
        Ok(Failures { count, is_complete, oldest: oldest.unwrap_or(earliest), last })
    }

    /// What is held for the endpoint, which collects `until` then.
    async fn held(
        &self,
        tenant: &TenantId,
        notice: &Notice,
        earliest: Timestamp,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Held> {
        let filter = Filter { status: Some(Status::Held), since: Some(earliest), ..Filter::default() };
        let page = self.log.search(tenant, &notice.shards, &filter, None, COUNTED, now).await?;
        let oldest = match page.next {
            Some(_) => Some(earliest),
            None => page.deliveries.iter().map(|delivery| delivery.created_at).min(),
        };
        Ok(Held { count: page.deliveries.len(), is_complete: page.next.is_none(), oldest, until })
    }
}
