//! Resends several deliveries from the list: those that are shown, or all of an endpoint's missed deliveries.

use std::sync::Arc;

use common::{
    accounts::users::User,
    audit::Recorder,
    error::{Conflict, Error, Result},
    http::{
        Call, FormValues, Reply,
        page::{Form, Page},
    },
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, DeliveryId, Status},
        endpoints::{EndpointView, Kind},
        event::EventName,
        log::{counts::Counts, search::DeliveryPage},
    },
};
use maud::{Markup, html};

use super::{
    query::{DeliveryQuery, IDS, LIMIT, PATH, address},
    table::{Of, table},
};
use crate::{app::App, chart, live_updates, numbers::counted};

pub(super) const FIELDS: [(&str, &str); 2] = [
    ("action", "The submitted form: `resend`."),
    (IDS, "The ids of the deliveries to resend, separated by spaces. At most 20."),
];

/// Whether the list's button resends a delivery: it failed or was held, its payload was not erased, and an attempt is
/// possible.
fn is_missed(delivery: &Delivery, endpoints: &[EndpointView], is_of_pending: bool) -> bool {
    let endpoint = endpoints.iter().find(|endpoint| Some(endpoint.id) == delivery.webhook_endpoint_id);
    let is_pull = endpoint.is_some_and(|endpoint| endpoint.kind == Kind::Pull);
    // Failed tests are not counted as missed, so the button shows the same number as the tab.
    if delivery.event == EventName::Test || delivery.erased_at.is_some() {
        return false;
    }
    let can_arrive = endpoint.map_or(delivery.webhook_endpoint_id.is_none(), |endpoint| endpoint.active);
    match delivery.status {
        Status::Failed => can_arrive,
        // A pull endpoint's held deliveries are waiting for a client.
        Status::Held => can_arrive && !is_pull,
        // On the list of pending deliveries, the button sends those waiting for a retry.
        Status::Pending if is_of_pending => can_arrive && !is_pull && delivery.attempts > 0,
        Status::Pending | Status::Delivered | Status::Ended => false,
    }
}

/// The button that resends the shown deliveries that failed or were held.
pub(super) fn these(deliveries: &[Delivery], endpoints: &[EndpointView], status: &str) -> Markup {
    let is_of_pending = status == "pending";
    let missed: Vec<_> = deliveries.iter().filter(|delivery| is_missed(delivery, endpoints, is_of_pending)).collect();
    let ids: Vec<_> = missed.iter().map(|delivery| delivery.id.to_string()).collect();
    let has = |status| missed.iter().any(|delivery| delivery.status == status);
    let kind = match (has(Status::Failed), has(Status::Held)) {
        (true, true) => "failed or held ",
        (true, false) => "failed ",
        (false, true) => "held ",
        (false, false) => "pending ",
    };
    let verb = if is_of_pending { "Retry" } else { "Resend" };
    let is_of_missed = matches!(status, "failed" | "held");
    let left =
        deliveries.iter().filter(|_| is_of_missed).filter(|delivery| is_of_inactive(delivery, endpoints)).count();
    let these = counted(missed.len(), &format!("{kind}delivery"), &format!("{kind}deliveries"));
    html! {
        @if !missed.is_empty() {
            (Form {
                to: PATH,
                button: &format!("{verb} these {these}").replace("these 1 ", "1 "),
                is_secondary: true,
                action: "resend",
                hidden: &[(IDS, &ids.join(" "))],
                ..Form::default()
            })
        }
        @if left > 0 {
            span .soft {
                (counted(left, "delivery on this page is", "deliveries on this page are"))
                " for disabled endpoints. To resend, enable the endpoint first."
            }
        }
    }
}

/// Whether a delivery failed or was held, and its endpoint is disabled.
fn is_of_inactive(delivery: &Delivery, endpoints: &[EndpointView]) -> bool {
    let is_open = matches!(delivery.status, Status::Failed | Status::Held);
    is_open && endpoints.iter().any(|endpoint| Some(endpoint.id) == delivery.webhook_endpoint_id && !endpoint.active)
}

