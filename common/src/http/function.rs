//! An HTTP function, which finds the route of a request, runs it, and writes the response and the log line.

use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::FutureExt;
use lambda_http::{
    LambdaEvent,
    aws_lambda_events::apigw::ApiGatewayV2httpResponse,
    http::{HeaderValue, Method, StatusCode, header},
    lambda_runtime, service_fn,
};

use super::{
    auth::CallerStores,
    body_format::BodyFormat,
    browser::{self, ErrorReply},
    call::Call,
    event::{self, Event, Request},
    info::{RouteInfo, variable},
    origins::Origins,
    reply::Reply,
    route::{BoundRoute, Handled, Route},
    status::HttpError,
};
use crate::{
    aws::{clients::Aws, from_env::FromEnv},
    config::{ConfigError, Env},
    error::{Error, Result},
    name::ServiceName,
    telemetry::log,
};

/// The wait before a busy call is repeated, in seconds.
const BUSY_SECONDS: i64 = 1;
/// The challenge of each 401, which RFC 9110 requires (section 15.5.2). No client knows this scheme, so browsers do not
/// ask for a password. API Gateway renames the header, so clients see it only behind a proxy that restores its name.
const CHALLENGE: HeaderValue = HeaderValue::from_static("ApiKey");

/// An HTTP function, ready to serve. Cloning is cheap.
#[derive(Clone)]
pub struct Function {
    pub(super) format: BodyFormat,
    origins: Arc<Origins>,
    pub(super) routes: Arc<[BoundRoute]>,
    /// `None` for functions without pages.
    pages: Option<Pages>,
}

/// The parts of a function that only pages need. Only functions with pages refer to the code for pages, here and in
/// their replies, so the linker omits it from the binaries of other functions.
#[derive(Clone)]
struct Pages {
    /// The name shown at the top of pages.
    service: ServiceName,
    /// Prepares the reply to a browser, in case its request fails.
    error_reply: fn(&Request) -> ErrorReply,
}

