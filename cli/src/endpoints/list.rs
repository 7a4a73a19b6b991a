//! `fanfare endpoints list`, and the states that it shows.

use api::webhooks::{DisabledReason, Endpoint, Kind, List};

use crate::{
    args::{EndpointQuery, State},
    calls::Api,
    clock,
    failure::Failure,
    ids::{self, Shortener},
    table::{self, Column},
    terminal::{cell, cell_of, is_for_people, print_json, print_line},
};

const COLUMNS: &[Column] = &[
    Column::new("URL").of_urls().shrinks_to(24),
    Column::new("STATE").of_statuses(),
    Column::new("EVENTS").left_out(1),
    Column::new("DESCRIPTION").shrinks_to(8).left_out(0),
    Column::new("ID"),
];

/// Prints the endpoints that match. The service returns all endpoints in one response.
pub(super) async fn list(api: &Api, sought: &EndpointQuery, is_json: bool) -> Result<(), Failure> {
    let mut listed = api.call(&List::new()).await?;
    let all = listed.webhook_endpoints.len();
    listed.webhook_endpoints.retain(|endpoint| is_meant(endpoint, sought));
    if is_json {
        return Ok(print_json(&listed)?);
    }
    let endpoints = &listed.webhook_endpoints;
    match (all, endpoints.len()) {
        (0, _) => return Ok(print_line("No endpoints yet. Create one with `fanfare endpoints create URL`.")?),
        (_, 0) => return Ok(print_line(&format!("No endpoints match. `fanfare endpoints list` shows all {all}."))?),
        _ => {}
    }
    let shortener = Shortener::for_ids(endpoints.iter().map(|endpoint| endpoint.webhook_endpoint_id.as_str()));
    let rows = endpoints.iter().map(|endpoint| {
        let events = events(endpoint);
        // The label of a pull endpoint is already its description.
        let description = endpoint.description.as_ref().filter(|_| endpoint.kind == Kind::Push);
        let id = shortener.short(endpoint.webhook_endpoint_id.as_str());
        vec![ids::label(endpoint), state(endpoint), events, cell_of(description), id]
    });
    Ok(table::print(COLUMNS, &rows.collect::<Vec<_>>())?)
}

/// The events, and the number of workflows if only some are selected.
fn events(endpoint: &Endpoint) -> String {
    let events = endpoint.events.as_ref().map_or_else(|| "all".to_owned(), |events| cell(&events));
    match endpoint.workflows.as_ref().map_or(0, |workflows| workflows.0.len()) {
        0 => events,
        1 => format!("{events}, of 1 workflow"),
        number => format!("{events}, of {number} workflows"),
    }
}

/// Whether an endpoint is one of those to list.
pub(crate) fn is_meant(endpoint: &Endpoint, EndpointQuery { search, state }: &EndpointQuery) -> bool {
    let contains = |text: &str| {
        let description = endpoint.description.as_ref().map(ToString::to_string);
        let texts = [endpoint.url.clone(), description, Some(endpoint.webhook_endpoint_id.to_string())];
        texts.into_iter().flatten().any(|found| found.to_lowercase().contains(&text.trim().to_lowercase()))
    };
    search.as_deref().is_none_or(contains) && state.is_none_or(|state| kind_of_state(endpoint) == state)
}

fn kind_of_state(endpoint: &Endpoint) -> State {
    match (endpoint.active, &endpoint.failing_since) {
        (false, _) => State::Disabled,
        (true, Some(_)) => State::Failing,
        (true, None) => State::Enabled,
    }
}

/// Describes the state of an endpoint, with its reason or its duration.
pub(super) fn state(endpoint: &Endpoint) -> String {
    match (endpoint.active, &endpoint.disabled_reason, &endpoint.failing_since) {
        (false, None, _) => "disabled by your team".to_owned(),
        (false, Some(reason), _) if *reason == DisabledReason::Gone => "disabled: HTTP 410".to_owned(),
        (false, Some(reason), _) => format!("disabled: {}", cell(reason)),
        (true, _, Some(since)) => match is_for_people() {
            true => format!("failing for {}", clock::age(since)),
            false => format!("failing since {}", clock::short(since)),
        },
        (true, _, None) => "enabled".to_owned(),
    }
}
