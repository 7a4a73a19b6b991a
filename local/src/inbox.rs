//! The inbox: a webhook receiver on this machine. It accepts every `POST`, shows the requests, and returns the response
//! that a developer selected for the path.
//!
//! Requests (the last 200, up to 16 MiB), responses and secrets are kept in memory only. The page does not use scripts,
//! and escapes everything. Its forms require the page's own `Origin`, webhooks must not have an `Origin`, and the page
//! is shown only under this machine's names.

mod page;
pub mod signatures;
mod store;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State, rejection::BytesRejection},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::from_fn_with_state,
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use common::{lock::lock, webhooks::destination::SigningSecret};
use tokio_util::sync::CancellationToken;

pub(crate) use self::store::Manner;
use self::store::{Shelf, StoredRequest};
use crate::origins::{Origins, only_asked_for};

/// The maximum size of a body: larger than any event, which can have slightly more than 1 MiB.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// The delay of a slow response, which is late but shorter than an attempt's timeout.
const SLOW_DELAY: Duration = Duration::from_secs(8);

/// The inbox. Clones share it.
#[derive(Clone)]
pub(crate) struct Inbox {
    /// Only the inbox's own pages may change settings.
    origins: Origins,
    shelf: Arc<Mutex<Shelf>>,
    /// Ends requests that get no response.
    stop: CancellationToken,
}

impl Inbox {
    /// Returns the inbox at `address`, which runs until `stop`.
    pub(crate) fn new(address: &str, stop: CancellationToken) -> Self {
        Self { origins: Origins::of(address), shelf: Arc::default(), stop }
    }

    /// Returns the routes: the page at `/`, its forms, and a receiver at every other path.
    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route("/", get(show).layer(from_fn_with_state(self.origins.clone(), only_asked_for)))
            .route("/-/answer", post(set_answer))
            .route("/-/secret", post(set_secret))
            .fallback(receive)
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(self.clone())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origins.address())
    }

    /// Sets the response of `path`.
    pub(crate) fn answer(&self, path: &str, manner: Manner) {
        self.shelf().path(path).manner = manner;
    }

    /// Verifies the requests to `path`, including earlier ones, with this secret.
    pub(crate) fn verify(&self, path: &str, secret: SigningSecret) {
        self.shelf().path(path).secret = Some(secret);
    }

    /// Sets whether new requests are kept and shown. They get responses in either case.
    pub(crate) fn keep(&self, is_keeping: bool) {
        self.shelf().is_keeping = is_keeping;
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        lock(&self.shelf)
    }

    /// Returns a form's fields, if an inbox page sent it.
    fn form(&self, headers: &HeaderMap, body: &Bytes) -> Option<HashMap<String, String>> {
        self.origins.sent(headers).then(|| url::form_urlencoded::parse(body).into_owned().collect())
    }

    /// Applies a form and redirects to the page, so a reload does not repeat the change.
    fn change(&self, path: Option<&String>, change: impl FnOnce(&mut store::Settings)) -> Response {
        let mut shelf = self.shelf();
        match path.filter(|path| path.starts_with('/') && shelf.has_room_for(path)) {
            Some(path) => change(shelf.path(path)),
            None => return refused("The path must begin with a slash, and at most 100 paths can have settings."),
        }
        Redirect::to("/").into_response()
    }
}

fn foreign() -> Response {
    (StatusCode::FORBIDDEN, "This form can be sent only from the inbox page.").into_response()
}

fn refused(why: &'static str) -> Response {
    (StatusCode::BAD_REQUEST, why).into_response()
}

async fn show(State(inbox): State<Inbox>) -> Response {
    let page = page::page(&inbox.shelf());
    (page::HEADERS, page.into_string()).into_response()
}

async fn set_answer(State(inbox): State<Inbox>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(fields) = inbox.form(&headers, &body) else { return foreign() };
    match fields.get("answer").and_then(|name| Manner::parse(name)) {
        Some(manner) => inbox.change(fields.get("path"), |settings| settings.manner = manner),
        None => refused("Unknown response. Select one on the inbox page."),
    }
}

/// An empty value removes the secret.
async fn set_secret(State(inbox): State<Inbox>, headers: HeaderMap, body: Bytes) -> Response {
    let Some(fields) = inbox.form(&headers, &body) else { return foreign() };
    let secret = match fields.get("secret").map(String::as_str) {
        None | Some("") => None,
        Some(text) => match SigningSecret::parse(text) {
            Ok(secret) => Some(secret),
            Err(_problems) => return refused("The signing secret must have 1 to 256 characters."),
        },
    };
    inbox.change(fields.get("path"), |settings| settings.secret = secret)
}

async fn receive(
    State(inbox): State<Inbox>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if method != Method::POST || uri.path() == "/" {
        return (
            StatusCode::NOT_FOUND,
            "The inbox accepts a POST to any path except /, where its page shows the requests.",
        )
            .into_response();
    }
    // Webhooks are sent by servers. Only requests from pages carry an origin.
    if headers.contains_key(header::ORIGIN) && !inbox.origins.sent(&headers) {
        return (StatusCode::FORBIDDEN, "A webhook must not have an `origin` header.").into_response();
    }
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return rejection.into_response(),
    };
    let path = uri.path().to_owned();
    let manner = inbox.shelf().manner(&path);
    inbox.shelf().add(StoredRequest { at: SystemTime::now(), path, headers, body, manner });
    match manner {
        Manner::Take => StatusCode::NO_CONTENT.into_response(),
        Manner::Fail => (StatusCode::INTERNAL_SERVER_ERROR, "This path responds with HTTP 500.").into_response(),
        Manner::Gone => (StatusCode::GONE, "This path responds with HTTP 410.").into_response(),
        Manner::Slowly => {
            tokio::time::sleep(SLOW_DELAY).await;
            StatusCode::NO_CONTENT.into_response()
        }
        Manner::Hang => {
            inbox.stop.cancelled().await;
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}
