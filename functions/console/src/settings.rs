//! The page for the organization's settings. Owners can change them, and members can read them.

use std::sync::Arc;

use common::{
    accounts::{
        consent::Consent,
        email::EmailAddress,
        organizations::{Organization, settings::SettingsChange},
        suppressions::Cause,
        users::{Role, User},
    },
    audit::{Action, Recorder},
    base_url::BaseUrl,
    error::{Error, ForbiddenReason, Result},
    http::{
        Call, DID, DeclaredError, FormValues, Reply, Route, VerifiedPerson,
        page::{Field, Form, Page, visible},
    },
    issue::Problem,
    name::Name,
    presentation::console::Console,
};
use maud::{Markup, Render, html};

use crate::{
    app::App,
    frame::{FormRequest, redirect_to},
};

const HERE: &str = "/console/settings";

/// The fields of all the page's forms.
const FIELDS: [(&str, &str); 7] = [
    (
        "action",
        "The submitted form: `save` (the default), `resume`, `rename` or `require`. `resume` agrees to emails to \
                the user's own address again.",
    ),
    ("name", "`rename`: the new name of the organization."),
    ("debugNotificationEmail", "The address that receives the emails about failing endpoints and failed jobs."),
    ("requireTwoFactor", "`require`: whether all members need a second factor: `on` or `off`."),
    ("jobFailureMails", "Whether emails about failed jobs are sent: `on` or `off`."),
    (SHOWN_ADDRESS, "`debugNotificationEmail` as the page showed it. The same value changes nothing."),
    (SHOWN_MAILS, "`jobFailureMails` as the page showed it. The same value changes nothing."),
];

/// The fields with the settings that the page showed. Another owner may have changed a setting since that this one left
/// as it was.
const SHOWN_ADDRESS: &str = "shownDebugNotificationEmail";
const SHOWN_MAILS: &str = "shownJobFailureMails";

/// The forms' actions.
const SAVE: &str = "save";
const RESUME: &str = "resume";
const RENAME: &str = "rename";
const REQUIRE: &str = "require";

const DONE: [(&str, &str); 4] = [
    ("saved", "Settings saved."),
    ("resumed", "You receive emails again."),
    ("renamed", "Name changed."),
    ("required", "Two-factor setting saved."),
];

/// The choices for the members' second factor.
pub(crate) const FACTORS: [(&str, &str); 2] = [("off", "Optional"), ("on", "Required for all members")];

/// The options for emails about failed jobs.
pub(crate) const MAILS: [(&str, &str); 2] = [("on", "On: send an email when jobs fail"), ("off", "Off")];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, VerifiedPerson, |_, fields| Ok(fields.typed(&[DID])), get_page)
        .summary("Shows the settings of the organization.")
        .errors(&[DeclaredError::EmailNotVerified])
}

pub(crate) fn submit() -> Route<App> {
    Route::post(HERE, VerifiedPerson, |_, fields| Ok(fields.typed(&FIELDS)), post_form)
        .records(&[Action::SettingsChanged, Action::OrganizationRenamed])
        .summary(
            "Handles the forms on the settings page, with the same effect as the API calls: changing the \
             organization's settings and name. Owners only.",
        )
        .errors(&[DeclaredError::EmailNotVerified, DeclaredError::OwnersOnly, DeclaredError::TooMany])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<User>, link: FormValues) -> Result<Page> {
    page(&app, &call.caller, FormRequest::link(link)).await
}

async fn post_form(app: Arc<App>, call: Call<User, Recorder>, form: FormValues) -> Result<Reply> {
    let done = match form.get("action") {
        RESUME => resume(&app, &call.recorder, &call.caller, &call.base).await.map(|()| "resumed"),
        RENAME => rename(&app, &call.recorder, &call.caller, &form).await.map(|()| "renamed"),
        REQUIRE => require(&app, &call.recorder, &call.caller, &form, &call.base).await.map(|()| "required"),
        _ => save(&app, &call.recorder, &call.caller, &form, &call.base).await.map(|()| "saved"),
    };
    match done {
        Ok(did) => Ok(redirect_to(HERE, did)),
        Err(error) => Ok(page(&app, &call.caller, FormRequest::refused(form, error)?).await?.into()),
    }
}

