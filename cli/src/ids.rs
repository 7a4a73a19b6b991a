//! Short ids: the shortest unique beginning of an id. All commands accept short ids, as git does for commits.
//!
//! The id of a delivery begins with its endpoint and time, so its short id is the beginning of the last part, which is
//! also part of the `webhook-id`.

use api::{
    DeliveryId, EndpointId,
    deliveries::{Delivery, List as ListDeliveries},
    webhooks::{Endpoint, List as ListEndpoints},
};

use crate::{
    calls::{Api, MAX_PAGE_SIZE},
    clock,
    failure::Failure,
    terminal::{cell, is_for_people, shown},
};

/// The minimum length of a short id.
const MIN_SHORT_ID_LENGTH: usize = 8;
/// The number of newest deliveries that are searched for a short id.
const SEARCHED_DELIVERIES: usize = 1_000;
/// The maximum number of candidates that are shown for an ambiguous id.
const MAX_CANDIDATES: usize = 10;
/// A beginning of this length is unique in practice, so the search can stop at the first match.
const UNIQUE_LENGTH: usize = 12;
/// The length of the hash in a whole `webhook-id`.
const HASH_LENGTH: usize = 32;
/// The prefix of a `webhook-id`.
const WEBHOOK: &str = "msg_";

/// Returns the shortest length at which the beginnings of these ids differ. Equal ids count as one.
fn length<'a>(ids: impl Iterator<Item = &'a str>) -> usize {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let alike = ids
        .iter()
        .zip(ids.iter().skip(1))
        .map(|(one, other)| one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count() + 1);
    alike.max().unwrap_or_default().max(MIN_SHORT_ID_LENGTH)
}

/// Shortens the ids in a list. Piped output has full ids, because programs compare ids.
pub(crate) struct Shortener {
    length: usize,
}

impl Shortener {
    pub(crate) fn for_ids<'a>(ids: impl Iterator<Item = &'a str>) -> Self {
        Self { length: if is_for_people() { length(ids) } else { usize::MAX } }
    }

    pub(crate) fn for_deliveries(deliveries: &[Delivery]) -> Self {
        Self::for_ids(deliveries.iter().map(|delivery| hash(&delivery.delivery_id)))
    }

    pub(crate) fn short(&self, id: &str) -> String {
        // A trailing dash would look like a truncated word.
        shown(id.chars().take(self.length).collect::<String>().trim_end_matches('-'))
    }

    pub(crate) fn delivery(&self, id: &DeliveryId) -> String {
        if self.length == usize::MAX { cell(id) } else { self.short(hash(id)) }
    }
}

/// Returns the short id of a single delivery.
pub(crate) fn short_delivery(id: &DeliveryId) -> String {
    shown(&hash(id).chars().take(MIN_SHORT_ID_LENGTH).collect::<String>())
}

