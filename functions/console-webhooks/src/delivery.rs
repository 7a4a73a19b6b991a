//! The page of a delivery: its status, attempts, payload and headers.

use std::sync::Arc;

use common::{
    accounts::users::User,
    error::{Conflict, Error, Result},
    http::{
        Call, Fault, People, Reason, Reply, Route, Typed, VerifiedPerson,
        page::{Form, Page, alert, pretty, visible},
    },
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, DeliveryId, Status, Trigger, error_meaning},
        endpoints::{EndpointView, Kind},
    },
};
use maud::{Markup, html};

use crate::{app::App, states, times};

const PATH: &str = "/console/deliveries/{id}";
const NOT_FOUND: Error = Error::NotFound("Delivery not found. It may have expired from the log");
/// The maximum number of bytes of a payload that are shown. A response of Lambda has at most 6 MB, and line breaks and
/// escapes multiply a payload.
const SHOWN_BYTES: usize = 64 * 1024;
/// The same limit after adding line breaks and indentation.
const PRETTY_BYTES: usize = 256 * 1024;

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[("id", "The id of the delivery.")])), open)
        .summary("Shows a delivery with its payload and its attempts. Opening the page changes nothing.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[("id", "The id of the delivery.")])), resend)
        .summary("Resends the delivery, as `deliveries/resend` does, and shows the result.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound, Fault::Conflict(Reason::PayloadNotKept)])
        .redirects()
}

async fn open(app: Arc<App>, call: Call<User>, link: Typed) -> Result<Page> {
    page(&app, &call.caller.organization, &id(&link)?, None).await
}

async fn resend(app: Arc<App>, call: Call<User>, form: Typed) -> Result<Reply> {
    let (tenant, id, now) = (&call.caller.organization, id(&form)?, Timestamp::now());
    let delivery = match app.log.resend(tenant, &id, Trigger::Resend, now, None, now).await {
        Err(error @ Error::Conflict(Conflict::PayloadNotKept)) => {
            return Ok(page(&app, tenant, &id, Some(error)).await?.into());
        }
        delivery => delivery?,
    };
    app.queue.wake(tenant, &delivery, now).await;
    app.wait_for_attempt(tenant, &id, delivery.attempts).await?;
    Ok(Reply::Redirect { to: format!("/console/deliveries/{id}"), cookies: Vec::new() })
}

fn id(typed: &Typed) -> Result<DeliveryId> {
    DeliveryId::parse(typed.get("id")).map_err(|_not_an_id| NOT_FOUND)
}

async fn page(app: &App, tenant: &TenantId, id: &DeliveryId, error: Option<Error>) -> Result<Page> {
    let now = Timestamp::now();
    let console = app.console(tenant, "/console/deliveries");
    let endpoint = async {
        match id.destination.endpoint() {
            Some(endpoint) => app.endpoints.view(tenant, endpoint).await.map(Some).or_else(|error| match error {
                Error::NotFound(_) => Ok(None),
                error => Err(error),
            }),
            None => Ok(None),
        }
    };
    let (console, (delivery, payload), endpoint) =
        tokio::try_join!(console, app.log.visible(tenant, id, now), endpoint)?;
    let mut attempts = app.log.earlier_attempts(tenant, &delivery).await?;
    // A delivery that failed without an attempt still has a last attempt, with the reason.
    attempts.extend(delivery.last_attempt.clone());
    let payload = payload.map(|payload| String::from_utf8_lossy(&payload.body).into_owned());
    let content = html! {
        @if let Some(error) = &error { (alert(error)) }
        (standing(&delivery, endpoint.as_ref(), payload.is_some(), now))
        (about(&delivery, endpoint.as_ref(), now))
        section {
            h2 { "Attempts" }
            (time_line(&delivery, &attempts, is_deleted(&delivery, endpoint.as_ref()), now))
        }
        section {
            h2 { "Payload" }
            (body(payload.as_deref()))
        }
        section {
            h2 { "Headers" }
            (headers(&delivery, endpoint.as_ref()))
        }
    };
    let title = format!("{}, {}", delivery.event.as_str(), delivery.created_at.readable());
    Ok(Page::new(title, content).refused(error).within(console))
}

/// The status, and the button that resends the delivery.
fn standing(delivery: &Delivery, endpoint: Option<&EndpointView>, can_resend: bool, now: Timestamp) -> Markup {
    let is_pulled = endpoint.is_some_and(|endpoint| endpoint.active && endpoint.kind == Kind::Pull);
    let is_deleted = is_deleted(delivery, endpoint);
    html! {
        div .row {
            p {
                (states::of_delivery(delivery.status))
                " "
                @match (delivery.status, delivery.next_attempt_at) {
                    (Status::Pending, _) if is_deleted => "Its endpoint was deleted. It won't be retried.",
                    (Status::Pending, Some(next)) if next <= now => "An attempt is in progress or starts in a moment.",
                    (Status::Pending, Some(next)) => { "Next attempt " (times::when(next, now)) "." },
                    (Status::Held, _) if is_pulled => "It waits for a client to receive it.",
                    (Status::Held, _) => "The endpoint was inactive. It won't be sent automatically.",
                    (Status::Failed, _) => "It won't be retried automatically.",
                    (Status::Ended, _) => "Canceled: the endpoint was deleted, or was inactive for too long.",
                    _ => "",
                }
            }
            @if delivery.status == Status::Pending && !is_deleted { a href="?" { "Refresh" } }
        }
        @if is_deleted { p { "It cannot be resent: its endpoint was deleted." } } @else if can_resend {
            (Form {
                button: "Resend",
                is_secondary: delivery.status == Status::Delivered,
                hidden: &[("action", "resend")],
                ..Form::default()
            })
        } @else { p { "It cannot be resent: its payload is no longer stored." } }
    }
}

/// Whether the endpoint of the delivery was deleted.
fn is_deleted(delivery: &Delivery, endpoint: Option<&EndpointView>) -> bool {
    endpoint.is_none() && delivery.webhook_endpoint_id.is_some()
}

fn about(delivery: &Delivery, endpoint: Option<&EndpointView>, now: Timestamp) -> Markup {
    html! {
        dl {
            dt { "Destination" }
            dd {
                @match (endpoint, delivery.webhook_endpoint_id) {
                    (Some(endpoint), _) => a href={ "/console/endpoints/" (endpoint.id) } { bdi { (visible(endpoint.name())) } },
                    (None, Some(_)) => "Deleted endpoint",
                    (None, None) => "Job callback",
                }
            }
            dt { "Job" }
            dd { bdi .clip { (visible(&delivery.job_id)) } }
            dt { "Event" }
            dd { (delivery.event.as_str()) }
            dt { "Created" }
            dd { (times::when(delivery.created_at, now)) }
            dt { "ID" }
            dd .mono { (delivery.id) }
            dt { "Webhook ID" }
            dd .mono { (delivery.webhook_id) }
        }
    }
}

/// The next attempt and the earlier ones, latest first.
fn time_line(delivery: &Delivery, attempts: &[Attempt], is_deleted: bool, now: Timestamp) -> Markup {
    html! {
        @if attempts.is_empty() { p { "No attempts yet." } }
        ol .attempts {
            @if let (Status::Pending, Some(next), false) = (delivery.status, delivery.next_attempt_at, is_deleted) {
                li { span .state.wait { span aria-hidden="true" { "◆" } " Next" } " " (times::when(next, now)) }
            }
            @for attempt in attempts.iter().rev() {
                li {
                    (states::of_attempt(attempt)) " " (times::when(attempt.at, now))
                    p .soft {
                        @match attempt.status_code {
                            Some(status) if attempt.outcome == "delivered" => { "HTTP " (status) ", " },
                            _ => "",
                        }
                        (attempt.duration_ms) " ms, " (trigger(attempt.trigger)) "."
                        @if attempt.outcome != "delivered" { " " (error_meaning(&attempt.outcome, attempt.detail.as_ref())) }
                    }
                    @if let Some(response) = &attempt.response {
                        p .soft { "Response:" }
                        (scrolling("Response", response))
                    }
                }
            }
        }
    }
}

fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Event => "first attempt",
        Trigger::Schedule => "scheduled retry",
        Trigger::Resend => "manual resend",
        Trigger::Recovery => "resent by a recovery",
        Trigger::Test => "test event",
    }
}

