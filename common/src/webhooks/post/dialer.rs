//! Connects only to permitted addresses, regardless of the URL and of DNS responses.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use url::{Host, Url};

use super::lookups::{Lookups, Resolve};
use crate::{id::TenantId, webhooks::destination::DestinationPolicy};

/// The time limit for connecting to a host, across all its addresses.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of addresses that are tried per name.
const MAX_ADDRESSES: usize = 8;
/// The maximum number of addresses that are tried concurrently, and therefore the number of sockets that a dial needs.
pub(super) const MAX_PARALLEL: usize = 2;
/// The head start of each address: the next one is tried only after this time (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// The time limit for one address when there are more than [`MAX_PARALLEL`]. TCP resends a lost packet after a second.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);

/// Connects to an address.
pub type Connect = Arc<dyn Fn(SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> + Send + Sync>;

/// A connection to an address.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The resolver and the connector, which tests can replace.
#[derive(Clone)]
pub struct Network {
    pub lookup: Resolve,
    pub connect: Connect,
}

impl Network {
    /// The operating system's resolver, and TCP.
    pub fn system() -> Self {
        let lookup = |name| -> BoxFuture<'static, _> {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
        };
        let connect = |address| -> BoxFuture<'static, _> {
            Box::pin(async move {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream) as Box<dyn Stream>)
            })
        };
        Self { lookup: Arc::new(lookup), connect: Arc::new(connect) }
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialError {
    /// The deployment allows none of the addresses.
    Refused,
    /// The name has no address.
    NoAddress(LookupError),
    /// No address accepted a connection. Contains the error for the last address that failed.
    NoAnswer(io::ErrorKind),
    /// The process has run out of file descriptors, which is not the receiver's fault.
    NoDescriptor,
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        if is_no_descriptor(&error) { Self::NoDescriptor } else { Self::NoAnswer(error.kind()) }
    }
}

/// Why a name has no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupError {
    /// No such name exists.
    NoName,
    /// The name exists, but has neither an IPv4 nor an IPv6 address.
    NoAddress,
    /// The name servers did not respond, or responded with an error.
    Failed,
}

impl From<&io::Error> for LookupError {
    /// The standard library keeps only the message of the C library's error: glibc's, musl's or macOS's.
    fn from(error: &io::Error) -> Self {
        let text = error.to_string();
        let is_one_of = |texts: &[&str]| texts.iter().any(|end| text.ends_with(end));
        if is_one_of(&["Name or service not known", "Name does not resolve", "servname provided, or not known"]) {
            Self::NoName
        } else if is_one_of(&["No address associated with hostname", "Name has no usable address"]) {
            Self::NoAddress
        } else {
            Self::Failed
        }
    }
}

/// Opens connections to permitted addresses. A name is looked up once per connection, and only checked addresses are
/// dialed, so changing DNS responses (DNS rebinding) do not circumvent the policy.
pub(super) struct Dialer {
    policy: DestinationPolicy,
    lookups: Lookups,
    connect: Connect,
}

impl Dialer {
    /// Builds a dialer for the destinations that `policy` allows.
    pub(super) fn new(policy: DestinationPolicy, network: Network) -> Self {
        Self { policy, lookups: Lookups::new(network.lookup), connect: network.connect }
    }

    /// Whether the policy allows a URL, as far as this can be determined without a DNS lookup.
    pub(super) fn permits(&self, url: &Url) -> bool {
        self.policy.refusals(url).next().is_none()
    }

    /// Connects to a host for a delivery of `tenant`.
    pub(super) async fn dial(
        &self,
        tenant: &TenantId,
        host: &Host<&str>,
        port: u16,
    ) -> Result<Box<dyn Stream>, DialError> {
        let mut addresses = match host {
            Host::Ipv4(address) => vec![IpAddr::from(*address)],
            Host::Ipv6(address) => vec![IpAddr::from(*address)],
            Host::Domain(name) => self.look_up(tenant, name).await?,
        };
        addresses.retain(|address| self.policy.check_address(*address).is_ok());
        if addresses.is_empty() {
            return Err(DialError::Refused);
        }
        match timeout(CONNECT_TIMEOUT, self.connect(&interleave(addresses), port)).await {
            Ok(connected) => Ok(connected?),
            Err(_elapsed) => Err(DialError::NoAnswer(io::ErrorKind::TimedOut)),
        }
    }

    async fn look_up(&self, tenant: &TenantId, name: &str) -> Result<Vec<IpAddr>, DialError> {
        match self.lookups.addresses(tenant, name).await {
            Ok(addresses) if addresses.is_empty() => Err(DialError::NoAddress(LookupError::NoAddress)),
            Ok(addresses) => Ok(addresses),
            Err(error) if is_no_descriptor(&error) => Err(DialError::NoDescriptor),
            Err(error) => Err(DialError::NoAddress(error.as_ref().into())),
        }
    }

