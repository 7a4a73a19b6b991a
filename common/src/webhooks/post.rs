//! Makes delivery attempts. Each attempt is a signed POST to an untrusted receiver.
//!
//! The `Dialer` connects only to permitted addresses, a `Connection` limits the bytes read from the receiver, and the
//! `Pool` keeps connections for reuse. One deadline covers everything from the DNS lookup to the end of the response.
//!
//! The pool is custom, because the one in `hyper-util`'s client limits idle connections per host but not in total: a
//! large number of receivers could exhaust the process's file descriptors. That pool also does not detect data that a
//! receiver sends before a request.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request,
    header::{self, HeaderName, HeaderValue},
};
use rustls::pki_types::ServerName;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tokio_rustls::TlsConnector;
use url::{Host, Position, Url};

pub use self::{
    answer::PostResult,
    dialer::{Connect, Network, Stream},
    lookups::Resolve,
    tls::{system_tls, tls},
};
use self::{
    answer::ResponseReader,
    cause::{HTTP_2, INCOMPLETE, cause_of, is_caused_by},
    connection::{Connection, Meter, Metered, TooMuch},
    dialer::{DialError, Dialer, LookupError},
    pool::Pool,
    turns::{Turn, Turns},
};
use super::{
    delivery::{Delivery, Detail, Failure, Outcome, Payload, WebhookId},
    destination::{DestinationPolicy, EndpointUrl, Headers, SigningKeys, body_signature, standard_signatures},
    event::{EventName, PayloadForm, TraceParent},
};
use crate::{id::TenantId, timestamp::Timestamp};

mod answer;
mod cause;
mod connection;
mod dialer;
mod lookups;
mod pool;
mod tls;
mod turns;

/// The `User-Agent` of every function that sends deliveries.
const USER_AGENT: &str = concat!("fanfare/", env!("CARGO_PKG_VERSION"));
/// Frameworks such as Laravel and AdonisJS answer an error with a redirect unless the client prefers JSON.
const ACCEPT: HeaderValue = HeaderValue::from_static("application/json, */*;q=0.8");
const EVENT_TYPE: HeaderName = HeaderName::from_static("x-event-type");
const EVENT_TIME: HeaderName = HeaderName::from_static("x-event-time");
const EVENT_PAYLOAD: HeaderName = HeaderName::from_static("x-event-payload");
const BODY_SIGNATURE: HeaderName = HeaderName::from_static("x-webhook-signature");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const STANDARD_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Posts deliveries. Connections are kept for reuse, even across invocations.
pub struct Client {
    dialer: Dialer,
    tls: TlsConnector,
    pool: Pool,
    turns: Turns,
    timeout: Duration,
}

/// The process has run out of file descriptors. This is not the receiver's fault, so it does not count as an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDescriptor;

/// An attempt's content and destination.
#[derive(Clone, Copy, Debug)]
pub struct Post<'a> {
    /// The organization that the delivery belongs to.
    pub tenant: &'a TenantId,
    pub url: &'a EndpointUrl,
    pub content: Content<'a>,
}

/// An attempt's content, independent of its destination.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// The keys for signing the attempt.
    pub keys: SigningKeys<'a>,
    /// The endpoint's custom headers, if any.
    pub headers: Option<&'a Headers>,
    /// The delivery's `webhook-id`.
    pub id: WebhookId,
    pub event: EventName,
    /// When the event entered its queue.
    pub event_at: Timestamp,
    /// The trace that the job belongs to.
    pub trace: Option<&'a TraceParent>,
    /// The JSON to send, byte for byte, and its form.
    pub body: (&'a Bytes, PayloadForm),
}

/// Why there is no response.
enum NoResponse {
    Failed(Failure, Option<Detail>),
    NoDescriptor,
}

impl NoResponse {
    fn because(failure: Failure, text: &'static str) -> Self {
        Self::Failed(failure, Some(Detail::new(text)))
    }
}

