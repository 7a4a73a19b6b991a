//! The request that a handler gets.

use std::sync::Arc;

use lambda_http::http::{Method, header};
use url::Url;

use super::{
    body_format::{BodyFormat, parameters},
    cookies::{CookieName, PENDING_SIGN_IN, SESSION, token_in_cookies},
    event::{MAX_BODY_BYTES, Request},
    info::{API_KEY, Credential, ScopeRequirement, variable},
    json::{Json, Object},
    origins::Origins,
    page::binding::is_bound_to_another,
};
use crate::{
    accounts::{rate_limits::ClientAddress, sessions::Device, token::Token},
    audit::{Actor, ChangeOrigin},
    base_url::BaseUrl,
    error::{Error, ForbiddenReason, Result},
};

/// A request with its caller. `R` is the type of the route's [`RouteRecorder`](crate::audit::RouteRecorder).
pub struct Call<C, R = ()> {
    /// The caller, as identified by the route's [`Access`](super::Access).
    pub caller: C,
    /// The recorder of the caller's changes. Only routes that declare which changes they record have one.
    pub recorder: R,
    /// The public address of the API, for links and cookies.
    pub base: BaseUrl,
    /// The client's address as API Gateway reports it, because `X-Forwarded-For` can be forged.
    pub client: ClientAddress,
    pub(super) request: Request,
    origins: Arc<Origins>,
    /// The scope that the route requires of a key.
    pub(super) needed: ScopeRequirement,
    /// Whether the route can be called before setting up a second factor that the organization requires.
    pub(super) before_two_factor: bool,
    /// The maximum size of the body that the route accepts.
    pub(super) most_bytes: usize,
}

impl Call<()> {
    pub(super) fn new(request: Request, origins: Arc<Origins>) -> Self {
        let client = ClientAddress::of(request.source_ip.as_deref().unwrap_or_default());
        Self {
            caller: (),
            recorder: (),
            base: request.base(origins.base.as_ref()),
            client,
            origins,
            request,
            needed: ScopeRequirement::Undeclared,
            before_two_factor: false,
            most_bytes: MAX_BODY_BYTES,
        }
    }

    pub(super) fn needing(self, needed: ScopeRequirement, before_two_factor: bool) -> Self {
        Self { needed, before_two_factor, ..self }
    }

    pub(super) fn up_to(self, most_bytes: usize) -> Self {
        Self { most_bytes, ..self }
    }

    /// The origin of changes by this call's caller, `actor`.
    pub(super) fn origin(&self, actor: Option<Actor>) -> ChangeOrigin {
        let Device { address, agent } = self.device();
        ChangeOrigin { actor, ip: Some(address.to_string()), user_agent: agent }
    }

    pub(super) fn by<C, R>(self, caller: C, recorder: R) -> Call<C, R> {
        let Call { base, client, origins, request, needed, before_two_factor, most_bytes, .. } = self;
        Call { caller, recorder, base, client, origins, request, needed, before_two_factor, most_bytes }
    }

    /// Reads the fields that the caller sent: the query or the body, and the variable of the route's `path`.
    pub(super) fn fields(&self, format: BodyFormat, path: &'static str) -> Result<Object> {
        let mut fields = match self.request.method {
            Method::GET => parameters(self.request.query.as_bytes()),
            _ => format.fields(&self.request.body)?,
        };
        if let Some((name, value)) = variable(path, &self.request.path).flatten() {
            fields.insert(name.to_owned(), Json::Text(value.to_owned()));
        }
        Ok(fields)
    }

    /// Rejects calls from pages of other origins, which could act with the browser's cookies (cross-site request
    /// forgery) or sign the browser in to another user's account (login CSRF). Browsers send the origin with every
    /// `POST`, so a call with a cookie but no origin is rejected, too. Public enveloped routes, such as sign-ups,
    /// ignore cookies, so they accept a cookie without an origin. The other enveloped routes cannot sign users in, so
    /// they check the origin only of a call that uses its session, not of one whose key takes precedence.
    pub(super) fn check_origin(&self, format: BodyFormat, credentials: &[Credential]) -> Result<()> {
        let is_public = format == BodyFormat::Envelope && credentials == [Credential::None];
        let by_key = credentials.first() == Some(&Credential::Key) && self.header(API_KEY).is_some();
        let by_session = || !by_key && self.session().is_some();
        let harmless = format == BodyFormat::Envelope && !is_public && !by_session();
        if self.request.method != Method::POST || harmless {
            return Ok(());
        }
        let origin = self.request.headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let trusted = match origin {
            Some(origin) => self.origins.trust(&self.base, origin),
            None => is_public || self.request.cookies.is_empty(),
        };
        if trusted { Ok(()) } else { Err(Error::Forbidden(ForbiddenReason::Origin { expected: self.base.clone() })) }
    }

    /// Whether the call is for a page of the console, which shows an account.
    pub(super) fn is_of_console(&self) -> bool {
        self.request.path.starts_with("/console")
    }

    /// Rejects a form from a page that showed another account than `account`, the caller's.
    pub(super) fn check_account(&self, account: &str) -> Result<()> {
        match is_bound_to_another(&self.request.body, account) {
            true => Err(Error::Forbidden(ForbiddenReason::OtherAccount)),
            false => Ok(()),
        }
    }
}

impl<C, R> Call<C, R> {
    /// The session token in the cookie, if any.
    pub fn session(&self) -> Option<Token> {
        self.cookie(SESSION)
    }

    /// The token of a sign-in that is waiting for the second factor, if any.
    pub fn pending_sign_in(&self) -> Option<Token> {
        self.cookie(PENDING_SIGN_IN)
    }

    fn cookie(&self, name: CookieName) -> Option<Token> {
        token_in_cookies(&self.base, name, self.request.cookies.iter().map(String::as_str))
    }

    /// The client's address and `User-Agent`.
    pub fn device(&self) -> Device {
        Device::new(self.client, self.request.lossy_header(header::USER_AGENT.as_str()).as_deref())
    }

    /// Whether a browser requests a page. Other programs do not request HTML: curl, `fetch` and client libraries send
    /// `*/*`, `application/json` or nothing.
    pub fn takes_html(&self) -> bool {
        self.request.takes_html()
    }

    pub fn path(&self) -> &str {
        &self.request.path
    }

    /// The first header with this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.request.header(name)
    }

    /// Parses `url`. Returns `None` unless its origin is this API's or a trusted one.
    pub fn trusted_url(&self, url: &str) -> Option<Url> {
        self.origins.trusted_url(&self.base, url)
    }
}
