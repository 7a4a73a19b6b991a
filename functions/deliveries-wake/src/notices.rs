//! Notifies tenants that an endpoint is failing, has been disabled or works again: by email to the address in their
//! settings, and by events to the endpoints that select these notices.

use std::{collections::HashMap, time::Duration};

use common::{
    accounts::{consent::Consent, mail::Mailer, organizations::Organizations, rate_limits::NOTIFIED},
    error::Result,
    id::{EndpointId, TenantId},
    random,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, MAX_AGE, Status},
        endpoints::{
            Endpoints, HoldFor, LastError,
            announcements::Failures,
            notice::{Notice, NoticeStep},
        },
        job_failures::{JobFailures, NOTICES_A_DAY, Quota},
        log::{DeliveryLog, search::Filter},
        queue::Queues,
    },
};
use tokio::time::Instant;

use crate::{
    mail::{self, FailedDeliveries, Held},
    recipients::Recipients,
};

/// The maximum number of notices that a sweep tries to send.
const MAX_NOTICES: usize = 200;
/// The maximum time that a sweep spends on notices, so a slow email service does not delay its other work.
const NOTICE_TIME: Duration = Duration::from_secs(15);
/// The maximum number of deliveries counted per status.
const MAX_COUNTED: usize = 1000;

pub(crate) struct Notices {
    pub(crate) log: DeliveryLog,
    pub(crate) endpoints: Endpoints,
    pub(crate) queues: Queues,
    pub(crate) organizations: Organizations,
    pub(crate) mailer: Mailer,
    /// Counts the emails of each organization.
    pub(crate) quotas: JobFailures,
    pub(crate) recipients: Recipients,
    /// The time after which a failing endpoint is disabled. Zero means never.
    pub(crate) disable_after: Duration,
    /// The time that events for an inactive endpoint are held.
    pub(crate) hold_for: HoldFor,
}

impl Notices {
    /// Sends the pending notices, until `end`. A notice that cannot be sent does not delay the others.
    pub(crate) async fn send(&self, now: Timestamp, end: Instant) -> Result<()> {
        let end = end.min(Instant::now() + NOTICE_TIME);
        let pending = in_turn(self.endpoints.pending_notices().await?);
        let (mut sent, mut tried) = (Ok(()), 0);
        for (tenant, endpoint) in pending.into_iter().take_while(|_| Instant::now() < end) {
            match self.send_one(&tenant, endpoint, now).await {
                Ok(is_due) => tried += usize::from(is_due),
                Err(error) => {
                    common::log!("notice.failed", %tenant, %endpoint, ?error);
                    (sent, tried) = (Err(error), tried + 1);
                }
            }
            if tried >= MAX_NOTICES {
                break;
            }
        }
        sent
    }

    /// Sends a notice if it is due, and returns whether it was.
    async fn send_one(&self, tenant: &TenantId, endpoint: EndpointId, now: Timestamp) -> Result<bool> {
        let Some(notice) = self.endpoints.notice(tenant, endpoint, now).await? else { return Ok(false) };
        match notice.step(now) {
            NoticeStep::Wait => return Ok(false),
            NoticeStep::Drop => {}
            NoticeStep::GiveUp => {
                common::log!("notice.abandoned", %tenant, %endpoint);
                metrics::count("NoticeGivenUp");
            }
            NoticeStep::Send => {
                let Some(notice) = self.endpoints.try_notice(tenant, notice).await? else { return Ok(true) };
                let failures = self.failures(tenant, &notice, now).await?;
                self.announce(tenant, &notice, &failures).await?;
                // Only logged, because the tenant's address may be wrong, which is not a failure of the sweep.
                match self.mail(tenant, &notice, &failures, now).await {
                    Ok(()) => self.endpoints.settle_notice(tenant, &notice, Some(now)).await?,
                    Err(error) => common::log!("notice.email_failed", %tenant, %endpoint, ?error),
                }
                return Ok(true);
            }
        }
        self.endpoints.settle_notice(tenant, &notice, None).await.map(|()| true)
    }

    /// Sends the events to other endpoints. Their attempts are due immediately.
    async fn announce(&self, tenant: &TenantId, notice: &Notice, failures: &FailedDeliveries) -> Result<()> {
        let now = Timestamp::now();
        // The index may not contain the first permanent failure yet.
        let count = failures.count.max(usize::from(notice.health.first_failed_at.is_some()));
        let last = failures.last().map(|attempt| attempt.outcome.as_ref());
        let reason = last.or(notice.last_error.as_ref().map(|error| error.reason.as_str()));
        let failures = Failures { count, pending: failures.pending, reason, newest: failures.newest.as_ref() };
        self.endpoints.announce(&self.log, &self.queues, tenant, notice, failures, self.hold_for, now).await
    }