async fn save(app: &App, recorder: &Recorder, user: &User, form: &FormValues, base: &BaseUrl) -> Result<()> {
    let current = app.organizations.get(&user.organization).await?.debug_notification_email;
    let change = form.read(|fields| {
        let address = fields.text("debugNotificationEmail", EmailAddress::parse);
        let disable = fields.text("jobFailureMails", is_off);
        let (address, disable) = (address?, disable?);
        let is_changed = |name, shown| form.get(name) != form.get(shown);
        // An address that the form only repeats is no answer to a question about consent.
        let is_new = is_changed("debugNotificationEmail", SHOWN_ADDRESS) && address != current;
        Ok(SettingsChange {
            debug_notification_email: is_new.then_some(address),
            disable_job_failure_notifications: is_changed("jobFailureMails", SHOWN_MAILS).then_some(disable),
            ..Default::default()
        })
    })?;
    user.check_owner()?;
    app.settings.change(recorder, &user.organization, Some(user), change, base).await.map(drop)
}

/// Agrees to emails to the user's own address again.
async fn resume(app: &App, recorder: &Recorder, user: &User, base: &BaseUrl) -> Result<()> {
    user.check_owner()?;
    let change = SettingsChange { debug_notification_email: Some(user.email.clone()), ..Default::default() };
    app.settings.change(recorder, &user.organization, Some(user), change, base).await.map(drop)
}

async fn rename(app: &App, recorder: &Recorder, user: &User, form: &FormValues) -> Result<()> {
    user.check_verified_owner()?;
    let name = form.read(|fields| fields.text("name", Name::parse))?;
    app.organizations.rename(recorder, &app.users, user, &name).await.map(drop)
}

async fn require(app: &App, recorder: &Recorder, user: &User, form: &FormValues, base: &BaseUrl) -> Result<()> {
    let is_off = form.read(|fields| fields.text("requireTwoFactor", is_off))?;
    user.check_owner()?;
    if !user.has_two_factor {
        return Err(Error::Forbidden(ForbiddenReason::TwoFactorRequired));
    }
    let change = SettingsChange { require_two_factor: Some(!is_off), ..Default::default() };
    app.settings.change(recorder, &user.organization, Some(user), change, base).await.map(drop)
}

fn is_off(choice: &str) -> Result<bool, Vec<Problem>> {
    match choice {
        "on" => Ok(false),
        "off" => Ok(true),
        _ => Err(vec![Problem::format("Must be on or off")]),
    }
}

async fn page(app: &App, user: &User, sent: FormRequest) -> Result<Page> {
    let organization = app.organizations.get(&user.organization).await?;
    let (suppressed, consent) =
        tokio::try_join!(app.settings.suppressed(&organization), app.settings.consent(&organization))?;
    let content = html! {
        (sent.news(&DONE, forms_of(user)))
        @if let Some(cause) = suppressed { (undelivered(&organization, cause)) }
        @else { (unanswered(user, &organization, consent)) }
        (identity(&organization))
        @if user.role == Role::Owner {
            h2 { "Notifications" }
            (form(&organization, &sent))
            h2 { "Organization name" }
            (rename_form(&organization, &sent))
            h2 { "Two-factor authentication" }
            (require_form(user, &organization, &sent))
        } @else { (shown(&organization)) }
    };
    let frame = Console { organization: organization.name, here: HERE };
    Ok(Page::new("Settings", content).within(frame).refused(sent.refused))
}

/// The forms on the page of `user` that show their own errors.
fn forms_of(user: &User) -> &'static [&'static str] {
    match user.role {
        Role::Owner if user.has_two_factor => &[SAVE, RENAME, REQUIRE],
        Role::Owner => &[SAVE, RENAME],
        Role::Member => &[],
    }
}

/// The names of the organization, for producers, links and support.
fn identity(organization: &Organization) -> Markup {
    html! {
        dl {
            dt { "Organization" } dd { (visible(organization.name.as_str())) }
            dt { "Slug" } dd { (organization.slug) }
            dt { "Organization ID" } dd .mono.whole { (organization.id) }
        }
        p { "The service that runs your jobs sends the ID with each event, as " code { "tenant_id" } "." }
    }
}

