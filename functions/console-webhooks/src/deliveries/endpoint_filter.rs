//! The filter by endpoint. A few endpoints are a list to choose from. Many are found by a text, which a link replaces by
//! the endpoint's id once it is clear which one is meant.

use common::{
    error::{Error, Result},
    http::{
        FormValues,
        page::{Field, issues, visible},
    },
    id::EndpointId,
    issue::Problem,
    webhooks::endpoints::EndpointView,
};
use maud::{Markup, html};

use super::{
    query::address,
    table::{clipped, deleted, short},
};
use crate::{
    endpoint_search::{SearchText, Texts},
    numbers::counted,
};

/// The name of the filter.
pub(super) const ENDPOINT: &str = "endpoint";
/// The maximum number of endpoints in a list to choose from.
const MAX_LISTED: usize = 20;
/// The maximum number of matches that are offered.
const MAX_MATCHES: usize = 20;
/// The maximum length of a suggested text. Longer URLs would make the page large.
const MAX_SUGGESTION_LENGTH: usize = 120;

/// The endpoints that a text matches.
pub(super) enum Meant<'a> {
    /// Only this one.
    One(EndpointId),
    Several(Vec<&'a EndpointView>),
}

/// Finds the endpoints that the filter means if it is a text rather than an id. Those whose URL, description or id is
/// exactly the text come before those that contain it.
///
/// # Errors
/// No endpoint matches.
pub(super) fn meant<'a>(link: &FormValues, endpoints: &'a [EndpointView]) -> Result<Option<Meant<'a>>> {
    let text = link.get(ENDPOINT);
    match EndpointId::parse(text.trim()) {
        Ok(id) if id.to_string() == text => return Ok(None),
        Ok(id) => return Ok(Some(Meant::One(id))),
        Err(_) if text.trim().is_empty() => return Ok(None),
        Err(_) => {}
    }
    let sought = SearchText::new(text);
    let exact: Vec<_> = endpoints.iter().filter(|endpoint| sought.is_all_of(endpoint)).collect();
    let found = match exact.is_empty() {
        true => endpoints.iter().filter(|endpoint| sought.is_in(endpoint)).collect(),
        false => exact,
    };
    match found.as_slice() {
        [] => link.read(|fields| {
            Err(fields.reject(ENDPOINT, Problem::format("No endpoint has this in its URL, description or ID")))
        }),
        [one] => Ok(Some(Meant::One(one.id))),
        _ => Ok(Some(Meant::Several(found))),
    }
}

/// The form's field.
pub(super) fn field(link: &FormValues, endpoints: &[EndpointView], error: Option<&Error>) -> Markup {
    let chosen = link.get(ENDPOINT);
    let is_known = chosen.is_empty() || EndpointId::parse(chosen).is_ok();
    if endpoints.len() <= MAX_LISTED && is_known && issues(ENDPOINT, error).is_empty() {
        return select(chosen, endpoints, error);
    }
    let named = endpoints.iter().find(|endpoint| endpoint.id.to_string() == chosen);
    let texts = Texts::of(endpoints);
    let value = named.map_or_else(|| chosen.to_owned(), |endpoint| text(endpoint, &texts));
    html! {
        (Field::search(ENDPOINT, "Endpoint: URL, description or ID", &value).suggesting("endpoints").filter().html("", error))
        datalist #endpoints {
            @for endpoint in endpoints { option value=(text(endpoint, &texts)) { (name(endpoint)) } }
        }
    }
}

fn select(chosen: &str, endpoints: &[EndpointView], error: Option<&Error>) -> Markup {
    let ids: Vec<_> = endpoints.iter().map(|endpoint| (endpoint.id.to_string(), name(endpoint))).collect();
    let gone = EndpointId::parse(chosen).map_or_else(|_| "Deleted endpoint".to_owned(), deleted);
    let mut all: Vec<(&str, &str)> = vec![("", "All")];
    all.extend(ids.iter().map(|(id, url)| (id.as_str(), url.as_str())));
    if !all.iter().any(|(id, _)| *id == chosen) {
        all.push((chosen, gone.as_str()));
    }
    Field::select(ENDPOINT, "Endpoint", &all, chosen).html("", error)
}

/// The description and the URL. The field is narrow, so the description comes first: it is usually shorter.
fn name(endpoint: &EndpointView) -> String {
    match &endpoint.options.description {
        Some(text) if endpoint.url.is_some() => {
            format!("{} ({})", clipped(&visible(text.as_str()), MAX_SUGGESTION_LENGTH), short(&endpoint.name()))
        }
        _ => short(&endpoint.name()),
    }
}

/// A text that means only this endpoint: its URL, or its id if that is long, shared or cannot be typed.
fn text(endpoint: &EndpointView, texts: &Texts) -> String {
    let is_typed = |url: &&str| url.len() <= MAX_SUGGESTION_LENGTH && visible(url) == *url;
    let url = endpoint.url.as_deref().filter(is_typed).filter(|url| texts.is_unique(url));
    url.map_or_else(|| endpoint.id.to_string(), str::to_owned)
}

/// The endpoints that a text matches, as links that select one of them.
pub(super) fn choice(link: &FormValues, found: &[&EndpointView]) -> Markup {
    let text = clipped(&visible(link.get(ENDPOINT).trim()), MAX_SUGGESTION_LENGTH);
    html! {
        div .notice role="status" {
            p { strong { (counted(found.len(), "endpoint matches", "endpoints match")) " “" bdi { (text) } "”" } ":" }
            ul {
                @for endpoint in found.iter().take(MAX_MATCHES) {
                    @let described = endpoint.options.description.as_ref().filter(|_| endpoint.url.is_some());
                    li {
                        bdi {
                            a href=(address(link, &[(ENDPOINT, &endpoint.id.to_string())])) {
                                @match described {
                                    Some(text) => (clipped(&visible(text.as_str()), MAX_SUGGESTION_LENGTH)),
                                    None => (short(&endpoint.name())),
                                }
                            }
                        }
                        @if described.is_some() { " " bdi .soft.mono { (short(&endpoint.name())) } }
                    }
                }
                @if found.len() > MAX_MATCHES { li { "and " (found.len() - MAX_MATCHES) " more. Search for more of the text to see them." } }
            }
        }
    }
}
