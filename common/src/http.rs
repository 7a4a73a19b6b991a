//! The HTTP side of a function: takes an event of API Gateway, finds the caller, parses the input, calls the handler,
//! and makes the envelope, the headers and the log line. Nothing else in this crate names a status code.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::{FutureExt, future::BoxFuture};
use lambda_http::{
    LambdaEvent,
    aws_lambda_events::apigw::ApiGatewayV2httpResponse,
    http::{HeaderValue, Method, StatusCode, header},
    lambda_runtime, service_fn,
};
use serde::Serialize;
use serde_json::{Value, json};

use self::event::Request;
pub use self::{
    event::Event,
    fields::{Fields, Rejected},
    origins::Origins,
    plain::{Call, Caller, Form, Page, Reply, Route},
    status::Failure,
};
use crate::{
    api_keys::{ApiKey, ApiKeys, KeyHolder},
    base_url::BaseUrl,
    config::Env,
    error::{Error, Result},
};

mod event;
mod fields;
mod origins;
mod plain;
mod rpc;
mod status;

/// A body may have this many bytes; a longer one is refused before anything is parsed.
const MAX_BODY_BYTES: usize = 64 * 1024;

type Response = lambda_http::http::Response<String>;

/// An HTTP function, ready to be called. Cloning is cheap.
#[derive(Clone)]
pub struct Function {
    answer: Arc<dyn Fn(Request) -> BoxFuture<'static, Answer> + Send + Sync>,
    /// How the function's routes say that something failed.
    refuse: fn(Failure) -> Answer,
}

/// What a route answers: fields, and perhaps cookies.
pub trait Output: Serialize + Send {
    /// The `Set-Cookie` values that go out as headers.
    fn set_cookies(&self) -> &[String] {
        &[]
    }
}

/// The answer of a route that has nothing to report but that it is done.
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
    response: Response,
    failure: Option<Failure>,
    /// The route as the code has it, never the path as it came: a mangled link has its token in the path.
    route: Option<&'static str>,
    tenant: Option<String>,
}

impl Answer {
    fn of(response: Response) -> Self {
        Self { response, failure: None, route: None, tenant: None }
    }
}

impl Function {
    /// The `POST /v1/...` route `route`, which anyone may call. The handler gets the URL that the API is reached at.
    pub fn public<A, I, O, F>(
        route: &'static str,
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
        Self::new(rpc::refuse, move |request| {
            let (app, base) = (Arc::clone(&app), request.base(base_url.as_ref()));
            async move {
                let answer = async {
                    let input = rpc::input(&request, |fields| parse(&app, fields))?;
                    Ok(handle(Arc::clone(&app), base, input).await?)
                };
                Answer { route: Some(route), ..rpc::answer(answer.await) }
            }
        })
    }

    /// The `POST /v1/...` route `route`, which needs an API key.
    pub fn with_api_key<A, I, O, F>(
        route: &'static str,
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
        Self::new(rpc::refuse, move |request| {
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
                Answer { route: Some(route), tenant, ..rpc::answer(outcome) }
            }
        })
    }

    /// Routes of plain JSON, without the envelope. A `POST` from an origin that is neither ours nor one of `origins` is
    /// refused.
    pub fn plain<A>(app: A, origins: Origins, routes: &'static [Route<A>]) -> Self
    where
        A: Send + Sync + 'static,
    {
        let (app, origins) = (Arc::new(app), Arc::new(origins));
        Self::new(plain::refuse, move |request| {
            let (app, origins) = (Arc::clone(&app), Arc::clone(&origins));
            async move { plain::answer(app.as_ref(), routes, request, &origins).await }
        })
    }

    fn new<F>(refuse: fn(Failure) -> Answer, answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self { answer: Arc::new(move |request| Box::pin(answer(request))), refuse }
    }

    /// Answers one request. Whatever happens, there is an answer, and one line in the log.
    pub async fn call(&self, event: LambdaEvent<Event>) -> ApiGatewayV2httpResponse {
        let started = Instant::now();
        let request_id = event.context.request_id;
        let answer = match event.payload.request() {
            // A panic costs one request, not the process and the requests that are waiting for it.
            Ok(request) => AssertUnwindSafe(async { (self.answer)(request).await })
                .catch_unwind()
                .await
                .unwrap_or_else(|_panic| (self.refuse)(Error::Internal("the handler panicked".to_owned()).into())),
            Err(failure) => (self.refuse)(failure),
        };
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
        let (route, tenant) = (answer.route.unwrap_or("none"), answer.tenant.unwrap_or_default());
        if let Some(Failure::Domain(Error::Internal(cause))) = answer.failure {
            tracing::error!(request_id, route, tenant, status, code, duration_ms, cause, "request");
        } else {
            tracing::info!(request_id, route, tenant, status, code, duration_ms, "request");
        }
        event::response(response)
    }

    /// Serves requests from Lambda until the environment is shut down.
    ///
    /// # Errors
    /// The Lambda runtime ends.
    pub async fn run(self) -> Result<(), lambda_http::Error> {
        let service = service_fn(move |event| {
            let function = self.clone();
            async move { Ok::<_, std::convert::Infallible>(function.call(event).await) }
        });
        lambda_runtime::run(service).await
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

/// Who calls, by the `x-api-key` header. A missing, malformed, unknown and revoked key get the same answer.
async fn key_holder(keys: &ApiKeys, request: &Request) -> Result<KeyHolder> {
    let holder = match request.header("x-api-key").and_then(ApiKey::parse) {
        Some(key) => keys.holder(&key).await?,
        None => None,
    };
    holder.ok_or(Error::Unauthorized)
}

fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn add_cookies(response: &mut Response, cookies: &[String]) {
    for cookie in cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}
