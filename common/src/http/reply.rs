//! The results of handlers, and their conversion to responses.

use api::error::Envelope;
use lambda_http::http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    body_format::BodyFormat,
    event::{Response, json_response},
    page::Page,
    status::HttpError,
};
use crate::{
    application::idempotency::CallResponse,
    error::{Error, Result},
};

/// A response, without the headers that are common to all responses.
pub enum Reply {
    /// 200 and JSON, with these `Set-Cookie` values.
    Json {
        /// The JSON text.
        body: String,
        cookies: Vec<String>,
    },
    /// An HTML page, with these `Set-Cookie` values.
    Page { page: RenderPage, cookies: Vec<String> },
    /// 303, with these `Set-Cookie` values.
    Redirect {
        /// The URL that the browser opens next with `GET`, absolute or relative to the page.
        to: String,
        cookies: Vec<String>,
    },
    /// 200 and an SVG image.
    Svg(&'static str),
    /// 204, in response to a CORS preflight request. API Gateway adds the required headers.
    Preflight,
}

/// Renders a page with the service's name, for an account. Returns the response, and the error that the page reports,
/// if any. It is a closure so that only functions with pages contain the code for pages.
type RenderPage = Box<dyn FnOnce(&str, Option<&str>) -> (Response, Option<HttpError>) + Send>;

/// The results that a handler can return: values that serialize to JSON, and pages.
pub trait Output: Send {
    /// Converts the result to a response.
    ///
    /// # Errors
    /// The result cannot be serialized.
    fn reply(self, format: BodyFormat) -> Result<Reply>;

    /// The JSON Schema of the response; `None` for a page.
    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema>;
}

impl<T: Serialize + JsonSchema + Send> Output for T {
    fn reply(self, format: BodyFormat) -> Result<Reply> {
        Ok(Reply::Json { body: json(&self, format)?, cookies: Vec::new() })
    }

    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        Some(generator.subschema_for::<T>())
    }
}

/// The response to an idempotent call, new or stored.
impl<T: Serialize + JsonSchema + Send> Output for CallResponse<T> {
    fn reply(self, format: BodyFormat) -> Result<Reply> {
        match self {
            Self::New(answer) => answer.reply(format),
            Self::Known(answer) => Ok(Reply::Json { body: json(&answer, format)?, cookies: Vec::new() }),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        T::schema(generator)
    }
}

/// A JSON result, and cookies to set.
pub struct WithCookies<T> {
    /// The value to serialize.
    pub body: T,
    pub cookies: Vec<String>,
}

impl<T: Serialize + JsonSchema + Send> Output for WithCookies<T> {
    fn reply(self, format: BodyFormat) -> Result<Reply> {
        Ok(Reply::Json { body: json(&self.body, format)?, cookies: self.cookies })
    }

    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        T::schema(generator)
    }
}

impl Output for Page {
    fn reply(self, _: BodyFormat) -> Result<Reply> {
        Ok(self.into())
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        None
    }
}

/// The result of handlers that return a page or a redirect.
impl Output for Reply {
    fn reply(self, _: BodyFormat) -> Result<Reply> {
        Ok(self)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        None
    }
}

impl From<Page> for Reply {
    fn from(page: Page) -> Self {
        Self::page(page, Vec::new())
    }
}

fn json<T: Serialize>(body: &T, format: BodyFormat) -> Result<String> {
    match format {
        BodyFormat::Envelope => serde_json::to_string(&Envelope { json: body }),
        BodyFormat::Plain | BodyFormat::Page => serde_json::to_string(body),
    }
    .map_err(Error::internal("writing the answer"))
}

impl Reply {
    /// A redirect without cookies.
    pub fn redirect(to: impl Into<String>) -> Self {
        Self::Redirect { to: to.into(), cookies: Vec::new() }
    }

    /// A page, with these `Set-Cookie` values.
    pub fn page(page: Page, cookies: Vec<String>) -> Self {
        Self::Page { page: Box::new(|service, account| page.response(service, account)), cookies }
    }

    /// Returns the response, and the error that a page reports, if any. `service` is the service's name, shown at the
    /// top of pages, and `account` the one that a page of the console shows.
    pub(super) fn response(self, service: &str, account: Option<&str>) -> (Response, Option<HttpError>) {
        match self {
            Self::Json { body, cookies } => (with(json_response(StatusCode::OK, body), &cookies), None),
            Self::Page { page, cookies } => {
                let (response, refused) = page(service, account);
                (with(response, &cookies), refused)
            }
            Self::Redirect { to, cookies } => {
                let mut response = empty(StatusCode::SEE_OTHER);
                if let Ok(to) = HeaderValue::from_str(&to) {
                    response.headers_mut().insert(header::LOCATION, to);
                }
                (with(response, &cookies), None)
            }
            Self::Svg(image) => {
                let mut response = Response::new(image.to_owned());
                let kind = HeaderValue::from_static("image/svg+xml");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                (response, None)
            }
            Self::Preflight => (empty(StatusCode::NO_CONTENT), None),
        }
    }
}

/// Adds these `Set-Cookie` values.
fn with(mut response: Response, cookies: &[String]) -> Response {
    for cookie in cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}
