//! The owners of notification addresses. An owner who has not agreed gets emails without details of jobs, and only a few a
//! day from all organizations; one who stopped the emails gets none.

use common::{
    accounts::{
        consent::{Consent, Consents},
        mail::Part,
        organizations::Organization,
        rate_limits::{Limit, RateLimits},
    },
    base_url::BaseUrl,
    error::Result,
    name::Name,
    timestamp::Timestamp,
};

#[derive(Clone)]
pub(crate) struct Recipients {
    pub(crate) rate_limits: RateLimits,
    pub(crate) consents: Consents,
    /// The base URL of the pages that the emails link to.
    pub(crate) base: BaseUrl,
}

/// The facts about a recipient that an email depends on.
pub(crate) struct Addressee<'a> {
    /// The base URL of the pages that the email links to.
    pub(crate) base: &'a BaseUrl,
    /// The name of the organization whose owners chose the address.
    pub(crate) organization: &'a Name,
    /// Whether the email may contain text of jobs.
    pub(crate) has_agreed: bool,
    /// The page on which the recipient agrees to the emails, or stops them.
    pub(crate) page: String,
}

impl Recipients {
    /// Returns the consent of the owner of the organization's notification address.
    pub(crate) async fn consent(&self, organization: &Organization) -> Result<Consent> {
        self.consents.to_notifications(organization).await
    }

    /// Counts an email toward `limit` if its recipient has not agreed. Returns whether it may be sent.
    pub(crate) async fn may_send(
        &self,
        organization: &Organization,
        consent: Consent,
        limit: Limit,
        now: Timestamp,
    ) -> Result<bool> {
        match consent {
            Consent::Agreed => Ok(true),
            Consent::Unanswered => self.rate_limits.may_send(limit, &organization.debug_notification_email, now).await,
            Consent::Stopped => Ok(false),
        }
    }

    /// Issues the link for an email to the organization's notification address.
    pub(crate) async fn addressee<'a>(
        &'a self,
        organization: &'a Organization,
        consent: Consent,
        now: Timestamp,
    ) -> Result<Addressee<'a>> {
        let (id, address) = (&organization.id, &organization.debug_notification_email);
        let page = self.consents.link(&self.base, id, address, now).await?;
        Ok(Addressee {
            base: &self.base,
            organization: &organization.name,
            has_agreed: consent == Consent::Agreed,
            page,
        })
    }
}

impl Addressee<'_> {
    /// The parts that ask a recipient who has not agreed, followed by the email's own `link`, or that link as the button.
    pub(crate) fn links(&self, label: &'static str, link: String) -> Vec<Part> {
        if self.has_agreed {
            return vec![Part::Button(label, link)];
        }
        vec![
            Part::text(
                "You have not agreed to these emails yet, so this one contains no details, and you get only a few a day.",
            ),
            Part::Button("Choose emails", self.page.clone()),
            Part::Link(label.to_owned(), link),
        ]
    }

    /// Explains why the address gets the email. `more` is a sentence.
    pub(crate) fn why(&self, more: &str) -> Vec<Part> {
        let why = format!(
            "You received this email because an owner of {} chose this address for failure notifications. {more}",
            self.organization.as_str()
        );
        vec![Part::Text(why), Part::Link("Open settings".to_owned(), format!("{}/console/settings", self.base))]
    }
}
