//! What handlers return.

use lambda_http::http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    event::{Response, json_response},
    once::Answer,
    page::Page,
    status::HttpError,
    wire::Wire,
};
use crate::{
    error::{Error, Result},
    name::ServiceName,
};

/// A response, before the headers that every response has.
pub enum Reply {
    /// 200 and JSON, with these `Set-Cookie` values.
    Json {
        /// The JSON text.
        body: String,
        /// The `Set-Cookie` values.
        cookies: Vec<String>,
    },
    /// An HTML page, with these `Set-Cookie` values.
    Page {
        /// The page.
        page: Page,
        /// The `Set-Cookie` values.
        cookies: Vec<String>,
    },
    /// 303, with these `Set-Cookie` values.
    Redirect {
        /// Where the browser goes on with `GET`: a URL, or one relative to that of the page.
        to: String,
        /// The `Set-Cookie` values.
        cookies: Vec<String>,
    },
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
        Ok(self.into())
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

impl From<Page> for Reply {
    fn from(page: Page) -> Self {
        Self::Page { page, cookies: Vec::new() }
    }
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    json: &'a T,
}

fn json<T: Serialize>(body: &T, wire: Wire) -> Result<String> {
    match wire {
        Wire::Envelope => serde_json::to_string(&Envelope { json: body }),
        Wire::Plain | Wire::Page => serde_json::to_string(body),
    }
    .map_err(Error::internal("writing the answer"))
}

/// A plain confirmation, for routes with nothing else to return.
#[derive(Serialize, JsonSchema)]
pub struct Done {
    /// Always `true`: a refusal is an error.
    success: bool,
    /// What was done, for people.
    #[schemars(extend("examples" = ["Done"]))]
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
    /// The response, and what it refuses: a page can say that something did not work. Pages are those of `service`.
    pub(super) fn response(self, service: Option<&ServiceName>) -> (Response, Option<HttpError>) {
        match self {
            Self::Json { body, cookies } => (with(json_response(StatusCode::OK, body), &cookies), None),
            Self::Page { page, cookies } => {
                let (response, refused) = page.response(service.map_or("", ServiceName::as_str));
                (with(response, &cookies), refused)
            }
            Self::Redirect { to, cookies } => {
                let mut response = empty(StatusCode::SEE_OTHER);
                if let Ok(to) = HeaderValue::from_str(&to) {
                    response.headers_mut().insert(header::LOCATION, to);
                }
                (with(response, &cookies), None)
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
