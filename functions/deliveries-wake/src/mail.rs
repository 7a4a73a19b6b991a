//! The emails of notices.

use std::time::Duration;

use common::{
    accounts::mail::{Mail, Part},
    base_url::BaseUrl,
    id::EndpointId,
    name::Name,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, error_meaning, error_name},
        endpoints::{DisabledReason, notice::Notice},
    },
};
use serde_json::{Value, json};
use text::Untrusted;

/// The deliveries to an endpoint that have failed since it began to fail.
pub(crate) struct FailedDeliveries {
    /// The number of deliveries counted.
    pub(crate) count: usize,
    /// Whether all of them were counted.
    pub(crate) is_complete: bool,
    /// A lower bound of their creation times.
    pub(crate) oldest: Timestamp,
    /// The latest attempt.
    pub(crate) last: Option<Attempt>,
}

/// The deliveries held for an endpoint.
pub(crate) struct Held {
    /// The number of deliveries counted.
    pub(crate) count: usize,
    /// Whether all of them were counted.
    pub(crate) is_complete: bool,
    /// A lower bound of their creation times, if there are any.
    pub(crate) oldest: Option<Timestamp>,
    /// The time until which the endpoint collects deliveries.
    pub(crate) until: Timestamp,
}

/// The email that an endpoint is failing, or that it has been disabled. It contains only the origin of the URL, since
/// the path or the query may be a credential.
pub(crate) fn about(
    base: &BaseUrl,
    organization: &Name,
    notice: &Notice,
    failures: &FailedDeliveries,
    held: Option<&Held>,
    disable_after: Duration,
) -> Mail {
    let (id, organization) = (notice.endpoint, organization.as_str());
    let list = json!({"json": {"webhook_endpoint_id": id, "status": "failed"}});
    let oldest = held.and_then(|held| held.oldest).map_or(failures.oldest, |oldest| oldest.min(failures.oldest));
    let recover = json!({"json": {"webhook_endpoint_id": id, "since": oldest}});
    let see = format!(
        "To see the failed deliveries, call POST /v1/deliveries/list with\n{list}\nPOST /v1/deliveries/get shows the \
         receiver's response to each attempt."
    );
    let (subject, news, rest) = match notice.disabled {
        None => {
            let news = "is failing: deliveries to it failed after all their attempts.";
            ("A webhook endpoint is failing", news, failing(notice, see, &recover, disable_after).to_vec())
        }
        Some((_, DisabledReason::Gone)) => {
            let news = "has been disabled: its receiver answered 410 Gone, which asks for no more deliveries.";
            (DISABLED, news, disabled(id, see, &recover, held).to_vec())
        }
        Some((_, DisabledReason::Failing)) => {
            let news = "has been disabled because its deliveries failed for too long.";
            (DISABLED, news, disabled(id, see, &recover, held).to_vec())
        }
    };
    let mut parts = vec![
        Part::Text("Hello,".to_owned()),
        Part::Text(format!("A webhook endpoint of {organization} {news}")),
        Part::Text(facts(notice, failures)),
        Part::Text("To see its failed deliveries and recover them, open the endpoint's page:".to_owned()),
        Part::Link(format!("{base}/console/endpoints/{id}")),
        Part::Text("You can also use the API.".to_owned()),
    ];
    parts.extend(rest.into_iter().map(Part::Text));
    Mail::new(subject, &parts)
}

const DISABLED: &str = "A webhook endpoint has been disabled";

/// The use of the API while the endpoint is failing, and the end of this state. `see` lists the failed deliveries.
fn failing(notice: &Notice, see: String, recover: &Value, disable_after: Duration) -> [String; 3] {
    let recover =
        format!("Once the receiver works again, call POST /v1/deliveries/recover to recover them, with\n{recover}");
    let end = notice.failing_since.filter(|_| !disable_after.is_zero()).map(|since| since.after(disable_after));
    let end = end.map_or_else(String::new, |end| {
        let end = end.readable();
        format!(" If no delivery succeeds, the first delivery that fails after {end} disables the endpoint.")
    });
    let outlook = format!("New events are still sent. The first successful delivery ends this state.{end}");
    [see, recover, outlook]
}

/// The effect of being inactive, and the use of the API to end it. `see` lists the failed deliveries.
fn disabled(id: EndpointId, see: String, recover: &Value, held: Option<&Held>) -> [String; 4] {
    let update = json!({"json": {"id": id, "active": true}});
    let activate = format!("To enable it again, call POST /v1/webhooks/update with\n{update}");
    let (effect, kind) = match held {
        None => (NOTHING_HELD.to_owned(), "failed"),
        Some(held) => (effect(held), "failed and held"),
    };
    let recover = format!(
        "This does not resend any deliveries. Once the endpoint is active, call POST /v1/deliveries/recover to \
         recover its {kind} deliveries, with\n{recover}"
    );
    [effect, see, activate, recover]
}

/// The effect of being inactive if deliveries are not held.
const NOTHING_HELD: &str = "While it is inactive, events for it are neither sent nor kept. Deliveries that were \
                            waiting for another attempt are canceled.";

/// The effect of being inactive if deliveries are held.
fn effect(held: &Held) -> String {
    let Held { count, is_complete, until, .. } = held;
    let until = until.readable();
    let count = match count {
        _ if !is_complete => "more than 1,000 deliveries are held".to_owned(),
        1 => "1 delivery is held".to_owned(),
        count => format!("{count} deliveries are held"),
    };
    format!(
        "While it is inactive, nothing is sent to it. Until {until}, new deliveries are held instead, and so are the \
         deliveries that were waiting for another attempt; later events are not kept for it. So far, {count}. Held \
         deliveries stay in the delivery log for its retention time, and are not sent automatically."
    )
}

fn facts(notice: &Notice, failures: &FailedDeliveries) -> String {
    let mut facts = vec![
        format!("Endpoint: {}", notice.endpoint),
        match notice.address.url() {
            Some(url) => format!("Address: {}", url.url().origin().ascii_serialization()),
            None => "Address: none (pull endpoint)".to_owned(),
        },
    ];
    let description = notice.description.as_ref().map(|text| Untrusted::new(text.as_str()).mail_line());
    facts.extend(description.map(|text| format!("Description: {text}")));
    facts.extend(notice.failing_since.map(|since| format!("Failing since: {}", since.readable())));
    facts.extend(notice.disabled.map(|(at, _)| format!("Disabled: {}", at.readable())));
    // The index may not contain the first failure yet.
    let (count, bound) = (failures.count.max(1), if failures.is_complete { "" } else { "at least " });
    facts.push(format!("Failed deliveries since then: {bound}{count}"));
    facts.extend(failures.last.as_ref().map(|last| {
        let name = error_name(&last.outcome, last.status_code);
        // An email has no URL from a receiver, since mail programs turn URLs into links.
        let detail = last.detail.as_ref().filter(|_| last.status_code.is_none());
        let meaning = error_meaning(&last.outcome, detail);
        format!("Last error: {name}. {meaning}")
    }));
    facts.join("\n")
}
