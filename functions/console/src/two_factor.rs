//! The page that sets up the signed-in user's second factor. It is the only console page for members who still need one
//! because their organization requires it.

mod qr;

use std::sync::Arc;

use common::{
    accounts::{
        password::Guess,
        two_factor::{BackupCodes, Enrollment, Entered, backup_codes::COUNT},
        users::User,
    },
    audit::{Action, Recorder},
    error::{Error, FactorProblem, Result},
    http::{
        Call, DID, DeclaredError, FormValues, Person, Reply, Route, SignedIn,
        cookies::session_cookie,
        page::{Field, Form, Page, warning},
    },
    timestamp::Timestamp,
};
use maud::{Markup, Render, html};

use crate::{
    app::App,
    frame::{FormRequest, NO_FORM, console, redirect_to, sign_out, tick},
};

const HERE: &str = "/console/two-factor";
/// The console link that the page belongs to.
const ACCOUNT: &str = "/console/account";

/// The fields of all the page's forms.
const FIELDS: [(&str, &str); 4] = [
    ("action", "The submitted form: `enable`, `verify`, `codes` or `disable`."),
    ("password", "`enable`, `codes` and `disable`: the password."),
    ("code", "`verify`: the first code from the authenticator app."),
    ("sure", "`disable`: `yes` from the checkbox that confirms the action."),
];

const DONE: [(&str, &str); 1] = [("disabled", "Two-factor authentication is disabled. All other sessions have ended.")];

pub(crate) fn show() -> Route<App> {
    Route::get(HERE, Person, |_, fields| Ok(fields.typed(&[DID])), get_page)
        .before_two_factor()
        .summary("Shows whether the signed-in user has a second factor, and the forms to set it up.")
        .errors(&[DeclaredError::EmailNotVerified])
}

pub(crate) fn submit() -> Route<App> {
    Route::post(HERE, Person, |_, fields| Ok(fields.typed(&FIELDS)), post_form)
        .before_two_factor()
        .records(&[
            Action::TwoFactorEnabled,
            Action::TwoFactorDisabled,
            Action::TwoFactorCodesGenerated,
            Action::TwoFactorCodeUsed,
            Action::SessionCreated,
        ])
        .summary(
            "Handles the forms that set up, confirm and disable the second factor and replace the backup codes, as the \
             API does.",
        )
        .errors(&[
            DeclaredError::EmailNotVerified,
            DeclaredError::InvalidPassword,
            DeclaredError::TwoFactor(FactorProblem::WrongCode),
            DeclaredError::TwoFactor(FactorProblem::Enabled),
            DeclaredError::NotFound,
            DeclaredError::TooMany,
        ])
        .redirects()
}

async fn get_page(app: Arc<App>, call: Call<SignedIn>, link: FormValues) -> Result<Page> {
    page(&app, &call.caller.user, FormRequest::link(link)).await
}

async fn post_form(app: Arc<App>, call: Call<SignedIn, Recorder>, form: FormValues) -> Result<Reply> {
    let done = match form.get("action") {
        "enable" => enable(&app, &call, &form).await,
        "verify" => verify(&app, &call, &form).await,
        "codes" => renew(&app, &call, &form).await,
        "disable" => disable(&app, &call, &form).await,
        _ => Err(NO_FORM),
    };
    let Err(error) = done else { return done };
    Ok(page(&app, &call.caller.user, FormRequest::refused(form, error)?).await?.into())
}

fn password(form: &FormValues) -> Result<Guess> {
    form.read(|fields| fields.text("password", |text| Ok(Guess::new(text))))
}

async fn enable(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let (user, password) = (&call.caller.user, password(form)?);
    let enrollment = app.two_factor.enroll(user, &app.sign_ins, password, Timestamp::now()).await?;
    Ok(to_scan(&enrollment).into())
}

/// Enables the second factor. The backup codes are generated now, so the page can show them once they are valid.
async fn verify(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let (user, codes) = (&call.caller.user, BackupCodes::generate());
    let entered = Entered::Code(form.get("code"));
    let device = call.device();
    let token = app
        .two_factor
        .verify(&call.recorder, user, entered, Some(&codes), &device, &call.base, Timestamp::now())
        .await?;
    Ok(match token {
        Some(token) => {
            let page = new_codes("Two-factor authentication is enabled", &codes);
            Reply::page(page, vec![session_cookie(&call.base, &token)])
        }
        // A concurrent call enabled it first.
        None => redirect_to(HERE, ""),
    })
}

async fn renew(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let (user, password) = (&call.caller.user, password(form)?);
    let (device, now) = (call.device(), Timestamp::now());
    let codes =
        app.two_factor.renew_codes(&call.recorder, user, &app.sign_ins, password, &device, &call.base, now).await?;
    Ok(new_codes("Your new backup codes", &codes).into())
}

