//! The public address of the API: the start of the links in emails, and the origin of the API's cookies.

use std::{fmt, str::FromStr};

use url::{Origin, Url};

use crate::config::{ConfigError, Env};

/// Scheme and authority, without a trailing slash: `https://api.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(String);

impl BaseUrl {
    /// Reads `BASE_URL`. Returns `None` if it is not set; each request's own domain then serves as the base.
    /// (CloudFormation cannot pass the API's address to one of the API's functions, because that would be a circular
    /// dependency.)
    pub fn from_env(env: &Env) -> Result<Option<Self>, ConfigError> {
        env.optional("BASE_URL").map(|_| env.parsed("BASE_URL")).transpose()
    }

    /// The base URL for an API Gateway domain, which always uses TLS.
    pub fn of_domain(domain: &str) -> Self {
        Self(format!("https://{domain}"))
    }

    /// Scheme and authority, without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether cookies can be `Secure`.
    pub fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// Whether `url` (an `Origin` header or an absolute URL) has this origin.
    pub fn is_origin_of(&self, url: &str) -> bool {
        matches!((origin(url), origin(&self.0)), (Some(theirs), Some(ours)) if theirs == ours)
    }
}

/// The origin of an absolute http or https URL. An opaque origin (`null`, `data:`) never matches.
fn origin(url: &str) -> Option<Origin> {
    let url = Url::parse(url).ok()?;
    let bare = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
    bare.then(|| url.origin())
}

impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        // `Url` parses a wildcard as a host name, but in API Gateway's CORS settings it matches any host.
        let bare = matches!(url.scheme(), "http" | "https")
            && url.path() == "/"
            && url.query().is_none()
            && !text.contains(['@', '*']);
        if bare {
            Ok(Self(url.origin().ascii_serialization()))
        } else {
            Err("it must consist of a scheme and a host only".into())
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let base: BaseUrl = "https://api.example.com/".parse().expect("a base URL");
        assert_eq!(base.as_str(), "https://api.example.com");
        for ours in ["https://api.example.com", "https://API.example.com:443/somewhere"] {
            assert!(base.is_origin_of(ours), "{ours}");
        }
        for other in [
            "http://api.example.com",
            "https://api.example.com:8443",
            "https://api.example.com.evil.com",
            "https://evil.com/https://api.example.com",
            "//api.example.com",
            "null",
            "",
            "javascript:alert(1)",
            "blob:https://api.example.com/1",
            "https://evil@api.example.com",
        ] {
            assert!(!base.is_origin_of(other), "{other}");
        }
    }

    #[test]
    fn a_base_url_has_no_path() {
        for text in [
            "https://*",
            "https://u:p@api.example.com",
            "https://api.example.com/prod",
            "ftp://api.example.com",
            "api.example.com",
        ] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
    }
}
