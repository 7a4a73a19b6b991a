//! Recoveries from the console: their fields, and the page that counts the deliveries and confirms a large recovery.

use std::ops::Range;

use common::{
    error::{Error, Result},
    http::{
        FormValues, Reply,
        page::{Form, Page, TICKED, alert, visible},
    },
    id::{EndpointId, TenantId},
    issue::parse_name,
    presentation::times::{self, moment},
    timestamp::Timestamp,
    webhooks::{
        endpoints::EndpointView,
        log::{
            recovery::Missed,
            undelivered::{Backlog, STATUSES, Undelivered, UndeliveredQuery},
        },
    },
};
use maud::{Markup, html};
use url::form_urlencoded;

use crate::{
    app::App,
    backlogs::{missed, resend_button, retry_button},
    numbers::{counted, held, is_gone, within},
};

/// The maximum number of deliveries to resend without confirmation.
const MAX_UNCONFIRMED: usize = 20;

/// A recovery as requested by a form or a link.
pub(super) struct RecoveryRequest {
    pub(super) time: Range<Timestamp>,
    pub(super) missed: Missed,
}

/// Reads a recovery's fields. By default, its period ends now.
pub(super) fn wanted(form: &FormValues, now: Timestamp) -> Result<RecoveryRequest> {
    form.clone().without_empty().read(|fields| {
        let since = fields.text("since", moment);
        let until = fields.optional_text("until", moment);
        let missed = fields.optional_text("status", parse_name);
        fields.period("until", since.ok(), until.ok().flatten())?;
        Ok(RecoveryRequest { time: since?..until?.unwrap_or(now), missed: missed?.unwrap_or_default() })
    })
}

/// The deliveries that the recovery resends.
#[derive(Default)]
struct Backlogs {
    failed: Backlog,
    held: Backlog,
    pending: Backlog,
}

impl Backlogs {
    fn of(endpoint: &EndpointView, open: &Undelivered, wanted: &RecoveryRequest) -> Self {
        let (failed, held) = (within(&open.failed, &wanted.time), within(&held(endpoint, open), &wanted.time));
        match wanted.missed {
            Missed::Failed => Self { failed, ..Self::default() },
            Missed::Held => Self { held, ..Self::default() },
            Missed::Both => Self { failed, held, ..Self::default() },
            Missed::Pending => Self { pending: within(&open.pending, &wanted.time), ..Self::default() },
        }
    }

    fn count(&self) -> usize {
        self.failed.count + self.held.count + self.pending.count
    }

    fn is_longer(&self) -> bool {
        self.failed.is_longer || self.held.is_longer || self.pending.is_longer
    }

    fn button(&self, is_active: bool) -> String {
        if self.pending.count > 0 {
            retry_button(&self.pending)
        } else {
            resend_button(is_active, &self.failed, &self.held)
        }
    }

    fn words(&self) -> String {
        match self.pending.count {
            0 => missed(&self.failed, &self.held),
            _ => counted(self.pending.number(), "pending delivery", "pending deliveries"),
        }
    }
}

async fn open(app: &App, tenant: &TenantId, endpoint: &EndpointView, now: Timestamp) -> Result<Undelivered> {
    let query = UndeliveredQuery { shards: &endpoint.shards(), statuses: &STATUSES };
    Ok(app.log.open(tenant, &[query], None, now).await?.pop().unwrap_or_default())
}

/// Whether the recovery needs confirmation: it would resend many deliveries or none, or the receiver asked to stop
/// deliveries.
pub(super) async fn is_needed(
    app: &App,
    tenant: &TenantId,
    endpoint: &EndpointView,
    wanted: &RecoveryRequest,
    now: Timestamp,
) -> Result<bool> {
    let found = Backlogs::of(endpoint, &open(app, tenant, endpoint, now).await?, wanted);
    Ok(found.count() == 0 || found.count() > MAX_UNCONFIRMED || found.is_longer() || is_gone(endpoint))
}

/// Redirects to the confirmation page for the recovery in a form.
pub(super) fn ask(id: EndpointId, form: &FormValues) -> Reply {
    let path = format!("/console/endpoints/{id}?");
    let mut query = form_urlencoded::Serializer::for_suffix(path.clone(), path.len());
    query.append_pair("confirm", "recover");
    let fields = ["since", "until", "status", "activate"].map(|name| (name, form.get(name)));
    query.extend_pairs(fields.into_iter().filter(|(_, value)| !value.is_empty()));
    Reply::redirect(query.finish())
}

