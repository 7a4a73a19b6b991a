//! One attempt: a signed POST to a receiver that nobody trusts.
//!
//! The cast: a [`Dialer`] that connects to permitted addresses only, TLS and a connection pool around it, and
//! one deadline over everything from the look-up of the name to the last byte of the answer.

use std::{
    error::Error,
    io,
    iter::successors,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use bytes::Bytes;
use common::{
    destination::{DestinationPolicy, Refused},
    endpoint_url::EndpointUrl,
    signature::{body_signature, standard_signature},
    signing_secret::SigningSecret,
};
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, Uri, body::Incoming, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client as HyperClient,
        connect::{HttpConnector, dns::Name},
    },
    rt::{TokioExecutor, TokioTimer},
};
use tower_service::Service;

use crate::{
    delivery::Delivery,
    schedule::{Failure, Outcome, retry_after},
};

/// No more of a response is read.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// A connection that waited longer is not used again: gateways forget idle connections without a word.
const POOL_IDLE: Duration = Duration::from_secs(20);
const POOL_PER_HOST: usize = 8;
/// The share of the deadline that connecting to all addresses of a name may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// Posts deliveries. Connections are kept and used again, across invocations too.
#[derive(Clone)]
pub(crate) struct Client {
    hyper: HyperClient<HttpsConnector<Dialer>, Full<Bytes>>,
    policy: Arc<DestinationPolicy>,
    timeout: Duration,
}

/// Where to post, and what to sign with.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) url: EndpointUrl,
    pub(crate) secret: SigningSecret,
}

impl Client {
    /// A client that sends where `policy` allows and gives each attempt `timeout`.
    pub(crate) fn new(policy: DestinationPolicy, timeout: Duration, tls: rustls::ClientConfig, lookup: Lookup) -> Self {
        let policy = Arc::new(policy);
        let dialer = Dialer::new(Arc::clone(&policy), lookup);
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let hyper = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_PER_HOST)
            .http1_max_buf_size(MAX_RESPONSE_BYTES)
            .build(connector.wrap_connector(dialer));
        Self { hyper, policy, timeout }
    }

    /// The time that an attempt may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Makes one attempt, signed `now`.
    pub(crate) async fn post(&self, delivery: &Delivery, target: &Target, now: jiff::Timestamp) -> Outcome {
        if self.policy.check_url(target.url.url()).is_err() {
            return Outcome::Failed(Failure::Blocked);
        }
        let Ok(request) = request(delivery, target, now.as_second()) else {
            return Outcome::Failed(Failure::Protocol);
        };
        let attempt = async {
            match self.hyper.request(request).await {
                Ok(response) => read(response, now).await,
                Err(error) => Outcome::Failed(failure(&error, error.is_connect())),
            }
        };
        tokio::time::timeout(self.timeout, attempt).await.unwrap_or(Outcome::Failed(Failure::Timeout))
    }
}

fn request(delivery: &Delivery, target: &Target, timestamp: i64) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let (id, body) = (&delivery.webhook_id, &delivery.body);
    Request::post(target.url.url().as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::USER_AGENT, USER_AGENT)
        .header("x-event-type", delivery.event.as_str())
        .header("x-webhook-signature", body_signature(&target.secret, body))
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", standard_signature(&target.secret, id, timestamp, body))
        .body(Full::new(body.clone()))
}

/// A 2xx counts once the response is complete, or has more bytes than anyone wants to read. The body of another
/// status says nothing, so it is not read.
async fn read(response: Response<Incoming>, now: jiff::Timestamp) -> Outcome {
    let status = response.status();
    if !status.is_success() {
        return Outcome::Failed(Failure::Status(status.as_u16(), asked_to_wait(&response, now)));
    }
    let (mut body, mut left) = (response.into_body(), MAX_RESPONSE_BYTES);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Outcome::Failed(Failure::Protocol) };
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            break;
        }
    }
    Outcome::Delivered(status.as_u16())
}

fn asked_to_wait(response: &Response<Incoming>, now: jiff::Timestamp) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    retry_after(response.headers().get(header::RETRY_AFTER)?.to_str().ok()?, now)
}

/// What kind of failure an error of the client is, by the first of its causes that says.
fn failure(error: &(dyn Error + 'static), connecting: bool) -> Failure {
    let known = successors(Some(error), |error| cause(*error)).find_map(|cause| {
        if cause.is::<Refused>() {
            Some(Failure::Blocked)
        } else if cause.is::<rustls::Error>() {
            Some(Failure::Tls)
        } else if cause.is::<NoAddress>() {
            Some(Failure::Dns)
        } else {
            None
        }
    });
    known.unwrap_or(if connecting { Failure::Connect } else { Failure::Protocol })
}

/// The next cause. An `io::Error` skips the error that it wraps and names only that one's own cause.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source())
}

/// Looks up the addresses of a name.
pub(crate) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The look-up of the operating system.
pub(crate) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
    })
}

type BoxError = Box<dyn Error + Send + Sync>;

/// Connects, to permitted addresses only. The addresses that are dialled are those that were checked: a name is
/// looked up once for each connection, and nothing looks it up again.
#[derive(Clone)]
struct Dialer {
    policy: Arc<DestinationPolicy>,
    tcp: HttpConnector<GuardedLookup>,
}

impl Dialer {
    fn new(policy: Arc<DestinationPolicy>, lookup: Lookup) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(GuardedLookup { policy: Arc::clone(&policy), lookup });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        Self { policy, tcp }
    }
}

impl Service<Uri> for Dialer {
    type Response = <HttpConnector<GuardedLookup> as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        // The connector dials a literal address without asking the resolver, so it is checked here.
        let literal = uri.host().and_then(|host| host.trim_matches(['[', ']']).parse().ok());
        if let Some(Err(refused)) = literal.map(|address| self.policy.check_address(address)) {
            return Box::pin(async move { Err(refused.into()) });
        }
        let connecting = self.tcp.call(uri);
        Box::pin(async move { connecting.await.map_err(Into::into) })
    }
}

/// A look-up that answers permitted addresses only.
#[derive(Clone)]
struct GuardedLookup {
    policy: Arc<DestinationPolicy>,
    lookup: Lookup,
}

/// A name that has no address.
#[derive(Debug)]
struct NoAddress;

impl std::fmt::Display for NoAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name has no address")
    }
}

impl Error for NoAddress {}

impl Service<Name> for GuardedLookup {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (policy, answer) = (Arc::clone(&self.policy), (self.lookup)(name.as_str().to_owned()));
        Box::pin(async move {
            let found = answer.await.map_err(|_resolver_error| NoAddress)?;
            if found.is_empty() {
                return Err(NoAddress.into());
            }
            let permitted: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| policy.check_address(*address).is_ok())
                .map(|address| SocketAddr::new(address, 0))
                .collect();
            if permitted.is_empty() { Err(Refused::NotPublic.into()) } else { Ok(permitted.into_iter()) }
        })
    }
}
