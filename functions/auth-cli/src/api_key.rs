//! API keys: an owner manages all of the organization's, a member their own.

use common::{
    api_keys::{KeyRecord, NOT_FOUND, PREFIX},
    error::{Error, Refusal, Result},
    http::{Call, Reply},
    id::KeyId,
    name::Name,
    timestamp::Timestamp,
    users::{Role, User},
};
use serde_json::{Map, Value, json};

use crate::{App, signed_in, user};

/// `POST /api/auth/api-key/create`: issues a key for the caller's organization, and shows it this once.
pub(crate) async fn create(app: &App, call: &Call) -> Result<Reply> {
    let user = signed_in(app, call).await?;
    if !user.email_verified {
        return Err(Error::Forbidden(Refusal::EmailNotVerified));
    }
    let name = call.input(|fields| fields.text("name", Name::parse))?;
    let issued = app.keys.issue(&user, &name, Timestamp::now()).await?;
    let mut answer = view(issued.id, &name, issued.key.start(), issued.created_at);
    answer.insert("key".to_owned(), json!(issued.key.reveal()));
    Ok(Reply::Json(answer.into()))
}

/// `GET /api/auth/api-key/list`: the keys that the caller manages, oldest first.
pub(crate) async fn list(app: &App, call: &Call) -> Result<Reply> {
    let user = user(app, call).await?;
    let keys = app.keys.list(&user.organization).await?;
    let managed = keys.iter().filter(|key| manages(&user, key));
    let views = managed.map(|key| view(key.id, &key.name, &key.start, key.created_at).into());
    Ok(Reply::Json(Value::Array(views.collect())))
}

/// `POST /api/auth/api-key/delete`: the key stops working at once. A key of others is as unknown as any.
pub(crate) async fn delete(app: &App, call: &Call) -> Result<Reply> {
    let user = user(app, call).await?;
    let id = call.input(|fields| fields.text("keyId", KeyId::parse))?;
    let key = app.keys.find(&user.organization, id).await?;
    if !manages(&user, &key) {
        return Err(NOT_FOUND);
    }
    app.keys.delete(&key).await?;
    Ok(Reply::Json(json!({ "success": true })))
}

/// Whether `user` manages a key of their organization.
fn manages(user: &User, key: &KeyRecord) -> bool {
    user.role == Role::Owner || key.user == user.id
}

fn view(id: KeyId, name: &Name, start: &str, created_at: Timestamp) -> Map<String, Value> {
    let fields = [
        ("id", json!(id)),
        ("name", json!(name)),
        ("prefix", json!(PREFIX)),
        ("start", json!(start)),
        ("enabled", json!(true)),
        ("createdAt", json!(created_at.to_string())),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}
