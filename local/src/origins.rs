//! The origins of a page on this machine: its address, under both names of this machine.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// The origins of one page.
#[derive(Clone)]
pub(crate) struct Origins([String; 2]);

impl Origins {
    /// The origins of the page at `address`: `http://127.0.0.1:PORT`.
    pub(crate) fn of(address: &str) -> Self {
        Self([address.to_owned(), address.replace("127.0.0.1", "localhost")])
    }

    /// The page's address.
    pub(crate) fn address(&self) -> &str {
        let [address, _] = &self.0;
        address
    }

    /// Whether a request comes from the page itself.
    pub(crate) fn sent(&self, headers: &HeaderMap) -> bool {
        let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
        origin.is_some_and(|origin| self.0.iter().any(|own| own == origin))
    }

    /// Whether a request's host is this machine. A different host may belong to a site that tries to read the page.
    fn are_asked_for(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        host.is_some_and(|host| self.0.iter().any(|own| own.strip_prefix("http://") == Some(host)))
    }
}

/// Refuses a request for another host: middleware of the routes that show something.
pub(crate) async fn only_asked_for(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    if origins.are_asked_for(request.headers()) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, "This is not the host name of this page.").into_response()
}
