//! Allowed destinations of deliveries: the guard against server-side request forgery (SSRF).
//!
//! The same policy is applied twice: when an endpoint is stored, so a forbidden literal address is rejected
//! immediately, and before each connection, to the literal or resolved address.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

use crate::config::{ConfigError, Env};

/// The destinations that the deployment allows in addition to https URLs on the public internet.
#[derive(Clone, Debug, Default)]
pub struct DestinationPolicy {
    allow_http: bool,
    allowed: Vec<IpNet>,
}

/// Why a destination is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationError {
    /// Plain HTTP, although only HTTPS is allowed.
    PlainHttp,
    /// An address that is not on the public internet.
    NotPublic,
    /// An invalid host name or port.
    Impossible,
}

impl fmt::Display for DestinationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PlainHttp => "Must be an https URL",
            Self::NotPublic => "Must be on the public internet",
            Self::Impossible => "Must have a valid host name and port",
        })
    }
}

impl std::error::Error for DestinationError {}

impl DestinationPolicy {
    /// Allows the ranges `allowed`, and plain HTTP if `allow_http`.
    pub fn new(allow_http: bool, allowed: Vec<IpNet>) -> Self {
        Self { allow_http, allowed }
    }

    /// Reads the policy from `ALLOW_HTTP_DESTINATIONS` and `ALLOWED_DESTINATIONS`.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        Ok(Self::new(env.parsed("ALLOW_HTTP_DESTINATIONS")?, env.list("ALLOWED_DESTINATIONS")?))
    }

    /// Finds reasons to reject a URL without a DNS lookup: its scheme, or a literal address in it. The URL parser has
    /// already normalized every spelling of an address (decimal, octal, hexadecimal, short, percent-encoded, full-width
    /// digits; WHATWG URL, "host parsing").
    pub fn refusals(&self, url: &Url) -> impl Iterator<Item = DestinationError> {
        let encrypted = url.scheme() == "https" || (self.allow_http && url.scheme() == "http");
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::from(address)),
            Some(Host::Ipv6(address)) => Some(address.into()),
            Some(Host::Domain(name)) => is_localhost(name).then_some(Ipv4Addr::LOCALHOST.into()),
            None => None,
        };
        let scheme = (!encrypted).then_some(DestinationError::PlainHttp);
        scheme.into_iter().chain(address.and_then(|address| self.check_address(address).err()))
    }

    /// Finds reasons to reject a URL that is about to be stored, including an invalid host name and port 0. If an
    /// earlier version stored such a URL, its attempts fail with `dns` or `connect`.
    pub fn refusals_to_store(&self, url: &Url) -> impl Iterator<Item = DestinationError> {
        let exists = url.port() != Some(0) && url.domain().is_none_or(is_host_name);
        self.refusals(url).chain((!exists).then_some(DestinationError::Impossible))
    }

    /// The rule for the beginning of a URL.
    pub fn complete_url(&self) -> &'static str {
        if self.allow_http {
            "Must be a complete URL that begins with https:// or http://"
        } else {
            "Must be a complete URL that begins with https://"
        }
    }

    /// Checks an address before a connection is opened to it.
    ///
    /// # Errors
    /// The address is neither public nor in an allowed range.
    pub fn check_address(&self, address: IpAddr) -> Result<(), DestinationError> {
        let address = embedded(address);
        let allowed = is_public(address) || self.allowed.iter().any(|range| range.contains(&address));
        if allowed { Ok(()) } else { Err(DestinationError::NotPublic) }
    }
}

/// Whether `name`, which the URL parser has converted to ASCII, is valid in DNS (RFC 1035, 2.3.4; RFC 1123, 2.1).
/// Underscores are accepted, because some host names in use contain them.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Whether `name` refers to the loopback address by definition, regardless of the resolver (RFC 6761, section 6.3).
fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns the IPv4 address in an IPv4-mapped (RFC 4291) or NAT64 (RFC 6052) address, or else the address itself. Other
/// forms that embed an IPv4 address (compatible, 6to4, Teredo) are always rejected.
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

