//! The page for sign-in, sign-up and the approval of browser logins of command-line clients.
//!
//! The id and the secret of a request are kept in the address and in hidden fields, so that they survive the sign-in.
//! All forms post to this path, with their name in `action`, so that a form with an error is shown at an address that a
//! `GET` can open.

mod kept;

use std::sync::Arc;

use api::auth::comparison_code;
use common::{
    accounts::{
        cli_logins::{CliLogin, parse_secret},
        password::Guess,
        sign_in::SignIn,
        token::Token,
        two_factor::Entered,
        users::User,
    },
    audit::Action,
    error::{Error, FactorProblem, Result},
    http::{
        Call, Fault, Reason, Reply, Route, SignedIn, Typed, Visitor,
        cookies::{cleared_cookie, finished_cookies, pending_cookies, session_cookie},
        page::{Field, Form, Page, TICKED, facts, warning},
    },
    id::CliLoginId,
    presentation::sign_up,
    timestamp::Timestamp,
};
use maud::{Markup, html};
use url::form_urlencoded;

use crate::app::App;

/// The query of the page. Except for `did`, which selects a notice, it is kept until the user is signed in.
const QUERY: [(&str, &str); 5] = [
    ("mode", "`signup` shows the sign-up form instead of the sign-in form."),
    ("cliLoginId", "The `requestId` of the browser login to approve."),
    ("cliLoginSecret", "The `secret` of that browser login."),
    ("next", "The page of the console or the invitation to open afterwards."),
    ("did", "The confirmation to show after one of the page's forms was submitted."),
];

/// The fields of all forms on the page.
const FIELDS: [(&str, &str); 16] = [
    (
        "action",
        "The submitted form: `sign-in` (the default), `code`, `backup-code`, `sign-up`, `sign-out`, `approve` or `verify`.",
    ),
    ("mode", "`signup` shows the sign-up form instead of the sign-in form."),
    ("cliLoginId", "The `requestId` of the browser login to approve."),
    ("cliLoginSecret", "The `secret` of that browser login."),
    ("next", "The page of the console or the invitation to open afterwards."),
    (
        "kept",
        "`sign-in`, `code` and `backup-code`: the fields of a form that was sent to `next` without a session. They are \
         restored afterwards.",
    ),
    (
        "userId",
        "`approve`: the id of the user shown on the page. If a different user has signed in since, the page is shown \
         again for that user.",
    ),
    ("sure", "`approve`: `yes` from the checkbox that confirms the approval."),
    ("name", "`sign-up`: the name of the user."),
    ("email", "`sign-in` and `sign-up`: the email address of the user."),
    ("password", "`sign-in` and `sign-up`: the password."),
    ("code", "`code`: the code of the authenticator app, after a sign-in with the password."),
    ("backupCode", "`backup-code`: a backup code, instead."),
    ("organizationName", "`sign-up`: the name of the organization."),
    ("organizationSlug", "`sign-up`: a short unique name of the organization, for use in links."),
    (
        "debugNotificationEmail",
        "`sign-up`: the address that receives the emails about failing endpoints and failed jobs. The default is \
         `email`.",
    ),
];

const NO_REQUEST: Error = Error::NotFound("Sign-in request not found");

pub(crate) fn show() -> Route<App> {
    Route::get("/signin", Visitor, |_, fields| Ok(fields.typed(&QUERY)), open)
        .before_two_factor()
        .summary(
            "Shows the page to sign in, sign up (with `mode` `signup`) or approve a client's request. Opening the \
             page changes nothing.",
        )
        .faults(&[Fault::NotFound])
}

pub(crate) fn submit() -> Route<App> {
    Route::post("/signin", Visitor, |_, fields| Ok(fields.typed(&FIELDS)), act)
        .before_two_factor()
        .records(&[Action::SessionCreated, Action::SessionEnded, Action::OrganizationCreated])
        .summary(
            "Handles the forms of the sign-in page, which sign the user in (with a second factor, if they have one), up or \
             out, approve a client, or resend the verification email, as the API does.",
        )
        .faults(&[
            Fault::WrongPassword,
            Fault::TwoFactor(FactorProblem::WrongCode),
            Fault::TwoFactor(FactorProblem::WrongBackupCode),
            Fault::TwoFactor(FactorProblem::NoSignIn),
            Fault::NotFound,
            Fault::Conflict(Reason::SlugTaken),
            Fault::Conflict(Reason::EmailTaken),
            Fault::TooMany,
        ])
        .redirects()
}

