//! The actions of an endpoint's forms.

use std::{sync::Arc, time::Duration};

use common::{
    accounts::users::User,
    audit::Recorder,
    error::{Error, Result},
    http::{
        Call, FormValues, Reply,
        page::{Form, Page, TICKED},
    },
    id::{EndpointId, TenantId},
    issue::Problem,
    patch::Patch,
    presentation::times::{self, moment},
    timestamp::Timestamp,
    webhooks::{
        delivery::Delivery,
        destination::SigningSecret,
        endpoints::{EndpointChange, Options},
        event::{EventName, PayloadForm, parse_event},
        log::{recovery::Selection, search::Cursor},
    },
};
use maud::html;

use super::{
    confirmations::{self, RecoveryRequest},
    forms::RejectedForm,
    page::{after, id, page},
};
use crate::{
    app::App,
    numbers::{counted, is_gone},
    settings::Settings,
    signing_secret,
};

/// The fields of the page's forms, beside the [settings](crate::settings::FIELDS) of `edit`.
pub(super) const FIELDS: [(&str, &str); 15] = [
    ("id", "The id of the endpoint."),
    (
        "action",
        "The submitted form: `test`, `activate`, `deactivate`, `edit`, `rotate`, `end`, `recover`, `erase` or `delete`.",
    ),
    (
        "sure",
        "`delete` and `erase`: `yes` from the checkbox that confirms it. `recover`, `activate` and `deactivate`: `yes` \
         from the confirmation page.",
    ),
    ("event", "`test`: the event whose sample to send: `webhook.test` (the default), `job.completed` or `job.failed`."),
    (
        "since",
        "`recover` and `erase`: the start of the period; only deliveries that were created at this time or later are \
         meant.",
    ),
    ("until", "`recover` and `erase`: the end of the period. The default is now."),
    ("cursor", "`erase`: the place where an erasure that was too long for one call continues."),
    ("status", "`recover`: the status of the deliveries to recover: `failed`, `held`, `both` or `pending`."),
    ("activate", "`recover`: `yes` enables the endpoint first."),
    ("secret", "`rotate`: the secret that the page generated."),
    ("revision", "`rotate` and `edit`: the endpoint's revision when the form was opened."),
    ("own", "`rotate`: your own secret, instead of the generated one."),
    ("overlap", "`rotate`: how long the old secret stays valid, in seconds."),
    ("no_headers", "`edit`: `yes` removes the headers."),
    ("did", "The confirmation to show after one of the page's forms has been submitted."),
];

/// The maximum time that the old secret stays valid.
const MAX_OVERLAP: Duration = Duration::from_hours(7 * 24);

/// The error for a form that would undo a change made since the form was opened.
const STALE: &str = "The endpoint was changed after you opened this form. Review the change, then try again";

pub(super) async fn post_form(app: Arc<App>, call: Call<User, Recorder>, form: FormValues) -> Result<Reply> {
    let (tenant, id) = (&call.caller.organization, id(&form)?);
    let done = match form.get("action") {
        "test" => test(&app, &call.recorder, tenant, id, &form).await,
        "activate" => enable(&app, &call.recorder, tenant, id, &form).await,
        "deactivate" if form.get("sure") == TICKED => {
            activate(&app, &call.recorder, tenant, id, false).await.map(|()| after(id, "deactivated"))
        }
        "deactivate" => app.endpoints.require(tenant, id).await.map(|()| confirmations::ask_to_disable(id)),
        "recover" => recover(&app, &call.recorder, tenant, id, &form).await,
        "edit" => edit(&app, &call.recorder, tenant, id, &form).await,
        "rotate" => rotate(&app, &call.recorder, tenant, id, &form).await,
        "end" => end(&app, &call.recorder, tenant, id).await,
        "erase" if form.get("sure") == TICKED => erase(&app, &call.recorder, tenant, id, &form).await,
        "delete" if form.get("sure") == TICKED => delete(&app, &call.recorder, tenant, id).await,
        _ => app.endpoints.require(tenant, id).await.map(|()| after(id, "")),
    };
    match done {
        Err(error) if error.is_ours() || matches!(error, Error::NotFound(_)) => Err(error),
        Err(error) => Ok(page(&app, &call, id, &form, Some(RejectedForm { form: &form, error })).await?.into()),
        done => done,
    }
}

