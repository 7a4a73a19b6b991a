//! The page of API keys. Owners see and delete all keys of the organization, members their own.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    accounts::{
        api_keys::{IssuedKey, KeyRecord},
        attempts::KEY_FORM,
        users::User,
    },
    base_url::BaseUrl,
    error::{Error, Result},
    http::{
        Call, DID, Fault, Person, Reason, Reply, Route, SignedIn, Typed,
        page::{Field, Form, Page, visible},
    },
    id::{KeyId, UserId},
    issue::Problem,
    name::Name,
    timestamp::Timestamp,
};
use maud::{Markup, html};

use crate::{
    app::App,
    frame::{NO_FORM, RowForm, Sent, columns, console, day, go_on, unverified},
};

const HERE: &str = "/console/keys";

/// The fields of all forms of the page.
const FIELDS: [(&str, &str); 5] = [
    ("action", "The submitted form: `issue` or `delete`."),
    ("form", "`issue`: the id of the form. Submitting the form twice issues only one key."),
    ("name", "`issue`: the name of the key."),
    ("expires", "`issue`: when the key expires: `never`, or after `30`, `90` or `365` days."),
    ("keyId", "`delete`: the id of the key to delete."),
];

const DONE: [(&str, &str); 2] = [
    ("deleted", "API key deleted. It no longer works."),
    (
        "known",
        "This form was already submitted, so no new key was created. If you did not copy the key, delete it below and \
         create another one.",
    ),
];

