//! The HTTP side of a function: takes a Lambda request, finds the caller, parses the input, calls the handler,
//! and makes the envelope, the headers and the log line. Nothing else in this crate names a status code.

use std::{convert::Infallible, future::ready, sync::Arc, time::Instant};

use futures::future::BoxFuture;
use lambda_http::{
    Body, IntoResponse, Request, RequestExt, Response,
    http::{HeaderValue, Method, StatusCode, header},
    request::RequestContext,
};
use serde::Serialize;
use serde_json::{Value, json};

pub use self::{
    fields::{Fields, Rejected},
    plain::{Call, Caller, Page, Reply},
};
use crate::{
    api_keys::{ApiKey, ApiKeys, KeyHolder},
    base_url::BaseUrl,
    config::Env,
    error::{Error, Result},
};

mod fields;
mod plain;
mod rpc;
mod status;

pub use status::Failure;

/// A body may have this many bytes; a longer one is refused before anything is parsed.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// An HTTP function, ready to be called. Cloning is cheap.
#[derive(Clone)]
pub struct Function {
    answer: Arc<dyn Fn(Request) -> BoxFuture<'static, Answer> + Send + Sync>,
}

/// What a route answers: fields, and perhaps cookies.
pub trait Output: Serialize + Send {
    /// The `Set-Cookie` values that go out as headers.
    fn set_cookies(&self) -> &[String] {
        &[]
    }
}

/// The answer of a route that has nothing to tell but that it is done.
#[derive(Serialize)]
pub struct Done {
    success: bool,
    message: &'static str,
}

impl Done {
    /// Says `message`.
    #[must_use]
    pub fn new(message: &'static str) -> Self {
        Self { success: true, message }
    }
}

impl Output for Done {}

/// An answer before it gets the headers that every answer has, with what the log says about it.
struct Answer {
    response: Response<Body>,
    failure: Option<Failure>,
    tenant: Option<String>,
}

impl Function {
    /// A `POST /v1/...` route that anyone may call. The handler is told where the API is reached.
    pub fn public<A, I, O, F>(
        app: A,
        base_url: Option<BaseUrl>,
        parse: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: fn(Arc<A>, BaseUrl, I) -> F,
    ) -> Self
    where
        A: Send + Sync + 'static,
        I: Send + 'static,
        O: Output,
        F: Future<Output = Result<O>> + Send + 'static,
    {
        let app = Arc::new(app);
        Self::new(move |request| {
            let (app, base) = (Arc::clone(&app), base_of(&request, base_url.as_ref()));
            async move {
                let answer = async {
                    let input = rpc::input(&request, |fields| parse(&app, fields))?;
                    Ok(handle(Arc::clone(&app), base, input).await?)
                };
                rpc::answer(answer.await, None)
            }
        })
    }

    /// A `POST /v1/...` route that needs an API key.
    pub fn with_api_key<A, I, O, F>(
        app: A,
        keys: ApiKeys,
        parse: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: fn(Arc<A>, KeyHolder, I) -> F,
    ) -> Self
    where
        A: Send + Sync + 'static,
        I: Send + 'static,
        O: Output,
        F: Future<Output = Result<O>> + Send + 'static,
    {
        let (app, keys) = (Arc::new(app), Arc::new(keys));
        Self::new(move |request| {
            let (app, keys) = (Arc::clone(&app), Arc::clone(&keys));
            async move {
                let mut tenant = None;
                let answer = async {
                    rpc::check(&request)?;
                    let caller = key_holder(&keys, &request).await?;
                    tenant = Some(caller.tenant.to_string());
                    let input = rpc::input(&request, |fields| parse(&app, fields))?;
                    Ok(handle(Arc::clone(&app), caller, input).await?)
                };
                let outcome = answer.await;
                rpc::answer(outcome, tenant)
            }
        })
    }

