//! Verifying an email address.

use std::{borrow::Cow, sync::Arc};

use common::{
    accounts::{
        attempts::VERIFICATION_MAIL,
        email::Email,
        mail::{unhurried, verification_mail},
        token::Token,
    },
    error::Result,
    http::{Call, Fault, Fields, Form, Page, Public, Rejected, Reply, Route},
    timestamp::Timestamp,
};
use url::Url;

use crate::{App, Status};

const CONFIRMED: Page = Page {
    good: true,
    title: "Your email address is confirmed",
    text: Cow::Borrowed("You can close this page and go back to where you signed up."),
    command: None,
    form: None,
};

const BAD_LINK: Page = Page {
    good: false,
    title: "This link does not work",
    text: Cow::Borrowed(
        "It may be incomplete, older than 24 hours, or used before. If you have pressed the button before, your address \
         is already confirmed. Otherwise ask for a new link where you signed up.",
    ),
    command: None,
    form: None,
};

/// The link in the mail. Mail programs and scanners open links on their own, so it only shows a button.
pub(crate) fn ask_to_verify() -> Route<App> {
    Route::get("/api/auth/verify-email", Public, Link::read, ask)
        .summary("The link in the verification mail: a page with a button; it changes nothing.")
}

/// The form behind that button.
pub(crate) fn verify() -> Route<App> {
    Route::post_form("/api/auth/verify-email", Public, Link::read, confirm)
        .summary("The button of that page: marks the email as verified. A link works once.")
}

pub(crate) fn send_verification() -> Route<App> {
    Route::post("/api/auth/send-verification-email", Public, Address::read, send)
        .summary("Sends another verification mail. The answer does not reveal who has an account.")
        .faults(&[Fault::TooMany])
}

/// The parameters of a link. Any text is accepted here, because a bad link should get a page and not a list of issues.
struct Link {
    token: Option<String>,
    callback: Option<String>,
}

impl Link {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        let token = fields.optional_text("token", |text| Ok(text.to_owned()));
        let callback = fields.optional_text("callbackURL", |text| Ok(text.to_owned()));
        Ok(Self { token: token?, callback: callback? })
    }

    fn token(&self) -> Option<Token> {
        self.token.as_deref().and_then(Token::parse)
    }

    /// Where to redirect afterwards, if it is trusted.
    fn callback(&self, call: &Call<()>) -> Option<Url> {
        self.callback.as_deref().and_then(|url| call.trusted_url(url))
    }
}

struct Address {
    email: Email,
}

impl Address {
    fn read(_: &App, fields: &mut Fields) -> Result<Self, Rejected> {
        Ok(Self { email: fields.text("email", Email::parse)? })
    }
}

async fn ask(app: Arc<App>, call: Call<()>, link: Link) -> Result<Page> {
    let token = match link.token() {
        Some(token) if app.verifications.holds(&token, Timestamp::now()).await? => token,
        _ => return Ok(BAD_LINK),
    };
    let callback = link.callback(&call);
    let mut fields = vec![("token", token.reveal().to_owned())];
    fields.extend(callback.as_ref().map(|url| ("callbackURL", url.to_string())));
    Ok(Page {
        good: true,
        title: "Confirm your email address",
        text: "If you have just signed up, press the button. If not, close this page: nothing happens.".into(),
        command: None,
        form: Some(Form {
            button: "Confirm",
            fields,
            inputs: &[],
            redirects_to: callback.map(|url| url.origin().ascii_serialization()),
        }),
    })
}

async fn confirm(app: Arc<App>, call: Call<()>, link: Link) -> Result<Reply> {
    let verified = match link.token() {
        Some(token) => app.verifications.verify(&token, Timestamp::now()).await?,
        None => false,
    };
    if !verified {
        return Ok(Reply::Page(BAD_LINK));
    }
    Ok(link.callback(&call).map_or(Reply::Page(CONFIRMED), Reply::Redirect))
}

async fn send(app: Arc<App>, call: Call<()>, input: Address) -> Result<Status> {
    let (email, now) = (input.email, Timestamp::now());
    app.attempts.count(VERIFICATION_MAIL, email.as_str(), now).await?;
    let send = async {
        let user = app
            .callers
            .users
            .credentials(Some(&email))
            .await?
            .map(|(user, _)| user)
            .filter(|user| !user.email_verified);
        if let Some(user) = user {
            let token = app.verifications.issue(&user, now).await?;
            app.mailer.send(&user.email, verification_mail(&call.base, &token), user.id).await;
        }
        Ok(())
    };
    unhurried(send).await.map(|()| Status::DONE)
}
