//! The page for signing in, signing up and approving browser logins by command-line clients.
//!
//! The id and the secret of a browser login are kept in the address and in hidden fields, so they survive the sign-in.
//! All forms post to this path, with their name in `action`, so a form with an error appears at an address that can
//! also be opened with a `GET`.

mod link;
mod pages;
mod saved_form;

use std::sync::Arc;

use common::{
    accounts::{cli_logins::CliLogin, password::Guess, sign_in::SignIn, token::Token, two_factor::Entered},
    audit::{Action, Recorder},
    error::{Error, FactorProblem, Result},
    http::{
        Call, DeclaredError, FormValues, Reason, Reply, Route, SignedIn, Visitor,
        cookies::{cleared_cookie, finished_cookies, pending_cookies, session_cookie},
        page::{Page, TICKED},
    },
    id::CliLoginId,
    name::Slug,
    presentation::sign_up,
    timestamp::Timestamp,
};

use self::{
    link::{NO_REQUEST, address, console, mode, next, request},
    pages::{approval, approved, code_form, no_request, sign_in_form, sign_up_form, signed_in, to_confirm},
};
use crate::app::App;

/// The page's query parameters. All except `did`, which selects a notice, are kept until the user is signed in.
const QUERY: [(&str, &str); 5] = [
    ("mode", "`signup` shows the sign-up form instead of the sign-in form."),
    ("cliLoginId", "The `requestId` of the browser login to approve."),
    ("cliLoginSecret", "The `secret` of that browser login."),
    ("next", "The console page or the invitation to open afterward."),
    ("did", "The confirmation to show after one of the page's forms has been submitted."),
];

/// The fields of all the page's forms.
const FIELDS: [(&str, &str); 16] = [
    (
        "action",
        "The submitted form: `sign-in` (the default), `code`, `backup-code`, `sign-up`, `sign-out`, `approve` or `verify`.",
    ),
    ("mode", "`signup` shows the sign-up form instead of the sign-in form."),
    ("cliLoginId", "The `requestId` of the browser login to approve."),
    ("cliLoginSecret", "The `secret` of that browser login."),
    ("next", "The console page or the invitation to open afterward."),
    (
        "kept",
        "`sign-in`, `code` and `backup-code`: the fields of a form that was submitted to `next` without a session. \
         They are restored afterward.",
    ),
    (
        "userId",
        "`approve`: the id of the user shown on the page. If a different user has signed in since, the page is shown \
         again for that user.",
    ),
    ("sure", "`approve`: `yes` from the checkbox that confirms the approval."),
    ("name", "`sign-up`: the name of the user."),
    ("email", "`sign-in` and `sign-up`: the user's email address."),
    ("password", "`sign-in` and `sign-up`: the password."),
    ("code", "`code`: the code from the authenticator app, after a sign-in with the password."),
    ("backupCode", "`backup-code`: a backup code, instead of a code from the app."),
    ("organizationName", "`sign-up`: the name of the organization."),
    (
        "organizationSlug",
        "`sign-up`: a short unique name for the organization, for use in links. The default follows from \
         `organizationName`.",
    ),
    (
        "debugNotificationEmail",
        "`sign-up`: the address that receives the emails about failing endpoints and failed jobs. The default is \
         `email`.",
    ),
];

pub(crate) fn show() -> Route<App> {
    Route::get("/signin", Visitor, |_, fields| Ok(fields.typed(&QUERY)), get_page)
        .before_two_factor()
        .summary(
            "Shows the page to sign in, sign up (with `mode` `signup`) or approve a client's request. Opening the \
             page changes nothing.",
        )
        .errors(&[DeclaredError::NotFound])
}

pub(crate) fn submit() -> Route<App> {
    Route::post("/signin", Visitor, |_, fields| Ok(fields.typed(&FIELDS)), post_form)
        .before_two_factor()
        .records(&[Action::SessionCreated, Action::SessionEnded, Action::OrganizationCreated])
        .summary(
            "Handles the forms on the sign-in page, with the same effect as the API calls: signing in (with a second \
             factor, if the user has one), signing up, signing out, approving a client, and resending the verification \
             email.",
        )
        .errors(&[
            DeclaredError::WrongPassword,
            DeclaredError::TwoFactor(FactorProblem::WrongCode),
            DeclaredError::TwoFactor(FactorProblem::WrongBackupCode),
            DeclaredError::TwoFactor(FactorProblem::NoSignIn),
            DeclaredError::NotFound,
            DeclaredError::Conflict(Reason::SlugTaken),
            DeclaredError::Conflict(Reason::EmailTaken),
            DeclaredError::TooMany,
        ])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<Option<SignedIn>>, link: FormValues) -> Result<Page> {
    page(&app, &call, &link).await
}

