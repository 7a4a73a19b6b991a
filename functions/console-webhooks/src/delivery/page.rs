//! A delivery's page.

use std::time::Duration;

use common::{
    error::{Error, Result},
    http::{
        DID, FormValues,
        page::{Form, Page, TICKED, alert, visible},
    },
    id::{EndpointId, TenantId},
    presentation::{docs::RECEIVING, times},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, DeliveryId, Status, Trigger, error_name},
        endpoints::{Endpoint, EndpointView, Gate},
        event::EventName,
    },
};
use maud::{Markup, html};

use super::{
    attempts::time_line,
    content::{body, erasure},
    request::Requests,
};
use crate::{
    app::App,
    deliveries::{deleted, destination, short, subject, titled},
    diagnosis,
    endpoint::gone,
    live_updates,
    numbers::{is_fetched, is_gone},
    states,
};

pub(super) const ID: (&str, &str) = ("id", "The id of the delivery.");
pub(super) const CONFIRM: (&str, &str) =
    ("confirm", "`resend` shows the button for resending the delivery, even if the receiver asked to stop deliveries.");
const NOT_FOUND: Error = Error::NotFound("Delivery not found. It may have expired from the log");
/// The time for which a due attempt is shown as in progress.
const IN_PROGRESS_TIME: Duration = Duration::from_mins(1);
/// The time after a resend in which a link may show the confirmation.
const CONFIRMATION_TIME: Duration = Duration::from_mins(1);

/// The delivery in the path.
pub(super) fn id(typed: &FormValues) -> Result<DeliveryId> {
    DeliveryId::parse(typed.get("id")).map_err(|_not_an_id| NOT_FOUND)
}

/// A delivery's endpoint, unless it has been deleted, or the delivery is a job's callback.
pub(super) async fn endpoint(app: &App, tenant: &TenantId, id: &DeliveryId) -> Result<Option<EndpointView>> {
    match id.destination.endpoint() {
        Some(endpoint) => existing(app.endpoints.view(tenant, endpoint).await),
        None => Ok(None),
    }
}

/// The endpoint with its secrets, which the signatures need.
async fn signing(app: &App, tenant: &TenantId, id: &DeliveryId) -> Result<Option<Endpoint>> {
    match id.destination.endpoint() {
        Some(endpoint) => app.endpoints.find(tenant, endpoint).await,
        None => Ok(None),
    }
}

/// The endpoint that a notice is about, if the delivery is a notice and the endpoint exists.
async fn notice_about(app: &App, tenant: &TenantId, delivery: &Delivery) -> Result<Option<EndpointView>> {
    let is_notice = !delivery.event.is_of_a_job() && delivery.event != EventName::Test;
    match EndpointId::parse(&delivery.job_id).ok().filter(|_| is_notice) {
        Some(id) => existing(app.endpoints.view(tenant, id).await),
        None => Ok(None),
    }
}

fn existing(found: Result<EndpointView>) -> Result<Option<EndpointView>> {
    match found {
        Err(Error::NotFound(_)) => Ok(None),
        found => found.map(Some),
    }
}

