//! Connecting to permitted addresses only, whatever a name or a URL says.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use common::webhooks::destination::DestinationPolicy;
use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{net::TcpStream, time::timeout};
use url::{Host, Url};

/// What connecting to all addresses of a name may take together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// No more addresses of a name are tried.
const MAX_ADDRESSES: usize = 8;
/// Addresses that are tried at the same time, and so the sockets that a dial needs at the most.
pub(crate) const SIDE_BY_SIDE: usize = 2;
/// An address that has not answered by then gets company (RFC 8305, section 5).
const HEAD_START: Duration = Duration::from_millis(250);
/// What an address has where more than two could be tried: a lost packet is sent again after a second.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks up the addresses of a name.
pub(crate) type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> + Send + Sync>;

/// The look-up of the operating system.
pub(crate) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
    })
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialError {
    /// No address is one that the deployment lets through.
    Refused,
    /// The name has no address.
    NoAddress,
    /// No address answers.
    NoAnswer,
    /// This process has no file descriptor left. That is no fault of the receiver's.
    NoDescriptor,
}

impl From<io::Error> for DialError {
    fn from(error: io::Error) -> Self {
        if is_no_descriptor(&error) { Self::NoDescriptor } else { Self::NoAnswer }
    }
}

/// Connects, to permitted addresses only. The addresses that are dialled are those that were checked: a name is
/// looked up once for each connection, and nothing looks it up again.
pub(crate) struct Dialer {
    policy: DestinationPolicy,
    lookup: Lookup,
}

impl Dialer {
    /// Connects where `policy` allows, to the addresses that `lookup` finds.
    pub(crate) fn new(policy: DestinationPolicy, lookup: Lookup) -> Self {
        Self { policy, lookup }
    }

    /// Whether the policy has nothing against a URL that can be told without a look-up.
    pub(crate) fn permits(&self, url: &Url) -> bool {
        self.policy.refusals(url).next().is_none()
    }

    /// Connects to a host.
    pub(crate) async fn dial(&self, host: &Host<&str>, port: u16) -> Result<TcpStream, DialError> {
        let mut addresses = match host {
            Host::Ipv4(address) => vec![IpAddr::from(*address)],
            Host::Ipv6(address) => vec![IpAddr::from(*address)],
            Host::Domain(name) => self.look_up(name).await?,
        };
        addresses.retain(|address| self.policy.check_address(*address).is_ok());
        if addresses.is_empty() {
            return Err(DialError::Refused);
        }
        match timeout(CONNECT_TIMEOUT, connect(&in_turns(addresses), port)).await {
            Ok(connected) => Ok(connected?),
            Err(_elapsed) => Err(DialError::NoAnswer),
        }
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, DialError> {
        match (self.lookup)(name.to_owned()).await {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Err(error) if is_no_descriptor(&error) => Err(DialError::NoDescriptor),
            _ => Err(DialError::NoAddress),
        }
    }
}

/// The first addresses, those of both families in turn: where one family leads nowhere, the other is soon tried (RFC
/// 8305, section 4).
fn in_turns(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let first_is_v6 = addresses.first().is_some_and(IpAddr::is_ipv6);
    let (of_first, of_other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut of_first, mut of_other) = (of_first.into_iter(), of_other.into_iter());
    let mut turns = Vec::new();
    while of_first.len() + of_other.len() > 0 {
        turns.extend(of_first.next());
        turns.extend(of_other.next());
    }
    turns.truncate(MAX_ADDRESSES);
    turns
}

/// The first connection that one of the addresses takes. They are tried in their order: the next as soon as one has
/// failed, and with a slow one for company.
async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let patience = if addresses.len() > SIDE_BY_SIDE { PATIENCE } else { CONNECT_TIMEOUT };
    let mut next = addresses.iter().map(|address| {
        let connecting = TcpStream::connect(SocketAddr::new(*address, port));
        async move { timeout(patience, connecting).await? }
    });
    let mut under_way = FuturesUnordered::new();
    let mut failure = io::ErrorKind::TimedOut.into();
    loop {
        if under_way.len() < SIDE_BY_SIDE {
            under_way.extend(next.next());
        }
        let wait = if under_way.len() < SIDE_BY_SIDE && next.len() > 0 { HEAD_START } else { CONNECT_TIMEOUT };
        match timeout(wait, under_way.next()).await {
            Ok(Some(Ok(stream))) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Some(Err(error))) if is_no_descriptor(&error) => return Err(error),
            Ok(Some(Err(error))) => failure = error,
            Ok(None) => return Err(failure),
            Err(_head_start_is_over) => {}
        }
    }
}

/// Whether a call failed because this process (EMFILE) or the machine (ENFILE) has no file descriptor left.
fn is_no_descriptor(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use ipnet::IpNet;
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[tokio::test]
    async fn a_literal_address_is_checked_where_it_is_dialled() {
        let dialer = Dialer::new(DestinationPolicy::new(true, Vec::new()), system_lookup());
        for url in ["http://127.0.0.2:1/", "http://[::1]:1/", "https://169.254.169.254/", "http://[::ffff:10.0.0.1]/"] {
            let url = Url::parse(url).expect("a URL");
            let refused = dialer.dial(&url.host().expect("a host"), 1).await.expect_err("it is refused");
            assert_eq!(refused, DialError::Refused, "{url}");
        }
    }

    #[test]
    fn families_take_turns_and_many_addresses_are_cut_off() {
        let v4 = |last| IpAddr::from([192, 0, 2, last]);
        let v6 = |last| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last));
        assert_eq!(in_turns(vec![v6(1), v6(2), v6(3), v4(1), v4(2)]), [v6(1), v4(1), v6(2), v4(2), v6(3)]);
        assert_eq!(in_turns(vec![v4(1), v6(1)]), [v4(1), v6(1)]);
        assert_eq!(in_turns((0..50).map(v4).collect()), (0..8).map(v4).collect::<Vec<_>>());
    }

    /// A listener at `address` that has no room for another connection, until it accepts some.
    async fn full(address: SocketAddr) -> (TcpListener, TcpStream) {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(address).expect("a free port");
        let listener = socket.listen(0).expect("it listens");
        let waiting = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("room for one");
        (listener, waiting)
    }

    #[tokio::test]
    async fn a_slow_address_has_its_time_though_there_are_fifty() {
        let (slow, _waiting) = full(SocketAddr::from(([127, 0, 0, 1], 0))).await;
        let port = slow.local_addr().expect("an address").port();
        let mut deaf = Vec::new();
        for last in 2..=50 {
            deaf.push(full(SocketAddr::from(([127, 0, 0, last], port))).await);
        }
        let lookup = |_| -> BoxFuture<'static, _> {
            Box::pin(async { Ok((1..=50).map(|last| IpAddr::from([127, 0, 0, last])).collect()) })
        };
        let loopback: IpNet = "127.0.0.0/8".parse().expect("a range");
        let dialer = Dialer::new(DestinationPolicy::new(true, vec![loopback]), Arc::new(lookup));
        // Its first packet is lost. The second comes after a second.
        let accept = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            loop {
                slow.accept().await.expect("a connection");
            }
        };
        tokio::select! {
            connected = dialer.dial(&Host::Domain("fifty.example"), port) => {
                let address = connected.expect("a connection").peer_addr().expect("an address");
                assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], port)));
            }
            () = accept => {}
        }
    }
}
