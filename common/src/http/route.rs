//! A route is one value: its method and path, who may call it, its input, its handler, and the errors it can return.
//! The router, the log line, the description and the checks against the template all come from it.

use std::sync::Arc;

use futures::future::BoxFuture;
use lambda_http::http::{Method, header};
use url::{Url, form_urlencoded};

use super::{
    Access, Fields, HttpError, Output, Rejected, Reply, Wire,
    auth::Credential,
    cookies::token_in_cookies,
    event::Request,
    fields::IDEMPOTENCY_KEY,
    json::{Json, Object},
    origins::Origins,
    wire::check_size,
};
use crate::{
    accounts::{attempts::ClientAddress, sessions::Device, token::Token},
    base_url::BaseUrl,
    error::{Error, Refusal, Result},
};

/// A route over the app `A`.
pub struct Route<A> {
    info: RouteInfo,
    answer: Handler<A>,
    #[cfg(feature = "openapi")]
    describe: Describe<A>,
}

type Handler<A> = Box<dyn Fn(Arc<A>, Call<()>, Wire) -> BoxFuture<'static, Handled> + Send + Sync>;
#[cfg(feature = "openapi")]
type Describe<A> = Box<dyn Fn(&A, &mut super::openapi::Generators) -> super::openapi::Shapes + Send + Sync>;

/// What is known about a route without calling it.
#[derive(Debug)]
pub struct RouteInfo {
    /// `GET` or `POST`. Everything that changes state is a `POST`.
    pub method: Method,
    /// The full path.
    pub path: &'static str,
    /// The credentials it accepts.
    pub credentials: &'static [Credential],
    /// Where its input comes from.
    pub takes: Takes,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The errors it can return, beyond those of every route of its kind.
    pub faults: &'static [Fault],
    /// Whether a success may be a redirect.
    pub redirects: bool,
}

/// Where a route's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// The query string.
    Query,
    /// A JSON body.
    Json,
    /// A URL-encoded body, as browsers send forms.
    Form,
}

/// An error that only some routes return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 401: the email or the password is wrong.
    WrongPassword,
    /// 400: the password of the user who is signed in is wrong.
    InvalidPassword,
    /// 400: the token of a link is malformed, unknown, used or expired.
    InvalidToken,
    /// 400: the caller is a program, and only a person can confirm.
    ConfirmationRequired,
    /// 403: the email is not verified yet.
    EmailNotVerified,
    /// 403: only owners may do this.
    OwnersOnly,
    /// 403: the request names an organization that the caller is not a member of.
    NotAMember,
    /// 404: what the request names does not exist.
    NotFound,
    /// 409, with this reason.
    Conflict(&'static str),
    /// 429: too many attempts.
    TooMany,
}

/// A request on its way to a handler, with its caller.
pub struct Call<C> {
    /// The caller, as identified by the route's [`Access`].
    pub caller: C,
    /// The public address of the API.
    pub base: BaseUrl,
    /// Where the call comes from, as API Gateway saw it: `X-Forwarded-For` can be forged.
    pub client: ClientAddress,
    origins: Arc<Origins>,
    request: Request,
}

/// A call that has been handled.
pub(super) struct Handled {
    pub(super) reply: Result<Reply, HttpError>,
    /// The tenant whose data the call concerned.
    pub(super) tenant: Option<String>,
}

impl<E: Into<HttpError>> From<E> for Handled {
    fn from(error: E) -> Self {
        Self { reply: Err(error.into()), tenant: None }
    }
}

/// A route bound to its app.
pub(super) struct BoundRoute {
    pub(super) info: RouteInfo,
    pub(super) answer: Box<dyn Fn(Call<()>) -> BoxFuture<'static, Handled> + Send + Sync>,
    #[cfg(feature = "openapi")]
    pub(super) describe: Box<dyn Fn(&mut super::openapi::Generators) -> super::openapi::Shapes + Send + Sync>,
}

