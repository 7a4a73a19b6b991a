//! Whose pages may call with cookies.

use url::Url;

use crate::{
    base_url::BaseUrl,
    config::{ConfigError, Env},
};

/// Where the API is reached, and the origins that are trusted beside it.
pub struct Origins {
    pub(super) base: Option<BaseUrl>,
    trusted: Vec<BaseUrl>,
}

impl Origins {
    /// None but the domain that a request came to: for routes that need none.
    #[must_use]
    pub fn none() -> Self {
        Self { base: None, trusted: Vec::new() }
    }

    /// The origin in `BASE_URL` alone.
    ///
    /// # Errors
    /// It does not parse.
    pub fn base(env: &Env) -> Result<Self, ConfigError> {
        Ok(Self { base: BaseUrl::from_env(env)?, trusted: Vec::new() })
    }

    /// The origins in `BASE_URL` and `TRUSTED_ORIGINS`.
    ///
    /// # Errors
    /// One of them does not parse.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        Ok(Self { base: BaseUrl::from_env(env)?, trusted: env.list("TRUSTED_ORIGINS")? })
    }

    /// Whether `url`, an `Origin` header or an absolute URL, is of `base` or of a trusted origin.
    pub(super) fn trust(&self, base: &BaseUrl, url: &str) -> bool {
        base.is_origin_of(url) || self.trusted.iter().any(|origin| origin.is_origin_of(url))
    }

    /// `url` as it was understood, if it is trusted.
    pub(super) fn trusted_url(&self, base: &BaseUrl, url: &str) -> Option<Url> {
        Url::parse(url).ok().filter(|url| self.trust(base, url.as_str()))
    }
}
