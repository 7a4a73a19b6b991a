//! Emails organizations about their failed jobs, at most once an hour for each workflow. After the first emails of a day, one
//! email is about all workflows that a sweep finds.

use std::{collections::BTreeMap, time::Duration};

use common::{
    accounts::{
        consent::Consent,
        mail::Mailer,
        members::Members,
        organizations::{Organization, Organizations},
        rate_limits::NOTIFIED_OF_JOBS,
    },
    error::{Error, Result},
    id::TenantId,
    random,
    telemetry::metrics,
    timestamp::Timestamp,
    webhooks::job_failures::{Failing, JobFailures, MAILS_A_DAY, NoticeStep, Quota, WorkflowKey},
};
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::recipients::Recipients;

mod mail;

/// The number of organizations that are notified concurrently.
const CONCURRENCY: usize = 4;
/// The maximum number of an organization's workflows that a sweep handles.
const MAX_WORKFLOWS: usize = 100;
/// The number of an organization's emails in a day that are about one workflow each. Later ones are about all workflows
/// that the sweep has to report, so an outage of many workflows does not fill a mailbox.
const MAX_SINGLE_EMAILS: i64 = 5;
/// The maximum time that a sweep spends on these emails, so a slow email service does not delay its other work.
const EMAIL_TIME: Duration = Duration::from_secs(15);

pub(crate) struct FailedJobs {
    pub(crate) table: JobFailures,
    pub(crate) organizations: Organizations,
    pub(crate) members: Members,
    pub(crate) mailer: Mailer,
    pub(crate) recipients: Recipients,
}

/// The failures of a workflow that are due to be reported.
type DueReport = (WorkflowKey, Failing);

/// The organization to email, or the reason why it is not emailed.
enum ReportRecipient {
    Emailed(Box<Organization>, Consent),
    /// Why the organization is not emailed.
    NotEmailed(&'static str),
}

impl FailedJobs {
    /// Sends the emails that are due, until `end`. An email that cannot be sent does not delay the others.
    pub(crate) async fn notify(&self, now: Timestamp, end: Instant) -> Result<()> {
        let end = end.min(Instant::now() + EMAIL_TIME);
        let mut tenants: BTreeMap<TenantId, Vec<WorkflowKey>> = BTreeMap::new();
        for (tenant, workflow) in self.table.pending().await? {
            tenants.entry(tenant).or_default().push(workflow);
        }
        let mut tenants: Vec<_> = tenants.into_iter().collect();
        // In random order, so that no organization is always last if there are very many.
        tenants.sort_by_cached_key(|_| random::bytes::<4>());
        let told = tenants.into_iter().map(|(tenant, workflows)| self.notify_tenant(tenant, workflows, now, end));
        let told: Vec<_> = stream::iter(told).buffer_unordered(CONCURRENCY).collect().await;
        told.into_iter().collect()
    }

    async fn notify_tenant(
        &self,
        tenant: TenantId,
        mut workflows: Vec<WorkflowKey>,
        now: Timestamp,
        end: Instant,
    ) -> Result<()> {
        workflows.sort_by_cached_key(|_| random::bytes::<4>());
        let (mut told, mut due) = (Ok(()), Vec::new());
        for workflow in workflows.into_iter().take(MAX_WORKFLOWS).take_while(|_| Instant::now() < end) {
            match self.due(&tenant, &workflow, now).await {
                Ok(failing) => due.extend(failing.map(|failing| (workflow, failing))),
                Err(error) => {
                    common::log!("job_failures.failed", %tenant, %workflow, ?error);
                    told = Err(error);
                }
            }
        }
        if due.is_empty() {
            return told;
        }
        let sent = match self.recipient(&tenant).await {
            Ok(ReportRecipient::Emailed(organization, consent)) => {
                self.mail_all(&organization, consent, due, now, end).await
            }
            Ok(ReportRecipient::NotEmailed(reason)) => self.drop_all(&tenant, due, reason).await,
            // Only logged, because the organization's item may be broken, which is not a failure of the sweep.
            Err(error) => {
                not_sent(&tenant, &due, &error);
                self.try_all(&tenant, due).await.map(drop)
            }
        };
        told.and(sent)
    }

    /// Reads a workflow's notice, if it is due.
    async fn due(&self, tenant: &TenantId, workflow: &WorkflowKey, now: Timestamp) -> Result<Option<Failing>> {
        let Some(failing) = self.table.failing(tenant, workflow).await? else { return Ok(None) };
        match failing.step(now) {
            NoticeStep::Send => return Ok(Some(failing)),
            NoticeStep::Wait => return Ok(None),
            NoticeStep::Drop => {}
            NoticeStep::GiveUp => {
                common::log!("job_failures.abandoned", %tenant, %workflow);
                metrics::count("NoticeGivenUp");
            }
        }
        self.table.drop_notice(tenant, workflow, &failing).await.map(|()| None)
    }

