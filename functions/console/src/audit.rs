//! The page with the organization's audit log, for owners.

use std::{borrow::Cow, sync::Arc};

use api::ClosedSet as _;
use common::{
    accounts::{agent, users::User},
    audit::{Action, Actor, ActorKind, Change, EntryFilter, Position, TargetKind},
    error::Result,
    http::{
        Call, DeclaredError, FormValues, Route, VerifiedPerson,
        page::{Field, Page, visible},
    },
    issue::parse_name,
    presentation::times,
    timestamp::Timestamp,
};
use maud::{Markup, html};
use url::form_urlencoded;

use crate::{
    app::App,
    frame::{columns, console},
};

const HERE: &str = "/console/audit";
/// The page that links here.
const TEAM: &str = "/console/team";
/// The number of entries on a page.
const LIMIT: usize = 20;
/// The maximum number of newer pages in an address.
const MAX_NEWER_PAGES: usize = 8;
/// The cursor for the first page, in the list of newer pages.
const FIRST: &str = "-";

const FIELDS: [(&str, &str); 5] = [
    ("action", "Only changes of this type, such as `member.removed`."),
    ("actor", "Only changes by the user or key with this id, or by `system`."),
    ("target", "Only changes of the object with this id, such as an endpoint."),
    ("cursor", "The cursor for this page, from the link on the previous page."),
    ("newer", "The cursors for newer pages, to build the link to them."),
];

/// The fields that select entries, beside the page.
const FILTERS: [&str; 3] = ["action", "actor", "target"];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, VerifiedPerson, |_, fields| Ok(fields.typed(&FIELDS)), get_page)
        .summary("Shows the organization's changes in the last year, newest first. Owners only.")
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::OwnersOnly])
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    let user = &call.caller;
    user.check_owner()?;
    let (filter, cursor) = link.clone().without_empty().read(|fields| {
        let action = fields.optional_text("action", parse_name);
        let actor = fields.optional_text("actor", |text| Ok(text.trim().to_owned()));
        let target = fields.optional_text("target", |text| Ok(text.trim().to_owned()));
        let cursor = fields.optional_text("cursor", Position::parse);
        Ok((EntryFilter { action: action?, actor: actor?, target: target?, ..EntryFilter::default() }, cursor?))
    })?;
    let listed = app.audit.list(&user.organization, &filter, cursor, LIMIT, Timestamp::now());
    let (frame, listed) = tokio::try_join!(console(&app, user, TEAM), listed)?;
    let content = html! {
        p {
            "Changes to endpoints, API keys, members, invitations, settings, accounts and sessions, and resends, recoveries, \
             erasures and tests, in the last year. "
            a href=(TEAM) { "Back to the team" }
        }
        (filters(&link))
        @if listed.entries.is_empty() { p { strong { "No changes found." } } } @else { (table(&listed.entries, &link)) }
        (pages(&link, listed.next))
    };
    Ok(Page::new("Audit log", content).within(frame))
}

fn filters(link: &FormValues) -> Markup {
    let mut actions = vec![("", "All")];
    actions.extend(Action::ALL.iter().map(|action| (action.as_str(), words(*action))));
    html! {
        form .filters method="get" action=(HERE) role="search" aria-label="Filters" {
            (Field::select("action", "Change", &actions, link.get("action")).html("", None))
            (Field::search("actor", "User or key ID", link.get("actor")).filter().html("", None))
            (Field::search("target", "Object ID", link.get("target")).filter().html("", None))
            div .row {
                button { "Search" }
                @if FILTERS.iter().any(|name| !link.get(name).is_empty()) { a href=(HERE) { "Clear filters" } }
            }
        }
    }
}

fn table(entries: &[api::audit::Entry], link: &FormValues) -> Markup {
    let now = Timestamp::now();
    html! {
        table .cards {
            (columns(&["Time", "Change", "By", "Object", "Details"]))
            tbody {
                @for entry in entries {
                    tr {
                        td data-label="Time" {
                            @if let Ok(at) = Timestamp::parse(entry.at.as_str()) { (times::stacked(at, now)) }
                        }
                        td data-label="Change" {
                            @match &entry.action {
                                api::Extensible::Known(action) => (words(*action)),
                                api::Extensible::Later(name) => (name),
                            }
                        }
                        td data-label="By" { (author(&entry.actor, link)) (client(entry)) }
                        td data-label="Object" { (object(entry)) }
                        td data-label="Details" { @for change in &entry.changes { @if !is_obvious(change, entry) { (field(change, entry)) } } }
                    }
                }
            }
        }
    }
}

