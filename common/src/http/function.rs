//! An HTTP function, which finds the route of a request, runs it, and writes the response and the log line.

use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use futures::FutureExt;
use lambda_http::{
    LambdaEvent,
    aws_lambda_events::apigw::ApiGatewayV2httpResponse,
    http::{HeaderValue, Method, header},
    lambda_runtime, service_fn,
};
use url::form_urlencoded;

use super::{
    auth::CallerStores,
    call::Call,
    event::{self, Event, Request},
    info::{RouteInfo, variable},
    origins::Origins,
    page::Page,
    reply::Reply,
    route::{BoundRoute, Handled, Route},
    status::HttpError,
    wire::Wire,
};
use crate::{
    aws::{clients::Aws, from_env::FromEnv},
    config::{ConfigError, Env},
    error::{Error, Refusal, Result},
    name::ServiceName,
    telemetry::log,
};

/// The wait before a busy call is repeated, in seconds.
const BUSY_SECONDS: i64 = 1;

/// An HTTP function, ready to serve. Cloning is cheap.
#[derive(Clone)]
pub struct Function {
    pub(super) wire: Wire,
    origins: Arc<Origins>,
    pub(super) routes: Arc<[BoundRoute]>,
    /// The name shown at the top of pages; `None` for functions without pages.
    service: Option<ServiceName>,
}

