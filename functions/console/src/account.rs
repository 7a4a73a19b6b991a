//! The page for the signed-in user's account: email address, sessions, password and deletion.

use std::sync::Arc;

use common::{
    accounts::{
        agent,
        email::EmailAddress,
        members::MemberIdOrEmail,
        password::{Guess, Password},
        sessions::{IdOrToken, Session},
        users::User,
    },
    audit::{Action, Recorder},
    error::Result,
    http::{
        Call, DID, DeclaredError, FormValues, Person, Reason, Reply, Route, SignedIn,
        cookies::{cleared_cookie, session_cookie},
        page::{Field, Form, Page, visible},
    },
    issue::Problem,
    name::Name,
    paging::{Order, Paging},
    presentation::times,
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use crate::{
    app::App,
    frame::{FormRequest, NO_FORM, columns, console, invited, received, redirect_to, role_name, tick},
};

const HERE: &str = "/console/account";

/// The fields of all the page's forms.
const FIELDS: [(&str, &str); 8] = [
    ("action", "The submitted form: `verify`, `name`, `email`, `password`, `end`, `end-others`, `leave` or `delete`."),
    ("name", "`name`: the new name."),
    ("newEmail", "`email`: the new address."),
    ("currentPassword", "`password`: the current password."),
    ("newPassword", "`password`: the new password."),
    ("session", "`end`: the id of the session to end."),
    ("password", "`leave` and `delete`: the password, to confirm the deletion of the account."),
    ("sure", "`leave` and `delete`: `yes` from the checkbox that confirms the action."),
];

/// The forms that show their own errors. If the user is the only member, the page does not contain the form for
/// leaving.
const FORMS: [&str; 5] = ["leave", "name", "email", "password", "delete"];

const DONE: [(&str, &str); 7] = [
    ("named", "Name changed."),
    ("asked", "Email sent to the new address. Click the link in it to switch to that address."),
    ("mailed", "Confirmation email sent. Its link works for 24 hours."),
    ("confirmed", "Your email address is already confirmed."),
    ("password", "Password changed. All other sessions have ended."),
    ("ended", "Session ended."),
    ("others", "All other sessions have ended."),
];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, Person, |_, fields| Ok(fields.typed(&[DID])), get_page)
        .summary("Shows the signed-in user's account and sessions.")
}

pub(crate) fn submit() -> Route<App> {
    Route::post(HERE, Person, |_, fields| Ok(fields.typed(&FIELDS)), post_form)
        .records(&[
            Action::UserRenamed,
            Action::EmailRequested,
            Action::PasswordChanged,
            Action::SessionCreated,
            Action::SessionEnded,
            Action::SessionsEnded,
            Action::MemberLeft,
            Action::OrganizationDeleted,
        ])
        .summary(
            "Handles the forms on the account page, with the same effect as the API calls: resending the verification \
             email, changing the name, address or password, ending sessions, leaving the organization, and deleting \
             the account.",
        )
        .errors(&[
            DeclaredError::InvalidPassword,
            DeclaredError::EmailNotVerified,
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::LastOwner),
            DeclaredError::TooMany,
        ])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<SignedIn>, link: FormValues) -> Result<Page> {
    page(&app, &call.caller, FormRequest::link(link)).await
}

async fn post_form(app: Arc<App>, call: Call<SignedIn, Recorder>, form: FormValues) -> Result<Reply> {
    let done = match form.get("action") {
        "verify" => verify(&app, &call, HERE).await,
        "name" => rename(&app, &call, &form).await,
        "email" => change_email(&app, &call, &form).await,
        "password" => change_password(&app, &call, &form).await,
        "end" => end_session(&app, &call, &form).await,
        "end-others" => end_others(&app, &call).await,
        "leave" => leave(&app, &call, &form).await,
        "delete" => delete(&app, &call, &form).await,
        _ => Err(NO_FORM),
    };
    let Err(error) = done else { return done };
    Ok(page(&app, &call.caller, FormRequest::refused(form, error)?).await?.into())
}

/// Sends the confirmation email again and returns to the page `here`. The limit is shared with emails requested through
/// the API.
pub(crate) async fn verify(app: &App, call: &Call<SignedIn, Recorder>, here: &str) -> Result<Reply> {
    let user = &call.caller.user;
    if user.email_verified {
        return Ok(redirect_to(here, "confirmed"));
    }
    app.send_confirmation(user, &call.base).await?;
    Ok(redirect_to(here, "mailed"))
}

