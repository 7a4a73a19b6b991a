//! A recovery of all endpoints: the page that names the failed deliveries and asks for confirmation, and the progress.

use std::sync::Arc;

use common::{
    accounts::users::User,
    audit::Action,
    error::Result,
    http::{
        Call, Fault, People, Reason, Reply, Route, Typed, VerifiedPerson,
        page::{Form, Page, alert},
    },
    id::TenantId,
    presentation::times::{self, moment},
    timestamp::Timestamp,
    webhooks::{
        delivery::{DestinationId, SHARDS, Shard},
        endpoints::EndpointView,
        log::{
            open::Backlog,
            recovery::{Missed, Recovery, Selection},
            search::Filter,
        },
    },
};
use maud::{Markup, html};

use crate::{
    app::App,
    deliveries::short,
    live::{self, LIVE},
    numbers::counted,
};

pub(crate) const PATH: &str = "/console/recovery";
const SHOW: [(&str, &str); 2] =
    [LIVE, ("id", "The id of the recovery whose progress to show. Without it, the page asks for confirmation.")];
const SUBMIT: [(&str, &str); 1] =
    [("since", "The start of the period; only deliveries that were created at this time or later are resent.")];

/// The maximum number of endpoints that the confirmation names.
const NAMED: usize = 50;

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&SHOW)), open)
        .summary("Names all failed deliveries and asks for confirmation to resend them, or shows the progress.")
        .faults(&[Fault::EmailNotVerified])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&SUBMIT)), recover)
        .records(&[Action::RecoveryStarted])
        .summary("Resends the failed deliveries of all active endpoints and of job callbacks.")
        .faults(&[Fault::EmailNotVerified, Fault::Conflict(Reason::RecoveryLimit)])
        .redirects()
}

/// The failed deliveries that a recovery of all endpoints resends.
struct Failed {
    /// The active endpoints that have any.
    endpoints: Vec<(EndpointView, Backlog)>,
    callbacks: Backlog,
    /// The number of inactive endpoints.
    inactive: usize,
}

impl Failed {
    /// Reads those in the period of `filter`.
    async fn read(app: &App, tenant: &TenantId, filter: &Filter, now: Timestamp) -> Result<Self> {
        let (active, inactive): (Vec<_>, Vec<_>) =
            app.endpoints.list(tenant).await?.into_iter().partition(|endpoint| endpoint.active);
        let mut destinations: Vec<_> = active.iter().map(EndpointView::shards).collect();
        destinations.push(Shard::first(DestinationId::Callback, SHARDS).collect());
        let mut failed = app.log.failed_in(tenant, &destinations, filter, now).await?;
        let callbacks = failed.pop().unwrap_or_default();
        let endpoints = active.into_iter().zip(failed).filter(|(_, failed)| failed.count > 0).collect();
        Ok(Self { endpoints, callbacks, inactive: inactive.len() })
    }

    fn all(&self) -> impl Iterator<Item = &Backlog> {
        self.endpoints.iter().map(|(_, failed)| failed).chain([&self.callbacks])
    }

    fn oldest_at(&self) -> Option<Timestamp> {
        self.all().filter_map(Backlog::oldest_at).min()
    }
}

async fn open(app: Arc<App>, call: Call<User>, link: Typed) -> Result<Page> {
    let tenant = &call.caller.organization;
    match link.get("id") {
        "" => confirmation(&app, tenant).await,
        id => progress(&app, tenant, id, live::is_wanted(&link)).await,
    }
}

async fn confirmation(app: &App, tenant: &TenantId) -> Result<Page> {
    let (all, now) = (Filter::default(), Timestamp::now());
    let (failed, recoveries, console) = tokio::try_join!(
        Failed::read(app, tenant, &all, now),
        app.log.recoveries(tenant, None),
        app.console(tenant, "/console")
    )?;
    let running = running(&recoveries);
    let Some(since) = failed.oldest_at() else {
        let content = html! {
            @if let Some(running) = &running { (running) }
            p { "Active endpoints and job callbacks have no failed deliveries." }
            p { a href="/console" { "Back to endpoints" } }
        };
        return Ok(Page::new("Nothing to resend", content).within(console));
    };
    let button = button(failed.all());
    let content = html! {
        @if let Some(running) = &running { (running) }
        p { "Created since " (times::date(since)) ". They are resent at up to 100 per second." }
        ul {
            @for (endpoint, failed) in failed.endpoints.iter().take(NAMED) {
                li {
                    a href={ "/console/endpoints/" (endpoint.id) } { bdi { (short(&endpoint.name())) } } ": "
                    (counted(failed.number(), "failed delivery", "failed deliveries"))
                }
            }
            @if failed.endpoints.len() > NAMED { li { "and " (failed.endpoints.len() - NAMED) " more endpoints" } }
            @if failed.callbacks.count > 0 {
                li { "Job callbacks: " (counted(failed.callbacks.number(), "failed delivery", "failed deliveries")) }
            }
        }
        @if failed.inactive > 0 {
            p { "Disabled endpoints are left out. To resend their deliveries, open the endpoint." }
        }
        div .row {
            (Form { to: PATH, button: &button, hidden: &[("since", &since.to_string())], ..Form::default() })
            a href="/console" { "Cancel" }
        }
    };
    Ok(Page::new(format!("{button}?"), content).within(console))
}