/// Sends a test event or a sample of another event, and redirects to its delivery.
async fn test(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId, form: &FormValues) -> Result<Reply> {
    let sample = form.clone().without_empty().read(|fields| fields.optional_text("event", parse_event))?;
    let (sample, now) = (sample.unwrap_or(EventName::Test), Timestamp::now());
    let test = Delivery::test(id, now);
    app.endpoints.begin_test(recorder, &app.log, tenant, &test, sample, None, now).await?;
    app.queue.wake(tenant, &test, now).await;
    app.wait_for_attempt(tenant, &test.id, 0).await?;
    Ok(Reply::redirect(format!("/console/deliveries/{}", test.id)))
}

/// Enables the endpoint. If its receiver asked to stop deliveries, a page asks for confirmation first.
async fn enable(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId, form: &FormValues) -> Result<Reply> {
    if form.get("sure") != TICKED && is_gone(&app.endpoints.view(tenant, id).await?) {
        let to = format!("/console/endpoints/{id}?confirm=activate");
        return Ok(Reply::redirect(to));
    }
    activate(app, recorder, tenant, id, true).await.map(|()| after(id, "activated"))
}

async fn activate(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId, active: bool) -> Result<()> {
    change(app, recorder, tenant, id, EndpointChange { active: Some(active), ..EndpointChange::default() }).await
}

async fn change(
    app: &App,
    recorder: &Recorder,
    tenant: &TenantId,
    id: EndpointId,
    change: EndpointChange,
) -> Result<()> {
    app.endpoints.update(recorder, tenant, id, change, app.rotation_overlap, Timestamp::now()).await
}

/// Starts a recovery, after confirmation if necessary. If the form requests it, enables the endpoint first, because
/// nothing is sent to an inactive endpoint.
async fn recover(
    app: &App,
    recorder: &Recorder,
    tenant: &TenantId,
    id: EndpointId,
    form: &FormValues,
) -> Result<Reply> {
    let now = Timestamp::now();
    let wanted = confirmations::wanted(form, now)?;
    let endpoint = app.endpoints.view(tenant, id).await?;
    if form.get("sure") != TICKED && confirmations::is_needed(app, tenant, &endpoint, &wanted, now).await? {
        return Ok(confirmations::ask(id, form));
    }
    let RecoveryRequest { time, missed } = wanted;
    let mut selection = Selection { endpoint: Some(id), time, status: missed, outcome: None, workflow: None };
    if form.get("activate") == TICKED && !endpoint.active {
        app.log.check_recovery(tenant, &selection).await?;
        activate(app, recorder, tenant, id, true).await?;
        if form.get("until").is_empty() {
            // Events were held until this moment.
            selection.time.end = Timestamp::now();
        }
    }
    app.recover(recorder, tenant, &selection).await?;
    Ok(after(id, "recovering"))
}

/// Changes only the settings that differ. A new URL resets the endpoint's health, and requires its headers to be
/// entered again.
async fn edit(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId, form: &FormValues) -> Result<Reply> {
    let (was, stored) = tokio::try_join!(app.endpoints.view(tenant, id), app.endpoints.find(tenant, id))?;
    let new = Settings::read(form, was.kind, &app.destinations)?;
    let url = new.url.filter(|url| was.url.as_deref() != Some(url.as_str()));
    let headers = match new.headers {
        // Another URL gets only headers that were entered for it, also if they are the current ones.
        Some(headers) if url.is_none() && stored.is_some_and(|stored| stored.headers == headers) => Patch::Keep,
        Some(headers) => Patch::Set(headers),
        None if form.get("no_headers") == TICKED && !was.header_names.is_empty() => Patch::Clear,
        None => Patch::Keep,
    };
    // The form does not tell a default from one that was chosen.
    let options = Options {
        payload: new.options.payload.or(was.options.payload.filter(|form| *form == PayloadForm::Full)),
        keep_payload: new.options.keep_payload.or(was.options.keep_payload.filter(|is_kept| *is_kept)),
        ..new.options
    };
    let settings =
        EndpointChange { url, options: was.options.change_to(options), headers, ..EndpointChange::default() };
    // The form may have been submitted twice. The second submission changes nothing, so it is accepted.
    if settings.is_empty() {
        return Ok(after(id, "unchanged"));
    }
    let stale = || form.read(|fields| Err(fields.reject("revision", Problem::format(STALE))));
    if form.get("revision") != was.revision.to_string() {
        return stale();
    }
    match change(app, recorder, tenant, id, EndpointChange { revision: Some(was.revision), ..settings }).await {
        // Another request changed the endpoint after it was read above.
        Err(Error::Busy) if app.endpoints.view(tenant, id).await?.revision != was.revision => stale(),
        changed => changed.map(|()| after(id, "saved")),
    }
}

