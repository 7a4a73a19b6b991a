//! API keys. Owners manage all the organization's keys, and members only their own.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use api::{
    Call as _, ClosedSet as _,
    account::{CreateKey, DeleteKey, IssuedKey as Issued, Success},
    team::{Key, KeyCreator, Keys},
};
use common::{
    accounts::{
        api_keys::{IssuedKey, KeyRecord, NewKey, PREFIX},
        permissions::{KeyKind, Permissions, Scope},
    },
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{Call, Caller, DeclaredError, Fields, KeyOrSession, Reason, Rejected, Route, Session, SignedIn},
    id::{KeyId, TenantId, UserId},
    issue::parse_name,
    name::Name,
    paging::{Order, Paging},
    timestamp::Timestamp,
};

use crate::app::App;

pub(crate) fn create() -> Route<App> {
    Route::post(CreateKey::PATH, Session, CreateInput::read, issue)
        .records(&[Action::KeyCreated])
        .summary("Issues an API key for the caller's organization. The key itself is shown only once.")
        .description(
            "A personal key acts for the user who issued it, and stops working when their account is deleted or they \
             reset their password. Owners can also issue organization keys, which act for the organization and work \
             until they expire, are deleted, or the organization is deleted. No key can sign out, see or end sessions, \
             issue keys, delete the account, make a member an owner or see invitations for owners. Organization keys \
             cannot change members, either. An organization can have at most 100 keys, including expired ones. Requests \
             with other Better Auth fields, such as `permissions` or `remaining`, are rejected with a 400.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::OwnersOnly, DeclaredError::NotFound, DeclaredError::Conflict(Reason::KeyLimit)])
}

pub(crate) fn list() -> Route<App> {
    Route::get(Keys::PATH, KeyOrSession, ListInput::read, managed)
        .scope(Scope::MembersRead)
        .summary("Lists the keys that the caller manages, oldest first. A new key may take a moment to appear.")
        .description(
            "Owners and organization keys see all of the organization's keys; members see only their personal keys. \
             Expired keys are listed until they are deleted. Requests with `configId` are rejected with a 400.",
        )
        .errors(&[DeclaredError::NotFound])
}

pub(crate) fn delete() -> Route<App> {
    Route::post(DeleteKey::PATH, KeyOrSession, DeleteInput::read, revoke)
        .records(&[Action::KeyDeleted])
        .any_scope()
        .also_scope(Scope::MembersWrite, "to delete another key")
        .summary("Deletes a key, which stops working immediately. A key can delete itself.")
        .errors(&[DeclaredError::NotFound])
}

/// Better Auth's fields that restrict a key or change its owner. They are rejected, because a key issued without the
/// restriction would have more permissions than its issuer intended.
const UNSUPPORTED: [&str; 11] = [
    "configId",
    "metadata",
    "permissions",
    "prefix",
    "rateLimitEnabled",
    "rateLimitMax",
    "rateLimitTimeWindow",
    "refillAmount",
    "refillInterval",
    "remaining",
    "userId",
];

/// The possible lifetimes of an expiring key, in seconds: a minute to a year.
const EXPIRES_IN: RangeInclusive<u32> = 60..=365 * 24 * 60 * 60;

struct CreateInput {
    key: NewKey,
    organization: Option<TenantId>,
}

impl CreateInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let name = fields
            .about("A name to tell the key apart from your other keys.")
            .example("Build server")
            .text(CreateKey::NAMES.name, Name::parse);
        let expires_in = fields
            .about(
                "The lifetime of the key in seconds, from a minute to a year. By default, or with `null`, the key does \
                 not expire.",
            )
            .optional_number(CreateKey::NAMES.expires_in, EXPIRES_IN);
        let kind = fields
            .about("Whether the key acts for you (the default) or for the organization, which only owners can choose.")
            .optional_text(CreateKey::NAMES.kind, parse_name::<KeyKind>);
        let scopes = fields
            .about(
                "The parts of the API that the key may use. By default, or with `null`, it may use all parts that its \
                 kind allows, including those added by later versions. An organization key cannot have \
                 `members:write`.",
            )
            .nullable_list::<_, BTreeSet<Scope>>(CreateKey::NAMES.scopes, Scope::ALL.len(), parse_name::<Scope>);
        let organization = fields
            .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
            .optional_text(CreateKey::NAMES.organization_id, TenantId::parse);
        let refused = fields.refuse(&UNSUPPORTED);
        let (kind, scopes) = (kind?.unwrap_or(KeyKind::Personal), scopes?.into_option());
        let permissions = Permissions::new(kind, scopes);
        let permissions = permissions.map_err(|problem| fields.reject(CreateKey::NAMES.scopes, problem));
        let lifetime = expires_in?.map(|seconds| Duration::from_secs(seconds.into()));
        refused?;
        Ok(Self { key: NewKey { name: name?, permissions: permissions?, lifetime }, organization: organization? })
    }
}

