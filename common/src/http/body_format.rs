//! The formats of requests and responses: two JSON formats, and forms with pages.

use api::error::{Code, Details, EnvelopeError, PlainError};
use serde_json::json;
use url::form_urlencoded;

use super::{
    event::{Response, json_response},
    json::{Document, Envelope, Json, Object},
    status::{HttpError, flow_message},
};
use crate::{
    error::{Error, Result},
    issue::{Issue, IssueCode},
};

/// The format that the routes of a function use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// `{"json": {...}}` both ways, the JSON part of oRPC's "RPC protocol"
    /// (<https://orpc.unnoq.com/docs/advanced/rpc-protocol>): the routes under `/v1`.
    Envelope,
    /// Plain JSON: the routes under `/api/auth`.
    Plain,
    /// Forms and pages. Clients that do not accept HTML get errors in plain JSON.
    Page,
}

impl BodyFormat {
    /// Reads the fields in a body, which is a form for pages and otherwise JSON. An empty body contains no fields, and
    /// neither does a JSON `null`, which many clients send for an empty input.
    pub(super) fn fields(self, body: &[u8]) -> Result<Object> {
        if body.is_empty() {
            return Ok(Object::new());
        }
        let document = match self {
            Self::Page => return Ok(parameters(body)),
            Self::Plain => serde_json::from_slice(body),
            Self::Envelope => serde_json::from_slice(body).map(|Envelope(document)| document),
        };
        match document.map_err(|_not_json| Error::Malformed)? {
            Document::Null => Ok(Object::new()),
            Document::Object(fields) => Ok(fields),
            Document::Other if self != Self::Envelope => Err(Error::Malformed),
            Document::Other => Err(Error::Invalid(vec![Issue {
                code: IssueCode::InvalidType,
                path: Vec::new(),
                message: "Must be an object".to_owned(),
            }])),
        }
    }

    pub(super) fn refusal(self, error: &HttpError) -> Response {
        let body = match self {
            Self::Envelope => json!(envelope_error(error)),
            Self::Plain | Self::Page => json!(plain_error(error)),
        };
        json_response(error.status(), body.to_string())
    }
}

/// Parses the parameters of a query or form. If several have the same name, the first counts.
pub(super) fn parameters(encoded: &[u8]) -> Object {
    let mut parameters = Object::new();
    for (name, value) in form_urlencoded::parse(encoded) {
        parameters.entry(name.into_owned()).or_insert_with(|| Json::Text(value.into_owned()));
    }
    parameters
}

fn envelope_error(error: &HttpError) -> EnvelopeError {
    let details = Details { issues: error.issues(), reason: error.reason(), scope: error.scope().map(Into::into) };
    let json = api::error::Error {
        defined: false,
        code: error.code().as_str().to_owned(),
        status: error.status().as_u16(),
        message: error.message(),
        data: (details.issues.is_some() || details.reason.is_some()).then_some(details),
    };
    EnvelopeError { json }
}

fn plain_error(error: &HttpError) -> PlainError {
    let code = match (error.plain_code(), error.reason()) {
        (Code::Conflict, Some(reason)) => reason.as_str().to_uppercase(),
        (code, _) => code.as_str().to_owned(),
    };
    let (message, scope) = (flow_message(error), error.scope().map(Into::into));
    PlainError { code, message, issues: error.issues(), reason: error.reason(), scope }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_empty_body_has_no_fields() {
        for body in [
            "",
            "{}",
            r#"{"json":{}}"#,
            r#"{"json":null}"#,
            r#"{"meta":[]}"#,
            r#"{"json":{},"limit":1}"#,
            r#" {"json":{},"meta":1} "#,
        ] {
            assert!(BodyFormat::Envelope.fields(body.as_bytes()).expect(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn a_body_that_is_not_the_envelope_is_malformed() {
        let deep = format!("{}1{}", "[".repeat(30_000), "]".repeat(30_000));
        let bodies: [&[u8]; 9] = [
            b"{\"url\":\"x\"}",
            b"{\"meta\":1,\"a\":{}}",
            b"x",
            b"null",
            b"[]",
            b"\"a\"",
            b"{\"json\":",
            b"\xff\xfe",
            deep.as_bytes(),
        ];
        for body in bodies {
            let fields = BodyFormat::Envelope.fields(body);
            assert!(matches!(fields, Err(Error::Malformed)), "{:?}", &body[..body.len().min(20)]);
        }
    }

    #[test]
    fn a_plain_body_is_an_object_or_nothing() {
        for body in ["", "null", "{}"] {
            assert!(BodyFormat::Plain.fields(body.as_bytes()).expect(body).is_empty(), "{body}");
        }
        for body in ["[]", "1", "\"a\"", r#"{"a":"#] {
            assert!(matches!(BodyFormat::Plain.fields(body.as_bytes()), Err(Error::Malformed)), "{body}");
        }
    }

    #[test]
    fn json_of_another_type_is_an_issue() {
        for body in [r#"{"json":[]}"#, r#"{"json":"a"}"#, r#"{"json":1}"#] {
            assert!(matches!(BodyFormat::Envelope.fields(body.as_bytes()), Err(Error::Invalid(_))), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics_the_parser(body in any::<Vec<u8>>()) {
            let _parsed = (BodyFormat::Envelope.fields(&body), BodyFormat::Plain.fields(&body));
        }
    }
}