fn undelivered(organization: &Organization, cause: Cause) -> Markup {
    let event = match cause {
        Cause::Bounce => "bounced",
        Cause::Complaint => "were reported as spam",
    };
    html! {
        div .notice.bad {
            p {
                "Emails to " strong { (visible(organization.debug_notification_email.as_str())) } " " (event)
                ", so no notifications are sent to it. "
                @if cause == Cause::Bounce { "Choose another address. After 30 days, emails are sent again." }
                @else { "Choose another address." }
            }
        }
    }
}

/// A note that the owner of the notification address has not agreed to emails or has stopped them, with the way back.
fn unanswered(user: &User, organization: &Organization, consent: Consent) -> Markup {
    let address = visible(organization.debug_notification_email.as_str());
    match consent {
        Consent::Agreed => html! {},
        Consent::Unanswered => html! {
            div .notice {
                p {
                    "The owner of " strong { (address) } " has not agreed to notifications yet, so they contain no details \
                     of jobs, and only a few are sent a day. Each one has a link to agree."
                }
            }
        },
        Consent::Stopped => html! {
            div .notice.bad {
                p {
                    "The owner of " strong { (address) } " stopped the emails of this organization, so no notifications are \
                     sent. They can agree again with the link in the last email, or you can choose another address."
                }
                @if user.role == Role::Owner && user.email == organization.debug_notification_email {
                    (Form { action: RESUME, button: "Receive emails again", is_secondary: true, ..Form::default() })
                }
            }
        },
    }
}

fn choice(organization: &Organization) -> &'static str {
    if organization.disable_job_failure_notifications { "off" } else { "on" }
}

fn form(organization: &Organization, sent: &FormRequest) -> Markup {
    let (stored_address, stored_mails) = (organization.debug_notification_email.as_str(), choice(organization));
    let [address, mails, shown_address, shown_mails] = match sent.error(SAVE) {
        Some(_) => {
            ["debugNotificationEmail", "jobFailureMails", SHOWN_ADDRESS, SHOWN_MAILS].map(|name| sent.typed(SAVE, name))
        }
        None => [stored_address, stored_mails, stored_address, stored_mails],
    };
    let fields = [
        Field::email("debugNotificationEmail", "Email for notifications", "off", address).hint(
            "Receives emails about failing endpoints and failed jobs. After a change, both addresses get an email",
        ),
        Field::select("jobFailureMails", "Emails about failed jobs", &MAILS, mails),
    ];
    let hidden = [(SHOWN_ADDRESS, shown_address), (SHOWN_MAILS, shown_mails)];
    Form { id: "settings", hidden: &hidden, ..sent.form(SAVE, "Save settings", &fields) }.render()
}

fn rename_form(organization: &Organization, sent: &FormRequest) -> Markup {
    let current = organization.name.as_str();
    let name = if sent.error(RENAME).is_some() { sent.typed(RENAME, "name") } else { current };
    let fields = [Field::text("name", "Organization name", "organization", name)];
    html! {
        p { "Members and invited people see this name. The slug " strong { (organization.slug) } " stays the same." }
        (Form { is_secondary: true, ..sent.form(RENAME, "Change name", &fields) })
    }
}

fn require_form(user: &User, organization: &Organization, sent: &FormRequest) -> Markup {
    let chosen = if organization.require_two_factor { "on" } else { "off" };
    let fields = [Field::select("requireTwoFactor", "Second factor", &FACTORS, chosen)];
    html! {
        p {
            "If required, members without a second factor must set one up after signing in, before they can do anything \
             else. API keys are not affected."
        }
        @if user.has_two_factor {
            (Form { is_secondary: true, ..sent.form(REQUIRE, "Save two-factor setting", &fields) })
        } @else {
            p { a href="/console/two-factor" { "Set up your own second factor first" } }
        }
    }
}

fn shown(organization: &Organization) -> Markup {
    html! {
        dl {
            dt { "Email for notifications" } dd { (organization.debug_notification_email) }
            dt { "Emails about failed jobs" }
            dd { @if organization.disable_job_failure_notifications { "Off" } @else { "On" } }
            dt { "Two-factor authentication" }
            dd { @if organization.require_two_factor { "Required" } @else { "Optional" } }
        }
        p { "Only owners can change these settings." }
    }
}
