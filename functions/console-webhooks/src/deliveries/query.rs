//! The list's query: its filters and its page.

use std::time::Duration;

use common::{
    error::Result,
    http::FormValues,
    id::EndpointId,
    issue::{Problem, parse_name},
    presentation::times::moment,
    timestamp::Timestamp,
    webhooks::{
        delivery::{parse_job_id, parse_outcome},
        event::parse_event,
        log::search::{Cursor, Filter},
    },
};

use crate::live_updates::LIVE;

pub(super) const PATH: &str = "/console/deliveries";
/// The filters in the address, with their descriptions. Links in emails use `job_id`.
pub(super) const FILTERS: [(&str, &str); 10] = [
    ("q", "Only deliveries of this job or with this webhook ID. A delivery ID opens that delivery."),
    ("endpoint", "Only deliveries to this endpoint: its ID, or a text in its URL, description or ID."),
    ("status", "Only deliveries with this status."),
    ("range", "Only deliveries from the last hour, day or week: `1h`, `24h` or `7d`."),
    ("event", "Only deliveries of this event."),
    ("reason", "Only deliveries whose last attempt failed for this reason."),
    ("workflow", "Only deliveries for jobs whose workflow has exactly this name."),
    ("job_id", "Only deliveries of this job."),
    ("since", "Only deliveries that were created at this time or later. A time without a zone is in UTC."),
    ("until", "Only deliveries that were created before this time. A time without a zone is in UTC."),
];
pub(super) const CURSOR: &str = "cursor";
/// The cursors for the newer pages, in order, separated by spaces. The cursor for the first page is empty.
pub(super) const NEWER: &str = "newer";
pub(super) const IDS: &str = "ids";
pub(super) const REST: [(&str, &str); 4] = [
    (CURSOR, "The cursor for this page, from the link on the previous page."),
    (NEWER, "The cursors for newer pages, to build the link to them."),
    (IDS, "Shows only the deliveries with these ids, separated by spaces. Other filters are ignored."),
    LIVE,
];
/// The number of deliveries on a page, which is also the maximum number to resend without confirmation.
pub(super) const LIMIT: usize = 20;
/// The maximum number of newer pages in an address.
pub(super) const MAX_NEWER_PAGES: usize = 8;
/// The time ranges: value, label and length.
pub(super) const RANGES: [(&str, &str, Option<Duration>); 4] = [
    ("", "Any time", None),
    ("1h", "Last hour", Some(Duration::from_hours(1))),
    ("24h", "24 hours", Some(Duration::from_hours(24))),
    ("7d", "7 days", Some(Duration::from_hours(7 * 24))),
];

/// The requested deliveries.
#[derive(Default)]
pub(super) struct DeliveryQuery {
    pub(super) endpoint: Option<EndpointId>,
    pub(super) filter: Filter,
    pub(super) cursor: Option<Cursor>,
}

/// Reads the query. Empty fields are ignored, because a form submits all its fields.
pub(super) fn wanted(link: &FormValues, now: Timestamp) -> Result<DeliveryQuery> {
    link.clone().without_empty().read(|fields| {
        let endpoint = fields.optional_text("endpoint", EndpointId::parse);
        let status = fields.optional_text("status", parse_name);
        let event = fields.optional_text("event", parse_event);
        let sought = fields.optional_text("q", |text| parse_job_id(text.trim()));
        let outcome = fields.optional_text("reason", parse_outcome);
        let workflow = fields.optional_text("workflow", |text| Ok(text.to_owned()));
        let range = fields.optional_text("range", parse_range);
        let since = fields.optional_text("since", moment);
        let until = fields.optional_text("until", moment);
        let cursor = fields.optional_text(CURSOR, Cursor::parse);
        let sought = sought?;
        let webhook_id = sought.as_ref().and_then(|text| text.parse().ok());
        let filter = Filter {
            status: status?,
            event: event?,
            job_id: sought.filter(|_| webhook_id.is_none()),
            since: since?.or(range?.map(|range| now.before(range))),
            until: until?,
            outcome: outcome?,
            workflow: workflow?,
            webhook_id,
        };
        Ok(DeliveryQuery { endpoint: endpoint?, filter, cursor: cursor? })
    })
}

fn parse_range(text: &str) -> Result<Duration, Vec<Problem>> {
    let range = RANGES.iter().find(|(name, ..)| *name == text).and_then(|(.., range)| *range);
    range.ok_or_else(|| vec![Problem::format("Must be 1h, 24h or 7d")])
}

pub(super) fn is_filtered(link: &FormValues) -> bool {
    FILTERS.iter().any(|(name, _)| !link.get(name).is_empty())
}

/// Returns the cursors for the pages before the next page, including this page.
pub(super) fn remembered(newer: &[&str], cursor: &str) -> String {
    let newer = newer.iter().copied().filter(|newer| !newer.is_empty()).chain(Some(cursor).filter(|at| !at.is_empty()));
    let newer: Vec<_> = newer.collect();
    newer.get(newer.len().saturating_sub(MAX_NEWER_PAGES)..).unwrap_or_default().join(" ")
}

/// Returns the address of a page with the same filters, except for those in `other`.
pub(super) fn address(link: &FormValues, other: &[(&str, &str)]) -> String {
    let mut query = url::form_urlencoded::Serializer::for_suffix(format!("{PATH}?"), PATH.len() + 1);
    let is_other = |name: &str| other.iter().any(|(other, _)| *other == name);
    // `q` already contains the job.
    let same = FILTERS.iter().map(|(name, _)| *name).filter(|name| *name != "job_id" && !is_other(name));
    let same = same.map(|name| (name, link.get(name)));
    query.extend_pairs(same.chain(other.iter().copied()).filter(|(_, value)| !value.is_empty()));
    query.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_remembers_a_few_newer_pages() {
        assert_eq!(remembered(&[""], ""), "");
        assert_eq!(remembered(&[""], "a"), "a");
        assert_eq!(remembered(&["a", "b"], "c"), "a b c");
        assert_eq!(remembered(&["1", "2", "3", "4", "5", "6", "7", "8"], "9"), "2 3 4 5 6 7 8 9");
    }
}
