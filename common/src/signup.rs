//! What both ways to sign up have in common: what is made of the person, and what they are answered.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    accounts::NewUser,
    base_url::BaseUrl,
    email::Email,
    error::Result,
    http::WithCookies,
    id::{TenantId, UserId},
    mail::{Mailer, verification_mail},
    metrics,
    name::{Name, Slug},
    password::PasswordHash,
    sessions::{Session, session_cookie},
    timestamp::Timestamp,
    token::Token,
    users::{Role, User},
};

/// The answer to a sign-up.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignedUp {
    user_id: UserId,
    email: Email,
    organization_id: TenantId,
    organization_slug: Slug,
    session_token: String,
    set_cookie: Vec<String>,
    email_verified: bool,
}

/// Who signs up.
pub struct Person {
    /// What to call them.
    pub name: Name,
    /// Where to reach them.
    pub email: Email,
    /// What they sign in with.
    pub password: PasswordHash,
}

/// Everything that is made of a person who signs up `now`.
///
/// # Errors
/// The session would end after the end of time.
pub fn new_user(person: Person, organization: TenantId, role: Role, now: Timestamp) -> Result<NewUser> {
    let Person { name, email, password } = person;
    let user = User { id: UserId::generate(), name, email, email_verified: false, organization, role };
    Ok(NewUser {
        session: Session::start(user.id, now)?,
        user,
        password,
        session_token: Token::generate(),
        verification_token: Token::generate(),
    })
}

/// Sends the verification mail and answers.
pub async fn welcome(mailer: &Mailer, base: &BaseUrl, new: NewUser, organization_slug: Slug) -> WithCookies<SignedUp> {
    let NewUser { user, session_token, verification_token, .. } = new;
    let mail = verification_mail(base, &user.name, &verification_token);
    mailer.send(&user.email, mail, user.id).await;
    metrics::count("SignedUp");
    let cookies = vec![session_cookie(base, &session_token)];
    let body = SignedUp {
        set_cookie: cookies.clone(),
        session_token: session_token.reveal().to_owned(),
        user_id: user.id,
        email: user.email,
        organization_id: user.organization,
        organization_slug,
        email_verified: user.email_verified,
    };
    WithCookies { body, cookies }
}