/// Waits for a phase of an attempt. At the deadline, the phase fails with `cause`.
async fn within<T>(deadline: Instant, cause: &'static str, phase: impl Future<Output = T>) -> Result<T, NoResponse> {
    timeout_at(deadline, phase).await.map_err(|_elapsed| NoResponse::because(Failure::Timeout, cause))
}

impl Client {
    /// Builds a client for the destinations that `policy` allows, with a `timeout` for each attempt. The limit on open
    /// connections depends on `attempts`, the number of concurrent attempts.
    pub fn new(
        policy: DestinationPolicy,
        timeout: Duration,
        attempts: usize,
        tls: rustls::ClientConfig,
        network: Network,
    ) -> Self {
        let (tls, pool) = (TlsConnector::from(Arc::new(tls)), Pool::new(attempts));
        Self { dialer: Dialer::new(policy, network), tls, pool, turns: Turns::default(), timeout }
    }

    /// The maximum duration of an attempt.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes an attempt. `now` is the time in the signature.
    ///
    /// # Errors
    /// The process has run out of file descriptors.
    pub async fn post(&self, post: Post<'_>, now: Timestamp) -> Result<PostResult, NoDescriptor> {
        if !self.dialer.permits(post.url.url()) {
            return Ok(Outcome::Failed(Failure::Blocked).into());
        }
        match self.exchange(post, now, Instant::now() + self.timeout).await {
            Ok(posted) => Ok(posted),
            Err(NoResponse::Failed(failure, detail)) => {
                Ok(PostResult { outcome: Outcome::Failed(failure), response: None, detail })
            }
            Err(NoResponse::NoDescriptor) => {
                // Closes idle connections to free descriptors for other calls, such as those to AWS.
                self.pool.clear();
                Err(NoDescriptor)
            }
        }
    }

    async fn exchange(&self, post: Post<'_>, now: Timestamp, deadline: Instant) -> Result<PostResult, NoResponse> {
        const SILENT: &str = "The receiver accepted the connection but did not respond";
        let url = post.url.url();
        let (origin, content) = (post.url.origin(), post.content);
        let read = ResponseReader { url, headers: content.headers, bytes: content.body.0.len(), now, deadline };
        let (idle, turn) = match self.pool.take(origin) {
            Some(idle) => (Some(idle), None),
            None => {
                let turn = self.turn(post.tenant, origin, deadline).await?;
                // Another attempt may have ended in the meantime.
                match self.pool.take(origin) {
                    Some(idle) => (Some(idle), None),
                    None => (None, Some(turn)),
                }
            }
        };
        if let Some(mut connection) = idle {
            let sent = connection.send(request(post, now)?, async |response| read.posted(response).await);
            match within(deadline, SILENT, sent).await? {
                // The receiver did not handle the request. A new connection is opened below.
                Err(error) if connection.has_no_response(&error) => {}
                Err(error) => return Err(broken(&error, &connection)),
                // A response to the idle connection, not to the request (RFC 9110, section 15.5.9). The request is
                // repeated, too. Frameworks also send this status if a handler is too slow, and keep the connection.
                Ok(PostResult { outcome: Outcome::Failed(Failure::Status(408, _)), .. }) if !connection.is_idle() => {}
                Ok(posted) => {
                    self.pool.put(origin, connection);
                    return Ok(posted);
                }
            }
        }
        let turn = match turn {
            Some(turn) => turn,
            None => self.turn(post.tenant, origin, deadline).await?,
        };
        let (tcp, permit) = Box::pin(self.dial(post.tenant, url, deadline)).await?;
        let exchange = async {
            let mut connection = self.open(tcp, permit, url, deadline).await?;
            let sent = connection.send(request(post, now)?, async |response| read.posted(response).await);
            let posted = within(deadline, SILENT, sent).await?.map_err(|error| broken(&error, &connection))?;
            self.pool.put(origin, connection);
            Ok(posted)
        };
        // The futures are boxed, because they take thousands of bytes, and most attempts find an open connection.
        turn.exchange(Box::pin(exchange)).await
    }