async fn recover(app: Arc<App>, call: Call<User>, form: Typed) -> Result<Reply> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let started = async {
        let since = form.read(|fields| fields.text("since", moment))?;
        let selection =
            Selection { endpoint: None, time: since..now, status: Missed::Failed, outcome: None, workflow: None };
        app.recover(tenant, &selection).await
    };
    match started.await {
        Ok(id) => Ok(Reply::Redirect { to: format!("{PATH}?id={id}"), cookies: Vec::new() }),
        Err(error) if error.is_ours() => Err(error),
        Err(error) => {
            let content = html! { (alert(&error)) p { a href="/console" { "Back to endpoints" } } };
            let console = app.console(tenant, "/console").await?;
            Ok(Page::new("Nothing resent", content).refused(Some(error)).within(console).into())
        }
    }
}

async fn progress(app: &App, tenant: &TenantId, id: &str, is_live: bool) -> Result<Page> {
    let now = Timestamp::now();
    let console = app.console(tenant, "/console");
    let (recoveries, console) = tokio::try_join!(app.log.recoveries(tenant, None), console)?;
    let is_it = |recovery: &Recovery| recovery.id.to_string() == id && recovery.selection.endpoint.is_none();
    let found = recoveries.into_iter().find(is_it);
    let is_changing = found.as_ref().is_some_and(|recovery| !recovery.done);
    let line = match &found {
        Some(recovery) => line(app, tenant, recovery, now).await?,
        None => html! { p { "This recovery is not one of the ten latest ones." } },
    };
    let content = html! {
        (line)
        p .row {
            a href="/console/deliveries?status=pending" { "View pending deliveries" }
            a href="/console" { "Back to endpoints" }
        }
    };
    let [on, off] = ["&live=1", ""].map(|live| format!("{PATH}?id={id}{live}"));
    let switch = live::switch(is_live, is_changing, &on, &off);
    Ok(Page::new("Recovery", content).actions(switch).live(is_live && is_changing).within(console))
}

/// The progress of a recovery of all endpoints. The total is the sum of the resent and the remaining deliveries.
async fn line(app: &App, tenant: &TenantId, recovery: &Recovery, now: Timestamp) -> Result<Markup> {
    let Recovery { selection: Selection { time, .. }, resent, done, .. } = recovery;
    let period = Filter { since: Some(time.start), until: Some(time.end), ..Filter::default() };
    let failed = Failed::read(app, tenant, &period, now).await?;
    let left: usize = failed.all().map(|failed| failed.count).sum();
    let resent = usize::try_from(*resent).unwrap_or(usize::MAX);
    let deliveries = |number: usize| counted(number, "failed delivery", "failed deliveries");
    Ok(html! {
        div .notice.good[*done && left == 0] role=[(!done).then_some("status")] {
            p {
                @match (*done, resent, left) {
                    (true, _, 0) => { strong { (deliveries(resent)) " resent" } "." },
                    (true, ..) => { strong { (deliveries(resent)) " resent" } ". Failed now: " (left) "." },
                    (false, 0, _) => { strong { "Resending " (deliveries(left)) } ": starts within seconds." },
                    (false, ..) => { strong { "Resending: " (resent) " of " (deliveries(resent + left)) } "." },
                }
            }
        }
    })
}

/// The notice that a recovery of all endpoints is in progress, if one is.
pub(crate) fn running(recoveries: &[Recovery]) -> Option<Markup> {
    let running = recoveries.iter().find(|recovery| !recovery.done && recovery.selection.endpoint.is_none())?;
    Some(html! {
        div .notice role="status" {
            p {
                strong { "Resending the failed deliveries of all endpoints" } ": " (running.resent) " so far. "
                a href={ (PATH) "?id=" (running.id) } { "View progress" }
            }
        }
    })
}

/// The label of the button: `Resend all 40 failed deliveries`.
pub(crate) fn button<'a>(failed: impl Iterator<Item = &'a Backlog>) -> String {
    let (mut count, mut is_longer) = (0, false);
    for failed in failed {
        count += failed.count;
        is_longer |= failed.is_longer;
    }
    match (count, is_longer) {
        (_, true) => "Resend all failed deliveries".to_owned(),
        (1, false) => "Resend 1 failed delivery".to_owned(),
        (count, false) => format!("Resend all {count} failed deliveries"),
    }
}
