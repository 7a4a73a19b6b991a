//! Keys, members, invitations and settings of an organization.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    account::{InvitationStatus, KeyKind, Member, Organization, Role, Scope},
    name::Extensible,
    strings::{EmailAddress, InvitationId, KeyId, Name, Slug, TenantId, Timestamp, UserId},
};

calls! {
    GET "/api/auth/api-key/list" Keys -> Vec<Key> { required {} optional {} }
    GET "/api/auth/organization/list-members" Members -> MembersListed { required {} optional {} }
    GET "/api/auth/organization/list-invitations" Invitations -> Vec<Invitation> { required {} optional {} }
    POST "/api/auth/organization/invite-member" Invite -> Invitation {
        required { email: EmailAddress, role: Role }
        optional { organization_id = "organizationId": TenantId }
    }
    POST "/api/auth/organization/cancel-invitation" CancelInvitation -> Invitation {
        required { invitation_id = "invitationId": InvitationId }
        optional {}
    }
    GET "/api/auth/organization/list-user-invitations" ReceivedInvitations -> Vec<ReceivedInvitation> {
        required {}
        optional {}
    }
    POST "/api/auth/organization/accept-invitation" AcceptInvitation -> Accepted {
        required { invitation_id = "invitationId": InvitationId }
        optional { delete_organization = "deleteOrganization": bool }
    }
    POST "/api/auth/organization/reject-invitation" RejectInvitation -> Declined {
        required { invitation_id = "invitationId": InvitationId }
        optional {}
    }
    POST "/api/auth/organization/remove-member" RemoveMember -> Removed {
        required { member = "memberIdOrEmail": String }
        optional { organization_id = "organizationId": TenantId }
    }
    POST "/api/auth/organization/update-member-role" ChangeRole -> Member {
        required { member_id = "memberId": UserId, role: Role }
        optional { organization_id = "organizationId": TenantId }
    }
    POST "/api/auth/organization/update" ChangeOrganization -> Organization {
        required { data: NewName }
        optional { organization_id = "organizationId": TenantId }
    }
    POST "/v1/tenant/settings" ChangeSettings -> Settings {
        required {}
        optional { debug_notification_email: EmailAddress, disable_job_failure_notifications: bool, require_two_factor: bool }
    }
}

inputs! {
    /// The input for changing an organization.
    NewName {
        required { name: Name }
        optional {}
    }
}

names! {
    /// Whether emails to an address are sent: `bounced` if a server permanently rejected one in the last 30 days,
    /// `complained` if the recipient reported one as spam in the last year. In both cases, choose another address.
    /// `unconfirmed` if its owner has not agreed yet: emails are sent, without details of jobs. `stopped` if its owner
    /// stopped them: they can agree again on the page to which the last email links.
    #[schemars(inline)]
    NotificationEmailStatus {
        Ok = "ok",
        Unconfirmed = "unconfirmed",
        Stopped = "stopped",
        Bounced = "bounced",
        Complained = "complained",
    }
}

/// An API key, without its secret.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "ApiKey")]
pub struct Key {
    /// The id of the key, for `api-key/delete`.
    pub id: KeyId,
    /// The name given to the key when it was created.
    pub name: Name,
    /// The prefix of all keys.
    #[schemars(extend("examples" = ["ak_"]))]
    pub prefix: String,
    /// The first characters of the key, to help identify the key.
    #[schemars(extend("examples" = ["ak_3kTf9w"]))]
    pub start: String,
    /// Always `true`.
    pub enabled: bool,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key stops working; `null` if it does not expire.
    pub expires_at: Option<Timestamp>,
    /// The start of the UTC day on which the key was last used; `null` before its first use.
    pub last_request: Option<Timestamp>,
    /// The IP address of the key's first call on that day; `null` if it is unknown.
    #[serde(default)]
    #[schemars(!default, extend("examples" = ["192.0.2.7"]))]
    pub last_ip_address: Option<String>,
    /// Whether the key acts for its user or for the organization.
    #[serde(default = "personal")]
    #[schemars(!default)]
    pub kind: Extensible<KeyKind>,
    /// The parts of the API that the key may use; `null` for all parts that its kind allows.
    #[serde(default)]
    #[schemars(!default)]
    pub scopes: Option<Vec<Extensible<Scope>>>,
    /// The user who created the key; a personal key acts for this user.
    #[serde(default)]
    #[schemars(!default, with = "KeyCreator")]
    pub created_by: Option<KeyCreator>,
}

/// The kind to assume for a key if the service is too old to return kinds.
fn personal() -> Extensible<KeyKind> {
    KeyKind::Personal.into()
}

/// The user who created a key.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct KeyCreator {
    /// The id of the user.
    pub id: UserId,
    /// The user's name; `null` if they are no longer a member.
    pub name: Option<Name>,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct MembersListed {
    /// The members on this page.
    pub members: Vec<Member>,
    /// The total number of members.
    pub total: usize,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Removed {
    /// The member who was removed.
    pub member: Member,
}

/// An invitation.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Invitation {
    /// The id of the invitation.
    pub id: InvitationId,
    /// The invited email address.
    pub email: EmailAddress,
    /// The role of the new member.
    pub role: Extensible<Role>,
    /// The id of the organization.
    pub organization_id: TenantId,
    /// The id of the user who sent the invitation.
    pub inviter_id: UserId,
    /// The state of the invitation. An expired invitation stays `pending`; one that was replaced by a newer one is
    /// `canceled`.
    pub status: Extensible<InvitationStatus>,
    /// When the invitation expires, 7 days after it was sent.
    pub expires_at: Timestamp,
    /// When the invitation was sent.
    pub created_at: Timestamp,
}

/// An invitation sent to the caller's address, with the organization's name and slug.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct ReceivedInvitation {
    /// The id of the invitation.
    pub id: InvitationId,
    /// The invited email address, which is the caller's.
    pub email: EmailAddress,
    /// The caller's role after accepting.
    pub role: Extensible<Role>,
    /// The id of the organization.
    pub organization_id: TenantId,
    /// The name of the organization.
    pub organization_name: Name,
    /// The slug of the organization.
    pub organization_slug: Slug,
    /// The id of the user who sent the invitation.
    pub inviter_id: UserId,
    /// The state of the invitation, which is `pending`.
    pub status: Extensible<InvitationStatus>,
    /// When the invitation expires, 7 days after it was sent.
    pub expires_at: Timestamp,
    /// When the invitation was sent.
    pub created_at: Timestamp,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Accepted {
    /// The accepted invitation.
    pub invitation: Invitation,
    /// The caller as a member of their new organization.
    pub member: Member,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Declined {
    /// The declined invitation.
    pub invitation: Invitation,
    /// Always `null`.
    pub member: Option<Member>,
}

/// All settings of the organization.
#[derive(Deserialize, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields, inline)]
pub struct Settings {
    /// Always `false`.
    // Not a constant: the clients of some generators refuse one (findings/openapi-generator-constants.sh).
    #[schemars(extend("examples" = [false]))]
    pub code_sharing_enabled: bool,
    /// Whether the emails about failed jobs are turned off.
    pub disable_job_failure_notifications: bool,
    /// The address that gets the emails about failing endpoints and failed jobs.
    pub debug_notification_email: EmailAddress,
    /// Whether members must have a second factor.
    pub require_two_factor: bool,
    /// Whether emails are sent to this address, or were stopped because one bounced or was reported as spam.
    pub notification_email_status: Extensible<NotificationEmailStatus>,
}