impl Function {
    /// Builds a function with pages from its routes, like [`Function::new`].
    pub fn of_pages<A: FromEnv + Send + Sync + 'static, W: CallerStores>(
        env: &Env,
        routes: impl IntoIterator<Item = Route<A, W>>,
    ) -> Result<Self, ConfigError> {
        let function = Self::new(BodyFormat::Page, env, routes)?;
        let pages = Pages { service: ServiceName::from_env(env)?, error_reply: browser::error_reply };
        Ok(Self { pages: Some(pages), ..function })
    }

    /// Builds a function from its routes, with the settings in `env`. `A` holds the dependencies of the handlers.
    pub fn new<A: FromEnv + Send + Sync + 'static, W: CallerStores>(
        format: BodyFormat,
        env: &Env,
        routes: impl IntoIterator<Item = Route<A, W>>,
    ) -> Result<Self, ConfigError> {
        let aws = Aws::new(env)?;
        let (app, callers) = (Arc::new(A::from_env(env, &aws)?), Arc::new(W::from_env(env, &aws)?));
        let bound = routes.into_iter().map(|route| route.bind(&app, &callers, format, env));
        let mut routes = bound.collect::<Result<Vec<_>, _>>()?;
        // As in API Gateway, a path without a variable takes precedence over a matching path with one.
        routes.sort_by_key(|route| route.info.path.contains('{'));
        Ok(Self { format, origins: Arc::new(Origins::from_env(env)?), routes: routes.into(), pages: None })
    }

    /// The descriptions of the routes, for the checks against the template.
    pub fn routes(&self) -> impl Iterator<Item = &RouteInfo> {
        self.routes.iter().map(|route| &route.info)
    }

    /// Handles one request. Always returns a response and writes one log line.
    pub async fn call(&self, event: LambdaEvent<Event>) -> ApiGatewayV2httpResponse {
        let started = Instant::now();
        let request_id = event.context.request_id;
        let is_head = event.payload.is_head();
        let (route, Handled { reply, tenant, account }) = self.answer(event.payload).await;
        let (mut response, error) = match reply {
            Ok(reply) => {
                let service = self.pages.as_ref().map_or("", |pages| pages.service.as_str());
                reply.response(service, account.as_deref())
            }
            Err(error) => (self.format.refusal(&error), Some(error)),
        };
        // Responses other than public pages may contain tokens and keys.
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        if self.format == BodyFormat::Page && self.origins.is_https() {
            // Makes browsers use only https for this host for a year.
            response
                .headers_mut()
                .insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
        }
        if let Ok(id) = HeaderValue::from_str(&request_id) {
            response.headers_mut().insert("x-request-id", id);
        }
        let wait = match error {
            Some(HttpError::Domain(Error::TooMany { retry_after_seconds, .. })) => Some(retry_after_seconds),
            Some(HttpError::Domain(Error::Busy)) => Some(BUSY_SECONDS),
            _ => None,
        };
        response.headers_mut().extend(wait.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))));
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
        }
        if let Some(HttpError::Method(methods)) = &error {
            response.headers_mut().extend(HeaderValue::from_str(methods).ok().map(|methods| (header::ALLOW, methods)));
        }
        let (status, duration_ms) = (response.status().as_u16(), started.elapsed().as_secs_f64() * 1e3);
        let code = error.as_ref().map_or("OK", |error| error.code().as_str());
        // The raw path is not logged, because a mangled link may contain its token.
        let (method, route) = route.map_or(("", "none"), |route| (route.method.as_str(), route.path));
        let method = if is_head && method == "GET" { "HEAD" } else { method };
        let tenant = tenant.as_deref().unwrap_or_default();
        if let Some(HttpError::Domain(Error::Internal(cause))) = error {
            crate::log!("request.failed", request_id, method, route, tenant, status, code, duration_ms, cause);
        } else {
            crate::log!("request.completed", request_id, method, route, tenant, status, code, duration_ms);
        }
        if is_head {
            response.body_mut().clear();
        }
        event::response(response)
    }

    /// Finds the route of a request and runs it.
    async fn answer(&self, event: Event) -> (Option<&RouteInfo>, Handled) {
        let request = match event.request() {
            Ok(request) => request,
            Err(error) => return (None, error.into()),
        };
        let Some(route) = self.find(&request) else {
            return (None, Handled { reply: self.unrouted(&request), tenant: None, account: None });
        };
        let pages = self.pages.as_ref().filter(|_| request.takes_html());
        let error_reply = pages.map(|pages| (pages.error_reply)(&request));
        let call = Call::new(request, Arc::clone(&self.origins));
        // A panic fails one request rather than the process with all its requests.
        let handled = AssertUnwindSafe(async { (route.answer)(call).await }).catch_unwind().await;
        let panicked = |_| Error::Internal("the handler panicked".to_owned()).into();
        let mut handled = handled.unwrap_or_else(panicked);
        if let Some(error_reply) = error_reply {
            handled.reply = handled.reply.or_else(|error| Ok(error_reply(error)));
        }
        (Some(&route.info), handled)
    }

    fn find(&self, request: &Request) -> Option<&BoundRoute> {
        self.at_path(request).find(|route| route.info.method == request.method)
    }

    /// The response to a request without a matching route.
    fn unrouted(&self, request: &Request) -> Result<Reply, HttpError> {
        if request.method == Method::OPTIONS && self.format == BodyFormat::Plain {
            Ok(Reply::Preflight)
        } else {
            let methods: Vec<_> = self.at_path(request).flat_map(|route| route.info.methods()).copied().collect();
            Err(if methods.is_empty() {
                Error::NotFound("Not found").into()
            } else {
                HttpError::Method(methods.join(", "))
            })
        }
    }

    /// The routes at a request's path. A function's only route matches every path, because API Gateway calls the
    /// function only for that route, and the stage may prefix the path.
    fn at_path(&self, request: &Request) -> impl Iterator<Item = &BoundRoute> {
        let single = self.routes.len() == 1;
        self.routes.iter().filter(move |route| single || variable(route.info.path, &request.path).is_some())
    }

    /// Serves requests from Lambda until the environment shuts down.
    ///
    /// # Errors
    /// The Lambda runtime fails.
    pub async fn run(self) -> Result<(), lambda_http::Error> {
        let service = service_fn(move |event| {
            let function = self.clone();
            async move { Ok::<_, Infallible>(function.call(event).await) }
        });
        lambda_runtime::run(service).await
    }
}

/// Runs an HTTP function: starts the log, builds the function, and serves it.
///
/// # Errors
/// A setting is missing or does not parse, or the Lambda runtime fails.
pub async fn serve(function: fn(&Env) -> Result<Function, ConfigError>) -> Result<(), lambda_http::Error> {
    let env = Env::process();
    log::init(&env);
    function(&env)?.run().await
}