async fn post_form(app: Arc<App>, call: Call<Option<SignedIn>, Recorder>, form: FormValues) -> Result<Reply> {
    match form.get("action") {
        "code" => enter(&app, &call, &form, Entered::Code(form.get("code"))).await,
        "backup-code" => enter(&app, &call, &form, Entered::BackupCode(form.get("backupCode"))).await,
        "sign-up" => sign_up(&app, &call, &form).await,
        "sign-out" => sign_out(&app, &call, &form).await,
        "approve" => Ok(approve(&app, &call, &form).await?.into()),
        "verify" => Ok(verify(&app, &call, &form).await?.into()),
        _ => sign_in(&app, &call, &form).await,
    }
}

async fn page<R>(app: &App, call: &Call<Option<SignedIn>, R>, link: &FormValues) -> Result<Page> {
    let login = match request(link) {
        None => None,
        Some(request) => match find(app, request).await {
            Err(error @ Error::NotFound(_)) => return Ok(no_request(error)),
            found => Some(found?),
        },
    };
    Ok(match (&call.caller, login) {
        (None, _) if mode(link) == "signup" => sign_up_form(app, link, None),
        // The fields are not filled in from the link, because a link could contain any values.
        (None, login) => sign_in_form(app, link, login.is_some(), None, ""),
        (Some(visitor), None) => signed_in(&visitor.user, link),
        (Some(visitor), Some(_)) if visitor.user.check_two_factor().is_err() => signed_in(&visitor.user, link),
        (Some(visitor), Some(login)) => approval(&visitor.user, &login, call, link),
    })
}

async fn sign_in(app: &App, call: &Call<Option<SignedIn>, Recorder>, form: &FormValues) -> Result<Reply> {
    let (address, password) = (form.get("email"), Guess::new(form.get("password")));
    match app.sign_ins.sign_in(&call.recorder, address, password, &call.device(), Timestamp::now()).await {
        Ok(SignIn::Done(_, token)) => Ok(started(form, vec![session_cookie(&call.base, &token)])),
        Ok(SignIn::NeedsCode(pending)) => Ok(Reply::page(code_form(form, None), pending_cookies(&call.base, &pending))),
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(sign_in_form(app, form, request(form).is_some(), Some(error), form.get("kept")).into()),
    }
}

/// Finishes a sign-in with the second factor.
async fn enter(
    app: &App,
    call: &Call<Option<SignedIn>, Recorder>,
    form: &FormValues,
    entered: Entered<'_>,
) -> Result<Reply> {
    let finished = async {
        let pending = call.pending_sign_in().ok_or(Error::TwoFactor(FactorProblem::NoSignIn))?;
        app.two_factor.finish(&call.recorder, &pending, entered, &call.device(), &call.base, Timestamp::now()).await
    };
    match finished.await {
        Ok((_, token)) => Ok(started(form, finished_cookies(&call.base, &token))),
        Err(error) if error.is_ours() => Err(error),
        Err(error @ Error::TwoFactor(FactorProblem::NoSignIn)) => {
            Ok(sign_in_form(app, form, request(form).is_some(), Some(error), form.get("kept")).into())
        }
        Err(error) => Ok(code_form(form, Some(error)).into()),
    }
}

/// Continues after a sign-in, with the fields of a form that was submitted before the sign-in, if any.
fn started(form: &FormValues, cookies: Vec<String>) -> Reply {
    match saved_form::read(form, console(form.get("next"))) {
        Some(page) => Reply::page(page, cookies),
        None => on(form, cookies),
    }
}

