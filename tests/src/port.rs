//! Ports where no server listens.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that refuses connections while this value lives: it is bound, so no other socket gets it.
#[derive(Debug)]
pub struct RefusingPort(TcpSocket);

impl RefusingPort {
    /// # Panics
    ///
    /// If no port can be bound.
    #[must_use]
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        Self(socket)
    }

    /// # Panics
    ///
    /// If the socket has no address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("an address")
    }
}

impl Default for RefusingPort {
    fn default() -> Self {
        Self::new()
    }
}

/// A free port for a program that a test starts. It is below those that Linux chooses (`ip_local_port_range`, from 32768),
/// so no other test's listener or connection gets it in the meantime. Until it is used, another call returns it again.
///
/// # Panics
///
/// If all ports are in use.
#[must_use]
pub fn unused_port() -> u16 {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).expect("less than 10,000");
    (first..32_768).find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("a free port")
}