/// Rotates to the secret in the form, and shows it.
async fn rotate(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId, form: &FormValues) -> Result<Reply> {
    let secret = match (form.get("own"), form.get("secret")) {
        // If a form was kept while the user signed in, it no longer contains the secret.
        ("", "") => SigningSecret::generate(),
        ("", _) => form.read(|fields| fields.text("secret", SigningSecret::parse_typed))?,
        _ => form.read(|fields| fields.text("own", SigningSecret::parse_typed))?,
    };
    let overlap = form.get("overlap").parse().map(Duration::from_secs).unwrap_or(app.rotation_overlap);
    // The form offers the deployment's default, which may be longer.
    let overlap = overlap.min(MAX_OVERLAP.max(app.rotation_overlap));
    let (endpoint, stored) = tokio::try_join!(app.endpoints.view(tenant, id), app.endpoints.find(tenant, id))?;
    let is_done = stored.is_some_and(|stored| stored.signing_secret.reveal() == secret.reveal());
    if !is_done && form.get("revision") != endpoint.revision.to_string() {
        return form.read(|fields| Err(fields.reject("own", Problem::format(STALE))));
    }
    if is_done {
        // The form may have been opened again, to end the old secret earlier.
        change(app, recorder, tenant, id, EndpointChange { overlap: Some(overlap), ..EndpointChange::default() })
            .await?;
    } else {
        let rotation = EndpointChange {
            signing_secret: Some(secret.clone()),
            overlap: Some(overlap),
            revision: Some(endpoint.revision),
            ..EndpointChange::default()
        };
        match change(app, recorder, tenant, id, rotation).await {
            Err(Error::Busy) if app.endpoints.view(tenant, id).await?.revision != endpoint.revision => {
                return form.read(|fields| Err(fields.reject("own", Problem::format(STALE))));
            }
            changed => changed?,
        }
    }
    // A form that was submitted before can only end the old secret earlier.
    let (now, endpoint) = (Timestamp::now(), app.endpoints.view(tenant, id).await?);
    let ends_at = endpoint.previous_secret_expires_at.filter(|at| now < *at);
    let console = app.console(tenant, "/console").await?;
    let content = html! {
        (signing_secret::copied(&secret))
        (signing_secret::link())
        p {
            @match ends_at {
                Some(at) => {
                    "The old secret also signs deliveries until it ends " (times::when(at, now))
                    ". Update your server before then."
                }
                None => "The old secret has ended. Update your server now.",
            }
        }
        p { a href={ "/console/endpoints/" (id) } { "Back to endpoint" } }
    };
    Ok(Page::new("Secret rotated", content).done().within(console).into())
}

/// Ends the secret before the latest rotation.
async fn end(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId) -> Result<Reply> {
    change(app, recorder, tenant, id, EndpointChange { overlap: Some(Duration::ZERO), ..EndpointChange::default() })
        .await?;
    Ok(after(id, "saved"))
}

/// Erases the payloads of a period. The page repeats the form if there are more of them than a call erases.
async fn erase(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId, form: &FormValues) -> Result<Reply> {
    let (since, until, cursor) = form.clone().without_empty().read(|fields| {
        let (since, until) = (fields.text("since", moment), fields.optional_text("until", moment));
        let cursor = fields.optional_text("cursor", Cursor::parse);
        fields.period("until", since.ok(), until.ok().flatten())?;
        Ok((since?, until?, cursor?))
    })?;
    let erased = app.erasure(tenant).of_period(recorder, Some(id), Some(since), until, cursor, &app.failures).await?;
    let console = app.console(tenant, "/console").await?;
    let content = html! {
        p { (counted(erased.count, "payload", "payloads")) " erased." }
        @if let Some(cursor) = &erased.next {
            (Form {
                to: &format!("/console/endpoints/{id}"),
                action: "erase",
                button: "Erase the rest",
                is_danger: true,
                hidden: &[
                    ("since", form.get("since")),
                    ("until", form.get("until")),
                    ("cursor", cursor.as_str()),
                    ("sure", TICKED),
                ],
                ..Form::default()
            })
        }
        p { a href={ "/console/endpoints/" (id) } { "Back to endpoint" } }
    };
    Ok(Page::new("Payloads erased", content).done().within(console).into())
}

async fn delete(app: &App, recorder: &Recorder, tenant: &TenantId, id: EndpointId) -> Result<Reply> {
    app.endpoints.delete(recorder, tenant, id, &app.endings, app.retention.end(Timestamp::now())).await?;
    Ok(Reply::redirect(format!("/console?deleted={id}")))
}