async fn rename(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let name = form.read(|fields| fields.text("name", Name::parse))?;
    app.users.rename(&call.recorder, &call.caller.user, &name).await?;
    Ok(redirect_to(HERE, "named"))
}

async fn change_email(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let SignedIn { user, session } = &call.caller;
    let other = |text: &str| match EmailAddress::parse(text)? {
        email if email == user.email => Err(vec![Problem::format("Is your address already")]),
        email => Ok(email),
    };
    let email = form.read(|fields| fields.text("newEmail", other))?;
    app.email_changes.request(&call.recorder, user, session, &email, &call.base, Timestamp::now()).await?;
    Ok(redirect_to(HERE, "asked"))
}

async fn change_password(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let (current, new) = form.read(|fields| {
        let current = fields.text("currentPassword", |text| Ok(Guess::new(text)));
        let new = fields.text("newPassword", Password::parse);
        Ok((current?, new?))
    })?;
    let (user, device, now) = (&call.caller.user, call.device(), Timestamp::now());
    let token = app.sign_ins.change_password(&call.recorder, user, current, new, &device, now).await?;
    app.alerts.password_changed(user, &device, &call.base, now).await;
    Ok(Reply::Redirect { to: format!("{HERE}?did=password"), cookies: vec![session_cookie(&call.base, &token)] })
}

async fn end_session(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let session = form.read(|fields| fields.text("session", IdOrToken::parse))?;
    app.sessions.revoke(&call.recorder, &call.caller.user, &session).await?;
    Ok(redirect_to(HERE, "ended"))
}

async fn end_others(app: &App, call: &Call<SignedIn, Recorder>) -> Result<Reply> {
    app.sessions.revoke_others(&call.recorder, &call.caller.user, &call.caller.session).await?;
    Ok(redirect_to(HERE, "others"))
}

async fn leave(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let password = confirmed(form)?;
    let user = &call.caller.user;
    app.sign_ins.confirm(user, password, Timestamp::now()).await?;
    app.departures.remove(&call.recorder, user, &MemberIdOrEmail::Id(user.id)).await?;
    Ok(redirect_deleted(call))
}

async fn delete(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let password = confirmed(form)?;
    app.deletions.delete(&call.recorder, &call.caller.user, &app.sign_ins, password, Timestamp::now()).await?;
    Ok(redirect_deleted(call))
}

/// Reads the password and the checkbox that confirm the deletion of the account.
fn confirmed(form: &FormValues) -> Result<Guess> {
    form.read(|fields| {
        let password = fields.text("password", |text| Ok(Guess::new(text)));
        let sure = fields.text("sure", tick);
        sure.and(password)
    })
}

/// Redirects to the sign-in page: the account no longer exists.
fn redirect_deleted(call: &Call<SignedIn, Recorder>) -> Reply {
    Reply::Redirect { to: "/signin?did=gone".to_owned(), cookies: vec![cleared_cookie(&call.base)] }
}

async fn page(app: &App, caller: &SignedIn, sent: FormRequest) -> Result<Page> {
    let SignedIn { user, session } = caller;
    let sessions = async { app.sessions.list(user, Timestamp::now()).await };
    let members = app.members.list(&user.organization, Paging::first(1), Order::Ascending);
    let (frame, mut sessions, (_, members), received) =
        tokio::try_join!(console(app, user, HERE), sessions, members, received(app, user))?;
    let is_alone = members <= 1;
    // The index is eventually consistent, so it may lack the current session.
    if sessions.iter().all(|listed| listed.id != session.id) {
        sessions.insert(0, session.clone());
    }
    let content = html! {
        (sent.news(&DONE, FORMS.get(usize::from(is_alone)..).unwrap_or_default()))
        (invited(&received))
        (profile(user))
        h2 { "Change your name" }
        (name_form(user, &sent))
        @if user.email_verified {
            h2 { "Change your email address" }
            (email_form(user, &sent))
        }
        h2 { "Sessions" }
        (listed(&sessions, session))
        h2 { "Change your password" }
        p { "All other sessions end. Your API keys keep working." }
        (password_form(&sent))
        h2 { "Two-factor authentication" }
        (two_factor(user))
        @if !is_alone {
            h2 { "Leave the organization" }
            p { "An account belongs to one organization, so leaving it deletes your account. Your personal API keys stop working." }
            (leave_form(&sent))
        }
        h2 { "Delete your account" }
        p {
            "Your sessions and personal API keys end immediately."
            @if is_alone {
                " You are the only member, so the organization is deleted too, with its endpoints, deliveries, \
                 API keys and invitations."
            }
        }
        (delete_form(&sent))
    };
    Ok(Page::new("Account", content).within(frame).refused(sent.refused))
}

