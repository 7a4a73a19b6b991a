//! The page's forms, and the pages that confirm their results.

use api::auth::comparison_code;
use common::{
    accounts::{cli_logins::CliLogin, users::User},
    error::{Conflict, Error},
    http::{
        Call, FormValues, LOST, SignedIn,
        page::{Field, Form, Page, beside, facts, warning},
    },
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use super::link::{address, hidden, request};
use crate::app::App;

pub(super) fn sign_in_form(app: &App, form: &FormValues, for_client: bool, error: Option<Error>, kept: &str) -> Page {
    let [action, mode, id, secret, next] = hidden(form, "sign-in");
    let sign_in = Form {
        button: "Sign in",
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
        @if form.get("did") == LOST { div .notice { p { "Your session had ended. Nothing was saved or sent." } } }
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

/// The second step of a sign-in. Its forms carry the same values as the first step.
pub(super) fn code_form(form: &FormValues, error: Option<Error>) -> Page {
    let is_backup = form.get("action") == "backup-code";
    let [_, mode, id, secret, next] = hidden(form, "");
    let kept = ("kept", form.get("kept"));
    let code = Form {
        action: "code",
        button: "Sign in",
        hidden: &[mode, id, secret, next, kept],
        fields: &[if is_backup { Field::code("code", "Code") } else { Field::code("code", "Code").focused() }],
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
        p { "Your password is correct. Enter the code from your authenticator app within five minutes." }
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

pub(super) fn sign_up_form(app: &App, form: &FormValues, error: Option<Error>) -> Page {
    let shown = match &error {
        Some(taken @ Error::Conflict(Conflict::SlugTaken(_))) => Some(beside("organizationSlug", taken)),
        Some(taken @ Error::Conflict(Conflict::EmailTaken)) => Some(beside("email", taken)),
        _ => None,
    };
    let password = Field::new_password("password", "Password");
    // Pages never contain a password.
    let password = if error.is_some() { password.hint("8 to 128 characters. Enter it again") } else { password };
    let sign_up = Form {
        button: "Sign up",
        hidden: &hidden(form, "sign-up"),
        fields: &[
            Field::text("name", "Your name", "name", form.get("name")),
            Field::email("email", "Email", "email", form.get("email")),
            password,
            Field::text("organizationName", "Organization name", "organization", form.get("organizationName")),
            Field::text("organizationSlug", "Organization slug", "off", form.get("organizationSlug"))
                .hint(
                    "For URLs and commands: lowercase letters, digits and hyphens. Leave empty to derive it from the name",
                )
                .optional(),
            Field::email(
                "debugNotificationEmail",
                "Email for notifications",
                "off",
                form.get("debugNotificationEmail"),
            )
            .hint("Receives emails about failing endpoints and failed jobs. Leave empty to use your own address")
            .optional(),
        ],
        error: shown.as_ref().or(error.as_ref()),
        ..Form::default()
    };
    let content = html! {
        (purpose())
        (sign_up)
        p { "Already have an account? " a href=(address(form, "signin")) { "Sign in" } }
        p { a href=(app.docs.as_str()) { "Documentation" } }
    };
    Page::new("Sign up", content).refused(error)
}

/// A short introduction to the service for new visitors.
fn purpose() -> Markup {
    html! {
        p {
            "Get a signed webhook whenever one of your organization's jobs completes or fails. The operator of this \
             service runs the jobs. You add the URLs that receive the webhooks."
        }
    }
}

pub(super) fn signed_in(user: &User, link: &FormValues) -> Page {
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
fn resend_form(link: &FormValues, error: Option<&Error>) -> Markup {
    let hidden = &hidden(link, "verify");
    Form { button: "Resend confirmation email", is_secondary: true, hidden, error, ..Form::default() }.render()
}

fn sign_out_form(link: &FormValues) -> Markup {
    Form { button: "Sign out", is_secondary: true, hidden: &hidden(link, "sign-out"), ..Form::default() }.render()
}

/// The page where a user approves a client. Everything that it shows about the request is untrusted.
pub(super) fn approval<R>(user: &User, login: &CliLogin, call: &Call<Option<SignedIn>, R>, link: &FormValues) -> Page {
    let here = call.client.to_string();
    let is_elsewhere = login.address != here;
    let agent = login.agent.as_deref().unwrap_or("Unknown");
    let (email, id, asked) = (user.email.to_string(), user.id.to_string(), ago(login.created_at));
    let code = comparison_code(&login.id.into());
    let [action, mode, request, secret, _] = hidden(link, "approve");
    let approve = Form {
        button: "Approve sign-in",
        hidden: &[action, mode, request, secret, ("userId", &id)],
        fields: &[Field::tick("sure", "I just started this sign-in myself")],
        ..Form::default()
    };
    let content = html! {
        p { "A command-line client wants to sign in as " strong { (email) } "." }
        (facts(&[("Code", &code), ("Requested", &asked), ("IP address", &login.address), ("Client", agent)]))
        p { "If your terminal shows a code, it must be the same one." }
        (warning(html! {
            p {
                strong { "Approve only if you just started this sign-in yourself. " }
                "If someone else sent you this link, approving the request gives them access to your account."
            }
            @if is_elsewhere {
                p {
                    "The request comes from a different IP address than yours (" (here) "). Approve only if you started \
                     the client on another machine."
                }
            }
        }))
        (approve)
        p { "If you did not start it, close this page and nothing will happen. To use another account, sign out:" }
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

pub(super) fn approved() -> Page {
    let content = html! { p { "You can close this page and go back to your terminal." } };
    Page::new("The command-line client is signed in", content).done()
}

/// The page for a user whose address is not confirmed, after a confirmation email was sent, or was not sent because of
/// `error`.
pub(super) fn to_confirm(user: &User, form: &FormValues, error: Option<Error>) -> Page {
    let sent = if error.is_none() { "We sent an email to " } else { "We already sent several emails to " };
    let content = html! {
        p { (sent) strong { (user.email_to_verify()) } ". Open the link in the newest one. It works for 24 hours." }
        @if request(form).is_some() {
            p {
                "If you do this within 10 minutes of starting the sign-in, the command-line client continues \
                 automatically. You can close this page."
            }
        }
        (resend_form(form, error.as_ref()))
    };
    Page::new("Confirm your email address first", content).refused(error)
}

pub(super) fn no_request(error: Error) -> Page {
    let content = html! {
        p { "A sign-in request is valid for 10 minutes and can be approved once. The link may also be incomplete." }
        p { "Start again in your terminal." }
    };
    Page::new("This sign-in request is not valid", content).refused(Some(error))
}
