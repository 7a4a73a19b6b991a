//! Cross-origin resource sharing, as in an HTTP API with a `CorsConfiguration`
//! (<https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-cors.html>): the gateway sets the headers,
//! regardless of the function's response. It does not reject any request, because browsers enforce the policy.

use anyhow::Result;
use axum::http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
        ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
        ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
    },
};

use crate::template::CorsConfiguration;

/// The headers that a function cannot set.
const RESERVED: [HeaderName; 6] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE,
];

/// The origins that may call the API, and the CORS headers.
pub(crate) struct Cors {
    origins: Vec<HeaderValue>,
    on_preflights: HeaderMap,
    on_others: HeaderMap,
}

impl Cors {
    pub(crate) fn new(configuration: &CorsConfiguration) -> Result<Self> {
        let mut on_preflights = HeaderMap::new();
        on_preflights.insert(ACCESS_CONTROL_ALLOW_METHODS, configuration.allow_methods.join(",").try_into()?);
        on_preflights.insert(ACCESS_CONTROL_ALLOW_HEADERS, configuration.allow_headers.join(",").try_into()?);
        on_preflights.insert(ACCESS_CONTROL_MAX_AGE, configuration.max_age.into());
        let mut on_others = HeaderMap::new();
        on_others.insert(ACCESS_CONTROL_EXPOSE_HEADERS, configuration.expose_headers.join(",").try_into()?);
        if configuration.allow_credentials {
            for headers in [&mut on_preflights, &mut on_others] {
                headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
            }
        }
        let origins = configuration.allow_origins.iter().map(HeaderValue::try_from).collect::<Result<_, _>>()?;
        Ok(Self { origins, on_preflights, on_others })
    }

    /// Sets the CORS headers of the response to a request with this method and these headers.
    pub(super) fn apply(&self, method: &Method, request: &HeaderMap, answer: &mut HeaderMap) {
        for name in RESERVED {
            answer.remove(name);
        }
        let Some(origin) = request.get(ORIGIN).filter(|origin| self.origins.contains(origin)) else { return };
        let headers = match (method == Method::OPTIONS, request.contains_key(ACCESS_CONTROL_REQUEST_METHOD)) {
            (true, true) => &self.on_preflights,
            // This is not a preflight, and browsers send no other OPTIONS requests.
            (true, false) => return,
            (false, _) => &self.on_others,
        };
        answer.extend(headers.clone());
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        answer.append(VARY, HeaderValue::from_static("origin"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cors_headers_of_the_function_are_ignored() -> Result<()> {
        let configuration = CorsConfiguration {
            allow_origins: vec!["https://app.example.com".to_owned()],
            allow_credentials: false,
            allow_methods: vec!["GET".to_owned()],
            allow_headers: Vec::new(),
            expose_headers: vec!["date".to_owned(), "x-request-id".to_owned()],
            max_age: 60,
        };
        let cors = Cors::new(&configuration)?;
        for (origin, expected) in [("https://app.example.com", Some("https://app.example.com")), ("https://evil", None)]
        {
            let request = HeaderMap::from_iter([(ORIGIN, origin.parse()?)]);
            let mut answer = HeaderMap::new();
            for name in RESERVED {
                answer.insert(name, HeaderValue::from_static("*"));
            }
            cors.apply(&Method::GET, &request, &mut answer);
            assert_eq!(answer.get(ACCESS_CONTROL_ALLOW_ORIGIN).map(HeaderValue::as_bytes), expected.map(str::as_bytes));
            assert_eq!(answer.contains_key(ACCESS_CONTROL_EXPOSE_HEADERS), expected.is_some());
            assert!(!answer.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS));
            assert!(!answer.contains_key(ACCESS_CONTROL_ALLOW_METHODS));
        }
        Ok(())
    }
}
