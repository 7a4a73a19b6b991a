//! The address of the documentation, for links on pages.

use std::str::FromStr;

use url::Url;

use crate::config::{ConfigError, Env};

/// The first page of the documentation.
pub const INDEX: &str = "/docs";
/// The guide from an account to a verified webhook.
pub const QUICK_START: &str = "/docs/quick-start";
/// The guide for receivers.
pub const RECEIVING: &str = "/docs/receiving";
/// The usual causes of a signature that does not match.
pub const SIGNATURES: &str = "/docs/receiving#a-signature-that-does-not-match";
/// The guide for the command-line client.
pub const CLIENT: &str = "/docs/listening";
/// Complete receivers, by framework.
pub const RECEIVERS: &str = "/docs/receivers";

/// The address of the documentation: a URL, or a path in this API.
pub struct Docs(String);

impl Docs {
    /// Reads `DOCS_URL`. The default is [`INDEX`].
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        if env.optional("DOCS_URL").is_some() { env.parsed("DOCS_URL") } else { Ok(Self(INDEX.to_owned())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address if the documentation is not served by this API.
    pub fn elsewhere(&self) -> Option<&str> {
        (self.0 != INDEX).then_some(&self.0)
    }
}

impl FromStr for Docs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_path = text.starts_with('/');
        let url =
            if is_path { Url::parse("https://api.example.com").and_then(|api| api.join(text)) } else { text.parse() };
        match url.map_err(|error| error.to_string())?.scheme() {
            "http" | "https" => Ok(Self(text.to_owned())),
            _ => Err("it must be an http or https URL, or a path".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_is_at_a_url_or_a_path() {
        for good in ["https://docs.example.com/webhooks?v=1#top", "http://localhost:8080", "/openapi.json", "/"] {
            assert!(good.parse::<Docs>().is_ok(), "{good}");
        }
        for bad in
            ["javascript:alert(1)", "docs", "?", "data:text/html,x", "ftp://example.com", "https://", "mailto:a@b.c"]
        {
            assert!(bad.parse::<Docs>().is_err(), "{bad}");
        }
    }
}
