//! Accounts: routes under `/api/auth`, in plain JSON.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    name::Extensible,
    strings::{EmailAddress, KeyId, Name, Secret, Slug, TenantId, Timestamp, UserId},
};

names! {
    /// The permissions of a member.
    Role {
        // Has all permissions.
        Owner = "owner",
        // Cannot invite people, or manage other members or their keys.
        Member = "member",
    }

    /// The state of an invitation. An expired invitation stays `pending`.
    InvitationStatus {
        // The invitation has not been accepted, canceled or declined.
        Pending = "pending",
        // The recipient accepted the invitation.
        Accepted = "accepted",
        // The invitation was canceled, or replaced by a newer one.
        Canceled = "canceled",
        // The recipient declined the invitation.
        Rejected = "rejected",
    }
}

names! {
    /// The kind of API key.
    KeyKind {
        /// The key acts for the user who created it until their account is deleted or they reset their password.
        Personal = "personal",
        /// The key acts for the organization until the key expires or is deleted, or until the organization is deleted.
        Organization = "organization",
    }

    /// A part of the API that a key may use. Writing does not include reading.
    Scope {
        /// List endpoints.
        WebhooksRead = "webhooks:read",
        /// Create, change, test and delete endpoints.
        WebhooksWrite = "webhooks:write",
        /// List, read and count deliveries.
        DeliveriesRead = "deliveries:read",
        /// Resend, recover, receive and settle deliveries.
        DeliveriesWrite = "deliveries:write",
        /// Read the organization's settings.
        SettingsRead = "settings:read",
        /// Change the organization's settings. Requires `settings:read`, too.
        SettingsWrite = "settings:write",
        /// List members and API keys.
        MembersRead = "members:read",
        /// List, send and cancel invitations, change and remove members, and delete API keys.
        MembersWrite = "members:write",
        /// Read the audit log.
        AuditRead = "audit:read",
    }
}

calls! {
    POST "/api/auth/sign-out" SignOut -> Success { required {} optional {} }
    POST "/api/auth/api-key/create" CreateKey -> IssuedKey {
        required { name: String }
        optional {
            expires_in = "expiresIn": u32,
            kind: KeyKind,
            organization_id = "organizationId": TenantId,
            scopes: Vec<Scope>,
        }
    }
    POST "/api/auth/api-key/delete" DeleteKey -> Success { required { key_id = "keyId": KeyId } optional {} }
    GET "/api/auth/organization/list" Organizations -> [Organization; 1] { required {} optional {} }
    GET "/api/auth/organization/get-active-member" ActiveMember -> Member { required {} optional {} }
}

/// The response of routes that return nothing else.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Success {
    /// Always `true`; failures are returned as errors.
    pub success: bool,
}

impl Success {
    pub const DONE: Self = Self { success: true };
}

/// The response of routes whose clients expect the field `status` instead of `success`.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Status {
    /// Always `true`; failures are returned as errors.
    pub status: bool,
}

impl Status {
    pub const DONE: Self = Self { status: true };
}

/// A newly issued API key, with its secret.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "IssuedApiKey")]
pub struct IssuedKey {
    /// The id of the key, for `api-key/delete`.
    pub id: KeyId,
    /// The name of the key.
    #[schemars(extend("examples" = ["Build server"]))]
    pub name: Name,
    /// The prefix of all keys.
    #[schemars(extend("examples" = ["ak_"]))]
    pub prefix: String,
    /// The first characters of the key, to help identify the key.
    #[schemars(extend("examples" = ["ak_3kTf9w"]))]
    pub start: String,
    /// The key, for the header `x-api-key`. No other response contains it.
    #[schemars(extend("examples" = ["ak_3kTf9wQ0mB7sYxVb2nLr8Jd5"]))]
    pub key: Secret,
    /// Always `true`.
    pub enabled: bool,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key stops working; `null` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// Whether the key acts for its user or for the organization.
    pub kind: Extensible<KeyKind>,
    /// The parts of the API that the key may use; `null` for all parts that its kind allows.
    pub scopes: Option<Vec<Extensible<Scope>>>,
}

/// An organization, as shown to its members.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Organization {
    /// The id of the organization. Producers put it into job events as `tenant_id`.
    pub id: TenantId,
    /// The name of the organization.
    pub name: Name,
    /// The organization's short unique name, for use in links.
    pub slug: Slug,
    /// When the organization was created.
    pub created_at: Timestamp,
}

/// A member. Each user is a member of exactly one organization, so the member's id is the user's id.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Member {
    /// The id of the member, which is the id of the user.
    pub id: UserId,
    /// The id of the organization.
    pub organization_id: TenantId,
    /// The id of the user.
    pub user_id: UserId,
    /// The member's role, which determines their permissions.
    pub role: Extensible<Role>,
    /// When the member joined.
    pub created_at: Timestamp,
    /// The user.
    pub user: Profile,
}

/// A user, as shown to other members.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Profile {
    /// The id of the user.
    pub id: UserId,
    /// The name of the user.
    pub name: Name,
    /// The email address for signing in.
    pub email: EmailAddress,
}

/// A user, as shown to themselves.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct User {
    /// The id of the user.
    pub id: UserId,
    /// The email address for signing in.
    pub email: EmailAddress,
    /// The name of the user.
    pub name: Name,
    /// Whether the user has verified their email address.
    pub email_verified: bool,
    /// Whether the user signs in with a second factor.
    pub two_factor_enabled: bool,
}
