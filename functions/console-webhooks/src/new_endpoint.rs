//! The page that adds an endpoint.

use std::sync::Arc;

use common::{
    accounts::users::User,
    application::idempotency::{CallResponse, IdempotencyKey, InputHash},
    audit::{Action, Recorder},
    error::{Error, Result},
    http::{
        Call, DeclaredError, FormValues, People, Reason, Reply, Route, VerifiedPerson,
        page::{Page, visible},
    },
    id::{EndpointId, TenantId},
    issue::parse_name,
    timestamp::Timestamp,
    webhooks::{
        destination::SigningSecret,
        endpoints::{DeliveryMethod, Kind, NewEndpoint},
    },
};
use maud::html;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    app::App,
    endpoint, pull,
    settings::{self, Settings, SettingsForm},
    signing_secret,
};

const PATH: &str = "/console/endpoints/new";
const HEADERS: &str =
    "One per line, such as “authorization: Bearer …”. They are sent with each delivery, and not shown again";

const AGAIN: &str = "Enter them again: headers are secret, so they are not shown here. One per line, such as \
                     “authorization: Bearer …”";

pub(crate) fn show() -> Route<App, People> {
    Route::get(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&[KIND])), get_page)
        .summary("Shows the form for a new endpoint. Opening the page changes nothing.")
        .errors(&[DeclaredError::EmailNotVerified])
}

pub(crate) fn submit() -> Route<App, People> {
    Route::post(PATH, VerifiedPerson, |_, fields| Ok(fields.typed(&fields_of_form())), create)
        .records(&[Action::WebhookCreated])
        .summary("Creates an endpoint, as `webhooks/create` does, and shows its secret once.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::Conflict(Reason::EndpointLimit)])
}

/// The fields of the form beside the [settings]. `once` identifies the form, so submitting it twice creates only one endpoint.
const KIND: (&str, &str) = (
    "kind",
    "The kind of the endpoint: `push` (the default), or `pull` for an endpoint \
                                     without a URL.",
);

const FIELDS: [(&str, &str); 2] =
    [("once", "The id of the form. Submitting the form twice creates only one endpoint."), KIND];

fn fields_of_form() -> Vec<(&'static str, &'static str)> {
    [&FIELDS[..], settings::FIELDS].concat()
}

/// The stored response, which is returned again if the form is resubmitted.
#[derive(Deserialize, JsonSchema, Serialize)]
struct Created {
    id: String,
    secret: String,
    #[serde(default)]
    is_pull: bool,
}

/// Returns the kind of the endpoint. Any value except `pull` means a push endpoint.
fn kind(form: &FormValues) -> Kind {
    parse_name(form.get("kind")).unwrap_or(Kind::Push)
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    let values = settings::initial();
    let empty = SettingsForm { values: &values, kind: kind(&link), is_new: true, headers_hint: HEADERS };
    form(&app, &call.caller.organization, &empty, &EndpointId::generate().to_string(), None).await
}

async fn create(app: Arc<App>, call: Call<User, Recorder>, form: FormValues) -> Result<Reply> {
    let tenant = &call.caller.organization;
    match store(&app, &call.recorder, tenant, &form).await {
        Ok(created) => Ok(page(&app, &call, &created).await?.into()),
        Err(error) if error.is_ours() => Err(error),
        Err(error) => {
            let headers_hint = if form.get("headers").is_empty() { HEADERS } else { AGAIN };
            let shown = SettingsForm { values: &form, kind: kind(&form), is_new: false, headers_hint };
            Ok(self::form(&app, tenant, &shown, form.get("once"), Some(error)).await?.into())
        }
    }
}

async fn store(app: &App, recorder: &Recorder, tenant: &TenantId, form: &FormValues) -> Result<Created> {
    let Settings { url, headers, options } = Settings::read(form, kind(form), &app.destinations)?;
    let endpoint = NewEndpoint {
        id: EndpointId::generate(),
        method: url.map_or(DeliveryMethod::Pull, DeliveryMethod::Push),
        signing_secret: SigningSecret::generate(),
        headers: headers.unwrap_or_default(),
        active: true,
        options,
        created_at: Timestamp::now(),
    };
    // Submitting the same form twice, with a double click or a reload, creates only one endpoint.
    let content: Vec<_> = fields_of_form().iter().map(|(name, _)| form.get(name)).collect();
    let content = InputHash::of(content.join("\0").as_bytes());
    let key = IdempotencyKey::parse(content.to_string().as_bytes(), content).ok();
    let once = app.calls.once(tenant, PATH, key, endpoint.created_at);
    let create = async {
        let secret = endpoint.signing_secret.reveal().to_owned();
        let created = Created { id: endpoint.id.to_string(), secret, is_pull: kind(form) == Kind::Pull };
        let marker = once.marker(&created)?;
        app.endpoints.create(recorder, tenant, &endpoint, app.limit, marker.as_ref()).await?;
        Ok(created)
    };
    match once.answer(create).await? {
        CallResponse::New(created) => Ok(created),
        CallResponse::Known(answer) => {
            serde_json::from_str(answer.get()).map_err(Error::internal("reading the stored answer to a form"))
        }
    }
}

async fn form(
    app: &App,
    tenant: &TenantId,
    shown: &SettingsForm<'_>,
    once: &str,
    error: Option<Error>,
) -> Result<Page> {
    let console = app.console(tenant, "/console").await?;
    let content = html! {
        @if let Some(error) = error.as_ref().filter(|error| !matches!(error, Error::Invalid(_))) {
            (common::http::page::alert(error))
        }
        form .fill method="post" action="?" {
            input type="hidden" name="once" value=(once);
            @if shown.kind == Kind::Pull {
                input type="hidden" name="kind" value="pull";
                p {
                    "A pull endpoint has no URL. Your program fetches its deliveries from the API. The command-line \
                     client fanfare listen fetches deliveries and forwards them to a program on your computer."
                }
            }
            (shown.fields("new", error.as_ref()))
            button { "Add endpoint" }
        }
        @if shown.kind == Kind::Push {
            p {
                a href="?kind=pull" { "Add a pull endpoint instead" } " if your server cannot be reached from the internet."
            }
        }
        p { a href="/console" { "Back to endpoints" } }
    };
    Ok(Page::new("Add endpoint", content).refused(error).within(console))
}

async fn page(app: &App, call: &Call<User, Recorder>, created: &Created) -> Result<Page> {
    let console = app.console(&call.caller.organization, "/console").await?;
    let link = format!("/console/endpoints/{}", visible(&created.id));
    let secret = SigningSecret::parse(&created.secret);
    let secret = secret.map_err(|_problems| Error::Internal("the endpoint's secret does not parse".to_owned()))?;
    let content = html! {
        (signing_secret::copied(&secret))
        @if created.is_pull && let Ok(id) = EndpointId::parse(&created.id) {
            (pull::usage(id, &call.base, true))
            details { summary { "How to verify signatures" } (signing_secret::receivers()) }
        } @else { (signing_secret::receivers()) }
        div .row {
            (endpoint::test(&link, false))
            a href=(link) { "View endpoint" }
        }
    };
    Ok(Page::new("Endpoint added", content).done().within(console))
}