async fn disable(app: &App, call: &Call<SignedIn, Recorder>, form: &FormValues) -> Result<Reply> {
    let password = form.read(|fields| {
        let password = fields.text("password", |text| Ok(Guess::new(text)));
        let sure = fields.text("sure", tick);
        sure.and(password)
    })?;
    let (user, device, now) = (&call.caller.user, call.device(), Timestamp::now());
    let token = app.two_factor.disable(&call.recorder, user, &app.sign_ins, password, &device, &call.base, now).await?;
    let cookies = token.iter().map(|token| session_cookie(&call.base, token)).collect();
    Ok(Reply::Redirect { to: format!("{HERE}?did=disabled"), cookies })
}

async fn page(app: &App, user: &User, sent: FormRequest) -> Result<Page> {
    if !user.has_two_factor {
        user.check_verified()?;
    }
    let news = sent.news(&DONE, &["enable", "verify", "codes", "disable"]);
    let content = if user.has_two_factor {
        let left = app.two_factor.codes_left(user).await?;
        html! { (news) (enabled(left, &sent)) }
    } else {
        html! {
            (news)
            @if user.must_have_two_factor {
                (warning(html! {
                    p {
                        "Your organization requires two-factor authentication. Until you set it up, you cannot use the \
                         console. Your API keys keep working."
                    }
                }))
            }
            @if let Some(error) = sent.error("verify") {
                (code_form(Some(error)))
                p { "If the app shows this code, its device may have a wrong clock: let the device set the time automatically." }
                h2 { "Start again" }
            }
            (enable_form(&sent))
            @if user.must_have_two_factor { (sign_out()) }
        }
    };
    let page = Page::new("Two-factor authentication", content).refused(sent.refused);
    // The frame's links do not work until a required second factor is set up.
    if user.check_two_factor().is_err() {
        return Ok(page);
    }
    Ok(page.within(console(app, user, ACCOUNT).await?))
}

fn enable_form(sent: &FormRequest) -> Markup {
    html! {
        p {
            "Signing in will then require a code from an authenticator app on your phone or in your password manager, \
             in addition to the password. API keys work without it."
        }
        (sent.form("enable", "Set up two-factor authentication", &[Field::password("password", "Password")]))
    }
}

/// The page with the secret. The secret is not shown again, because a stolen session would then be enough to read it.
fn to_scan(enrollment: &Enrollment) -> Page {
    let secret = enrollment.secret.reveal();
    let groups: Vec<&str> = secret.as_bytes().chunks(4).filter_map(|group| std::str::from_utf8(group).ok()).collect();
    let content = html! {
        p { "Scan the code with your authenticator app:" }
        (qr::svg(&enrollment.link))
        p { "Or " a href=(enrollment.link.as_str()) { "open the app on this device" } ", or enter the secret in it:" }
        pre #totp-secret { (groups.join(" ")) }
        p { "Then enter the code that the app shows." }
        (code_form(None))
        p { a href=(HERE) { "Cancel" } }
    };
    Page::new("Set up two-factor authentication", content)
}

fn code_form(error: Option<&Error>) -> Markup {
    let fields = [Field::code("code", "Code")];
    let form = Form {
        action: "verify",
        button: "Enable two-factor authentication",
        fields: &fields,
        error,
        ..Form::default()
    };
    form.render()
}

/// The page with new backup codes, which are not shown again.
fn new_codes(title: &'static str, codes: &BackupCodes) -> Page {
    let content = html! {
        p {
            strong { "Save these backup codes now. They are not shown again." }
            " Each code signs you in once if you lose your authenticator app."
        }
        pre .whole #backup-codes { (codes.reveal().join("\n")) }
        p { "Keep them somewhere you can reach without your phone, such as in a password manager or on paper." }
        p { a .button href="/console" { "Continue to the console" } }
    };
    Page::new(title, content).done()
}

fn enabled(left: usize, sent: &FormRequest) -> Markup {
    let password = Field::password("password", "Password");
    let (renew, disable) = ([password], [password, Field::tick("sure", "Sign in with only the password")]);
    html! {
        p { span .state.good { "✓ Enabled" } " Signing in requires a code from your authenticator app, or a backup \
            code." }
        h2 { "Backup codes" }
        p { (left) " of " (COUNT) " backup codes are left. New codes replace all earlier ones." }
        (Form { is_secondary: true, ..sent.form("codes", "Replace backup codes", &renew) })
        h2 { "Disable two-factor authentication" }
        p { "To use another authenticator app, disable two-factor authentication, then set it up again. All other sessions end." }
        (Form { is_danger: true, ..sent.form("disable", "Disable two-factor authentication", &disable) })
    }
}
