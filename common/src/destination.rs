//! Where a delivery may go: the guard against server-side request forgery.
//!
//! One policy, asked twice: when an endpoint is stored (a literal address is refused at once) and for every
//! address that is about to be dialled, literal or resolved.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::config::{ConfigError, Env};

/// What the deployment lets through beside TLS to the public internet.
#[derive(Clone, Debug, Default)]
pub struct DestinationPolicy {
    allow_http: bool,
    allowed: Vec<IpNet>,
}

/// Why a destination is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Plain http, where only TLS is allowed.
    PlainHttp,
    /// An address that is not on the public internet.
    NotPublic,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PlainHttp => "Must be an https URL",
            Self::NotPublic => "Must be on the public internet",
        })
    }
}

impl std::error::Error for Refused {}

impl DestinationPolicy {
    /// A policy that lets the ranges `allowed` through, and plain http if `allow_http`.
    #[must_use]
    pub fn new(allow_http: bool, allowed: Vec<IpNet>) -> Self {
        Self { allow_http, allowed }
    }

    /// The policy in `ALLOW_HTTP_DESTINATIONS` and `ALLOWED_DESTINATIONS`.
    ///
    /// # Errors
    /// A variable is missing or does not parse.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        Ok(Self::new(env.parsed("ALLOW_HTTP_DESTINATIONS")?, env.list("ALLOWED_DESTINATIONS")?))
    }

    /// Checks what a URL alone can tell: its scheme, and its host where that is an address. The URL parser has
    /// already turned every spelling of an address (decimal, octal, hexadecimal, short, percent-encoded,
    /// full-width digits) into that address (WHATWG URL, "host parsing").
    ///
    /// # Errors
    /// Why not.
    pub fn check_url(&self, url: &Url) -> Result<(), Refused> {
        match url.scheme() {
            "https" => {}
            "http" if self.allow_http => {}
            _ => return Err(Refused::PlainHttp),
        }
        match url.host() {
            Some(Host::Ipv4(address)) => self.check_address(address.into()),
            Some(Host::Ipv6(address)) => self.check_address(address.into()),
            Some(Host::Domain(name)) if is_localhost(name) => self.check_address(Ipv4Addr::LOCALHOST.into()),
            Some(Host::Domain(_)) => Ok(()),
            None => Err(Refused::NotPublic),
        }
    }

    /// Checks an address that is about to be dialled.
    ///
    /// # Errors
    /// It is neither public nor in an allowed range.
    pub fn check_address(&self, address: IpAddr) -> Result<(), Refused> {
        let address = embedded(address);
        let allowed = is_public(address) || self.allowed.iter().any(|range| range.contains(&address));
        if allowed { Ok(()) } else { Err(Refused::NotPublic) }
    }
}

/// RFC 6761, section 6.3: these names are the loopback address, whatever a resolver says.
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// The IPv4 address that is really reached through an IPv4-mapped (RFC 4291) or NAT64 (RFC 6052) address, else
/// the address itself. The other forms that embed one (compatible, 6to4, Teredo) are refused whole.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
            Ipv4Addr::new(a, b, c, d).into()
        }
        _ => address,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !NOT_PUBLIC_V4.iter().any(|range| range.contains(&v4)),
        IpAddr::V6(v6) => GLOBAL_V6.contains(&v6) && !NOT_PUBLIC_V6.iter().any(|range| range.contains(&v6)),
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix)
}

/// The IANA IPv4 special-purpose address registry (RFC 6890 and its updates), multicast and reserved space, and
/// the addresses at which clouds serve metadata and platform services outside those ranges.
const NOT_PUBLIC_V4: [Ipv4Net; 20] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(100, 100, 100, 200, 32), // Alibaba Cloud's metadata service
    v4(127, 0, 0, 0, 8),
    v4(168, 63, 129, 16, 32), // Azure's platform service
    v4(169, 254, 0, 0, 16),   // link-local, the metadata service of AWS and most others
    v4(172, 16, 0, 0, 12),
    v4(192, 0, 0, 0, 24),
    v4(192, 0, 2, 0, 24),
    v4(192, 31, 196, 0, 24),
    v4(192, 52, 193, 0, 24),
    v4(192, 88, 99, 0, 24),
    v4(192, 168, 0, 0, 16),
    v4(192, 175, 48, 0, 24),
    v4(198, 18, 0, 0, 15),
    v4(198, 51, 100, 0, 24),
    v4(203, 0, 113, 0, 24),
    v4(224, 0, 0, 0, 4),
    v4(240, 0, 0, 0, 4),
];

/// The only IPv6 space that is handed out for the public internet (IANA IPv6 address space registry).
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);

/// Inside it: protocol assignments with Teredo, documentation, 6to4, documentation again.
const NOT_PUBLIC_V6: [Ipv6Net; 4] = [v6(0x2001, 0, 23), v6(0x2001, 0xdb8, 32), v6(0x2002, 0, 16), v6(0x3fff, 0, 20)];