struct ListInput {
    organization: Option<TenantId>,
    paging: Paging,
    order: Order,
}

impl ListInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = fields
            .about("The organization's id. Only the caller's organization is accepted, and it is the default.")
            .optional_text("organizationId", TenantId::parse);
        let paging = Paging::read(fields);
        let order = Order::read(fields);
        fields.refuse(&["configId"])?;
        Ok(Self { organization: organization?, paging: paging?, order: order? })
    }
}

struct DeleteInput {
    key: KeyId,
}

impl DeleteInput {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let refused = fields.refuse(&["configId"]);
        let key = fields
            .about(
                "The id of the key to delete, as returned by `api-key/list`. Owners can delete all the organization's \
                 keys; members can delete only their personal ones.",
            )
            .text(DeleteKey::NAMES.key_id, KeyId::parse);
        refused?;
        Ok(Self { key: key? })
    }
}

async fn issue(app: Arc<App>, call: Call<SignedIn, Recorder>, input: CreateInput) -> Result<Issued> {
    let user = &call.caller.user;
    check_own(&user.organization, input.organization.as_ref())?;
    let issued = app.keys.issue(&call.recorder, &app.users, user, input.key, Timestamp::now()).await?;
    app.alerts.key_created(user, &issued, &call.device(), &call.base).await;
    let expires_at = issued.expires_at();
    let IssuedKey { id, key, created_at, new: NewKey { name, permissions, .. } } = issued;
    Ok(Issued {
        id: id.into(),
        name: name.into(),
        prefix: PREFIX.to_owned(),
        start: key.start().to_owned(),
        key: key.reveal().into(),
        enabled: true,
        created_at: created_at.into(),
        expires_at: expires_at.map(Into::into),
        kind: permissions.kind().into(),
        scopes: permissions.scopes().map(|scopes| scopes.iter().map(|scope| (*scope).into()).collect()),
    })
}

async fn managed(app: Arc<App>, call: Call<Caller>, input: ListInput) -> Result<Vec<Key>> {
    let (caller, organization) = (&call.caller, &call.caller.organization);
    check_own(organization, input.organization.as_ref())?;
    let mut managed = app.keys.managed(organization, caller.manages_keys_of()).await?;
    input.order.apply(&mut managed);
    let managed = input.paging.of(managed);
    let names = app.users.names(organization, managed.iter().map(|key| key.user)).await?;
    Ok(managed.into_iter().map(|key| shown(key, &names)).collect())
}

async fn revoke(app: Arc<App>, call: Call<Caller, Recorder>, input: DeleteInput) -> Result<Success> {
    let caller = &call.caller;
    if caller.key().is_none_or(|key| key.key != input.key) {
        caller.check_scope(Scope::MembersWrite)?;
    }
    app.keys.revoke(&call.recorder, &caller.organization, caller.manages_keys_of(), input.key).await?;
    Ok(Success::DONE)
}

/// Checks that `organization` is the caller's `own`, if the request names one.
fn check_own(own: &TenantId, organization: Option<&TenantId>) -> Result<()> {
    if organization.is_none_or(|organization| organization == own) {
        return Ok(());
    }
    Err(Error::NotFound("Organization not found"))
}

fn shown(key: KeyRecord, names: &BTreeMap<UserId, Name>) -> Key {
    let KeyRecord { id, name, start, user, permissions, created_at, expires_at, last_request, last_address, .. } = key;
    Key {
        id: id.into(),
        name: name.into(),
        prefix: PREFIX.to_owned(),
        start,
        enabled: true,
        created_at: created_at.into(),
        expires_at: expires_at.map(Into::into),
        last_request: last_request.map(Into::into),
        last_ip_address: last_address,
        kind: permissions.kind().into(),
        scopes: permissions.scopes().map(|scopes| scopes.iter().map(|scope| (*scope).into()).collect()),
        created_by: Some(KeyCreator { id: user.into(), name: names.get(&user).cloned().map(Into::into) }),
    }
}
