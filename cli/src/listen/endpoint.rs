//! The endpoint that `listen` receives from: its own, found by name, or a given one.

use std::{
    fs::{File, TryLockError},
    time::Duration,
};

use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{
    api::Api,
    args::Listen,
    clock,
    config::Config,
    endpoints::events,
    failure::Failure,
    login::machine,
    secret,
    terminal::{cell, note},
};

/// The beginning of the description of every endpoint that `listen` creates.
const PREFIX: &str = "fanfare listen: ";
/// An endpoint without calls for this time is removed: a day, and the ten minutes by which `last_asked_at` may be late.
const UNUSED: Duration = Duration::from_secs(24 * 60 * 60 + 10 * 60);

/// The endpoint, and its signing secret if this machine has it.
pub(super) struct Source {
    pub(super) id: String,
    origin: String,
    secret: Option<Zeroizing<String>>,
}

impl Source {
    /// A warning if the stored secret did not sign this delivery, which was signed just now. It is given once.
    pub(super) fn outdated(&mut self, delivery: &Value) -> Option<String> {
        let (body, signature) = (delivery["body"].as_str()?, delivery["headers"]["x-webhook-signature"].as_str()?);
        let is_current = |secret: &Zeroizing<String>| secret::signs(secret, body, signature);
        if self.secret.as_ref().is_none_or(is_current) {
            return None;
        }
        // Another process of this machine may have rotated the secret meanwhile.
        let kept = Config::load().ok().and_then(|config| config.service(&self.origin).secrets.remove(&self.id));
        self.secret = kept.filter(is_current);
        let told = "The stored signing secret is no longer valid: it was rotated elsewhere. Create a new one with";
        self.secret.is_none().then(|| format!("{told} `fanfare endpoints rotate {}`.", self.id))
    }

    /// Locks the endpoint for this process, and warns if another process on this machine receives from it.
    pub(super) fn share(&self, config: &Config) -> Result<File, Failure> {
        let lock = config.lock_of(&self.id)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                note("Another `fanfare listen` receives from this endpoint. Each event goes to one of the two.");
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        Ok(lock)
    }
}

/// Finds or creates the endpoint, and starts a recovery for `--since`.
pub(super) async fn open(api: &Api, config: &mut Config, listen: &Listen) -> Result<Source, Failure> {
    // Another `listen` that starts now waits, and then finds the endpoint of this one.
    let description = format!("{PREFIX}{}", listen.name.clone().unwrap_or_else(machine));
    let _alone = config.alone(&api.origin(), listen.endpoint.as_ref().unwrap_or(&description))?;
    let listed = api.call("webhooks/list", json!({})).await?;
    let endpoints = listed["webhook_endpoints"].as_array().cloned().unwrap_or_default();
    let is_mine = |endpoint: &&Value| match &listen.endpoint {
        Some(id) => endpoint["webhook_endpoint_id"] == *id,
        None => endpoint["kind"] == "pull" && endpoint["description"] == description,
    };
    let found = endpoints.iter().find(is_mine);
    if let (None, Some(_)) = (found, &listen.endpoint) {
        return Err(Failure::not_found("Endpoint not found. Run `fanfare endpoints list` for the ids."));
    }
    remove_unused(api, config, &endpoints, found).await;
    let id = match found {
        Some(endpoint) => reuse(api, endpoint, listen).await?,
        None => make(api, config, &description, listen).await?,
    };
    if let Some(since) = &listen.since {
        let fields = json!({ "webhook_endpoint_id": id, "since": since, "status": "failed" });
        api.call("deliveries/recover", fields).await?;
        note(&format!("Deliveries that failed since {since} are resent within the next minute."));
    }
    let secret = config.service(&api.origin()).secrets.remove(&id);
    if found.is_some() && secret.is_none() && listen.endpoint.is_none() {
        note(
            "Another machine created this endpoint. If `fanfare listen` runs there too, each event goes to one of the two.",
        );
    }
    if listen.print_secret {
        match &secret {
            Some(secret) => note(&format!("Signing secret: {}", secret.as_str())),
            None => {
                let why = "The signing secret is not stored on this machine. Create a new one with";
                note(&format!("{why} `fanfare endpoints rotate {id}`."));
            }
        }
    }
    Ok(Source { id, origin: api.origin(), secret })
}

async fn reuse(api: &Api, endpoint: &Value, listen: &Listen) -> Result<String, Failure> {
    let id = endpoint["webhook_endpoint_id"].as_str().unwrap_or_default().to_owned();
    if let Some((_, wanted)) = events(&listen.events)
        && wanted != endpoint["events"]
    {
        api.call("webhooks/update", json!({ "id": id, "events": wanted })).await?;
    }
    note(&format!("Receiving from endpoint {} ({id}).", cell(&endpoint["description"])));
    Ok(id)
}

async fn make(api: &Api, config: &mut Config, description: &str, listen: &Listen) -> Result<String, Failure> {
    let events = events(&listen.events).map_or(Value::Null, |(_, events)| events);
    let fields = json!({ "kind": "pull", "description": description, "events": events });
    let made = api.call("webhooks/create", fields).await?;
    let id = made["webhook_endpoint_id"].as_str().unwrap_or_default().to_owned();
    let secret = made["signing_secret"].as_str().map(|secret| Zeroizing::new(secret.to_owned()));
    config.change(&api.origin(), |service| {
        service.secrets.extend(secret.map(|secret| (id.clone(), secret)));
    })?;
    note(&format!("Created endpoint {} ({id}).", cell(&json!(description))));
    Ok(id)
}

/// Deletes endpoints of `listen` without calls for a day. Their deliveries stay in the log.
async fn remove_unused(api: &Api, config: &mut Config, endpoints: &[Value], mine: Option<&Value>) {
    let is_unused = |endpoint: &&Value| {
        let last = endpoint["last_asked_at"].as_str().or(endpoint["created_at"].as_str()).and_then(clock::since);
        let is_of_listen = endpoint["description"].as_str().is_some_and(|text| text.starts_with(PREFIX));
        is_of_listen && endpoint["kind"] == "pull" && last.is_some_and(|ago| ago >= UNUSED) && Some(*endpoint) != mine
    };
    for endpoint in endpoints.iter().filter(is_unused) {
        let id = &endpoint["webhook_endpoint_id"];
        let name = cell(&endpoint["description"]);
        match api.call("webhooks/delete", json!({ "id": id })).await {
            Ok(_) => {
                note(&format!("Deleted endpoint {name}, unused for a day. Its deliveries stay in the log."));
                let id = id.as_str().unwrap_or_default();
                let forgotten = config.change(&api.origin(), |service| drop(service.secrets.remove(id)));
                if let Err(error) = forgotten {
                    note(&error.to_string());
                }
            }
            Err(error) => note(&format!("Could not delete the unused endpoint {name}: {error}")),
        }
    }
}