/// Returns the part of a delivery's id that is also in its `webhook-id`, or the full id if its format is different.
fn hash(id: &DeliveryId) -> &str {
    match id.as_str().rsplit_once('.') {
        Some((_, hash)) if hash.len() == 32 && is_hex(hash) => hash,
        _ => id.as_str(),
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether `text` is a full UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.iter().all(|part| is_hex(part))
}

/// Whether `text` is a full delivery id.
pub(crate) fn is_delivery_id(text: &str) -> bool {
    text.matches('.').count() == 3 && hash(&text.into()) != text
}

/// Returns the only element of `found`, the results of a search for `typed`.
pub(crate) fn only<T>(typed: &str, kind: &str, mut found: Vec<(T, String)>) -> Result<T, Failure> {
    let typed = shown(typed);
    match (found.pop(), found.is_empty()) {
        (None, _) => Err(Failure::not_found(format!("No {kind} has an id beginning with {typed}."))),
        (Some((id, _)), true) => Ok(id),
        (Some(last), false) => {
            let all: Vec<_> =
                found.iter().chain([&last]).take(MAX_CANDIDATES).map(|(_, label)| format!("\n  {label}")).collect();
            Err(Failure::ambiguous(format!("Several ids begin with {typed}:{}", all.concat()))
                .hint("Add characters until only one matches."))
        }
    }
}

/// Finds an endpoint's id by its beginning.
pub(crate) async fn endpoint(api: &Api, typed: &str) -> Result<EndpointId, Failure> {
    if is_uuid(typed) {
        return Ok(typed.to_ascii_lowercase().into());
    }
    let found = endpoints_like(&api.call(&ListEndpoints::new()).await?.webhook_endpoints, typed);
    only(typed, "endpoint", found).map_err(with_list)
}

/// Finds the given endpoint or, if none is given, the only one.
pub(crate) async fn endpoint_or_only(api: &Api, typed: Option<&str>) -> Result<EndpointId, Failure> {
    if let Some(typed) = typed {
        return endpoint(api, typed).await;
    }
    let mut endpoints = api.call(&ListEndpoints::new()).await?.webhook_endpoints;
    match (endpoints.pop(), endpoints.is_empty()) {
        (Some(only), true) => Ok(only.webhook_endpoint_id),
        (None, _) => Err(Failure::not_found("The organization has no endpoint.")
            .hint("Create one with `fanfare endpoints create URL`.")),
        (Some(_), false) => {
            Err(Failure::ambiguous("The organization has several endpoints.").hint("Choose one with --endpoint."))
        }
    }
}

/// Finds an endpoint, with its settings.
pub(crate) async fn whole_endpoint(api: &Api, typed: &str) -> Result<Endpoint, Failure> {
    let endpoints = api.call(&ListEndpoints::new()).await?.webhook_endpoints;
    let id = only(typed, "endpoint", endpoints_like(&endpoints, typed)).map_err(with_list)?;
    let found = endpoints.into_iter().find(|endpoint| endpoint.webhook_endpoint_id == id);
    found.ok_or_else(|| Failure::not_found("Endpoint not found."))
}

fn with_list(failure: Failure) -> Failure {
    match failure.is_not_found() {
        true => failure.hint("`fanfare endpoints list` shows the ids."),
        false => failure,
    }
}

/// Finds an endpoint's id if the command names one.
pub(crate) async fn optional_endpoint(api: &Api, typed: Option<&str>) -> Result<Option<EndpointId>, Failure> {
    match typed {
        Some(typed) => endpoint(api, typed).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the endpoints whose ids begin with `typed`, each with a one-line description.
pub(crate) fn endpoints_like(endpoints: &[Endpoint], typed: &str) -> Vec<(EndpointId, String)> {
    let typed = typed.to_ascii_lowercase();
    let is_meant =
        |endpoint: &&Endpoint| !typed.is_empty() && endpoint.webhook_endpoint_id.as_str().starts_with(&typed);
    let line = |endpoint: &Endpoint| {
        let id = &endpoint.webhook_endpoint_id;
        (id.clone(), format!("{}  {}", cell(id), label(endpoint)))
    };
    endpoints.iter().filter(is_meant).map(line).collect()
}

/// Returns an endpoint's display name: its URL or, without one, its description.
pub(crate) fn label(endpoint: &Endpoint) -> String {
    match (&endpoint.url, &endpoint.description) {
        (Some(url), _) => cell(url),
        (None, Some(description)) => format!("(pull) {}", cell(description)),
        (None, None) => "(pull)".to_owned(),
    }
}

/// Finds a delivery by its id, the beginning of its short id, or its `webhook-id`.
pub(crate) async fn delivery(api: &Api, typed: &str) -> Result<DeliveryId, Failure> {
    if is_delivery_id(typed) {
        return Ok(typed.into());
    }
    only(typed, "delivery", deliveries_like(api, typed).await?).map_err(|failure| match failure.is_not_found() {
        true => failure.hint(format!(
            "The newest {SEARCHED_DELIVERIES} deliveries were searched. For older ones, pass the full id, from `fanfare \
             --json deliveries list`, a whole webhook-id, or --job."
        )),
        false => failure,
    })
}

/// Searches the newest deliveries for short ids that begin with `typed`. Returns the matches, each with a one-line
/// description.
pub(crate) async fn deliveries_like(api: &Api, typed: &str) -> Result<Vec<(DeliveryId, String)>, Failure> {
    let typed = typed.strip_prefix(WEBHOOK).unwrap_or(typed).to_ascii_lowercase();
    let (mut found, mut searched) = (Vec::new(), 0);
    if !is_hex(&typed) {
        return Ok(found);
    }
    // A whole id is found at any age.
    let whole = (typed.len() == HASH_LENGTH).then(|| format!("{WEBHOOK}{typed}").into());
    let mut call = ListDeliveries { limit: Some(MAX_PAGE_SIZE), webhook_id: whole, ..ListDeliveries::new() };
    while call.webhook_id.is_some() || searched < SEARCHED_DELIVERIES {
        let page = api.call(&call).await?;
        searched += MAX_PAGE_SIZE;
        let meant = page.deliveries.iter().filter(|delivery| hash(&delivery.delivery_id).starts_with(&typed));
        found.extend(meant.map(|delivery| {
            let Delivery { delivery_id, created_at, job_id, .. } = delivery;
            let line = format!("{}  {}  {}", cell(delivery_id), clock::short(created_at), cell(job_id));
            (delivery_id.clone(), line)
        }));
        if page.next_cursor.is_none() || (typed.len() >= UNIQUE_LENGTH && !found.is_empty()) {
            break;
        }
        call.cursor = page.next_cursor;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ids_are_as_long_as_they_must_be() {
        let ids = ["01a1fd8f-0d9d-7467-9431-944eedd69c67", "01a1fd8f-0d9e-7467-9431-944eedd69c67"];
        assert_eq!(length(ids.into_iter()), 13);
        assert_eq!(length(ids.into_iter().take(1)), MIN_SHORT_ID_LENGTH);
        assert_eq!(length(["0123456789", "0123456789"].into_iter()), MIN_SHORT_ID_LENGTH, "one delivery twice");
        assert_eq!(length([].into_iter()), MIN_SHORT_ID_LENGTH);
        let id = "callback.3.1769860800999.0123456789abcdef0123456789abcdef".into();
        assert_eq!(short_delivery(&id), "01234567");
        assert_eq!(Shortener { length: 9 }.short(ids[0]), "01a1fd8f");
        assert_eq!(Shortener { length: 9 }.delivery(&id), "012345678");
        assert_eq!(short_delivery(&"another\u{1b}form".into()), "another\u{FFFD}");
    }

    #[test]
    fn full_ids_are_recognized() {
        assert!(is_uuid("01a1fd8f-0d9d-7467-9431-944eedd69c67"));
        assert!(is_delivery_id("callback.3.1769860800999.0123456789abcdef0123456789abcdef"));
        for other in ["", "01a1fd8f", "01a1fd8f-0d9d-7467-9431-944eedd69c6x", "callback.3.1.0123", "-----"] {
            assert!(!is_uuid(other) && !is_delivery_id(other), "{other}");
        }
    }

    #[test]
    fn an_ambiguous_id_lists_its_candidates() {
        let found = || vec![(1, "01 one".to_owned()), (2, "02 two".to_owned())];
        let failure = only("0", "endpoint", found()).expect_err("two");
        assert_eq!(
            (failure.exit_code(), failure.to_string().as_str()),
            (1, "Several ids begin with 0:\n  01 one\n  02 two")
        );
        assert_eq!(only("01", "endpoint", found()[..1].to_vec()).expect("one"), 1);
        assert_eq!(only::<u8>("3", "endpoint", Vec::new()).expect_err("none").exit_code(), 4);
    }
}