pub(super) async fn page(
    app: &App,
    tenant: &TenantId,
    id: &DeliveryId,
    link: &FormValues,
    error: Option<Error>,
) -> Result<Page> {
    let now = Timestamp::now();
    let console = app.console(tenant, "/console/deliveries");
    let (console, (delivery, payload), endpoint, signing) = tokio::try_join!(
        console,
        app.log.visible(tenant, id, now),
        endpoint(app, tenant, id),
        signing(app, tenant, id)
    )?;
    let mut attempts = app.log.earlier_attempts(tenant, &delivery).await?;
    // Even a delivery that failed without an attempt has a last attempt, which contains the reason.
    attempts.extend(delivery.last_attempt.clone());
    let told = notice_about(app, tenant, &delivery).await?;
    let about_what = subject(&delivery, |_| told.as_ref().map(|endpoint| short(&endpoint.name())));
    let about_what = if delivery.event.is_of_a_job() { short(&delivery.job_id) } else { about_what };
    let requests = Requests {
        delivery: &delivery,
        payload: payload.as_ref(),
        endpoint: signing.as_ref(),
        changed_at: endpoint.as_ref().map(|endpoint| endpoint.updated_at),
    };
    let is_changing = delivery.status == Status::Pending && !is_deleted(&delivery, endpoint.as_ref());
    let is_live = live_updates::is_wanted(link);
    let content = html! {
        @if let Some(error) = &error { (alert(error)) }
        @if link.get(DID.0) == "resent" { (resent(&delivery, now)) }
        (standing(&delivery, endpoint.as_ref(), now))
        (again(&delivery, endpoint.as_ref(), payload.is_some(), link.get(CONFIRM.0) == "resend"))
        (about(&delivery, endpoint.as_ref(), told.as_ref(), now))
        section {
            h2 { "Attempts" }
            (time_line(&requests, &attempts, is_deleted(&delivery, endpoint.as_ref()), now))
        }
        section {
            h2 { "Payload" }
            (body(requests.body().as_deref()))
            (erasure(&delivery))
        }
        p .row {
            @if let Some(endpoint) = &endpoint {
                a href=(diagnosis::path(endpoint.id)) { "Why does a signature not match?" }
            }
            a href=(RECEIVING) { "Verify the signature, and other rules for receivers" }
        }
    };
    let title = titled(&delivery, &about_what, &receiver(&delivery, endpoint.as_ref()));
    let switch = live_updates::switch(is_live, is_changing, "?live=1", "?");
    Ok(Page::new(title, content).actions(switch).refused(error).live(is_live && is_changing).within(console))
}

/// Names the destination in a heading.
fn receiver(delivery: &Delivery, endpoint: Option<&EndpointView>) -> String {
    match (endpoint, delivery.webhook_endpoint_id) {
        (None, Some(_)) => "a deleted endpoint".to_owned(),
        (None, None) => "its job's callback".to_owned(),
        (Some(_), _) => destination(delivery, endpoint),
    }
}

/// The result of a resend. It is shown only right after a resend, because anyone can create such a link.
fn resent(delivery: &Delivery, now: Timestamp) -> Markup {
    let is_resend =
        |attempt: &&Attempt| attempt.trigger == Trigger::Resend && now.since(attempt.at) < CONFIRMATION_TIME;
    let attempt = delivery.last_attempt.as_ref().filter(is_resend);
    html! {
        @match attempt {
            Some(attempt) if attempt.outcome == "delivered" => div .notice.good role="status" { p { "Resent and delivered." } },
            Some(attempt) => div .notice.bad role="status" {
                p { "Resent: " (error_name(&attempt.outcome, attempt.status_code)) "." }
            },
            None if delivery.status == Status::Pending && delivery.trigger == Trigger::Resend => {
                div .notice role="status" { p { "It is being resent." } }
            },
            None => "",
        }
    }
}

/// The status and its meaning.
fn standing(delivery: &Delivery, endpoint: Option<&EndpointView>, now: Timestamp) -> Markup {
    let is_pulled = endpoint.is_some_and(is_fetched);
    let is_inactive = endpoint.is_some_and(|endpoint| !endpoint.active);
    html! {
        p {
            (states::of_delivery(delivery.status, is_pulled))
            " "
            @match (delivery.status, delivery.next_attempt_at) {
                (Status::Pending, _) if is_deleted(delivery, endpoint) => {
                    "The endpoint was deleted. This delivery won't be retried."
                },
                (Status::Pending, Some(next)) if delivery.is_parked && now.since(next) > IN_PROGRESS_TIME => {
                    "The attempt was due " (times::when(next, now)) " and is waiting for its receiver"
                    @match endpoint.map(|endpoint| endpoint.health.gate) {
                        Some(Gate::Silent { since, .. }) => {
                            ", which has not answered since " (times::when(since, now)) ". One attempt at a time is made until it answers."
                        },
                        _ => ", which answers slowly, so few attempts run at once.",
                    }
                },
                (Status::Pending, Some(next)) if now.since(next) > IN_PROGRESS_TIME => {
                    "The attempt was due " (times::when(next, now)) " and is waiting its turn."
                },
                (Status::Pending, Some(next)) if next <= now => "An attempt is in progress or starts in a moment.",
                (Status::Pending, Some(next)) => { "Next attempt " (times::when(next, now)) "." },
                (Status::Held, _) if is_pulled => "Waiting for a client to receive it.",
                (Status::Held, _) if is_inactive => {
                    "The endpoint is disabled. This delivery won't be sent automatically."
                },
                (Status::Held, _) => {
                    "The endpoint was disabled when the event arrived. This delivery won't be sent automatically."
                },
                (Status::Failed, _) => "This delivery won't be retried automatically.",
                (Status::Ended, _) if is_deleted(delivery, endpoint) => "Canceled: its endpoint was deleted.",
                // While it waited at a pull endpoint.
                (Status::Ended, _) if delivery.erased_at.is_some() => "Canceled: it was erased.",
                // By 0.1.0.
                (Status::Ended, _) => "Canceled: its endpoint was disabled for too long.",
                _ => "",
            }
            @if delivery.event == EventName::Test { " " span .soft { "A test event: it does not count in the numbers of its endpoint." } }
        }
    }
}

