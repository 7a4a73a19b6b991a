//! The emails about endpoints.

use std::time::Duration;

use common::{
    accounts::mail::{EmailMessage, Part, short},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, error_meaning, error_name},
        endpoints::{DisabledReason, notice::Notice},
    },
};
use url::Url;

use crate::recipients::Addressee;

/// The deliveries whose latest attempt has failed since their endpoint began to fail.
pub(crate) struct FailedDeliveries {
    /// The number of those counted that have failed permanently.
    pub(crate) count: usize,
    /// Whether all of these were counted.
    pub(crate) is_complete: bool,
    /// The number of those counted that wait for another attempt.
    pub(crate) pending: usize,
    /// The number of failed attempts in the states of these deliveries.
    pub(crate) attempts: usize,
    /// The delivery whose attempt failed last.
    pub(crate) newest: Option<Delivery>,
}

impl FailedDeliveries {
    /// The latest attempt.
    pub(crate) fn last(&self) -> Option<&Attempt> {
        self.newest.as_ref()?.last_attempt.as_ref()
    }
}

/// The deliveries held for an endpoint.
pub(crate) struct Held {
    /// The number of deliveries counted.
    pub(crate) count: usize,
    /// Whether all deliveries were counted.
    pub(crate) is_complete: bool,
    /// New deliveries are held until this time.
    pub(crate) until: Timestamp,
}

/// Builds the email about an endpoint that is failing, has been disabled, or works again. It shows only the origin and
/// the first words of the endpoint's URL, because the rest of the path and the query may contain a credential. To a
/// recipient who has not agreed, it shows only the endpoint's id. `last_of` is set for the last email of a day.
pub(crate) fn about(
    to: Addressee<'_>,
    notice: &Notice,
    failures: &FailedDeliveries,
    held: Option<&Held>,
    disable_after: Duration,
    last_of: Option<Timestamp>,
) -> EmailMessage {
    let name = if to.has_agreed { name(notice) } else { notice.endpoint.to_string() };
    let (base, organization) = (to.base, to.organization.as_str());
    let (subject, news, rest) = match notice.disabled {
        _ if notice.is_recovery() => (
            format!("Endpoint {name} works again"),
            format!("An endpoint of {organization} works again: its receiver has accepted a delivery."),
            recovered(failures).to_owned(),
        ),
        None => (
            format!("Endpoint {name} is failing"),
            format!("An endpoint of {organization} is failing: no attempt to deliver to it succeeds."),
            failing(notice, disable_after),
        ),
        Some((_, reason)) => {
            let why = match reason {
                DisabledReason::Gone => {
                    "its receiver responded with 410 Gone, which means that it wants no more \
                                         deliveries"
                }
                DisabledReason::Failing => "its deliveries failed for too long",
            };
            (
                format!("Endpoint {name} has been disabled"),
                format!("An endpoint of {organization} has been disabled, because {why}."),
                disabled(held),
            )
        }
    };
    let link = format!("{base}/console/endpoints/{}", notice.endpoint);
    let mut parts = vec![Part::Text(news), Part::Facts(facts(notice, failures, to.has_agreed)), Part::Text(rest)];
    parts.extend(last_of.map(|now| {
        Part::Text(format!(
            "This is today's last email about endpoints. The console shows those that fail, are disabled or work again \
             until {}.",
            now.next_day().readable()
        ))
    }));
    parts.extend(to.links("View endpoint", link));
    let why = to.why("Owners can change the address in the settings.");
    EmailMessage::unrequested(&subject, &parts, why, to.page)
}

/// Returns the name of an endpoint for an email's subject: its description, the beginning of its URL without the scheme,
/// and the end of its id. Email programs put emails with the same subject into one conversation, and the rest of the
/// URL may be a credential.
fn name(notice: &Notice) -> String {
    let address = notice.method.url().map(|url| short(rest(&address(url.url()))));
    let description = notice.description.as_ref().map(|text| short(text.as_str()));
    let id = notice.endpoint.to_string();
    let end = id.get(id.len().saturating_sub(ID_END_LENGTH)..).unwrap_or(&id);
    match (description, address) {
        (Some(description), Some(address)) => format!("{description} ({address}, …{end})"),
        (Some(name), None) | (None, Some(name)) => format!("{name} (…{end})"),
        (None, None) => id,
    }
}

/// The number of characters from the end of an endpoint's id that the subject shows. The end of an id is random.
const ID_END_LENGTH: usize = 6;

fn rest(address: &str) -> &str {
    address.split_once("://").map_or(address, |(_, rest)| rest)
}

/// The maximum number of path segments that an email shows.
const MAX_SEGMENTS: usize = 3;

/// Returns a URL's origin and the first segments of its path, up to one that may be a credential:
/// `https://example.com/orders/…`.
fn address(url: &Url) -> String {
    let mut address = url.origin().ascii_serialization();
    let segments: Vec<_> = url.path_segments().into_iter().flatten().filter(|segment| !segment.is_empty()).collect();
    let words = segments.iter().take(MAX_SEGMENTS).take_while(|segment| is_word(segment));
    words.clone().for_each(|word| address.extend(["/", word]));
    if words.count() < segments.len() {
        address.push_str("/…");
    }
    address
}

/// Whether a segment looks like a word: lower-case letters with a few digits. Credentials have capitals or many digits,
/// or are long.
fn is_word(segment: &str) -> bool {
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    let is_plain = segment.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'));
    is_plain && digits <= 2 && segment.len() <= 20
}

fn recovered(failures: &FailedDeliveries) -> &'static str {
    match failures.count {
        0 => "No failed deliveries are left. Pending deliveries are sent at their next attempts.",
        _ => "Failed deliveries are not resent automatically. To resend them, open the endpoint's page.",
    }
}

