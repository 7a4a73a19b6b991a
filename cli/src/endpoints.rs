//! `fanfare endpoints`.

use api::{
    Done, Secret,
    webhooks::{Create, Delete, Endpoint, Kind, List, Test, Update},
};
use serde_json::json;

use crate::{
    args::Endpoints,
    calls::Api,
    clock,
    config::Config,
    failure::Failure,
    terminal::{Columns, cell, cell_of, note, say, say_json, tell},
};

const COLUMNS: Columns =
    Columns { titles: &["ID", "STATE", "EVENTS", "URL", "DESCRIPTION"], shrinks: 3, state: Some(1), can_drop: false };

const SECRET: &str = "Signing secret, shown once";

pub(crate) async fn run(api: &Api, config: &mut Config, command: Endpoints, is_json: bool) -> Result<(), Failure> {
    match command {
        Endpoints::List => list(api, is_json).await,
        Endpoints::Create { url, pull, description, events } => {
            let kind = pull.then_some(Kind::Pull);
            let (description, events) = (description.map(Some), self::events(&events));
            let created = api.call(&Create { kind, url, description, events, ..Create::new() }).await?;
            tell(&created, is_json, &cell(&created.message))?;
            let secret = created.signing_secret.as_ref().map_or("", Secret::reveal);
            details(is_json, &[("Endpoint", created.webhook_endpoint_id.as_str()), (SECRET, secret)])
        }
        Endpoints::Update { id, url, description, active, events } => {
            let description = description.map(|text| Some(text).filter(|text| !text.is_empty()));
            let events = self::events(&events);
            let done = api.call(&Update { url, description, active, events, ..Update::new(id) }).await?;
            Ok(tell(&done, is_json, &cell(&done.message))?)
        }
        Endpoints::Rotate { id } => {
            let secret = crate::secret::generate()?;
            let update = Update { signing_secret: Some(secret.clone()), ..Update::new(id.clone()) };
            let Done { success, message } = api.call(&update).await?;
            // This machine stores a secret only for its own `listen`.
            if config.service(&api.origin()).secrets.contains_key(&id) {
                let kept = config.change(&api.origin(), |service| drop(service.secrets.insert(id, secret.clone())));
                // The secret is printed anyway, because no copy exists elsewhere.
                if let Err(error) = kept {
                    note(&format!("The secret could not be stored on this machine: {error}"));
                }
            }
            let rotated = json!({ "success": success, "message": message, "signing_secret": secret });
            tell(&rotated, is_json, &cell(&message))?;
            details(is_json, &[(SECRET, secret.reveal())])
        }
        Endpoints::Test { id } => {
            let tested = api.call(&Test::new(id)).await?;
            tell(&tested, is_json, &cell(&tested.message))?;
            details(is_json, &[("Delivery", tested.delivery_id.as_str())])
        }
        Endpoints::Delete { id } => {
            let done = api.call(&Delete::new(id)).await?;
            Ok(tell(&done, is_json, &cell(&done.message))?)
        }
    }
}

/// Prints more of an answer for people, below its message.
fn details(is_json: bool, details: &[(&str, &str)]) -> Result<(), Failure> {
    for (title, value) in details.iter().filter(|(_, value)| !is_json && !value.is_empty()) {
        say(&format!("{title}: {}", cell(value)))?;
    }
    Ok(())
}

/// The `events` field of a call. `all` is sent as null.
pub(crate) fn events(events: &[String]) -> Option<Option<Vec<String>>> {
    (!events.is_empty()).then(|| Some(events.to_vec()).filter(|events| events != &["all"]))
}

async fn list(api: &Api, is_json: bool) -> Result<(), Failure> {
    let listed = api.call(&List::new()).await?;
    if is_json {
        return Ok(say_json(&listed)?);
    }
    if listed.webhook_endpoints.is_empty() {
        return Ok(say("No endpoints yet. Create one with `fanfare endpoints create URL`.")?);
    }
    let rows = listed.webhook_endpoints.iter().map(|endpoint| {
        let address = if endpoint.kind == Kind::Pull { "(pull)".to_owned() } else { cell_of(endpoint.url.as_ref()) };
        let events = endpoint.events.as_ref().map_or("all".to_owned(), ToString::to_string);
        let description = cell_of(endpoint.description.as_ref());
        vec![cell(&endpoint.webhook_endpoint_id), state(endpoint), events, address, description]
    });
    COLUMNS.print(&rows.collect::<Vec<_>>())?;
    Ok(())
}

fn state(endpoint: &Endpoint) -> String {
    match (endpoint.active, &endpoint.disabled_reason, &endpoint.failing_since) {
        (false, None, _) => "inactive".to_owned(),
        (false, Some(reason), _) => format!("disabled ({})", cell(reason)),
        (true, _, Some(since)) => format!("failing since {}", clock::short(since)),
        (true, _, None) => "active".to_owned(),
    }
}