    /// Drops notices that are not sent for this reason.
    async fn drop_all(&self, tenant: &TenantId, notices: Vec<DueReport>, reason: &'static str) -> Result<()> {
        for (workflow, failing) in notices {
            common::log!("job_failures.unreported", %tenant, %workflow, reason);
            self.table.drop_notice(tenant, &workflow, &failing).await?;
        }
        Ok(())
    }

    /// Counts a try to send each of these notices. Returns those that no other process is sending.
    async fn try_all(&self, tenant: &TenantId, notices: Vec<DueReport>) -> Result<Vec<DueReport>> {
        let mut tried = Vec::new();
        for (workflow, failing) in notices {
            let failing = self.table.try_notice(tenant, &workflow, failing).await?;
            tried.extend(failing.map(|failing| (workflow, failing)));
        }
        Ok(tried)
    }

    /// Finds the recipient. The owners choose the address, which may belong to another person, so at least one owner
    /// must have verified their own address.
    async fn recipient(&self, tenant: &TenantId) -> Result<ReportRecipient> {
        let Some(organization) = self.organizations.find(tenant).await? else {
            return Ok(ReportRecipient::NotEmailed("deleted"));
        };
        if organization.disable_job_failure_notifications {
            return Ok(ReportRecipient::NotEmailed("disabled"));
        }
        if !self.members.has_verified_owner(tenant).await? {
            return Ok(ReportRecipient::NotEmailed("unverified"));
        }
        if self.mailer.suppressed(&organization.debug_notification_email).await?.is_some() {
            return Ok(ReportRecipient::NotEmailed("suppressed"));
        }
        Ok(match self.recipients.consent(&organization).await? {
            Consent::Stopped => ReportRecipient::NotEmailed("stopped"),
            consent => ReportRecipient::Emailed(Box::new(organization), consent),
        })
    }

    /// Sends the emails about these notices, as far as the day's limit allows it.
    async fn mail_all(
        &self,
        organization: &Organization,
        consent: Consent,
        mut due: Vec<DueReport>,
        now: Timestamp,
        end: Instant,
    ) -> Result<()> {
        let tenant = &organization.id;
        while !due.is_empty() && Instant::now() < end {
            if !self.recipients.may_send(organization, consent, NOTIFIED_OF_JOBS, now).await? {
                return self.drop_all(tenant, due, "limited").await;
            }
            // The email is counted before it is sent, so a crash may lose an email but cannot exceed the limit.
            let Some(number) = self.table.take_mail(tenant, Quota::Failures, now).await? else { return Ok(()) };
            let others = if number <= MAX_SINGLE_EMAILS { due.split_off(1) } else { Vec::new() };
            let notices = self.try_all(tenant, std::mem::replace(&mut due, others)).await?;
            if notices.is_empty() || !self.mail(organization, consent, notices, number, now).await? {
                self.table.give_back_mail(tenant, Quota::Failures, now).await?;
            }
        }
        Ok(())
    }

    /// Sends an email about these notices, the `number`th of the day. Returns whether it was sent.
    async fn mail(
        &self,
        organization: &Organization,
        consent: Consent,
        notices: Vec<DueReport>,
        number: i64,
        now: Timestamp,
    ) -> Result<bool> {
        let (tenant, is_last) = (&organization.id, number >= MAILS_A_DAY);
        let sent = async {
            let addressee = self.recipients.addressee(organization, consent, now).await?;
            let failing: Vec<_> = notices.iter().map(|(_, failing)| failing).collect();
            let mail = mail::about(addressee, &failing, is_last.then_some(now));
            self.mailer.try_send(&organization.debug_notification_email, mail, tenant).await
        };
        // Only logged, because the organization's address may be wrong, which is not a failure of the sweep.
        if let Err(error) = sent.await {
            not_sent(tenant, &notices, &error);
            return Ok(false);
        }
        metrics::count("FailuresTold");
        if is_last {
            common::log!("job_failures.quota_reached", %tenant);
            metrics::count("FailureMailsUsedUp");
        }
        let mut reported = Ok(true);
        for (workflow, failing) in &notices {
            let count = failing.count();
            common::log!("job_failures.reported", %tenant, %workflow, failures = count.number);
            // After a failed write, the next email reports the workflow again, but not the others.
            if let Err(error) = self.table.reported(tenant, workflow, failing, now).await {
                reported = Err(error);
            }
        }
        reported
    }
}

fn not_sent(tenant: &TenantId, notices: &[DueReport], error: &Error) {
    for (workflow, _) in notices {
        common::log!("job_failures.email_failed", %tenant, %workflow, ?error);
    }
}
