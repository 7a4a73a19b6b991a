//! The audit log: who changed what, and from where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{name::Extensible, strings::Cursor, strings::Timestamp};

names! {
    /// The change that an entry records.
    #[schemars(rename = "AuditAction")]
    Action {
        /// A user signed up and created the organization.
        OrganizationCreated = "organization.created",
        /// The name of the organization was changed.
        OrganizationRenamed = "organization.renamed",
        /// The last member deleted the organization.
        OrganizationDeleted = "organization.deleted",
        /// The settings of the organization were changed.
        SettingsChanged = "settings.changed",
        /// A user joined, by signing up with an invitation or by moving their account.
        MemberJoined = "member.joined",
        /// The role of a member was changed.
        MemberRoleChanged = "member.role_changed",
        /// A member was removed, which ends their sessions and personal keys.
        MemberRemoved = "member.removed",
        /// A member left, by deleting their account or by moving to another organization.
        MemberLeft = "member.left",
        /// An invitation was sent.
        InvitationCreated = "invitation.created",
        /// An invitation was canceled.
        InvitationCanceled = "invitation.canceled",
        /// An invitation was declined by its recipient.
        InvitationRejected = "invitation.rejected",
        /// An API key was created.
        KeyCreated = "key.created",
        /// An API key was deleted.
        KeyDeleted = "key.deleted",
        /// An endpoint was created.
        WebhookCreated = "webhook.created",
        /// An endpoint was changed, enabled or disabled.
        WebhookUpdated = "webhook.updated",
        /// The service disabled an endpoint, because its deliveries kept failing or its receiver answered 410.
        WebhookDisabled = "webhook.disabled",
        /// An endpoint was deleted.
        WebhookDeleted = "webhook.deleted",
        /// A test event was sent to an endpoint.
        WebhookTested = "webhook.tested",
        /// A delivery was resent.
        DeliveryResent = "delivery.resent",
        /// A recovery of deliveries was started, or its period was extended before it began.
        RecoveryStarted = "recovery.started",
        /// The erasure of payloads was requested. It was refused if one of a job's deliveries was pending.
        ErasureRequested = "erasure.requested",
        /// A user changed their name.
        UserRenamed = "user.renamed",
        /// A user entered a new email address, which replaces the old one once it is confirmed.
        EmailRequested = "email.requested",
        /// A user confirmed their email address.
        EmailVerified = "email.verified",
        /// A user's email address was replaced, which ends their other sessions.
        EmailChanged = "email.changed",
        /// A user undid an email address change, which invalidates their password, sessions and personal keys.
        EmailRestored = "email.restored",
        /// A user changed their password, which ends their other sessions.
        PasswordChanged = "password.changed",
        /// A user reset their password by email, which ends their sessions and personal keys.
        PasswordReset = "password.reset",
        /// A user enabled their second factor, which ends their other sessions.
        TwoFactorEnabled = "two_factor.enabled",
        /// A user disabled their second factor, which ends their other sessions.
        TwoFactorDisabled = "two_factor.disabled",
        /// A user replaced their backup codes.
        TwoFactorCodesGenerated = "two_factor.codes_generated",
        /// A signed-in user used up a backup code. A sign-in with one is a `session.created`.
        TwoFactorCodeUsed = "two_factor.code_used",
        /// A user signed in.
        SessionCreated = "session.created",
        /// A session ended because its user signed out or ended it in the session list.
        SessionEnded = "session.ended",
        /// A user ended all of their sessions, or all but the current one.
        SessionsEnded = "sessions.ended",
    }

    /// The kind of actor.
    #[schemars(rename = "AuditActorKind")]
    ActorKind {
        /// A user, in a session or through the link in an email.
        User = "user",
        /// An API key.
        Key = "key",
        /// The service itself.
        System = "system",
    }

    /// The kind of object that was changed.
    #[schemars(rename = "AuditTargetKind")]
    TargetKind {
        /// A delivery.
        Delivery = "delivery",
        /// An endpoint.
        Endpoint = "endpoint",
        /// An invitation.
        Invitation = "invitation",
        /// A job, with all of its deliveries.
        Job = "job",
        /// An API key.
        Key = "key",
        /// The organization.
        Organization = "organization",
        /// A session of the actor.
        Session = "session",
        /// A member, or the actor's own account.
        User = "user",
    }
}