/// The actor, with a link to their other changes.
fn author(actor: &Actor, link: &FormValues) -> Markup {
    let name = match &actor.kind {
        kind if *kind == ActorKind::System => "The service",
        _ => actor.name.as_deref().or(actor.email.as_deref()).unwrap_or(&actor.id),
    };
    html! {
        @if actor.kind == ActorKind::Key { "Key " }
        a href=(address(&[("action", link.get("action")), ("actor", &actor.id), ("target", link.get("target"))])) { (visible(name)) }
        @if let Some(email) = actor.email.as_deref().filter(|email| *email != name) { div .soft { (visible(email)) } }
    }
}

fn client(entry: &api::audit::Entry) -> Markup {
    html! {
        @if let Some(ip) = &entry.ip {
            div .soft {
                (ip)
                @if let Some(agent) = &entry.user_agent { ", " (visible(&agent::name(agent))) }
            }
        }
    }
}

fn object(entry: &api::audit::Entry) -> Markup {
    let target = &entry.target;
    if target.kind == TargetKind::Session {
        // For a sign-in, the entry's client is the session's client. Otherwise, the client ended the session, which may
        // belong to another client.
        let agent = entry.user_agent.as_deref().filter(|_| entry.action == Action::SessionCreated);
        return html! { (agent.map_or("A session".into(), |text| visible(&agent::name(text)).into_owned())) };
    }
    let is_of_all = matches!(&entry.action, api::Extensible::Known(Action::RecoveryStarted | Action::ErasureRequested));
    if is_of_all && target.kind == TargetKind::Organization {
        return html! { "All endpoints" };
    }
    let name = target.name.as_deref().unwrap_or(&target.id);
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    html! {
        @if target.kind == TargetKind::Endpoint && entry.action != Action::WebhookDeleted {
            a href={ "/console/endpoints/" (target.id) } { (visible(name)) }
        } @else if target.kind == TargetKind::Delivery {
            a href={ "/console/deliveries/" (target.id) } { (visible(name)) }
        } @else {
            (visible(name))
        }
    }
}

/// Whether the entry already shows this information, or the value is only an id, which means nothing to people.
fn is_obvious(change: &Change, entry: &api::audit::Entry) -> bool {
    let is_created = entry.action == Action::WebhookCreated;
    match &*change.field {
        "url" => is_created && change.new == entry.target.name,
        "active" => is_created,
        "invitation" => true,
        _ => false,
    }
}

/// A changed field, in words.
fn field(change: &Change, entry: &api::audit::Entry) -> Markup {
    let Change { field, old, new } = change;
    let value =
        |value: &Option<String>| value.as_deref().map_or_else(|| unset(field).to_owned(), |text| in_words(field, text));
    let is_update = entry.action == Action::WebhookUpdated;
    if let ("active", Some(active)) = (&**field, new) {
        return html! { div { @if active == "true" { "Enabled" } @else { "Disabled" } } };
    }
    html! {
        div {
            (label(field))
            @match (old, new) {
                (None, None) => " changed",
                (None, Some(_)) if !is_update => { ": " (value(new)) },
                _ => { ": " (value(old)) " → " (value(new)) },
            }
        }
    }
}

/// The names of fields on pages. Fields that are added later keep the API's names.
const LABELS: [(&str, &str); 34] = [
    ("backup_codes", "Backup codes"),
    ("consent", "Emails of the organization"),
    ("debug_notification_email", "Email for notifications"),
    ("description", "Description"),
    ("disable_job_failure_notifications", "Emails about failed jobs"),
    ("email", "Email"),
    ("email_verified", "Email confirmed"),
    ("event", "Event"),
    ("events", "Events"),
    ("expires_at", "Expires"),
    ("headers", "Headers"),
    ("keep_payload", "Payloads kept"),
    ("kind", "Acts for"),
    ("max_concurrent", "Requests at a time"),
    ("name", "Name"),
    ("password", "Password"),
    ("payload", "Payload"),
    ("recipient", "Recipient"),
    ("pending_email", "New email"),
    ("previous_secret", "Previous secret"),
    ("reason", "Reason"),
    ("require_two_factor", "Two-factor authentication required"),
    ("role", "Role"),
    ("scopes", "Scopes"),
    ("second_factor", "Second factor"),
    ("signing_secret", "Signing secret"),
    ("since", "Since"),
    ("slug", "Slug"),
    ("status", "Status"),
    ("until", "Until"),
    ("url", "URL"),
    ("webhook_endpoint_id", "Endpoint"),
    ("workflows", "Workflows"),
    ("active", "Enabled"),
];