async fn open(app: Arc<App>, call: Call<Option<SignedIn>>, link: Typed) -> Result<Page> {
    page(&app, &call, &link).await
}

async fn act(app: Arc<App>, call: Call<Option<SignedIn>>, form: Typed) -> Result<Reply> {
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

async fn page(app: &App, call: &Call<Option<SignedIn>>, link: &Typed) -> Result<Page> {
    let login = match request(link) {
        None => None,
        Some(request) => match find(app, request).await {
            Err(error @ Error::NotFound(_)) => return Ok(no_request(error)),
            found => Some(found?),
        },
    };
    Ok(match (&call.caller, login) {
        (None, _) if mode(link) == "signup" => sign_up_form(link, None),
        // No form values: a link could contain those of any form.
        (None, login) => sign_in_form(app, link, login.is_some(), None, ""),
        (Some(visitor), None) => signed_in(&visitor.user, link),
        (Some(visitor), Some(_)) if visitor.user.check_two_factor().is_err() => signed_in(&visitor.user, link),
        (Some(visitor), Some(login)) => approval(&visitor.user, &login, call, link),
    })
}

async fn sign_in(app: &App, call: &Call<Option<SignedIn>>, form: &Typed) -> Result<Reply> {
    let (address, password) = (form.get("email"), Guess::new(form.get("password")));
    match app.sign_ins.sign_in(address, password, &call.device(), Timestamp::now()).await {
        Ok(SignIn::Done(_, token)) => Ok(started(form, vec![session_cookie(&call.base, &token)])),
        Ok(SignIn::NeedsCode(pending)) => {
            Ok(Reply::Page { page: code_form(form, None), cookies: pending_cookies(&call.base, &pending) })
        }
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(sign_in_form(app, form, request(form).is_some(), Some(error), form.get("kept")).into()),
    }
}

/// Finishes a sign-in with the second factor.
async fn enter(app: &App, call: &Call<Option<SignedIn>>, form: &Typed, entered: Entered<'_>) -> Result<Reply> {
    let finished = async {
        let pending = call.pending_sign_in().ok_or(Error::TwoFactor(FactorProblem::NoSignIn))?;
        app.two_factor.finish(&pending, entered, &call.device(), &call.base, Timestamp::now()).await
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

/// Continues after a sign-in, with the fields of a form that was sent before it, if there are any.
fn started(form: &Typed, cookies: Vec<String>) -> Reply {
    match kept::read(form, console(form.get("next"))) {
        Some(page) => Reply::Page { page, cookies },
        None => on(form, cookies),
    }
}

async fn sign_up(app: &App, call: &Call<Option<SignedIn>>, form: &Typed) -> Result<Reply> {
    let founded = async {
        let founder = form.clone().or("debugNotificationEmail", "email").read(sign_up::founder);
        let founder = founder.map_err(|error| without_default(form, error))?;
        app.accounts.found(founder, call.device(), &app.hasher).await
    };
    match founded.await {
        Ok(new) => {
            new.welcome(&app.attempts, &app.mailer, &call.base, Timestamp::now()).await;
            Ok(on(form, vec![session_cookie(&call.base, &new.session_token)]))
        }
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(sign_up_form(form, Some(error)).into()),
    }
}

/// Removes the issue about `debugNotificationEmail` if that field was left empty: the issue about `email` covers it.
fn without_default(form: &Typed, mut error: Error) -> Error {
    if let (Error::Invalid(issues), "") = (&mut error, form.get("debugNotificationEmail")) {
        issues.retain(|issue| issue.path != ["debugNotificationEmail"]);
    }
    error
}

async fn sign_out(app: &App, call: &Call<Option<SignedIn>>, form: &Typed) -> Result<Reply> {
    if let Some(token) = call.session() {
        app.sessions.end(&token, Timestamp::now()).await?;
    }
    Ok(again(form, vec![cleared_cookie(&call.base)]))
}

/// Approves the request as the user whom the page named. If another user has signed in since, the page is shown again.
///
/// The checkbox prevents clickjacking: another site can place this page under the pointer of a user who is about to
/// click, but cannot cause clicks on two different targets.
async fn approve(app: &App, call: &Call<Option<SignedIn>>, form: &Typed) -> Result<Page> {
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
async fn verify(app: &App, call: &Call<Option<SignedIn>>, form: &Typed) -> Result<Page> {
    let Some(visitor) = call.caller.as_ref().filter(|visitor| !visitor.user.email_verified) else {
        return page(app, call, form).await;
    };
    match app.send_confirmation(&visitor.user, &call.base).await {
        Ok(()) => Ok(to_confirm(&visitor.user, form, None)),
        Err(error) if error.is_ours() => Err(error),
        Err(error) => Ok(to_confirm(&visitor.user, form, Some(error))),
    }
}

/// The client's request that the page shows, if there is one.
fn request(form: &Typed) -> Option<Result<(CliLoginId, Token)>> {
    if !form.has("cliLoginId") && !form.has("cliLoginSecret") {
        return None;
    }
    let id = CliLoginId::parse(form.get("cliLoginId"));
    let secret = parse_secret(form.get("cliLoginSecret"));
    Some(id.and_then(|id| Ok((id, secret?))).map_err(|_problems| NO_REQUEST))
}

async fn find(app: &App, request: Result<(CliLoginId, Token)>) -> Result<CliLogin> {
    let (id, secret) = request?;
    app.logins.find(id, &secret, Timestamp::now()).await?.ok_or(NO_REQUEST)
}

/// Redirects after a sign-in: to the client's request, to the page that the visitor opened before, or to the console.
fn on(form: &Typed, cookies: Vec<String>) -> Reply {
    if request(form).is_some() {
        return again(form, cookies);
    }
    Reply::Redirect { to: next(form).unwrap_or("/console").to_owned(), cookies }
}

/// The page that the visitor opened before signing in. A link can contain any text, so only paths of the console and
/// invitations are accepted. This prevents redirects to other sites and to prefilled forms.
fn next(form: &Typed) -> Option<&str> {
    let next = form.get("next");
    if next.starts_with("/invite?") && is_plain(next) { Some(next) } else { console(next) }
}

/// Returns `next` if it is an address of the console.
fn console(next: &str) -> Option<&str> {
    let rest = next.strip_prefix("/console")?;
    let path = rest.split('?').next().unwrap_or_default();
    // Browsers resolve `..`, even percent-encoded, which could leave the console.
    let is_path = (path.is_empty() || path.starts_with('/'))
        && !path.contains("/.")
        && !path.to_ascii_lowercase().contains("%2e");
    (is_path && is_plain(next)).then_some(next)
}

fn is_plain(address: &str) -> bool {
    address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && address.len() <= 2048
}

/// Redirects to the same page with a `GET`, so that a reload does not resubmit the form.
fn again(form: &Typed, cookies: Vec<String>) -> Reply {
    Reply::Redirect { to: address(form, mode(form)), cookies }
}

/// The mode, if it is known: a link can contain any text.
fn mode(form: &Typed) -> &'static str {
    ["signin", "signup"].into_iter().find(|mode| form.get("mode") == *mode).unwrap_or_default()
}

/// The address of the page in this mode, relative to itself.
fn address(form: &Typed, mode: &str) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    let [id, secret] = ["cliLoginId", "cliLoginSecret"].map(|name| (name, form.get(name)));
    let values = [("mode", mode), id, secret, ("next", next(form).unwrap_or_default())];
    query.extend_pairs(values.into_iter().filter(|(_, value)| !value.is_empty()));
    query.finish()
}

/// The hidden fields of the form for `action`.
fn hidden<'a>(form: &'a Typed, action: &'static str) -> [(&'static str, &'a str); 5] {
    let [id, secret] = ["cliLoginId", "cliLoginSecret"].map(|name| (name, form.get(name)));
    [("action", action), ("mode", mode(form)), id, secret, ("next", next(form).unwrap_or_default())]
}

fn sign_in_form(app: &App, form: &Typed, for_client: bool, error: Option<Error>, kept: &str) -> Page {
    let [action, mode, id, secret, next] = hidden(form, "sign-in");
    let sign_in = Form {
        button: "Sign in",
        is_secondary: false,
        hidden: &[action, mode, id, secret, next, ("kept", kept)],
        fields: &[
            Field::email("email", "Email", "username", form.get("email")),
            Field::password("password", "Password"),
        ],
        error: error.as_ref(),
        ..Form::default()
    };
    let content = html! {
        @if form.get("did") == "gone" { div .notice.good role="status" { p { "Your account has been deleted." } } }
        @match next.1 {
            next if next.starts_with("/console/endpoints/") => p { "Sign in to open the endpoint." },
            next if next.starts_with("/console/deliveries") => p { "Sign in to open the deliveries." },
            _ => "",
        }
        @if for_client { p { "A command-line client wants to sign in. Sign in here first, then review its request." } }
        @if !for_client { (purpose()) }
        (sign_in)
        p { a href="/reset-password" { "Forgot your password?" } }
        p { "No account yet? " a href=(address(form, "signup")) { "Sign up" } }
        p { a href=(app.docs.as_str()) { "Documentation" } }
    };
    Page::new("Sign in", content).refused(error)
}

/// The second step of a sign-in. Its forms carry what the first one did.
fn code_form(form: &Typed, error: Option<Error>) -> Page {
    let is_backup = form.get("action") == "backup-code";
    let [_, mode, id, secret, next] = hidden(form, "");
    let kept = ("kept", form.get("kept"));
    let code = Form {
        id: "code",
        button: "Sign in",
        hidden: &[("action", "code"), mode, id, secret, next, kept],
        fields: &[Field::code("code", "Code")],
        error: error.as_ref().filter(|_| !is_backup),
        ..Form::default()
    };
    let backup = Form {
        id: "backup",
        button: "Sign in with a backup code",
        is_secondary: true,
        hidden: &[("action", "backup-code"), mode, id, secret, next, kept],
        fields: &[Field::text("backupCode", "Backup code", "off", "").hint("Each code works once")],
        error: error.as_ref().filter(|_| is_backup),
        ..Form::default()
    };
    let content = html! {
        p { "Your password is right. Enter the code of your authenticator app within five minutes." }
        (code)
        details open[is_backup] {
            summary { "Use a backup code" }
            (backup)
            p .soft { "If you have neither, ask the operator of this service to remove the second factor." }
        }
        p { a href=(address(form, "signin")) { "Start again" } }
    };
    Page::new("Enter your code", content).refused(error)
}

fn sign_up_form(form: &Typed, error: Option<Error>) -> Page {
    let sign_up = Form {
        button: "Sign up",
        is_secondary: false,
        hidden: &hidden(form, "sign-up"),
        fields: &[
            Field::text("name", "Your name", "name", form.get("name")),
            Field::email("email", "Email", "email", form.get("email")),
            Field::new_password("password", "Password"),
            Field::text("organizationName", "Organization name", "organization", form.get("organizationName")),
            Field::text("organizationSlug", "Organization slug", "off", form.get("organizationSlug"))
                .hint("For URLs and commands: lowercase letters, digits and hyphens, such as analytical-engines"),
            Field::email(
                "debugNotificationEmail",
                "Email for notifications",
                "off",
                form.get("debugNotificationEmail"),
            )
            .hint("Receives emails about failing endpoints and failed jobs. Leave empty to use your own address")
            .optional(),
        ],
        error: error.as_ref(),
        ..Form::default()
    };
    let content = html! {
        (purpose())
        (sign_up)
        p { "Already have an account? " a href=(address(form, "signin")) { "Sign in" } }
    };
    Page::new("Sign up", content).refused(error)
}

/// The purpose of the service, for new visitors.
fn purpose() -> Markup {
    html! {
        p {
            "Get a signed webhook whenever a job of your organization completes or fails. The operator of this service runs \
             the jobs. You add the URLs that receive the webhooks."
        }
    }
}

fn signed_in(user: &User, link: &Typed) -> Page {
    let content = html! {
        (facts(&[("Name", user.name.as_str()), ("Email", &user.email.to_string())]))
        @if !user.email_verified {
            p { "Your email address is not confirmed yet. Open the link in the email we sent you." }
            (resend_form(link, None))
        }
        p { a .button href="/console" { "Open the console" } }
        (sign_out_form(link))
    };
    Page::new("You are signed in", content).done()
}

/// The button that sends another email with a link.
fn resend_form(link: &Typed, error: Option<&Error>) -> Markup {
    let hidden = hidden(link, "verify");
    html! {
        (Form { id: "verify", button: "Resend confirmation email", is_secondary: true, hidden: &hidden, error, ..Form::default() })
    }
}

fn sign_out_form(link: &Typed) -> Markup {
    let hidden = hidden(link, "sign-out");
    html! { (Form { button: "Sign out", is_secondary: true, hidden: &hidden, ..Form::default() }) }
}

/// The page on which a user approves a client. Everything it shows about the request is untrusted text.
fn approval(user: &User, login: &CliLogin, call: &Call<Option<SignedIn>>, link: &Typed) -> Page {
    let here = call.client.to_string();
    let is_elsewhere = login.address != here;
    let agent = login.agent.as_deref().unwrap_or("Unknown");
    let (email, id, asked) = (user.email.to_string(), user.id.to_string(), ago(login.created_at));
    let code = comparison_code(&login.id.into());
    let [action, mode, request, secret, _] = hidden(link, "approve");
    let approve = Form {
        button: "Approve sign-in",
        is_secondary: false,
        hidden: &[action, mode, request, secret, ("userId", &id)],
        fields: &[Field::tick("sure", "I just started this sign-in myself")],
        error: None,
        ..Form::default()
    };
    let content = html! {
        p { "A command-line client wants to sign in as " strong { (email) } "." }
        (facts(&[("Code", &code), ("Requested", &asked), ("IP address", &login.address), ("Client", agent)]))
        p { "If your terminal shows a code, it must be the same one." }
        (warning(html! {
            p {
                strong { "Approve only if you just started this sign-in yourself. " }
                "If another person sent you this link, approving it gives that person access to your account."
            }
            @if is_elsewhere {
                p {
                    "The request comes from a different IP address than yours (" (here) "). Approve only if you started \
                     the client on another machine."
                }
            }
        }))
        (approve)
        p { "Wasn't you? Close this page and nothing will happen. To use another account, sign out:" }
        (sign_out_form(link))
    };
    Page::new("Sign in a command-line client?", content)
}

fn ago(at: Timestamp) -> String {
    match Timestamp::now().since(at).as_secs() / 60 {
        0 => "less than a minute ago".to_owned(),
        1 => "1 minute ago".to_owned(),
        minutes => format!("{minutes} minutes ago"),
    }
}

fn approved() -> Page {
    let content = html! { p { "You can close this page and go back to your terminal." } };
    Page::new("The command-line client is signed in", content).done()
}

/// The page for a user whose address is not confirmed, after an email was sent to it or refused with `error`.
fn to_confirm(user: &User, form: &Typed, error: Option<Error>) -> Page {
    let sent = if error.is_none() { "We sent an email to " } else { "We already sent several emails to " };
    let content = html! {
        p { (sent) strong { (user.email_to_verify()) } ". Open the link in the newest one. It works for 24 hours." }
        @if request(form).is_some() {
            p {
                "If you do so within 10 minutes of starting the sign-in, the command line continues by itself. You can \
                 close this page."
            }
        }
        (resend_form(form, error.as_ref()))
    };
    Page::new("Confirm your email address first", content).refused(error)
}

fn no_request(error: Error) -> Page {
    let content = html! {
        p { "A sign-in request is valid for 10 minutes and can be approved once. The link may also be incomplete." }
        p { "Start again in your terminal." }
    };
    Page::new("This sign-in request is not valid", content).refused(Some(error))
}
