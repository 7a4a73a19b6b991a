//! The link to the documentation.

use std::str::FromStr;

use common::config::{ConfigError, Env};
use url::Url;

/// The address of the documentation: a URL, or a path of this API.
pub(crate) struct Docs(pub(crate) String);

impl Docs {
    /// Reads `DOCS_URL`. The default is the page `/docs`.
    pub(crate) fn from_env(env: &Env) -> Result<Self, ConfigError> {
        if env.optional("DOCS_URL").is_some() { env.parsed("DOCS_URL") } else { Ok(Self("/docs".to_owned())) }
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
