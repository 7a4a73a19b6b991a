//! Emails organizations about their failed jobs, at most once an hour for each workflow.

use std::{collections::BTreeMap, time::Duration};

use common::{
    accounts::{
        consent::Consent,
        mail::Mailer,
        members::Members,
        organizations::{Organization, Organizations},
    },
    error::{Error, Result},
    id::TenantId,
    random,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::job_failures::{Failing, JobFailures, MAILS_A_DAY, NoticeStep, Quota, WorkflowKey},
};
use futures::{StreamExt, stream};
use tokio::{sync::OnceCell, time::Instant};

use crate::recipients::Recipients;

mod mail;

/// The number of organizations that are notified concurrently.
const ORGANIZATIONS: usize = 4;
/// The maximum number of an organization's workflows that a sweep handles.
const WORKFLOWS: usize = 100;
/// The maximum time that a sweep spends on these emails, so a slow email service does not delay its other work.
const TIME: Duration = Duration::from_secs(15);

pub(crate) struct FailedJobs {
    pub(crate) table: JobFailures,
    pub(crate) organizations: Organizations,
    pub(crate) members: Members,
    pub(crate) mailer: Mailer,
    pub(crate) recipients: Recipients,
}

/// The organization to email, or the reason why it is not emailed.
enum Audience {
    Told(Box<Organization>, Consent),
    /// Why the organization is not emailed.
    Not(&'static str),
}

impl FailedJobs {
    /// Sends the emails that are due, until `end`. An email that cannot be sent does not delay the others.
    pub(crate) async fn tell(&self, now: Timestamp, end: Instant) -> Result<()> {
        let end = end.min(Instant::now() + TIME);
        let mut tenants: BTreeMap<TenantId, Vec<WorkflowKey>> = BTreeMap::new();
        for (tenant, workflow) in self.table.pending().await? {
            tenants.entry(tenant).or_default().push(workflow);
        }
        let mut tenants: Vec<_> = tenants.into_iter().collect();
        // In random order, so that no organization is always last if there are very many.
        tenants.sort_by_cached_key(|_| random::bytes::<4>());
        let told = tenants.into_iter().map(|(tenant, workflows)| self.tell_tenant(tenant, workflows, now, end));
        let told: Vec<_> = stream::iter(told).buffer_unordered(ORGANIZATIONS).collect().await;
        told.into_iter().collect()
    }

    async fn tell_tenant(
        &self,
        tenant: TenantId,
        mut workflows: Vec<WorkflowKey>,
        now: Timestamp,
        end: Instant,
    ) -> Result<()> {
        workflows.sort_by_cached_key(|_| random::bytes::<4>());
        let (mut told, audience) = (Ok(()), OnceCell::new());
        for workflow in workflows.iter().take(WORKFLOWS).take_while(|_| Instant::now() < end) {
            match self.tell_of(&tenant, workflow, &audience, now).await {
                Ok(true) => {}
                // The day's limit has been reached.
                Ok(false) => break,
                Err(error) => {
                    common::log!("job_failures.failed", %tenant, %workflow, ?error);
                    told = Err(error);
                }
            }
        }
        told
    }

    /// Sends the email about a workflow if it is due. Returns whether the organization may get more emails today.
    async fn tell_of(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowKey,
        audience: &OnceCell<Audience>,
        now: Timestamp,
    ) -> Result<bool> {
        let Some(failing) = self.table.failing(tenant, workflow).await? else { return Ok(true) };
        match failing.step(now) {
            NoticeStep::Wait => Ok(true),
            NoticeStep::Drop => self.table.drop_notice(tenant, workflow, &failing).await.map(|()| true),
            NoticeStep::GiveUp => {
                common::log!("job_failures.abandoned", %tenant, %workflow);
                metrics::count("NoticeGivenUp");
                self.table.drop_notice(tenant, workflow, &failing).await.map(|()| true)
            }
            NoticeStep::Send => match audience.get_or_try_init(async || self.audience(tenant).await).await {
                Ok(Audience::Told(organization, consent)) => {
                    self.mail((organization, *consent), workflow, failing, now).await
                }
                Ok(Audience::Not(reason)) => self.drop(tenant, workflow, &failing, reason).await,
                // Only logged, because the organization's item may be broken, which is not a failure of the sweep.
                Err(error) => {
                    not_sent(tenant, workflow, &error);
                    self.table.try_notice(tenant, workflow, failing).await.map(|_tried| true)
                }
            },
        }
    }

    /// Drops a notice that is not sent for this reason. The organization may get more emails.
    async fn drop(
        &self,
        tenant: &TenantId,
        workflow: &WorkflowKey,
        failing: &Failing,
        reason: &'static str,
    ) -> Result<bool> {
        common::log!("job_failures.unreported", %tenant, %workflow, reason);
        self.table.drop_notice(tenant, workflow, failing).await.map(|()| true)
    }

    /// Finds the recipient. The owners choose the address, which may belong to another person, so at least one owner
    /// must have verified their own address.
    async fn audience(&self, tenant: &TenantId) -> Result<Audience> {
        let Some(organization) = self.organizations.find(tenant).await? else { return Ok(Audience::Not("deleted")) };
        if organization.disable_job_failure_notifications {
            return Ok(Audience::Not("disabled"));
        }
        if !self.members.has_verified_owner(tenant).await? {
            return Ok(Audience::Not("unverified"));
        }
        if self.mailer.suppressed(&organization.debug_notification_email).await?.is_some() {
            return Ok(Audience::Not("suppressed"));
        }
        Ok(match self.recipients.consent(&organization).await? {
            Consent::Stopped => Audience::Not("stopped"),
            consent => Audience::Told(Box::new(organization), consent),
        })
    }

    /// Sends an email if the day's limit allows it. Returns whether the limit allows more.
    async fn mail(
        &self,
        (organization, consent): (&Organization, Consent),
        workflow: &WorkflowKey,
        failing: Failing,
        now: Timestamp,
    ) -> Result<bool> {
        let tenant = &organization.id;
        if !self.recipients.may_send(organization, consent, now).await? {
            return self.drop(tenant, workflow, &failing, "limited").await;
        }
        // The email is counted before it is sent, so a crash may lose an email but cannot exceed the limit.
        let Some(number) = self.table.take_mail(tenant, Quota::Failures, now).await? else { return Ok(false) };
        let Some(failing) = self.table.try_notice(tenant, workflow, failing).await? else {
            return self.table.give_back_mail(tenant, Quota::Failures, now).await.map(|()| true);
        };
        let is_last = number >= MAILS_A_DAY;
        let sent = async {
            let addressee = self.recipients.addressee(organization, consent, now).await?;
            let mail = mail::about(addressee, &failing, is_last.then_some(now));
            self.mailer.try_send(&organization.debug_notification_email, mail, tenant).await
        };
        // Only logged, because the organization's address may be wrong, which is not a failure of the sweep.
        if let Err(error) = sent.await {
            not_sent(tenant, workflow, &error);
            return self.table.give_back_mail(tenant, Quota::Failures, now).await.map(|()| true);
        }
        let count = failing.count();
        common::log!("job_failures.reported", %tenant, %workflow, failures = count.number);
        metrics::count("FailuresTold");
        if is_last {
            common::log!("job_failures.quota_reached", %tenant);
            metrics::count("FailureMailsUsedUp");
        }
        self.table.reported(tenant, workflow, &failing, now).await?;
        Ok(!is_last)
    }
}

fn not_sent(tenant: &TenantId, workflow: &WorkflowKey, error: &Error) {
    common::log!("job_failures.email_failed", %tenant, %workflow, ?error);
}
