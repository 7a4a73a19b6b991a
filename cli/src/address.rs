//! Addresses that people type: a port, a host with a port, or a URL.

use url::{Host, Url};

/// Parses the address of a local program: `3000`, `:3000/hook`, `localhost:3000` or a URL.
pub(crate) fn program(text: &str) -> Result<Url, String> {
    let mut url = typed(text, |_| "http")?;
    // People copy the address that a server prints, such as 0.0.0.0, to which some platforms cannot connect.
    let is_unspecified = match url.host() {
        Some(Host::Ipv4(address)) => address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_unspecified(),
        _ => false,
    };
    if is_unspecified {
        url.set_host(Some("localhost")).map_err(|error| error.to_string())?;
    }
    Ok(url)
}

/// Parses the service's address. The default scheme is http for this machine, and https for others.
pub(crate) fn service(text: &str) -> Result<Url, String> {
    let mut url = typed(text, |url| if is_loopback(url) { "http" } else { "https" })?;
    if url.path() != "/" {
        return Err(format!("must not have a path: remove {}", url.path()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not have a query or a fragment".to_owned());
    }
    // `cargo local` uses the host name 127.0.0.1, so cookies and stored logins belong to that name.
    if url.scheme() == "http" && url.host_str() == Some("localhost") {
        url.set_host(Some("127.0.0.1")).map_err(|error| error.to_string())?;
    }
    Ok(url)
}

/// Parses an http or https URL.
pub(crate) fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or("must be an http or https URL")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or a password".to_owned());
    }
    if url.port() == Some(0) {
        return Err("must not have the port 0".to_owned());
    }
    // In a URL, the host `3000` is parsed as the address 0.0.11.184.
    if let Some(Host::Ipv4(address)) = url.host()
        && !text.contains(&address.to_string())
    {
        return Err(format!("has a number as its host, which stands for {address}: use a name or an address"));
    }
    Ok(url)
}

/// Parses a URL with or without a scheme. A bare number is a port on this machine.
fn typed(text: &str, scheme: impl Fn(&Url) -> &'static str) -> Result<Url, String> {
    let text = text.trim();
    if text.contains("://") {
        return url(text);
    }
    let after_colon = text.strip_prefix(':');
    let local = after_colon.unwrap_or(text);
    let port = local.split(['/', '?']).next().unwrap_or_default();
    if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        return url(&format!("http://localhost:{local}")).map_err(|_other| format!("{port} is not a port"));
    }
    if after_colon.is_some() || text.starts_with('/') {
        return Err("must be a port with an optional path (3000/hook), a host with a port (localhost:3000), or a URL"
            .to_owned());
    }
    let typed = url(&format!("http://{text}"))?;
    url(&format!("{}://{text}", scheme(&typed)))
}

/// Whether a URL points to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The host and the port of a URL, for display: `localhost:3000`.
pub(crate) fn host_and_port(url: &Url) -> String {
    let port = url.port_or_known_default().map(|port| format!(":{port}"));
    format!("{}{}", url.host_str().unwrap_or_default(), port.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_port_a_host_or_a_url() {
        for (text, url) in [
            ("3000", "http://localhost:3000/"),
            (" 3000 ", "http://localhost:3000/"),
            (":3000", "http://localhost:3000/"),
            (":3000/hook?a=b", "http://localhost:3000/hook?a=b"),
            ("3000/hook", "http://localhost:3000/hook"),
            ("localhost:3000/hook", "http://localhost:3000/hook"),
            ("app.test", "http://app.test/"),
            ("127.0.0.1:3000", "http://127.0.0.1:3000/"),
            ("0.0.0.0:3000/hook", "http://localhost:3000/hook"),
            ("http://[::]:3000", "http://localhost:3000/"),
            ("[::1]:3000", "http://[::1]:3000/"),
            ("http://localhost:3000/hook", "http://localhost:3000/hook"),
            ("https://localhost:8443", "https://localhost:8443/"),
            ("https://example.com?a=b", "https://example.com/?a=b"),
        ] {
            assert_eq!(program(text).expect(text).as_str(), url);
        }
    }

    #[test]
    fn an_ambiguous_address_is_refused() {
        for wrong in [
            "",
            ":",
            "/hook",
            ":hook",
            "0",
            "65536",
            "99999/hook",
            "http://3000",
            "http://3000/hook",
            "https://0x7f.1",
            "127.1:3000",
            "ftp://localhost/",
            "http://",
            "http://jo:secret@localhost/",
            "localhost:port",
        ] {
            assert!(program(wrong).is_err(), "{wrong}");
        }
        assert!(program("http://3000").expect_err("a number").contains("0.0.11.184"));
        assert_eq!(program("70000/hook"), Err("70000 is not a port".to_owned()));
    }

    #[test]
    fn a_service_is_local_or_encrypted_and_has_no_path() {
        for (text, url) in [
            ("localhost:9000", "http://127.0.0.1:9000/"),
            ("9000", "http://127.0.0.1:9000/"),
            ("http://localhost:9000/", "http://127.0.0.1:9000/"),
            ("127.0.0.1:9000", "http://127.0.0.1:9000/"),
            ("api.example.com", "https://api.example.com/"),
            ("api.example.com:8443", "https://api.example.com:8443/"),
            ("http://api.example.com", "http://api.example.com/"),
            ("https://localhost:9000", "https://localhost:9000/"),
        ] {
            assert_eq!(service(text).expect(text).as_str(), url);
        }
        assert_eq!(service("http://h/v1"), Err("must not have a path: remove /v1".to_owned()));
        for wrong in ["http://3000", "https://h?a=b", "https://h#a"] {
            assert!(service(wrong).is_err(), "{wrong}");
        }
    }
}
