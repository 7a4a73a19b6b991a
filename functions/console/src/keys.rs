//! The page for API keys. Owners see and delete all the organization's keys, and members only their own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use api::ClosedSet;
use common::{
    accounts::{
        api_keys::{IssuedKey, KeyRecord, NewKey},
        permissions::{KeyKind, Permissions, Scope},
        rate_limits::KEY_FORM,
        users::{Role, User},
    },
    audit::{Action, Recorder},
    base_url::BaseUrl,
    error::{Error, Result},
    http::{
        Call, DID, DeclaredError, FormValues, Person, Reason, Reply, Route, SignedIn,
        page::{Field, Form, Page, TICKED, issues, visible},
    },
    id::{KeyId, UserId},
    issue::{Problem, parse_name},
    name::Name,
    presentation::times,
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use crate::{
    app::App,
    frame::{FormRequest, NO_FORM, RowForm, columns, console, redirect_to, unverified},
};

const HERE: &str = "/console/keys";

/// The fields of all the page's forms, except the scopes.
const FIELDS: [(&str, &str); 7] = [
    ("action", "The submitted form: `issue` or `delete`."),
    ("form", "`issue`: the id of the form. Submitting the form twice issues only one key."),
    ("name", "`issue`: the name of the key."),
    ("expires", "`issue`: when the key expires: `never`, or after `30`, `90` or `365` days."),
    ("kind", "`issue`: `personal` (the default) or `organization`."),
    ("access", "`issue`: `all` scopes of the kind, or the `chosen` ones."),
    ("keyId", "`delete`: the id of the key to delete."),
];

fn fields_of_forms() -> Vec<(&'static str, &'static str)> {
    let scopes = Scope::ALL.iter().map(|scope| (scope.as_str(), "`issue`: `yes` to choose this scope."));
    FIELDS.into_iter().chain(scopes).collect()
}

const DONE: [(&str, &str); 2] = [
    ("deleted", "API key deleted. It no longer works."),
    (
        "known",
        "This form was already submitted, so no new key was created. If you did not copy the key, delete it below and \
         create another one.",
    ),
];

/// The selectable kinds of keys.
pub(crate) const KINDS: [(&str, &str); 2] = [
    ("personal", "Me: the key ends with my account"),
    ("organization", "The organization: the key works after I leave"),
];

/// The choice between all scopes and some. It is required: otherwise, a form with unknown scopes would create a key
/// with all scopes.
pub(crate) const ACCESS: [(&str, &str); 2] = [("all", "Everything"), ("chosen", "Only the scopes checked below")];

/// A call for each read scope. A key without any of these may still ask for its session.
const TRIALS: [(Scope, &str); 5] = [
    (Scope::WebhooksRead, "/v1/webhooks/list -d '{}'"),
    (Scope::DeliveriesRead, "/v1/deliveries/list -d '{}'"),
    (Scope::SettingsRead, "/v1/tenant/settings -d '{}'"),
    (Scope::AuditRead, "/v1/audit/list -d '{}'"),
    (Scope::MembersRead, "/api/auth/organization/list-members"),
];

/// The scopes of calls that only owners may make, except that `members:write` also deletes the user's other keys.
const OF_OWNERS: [Scope; 3] = [Scope::SettingsWrite, Scope::MembersWrite, Scope::AuditRead];

/// The selectable lifetimes of a key: a number of days, or no expiry.
pub(crate) const EXPIRES: [(&str, &str); 4] =
    [("never", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year")];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, Person, |_, fields| Ok(fields.typed(&[DID])), get_page)
        .summary("Shows the API keys that the signed-in user manages.")
}

pub(crate) fn submit() -> Route<App> {
    Route::post(HERE, Person, |_, fields| Ok(fields.typed(&fields_of_forms())), post_form)
        .records(&[Action::KeyCreated, Action::KeyDeleted])
        .summary(
            "Handles the forms on the API keys page, with the same effect as the API calls: creating a key and showing \
             it once, or deleting a key.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::OwnersOnly,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::KeyLimit),
        ])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<SignedIn>, link: FormValues) -> Result<Page> {
    page(&app, &call.caller.user, FormRequest::link(link)).await
}

async fn post_form(app: Arc<App>, call: Call<SignedIn, Recorder>, form: FormValues) -> Result<Reply> {
    let user = &call.caller.user;
    let done = match form.get("action") {
        "issue" => issue(&app, &call, &form).await,
        "delete" => delete(&app, &call.recorder, user, &form).await,
        _ => Err(NO_FORM),
    };
    let Err(error) = done else { return done };
    Ok(page(&app, user, FormRequest::refused(form, error)?).await?.into())
}

/// Issues a key and shows it. The form has an id, so reloading the page does not issue a second key.
async fn issue(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let (user, now) = (&call.caller.user, Timestamp::now());
    user.check_verified()?;
    let key = form.read(|fields| {
        let name = fields.text("name", Name::parse);
        let lasts = fields.text("expires", |text| lasts(text).map(|time| time.map(|time| time.as_secs())));
        let kind = fields.optional_text("kind", parse_name::<KeyKind>)?.unwrap_or(KeyKind::Personal);
        let permissions = chosen(form).and_then(|scopes| Permissions::new(kind, scopes));
        let permissions = permissions.map_err(|problem| fields.reject("scopes", problem));
        let lifetime = lasts?.map(Duration::from_secs);
        Ok(NewKey { name: name?, permissions: permissions?, lifetime })
    })?;
    match app.rate_limits.count(KEY_FORM, &format!("{} {}", user.id, form.get("form")), now).await {
        Err(Error::TooMany { .. }) => return Ok(redirect_to(HERE, "known")),
        counted => counted?,
    }
    let issued = app.keys.issue(&call.recorder, &app.users, user, key, now).await?;
    app.alerts.key_created(user, &issued, &call.device(), &call.base).await;
    Ok(new_key(&call.base, &issued).within(console(app, user, HERE).await?).into())
}

/// Returns the chosen scopes, or `None` for all.
fn chosen(form: &FormValues) -> Result<Option<BTreeSet<Scope>>, Problem> {
    let sent = |scope: &&Scope| form.has(scope.as_str());
    let scopes: BTreeSet<Scope> = Scope::ALL.iter().filter(sent).copied().collect();
    if scopes.iter().any(|scope| form.get(scope.as_str()) != TICKED) {
        return Err(Problem::format("Check or uncheck each scope"));
    }
    match (form.get("access"), scopes.is_empty()) {
        ("all", true) => Ok(None),
        ("all", false) => Err(Problem::format("Uncheck all scopes, or choose only those checked")),
        ("chosen", false) => Ok(Some(scopes)),
        ("chosen", true) => Err(Problem::format("Check at least one scope")),
        _ => Err(Problem::format("Choose everything or scopes")),
    }
}

async fn delete(app: &App, recorder: &Recorder, user: &User, form: &FormValues) -> Result<Reply> {
    let key = form.read(|fields| fields.text("keyId", KeyId::parse))?;
    app.keys.revoke(recorder, &user.organization, user.manages_keys_of(), key).await?;
    Ok(redirect_to(HERE, "deleted"))
}

/// Parses the lifetime. `None` if the key never expires.
fn lasts(choice: &str) -> Result<Option<Duration>, Vec<Problem>> {
    if !EXPIRES.iter().any(|(value, _)| *value == choice) {
        return Err(vec![Problem::format("Choose one of the options")]);
    }
    Ok(choice.parse().ok().map(|days: u64| Duration::from_hours(days * 24)))
}

async fn page(app: &App, user: &User, sent: FormRequest) -> Result<Page> {
    let keys = async {
        let keys = app.keys.managed(&user.organization, user.manages_keys_of()).await?;
        let names = app.users.names(&user.organization, keys.iter().map(|key| key.user)).await?;
        Ok((keys, names))
    };
    let (frame, (keys, names)) = tokio::try_join!(console(app, user, HERE), keys)?;
    let content = html! {
        (sent.news(&DONE, if user.email_verified { &["issue"] } else { &[] }))
        p {
            "Programs send a key to the API in the header " code { "x-api-key" } ". A personal key has the permissions of the \
             person who created it, and ends with their account. An organization key works until it is deleted or expires."
        }
        @if keys.is_empty() { p { strong { "No API keys yet." } } } @else { (listed(&keys, &names)) }
        h2 { "Create an API key" }
        @if user.email_verified { (issue_form(&sent, user)) } @else { (unverified("create API keys")) }
    };
    Ok(Page::new("API keys", content).within(frame).refused(sent.refused))
}

fn listed(keys: &[KeyRecord], names: &BTreeMap<UserId, Name>) -> Markup {
    let now = Timestamp::now();
    html! {
        table .cards {
            (columns(&["Name", "Key", "Acts for", "Scopes", "Created", "Last used", "Expires", ""]))
            tbody {
                @for key in keys {
                    tr {
                        td data-label="Name" { (visible(key.name.as_str())) }
                        td data-label="Key" { code { (key.start) "…" } }
                        td data-label="Acts for" { (acts_for(key, names)) }
                        td data-label="Scopes" { (key.permissions) }
                        td data-label="Created" { (times::ago(key.created_at, now)) }
                        td data-label="Last used" { (last_use(key, now)) }
                        td data-label="Expires" { (expiry(key.expires_at, now)) }
                        td { (delete_form(key)) }
                    }
                }
            }
        }
    }
}

fn acts_for(key: &KeyRecord, names: &BTreeMap<UserId, Name>) -> Markup {
    let creator = visible(names.get(&key.user).map_or("A former member", Name::as_str));
    html! {
        @match key.permissions.kind() {
            KeyKind::Personal => (creator),
            KeyKind::Organization => { "The organization" div .soft { "Created by " (creator) } },
        }
    }
}

fn last_use(key: &KeyRecord, now: Timestamp) -> Markup {
    html! {
        @match key.last_request {
            None => "Never",
            Some(at) => { (times::day(at, now)) @if let Some(address) = &key.last_address { div .soft { "from " (address) } } },
        }
    }
}

fn expiry(expires_at: Option<Timestamp>, now: Timestamp) -> Markup {
    html! {
        @match expires_at {
            None => "Never",
            Some(at) => { (times::ago(at, now)) @if at <= now { " " span .state.bad { "✕ Expired" } } },
        }
    }
}

fn delete_form(key: &KeyRecord) -> Markup {
    let id = key.id.to_string();
    RowForm {
        fold: "Delete",
        about: key.name.as_str(),
        says: "Requests with this key are rejected immediately.",
        button: "Delete key",
        is_danger: true,
        hidden: &[("action", "delete"), ("keyId", &id)],
    }
    .render()
}

fn issue_form(sent: &FormRequest, user: &User) -> Markup {
    let form = KeyId::generate().to_string();
    let name = Field::text("name", "Name", "off", sent.typed("issue", "name"))
        .hint("For example, the name of the program that will use the key");
    let expires = Field::select("expires", "Expires", &EXPIRES, sent.typed("issue", "expires"));
    let kind = Field::select("kind", "Acts for", &KINDS, sent.typed("issue", "kind"));
    let access = Field::select("access", "May use", &ACCESS, sent.typed("issue", "access"));
    let fields = [name, expires, access, kind];
    // Only owners create organization keys.
    let fields = if user.role == Role::Owner { &fields } else { &fields[..3] };
    let issue = sent.form("issue", "Create API key", fields);
    Form { hidden: &[("form", &form)], more: Some(&scopes(sent, user)), ..issue }.render()
}

/// The scopes that the key can use: a personal key has the permissions of its user.
fn scopes(sent: &FormRequest, user: &User) -> Markup {
    let usable = |scope: &&Scope| user.role == Role::Owner || !OF_OWNERS.contains(scope);
    let wrong = issues("scopes", sent.error("issue"));
    html! {
        fieldset {
            legend { "Scopes" }
            p .hint {
                "To limit the key, choose “Only the scopes checked below”. A read scope lets the key list and read \
                 data; a write scope lets it change or send data."
            }
            @for scope in Scope::ALL.iter().filter(usable) {
                @let (name, is_ticked) = (scope.as_str(), sent.typed("issue", scope.as_str()) == TICKED);
                div {
                    input type="checkbox" id={ "issue-" (name) } name=(name) value=(TICKED) checked[is_ticked];
                    label for={ "issue-" (name) } { code { (name) } }
                }
            }
            @if !wrong.is_empty() { p .error { (wrong.join(". ")) "." } }
        }
    }
}

/// A call that changes nothing and that the key may make: its path, and its body if it has one.
fn trial(permissions: &Permissions) -> &'static str {
    let allowed = TRIALS.iter().find(|(scope, _)| permissions.include(*scope));
    allowed.map_or("/api/auth/get-session", |(_, call)| call)
}

fn new_key(base: &BaseUrl, issued: &IssuedKey) -> Page {
    let (key, new) = (issued.key.reveal(), &issued.new);
    let content = html! {
        p { strong { "Copy the key now. It is not shown again." } }
        dl {
            dt { "Name" } dd { (visible(new.name.as_str())) }
            dt { "Key" } dd { code #key { (key) } }
            dt { "Scopes" } dd { (new.permissions) }
            dt { "Expires" } dd { (expiry(issued.expires_at(), issued.created_at)) }
        }
        h2 { "Try it" }
        pre #try { "curl " (base) (trial(&new.permissions)) " -H 'x-api-key: " (key) "'" }
        div .row {
            a .button href="/console/endpoints/new" { "Add endpoint" }
            a href=(HERE) { "Back to API keys" }
        }
    };
    Page::new("Your new API key", content).done()
}
