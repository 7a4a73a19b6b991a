//! A recovery of all endpoints: the page that names the failed deliveries and asks for confirmation, and the progress.

use std::sync::Arc;

use common::{
    accounts::users::User,
    audit::{Action, Recorder},
    error::Result,
    http::{
        Call, DeclaredError, FormValues, People, Reason, Reply, Route, VerifiedPerson,
        page::{Form, Page, alert},
    },
    id::TenantId,
    presentation::times::{self, moment},
    timestamp::Timestamp,
    webhooks::{
        delivery::{DestinationId, SHARDS, Shard, Status},
        endpoints::EndpointView,
        log::{
            recovery::{Missed, Recovery, Selection},
            search::Filter,
            undelivered::{Backlog, Undelivered, UndeliveredQuery},
        },
    },
};
use maud::{Markup, html};

use crate::{
    app::App,
    backlogs::missed,
    deliveries::short,
    live_updates::{self, LIVE},
    numbers::{counted, held},
};

pub(crate) const PATH: &str = "/console/recovery";
const SHOW: [(&str, &str); 2] =
    [LIVE, ("id", "The id of the recovery whose progress to show. Without it, the page asks for confirmation.")];
const SUBMIT: [(&str, &str); 1] =
    [("since", "The start of the period; only deliveries that were created at this time or later are resent.")];

/// The maximum number of endpoints that the confirmation names.
const MAX_NAMED: usize = 50;

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&SHOW)), get_page)
        .summary("Names all failed deliveries and asks for confirmation to resend them, or shows the progress.")
        .errors(&[DeclaredError::EmailNotVerified])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&SUBMIT)), recover)
        .records(&[Action::RecoveryStarted])
        .summary("Resends the failed deliveries of all active endpoints and of job callbacks.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::Conflict(Reason::RecoveryLimit)])
        .redirects()
}

/// The failed deliveries that a recovery of all endpoints resends, and other undelivered ones.
struct Unfinished {
    /// The active endpoints.
    endpoints: Vec<(EndpointView, Undelivered)>,
    callbacks: Undelivered,
    inactive: Vec<(EndpointView, Undelivered)>,
}

impl Unfinished {
    /// Reads those with one of these statuses in the period of `filter`.
    async fn read(app: &App, tenant: &TenantId, statuses: &[Status], filter: &Filter, now: Timestamp) -> Result<Self> {
        let endpoints = app.endpoints.list(tenant).await?;
        let mut destinations: Vec<_> = endpoints.iter().map(EndpointView::shards).collect();
        destinations.push(Shard::first(DestinationId::Callback, SHARDS).collect());
        let queries = destinations.iter().map(|shards| UndeliveredQuery { shards, statuses });
        let mut open = app.log.open_in(tenant, &queries.collect::<Vec<_>>(), filter, now).await?;
        let callbacks = open.pop().unwrap_or_default();
        let (endpoints, inactive) = endpoints.into_iter().zip(open).partition(|(endpoint, _)| endpoint.active);
        Ok(Self { endpoints, callbacks, inactive })
    }

    fn all(&self) -> impl Iterator<Item = &Undelivered> {
        self.endpoints.iter().map(|(_, open)| open).chain([&self.callbacks])
    }

    fn failed(&self) -> impl Iterator<Item = &Backlog> {
        self.all().map(|open| &open.failed)
    }

    /// The endpoints with failed deliveries, and the callbacks.
    fn list(&self, now: Timestamp) -> Markup {
        let failing: Vec<_> = self.endpoints.iter().filter(|(_, open)| open.failed.count > 0).collect();
        let deliveries = |failed: &Backlog| counted(failed.number(), "failed delivery", "failed deliveries");
        html! {
            @if failing.len() + self.callbacks.failed.count > 0 {
            ul {
                @for (endpoint, open) in failing.iter().take(MAX_NAMED) {
                    li {
                        a href={ "/console/endpoints/" (endpoint.id) } { bdi { (short(&endpoint.name())) } } ": "
                        @if is_failing(endpoint, now) { "failing, " }
                        (deliveries(&open.failed))
                    }
                }
                @if failing.len() > MAX_NAMED { li { "and " (failing.len() - MAX_NAMED) " more endpoints" } }
                @if self.callbacks.failed.count > 0 { li { "Job callbacks: " (deliveries(&self.callbacks.failed)) } }
            }
            }
        }
    }

    /// The missed deliveries that a recovery of all endpoints does not resend, by endpoint.
    fn left_out(&self) -> Vec<(&EndpointView, String)> {
        let of_active =
            self.endpoints.iter().map(|(endpoint, open)| (endpoint, Backlog::default(), held(endpoint, open)));
        let of_inactive =
            self.inactive.iter().map(|(endpoint, open)| (endpoint, open.failed.clone(), held(endpoint, open)));
        let missed = of_inactive.chain(of_active).map(|(endpoint, failed, held)| (endpoint, missed(&failed, &held)));
        missed.filter(|(_, missed)| !missed.is_empty()).collect()
    }

    /// The list of those.
    fn list_left_out(&self) -> Markup {
        let missed = self.left_out();
        html! {
            @if !missed.is_empty() {
                p { "Held deliveries and those of disabled endpoints are not resent. To resend them, open the endpoint:" }
                ul {
                    @for (endpoint, missed) in missed.iter().take(MAX_NAMED) {
                        li {
                            a href={ "/console/endpoints/" (endpoint.id) } { bdi { (short(&endpoint.name())) } } ": " (missed)
                        }
                    }
                    @if missed.len() > MAX_NAMED { li { "and " (missed.len() - MAX_NAMED) " more endpoints" } }
                }
            }
        }
    }
}