/// The choices for the expiry of a key: days, or never.
const EXPIRES: [(&str, &str); 4] =
    [("never", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year")];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, Person, |_, fields| Ok(fields.typed(&[DID])), open)
        .summary("Shows the API keys that the signed-in user manages.")
}

pub(crate) fn submit() -> Route<App> {
    Route::post(HERE, Person, |_, fields| Ok(fields.typed(&FIELDS)), act)
        .summary(
            "Handles the forms of the API keys page, which create a key and show it once, or delete a key, as the API \
             does.",
        )
        .faults(&[Fault::EmailNotVerified, Fault::NotFound, Fault::Conflict(Reason::KeyLimit)])
        .redirects()
}

async fn open(app: Arc<App>, call: Call<SignedIn>, link: Typed) -> Result<Page> {
    page(&app, &call.caller.user, Sent::link(link)).await
}

async fn act(app: Arc<App>, call: Call<SignedIn>, form: Typed) -> Result<Reply> {
    let user = &call.caller.user;
    let done = match form.get("action") {
        "issue" => issue(&app, &call, &form).await,
        "delete" => delete(&app, user, &form).await,
        _ => Err(NO_FORM),
    };
    match done {
        Ok(reply) => Ok(reply),
        Err(error) => Ok(page(&app, user, Sent::refused(form, error)?).await?.into()),
    }
}

/// Answers with the page that shows the key. The form has an id, so that a reload of that page creates no second key.
async fn issue(app: &App, call: &Call<SignedIn>, form: &Typed) -> Result<Reply> {
    let (user, now) = (&call.caller.user, Timestamp::now());
    user.check_verified()?;
    let (name, lasts) = form.read(|fields| {
        let name = fields.text("name", Name::parse);
        let lasts = fields.text("expires", |text| lasts(text).map(|time| time.map(|time| time.as_secs())));
        Ok((name?, lasts?))
    })?;
    match app.attempts.count(KEY_FORM, &format!("{} {}", user.id, form.get("form")), now).await {
        Err(Error::TooMany { .. }) => return Ok(go_on(HERE, "known")),
        counted => counted?,
    }
    let expires_at = lasts.map(|seconds| now.after(Duration::from_secs(seconds)));
    let issued = app.keys.issue(user, &name, expires_at, now).await?;
    app.alerts.key_created(user, &name, &issued, &call.device(), &call.base).await;
    Ok(new_key(&call.base, &name, &issued).within(console(app, user, HERE).await?).into())
}

async fn delete(app: &App, user: &User, form: &Typed) -> Result<Reply> {
    let key = form.read(|fields| fields.text("keyId", KeyId::parse))?;
    app.keys.revoke(user, key).await?;
    Ok(go_on(HERE, "deleted"))
}

/// The lifetime for a choice of the form. `None` if the key never expires.
fn lasts(choice: &str) -> Result<Option<Duration>, Vec<Problem>> {
    if !EXPIRES.iter().any(|(value, _)| *value == choice) {
        return Err(vec![Problem::format("Choose one of the options")]);
    }
    Ok(choice.parse().ok().map(|days: u64| Duration::from_secs(days * 24 * 60 * 60)))
}

async fn page(app: &App, user: &User, sent: Sent) -> Result<Page> {
    let keys = async {
        let keys = app.keys.managed(user).await?;
        let names = app.members.names(&user.organization, keys.iter().map(|key| key.user)).await?;
        Ok((keys, names))
    };
    let (frame, (keys, names)) = tokio::try_join!(console(app, user, HERE), keys)?;
    let content = html! {
        (sent.news(&DONE, if user.email_verified { &["issue"] } else { &[] }))
        p {
            "Programs send a key to the API in the header " code { "x-api-key" } ". A key has the permissions of the person \
             who created it."
        }
        @if keys.is_empty() { p { strong { "No API keys yet." } " Create one below." } } @else { (listed(&keys, &names)) }
        h2 { "Create an API key" }
        @if user.email_verified { (issue_form(&sent)) } @else { (unverified("create API keys")) }
    };
    Ok(Page::new("API keys", content).within(frame).refused(sent.refused))
}

fn listed(keys: &[KeyRecord], names: &BTreeMap<UserId, Name>) -> Markup {
    let now = Timestamp::now();
    html! {
        table .cards {
            (columns(&["Name", "Key", "Created by", "Created", "Last used", "Expires", ""]))
            tbody {
                @for key in keys {
                    tr {
                        td data-label="Name" { (visible(key.name.as_str())) }
                        td data-label="Key" { code { (key.start) "…" } }
                        td data-label="Created by" { (names.get(&key.user).map_or("A former member", Name::as_str)) }
                        td data-label="Created" { (day(key.created_at)) }
                        td data-label="Last used" { @if let Some(at) = key.last_request { (day(at)) } @else { "Never" } }
                        td data-label="Expires" { (expiry(key.expires_at, now)) }
                        td { (delete_form(key)) }
                    }
                }
            }
        }
    }
}

fn expiry(expires_at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! {
        @match expires_at {
            None => "Never",
            Some(at) => { (day(at)) @if at <= now { " " span .state.bad { "✕ Expired" } } },
        }
    }
}

fn delete_form(key: &KeyRecord) -> Markup {
    let id = key.id.to_string();
    let delete = RowForm {
        fold: "Delete",
        about: key.name.as_str(),
        says: "Requests with this key are refused immediately.",
        button: "Delete key",
        is_danger: true,
        hidden: &[("action", "delete"), ("keyId", &id)],
    };
    html! { (delete) }
}

fn issue_form(sent: &Sent) -> Markup {
    let form = KeyId::generate().to_string();
    let name = Field::text("name", "Name", "off", sent.typed("issue", "name"))
        .hint("For example, the name of the program that will use the key");
    let issue = Form {
        id: "issue",
        button: "Create API key",
        hidden: &[("action", "issue"), ("form", &form)],
        fields: &[name, Field::select("expires", "Expires", &EXPIRES, sent.typed("issue", "expires"))],
        error: sent.error("issue"),
        ..Form::default()
    };
    html! { (issue) }
}

fn new_key(base: &BaseUrl, name: &Name, issued: &IssuedKey) -> Page {
    let key = issued.key.reveal();
    let content = html! {
        p { strong { "Copy the key now. It is not shown again." } }
        dl {
            dt { "Name" } dd { (visible(name.as_str())) }
            dt { "Key" } dd { code #key { (key) } }
            dt { "Expires" } dd { (expiry(issued.expires_at, issued.created_at)) }
        }
        h2 { "Try it" }
        pre #try { "curl " (base) "/v1/webhooks/list -H 'x-api-key: " (key) "' -d '{}'" }
        p { a .button href=(HERE) { "Back to API keys" } }
    };
    Page::new("Your new API key", content).done()
}