calls! {
    POST "/v1/audit/list" List -> Listed {
        required {}
        optional {
            since: Timestamp,
            until: Timestamp,
            actor: String,
            action: Action,
            target: String,
            limit: usize,
            cursor: Cursor,
        }
    }
}

/// A page of the audit log, newest first.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Listed {
    /// The entries on this page, newest first. A page can be empty and still have a `next_cursor`.
    pub entries: Vec<Entry>,
    /// The `cursor` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Cursor")]
    pub next_cursor: Option<Cursor>,
}

/// A change in the audit log.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, rename = "AuditEntry")]
pub struct Entry {
    /// When the change was made.
    pub at: Timestamp,
    /// The type of change.
    pub action: Extensible<Action>,
    /// The user, API key or service that made the change.
    pub actor: Actor,
    /// The address of the actor's client: an IPv4 address, or the /64 of an IPv6 address. Absent for the service
    /// itself, and for a user of another organization (who can only decline an invitation).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("examples" = ["203.0.113.7"]))]
    pub ip: Option<String>,
    /// The first 200 characters of the `User-Agent` of the actor's client, if it sent one and `ip` is present.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("examples" = ["curl/8.5.0"]))]
    pub user_agent: Option<String>,
    /// The changed object.
    pub target: Target,
    /// The changed fields. Secrets are named without their values. A personal key that ends with the change is listed
    /// as the field `api_key`, with its name and id. For a sign-in with a second factor, the field `second_factor` is
    /// `totp` or `backup_code`.
    pub changes: Vec<Change>,
}

/// The user, API key or service that made a change, with its name and address at that time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(deny_unknown_fields, rename = "AuditActor")]
pub struct Actor {
    /// Whether the actor is a user, an API key or the service itself.
    pub kind: Extensible<ActorKind>,
    /// The id of the user or key, which works as the `actor` filter; `system` for the service itself.
    #[schemars(extend("examples" = ["01a1fd8f-0d9d-7467-9431-944eedd69c67"]))]
    pub id: String,
    /// The name of the user or of the key; absent for the service itself, and for a user of another organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("examples" = ["Ada Lovelace"]))]
    pub name: Option<String>,
    /// The email address of the user, or of the user whom a personal key acts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("examples" = ["ada@example.com"]))]
    pub email: Option<String>,
}

impl Actor {
    /// The service itself.
    pub fn system() -> Self {
        let kind = ActorKind::System;
        Self { kind: kind.into(), id: kind.as_str().to_owned(), name: None, email: None }
    }
}

/// A changed object, with its name at that time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(deny_unknown_fields, rename = "AuditTarget")]
pub struct Target {
    /// The kind of the object.
    pub kind: Extensible<TargetKind>,
    /// The id of the object; the invited address of an invitation, whose id is enough to accept it.
    #[schemars(extend("examples" = ["01a1fd8f-0d9d-7467-9431-944eedd69c67"]))]
    pub id: String,
    /// The URL of an endpoint without its query, the address of a user or an invitation, the name of a key or an
    /// organization, or the job's id of a delivery; absent for a session, a job or a pull endpoint, and for an erasure or
    /// recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("examples" = ["https://example.com/hook"]))]
    pub name: Option<String>,
}

/// A changed field. A value is absent if it is secret, or if the field was empty.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(deny_unknown_fields, rename = "AuditChange")]
pub struct Change {
    /// The name of the field.
    #[schemars(extend("examples" = ["url"]))]
    pub field: String,
    /// The value before the change as text, truncated to 1,000 characters. Lists are separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("examples" = ["https://example.com/old"]))]
    pub old: Option<String>,
    /// The value after the change, in the same form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("examples" = ["https://example.com/hook"]))]
    pub new: Option<String>,
}