fn is_failing(endpoint: &EndpointView, now: Timestamp) -> bool {
    endpoint.health.failing_since(now).is_some()
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    let tenant = &call.caller.organization;
    match link.get("id") {
        "" => confirmation(&app, tenant).await,
        id => progress(&app, tenant, id, live_updates::is_wanted(&link)).await,
    }
}

async fn confirmation(app: &App, tenant: &TenantId) -> Result<Page> {
    let (all, now) = (Filter::default(), Timestamp::now());
    let (failed, recoveries, console) = tokio::try_join!(
        Unfinished::read(app, tenant, &[Status::Failed, Status::Held], &all, now),
        app.log.recoveries(tenant, None),
        app.console(tenant, "/console")
    )?;
    let running = running(&recoveries);
    let Some(since) = failed.failed().filter_map(Backlog::oldest_at).min() else {
        let content = html! {
            @if let Some(running) = &running { (running) }
            p { "Active endpoints and job callbacks have no failed deliveries." }
            (failed.list_left_out())
            p { a href="/console" { "Back to endpoints" } }
        };
        return Ok(Page::new("Nothing to resend", content).within(console));
    };
    let button = button(failed.failed());
    let content = html! {
        @if let Some(running) = &running { (running) }
        p { "Created since " (times::date(since)) ". They are resent at up to 100 per second." }
        (failed.list(now))
        (failed.list_left_out())
        @if failed.endpoints.iter().any(|(endpoint, open)| open.failed.count > 0 && is_failing(endpoint, now)) {
            p { "A failing endpoint rejects these deliveries again, unless its receiver has been fixed. Send it a test event first." }
        }
        div .row {
            (Form { to: PATH, button: &button, hidden: &[("since", &since.to_string())], ..Form::default() })
            a href="/console" { "Cancel" }
        }
    };
    Ok(Page::new(format!("{button}?"), content).within(console))
}

async fn recover(app: Arc<App>, call: Call<User, Recorder>, form: FormValues) -> Result<Reply> {
    let (tenant, now) = (&call.caller.organization, Timestamp::now());
    let started = async {
        let since = form.read(|fields| fields.text("since", moment))?;
        let selection =
            Selection { endpoint: None, time: since..now, status: Missed::Failed, outcome: None, workflow: None };
        app.recover(&call.recorder, tenant, &selection).await
    };
    match started.await {
        Ok(id) => Ok(Reply::redirect(format!("{PATH}?id={id}"))),
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
    let (line, is_changing) = match &found {
        Some(recovery) => line(app, tenant, recovery, now).await?,
        None => (html! { p { "This recovery is not one of the ten latest ones." } }, false),
    };
    let content = html! {
        (line)
        p .row {
            a href="/console/deliveries?status=pending" { "View pending deliveries" }
            a href="/console" { "Back to endpoints" }
        }
    };
    let [on, off] = ["&live=1", ""].map(|live| format!("{PATH}?id={id}{live}"));
    let switch = live_updates::switch(is_live, is_changing, &on, &off);
    Ok(Page::new("Recovery", content).actions(switch).live(is_live && is_changing).within(console))
}

/// The progress of a recovery of all endpoints, and whether it is changing.
async fn line(app: &App, tenant: &TenantId, recovery: &Recovery, now: Timestamp) -> Result<(Markup, bool)> {
    let Recovery { selection: Selection { time, .. }, resent, done, .. } = recovery;
    let period = Filter { since: Some(time.start), until: Some(time.end), ..Filter::default() };
    let left = Unfinished::read(app, tenant, &[Status::Failed, Status::Pending, Status::Held], &period, now).await?;
    let sum = |count: fn(&Undelivered) -> usize| left.all().map(count).sum::<usize>();
    let (failed, pending) = (sum(|open| open.failed.count), sum(|open| open.pending.count));
    let resent = usize::try_from(*resent).unwrap_or(usize::MAX);
    let deliveries = |number: usize| counted(number, "failed delivery", "failed deliveries");
    // A receiver may have been disabled since, so that its deliveries are failed or held again.
    let is_well = *done && failed + pending == 0 && left.left_out().is_empty();
    let line = html! {
        div .notice.good[is_well] role=[(!done).then_some("status")] {
            p {
                @match (*done, resent) {
                    (true, _) if is_well => { strong { (deliveries(resent)) " resent, all delivered" } "." },
                    (false, 0) => { strong { "Resending " (deliveries(failed)) } ": starts within seconds." },
                    // There is no total: deliveries that have failed again count as failed, too.
                    (is_done, _) => {
                        strong { @if is_done { (deliveries(resent)) " resent" } @else { "Resending: " (deliveries(resent)) " so far" } }
                        ". Now failed: " (failed) ". Pending: " (pending)
                        @if pending > 0 { ", with those that were not resent but wait for a retry" }
                        "."
                    },
                }
                " Started " (times::when(recovery.id.made_at(), now)) "."
            }
            @if *done { (left.list(now)) (left.list_left_out()) }
        }
    };
    Ok((line, !*done || pending > 0))
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
