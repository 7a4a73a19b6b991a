//! The demo tenant's people, with their keys and invitations.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::api::{Api, Credential};
use crate::outbox::Outbox;

/// The owner's email.
pub(super) const OWNER: &str = "maya@northwind.example.com";
/// The password of all accounts.
pub(super) const PASSWORD: &str = "northwind-demo-2026";
/// The member who has joined.
const MEMBER: &str = "jonas@northwind.example.com";
/// The address of a pending invitation.
pub(super) const INVITED: &str = "priya@northwind.example.com";
const SLUG: &str = "northwind-automations";

/// Performs people's actions, with access to their emails.
pub(super) struct People<'a> {
    pub(super) api: &'a Api,
    pub(super) mail: &'a Outbox,
}

impl People<'_> {
    /// The owner signs up, and verifies the address. Returns their session and the organization's id.
    pub(super) async fn found(&self) -> Result<(Credential, String)> {
        let fields = json!({
            "name": "Maya Lindqvist", "email": OWNER, "password": PASSWORD,
            "organizationName": "Northwind Automations", "organizationSlug": SLUG,
            "debugNotificationEmail": "ops@northwind.example.com",
        });
        let account = self.api.call(&Credential::Anonymous, "auth/signupAndCreateOrg", &fields).await;
        let account =
            account.context("cannot create the demo tenant's owner; if the password was changed, delete .local/")?;
        self.verify(OWNER).await?;
        let cookie = text(&account, "/setCookie/0")?;
        let session = Credential::Session(cookie.split(';').next().unwrap_or_default().to_owned());
        Ok((session, text(&account, "/organizationId")?))
    }

    pub(super) async fn issue_key(&self, owner: &Credential, name: &str) -> Result<String> {
        let key = self.api.post(owner, "/api/auth/api-key/create", &json!({"name": name})).await?;
        text(&key, "/key")
    }

    /// Returns the invitation's id.
    pub(super) async fn invite(&self, owner: &Credential, email: &str) -> Result<String> {
        let fields = json!({"email": email, "role": "member"});
        let invitation = self.api.post(owner, "/api/auth/organization/invite-member", &fields).await?;
        text(&invitation, "/id")
    }

    pub(super) async fn invite_and_join(&self, owner: &Credential) -> Result<()> {
        let invitation = self.invite(owner, MEMBER).await?;
        let fields =
            json!({"invitationId": invitation, "tenantSlug": SLUG, "name": "Jonas Weber", "password": PASSWORD});
        self.api.call(&Credential::Anonymous, "auth/acceptInviteAndSignup", &fields).await?;
        self.verify(MEMBER).await
    }

    /// Verifies an address: presses the button on the page that the link in the email opens.
    async fn verify(&self, email: &str) -> Result<()> {
        let mut emails = self.mail.emails();
        emails.retain(|mail| mail.to.iter().any(|address| address == email));
        let texts = emails.into_iter().map(|mail| mail.text);
        let mut tokens = texts.filter_map(|text| {
            let (_, rest) = text.split_once("/verify-email?token=")?;
            rest.split_whitespace().next().map(str::to_owned)
        });
        let token = tokens.next().with_context(|| format!("no email to {email} has a link"))?;
        self.api.submit("/verify-email", &[("token", &token)]).await
    }
}

fn text(value: &Value, pointer: &str) -> Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    Ok(found.with_context(|| format!("the response has no {pointer}"))?.to_owned())
}
