//! Calls the API at any simulated time, through its routes and functions.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};
use axum::{
    Router,
    body::{Body, Bytes},
    http::{Request, Response, StatusCode, header, request},
};
use common::{runtime_sources::RuntimeSources, timestamp::Timestamp};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

/// Returns a running clock that starts at `at`.
pub(super) fn clock(at: Timestamp) -> RuntimeSources {
    let (at, begun) = (SystemTime::from(at), Instant::now());
    RuntimeSources::at(Arc::new(move || at + begun.elapsed()))
}

/// The API, running on the caller's clock. Clones share it.
#[derive(Clone)]
pub(crate) struct Api {
    router: TowerToHyperService<Router>,
    origin: String,
}

/// The credential of a call.
pub(super) enum Credential {
    /// No credential.
    Anonymous,
    /// A session, as a `cookie` header.
    Session(String),
    /// An API key.
    Key(String),
}

impl Api {
    /// Returns the API with these routes, at `origin`.
    pub(crate) fn new(router: Router, origin: &str) -> Self {
        Self { router: TowerToHyperService::new(router), origin: origin.to_owned() }
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Signs in, and returns the response with any status.
    pub(super) async fn sign_in(&self, email: &str, password: &str) -> Result<Response<Body>> {
        let credentials = json!({"email": email, "password": password});
        let request = self.request("/api/auth/sign-in/email", &Credential::Anonymous);
        self.answer(request.header(header::CONTENT_TYPE, "application/json"), credentials.to_string()).await
    }

    /// Posts JSON, expects a 200, and returns the JSON in the response.
    pub(super) async fn post(&self, credential: &Credential, path: &str, body: &Value) -> Result<Value> {
        let request = self.request(path, credential).header(header::CONTENT_TYPE, "application/json");
        Ok(serde_json::from_slice(&self.read(request, path, body.to_string()).await?)?)
    }

    /// Calls a route under `/v1`, and returns the contents of the envelope.
    pub(super) async fn call(&self, credential: &Credential, route: &str, fields: &Value) -> Result<Value> {
        let answer = self.post(credential, &format!("/v1/{route}"), &json!({"json": fields})).await?;
        answer.get("json").cloned().context("a response without an envelope")
    }

    /// Submits a page's form.
    pub(super) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Result<()> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let form = "application/x-www-form-urlencoded";
        let request = self.request(path, &Credential::Anonymous).header(header::CONTENT_TYPE, form);
        self.read(request, path, body).await.map(drop)
    }

    fn request(&self, path: &str, credential: &Credential) -> request::Builder {
        let host = self.origin.trim_start_matches("http://");
        let request = Request::post(path).header(header::HOST, host);
        let request = request.header(header::ORIGIN, &self.origin);
        match credential {
            Credential::Anonymous => request,
            Credential::Session(cookie) => request.header(header::COOKIE, cookie),
            Credential::Key(key) => request.header("x-api-key", key),
        }
    }

    async fn answer(&self, request: request::Builder, body: String) -> Result<Response<Body>> {
        let Ok(answer) = self.router.call(request.body(Body::from(body))?).await;
        Ok(answer)
    }

    async fn read(&self, request: request::Builder, path: &str, body: String) -> Result<Bytes> {
        let answer = self.answer(request, body).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "{path} answers {status}: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}