/// The IANA IPv4 special-purpose address registry (RFC 6890 and its updates), multicast and reserved ranges, and other
/// addresses where clouds serve metadata and platform services.
const NOT_PUBLIC_V4: [Ipv4Net; 20] = [
    v4(0, 0, 0, 0, 8),
    v4(10, 0, 0, 0, 8),
    v4(100, 64, 0, 0, 10),
    v4(100, 100, 100, 200, 32), // Alibaba Cloud's metadata service
    v4(127, 0, 0, 0, 8),
    v4(168, 63, 129, 16, 32), // Azure's platform service
    v4(169, 254, 0, 0, 16),   // link-local, with the metadata service of AWS and most others
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

/// The only IPv6 space allocated for the public internet (IANA IPv6 address space registry).
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);

/// The exceptions in [`GLOBAL_V6`]: protocol assignments with Teredo, documentation, 6to4, and a second documentation
/// range.
const NOT_PUBLIC_V6: [Ipv6Net; 4] = [v6(0x2001, 0, 23), v6(0x2001, 0xdb8, 32), v6(0x2002, 0, 16), v6(0x3fff, 0, 20)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::destination::EndpointUrl;

    fn permitted(url: &str, policy: &DestinationPolicy) -> bool {
        EndpointUrl::parse_permitted(url, policy).is_ok()
    }

    /// Hosts that must be rejected, in every spelling that an attacker might try.
    const HOSTILE: &[&str] = &[
        // The edges of each range in the registry.
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.255",
        "168.63.129.16",
        "169.254.0.0",
        "169.254.169.254",
        "169.254.170.2",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.255",
        "192.0.2.1",
        "192.31.196.1",
        "192.52.193.1",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "192.175.48.1",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        // Decimal, octal, hexadecimal, short, mixed, with a trailing dot, percent-encoded, full-width.
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "0",
        "10.1",
        "192.168.257",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "169.254.43518",
        "127.0.0.1.",
        "0x0a.1",
        "127%2e0%2e0%2e1",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "①⑥⑨。②⑤④。①⑥⑨。②⑤④",
        // Names that refer to the loopback address by definition.
        "localhost",
        "LOCALHOST",
        "localhost.",
        "api.localhost",
        "ｌocalhost",
        "loc%61lhost",
        // IPv6 outside 2000::/3.
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[fe80::1]",
        "[febf::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "[fec0::1]",
        "[100::1]",
        "[5f00::1]",
        "[4000::1]",
        "[1fff::1]",
        // Inside 2000::/3, but not public: protocol assignments, Teredo, ORCHID, documentation, 6to4.
        "[2001::1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
        "[2001:20::1]",
        "[2001:1ff:ffff::1]",
        "[2001:db8::1]",
        "[2002:7f00:1::]",
        "[2002:808:808::1]",
        "[3fff::1]",
        "[3fff:fff:ffff::1]",
        // Embedded addresses that are not public: mapped, compatible, NAT64, and NAT64 for local use.
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[::ffff:10.0.0.1]",
        "[0:0:0:0:0:ffff:c0a8:1]",
        "[::127.0.0.1]",
        "[::8.8.8.8]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::1]",
        "[::ffff:0:127.0.0.1]",
    ];

    const GOOD: &[&str] = &[
        "example.com",
        "hooks.example.co.uk",
        "EXAMPLE.com",
        "example.com.",
        "münchen.example",
        "xn--mnchen-3ya.example",
        "localhost.example.com",
        "notlocalhost",
        "127.0.0.1.example.com",
        "8.8.8.8",
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.17",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "134744072",
        "[2606:4700:4700::1111]",
        "[2001:4860:4860::8888]",
        "[2001:200::1]",
        "[2003::1]",
        "[2a00::1]",
        "[3ffe:ffff::1]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::8.8.8.8]",
    ];

    #[test]
    fn hostile_destinations_are_refused_and_public_ones_allowed() {
        let policy = DestinationPolicy::default();
        assert!(HOSTILE.len() >= 80 && GOOD.len() >= 20);
        for host in HOSTILE {
            for url in [format!("https://{host}/"), format!("https://{host}:8443/a?b=c")] {
                assert!(!permitted(&url, &policy), "{url}");
            }
        }
        for host in GOOD {
            assert!(permitted(&format!("https://{host}/"), &policy), "{host}");
        }
    }

    #[test]
    fn a_host_that_cannot_exist_is_not_stored() {
        let policy = DestinationPolicy::default();
        let label = "a".repeat(63);
        let long = [label.as_str(), &label, &label, &"b".repeat(61)].join(".");
        assert_eq!(long.len(), 253);
        let refusals = |url: &str| {
            let url = Url::parse(url).expect("a URL");
            (policy.refusals_to_store(&url).collect::<Vec<_>>(), policy.refusals(&url).count())
        };
        for host in [
            "a..b.example",
            ".example",
            "example..",
            "..",
            ".",
            &format!("a{label}.example"),
            &format!("b{long}"),
            &format!("{long}.c."),
            "-a.example",
            "a-.example",
            "a.-b.example",
            "a*b.example",
            "a!.example",
            "a$b.example",
            "a,b.example",
            "a'b.example",
            "(a).example",
            "a=b.example",
            "a;b.example",
            "a&b.example",
            "a~b.example",
            "example.com:0",
            "8.8.8.8:0",
            "[2606:4700:4700::1111]:0",
            "example.com:00000",
        ] {
            assert_eq!(refusals(&format!("https://{host}/hook")), (vec![DestinationError::Impossible], 0), "{host}");
        }
        for host in [
            "example.com.",
            &format!("{label}.example"),
            &long,
            &format!("{long}."),
            "a-b.example",
            "my_host.example",
            "_dmarc.example",
            "3com.example",
            "xn--mnchen-3ya.example",
            "m\u{fc}nchen.example",
            "intranet",
            "example.com:1",
            "example.com:65535",
            "example.com:443",
            "8.8.8.8",
            "[2606:4700:4700::1111]:8443",
        ] {
            assert_eq!(refusals(&format!("https://{host}/hook")), (vec![], 0), "{host}");
        }
    }

    #[test]
    fn urls_that_hide_the_host_are_refused() {
        let policy = DestinationPolicy::default();
        for url in [
            "https://example.com@127.0.0.1/",
            "https://127.0.0.1#@example.com/",
            "https://127.0.0.1\\@example.com/",
            "https:127.0.0.1",
            "https:/127.0.0.1/",
            "https:\\\\127.0.0.1\\",
            "https://127.0.0.1:443@example.com/",
            "https://example.com:pass@[::1]/",
            "https://\t127.0.0.1/",
            "https://127.0.\n0.1/",
        ] {
            assert!(!permitted(url, &policy), "{url}");
        }
    }

    #[test]
    fn a_deployment_may_allow_ranges_and_plain_http() {
        let ranges = ["127.0.0.0/8", "10.1.0.0/16", "::1/128"].map(|range| range.parse().expect("a range"));
        let policy = DestinationPolicy::new(true, ranges.to_vec());
        for url in [
            "http://127.0.0.1:8080/",
            "http://localhost/",
            "https://10.1.2.3/",
            "https://[::1]/",
            "https://[::ffff:10.1.2.3]/",
            "http://example.com/",
        ] {
            assert!(permitted(url, &policy), "{url}");
        }
        for url in ["http://10.2.0.1/", "http://169.254.169.254/", "https://[fd00:ec2::254]/", "ftp://127.0.0.1/"] {
            assert!(!permitted(url, &policy), "{url}");
        }
        let only_tls = DestinationPolicy::new(false, ranges.to_vec());
        assert!(!permitted("http://127.0.0.1/", &only_tls) && permitted("https://127.0.0.1/", &only_tls));
    }
}
