//! The origins whose pages may call the API with cookies.

use url::Url;

use crate::{
    base_url::BaseUrl,
    config::{ConfigError, Env},
};

/// The API's address and other trusted origins, such as that of a separate frontend.
pub struct Origins {
    pub(super) base: Option<BaseUrl>,
    trusted: Vec<BaseUrl>,
}

impl Origins {
    /// Reads the trusted origins from `BASE_URL` and `TRUSTED_ORIGINS`.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        Ok(Self { base: BaseUrl::from_env(env)?, trusted: env.list("TRUSTED_ORIGINS")? })
    }

    /// Whether the API is used only over TLS, as it always is on API Gateway.
    pub(super) fn is_https(&self) -> bool {
        self.base.as_ref().is_none_or(BaseUrl::is_https)
    }

    /// Whether `url` (an `Origin` header or an absolute URL) has the same origin as `base` or a trusted origin.
    pub(super) fn trust(&self, base: &BaseUrl, url: &str) -> bool {
        base.is_origin_of(url) || self.trusted.iter().any(|origin| origin.is_origin_of(url))
    }

    /// Parses `url`. Returns `None` unless its origin is trusted.
    pub(super) fn trusted_url(&self, base: &BaseUrl, url: &str) -> Option<Url> {
        Url::parse(url).ok().filter(|url| self.trust(base, url.as_str()))
    }
}
