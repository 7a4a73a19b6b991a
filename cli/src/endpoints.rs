//! `fanfare endpoints`.

use serde_json::{Map, Value, json};

use crate::{
    api::Api,
    args::Endpoints,
    clock,
    config::Config,
    failure::Failure,
    terminal::{Columns, cell, note, say, say_json},
};

const COLUMNS: Columns =
    Columns { titles: &["ID", "STATE", "EVENTS", "URL", "DESCRIPTION"], shrinks: 3, state: Some(1), can_drop: false };

pub(crate) async fn run(api: &Api, config: &mut Config, command: Endpoints, is_json: bool) -> Result<(), Failure> {
    let answer = match command {
        Endpoints::List => {
            let answer = api.call("webhooks/list", json!({})).await?;
            return if is_json { Ok(say_json(&answer)?) } else { list(&answer) };
        }
        Endpoints::Create { url, pull, description, events } => {
            let mut fields = Map::new();
            if pull {
                fields.insert("kind".to_owned(), json!("pull"));
            }
            fields.extend(url.map(|url| ("url".to_owned(), json!(url))));
            fields.extend(description.map(|text| ("description".to_owned(), json!(text))));
            fields.extend(self::events(&events));
            api.call("webhooks/create", fields.into()).await?
        }
        Endpoints::Update { id, url, description, active, events } => {
            let mut fields = Map::from_iter([("id".to_owned(), json!(id))]);
            fields.extend(url.map(|url| ("url".to_owned(), json!(url))));
            let description = description.map(|text| if text.is_empty() { Value::Null } else { json!(text) });
            fields.extend(description.map(|text| ("description".to_owned(), text)));
            fields.extend(active.map(|active| ("active".to_owned(), json!(active))));
            fields.extend(self::events(&events));
            api.call("webhooks/update", fields.into()).await?
        }
        Endpoints::Rotate { id } => {
            let secret = crate::secret::generate()?;
            let answer = api.call("webhooks/update", json!({ "id": &id, "signing_secret": *secret })).await?;
            // This machine stores a secret only for its own `listen`.
            if config.service(&api.origin()).secrets.contains_key(&id) {
                let kept = config.change(&api.origin(), |service| drop(service.secrets.insert(id, secret.clone())));
                // The secret is printed anyway, because no copy exists elsewhere.
                if let Err(error) = kept {
                    note(&format!("The secret could not be stored on this machine: {error}"));
                }
            }
            json!({ "success": answer["success"], "message": answer["message"], "signing_secret": *secret })
        }
        Endpoints::Test { id } => api.call("webhooks/test", json!({ "id": id })).await?,
        Endpoints::Delete { id } => api.call("webhooks/delete", json!({ "id": id })).await?,
    };
    if is_json {
        return Ok(say_json(&answer)?);
    }
    say(&cell(&answer["message"]))?;
    for (member, name) in [
        ("webhook_endpoint_id", "Endpoint"),
        ("delivery_id", "Delivery"),
        ("signing_secret", "Signing secret, shown once"),
    ] {
        if !answer[member].is_null() {
            say(&format!("{name}: {}", cell(&answer[member])))?;
        }
    }
    Ok(())
}

/// The `events` field of a call. `all` is sent as null.
pub(crate) fn events(events: &[String]) -> Option<(String, Value)> {
    let filter = if events == ["all"] { Value::Null } else { json!(events) };
    (!events.is_empty()).then(|| ("events".to_owned(), filter))
}

fn list(answer: &Value) -> Result<(), Failure> {
    let endpoints = answer["webhook_endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    if endpoints.is_empty() {
        return Ok(say("No endpoints yet. Create one with `fanfare endpoints create URL`.")?);
    }
    let rows = endpoints.iter().map(|endpoint| {
        let address = if endpoint["kind"] == "pull" { "(pull)".to_owned() } else { cell(&endpoint["url"]) };
        let events = if endpoint["events"].is_null() { "all".to_owned() } else { cell(&endpoint["events"]) };
        vec![cell(&endpoint["webhook_endpoint_id"]), state(endpoint), events, address, cell(&endpoint["description"])]
    });
    COLUMNS.print(&rows.collect::<Vec<_>>())?;
    Ok(())
}

fn state(endpoint: &Value) -> String {
    match (&endpoint["active"], &endpoint["disabled_reason"], endpoint["failing_since"].as_str()) {
        (Value::Bool(false), Value::Null, _) => "inactive".to_owned(),
        (Value::Bool(false), reason, _) => format!("disabled ({})", cell(reason)),
        (_, _, Some(since)) => format!("failing since {}", clock::short(since)),
        _ => "active".to_owned(),
    }
}