    async fn turn(&self, tenant: &TenantId, origin: &str, deadline: Instant) -> Result<Turn, NoResponse> {
        within(deadline, "The receiver accepted connections too slowly", self.turns.take(tenant, origin)).await
    }

    /// Connects to the host of `url`.
    async fn dial(
        &self,
        tenant: &TenantId,
        url: &Url,
        deadline: Instant,
    ) -> Result<(Box<dyn Stream>, Option<OwnedSemaphorePermit>), NoResponse> {
        let no_host = NoResponse::because(Failure::Protocol, "The URL has no host");
        let (host, port) = url.host().zip(url.port_or_known_default()).ok_or(no_host)?;
        let mut permit = self.pool.reserve();
        // Connecting has a separate limit.
        let tcp = within(deadline, "The name servers did not respond", self.dialer.dial(tenant, &host, port)).await??;
        // The connection needs only one of the sockets reserved for the dial.
        drop(permit.as_mut().and_then(|permit| permit.split(permit.num_permits() - 1)));
        Ok((tcp, permit))
    }

    /// Opens an HTTP connection, over TLS for an `https` URL.
    async fn open(
        &self,
        tcp: Box<dyn Stream>,
        permit: Option<OwnedSemaphorePermit>,
        url: &Url,
        deadline: Instant,
    ) -> Result<Connection, NoResponse> {
        let wire = Meter::new();
        let tcp = Metered::new(tcp, Arc::clone(&wire));
        if url.scheme() == "http" {
            return Ok(Connection::over(tcp, wire, permit).await?);
        }
        let no_name = NoResponse::because(Failure::Tls, "The host name cannot be in a certificate");
        let name = url.host().and_then(server_name).ok_or(no_name)?;
        let handshake = tls::noting(self.tls.connect(name, tcp));
        let (tls, asked) = within(deadline, "The TLS handshake did not finish in time", handshake).await?;
        let tls = tls.map_err(|error| no_handshake(&error, asked))?;
        Ok(Connection::over(Metered::new(tls, Meter::new()), wire, permit).await?)
    }
}

impl From<DialError> for NoResponse {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Refused => Self::Failed(Failure::Blocked, None),
            DialError::NoAddress(LookupError::NoName) => Self::because(Failure::Dns, "The host name does not exist"),
            DialError::NoAddress(LookupError::NoAddress) => {
                Self::because(Failure::Dns, "The host name exists but has no IPv4 or IPv6 address")
            }
            DialError::NoAddress(LookupError::Failed) => {
                Self::because(Failure::Dns, "The host's name servers did not respond, or reported an error")
            }
            DialError::NoAnswer(kind) => Self::because(Failure::Connect, no_connection(kind)),
            DialError::NoDescriptor => Self::NoDescriptor,
        }
    }
}

impl From<hyper::Error> for NoResponse {
    fn from(_not_a_connection: hyper::Error) -> Self {
        Self::Failed(Failure::Protocol, None)
    }
}

impl From<hyper::http::Error> for NoResponse {
    fn from(_not_a_request: hyper::http::Error) -> Self {
        Self::Failed(Failure::Protocol, None)
    }
}

fn no_connection(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionRefused => "The connection was refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => "The connection was reset",
        io::ErrorKind::HostUnreachable => "The host is unreachable",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::AddrNotAvailable => "The host's network is unreachable",
        io::ErrorKind::TimedOut => "No address of the host responded in time",
        _ => "The connection failed",
    }
}

/// Determines why a TLS handshake failed; the connection itself may have failed.
fn no_handshake(error: &io::Error, asked: bool) -> NoResponse {
    if let Some(error) = cause_of::<rustls::Error>(error) {
        return NoResponse::Failed(Failure::Tls, Some(tls::explained(error, asked)));
    }
    let text = match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "The receiver reset the connection during the TLS handshake"
        }
        // `rustls` reports a message that is too long with an error of this kind.
        kind if kind == io::ErrorKind::InvalidData || is_caused_by::<TooMuch>(error) => {
            "The TLS handshake exceeds 64 KiB"
        }
        _ => "The receiver closed the connection during the TLS handshake",
    };
    NoResponse::because(Failure::Connect, text)
}

