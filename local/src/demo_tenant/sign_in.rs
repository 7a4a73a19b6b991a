//! The link that signs a browser in to the demo tenant. Deployments do not serve it.

use anyhow::Result;
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
    routing::{MethodRouter, get},
};

use super::{api::Api, people};

/// The page after the sign-in.
const CONSOLE: &str = "/console";

/// Returns the `GET` handler, which signs in as the demo tenant's owner through the API's own route, and redirects to
/// the console.
pub(crate) fn sign_in(api: Api) -> MethodRouter {
    get(async move |headers: HeaderMap| {
        if !is_asked_for(&api, &headers) {
            return (StatusCode::FORBIDDEN, "This link works only when it is opened directly, not from another site.")
                .into_response();
        }
        answer(&api).await.unwrap_or_else(|error| {
            tracing::error!(error = format!("{error:#}"), "demo.sign_in_failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        })
    })
}

/// Whether a person opened the link at one of this machine's addresses. Other sites must not sign a browser in or
/// replace its session. Only browsers send `sec-fetch-site`.
fn is_asked_for(api: &Api, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let own = api.origin().trim_start_matches("http://");
    let is_here =
        text(header::HOST.as_str()).is_some_and(|host| host == own || host == own.replace("127.0.0.1", "localhost"));
    is_here && matches!(text("sec-fetch-site"), None | Some("none" | "same-origin"))
}

async fn answer(api: &Api) -> Result<Response<Body>> {
    let mut answer = api.sign_in(people::OWNER, people::PASSWORD).await?;
    // Other responses contain the reason, such as too many sign-ins or a changed password.
    if answer.status() == StatusCode::OK {
        *answer.status_mut() = StatusCode::SEE_OTHER;
        *answer.body_mut() = Body::empty();
        let headers = answer.headers_mut();
        headers.remove(header::CONTENT_TYPE);
        headers.remove(header::CONTENT_LENGTH);
        headers.insert(header::LOCATION, HeaderValue::from_static(CONSOLE));
    }
    Ok(answer)
}