/// The confirmation page for the recovery in a link.
pub(super) async fn page(app: &App, tenant: &TenantId, id: EndpointId, link: &FormValues) -> Result<Page> {
    let now = Timestamp::now();
    let (endpoint, console) = tokio::try_join!(app.endpoints.view(tenant, id), app.console(tenant, "/console"))?;
    let back = format!("/console/endpoints/{id}");
    let wanted = match wanted(link, now) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(refused(error, &back).within(console)),
    };
    let found = Backlogs::of(&endpoint, &open(app, tenant, &endpoint, now).await?, &wanted);
    let is_enabled = !endpoint.active && link.get("activate") == TICKED;
    let button = found.button(!is_enabled);
    let [since, until] = [wanted.time.start, wanted.time.end].map(|time| time.to_string());
    // Events are held until the endpoint is enabled, also while this page is open.
    let until = if is_enabled && link.get("until").is_empty() { String::new() } else { until };
    if found.count() == 0 {
        let content = html! {
            p { "This endpoint has no matching deliveries " (period(&wanted.time, now)) "." }
            p { a href=(back) { "Back to endpoint" } }
        };
        return Ok(Page::new("Nothing to resend", content).within(console));
    }
    let text = html! {
        p { (found.words()) " " (period(&wanted.time, now)) ", up to 100 per second." }
        @if wanted.missed == Missed::Pending {
            p { "Each gets an attempt now, followed by a full retry schedule. Deliveries with an attempt in progress \
                 are not affected." }
        }
        @if is_gone(&endpoint) { (gone("Resend")) }
        @if is_enabled { p { "The endpoint is enabled first, so it also gets new events." } }
        @if !endpoint.active && !is_enabled { p { "The endpoint is disabled, so the deliveries will be held again." } }
    };
    let hidden = [
        ("since", since.as_str()),
        ("until", &until),
        ("status", link.get("status")),
        ("activate", if is_enabled { TICKED } else { "" }),
        ("sure", TICKED),
    ];
    let form = Form { button: &button, action: "recover", hidden: &hidden, ..Form::default() };
    Ok(confirmation(&endpoint, &text, form).within(console))
}

/// A page that asks to confirm a form for the endpoint's page. `text` explains the consequences.
fn confirmation(endpoint: &EndpointView, text: &Markup, form: Form<'_>) -> Page {
    let (title, back) = (format!("{}?", form.button), format!("/console/endpoints/{}", endpoint.id));
    let content = html! {
        p .mono .whole { bdi { (visible(&endpoint.name())) } }
        (text)
        div .row {
            (Form { to: &back, ..form })
            a href=(back) { "Cancel" }
        }
    };
    Page::new(title, content)
}

/// The confirmation page for enabling an endpoint whose receiver asked to stop deliveries.
pub(super) async fn enabling(app: &App, tenant: &TenantId, id: EndpointId) -> Result<Page> {
    let (endpoint, console) = tokio::try_join!(app.endpoints.view(tenant, id), app.console(tenant, "/console"))?;
    let text = html! {
        @if is_gone(&endpoint) { (gone("Enable the endpoint")) }
        p { "New events will be sent to this endpoint, but deliveries that it missed will not. Resend them afterward." }
    };
    let hidden = [("action", "activate"), ("sure", TICKED)];
    let form = Form { button: "Enable endpoint", hidden: &hidden, ..Form::default() };
    Ok(confirmation(&endpoint, &text, form).within(console))
}

/// Redirects to the confirmation page for disabling the endpoint.
pub(super) fn ask_to_disable(id: EndpointId) -> Reply {
    Reply::redirect(format!("/console/endpoints/{id}?confirm=deactivate"))
}

/// The confirmation page for disabling an endpoint.
pub(super) async fn disabling(app: &App, tenant: &TenantId, id: EndpointId) -> Result<Page> {
    let (endpoint, console) = tokio::try_join!(app.endpoints.view(tenant, id), app.console(tenant, "/console"))?;
    let text = html! {
        p {
            "Nothing except test events is sent to a disabled endpoint. "
            @match app.hold_for.end(Timestamp::now()) {
                Some(end) => {
                    "New events are held until " (times::date(end)) ", so that you can send them once the endpoint is enabled "
                    "again. After that, new ones are lost."
                }
                None => "New events are lost.",
            }
        }
    };
    let hidden = [("action", "deactivate"), ("sure", TICKED)];
    let form = Form { button: "Disable endpoint", is_danger: true, hidden: &hidden, ..Form::default() };
    Ok(confirmation(&endpoint, &text, form).within(console))
}

/// The warning about a receiver that asked to stop deliveries.
pub(crate) fn gone(action: &str) -> Markup {
    html! {
        div .notice.bad role="status" {
            p {
                "The receiver answered " strong { "410 Gone" } ", which means that it wants no more deliveries. "
                (action)
                " only if it accepts them again; another 410 disables the endpoint, and holds the other deliveries."
            }
        }
    }
}

/// Formats a period: `created since 2026-01-31 12:00:00 UTC`, with the end if it is in the past.
fn period(time: &Range<Timestamp>, now: Timestamp) -> Markup {
    html! {
        "created since " (times::date(time.start))
        @if time.end < now { " and before " (times::date(time.end)) }
    }
}

fn refused(error: Error, back: &str) -> Page {
    let content = html! { (alert(&error)) p { a href=(back) { "Back to endpoint" } } };
    Page::new("Nothing to resend", content).refused(Some(error))
}
