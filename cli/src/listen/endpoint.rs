//! The endpoint that `listen` receives from: its own, which it finds by name, or a given one.

use std::{
    fs::{File, TryLockError},
    time::{Duration, SystemTime},
};

use api::{
    Description, EndpointId, Secret,
    deliveries::{LeasedDelivery, Missed, Recover},
    verification::{Valid, Verify, WhichSecret},
    webhooks::{Create, Delete, Endpoint, Kind, List, Update},
};
use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{
    args::Listen,
    calls::Api,
    clock,
    config::Config,
    endpoints::events,
    failure::Failure,
    ids,
    login::machine,
    secret,
    terminal::{cell, print_note},
};

/// The start of the description of every endpoint that `listen` creates.
const PREFIX: &str = "fanfare listen: ";
/// The time without a call after which an endpoint is deleted: the three days for which it keeps an event, plus the ten
/// minutes that `last_asked_at` may lag.
const UNUSED_LIFETIME: Duration = Duration::from_mins(3 * 24 * 60 + 10);

/// The endpoint, and its signing secret if it is stored on this machine.
pub(super) struct Source {
    pub(super) id: EndpointId,
    origin: String,
    secret: Option<Secret>,
}

impl Source {
    /// Returns a warning, but only once, if the stored secret does not match the signature of this delivery, which the
    /// service has just signed.
    pub(super) fn outdated(&mut self, config: &Config, delivery: &LeasedDelivery) -> Option<String> {
        let signature = delivery.headers.get("x-webhook-signature")?;
        let is_current = |secret: &Secret| secret::signs(secret, &delivery.body, signature);
        if self.secret.as_ref().is_none_or(is_current) {
            return None;
        }
        // Another process on this machine may have rotated the secret and stored the new one.
        let kept = config.reloaded().ok().and_then(|config| config.service(&self.origin).secrets.remove(&self.id));
        self.secret = kept.filter(is_current);
        self.secret.is_none().then(|| replaced(&self.id))
    }

    /// Locks the endpoint for this process. Warns if another process on this machine receives from it.
    pub(super) fn share(&self, config: &Config) -> Result<File, Failure> {
        let lock = config.lock_of(self.id.as_str())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                print_note(
                    "Another `fanfare listen` receives from this endpoint. Each event goes to only one of them.",
                );
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        Ok(lock)
    }
}

/// Finds or creates the endpoint, and starts a recovery for `--since`.
pub(super) async fn open(api: &Api, config: &mut Config, listen: &Listen) -> Result<Source, Failure> {
    // Another `listen` that starts at the same time waits here, and then finds the endpoint that this one created.
    let description = format!("{PREFIX}{}", listen.name.clone().unwrap_or_else(machine));
    let chosen = ids::optional_endpoint(api, listen.endpoint.as_deref()).await?;
    let _alone = config.alone(&api.origin(), chosen.as_ref().map_or(description.as_str(), EndpointId::as_str))?;
    let endpoints = api.call(&List::new()).await?.webhook_endpoints;
    let is_mine = |endpoint: &&Endpoint| match &chosen {
        Some(id) => endpoint.webhook_endpoint_id == *id,
        None => endpoint.kind == Kind::Pull && text(endpoint) == description,
    };
    let found = endpoints.iter().find(is_mine);
    if let (None, Some(_)) = (found, &chosen) {
        return Err(Failure::not_found("Endpoint not found.").hint("`fanfare endpoints list` shows the ids."));
    }
    remove_unused(api, config, &endpoints, found).await;
    let id = match found {
        Some(endpoint) => reuse(api, endpoint, listen).await?,
        None => make(api, config, description, listen).await?,
    };
    if let Some(since) = &listen.since {
        let recover = Recover { webhook_endpoint_id: Some(id.clone()), ..Recover::new(since.clone()) };
        api.call(&Recover { status: Some(Missed::Failed), ..recover }).await?;
        print_note(&format!("Deliveries that failed since {since} are resent within the next minute."));
    }
    let secret = config.service(&api.origin()).secrets.remove(&id);
    if found.is_some() && secret.is_none() && listen.endpoint.is_none() {
        print_note(
            "The secret of this endpoint is not stored on this machine. If `fanfare listen` runs on another one, too, \
            each event goes to only one of them.",
        );
    }
    if listen.print_secret {
        match &secret {
            Some(secret) if found.is_some() && is_replaced(api, &id, secret).await => print_note(&replaced(&id)),
            Some(secret) => print_note(&format!("Signing secret: {}", secret.reveal())),
            None => {
                let why = "The signing secret is not stored on this machine. Create a new one with";
                print_note(&format!("{why} `fanfare endpoints rotate {id}`."));
            }
        }
    }
    Ok(Source { id, origin: api.origin(), secret })
}