fn profile(user: &User) -> Markup {
    html! {
        dl {
            dt { "Name" } dd { (visible(user.name.as_str())) }
            dt { "Email" }
            dd {
                (user.email) " "
                @if user.email_verified { span .state.good { "✓ Confirmed" } } @else { span .state.wait { "! Not confirmed" } }
            }
            dt { "Role" } dd { (role_name(user.role)) }
        }
        @if !user.email_verified {
            div .notice {
                p {
                    "Open the link in the email to " strong { (user.email_to_verify()) } ". Until then, you cannot create \
                     API keys or use the API."
                }
                (Form { action: "verify", button: "Resend confirmation email", is_secondary: true, ..Form::default() })
            }
        }
    }
}

/// The sessions, newest first. A device's description is untrusted text from the client.
fn listed(sessions: &[Session], own: &Session) -> Markup {
    let now = Timestamp::now();
    html! {
        table .cards {
            (columns(&["Device", "IP address", "Started", "Last seen", ""]))
            tbody {
                @for session in sessions {
                    @let agent = session.agent.as_deref().map(visible);
                    @let device = session.agent.as_deref().map_or("Unknown".into(), agent::name);
                    tr {
                        td data-label="Device" { span title=[agent] { (visible(&device)) } }
                        td data-label="IP address" { (visible(session.address.as_deref().unwrap_or("Unknown"))) }
                        td data-label="Started" { (times::stacked(session.created_at, now)) }
                        td data-label="Last seen" { (times::day(session.seen_on, now)) }
                        td {
                            @if session.id == own.id { span .state.good { "✓ This session" } } @else { (end_form(session, &visible(&device))) }
                        }
                    }
                }
            }
        }
        @if sessions.len() > 1 {
            (Form { action: "end-others", button: "End all other sessions", is_secondary: true, ..Form::default() })
        }
    }
}

/// The button that ends a session. Its accessible name includes the start time, because two devices can have the same
/// description.
fn end_form(session: &Session, agent: &str) -> Markup {
    let about = format!("End session: {agent}, {}", session.created_at);
    html! {
        form method="post" action="?" {
            input type="hidden" name="action" value="end";
            input type="hidden" name="session" value=(session.id);
            button .secondary aria-label=(about) { "End session" }
        }
    }
}

fn name_form(user: &User, sent: &FormRequest) -> Markup {
    let name = if sent.error("name").is_some() { sent.typed("name", "name") } else { user.name.as_str() };
    let fields = [Field::text("name", "Your name", "name", name)];
    Form { is_secondary: true, ..sent.form("name", "Change name", &fields) }.render()
}

fn email_form(user: &User, sent: &FormRequest) -> Markup {
    let fields = [Field::email("newEmail", "New email", "email", sent.typed("email", "newEmail"))];
    html! {
        @if let Some(pending) = &user.pending_email {
            p { "We sent a link to " strong { (pending) } ". Open it within 24 hours to use that address." }
        }
        p {
            "We email a link to the new address. Open it while you are signed in here to change your address. All other \
             sessions then end. For 24 hours, you can undo the change with a link that we email to the old address. \
             Your API keys keep working."
        }
        (Form { is_secondary: true, ..sent.form("email", "Send confirmation email", &fields) })
    }
}

fn password_form(sent: &FormRequest) -> Markup {
    let fields =
        [Field::password("currentPassword", "Current password"), Field::new_password("newPassword", "New password")];
    sent.form("password", "Change password", &fields).render()
}

fn two_factor(user: &User) -> Markup {
    html! {
        @if user.has_two_factor {
            p { span .state.good { "✓ Enabled" } " Signing in requires a code from your authenticator app." }
            p { a .button.secondary href="/console/two-factor" { "Manage two-factor authentication" } }
        } @else {
            p { "Protect your account with codes from an authenticator app, in addition to the password." }
            p { a .button.secondary href="/console/two-factor" { "Set up two-factor authentication" } }
        }
    }
}

fn leave_form(sent: &FormRequest) -> Markup {
    let sure = Field::tick("sure", "Leave the organization and delete my account");
    let fields = [Field::password("password", "Password"), sure];
    Form { is_danger: true, ..sent.form("leave", "Leave organization", &fields) }.render()
}

fn delete_form(sent: &FormRequest) -> Markup {
    let fields = [Field::password("password", "Password"), Field::tick("sure", "Permanently delete my account")];
    Form { is_danger: true, ..sent.form("delete", "Delete account", &fields) }.render()
}