    /// Routes of plain JSON, without the envelope: `route` finds a handler by method and path.
    pub fn plain<A, F>(app: A, base_url: Option<BaseUrl>, route: fn(Arc<A>, Call) -> F) -> Self
    where
        A: Send + Sync + 'static,
        F: Future<Output = Result<Reply, Failure>> + Send + 'static,
    {
        let app = Arc::new(app);
        Self::new(move |request| {
            let (app, base) = (Arc::clone(&app), base_of(&request, base_url.as_ref()));
            async move {
                plain::answer(match Call::of(request, base) {
                    Ok(call) => route(app, call).await,
                    Err(failure) => Err(failure),
                })
            }
        })
    }

    fn new<F>(answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self { answer: Arc::new(move |request| Box::pin(answer(request))) }
    }

    /// Answers one request. Whatever happens, there is an answer, and one line in the log.
    pub async fn call(&self, request: Request) -> Finished {
        let started = Instant::now();
        let request_id = request.lambda_context_ref().map(|context| context.request_id.clone()).unwrap_or_default();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = (self.answer)(request).await;
        let mut response = answer.response;
        // Answers hold tokens and keys.
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Ok(id) = HeaderValue::from_str(&request_id) {
            response.headers_mut().insert("x-request-id", id);
        }
        if let Some(Failure::Domain(Error::TooMany { retry_after_seconds })) = answer.failure {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
        }
        let (status, duration_ms) = (response.status().as_u16(), started.elapsed().as_secs_f64() * 1e3);
        let code = answer.failure.as_ref().map_or("OK", Failure::code);
        let tenant = answer.tenant.unwrap_or_default();
        if let Some(Failure::Domain(Error::Internal(cause))) = answer.failure {
            tracing::error!(request_id, %method, path, tenant, status, code, duration_ms, cause, "request");
        } else {
            tracing::info!(request_id, %method, path, tenant, status, code, duration_ms, "request");
        }
        Finished(response)
    }

    /// Serves requests from Lambda until the environment is shut down.
    ///
    /// # Errors
    /// The Lambda runtime ends.
    pub async fn run(self) -> Result<(), lambda_http::Error> {
        let service = lambda_http::service_fn(move |request| {
            let function = self.clone();
            async move { Ok::<_, Infallible>(function.call(request).await) }
        });
        lambda_http::run(service).await
    }
}

/// A response that is text already. `lambda_http` would decode its body by the charset, with the tables of all charsets
/// that there are: 200 KB of a binary.
pub struct Finished(Response<Body>);

impl IntoResponse for Finished {
    fn into_response(self) -> BoxFuture<'static, Response<Body>> {
        Box::pin(ready(self.0))
    }
}

/// The whole `main` of an HTTP function: start the log, build the function, serve.
///
/// # Errors
/// A setting is missing or does not parse; or the Lambda runtime ends.
pub async fn serve(
    function: fn(&Env) -> Result<Function, crate::config::ConfigError>,
) -> Result<(), lambda_http::Error> {
    let env = Env::process();
    crate::log::init(&env);
    function(&env)?.run().await
}

/// The configured base URL, else the domain that the request came to. API Gateway puts only a domain there that
/// is mapped to this API, whatever the `Host` header says.
fn base_of(request: &Request, configured: Option<&BaseUrl>) -> BaseUrl {
    configured.cloned().unwrap_or_else(|| match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => {
            BaseUrl::of_domain(context.domain_name.as_deref().unwrap_or("localhost"))
        }
        _ => BaseUrl::of_domain("localhost"),
    })
}

/// Who calls, by the `x-api-key` header. A missing, malformed, unknown and revoked key get the same answer.
async fn key_holder(keys: &ApiKeys, request: &Request) -> Result<KeyHolder> {
    let key = request.headers().get("x-api-key").and_then(|value| value.to_str().ok()).and_then(ApiKey::parse);
    let holder = match key {
        Some(key) => keys.holder(&key).await?,
        None => None,
    };
    holder.ok_or(Error::Unauthorized)
}

fn json_response(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::Text(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn add_cookies(response: &mut Response<Body>, cookies: &[String]) {
    for cookie in cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}