    /// Connects to the address that accepts first. Addresses are tried in order, and the next one is tried if one fails
    /// or is slow.
    async fn connect(&self, addresses: &[IpAddr], port: u16) -> io::Result<Box<dyn Stream>> {
        let limit = if addresses.len() > MAX_PARALLEL { ADDRESS_TIMEOUT } else { CONNECT_TIMEOUT };
        let mut next = addresses.iter().map(|address| {
            let connecting = (self.connect)(SocketAddr::new(*address, port));
            async move { timeout(limit, connecting).await? }
        });
        let mut in_progress = FuturesUnordered::new();
        let mut failure = io::ErrorKind::TimedOut.into();
        loop {
            if in_progress.len() < MAX_PARALLEL {
                in_progress.extend(next.next());
            }
            let wait = if in_progress.len() < MAX_PARALLEL && next.len() > 0 { HEAD_START } else { CONNECT_TIMEOUT };
            match timeout(wait, in_progress.next()).await {
                Ok(Some(Ok(stream))) => return Ok(stream),
                Ok(Some(Err(error))) if is_no_descriptor(&error) => return Err(error),
                Ok(Some(Err(error))) => failure = error,
                Ok(None) => return Err(failure),
                Err(_head_start_is_over) => {}
            }
        }
    }
}

/// Selects the first addresses, alternating between IPv4 and IPv6, so that both families are tried early (RFC 8305,
/// section 4).
fn interleave(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (of_first, of_other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut of_first, mut of_other) = (of_first.into_iter(), of_other.into_iter());
    let mut interleaved = Vec::new();
    while of_first.len() + of_other.len() > 0 {
        interleaved.extend(of_first.next());
        interleaved.extend(of_other.next());
    }
    interleaved.truncate(MAX_ADDRESSES);
    interleaved
}

/// Whether a call failed because this process (EMFILE) or the system (ENFILE) has run out of file descriptors.
fn is_no_descriptor(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv6Addr, sync::Mutex};

    use ipnet::IpNet;
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[tokio::test]
    async fn a_literal_address_is_checked_when_it_is_dialed() {
        let dialer = Dialer::new(DestinationPolicy::new(true, Vec::new()), Network::system());
        for url in ["http://127.0.0.2:1/", "http://[::1]:1/", "https://169.254.169.254/", "http://[::ffff:10.0.0.1]/"] {
            let url = Url::parse(url).expect("a URL");
            let refused = dialer.dial(&TenantId::generate(), &url.host().expect("a host"), 1).await.err();
            assert_eq!(refused, Some(DialError::Refused), "{url}");
        }
    }

    #[test]
    fn families_alternate_and_addresses_over_the_limit_are_dropped() {
        let v4 = |last| IpAddr::from([192, 0, 2, last]);
        let v6 = |last| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
        assert_eq!(interleave(vec![v6(1), v6(2), v6(3), v4(1), v4(2)]), [v6(1), v4(1), v6(2), v4(2), v6(3)]);
        assert_eq!(interleave(vec![v4(1), v6(1)]), [v4(1), v6(1)]);
        assert_eq!(interleave((0..50).map(v4).collect()), (0..8).map(v4).collect::<Vec<_>>());
    }

    /// A listener at `address` whose backlog is full until it accepts a connection.
    async fn full(address: SocketAddr) -> (TcpListener, TcpStream) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(address).expect("a free port");
        let listener = socket.listen(0).expect("it listens");
        let waiting = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("room for one");
        (listener, waiting)
    }

    #[tokio::test]
    async fn a_slow_address_has_time_to_answer_even_if_there_are_fifty() {
        let (slow, _waiting) = full(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let port = slow.local_addr().expect("an address").port();
        let mut unresponsive = Vec::new();
        for last in 2..=50 {
            unresponsive.push(full(SocketAddr::from(([127, 0, 0, last], port))).await);
        }
        let lookup = |_| -> BoxFuture<'static, _> {
            Box::pin(async { Ok((1..=50).map(|last| IpAddr::from([127, 0, 0, last])).collect()) })
        };
        let loopback: IpNet = "127.0.0.0/8".parse().expect("a range");
        let connected = Arc::new(Mutex::new(Vec::new()));
        let (system, addresses) = (Network::system(), Arc::clone(&connected));
        let connect = move |address| -> BoxFuture<'static, _> {
            let (connecting, addresses) = ((system.connect)(address), Arc::clone(&addresses));
            Box::pin(async move {
                let stream = connecting.await?;
                addresses.lock().expect("no panic").push(address);
                Ok(stream)
            })
        };
        let network = Network { lookup: Arc::new(lookup), connect: Arc::new(connect) };
        let (tenant, dialer) =
            (TenantId::generate(), Dialer::new(DestinationPolicy::new(true, vec![loopback]), network));
        // The first packet is lost. TCP resends it after a second.
        let accept = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            loop {
                slow.accept().await.expect("a connection");
            }
        };
        tokio::select! {
            dialed = dialer.dial(&tenant, &Host::Domain("fifty.example"), port) => {
                assert!(dialed.is_ok(), "it is connected");
                assert_eq!(*connected.lock().expect("no panic"), [SocketAddr::from(([127, 0, 0, 1], port))]);
            }
            () = accept => {}
        }
    }
}
