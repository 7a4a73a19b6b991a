//! The endpoint that `listen` takes from: one of its own, which it finds again by its name.

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

/// The beginning of the descriptions of such endpoints.
const PREFIX: &str = "fanfare listen: ";
/// An endpoint that nobody has asked for so long is removed. The list says when somebody did to ten minutes.
const UNUSED: Duration = Duration::from_secs(24 * 60 * 60 + 10 * 60);

/// Where events come from.
pub(super) struct Source {
    pub(super) id: String,
    origin: String,
    secret: Option<Zeroizing<String>>,
}

impl Source {
    /// What is wrong with the secret that this machine keeps, told once. This delivery was signed just now.
    pub(super) fn outdated(&mut self, delivery: &Value) -> Option<String> {
        let (body, signature) = (delivery["body"].as_str()?, delivery["headers"]["x-webhook-signature"].as_str()?);
        let is_current = |secret: &Zeroizing<String>| secret::signs(secret, body, signature);
        if self.secret.as_ref().is_none_or(is_current) {
            return None;
        }
        // This machine may have rotated it meanwhile.
        let kept = Config::load().ok().and_then(|config| config.service(&self.origin).secrets.remove(&self.id));
        self.secret = kept.filter(is_current);
        let told =
            "The secret that this machine keeps does not sign any more: it was changed elsewhere. To make another:";
        self.secret.is_none().then(|| format!("{told} fanfare endpoints rotate {}", self.id))
    }

    /// Says so if another process of this machine takes from the same endpoint. The lock is held by the first.
    pub(super) fn share(&self, config: &Config) -> Result<File, Failure> {
        let lock = config.lock_of(&self.id)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => note("Another listen takes from this endpoint: the two share the events."),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        Ok(lock)
    }
}

/// Finds the endpoint or makes it, and brings back what failed, if that is asked for.
pub(super) async fn open(api: &Api, config: &mut Config, listen: &Listen) -> Result<Source, Failure> {
    // Another listen that starts now waits, and finds what this one has made.
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
        return Err(Failure::not_found("There is no such endpoint."));
    }
    remove_unused(api, config, &endpoints, found).await;
    let id = match found {
        Some(endpoint) => reuse(api, endpoint, listen).await?,
        None => make(api, config, &description, listen).await?,
    };
    if let Some(since) = &listen.since {
        let fields = json!({ "webhook_endpoint_id": id, "since": since, "status": "failed" });
        api.call("deliveries/recover", fields).await?;
        note(&format!("What failed since {since} comes back within the next minute."));
    }
    let secret = config.service(&api.origin()).secrets.remove(&id);
    if found.is_some() && secret.is_none() && listen.endpoint.is_none() {
        note("It was made on another machine. If a listen of this name runs there, the two share the events.");
    }
    if listen.print_secret {
        match &secret {
            Some(secret) => note(&format!("Signing secret: {}", secret.as_str())),
            None => {
                note(&format!("This machine does not have the secret. To make another: fanfare endpoints rotate {id}"));
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
    note(&format!("Taking from the endpoint {} ({id}).", cell(&endpoint["description"])));
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
    note(&format!("Made the endpoint {} ({id}).", cell(&json!(description))));
    Ok(id)
}

/// Removes the endpoints of `listen` that nobody has asked for a day. What they hold stays in the log.
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
                note(&format!("Removed the endpoint {name}, which nobody has used for a day. Its log stays."));
                let id = id.as_str().unwrap_or_default();
                let forgotten = config.change(&api.origin(), |service| drop(service.secrets.remove(id)));
                if let Err(error) = forgotten {
                    note(&error.to_string());
                }
            }
            Err(error) => note(&format!("The unused endpoint {name} could not be removed: {error}")),
        }
    }
}