/// Determines why an exchange on `connection` failed.
fn broken(error: &hyper::Error, connection: &Connection) -> NoResponse {
    if let Some(error) = cause_of::<rustls::Error>(error) {
        // In TLS 1.3, the client finishes its handshake before the receiver can reject the client.
        return NoResponse::Failed(Failure::Tls, Some(tls::explained(error, true)));
    }
    let text = if connection.is_http2() {
        HTTP_2
    } else if connection.is_spent() {
        "The response headers exceed 64 KiB"
    } else if error.is_parse() {
        // `hyper` distinguishes the two only with its server feature.
        "The response is not valid HTTP/1.1, or has more than 1,024 header lines"
    } else if connection.is_unanswered() {
        "The receiver closed the connection without a response"
    } else {
        INCOMPLETE
    };
    NoResponse::because(Failure::Protocol, text)
}

/// The name that the certificate must be valid for.
fn server_name(host: Host<&str>) -> Option<ServerName<'static>> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.to_owned()).ok(),
        Host::Ipv4(address) => Some(ServerName::from(IpAddr::from(address))),
        Host::Ipv6(address) => Some(ServerName::from(IpAddr::from(address))),
    }
}

fn request(post: Post<'_>, now: Timestamp) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let url = post.url.url();
    let mut request = Request::new(Full::new(post.content.body.0.clone()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url[Position::BeforePath..].parse()?;
    *request.headers_mut() = post.content.headers(now)?;
    let host = url[Position::BeforeHost..Position::AfterPort].try_into()?;
    request.headers_mut().insert(header::HOST, host);
    Ok(request)
}

impl<'a> Content<'a> {
    /// The content of an attempt to deliver `payload` in this form.
    #[must_use]
    pub fn of(
        delivery: &Delivery,
        payload: &'a Payload,
        form: PayloadForm,
        keys: SigningKeys<'a>,
        headers: Option<&'a Headers>,
    ) -> Self {
        Self {
            keys,
            headers,
            id: delivery.webhook_id,
            event: delivery.event_in(&payload.body),
            event_at: delivery.created_at,
            trace: payload.trace.as_ref(),
            body: payload.body.in_form(form),
        }
    }

    /// Builds the signed headers for an attempt made at `now`.
    ///
    /// # Errors
    /// A stored header is not valid.
    pub fn headers(self, now: Timestamp) -> Result<HeaderMap, hyper::http::Error> {
        let Self { keys, headers, id, event, event_at, trace, body: (body, form) } = self;
        let id = id.to_string();
        let mut all = HeaderMap::from_iter([
            (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (header::USER_AGENT, HeaderValue::from_static(USER_AGENT)),
            (EVENT_TYPE, HeaderValue::from_static(event.as_str())),
            (EVENT_TIME, event_at.to_string().try_into()?),
            (BODY_SIGNATURE, body_signature(keys.current, body).try_into()?),
            (ID, HeaderValue::try_from(&id)?),
            (TIMESTAMP, now.as_second().into()),
            (STANDARD_SIGNATURE, standard_signatures(keys, &id, now, body).try_into()?),
        ]);
        if form == PayloadForm::Thin {
            all.insert(EVENT_PAYLOAD, HeaderValue::from_static(form.as_str()));
        }
        if let Some(trace) = trace {
            all.insert(TRACE_PARENT, HeaderValue::from_str(trace.as_str())?);
        }
        for (name, value) in headers.into_iter().flat_map(Headers::reveal) {
            let (name, mut value) = (HeaderName::from_lowercase(name.as_bytes())?, HeaderValue::from_str(value)?);
            value.set_sensitive(true);
            // The service's headers take precedence over stored headers.
            all.entry(name).or_insert(value);
        }
        all.entry(header::ACCEPT).or_insert(ACCEPT);
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