fn label(field: &str) -> Cow<'_, str> {
    LABELS.iter().find(|(name, _)| *name == field).map_or_else(|| visible(field), |(_, label)| (*label).into())
}

/// The word for a field that is not set: its default.
fn unset(field: &str) -> &'static str {
    match field {
        "events" | "workflows" => "all",
        "payload" => "full",
        "keep_payload" => "yes",
        _ => "none",
    }
}

/// A value in words.
fn in_words(field: &str, value: &str) -> String {
    let words = match (field, value) {
        ("disable_job_failure_notifications", "true") => "off",
        ("disable_job_failure_notifications", _) => "on",
        ("reason", "gone") => "HTTP 410",
        ("kind", "personal") => "its creator",
        ("kind", "organization") => "the organization",
        (_, "true") => "yes",
        (_, "false") => "no",
        ("second_factor", "backup_code") => "backup code",
        ("second_factor", "totp") => "authenticator app",
        ("expires_at" | "since" | "until", at) => {
            return Timestamp::parse(at).map_or_else(|_| visible(at).into_owned(), Timestamp::readable);
        }
        (_, value) => return visible(value).into_owned(),
    };
    words.to_owned()
}

/// The links to newer and older pages.
fn pages(link: &FormValues, next: Option<Position>) -> Markup {
    let here = Some(link.get("cursor")).filter(|cursor| !cursor.is_empty());
    let newer: Vec<&str> = link.get("newer").split_whitespace().collect();
    let to = |cursor: &str, newer: &[&str]| {
        let newer = newer.get(newer.len().saturating_sub(MAX_NEWER_PAGES)..).unwrap_or_default().join(" ");
        let filters = FILTERS.map(|name| (name, link.get(name)));
        address(&[&filters[..], &[("cursor", cursor), ("newer", &newer)]].concat())
    };
    let before = here.map(|_| newer.split_last().map_or((FIRST, &[][..]), |(last, rest)| (*last, rest)));
    html! {
        p .row {
            @if let Some((cursor, rest)) = before {
                a href=(to(if cursor == FIRST { "" } else { cursor }, rest)) { "Newer changes" }
            }
            @if let Some(next) = next {
                a href=(to(&next.to_string(), &[newer.as_slice(), &[here.unwrap_or(FIRST)]].concat())) { "Older changes" }
            }
        }
    }
}

/// The address of this page with the values that are not empty.
fn address(values: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(values.iter().filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    if query.is_empty() { HERE.to_owned() } else { format!("{HERE}?{query}") }
}

/// The action in words.
fn words(action: Action) -> &'static str {
    match action {
        Action::OrganizationCreated => "Organization created",
        Action::OrganizationRenamed => "Organization renamed",
        Action::OrganizationDeleted => "Organization deleted",
        Action::SettingsChanged => "Settings changed",
        Action::MemberJoined => "Member joined",
        Action::MemberRoleChanged => "Role changed",
        Action::MemberRemoved => "Member removed",
        Action::MemberLeft => "Member left",
        Action::InvitationCreated => "Invitation sent",
        Action::InvitationCanceled => "Invitation canceled",
        Action::InvitationRejected => "Invitation declined",
        Action::KeyCreated => "API key created",
        Action::KeyDeleted => "API key deleted",
        Action::WebhookCreated => "Endpoint created",
        Action::WebhookUpdated => "Endpoint changed",
        Action::WebhookDisabled => "Endpoint disabled by the service",
        Action::WebhookDeleted => "Endpoint deleted",
        Action::WebhookTested => "Test event sent",
        Action::DeliveryResent => "Delivery resent",
        Action::RecoveryStarted => "Recovery started",
        Action::ErasureRequested => "Erasure requested",
        Action::UserRenamed => "Name changed",
        Action::EmailRequested => "New email address entered",
        Action::EmailVerified => "Email address confirmed",
        Action::EmailChanged => "Email address changed",
        Action::EmailRestored => "Email address restored",
        Action::PasswordChanged => "Password changed",
        Action::PasswordReset => "Password reset",
        Action::TwoFactorEnabled => "Two-factor authentication enabled",
        Action::TwoFactorDisabled => "Two-factor authentication disabled",
        Action::TwoFactorCodesGenerated => "Backup codes replaced",
        Action::TwoFactorCodeUsed => "Backup code used",
        Action::SessionCreated => "Signed in",
        Action::SessionEnded => "Session ended",
        Action::SessionsEnded => "Sessions ended",
    }
}