/// The link to the page that counts and resends all missed deliveries of the selected endpoint, if this page does not
/// show all of them.
pub(super) fn all(
    link: &FormValues,
    wanted: Option<&DeliveryQuery>,
    found: &DeliveryPage,
    endpoints: &[EndpointView],
    now: Timestamp,
) -> Markup {
    let Some(DeliveryQuery { endpoint: Some(endpoint), filter, cursor }) = wanted else { return html! {} };
    let status = link.get("status");
    let is_more = found.next.is_some() || cursor.is_some();
    let exists = endpoints.iter().any(|known| known.id == *endpoint);
    if !exists || filter.is_beyond_the_index() || !is_more || !matches!(status, "failed" | "held" | "pending") {
        return html! {};
    }
    let since = filter.since.map_or_else(|| "2026-01-01T00:00".to_owned(), |since| since.to_string());
    let until = filter.until.unwrap_or(now);
    html! {
        a href={ "/console/endpoints/" (endpoint) "?confirm=recover&activate=yes&status=" (status) "&since=" (since) "&until=" (until) } {
            @if status == "pending" { "Retry" } @else { "Resend" } " all " (status) " deliveries of this endpoint"
        }
    }
}

/// Resends the deliveries in the form and shows those that were resent. The others remain unchanged.
pub(super) async fn resend(app: Arc<App>, call: Call<User, Recorder>, form: FormValues) -> Result<Reply> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let ids = ids(&form);
    let mut sent = Vec::new();
    for id in &ids {
        match app.log.resend(&call.recorder, tenant, id, None, now).await {
            Ok(delivery) => {
                app.queue.wake(tenant, &delivery, now).await;
                sent.push((*id, delivery.attempts));
            }
            Err(Error::NotFound(_) | Error::Conflict(Conflict::PayloadNotKept)) => {}
            Err(error) => return Err(error),
        }
    }
    app.wait_for_attempts(tenant, &sent).await?;
    let ids: Vec<_> = sent.iter().map(|(id, _)| id.to_string()).collect();
    // Without a value, the link would show the list.
    let ids = if ids.is_empty() { "none".to_owned() } else { ids.join(" ") };
    Ok(Reply::redirect(address(&form, &[(IDS, &ids)])))
}

/// The page that lists the resent deliveries, in their current state.
pub(super) async fn chosen(app: &App, tenant: &TenantId, link: &FormValues, now: Timestamp) -> Result<Page> {
    let ids = ids(link);
    let console = app.console(tenant, PATH);
    let (endpoints, console, known) =
        tokio::try_join!(app.endpoints.list(tenant), console, app.log.readable(tenant, &ids))?;
    let mut deliveries: Vec<_> = known.into_values().collect();
    deliveries.sort_by_key(|delivery| std::cmp::Reverse(delivery.created_at));
    let mut counts = Counts::default();
    for delivery in &deliveries {
        match delivery.status {
            Status::Pending => counts.pending += 1,
            Status::Delivered => counts.delivered += 1,
            Status::Failed => counts.failed += 1,
            Status::Held => counts.held += 1,
            Status::Ended => counts.ended += 1,
        }
    }
    let (is_live, is_changing) = (live_updates::is_wanted(link), counts.pending > 0);
    let [on, off] =
        [&[(IDS, link.get(IDS)), ("live", "1")][..], &[(IDS, link.get(IDS))]].map(|other| address(link, other));
    let content = html! {
        div .notice role="status" {
            @if deliveries.is_empty() {
                p {
                    strong { "None of these deliveries was resent" }
                    ": they or their payloads are no longer stored, or they belong to another organization."
                }
            } @else {
                p { strong { (counted(deliveries.len(), "resent delivery", "resent deliveries")) ": " (chart::summary(counts)) "." } }
            }
            @if is_changing {
                p { "Pending deliveries are being sent. " a href=(off) { "Refresh" } }
            }
        }
        p { a href=(PATH) { "All deliveries" } }
        @if !deliveries.is_empty() { (table(&deliveries, &endpoints, Of::AllEndpoints, "", now)) }
    };
    let switch = live_updates::switch(is_live, is_changing, &on, &off);
    Ok(Page::new("Resent deliveries", content).actions(switch).live(is_live && is_changing).within(console))
}

/// The valid ids in a form or a link.
fn ids(form: &FormValues) -> Vec<DeliveryId> {
    form.get(IDS).split(' ').filter_map(|id| DeliveryId::parse(id).ok()).take(LIMIT).collect()
}