fn replaced(id: &EndpointId) -> String {
    let what = "The stored signing secret is no longer valid: it was rotated elsewhere. Create a new one with";
    format!("{what} `fanfare endpoints rotate {id}`.")
}

/// Whether the service answers that this is not the endpoint's current secret. It verifies a body that is signed with
/// the secret.
async fn is_replaced(api: &Api, id: &EndpointId, secret: &Secret) -> bool {
    const BODY: &str = "{}";
    let (signature, _) = secret::signatures(secret, "", "", BODY);
    let verify = Verify::new(id.clone(), format!("x-webhook-signature: {signature}"), STANDARD.encode(BODY));
    let is_current = |valid: &Valid| valid.secret == WhichSecret::Current;
    // A key that may not verify can receive as well. The first event then shows whether the secret is current.
    api.call(&verify).await.is_ok_and(|found| !found.valid.iter().any(is_current))
}

/// Returns an endpoint's description, or an empty string.
fn text(endpoint: &Endpoint) -> &str {
    endpoint.description.as_ref().map_or("", Description::as_str)
}

async fn reuse(api: &Api, endpoint: &Endpoint, listen: &Listen) -> Result<EndpointId, Failure> {
    let id = endpoint.webhook_endpoint_id.clone();
    let now = endpoint.events.as_ref().map(|events| events.0.iter().map(ToString::to_string).collect::<Vec<_>>());
    if let Some(wanted) = events(&listen.events).filter(|wanted| *wanted != now) {
        api.call(&Update { events: Some(wanted), ..Update::new(id.clone()) }).await?;
    }
    print_note(&format!("Receiving from endpoint {} ({}).", cell(&text(endpoint)), cell(&id)));
    if let Some(kept) = now.filter(|_| listen.events.is_empty()) {
        print_note(&format!("It receives only {}. `--events all` removes this filter.", cell(&kept.join(", "))));
    }
    Ok(id)
}

async fn make(api: &Api, config: &mut Config, description: String, listen: &Listen) -> Result<EndpointId, Failure> {
    let name = cell(&description);
    let (kind, description, events) = (Some(Kind::Pull), Some(Some(description)), events(&listen.events));
    let made = api.call(&Create { kind, description, events, ..Create::new() }).await?;
    let id = made.webhook_endpoint_id;
    config.change(&api.origin(), |service| {
        service.secrets.extend(made.signing_secret.map(|secret| (id.clone(), secret)));
    })?;
    print_note(&format!("Your organization now has the pull endpoint {name} ({}).", cell(&id)));
    Ok(id)
}

/// Deletes endpoints that `listen` created and that no client has called for three days. Their deliveries stay in the log.
async fn remove_unused(api: &Api, config: &mut Config, endpoints: &[Endpoint], mine: Option<&Endpoint>) {
    let mine = mine.map(|endpoint| &endpoint.webhook_endpoint_id);
    let is_unused_at = |now| {
        move |endpoint: &&Endpoint| {
            let last = endpoint.last_asked_at.as_ref().unwrap_or(&endpoint.created_at);
            let is_old = clock::age_at(last, now).is_some_and(|age| age >= UNUSED_LIFETIME);
            let is_of_listen = endpoint.kind == Kind::Pull && text(endpoint).starts_with(PREFIX);
            is_of_listen && is_old && Some(&endpoint.webhook_endpoint_id) != mine
        }
    };
    if !endpoints.iter().any(|endpoint| is_unused_at(SystemTime::now())(&endpoint)) {
        return;
    }
    // By this machine's clock, which may be wrong, an endpoint that another machine receives from could look unused.
    let Some(now) = api.now().await else { return };
    for endpoint in endpoints.iter().filter(is_unused_at(now)) {
        let (id, name) = (&endpoint.webhook_endpoint_id, cell(&text(endpoint)));
        match api.call(&Delete::new(id.clone())).await {
            Ok(_) => {
                print_note(&format!(
                    "Deleted endpoint {name}, which was unused for three days. Its deliveries stay in the log."
                ));
                let forgotten = config.change(&api.origin(), |service| drop(service.secrets.remove(id)));
                if let Err(error) = forgotten {
                    print_note(&error.to_string());
                }
            }
            Err(error) => print_note(&format!("Could not delete the unused endpoint {name}: {error}")),
        }
    }
}