/// Describes what happens while the endpoint is failing, and when it will be disabled.
fn failing(notice: &Notice, disable_after: Duration) -> String {
    let end =
        notice.health.first_failed_at.filter(|_| !disable_after.is_zero()).map(|since| since.after(disable_after));
    let end = end.map_or_else(String::new, |end| {
        let end = end.readable();
        format!(
            " If no delivery succeeds, the first delivery that fails permanently after {end} disables the endpoint."
        )
    });
    format!(
        "Pending deliveries are retried, new events are still sent, and we email you when a delivery succeeds. Failed \
         deliveries are not resent automatically. To see the receiver's latest response and to resend them, open the \
         endpoint's page.{end}"
    )
}

/// Describes the effect of being disabled, and how to enable the endpoint.
fn disabled(held: Option<&Held>) -> String {
    let effect = held.map_or_else(|| NOT_COLLECTED.to_owned(), effect);
    format!(
        "{effect}\nFix the receiver, then enable the endpoint on its page. There you can also resend its failed and held \
         deliveries, which are not sent automatically."
    )
}

/// The effect of being disabled if new events are not kept.
const NOT_COLLECTED: &str =
    "While the endpoint is disabled, new events are neither sent nor kept. Pending deliveries are held.";

/// Describes the effect of being disabled if new events are kept.
fn effect(held: &Held) -> String {
    let Held { count, is_complete, until } = held;
    let until = until.readable();
    let count = match count {
        _ if !is_complete => "more than 1,000 deliveries are held".to_owned(),
        0 => "no deliveries are held".to_owned(),
        1 => "1 delivery is held".to_owned(),
        count => format!("{count} deliveries are held"),
    };
    format!(
        "While the endpoint is disabled, nothing is sent to it. Until {until}, new and pending deliveries are held \
         instead; later events are not kept. So far, {count}."
    )
}

/// The status of a receiver that accepts no body of this size.
const TOO_LARGE: u16 = 413;

fn facts(notice: &Notice, failures: &FailedDeliveries, has_agreed: bool) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if has_agreed {
        facts.extend(notice.description.as_ref().map(|text| ("Description", text.as_str().to_owned())));
        let address = notice.method.url().map_or_else(|| "none (pull endpoint)".to_owned(), |url| address(url.url()));
        facts.push(("Address", address));
    }
    facts.push(("Endpoint ID", notice.endpoint.to_string()));
    let since = notice.failing_since.or(notice.health.told_since.filter(|_| notice.is_recovery()));
    facts.extend(since.map(|since| ("First failed attempt", since.readable())));
    facts.extend(notice.health.first_failed_at.map(|since| ("First permanent failure", since.readable())));
    facts.extend(notice.disabled.map(|(at, _)| ("Disabled", at.readable())));
    if notice.is_recovery() {
        facts.extend(notice.health.healthy_at.map(|at| ("Works since", at.readable())));
        let number = number(failures, failures.count);
        facts.push(("Failed deliveries", if failures.count == 0 { number } else { format!("{number} can be resent") }));
        return facts;
    }
    // The index may not contain the newest failures yet.
    let known = notice.health.streak.map_or(1, |streak| usize::try_from(streak.attempts).unwrap_or(usize::MAX));
    facts.push(("Failed attempts", format!("{} or more", failures.attempts.max(known))));
    if failures.pending > 0 {
        facts.push(("Pending deliveries", format!("{} or more", failures.pending)));
    }
    if notice.health.first_failed_at.is_some() {
        facts.push(("Failed deliveries", format!("{} or more", failures.count.max(1))));
    }
    if let Some(newest) = &failures.newest {
        if has_agreed && newest.event.is_of_a_job() {
            facts.push(("Last failed job", short(&newest.job_id)));
            facts.extend(newest.workflow.as_ref().map(|workflow| ("Workflow", short(workflow))));
        }
        facts.push(("Last failed delivery", newest.id.to_string()));
    }
    facts.extend(failures.last().map(|last| {
        let name = error_name(&last.outcome, last.status_code);
        // If the receiver responded, the detail may contain a URL with a credential. Only that of a body that is too large
        // never does.
        let is_ours = last.status_code.is_none_or(|status| status == TOO_LARGE);
        let detail = last.detail.as_ref().filter(|_| is_ours);
        let meaning = error_meaning(&last.outcome, detail);
        ("Last error", format!("{name}. {meaning}"))
    }));
    facts
}

fn number(failures: &FailedDeliveries, count: usize) -> String {
    format!("{}{count}", if failures.is_complete { "" } else { "at least " })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_deliveries_are_held_even_if_new_events_are_not() {
        let text = disabled(None);
        assert!(text.contains("Pending deliveries are held.") && text.contains("failed and held"), "{text}");
    }

    #[test]
    fn an_address_has_no_part_that_may_be_a_credential() {
        for (url, shown) in [
            ("https://example.com", "https://example.com"),
            ("https://example.com:8443/billing/hook?token=canary", "https://example.com:8443/billing/hook"),
            ("https://example.com/v1/orders/eu/hook", "https://example.com/v1/orders/eu/…"),
            ("https://hooks.example.com/services/T024/B062/canary", "https://hooks.example.com/services/…"),
            ("https://example.com/hook/8f3a9c2e", "https://example.com/hook/…"),
            ("https://example.com/abcdefghijklmnopqrstuvwxyz", "https://example.com/…"),
            ("https://example.com/%E2%82%AC", "https://example.com/…"),
        ] {
            assert_eq!(address(&Url::parse(url).expect("a URL")), shown);
        }
    }
}
