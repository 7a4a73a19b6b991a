//! Connecting to permitted addresses only, whatever a name or a URL says.

use std::{
    error::Error,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use common::webhooks::destination::{DestinationPolicy, Refused};
use futures::future::BoxFuture;
use hyper::Uri;
use hyper_util::client::legacy::connect::{HttpConnector, dns::Name};
use tower_service::Service;

/// The share of the deadline that connecting to all addresses of a name may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
pub(crate) struct Dialer {
    policy: Arc<DestinationPolicy>,
    tcp: HttpConnector<GuardedLookup>,
}

impl Dialer {
    /// Connects where `policy` allows, to the addresses that `lookup` finds.
    pub(crate) fn new(policy: Arc<DestinationPolicy>, lookup: Lookup) -> Self {
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
pub(crate) struct GuardedLookup {
    policy: Arc<DestinationPolicy>,
    lookup: Lookup,
}

/// A name that has no address.
#[derive(Debug)]
pub(crate) struct NoAddress;

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