impl Function {
    /// Builds a function from its routes, with the settings in `env`. `A` holds the dependencies of the handlers.
    pub fn new<A: FromEnv + Send + Sync + 'static, W: CallerStores>(
        wire: Wire,
        env: &Env,
        routes: impl IntoIterator<Item = Route<A, W>>,
    ) -> Result<Self, ConfigError> {
        let aws = Aws::new(env)?;
        let (app, callers) = (Arc::new(A::from_env(env, &aws)?), Arc::new(W::from_env(env, &aws)?));
        let bound = routes.into_iter().map(|route| route.bind(&app, &callers, wire, env));
        let mut routes = bound.collect::<Result<Vec<_>, _>>()?;
        // As in API Gateway, a path without a variable takes precedence over a matching path with one.
        routes.sort_by_key(|route| route.info.path.contains('{'));
        let service = (wire == Wire::Page).then(|| ServiceName::from_env(env)).transpose()?;
        Ok(Self { wire, origins: Arc::new(Origins::from_env(env)?), routes: routes.into(), service })
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
        let (route, Handled { reply, tenant }) = self.answer(event.payload).await;
        let (mut response, error) = match reply {
            Ok(reply) => reply.response(self.service.as_ref()),
            Err(error) => (self.wire.refusal(&error), Some(error)),
        };
        // Responses other than public pages may contain tokens and keys.
        response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        if self.wire == Wire::Page && self.origins.is_https() {
            // Makes browsers use only https for this host for a year.
            response
                .headers_mut()
                .insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
        }
        if let Ok(id) = HeaderValue::from_str(&request_id) {
            response.headers_mut().insert("x-request-id", id);
        }
        let wait = match error {
            Some(HttpError::Domain(Error::TooMany { retry_after_seconds })) => Some(retry_after_seconds),
            Some(HttpError::Domain(Error::Busy)) => Some(BUSY_SECONDS),
            _ => None,
        };
        response.headers_mut().extend(wait.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))));
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
            return (None, Handled { reply: self.unrouted(&request), tenant: None });
        };
        let back = (self.wire == Wire::Page && request.takes_html()).then(|| (request.target(), Sent::of(&request)));
        let call = Call::new(request, Arc::clone(&self.origins));
        // A panic fails one request rather than the process with all its requests.
        let handled = AssertUnwindSafe(async { (route.answer)(call).await }).catch_unwind().await;
        let panicked = |_| Error::Internal("the handler panicked".to_owned()).into();
        let mut handled = handled.unwrap_or_else(panicked);
        if let Some((back, sent)) = back {
            handled.reply = handled.reply.or_else(|error| Ok(answer_of(error, &back, sent)));
        }
        (Some(&route.info), handled)
    }

    fn find(&self, request: &Request) -> Option<&BoundRoute> {
        self.at_path(request).find(|route| route.info.method == request.method)
    }

    /// The response to a request without a matching route.
    fn unrouted(&self, request: &Request) -> Result<Reply, HttpError> {
        if request.method == Method::OPTIONS && self.wire == Wire::Plain {
            Ok(Reply::Preflight)
        } else if self.at_path(request).next().is_some() {
            Err(HttpError::Method)
        } else {
            Err(Error::NotFound("Not found").into())
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

/// The maximum size of a form that is kept while its sender signs in. It is posted again inside another form, so it is
/// encoded twice.
const MOST_KEPT: usize = 16 * 1024;

/// The fields that contain secrets, which pages never show again.
const SECRETS: [&str; 3] = ["headers", "own", "secret"];
/// The name of the field that names a secret to enter again.
pub const AGAIN: &str = "again";
/// The value of `did` on the sign-in page after a form's input was lost.
pub const LOST: &str = "lost";

/// The input that is lost if the sender of a request has to sign in first.
enum Sent {
    Nothing,
    /// A form whose fields cannot be restored.
    Form,
    /// The fields of a form, to restore after the sign-in.
    Fields(String),
}

impl Sent {
    fn of(request: &Request) -> Self {
        match kept(request) {
            Some(fields) => Self::Fields(fields),
            None if request.method == Method::POST => Self::Form,
            None => Self::Nothing,
        }
    }
}

/// Returns a form's fields, so that they can be restored after the sender has signed in again. Returns `None` for a
/// form with a password, because pages never show a password again. Other secrets are omitted; those that the person
/// entered are listed in [`AGAIN`].
fn kept(request: &Request) -> Option<String> {
    if request.method != Method::POST || request.body.is_empty() || request.body.len() > MOST_KEPT {
        return None;
    }
    let is_secret = |name: &str| name.to_ascii_lowercase().contains("password");
    let has_secret = form_urlencoded::parse(&request.body).any(|(name, _)| is_secret(&name));
    if has_secret || std::str::from_utf8(&request.body).is_err() {
        return None;
    }
    let mut kept = form_urlencoded::Serializer::new(String::new());
    for (name, value) in form_urlencoded::parse(&request.body).filter(|(name, _)| name != AGAIN) {
        match SECRETS.contains(&name.as_ref()) {
            false => kept.append_pair(&name, &value),
            true if value.is_empty() || name == "secret" => &mut kept,
            true => kept.append_pair(AGAIN, &name),
        };
    }
    Some(kept.finish())
}

/// Returns the reply to a browser after an error. A visitor without a session is redirected to the sign-in page and
/// then to `back`, or is shown a sign-in form that restores the `kept` fields. A visitor without a verified address is
/// redirected to the page that shows where the link was sent. A visitor who lacks a required second factor is
/// redirected to the page for setting one up.
fn answer_of(error: HttpError, back: &str, sent: Sent) -> Reply {
    match error {
        HttpError::Domain(Error::Unauthorized) => {
            let mut query = form_urlencoded::Serializer::new(String::new());
            query.append_pair("next", back);
            match sent {
                Sent::Fields(kept) => return Page::of_lost_session(back, &kept).into(),
                Sent::Form => _ = query.append_pair("did", LOST),
                Sent::Nothing => {}
            }
            Reply::Redirect { to: format!("/signin?{}", query.finish()), cookies: Vec::new() }
        }
        HttpError::Domain(Error::Forbidden(Refusal::EmailNotVerified)) => {
            Reply::Redirect { to: "/console/welcome".to_owned(), cookies: Vec::new() }
        }
        HttpError::Domain(Error::Forbidden(Refusal::TwoFactorRequired)) => {
            Reply::Redirect { to: "/console/two-factor".to_owned(), cookies: Vec::new() }
        }
        error => Page::of(error, back.starts_with("/console")).into(),
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
