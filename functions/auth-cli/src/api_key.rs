//! API keys. Owners manage all keys of the organization, members only their own.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use api::{
    Call as _,
    account::{CreateKey, DeleteKey, IssuedKey as Issued},
    team::{Key, Keys},
};
use common::{
    accounts::api_keys::{IssuedKey, KeyRecord, PREFIX},
    error::{Error, Result},
    http::{Call, Caller, Fault, Fields, KeyOrSession, Reason, Rejected, Route, Session, SignedIn},
    id::{KeyId, TenantId},
    name::Name,
    paging::{Order, Paging},
    timestamp::Timestamp,
};

use crate::{app::App, done::Success};

pub(crate) fn create() -> Route<App> {
    Route::post(CreateKey::PATH, Session, New::read, issue)
        .summary("Issues an API key for the caller's organization. The key itself is shown only once.")
        .description(
            "A key acts for the user who issued it. It cannot sign out, see or end sessions, issue keys, delete the \
             account, make a member an owner or see the invitations of owners. An organization can have at most 100 \
             keys, including expired ones.",
        )
        .faults(&[Fault::EmailNotVerified, Fault::Conflict(Reason::KeyLimit)])
}

pub(crate) fn list() -> Route<App> {
    Route::get(Keys::PATH, KeyOrSession, Listing::read, managed)
        .summary("Lists the keys that the caller manages, oldest first. A new key may take a moment to appear.")
        .description(
            "Owners see all keys of the organization; members see only their own. Expired keys are listed until they \
             are deleted. Requests with `configId` are refused with a 400.",
        )
        .faults(&[Fault::NotFound])
}

pub(crate) fn delete() -> Route<App> {
    Route::post(DeleteKey::PATH, KeyOrSession, Which::read, revoke)
        .summary("Deletes a key, which stops working immediately.")
        .faults(&[Fault::NotFound])
}

/// The lifetime of a key that expires, in seconds: a minute to a year.
const EXPIRES_IN: RangeInclusive<u32> = 60..=365 * 24 * 60 * 60;

struct New {
    name: Name,
    expires_in: Option<u32>,
}

impl New {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let name = fields
            .about("A name that distinguishes the key from your other keys.")
            .example("Build server")
            .text(CreateKey::NAMES.name, Name::parse);
        let expires_in = fields
            .about(
                "The lifetime of the key in seconds, from a minute to a year. By default, or with `null`, the key does \
                 not expire.",
            )
            .nullable_number(CreateKey::NAMES.expires_in, EXPIRES_IN);
        Ok(Self { name: name?, expires_in: expires_in? })
    }
}

struct Listing {
    organization: Option<TenantId>,
    paging: Paging,
    order: Order,
}

impl Listing {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let organization = fields
            .about("The id of the organization, which must be the caller's. The default is the caller's organization.")
            .optional_text("organizationId", TenantId::parse);
        let paging = Paging::read(fields);
        let order = Order::read(fields);
        fields.refuse(&["configId"])?;
        Ok(Self { organization: organization?, paging: paging?, order: order? })
    }
}

struct Which {
    key: KeyId,
}

impl Which {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self {
            key: fields
                .about(
                    "The id of the key to delete, as returned by `api-key/list`. Owners can delete all keys of the \
                     organization; members can delete only their own.",
                )
                .text(DeleteKey::NAMES.key_id, KeyId::parse)?,
        })
    }
}

async fn issue(app: Arc<App>, call: Call<SignedIn>, input: New) -> Result<Issued> {
    let user = &call.caller.user;
    let now = Timestamp::now();
    let expires_at = input.expires_in.map(|seconds| now.after(Duration::from_secs(seconds.into())));
    let issued = app.keys.issue(user, &input.name, expires_at, now).await?;
    app.alerts.key_created(user, &input.name, &issued, &call.device(), &call.base).await;
    let IssuedKey { id, key, created_at, expires_at } = issued;
    Ok(Issued {
        id: id.into(),
        name: input.name.into(),
        prefix: PREFIX.to_owned(),
        start: key.start().to_owned(),
        key: key.reveal().into(),
        enabled: true,
        created_at: created_at.into(),
        expires_at: expires_at.map(Into::into),
    })
}

async fn managed(app: Arc<App>, call: Call<Caller>, input: Listing) -> Result<Vec<Key>> {
    let user = call.caller.user;
    if input.organization.is_some_and(|organization| organization != user.organization) {
        return Err(Error::NotFound("Organization not found"));
    }
    let mut managed = app.keys.managed(&user).await?;
    input.order.apply(&mut managed);
    Ok(input.paging.of(managed).into_iter().map(shown).collect())
}

async fn revoke(app: Arc<App>, call: Call<Caller>, input: Which) -> Result<Success> {
    app.keys.revoke(&call.caller.user, input.key).await?;
    Ok(Success::DONE)
}

fn shown(key: KeyRecord) -> Key {
    let KeyRecord { id, name, start, created_at, expires_at, last_request, .. } = key;
    Key {
        id: id.into(),
        name: name.into(),
        prefix: PREFIX.to_owned(),
        start,
        enabled: true,
        created_at: created_at.into(),
        expires_at: expires_at.map(Into::into),
        last_request: last_request.map(Into::into),
    }
}