async fn sign_up(app: &App, call: &Call<Option<SignedIn>, Recorder>, form: &FormValues) -> Result<Reply> {
    let proposed = Slug::proposed(form.get("organizationName"));
    let form = &form.clone().or_value("organizationSlug", proposed.as_ref().map_or("", Slug::as_str));
    let founded = async {
        let founder = form.clone().or("debugNotificationEmail", "email").read(sign_up::founder);
        let founder = founder.map_err(|error| without_slug(form, without_default(form, error)))?;
        app.accounts.found(&call.recorder, founder, call.device(), app.sign_ins.hasher()).await
    };
    match founded.await {
        Ok(new) => {
            new.welcome(&app.rate_limits, &app.mailer, &call.base, Timestamp::now()).await;
            Ok(on(form, vec![session_cookie(&call.base, &new.session_token)]))
        }
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(sign_up_form(app, form, Some(error)).into()),
    }
}

/// Removes the issue about `debugNotificationEmail` if that field was left empty: the issue about `email` covers it.
fn without_default(form: &FormValues, mut error: Error) -> Error {
    if let (Error::Invalid(issues), "") = (&mut error, form.get("debugNotificationEmail")) {
        issues.retain(|issue| issue.path != ["debugNotificationEmail"]);
    }
    error
}

/// Says why a slug is needed although the field is optional, if none follows from the organization's name.
fn without_slug(form: &FormValues, mut error: Error) -> Error {
    if let (Error::Invalid(issues), "") = (&mut error, form.get("organizationSlug")) {
        let mut is_first = true;
        issues.retain(|issue| issue.path != ["organizationSlug"] || std::mem::take(&mut is_first));
        for issue in issues.iter_mut().filter(|issue| issue.path == ["organizationSlug"]) {
            issue.message = "No slug follows from this name. Enter one.".to_owned();
        }
    }
    error
}

async fn sign_out(app: &App, call: &Call<Option<SignedIn>, Recorder>, form: &FormValues) -> Result<Reply> {
    if let Some(token) = call.session() {
        app.sessions.end(&call.recorder, &token, Timestamp::now()).await?;
    }
    Ok(again(form, vec![cleared_cookie(&call.base)]))
}

/// Approves the request as the user shown on the page. If another user has signed in since, the page is shown again.
///
/// The checkbox prevents clickjacking: another site can place this page under the pointer of a user who is about to
/// click, but cannot cause clicks on two different targets.
async fn approve(app: &App, call: &Call<Option<SignedIn>, Recorder>, form: &FormValues) -> Result<Page> {
    let (Some(visitor), Some(request)) = (&call.caller, request(form)) else { return page(app, call, form).await };
    visitor.user.check_two_factor()?;
    if visitor.user.id.to_string() != form.get("userId") || form.get("sure") != TICKED {
        return page(app, call, form).await;
    }
    let approval = async {
        let (id, secret) = request?;
        app.logins.approve(id, &secret, &visitor.user, Timestamp::now()).await
    };
    match approval.await {
        Ok(()) if visitor.user.email_verified => Ok(approved()),
        // The link in the sign-up email may have expired.
        Ok(()) => verify(app, call, form).await,
        Err(error @ Error::NotFound(_)) => Ok(no_request(error)),
        Err(error) => Err(error),
    }
}

/// Sends the visitor another email with a link that confirms their address, unless it is already confirmed.
async fn verify(app: &App, call: &Call<Option<SignedIn>, Recorder>, form: &FormValues) -> Result<Page> {
    let Some(visitor) = call.caller.as_ref().filter(|visitor| !visitor.user.email_verified) else {
        return page(app, call, form).await;
    };
    match app.send_confirmation(&visitor.user, &call.base).await {
        Ok(()) => Ok(to_confirm(&visitor.user, form, None)),
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(to_confirm(&visitor.user, form, Some(error))),
    }
}

async fn find(app: &App, request: Result<(CliLoginId, Token)>) -> Result<CliLogin> {
    let (id, secret) = request?;
    app.logins.find(id, &secret, Timestamp::now()).await?.ok_or(NO_REQUEST)
}

/// Redirects after a sign-in: to the client's request, to the page that the visitor opened before, or to the console.
fn on(form: &FormValues, cookies: Vec<String>) -> Reply {
    if request(form).is_some() {
        return again(form, cookies);
    }
    Reply::Redirect { to: next(form).unwrap_or("/console").to_owned(), cookies }
}

/// Redirects to the same page with a `GET`, so a reload does not resubmit the form.
fn again(form: &FormValues, cookies: Vec<String>) -> Reply {
    Reply::Redirect { to: address(form, mode(form)), cookies }
}
