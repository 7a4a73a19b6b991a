//! The envelope of the `POST /v1/...` routes: the JSON half of oRPC's "RPC protocol"
//! (<https://orpc.unnoq.com/docs/advanced/rpc-protocol>).

use serde::Serialize;
use serde_json::Map;

use super::{
    Answer, Fields, MAX_BODY_BYTES, Method, Output, Rejected, Request, Response, Result, StatusCode, Value,
    add_cookies, json, json_response, status::Failure,
};
use crate::{
    error::Error,
    issue::{Issue, IssueCode},
};

/// Checks what can be checked before the caller is known.
pub(super) fn check(request: &Request) -> Result<(), Failure> {
    if request.method != Method::POST {
        return Err(Failure::Method);
    }
    if request.body.len() > MAX_BODY_BYTES {
        return Err(Failure::TooLarge);
    }
    Ok(())
}

/// The input in `{"json": {...}}`, by `parse`.
pub(super) fn input<I>(
    request: &Request,
    parse: impl FnOnce(&mut Fields) -> Result<I, Rejected>,
) -> Result<I, Failure> {
    check(request)?;
    let mut fields = Fields::new(fields(&request.body)?);
    let input = parse(&mut fields);
    Ok(fields.finish(input)?)
}

/// The fields in a body. An empty body, `{}` and `{"json": null}` (a client's "undefined") mean none.
fn fields(body: &[u8]) -> Result<Map<String, Value>> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    let Ok(Value::Object(mut envelope)) = serde_json::from_slice(body) else { return Err(Error::Malformed) };
    match envelope.remove("json") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields),
        Some(_) => Err(Error::Invalid(vec![Issue {
            code: IssueCode::InvalidType,
            path: Vec::new(),
            message: "Must be an object".to_owned(),
        }])),
    }
}

/// The answer in the envelope.
pub(super) fn answer<O: Output>(outcome: Result<O, Failure>) -> Answer {
    outcome.and_then(|output| success(&output)).map_or_else(refuse, Answer::of)
}

#[derive(Serialize)]
struct Envelope<'a, O> {
    json: &'a O,
}

fn success<O: Output>(output: &O) -> Result<Response, Failure> {
    let body = serde_json::to_string(&Envelope { json: output }).map_err(Error::internal("writing the answer"))?;
    let mut response = json_response(StatusCode::OK, body);
    add_cookies(&mut response, output.set_cookies());
    Ok(response)
}

/// How the envelope says that something failed.
pub(super) fn refuse(failure: Failure) -> Answer {
    let mut fields = json!({
        "defined": false,
        "code": failure.code(),
        "status": failure.status().as_u16(),
        "message": failure.message(),
    });
    if let (Value::Object(fields), Some(data)) = (&mut fields, failure.data()) {
        fields.insert("data".to_owned(), data);
    }
    let response = json_response(failure.status(), json!({ "json": fields }).to_string());
    Answer { failure: Some(failure), ..Answer::of(response) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_means_no_fields() {
        for body in ["", "{}", r#"{"json":{}}"#, r#"{"json":null}"#, r#"{"meta":[]}"#, r#" {"json":{},"meta":1} "#] {
            assert!(fields(body.as_bytes()).expect(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn what_is_not_the_envelope_is_malformed() {
        let deep = format!("{}1{}", "[".repeat(30_000), "]".repeat(30_000));
        let deep_inside = format!(r#"{{"json":{deep}}}"#);
        let bodies: [&[u8]; 8] =
            [b"x", b"null", b"[]", b"\"a\"", b"{\"json\":", b"\xff\xfe", deep.as_bytes(), deep_inside.as_bytes()];
        for body in bodies {
            assert!(matches!(fields(body), Err(Error::Malformed)), "{:?}", &body[..body.len().min(20)]);
        }
    }

    #[test]
    fn json_of_another_type_is_an_issue() {
        for body in [r#"{"json":[]}"#, r#"{"json":"a"}"#, r#"{"json":1}"#] {
            assert!(matches!(fields(body.as_bytes()), Err(Error::Invalid(_))), "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_body_panics_the_parser(body in any::<Vec<u8>>()) {
            let _parsed = fields(&body);
        }
    }
}