fn body(payload: Option<&str>) -> Markup {
    let Some(payload) = payload else { return html! { p { "The payload is no longer stored." } } };
    let shown = payload.get(..payload.floor_char_boundary(SHOWN_BYTES)).unwrap_or(payload);
    let (text, is_whole) = pretty(shown, PRETTY_BYTES);
    html! {
        (scrolling("Payload", &text))
        @if shown.len() < payload.len() || !is_whole {
            p { "Shortened: the payload has " (payload.len()) " bytes. The API returns all of them." }
        }
    }
}

/// Text in a scrollable box. The box can be focused, to scroll it by keyboard, so it needs an accessible name.
fn scrolling(name: &str, text: &str) -> Markup {
    html! { pre tabindex="0" role="group" aria-label=(name) { bdi { (visible(text)) } } }
}

/// The headers of each attempt. Signatures and the values of the tenant's own headers are not stored.
fn headers(delivery: &Delivery, endpoint: Option<&EndpointView>) -> Markup {
    let names = endpoint.into_iter().flat_map(|endpoint| &endpoint.header_names);
    html! {
        pre {
            "content-type: application/json\n"
            "x-event-type: " (delivery.event.as_str()) "\n"
            "x-event-time: " (delivery.created_at) "\n"
            "webhook-id: " (delivery.webhook_id) "\n"
            "webhook-timestamp: (the time of the attempt)\n"
            "webhook-signature: (computed for each attempt)\n"
            "x-webhook-signature: (computed for each attempt)"
            @for name in names { "\n" (name) ": (secret)" }
        }
    }
}
