//! API keys. Owners manage all keys of the organization, members only their own.

use std::sync::Arc;

use common::{
    accounts::{
        api_keys::{IssuedKey, KeyRecord, NOT_FOUND, PREFIX},
        users::{Role, User},
    },
    error::{Error, Refusal, Result},
    http::{Call, Caller, Fault, Fields, KeyOrSession, Rejected, Route, Session},
    id::KeyId,
    name::Name,
    timestamp::Timestamp,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{App, Success};

pub(crate) fn create() -> Route<App> {
    Route::post("/api/auth/api-key/create", Session, New::read, issue)
        .summary("Issues a key for the caller's organization. The key itself is shown only once.")
        .faults(&[Fault::EmailNotVerified, Fault::Conflict("key_limit")])
}

pub(crate) fn list() -> Route<App> {
    Route::get("/api/auth/api-key/list", KeyOrSession, |_, _| Ok(()), managed)
        .summary("Lists the keys that the caller manages, oldest first. A new key may take a moment to appear.")
}

pub(crate) fn delete() -> Route<App> {
    Route::post("/api/auth/api-key/delete", KeyOrSession, Which::read, revoke)
        .summary("Deletes a key. It stops working at once.")
        .faults(&[Fault::NotFound])
}

struct New {
    name: Name,
}

impl New {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { name: fields.text("name", Name::parse)? })
    }
}

struct Which {
    key: KeyId,
}

impl Which {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { key: fields.text("keyId", KeyId::parse)? })
    }
}

/// A key, without its secret.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "ApiKey")]
struct View {
    id: KeyId,
    name: Name,
    prefix: &'static str,
    start: String,
    enabled: bool,
    created_at: Timestamp,
}

/// A newly issued key, with its secret.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields, rename = "IssuedApiKey")]
struct Issued {
    id: KeyId,
    name: Name,
    prefix: &'static str,
    start: String,
    key: String,
    enabled: bool,
    created_at: Timestamp,
}

async fn issue(app: Arc<App>, call: Call<User>, input: New) -> Result<Issued> {
    let user = call.caller;
    if !user.email_verified {
        return Err(Error::Forbidden(Refusal::EmailNotVerified));
    }
    let IssuedKey { id, key, created_at } = app.callers.keys.issue(&user, &input.name, Timestamp::now()).await?;
    Ok(Issued {
        id,
        name: input.name,
        prefix: PREFIX,
        start: key.start().to_owned(),
        key: key.reveal().to_owned(),
        enabled: true,
        created_at,
    })
}

async fn managed(app: Arc<App>, call: Call<Caller>, (): ()) -> Result<Vec<View>> {
    let user = call.caller.user;
    let keys = app.callers.keys.list(&user.organization).await?;
    Ok(keys.into_iter().filter(|key| manages(&user, key)).map(View::from).collect())
}

/// Other people's keys are reported as unknown.
async fn revoke(app: Arc<App>, call: Call<Caller>, input: Which) -> Result<Success> {
    let user = call.caller.user;
    let key = app.callers.keys.find(&user.organization, input.key).await?;
    if !manages(&user, &key) {
        return Err(NOT_FOUND);
    }
    app.callers.keys.delete(&key).await?;
    Ok(Success::DONE)
}

/// Whether `user` may manage a key of their organization.
fn manages(user: &User, key: &KeyRecord) -> bool {
    user.role == Role::Owner || key.user == user.id
}

impl From<KeyRecord> for View {
    fn from(key: KeyRecord) -> Self {
        let KeyRecord { id, name, start, created_at, .. } = key;
        Self { id, name, prefix: PREFIX, start, enabled: true, created_at }
    }
}
