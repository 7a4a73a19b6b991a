//! What handlers return.

use lambda_http::http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

use super::{Page, Response, Result, Wire};
use crate::{error::Error, webhooks::once::Answer};

/// A response, before the headers that every response has.
pub enum Reply {
    /// 200 and JSON, with these `Set-Cookie` values.
    Json {
        /// The JSON text.
        body: String,
        /// The `Set-Cookie` values.
        cookies: Vec<String>,
    },
    /// An HTML page.
    Page(Page),
    /// 303 to this URL, which the browser fetches with `GET`.
    Redirect(Url),
    /// 204 to a CORS preflight: API Gateway adds the headers that answer it.
    Preflight,
}

/// What a handler can return: anything that serialises to JSON, or a page.
pub trait Output: Send {
    /// Converts it to a response.
    ///
    /// # Errors
    /// It cannot be serialised.
    fn reply(self, wire: Wire) -> Result<Reply>;

    /// The JSON Schema of the response; `None` for a page.
    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema>;
}

impl<T: Serialize + JsonSchema + Send> Output for T {
    fn reply(self, wire: Wire) -> Result<Reply> {
        Ok(Reply::Json { body: json(&self, wire)?, cookies: Vec::new() })
    }

    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        Some(generator.subschema_for::<T>())
    }
}

/// A call that may have been answered before.
impl<T: Serialize + JsonSchema + Send> Output for Answer<T> {
    fn reply(self, wire: Wire) -> Result<Reply> {
        match self {
            Self::New(answer) => answer.reply(wire),
            Self::Known(answer) => Ok(Reply::Json { body: json(&answer, wire)?, cookies: Vec::new() }),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        T::schema(generator)
    }
}

/// JSON, and cookies to set with it.
pub struct WithCookies<T> {
    /// The value to serialise.
    pub body: T,
    /// The `Set-Cookie` values.
    pub cookies: Vec<String>,
}

impl<T: Serialize + JsonSchema + Send> Output for WithCookies<T> {
    fn reply(self, wire: Wire) -> Result<Reply> {
        Ok(Reply::Json { body: json(&self.body, wire)?, cookies: self.cookies })
    }

    #[cfg(feature = "openapi")]
    fn schema(generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        T::schema(generator)
    }
}

impl Output for Page {
    fn reply(self, _: Wire) -> Result<Reply> {
        Ok(Reply::Page(self))
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        None
    }
}

/// For handlers that return a page or a redirect.
impl Output for Reply {
    fn reply(self, _: Wire) -> Result<Reply> {
        Ok(self)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        None
    }
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    json: &'a T,
}

fn json<T: Serialize>(body: &T, wire: Wire) -> Result<String> {
    match wire {
        Wire::Envelope => serde_json::to_string(&Envelope { json: body }),
        Wire::Plain => serde_json::to_string(body),
    }
    .map_err(Error::internal("writing the answer"))
}

/// A plain confirmation, for routes with nothing else to return.
#[derive(Serialize, JsonSchema)]
pub struct Done {
    success: bool,
    message: &'static str,
}

impl Done {
    /// Confirms success with `message`.
    #[must_use]
    pub fn new(message: &'static str) -> Self {
        Self { success: true, message }
    }
}

impl Reply {
    pub(super) fn response(self) -> Response {
        match self {
            Self::Json { body, cookies } => {
                let mut response = json_response(StatusCode::OK, body);
                for cookie in cookies.iter().filter_map(|cookie| HeaderValue::from_str(cookie).ok()) {
                    response.headers_mut().append(header::SET_COOKIE, cookie);
                }
                response
            }
            Self::Page(page) => page.response(),
            Self::Redirect(url) => {
                let mut response = empty(StatusCode::SEE_OTHER);
                if let Ok(url) = HeaderValue::from_str(url.as_str()) {
                    response.headers_mut().insert(header::LOCATION, url);
                }
                response
            }
            Self::Preflight => empty(StatusCode::NO_CONTENT),
        }
    }
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

pub(super) fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
