//! A delivery: what was sent, what came back, and when the next attempt is.

use std::sync::Arc;

use common::{
    accounts::users::User,
    error::{Conflict, Error, Result},
    http::{
        Call, Fault, People, Reply, Route, Typed, VerifiedPerson,
        page::{Form, Page, alert, pretty, visible},
    },
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, Delivery, DeliveryId, Status, Trigger},
        endpoints::EndpointView,
    },
};
use maud::{Markup, html};

use crate::{app::App, states, times};

const PATH: &str = "/console/deliveries/{id}";
const NOT_FOUND: Error = Error::NotFound("There is no such delivery, or it is no longer kept");
/// How much of a payload is shown. A response of Lambda has at most 6 MB, and line breaks and escapes multiply a payload.
const SHOWN_BYTES: usize = 64 * 1024;
/// The same, with line breaks and indentation.
const PRETTY_BYTES: usize = 256 * 1024;

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[("id", "The delivery.")])), open)
        .summary("A delivery with its payload and its attempts. It changes nothing.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[("id", "The delivery.")])), resend)
        .summary("Sends the delivery again, as `deliveries/resend` does, and shows what came of it.")
        .faults(&[Fault::EmailNotVerified, Fault::NotFound, Fault::Conflict("payload_not_kept")])
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
    // A delivery that failed without an attempt has a last attempt all the same, with the reason.
    attempts.extend(delivery.last_attempt.clone());
    let payload = payload.map(|payload| String::from_utf8_lossy(&payload.body).into_owned());
    let content = html! {
        @if let Some(error) = &error { (alert(error)) }
        (standing(&delivery, payload.is_some(), now))
        (about(&delivery, endpoint.as_ref(), now))
        section {
            h2 { "Attempts" }
            (time_line(&delivery, &attempts, now))
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
    let title = format!("{} of {}", delivery.event.as_str(), times::date_and_time(delivery.created_at));
    Ok(Page::new(title, content).refused(error).within(console))
}

/// How it stands, and the button that sends it again.
fn standing(delivery: &Delivery, can_resend: bool, now: Timestamp) -> Markup {
    html! {
        div .row {
            p {
                (states::of_delivery(delivery.status))
                " "
                @match (delivery.status, delivery.next_attempt_at) {
                    (Status::Pending, Some(next)) if next <= now => "An attempt is under way, or begins in a moment.",
                    (Status::Pending, Some(next)) => { "The next attempt is at " (times::when(next, now)) "." },
                    (Status::Held, _) => "The endpoint was inactive when it came. It is not sent by itself.",
                    (Status::Failed, _) => "No attempt follows.",
                    (Status::Ended, _) => "The endpoint was deleted, or inactive for too long.",
                    _ => "",
                }
            }
            @if delivery.status == Status::Pending { a href="?" { "Look again" } }
        }
        @if can_resend {
            (Form {
                button: "Send it again",
                is_secondary: delivery.status == Status::Delivered,
                hidden: &[("action", "resend")],
                ..Form::default()
            })
        } @else { p { "Its payload is not kept, so that it cannot be sent again." } }
    }
}

fn about(delivery: &Delivery, endpoint: Option<&EndpointView>, now: Timestamp) -> Markup {
    html! {
        dl {
            dt { "Goes to" }
            dd {
                @match (endpoint, delivery.webhook_endpoint_id) {
                    (Some(endpoint), _) => a href={ "/console/endpoints/" (endpoint.id) } { bdi { (visible(endpoint.name())) } },
                    (None, Some(_)) => "an endpoint that has been deleted",
                    (None, None) => "the job's own callback",
                }
            }
            dt { "Job" }
            dd { bdi .clip { (visible(&delivery.job_id)) } }
            dt { "Event" }
            dd { (delivery.event.as_str()) }
            dt { "Created" }
            dd { (times::when(delivery.created_at, now)) }
            dt { "Id" }
            dd .mono { (delivery.id) }
            dt { "Webhook id" }
            dd .mono { (delivery.webhook_id) }
        }
    }
}

/// The attempts, the latest first, and when the next is.
fn time_line(delivery: &Delivery, attempts: &[Attempt], now: Timestamp) -> Markup {
    html! {
        @if attempts.is_empty() { p { "There has been none yet." } }
        ol .attempts {
            @if let (Status::Pending, Some(next)) = (delivery.status, delivery.next_attempt_at) {
                li { span .state.wait { span aria-hidden="true" { "◆" } " Next" } " " (times::when(next, now)) }
            }
            @for attempt in attempts.iter().rev() {
                li {
                    (states::of_attempt(&attempt.outcome)) " " (times::when(attempt.at, now))
                    p .soft {
                        @if let Some(status) = attempt.status_code { "Status " (status) ", " }
                        (attempt.duration_ms) " ms, " (trigger(attempt.trigger))
                        @if attempt.outcome != "delivered" { ": " (states::reason(&attempt.outcome)) }
                    }
                    @if let Some(response) = &attempt.response {
                        p .soft { "It answered:" }
                        (scrolling("Answer", response))
                    }
                }
            }
        }
    }
}

fn trigger(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Event => "the first attempt",
        Trigger::Schedule => "by the schedule",
        Trigger::Resend => "sent again",
        Trigger::Recovery => "sent again by a recovery",
        Trigger::Test => "a test",
    }
}

fn body(payload: Option<&str>) -> Markup {
    let Some(payload) = payload else { return html! { p { "It is not kept." } } };
    let shown = payload.get(..payload.floor_char_boundary(SHOWN_BYTES)).unwrap_or(payload);
    let (text, is_whole) = pretty(shown, PRETTY_BYTES);
    html! {
        (scrolling("Payload", &text))
        @if shown.len() < payload.len() || !is_whole {
            p { "This is the beginning of " (payload.len()) " bytes. The API has all of them." }
        }
    }
}

/// Text that scrolls where it is long. Without a mouse, that takes a focus, and what has the focus needs a name.
fn scrolling(name: &str, text: &str) -> Markup {
    html! { pre tabindex="0" role="group" aria-label=(name) { bdi { (visible(text)) } } }
}

/// What is sent with each attempt. Signatures and the values of the tenant's own headers are not kept.
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
