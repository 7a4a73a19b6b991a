//! The response of both sign-up routes.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    accounts::{
        email::Email,
        mail::{Mailer, verification_mail},
        signup::NewUser,
    },
    base_url::BaseUrl,
    http::{WithCookies, cookies::session_cookie},
    id::{TenantId, UserId},
    name::Slug,
    telemetry::metrics,
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

/// Sends the verification mail and builds the response.
pub async fn welcome(mailer: &Mailer, base: &BaseUrl, new: NewUser, organization_slug: Slug) -> WithCookies<SignedUp> {
    let NewUser { user, session_token, verification_token, .. } = new;
    let mail = verification_mail(base, &verification_token);
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