/// The button that resends the delivery, or the reason why there is none.
fn again(delivery: &Delivery, endpoint: Option<&EndpointView>, is_kept: bool, is_confirmed: bool) -> Markup {
    if is_deleted(delivery, endpoint) {
        return html! { p { "This delivery cannot be resent, because its endpoint was deleted." } };
    }
    if !is_kept {
        return html! { p { "This delivery cannot be resent, because its payload is no longer stored." } };
    }
    // It waits for a client, so nothing would be sent.
    if delivery.status == Status::Held && endpoint.is_some_and(is_fetched) {
        return html! {};
    }
    let is_inactive = endpoint.is_some_and(|endpoint| !endpoint.active);
    let button = if is_inactive { "Enable endpoint and resend" } else { "Resend" };
    if endpoint.is_some_and(is_gone) && !is_confirmed {
        return html! { p { a .button href="?confirm=resend" { (button) " …" } } };
    }
    let is_gone = endpoint.is_some_and(is_gone);
    html! {
        @if is_gone { (gone("Resend")) }
        div .row {
            (Form {
                button,
                is_secondary: delivery.status == Status::Delivered,
                action: "resend",
                hidden: &[
                    ("activate", if is_inactive { TICKED } else { "" }),
                    ("sure", if is_gone { TICKED } else { "" }),
                ],
                ..Form::default()
            })
            @if is_gone { a href="?" { "Cancel" } }
        }
    }
}

/// Whether the delivery's endpoint was deleted.
fn is_deleted(delivery: &Delivery, endpoint: Option<&EndpointView>) -> bool {
    endpoint.is_none() && delivery.webhook_endpoint_id.is_some()
}

fn about(delivery: &Delivery, endpoint: Option<&EndpointView>, told: Option<&EndpointView>, now: Timestamp) -> Markup {
    html! {
        dl {
            dt { "Destination" }
            dd {
                @match (endpoint, delivery.webhook_endpoint_id) {
                    (Some(endpoint), _) => {
                        a href={ "/console/endpoints/" (endpoint.id) } { bdi .mono.clip { (visible(&endpoint.name())) } }
                        // Without a URL, the description is the name.
                        @if let Some(description) = endpoint.options.description.as_ref().filter(|_| endpoint.url.is_some()) { " " bdi .soft { (visible(description.as_str())) } }
                    },
                    (None, Some(id)) => (deleted(id)),
                    (None, None) => "Job callback",
                }
            }
            @if let Some(told) = told {
                dt { "About" }
                dd { a href={ "/console/endpoints/" (told.id) } { bdi .mono { (short(&told.name())) } } }
            } @else if delivery.event != EventName::Test {
                dt { @if delivery.event.is_of_a_job() { "Job" } @else { "About" } }
                dd { a href=(same("q", &delivery.job_id)) { bdi .mono.clip { (visible(&delivery.job_id)) } } }
            }
            @if let Some(workflow) = &delivery.workflow {
                dt { "Workflow" }
                dd { a href=(same("workflow", workflow)) { bdi .clip { (visible(workflow)) } } }
            }
            dt { "Event" }
            dd { (delivery.event.as_str()) }
            dt { "Created" }
            dd { (times::when(delivery.created_at, now)) }
            @if let Some(at) = delivery.erased_at {
                dt { "Erased" }
                dd { (times::when(at, now)) }
            }
            dt { "ID" }
            dd .mono.whole { (delivery.id) }
            dt { "Message ID (webhook-id)" }
            dd .mono.whole { (delivery.webhook_id) }
        }
    }
}

/// Returns the address of the page that lists deliveries with the same job or workflow.
fn same(filter: &str, value: &str) -> String {
    let value = url::form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>();
    format!("/console/deliveries?{filter}={value}")
}