impl<A: Send + Sync + 'static> Route<A> {
    /// A `POST` with a JSON body.
    pub fn post<C, I, O, F>(
        path: &'static str,
        access: C,
        input: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: fn(Arc<A>, Call<C::Caller>, I) -> F,
    ) -> Self
    where
        C: Access<A>,
        I: Send + 'static,
        O: Output,
        F: Future<Output = Result<O>> + Send + 'static,
    {
        Self::new((Method::POST, Takes::Json, path), access, input, handle)
    }

    /// A `POST` with a form.
    pub fn post_form<C, I, O, F>(
        path: &'static str,
        access: C,
        input: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: fn(Arc<A>, Call<C::Caller>, I) -> F,
    ) -> Self
    where
        C: Access<A>,
        I: Send + 'static,
        O: Output,
        F: Future<Output = Result<O>> + Send + 'static,
    {
        Self::new((Method::POST, Takes::Form, path), access, input, handle)
    }

    /// A `GET`, with its input in the query.
    pub fn get<C, I, O, F>(
        path: &'static str,
        access: C,
        input: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: fn(Arc<A>, Call<C::Caller>, I) -> F,
    ) -> Self
    where
        C: Access<A>,
        I: Send + 'static,
        O: Output,
        F: Future<Output = Result<O>> + Send + 'static,
    {
        Self::new((Method::GET, Takes::Query, path), access, input, handle)
    }

    fn new<C, I, O, F>(
        (method, takes, path): (Method, Takes, &'static str),
        _: C,
        input: fn(&A, &mut Fields) -> Result<I, Rejected>,
        handle: fn(Arc<A>, Call<C::Caller>, I) -> F,
    ) -> Self
    where
        C: Access<A>,
        I: Send + 'static,
        O: Output,
        F: Future<Output = Result<O>> + Send + 'static,
    {
        let info =
            RouteInfo { method, path, credentials: C::CREDENTIALS, takes, summary: "", faults: &[], redirects: false };
        let answer = move |app: Arc<A>, call: Call<()>, wire| -> BoxFuture<'static, Handled> {
            Box::pin(async move {
                let mut tenant = None;
                let answer = async {
                    check_size(&call.request)?;
                    call.check_origin(wire, C::CREDENTIALS)?;
                    let caller = C::identify(&app, &call).await?;
                    tenant = C::tenant(&caller).map(ToString::to_string);
                    let input = Fields::read(call.fields(takes, wire)?, |fields| {
                        fields.set_key(call.request.headers.get(IDEMPOTENCY_KEY));
                        input(&app, fields)
                    })?;
                    Ok(handle(app, call.by(caller), input).await?.reply(wire)?)
                };
                let reply = answer.await;
                Handled { reply, tenant }
            })
        };
        Self {
            info,
            answer: Box::new(answer),
            #[cfg(feature = "openapi")]
            describe: Box::new(move |app, generators| super::openapi::Shapes {
                input: Fields::describe(&mut generators.inputs, |fields| input(app, fields)),
                output: O::schema(&mut generators.outputs),
            }),
        }
    }

    /// Adds the summary, one sentence.
    #[must_use]
    pub fn summary(mut self, summary: &'static str) -> Self {
        self.info.summary = summary;
        self
    }

    /// Adds the errors that it can return.
    #[must_use]
    pub fn faults(mut self, faults: &'static [Fault]) -> Self {
        self.info.faults = faults;
        self
    }

    /// Notes that a success may be a redirect.
    #[must_use]
    pub fn redirects(mut self) -> Self {
        self.info.redirects = true;
        self
    }

    pub(super) fn bind(self, app: &Arc<A>, wire: Wire) -> BoundRoute {
        let Self { info, answer, .. } = self;
        let for_answer = Arc::clone(app);
        BoundRoute {
            info,
            answer: Box::new(move |call| answer(Arc::clone(&for_answer), call, wire)),
            #[cfg(feature = "openapi")]
            describe: {
                let (app, describe) = (Arc::clone(app), self.describe);
                Box::new(move |generators| describe(&app, generators))
            },
        }
    }
}

impl Call<()> {
    pub(super) fn new(request: Request, origins: Arc<Origins>) -> Self {
        let client = ClientAddress::of(request.source_ip.as_deref().unwrap_or_default());
        Self { caller: (), base: request.base(origins.base.as_ref()), client, origins, request }
    }

    fn by<C>(self, caller: C) -> Call<C> {
        let Call { base, client, origins, request, .. } = self;
        Call { caller, base, client, origins, request }
    }

    fn fields(&self, takes: Takes, wire: Wire) -> Result<Object> {
        match takes {
            Takes::Json => wire.fields(&self.request.body),
            Takes::Query => Ok(parameters(self.request.query.as_bytes())),
            Takes::Form => Ok(parameters(&self.request.body)),
        }
    }

    /// Refuses calls from pages of other origins, which could act with the browser's cookies (cross-site request
    /// forgery) or sign the browser in to somebody else's account (login CSRF). Browsers send the origin with every
    /// `POST`. A call without one does not come from a browser, unless it has a cookie; the enveloped routes that anybody
    /// may call, such as sign-ups, do not act by a cookie, so there it does not matter. The other enveloped routes sign
    /// nobody in, so there none of this matters unless the call acts by the session: a page that sends a key has it.
    fn check_origin(&self, wire: Wire, credentials: &[Credential]) -> Result<()> {
        let is_public = wire == Wire::Envelope && credentials == [Credential::None];
        let by_session = || self.header("x-api-key").is_none() && self.session().is_some();
        let harmless = wire == Wire::Envelope && !is_public && !by_session();
        if self.request.method != Method::POST || harmless {
            return Ok(());
        }
        let origin = self.request.headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let trusted = match origin {
            Some(origin) => self.origins.trust(&self.base, origin),
            None => is_public || self.request.cookies.is_empty(),
        };
        if trusted { Ok(()) } else { Err(Error::Forbidden(Refusal::Origin { expected: self.base.clone() })) }
    }
}

impl<C> Call<C> {
    /// The session token in the cookie, if any.
    #[must_use]
    pub fn session(&self) -> Option<Token> {
        token_in_cookies(&self.base, self.request.cookies.iter().map(String::as_str))
    }

    /// What the call comes from.
    #[must_use]
    pub fn device(&self) -> Device {
        Device::new(self.client, self.header(header::USER_AGENT.as_str()))
    }

    /// Whether a browser asks for a page. A program does not ask for HTML: curl, `fetch` and client libraries send `*/*`,
    /// `application/json` or nothing.
    #[must_use]
    pub fn takes_html(&self) -> bool {
        self.request.takes_html()
    }

    /// The first header of this name, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.request.header(name)
    }

    /// `url`, parsed, if its origin is ours or trusted.
    #[must_use]
    pub fn trusted_url(&self, url: &str) -> Option<Url> {
        self.origins.trusted_url(&self.base, url)
    }
}

/// The parameters of a query or form; of duplicates, the first.
fn parameters(encoded: &[u8]) -> Object {
    let mut parameters = Object::new();
    for (name, value) in form_urlencoded::parse(encoded) {
        parameters.entry(name.into_owned()).or_insert_with(|| Json::Text(value.into_owned()));
    }
    parameters
}
