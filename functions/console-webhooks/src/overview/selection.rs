//! The endpoints that a link selects, by a search and a state, and the forms and links that change the selection.

use common::{
    http::{
        FormValues,
        page::{Field, visible},
    },
    timestamp::Timestamp,
    webhooks::endpoints::EndpointView,
};
use maud::{Markup, html};
use url::form_urlencoded;

use super::stored_state::Stored;
use crate::{deliveries::clipped, endpoint_search::SearchText, live_updates::LIVE};

const PATH: &str = "/console";
/// The fields of the link, with their descriptions.
pub(super) const FIELDS: [(&str, &str); 3] = [
    ("q", "Only endpoints with this text in their URL, description or ID, in any case."),
    (
        "state",
        "Only endpoints in this state: `failing`, `retrying`, `slow`, `disabled`, or `enabled` for the others. The \
         default is all endpoints.",
    ),
    ("page", "The page of the list to show. The default is the first."),
];
/// The maximum length of a search in a message.
const MAX_QUOTED_LENGTH: usize = 80;

/// A page of the selected endpoints.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    text: &'a str,
    state: Option<Stored>,
    pub(super) page: usize,
}

impl<'a> Selection<'a> {
    /// Reads a link. Unknown states and pages select all endpoints and the first page.
    pub(super) fn of(link: &'a FormValues) -> Self {
        let page = link.get("page").parse().unwrap_or(1);
        Self { text: link.get("q").trim(), state: Stored::parse(link.get("state")), page }
    }

    pub(super) fn is_filtered(self) -> bool {
        self.state.is_some() || !self.text.is_empty()
    }

    /// Removes the endpoints that are not selected. Returns the states of all those that the search finds.
    pub(super) fn apply(self, endpoints: &mut Vec<EndpointView>, now: Timestamp) -> Vec<Stored> {
        let sought = SearchText::new(self.text);
        endpoints.retain(|endpoint| sought.is_in(endpoint));
        let found = endpoints.iter().map(|endpoint| Stored::of(endpoint, now)).collect();
        endpoints.retain(|endpoint| self.state.is_none_or(|state| Stored::of(endpoint, now) == state));
        found
    }

    /// Takes the endpoints on the page, of which each has up to `size`. Returns them, and the number of pages. If the page
    /// does not exist, the nearest one is shown.
    pub(super) fn take(&mut self, endpoints: &mut Vec<EndpointView>, size: usize) -> (Vec<EndpointView>, usize) {
        let pages = endpoints.len().div_ceil(size).max(1);
        self.page = self.page.clamp(1, pages);
        let end = endpoints.len().min(self.page * size);
        (endpoints.drain((self.page - 1) * size..end).collect(), pages)
    }

    /// Another page of the same endpoints.
    pub(super) fn at(self, page: usize) -> Self {
        Self { page, ..self }
    }

    /// The address of the page, with or without live updates.
    pub(super) fn address(self, is_live: bool) -> String {
        let page = if self.page > 1 { self.page.to_string() } else { String::new() };
        let (state, live) = (self.state.map_or("", Stored::name), if is_live { "1" } else { "" });
        let fields = [("q", self.text), ("state", state), ("page", &page), (LIVE.0, live)];
        let mut query = form_urlencoded::Serializer::for_suffix(format!("{PATH}?"), PATH.len() + 1);
        query.extend_pairs(fields.into_iter().filter(|(_, value)| !value.is_empty()));
        query.finish().trim_end_matches('?').to_owned()
    }

    fn in_state(self, state: Option<Stored>) -> String {
        Self { state, page: 1, ..self }.address(false)
    }

    fn without_text(self) -> String {
        Self { text: "", page: 1, ..self }.address(false)
    }
}

/// The search, and the states as links, each with its number among the endpoints in `found`.
pub(super) fn form(selection: Selection<'_>, found: &[Stored]) -> Markup {
    let chosen = |state| (selection.state == state).then_some("true");
    html! {
        form .filters method="get" action=(PATH) role="search" aria-label="Endpoints" {
            @if let Some(state) = selection.state { input type="hidden" name="state" value=(state.name()); }
            (Field::search("q", "URL, description or ID", selection.text).filter().html("", None))
            div .row {
                button .secondary { "Search" }
                @if !selection.text.is_empty() { a href=(selection.without_text()) { "Clear search" } }
            }
        }
        div .row.choices {
            nav .tabs aria-label="State" {
                a href=(selection.in_state(None)) aria-current=[chosen(None)] { "All " span .count { (found.len()) } }
                @for state in Stored::ALL {
                    a href=(selection.in_state(Some(state))) aria-current=[chosen(Some(state))] {
                        (state.label()) " "
                        span .count { (found.iter().filter(|found| **found == state).count()) }
                    }
                }
            }
        }
        @if let Some(meaning) = selection.state.and_then(Stored::meaning) { p .soft { (meaning) } }
    }
}

/// The message for a selection without endpoints, with the ways back.
pub(super) fn nothing(selection: Selection<'_>) -> Markup {
    let text = clipped(&visible(selection.text), MAX_QUOTED_LENGTH);
    html! {
        p role="status" {
            @match (selection.state, selection.text) {
                (Some(state), "") => { "No endpoint is " (state.name()) "." }
                (Some(state), _) => { "No " (state.name()) " endpoint matches “" bdi { (text) } "”." }
                (None, _) => { "No endpoint matches “" bdi { (text) } "”." }
            }
        }
        p .row {
            @if let Some(state) = selection.state.filter(|_| !selection.text.is_empty()) {
                a href=(selection.without_text()) { "Show all " (state.name()) " endpoints" }
            }
            a href=(PATH) { "Show all endpoints" }
        }
    }
}

/// Links to the other pages of the selection, which has this number of pages.
pub(super) fn other_pages(selection: Selection<'_>, pages: usize) -> Markup {
    let page = selection.page;
    let to = |page| selection.at(page).address(false);
    html! {
        @if pages > 1 {
            nav .row aria-label="Pages" {
                span { "Page " (page) " of " (pages) }
                @if page > 1 { a href=(to(page - 1)) { "Previous" } }
                @if page < pages { a href=(to(page + 1)) { "Next" } }
            }
        }
    }
}