    async fn mail(
        &self,
        tenant: &TenantId,
        notice: &Notice,
        failures: &FailedDeliveries,
        now: Timestamp,
    ) -> Result<()> {
        // A deleted organization gets no email, because its endpoints are about to be deleted.
        let Some(organization) = self.organizations.find(tenant).await? else { return Ok(()) };
        let consent = self.recipients.consent(&organization).await?;
        if consent == Consent::Stopped {
            common::log!("email.stopped", about = %tenant);
            return Ok(());
        }
        if !self.recipients.may_send(&organization, consent, NOTIFIED, now).await? {
            common::log!("notifications.withheld", %tenant);
            return Ok(());
        }
        let earliest = notice.since(now).before(MAX_AGE);
        let held = match notice.disabled.and_then(|(at, _)| self.hold_for.end(at)) {
            Some(until) => Some(self.held(tenant, notice, earliest, until, now).await?),
            None => None,
        };
        // If counting fails, the email is sent anyway, because the limit only protects mailboxes from abuse.
        let counted = self.quotas.take_mail(tenant, Quota::Notices, now).await;
        if let Ok(None) = counted {
            common::log!("notice.quota_reached", %tenant, endpoint = %notice.endpoint);
            return Ok(());
        }
        let is_last = matches!(counted, Ok(Some(NOTICES_A_DAY)));
        metrics::upkeep("sending a notice", counted.map(drop));
        let send = async {
            let to = self.recipients.addressee(&organization, consent, now).await?;
            let last_of = is_last.then_some(now);
            let mail = mail::about(to, notice, failures, held.as_ref(), self.disable_after, last_of);
            self.mailer.try_send(&organization.debug_notification_email, mail, tenant).await
        };
        let sent = send.await;
        if sent.is_err() {
            let given_back = self.quotas.give_back_mail(tenant, Quota::Notices, now).await;
            metrics::upkeep("sending a notice", given_back);
        }
        sent
    }

    /// Reads the deliveries whose latest attempt has failed since the endpoint began to fail.
    async fn failures(&self, tenant: &TenantId, notice: &Notice, now: Timestamp) -> Result<FailedDeliveries> {
        let since = notice.since(now);
        let search = async |status| {
            let filter = Filter { status: Some(status), since: Some(since.before(MAX_AGE)), ..Filter::default() };
            let mut page = self.log.search(tenant, &notice.shards, &filter, None, MAX_COUNTED, now).await?;
            page.deliveries.retain(|delivery| LastError::of(delivery).is_some_and(|error| error.at >= since));
            Ok(page)
        };
        let (failed, pending) = futures::try_join!(search(Status::Failed), search(Status::Pending))?;
        let (count, is_complete) = (failed.deliveries.len(), failed.next.is_none());
        let number = pending.deliveries.len();
        let deliveries: Vec<_> = failed.deliveries.into_iter().chain(pending.deliveries).collect();
        let attempts = deliveries.iter().flat_map(Delivery::attempts_so_far);
        let attempts = attempts.filter(|attempt| attempt.outcome != "delivered" && attempt.at >= since).count();
        let began_at = |delivery: &Delivery| delivery.last_attempt.as_ref().map(|attempt| attempt.at);
        let newest = deliveries.into_iter().max_by_key(began_at);
        Ok(FailedDeliveries { count, is_complete, pending: number, attempts, newest })
    }

    /// Counts the deliveries held for the endpoint. New ones are held until `until`.
    async fn held(
        &self,
        tenant: &TenantId,
        notice: &Notice,
        earliest: Timestamp,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<Held> {
        let filter = Filter { status: Some(Status::Held), since: Some(earliest), ..Filter::default() };
        let page = self.log.search(tenant, &notice.shards, &filter, None, MAX_COUNTED, now).await?;
        Ok(Held { count: page.deliveries.len(), is_complete: page.next.is_none(), until })
    }
}

/// Sorts notices so that every organization's first one comes before the second one of any, because an organization may
/// have very many. Otherwise, the order is random, so that no notice is always last.
fn in_turn(mut pending: Vec<(TenantId, EndpointId)>) -> Vec<(TenantId, EndpointId)> {
    pending.sort_by_cached_key(|_| random::bytes::<4>());
    let mut numbers = HashMap::<TenantId, usize>::new();
    let mut numbered: Vec<_> = pending
        .into_iter()
        .map(|notice| {
            let number = numbers.entry(notice.0.clone()).or_default();
            *number += 1;
            (*number, notice)
        })
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, notice)| notice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_organization_with_many_notices_does_not_delay_others() {
        let [many, one]: [TenantId; 2] = ["many", "one"].map(|id| id.parse().expect("a tenant"));
        let mut pending: Vec<_> = (0..200).map(|_| (many.clone(), EndpointId::generate())).collect();
        pending.push((one.clone(), EndpointId::generate()));
        let sorted = in_turn(pending.clone());
        assert!(sorted.iter().take(2).any(|(tenant, _)| *tenant == one));
        assert!(pending.iter().all(|notice| sorted.contains(notice)) && sorted.len() == pending.len());
    }
}
