//! Job events. Producers send one message per finished job.

use std::fmt;

use bytes::Bytes;
use memchr::{memchr, memchr2, memchr3};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::name::{EventName, of_a_job};
use crate::{
    id::TenantId,
    timestamp::Timestamp,
    webhooks::destination::{EndpointUrl, SigningSecret},
};

/// A finished job, and its audience.
#[derive(Debug)]
pub struct JobEvent {
    /// Whether the job completed or failed.
    pub name: EventName,
    /// The tenant that owns the job.
    pub tenant: TenantId,
    /// The producer's id of the job, unchecked.
    pub job_id: String,
    /// When the event entered its queue.
    pub at: Timestamp,
    /// The destinations of the event.
    pub audience: Audience,
    /// The body of each delivery, serialized once: every signature covers exactly these bytes.
    pub body: Bytes,
}

/// The destinations of an event.
#[derive(Debug)]
pub enum Audience {
    /// None: the job skips its callbacks.
    Nobody,
    /// Only the job's own callback.
    Callback {
        /// The receiver's URL.
        url: EndpointUrl,
        /// The secret that signs the delivery.
        secret: SigningSecret,
    },
    /// All endpoints of the tenant that are active, or collect held deliveries, when the event is handled.
    Endpoints,
}

impl Audience {
    /// The URL and secret of a callback.
    #[must_use]
    pub fn callback(&self) -> Option<(&EndpointUrl, &SigningSecret)> {
        match self {
            Self::Callback { url, secret } => Some((url, secret)),
            Self::Nobody | Self::Endpoints => None,
        }
    }
}

/// The reason why a queue's message cannot be parsed. It never succeeds, so it is left to the queue's redrive policy.
#[derive(Debug)]
pub struct Malformed(pub(in crate::webhooks) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The message as received. Values that are only passed on stay raw JSON, so that numbers keep their digits and strings
/// their escapes.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(deserialize_with = "of_a_job")]
    event: EventName,
    tenant_id: String,
    job_id: String,
    #[serde(borrow, default)]
    nonce: Option<&'a RawValue>,
    #[serde(borrow, default)]
    workflow: Option<&'a RawValue>,
    #[serde(borrow, default)]
    deployment_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    mapped_stack: Option<&'a RawValue>,
    callback_url: Option<String>,
    callback_secret: Option<String>,
    skip_callbacks: Option<bool>,
}

/// The delivered body. It always has all of these fields, in this order.
#[derive(Serialize)]
struct Body<'a> {
    event: EventName,
    job_id: &'a str,
    nonce: Option<&'a RawValue>,
    workflow: Option<&'a RawValue>,
    deployment_id: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    mapped_stack: Option<&'a RawValue>,
}

impl JobEvent {
    /// Parses a message that entered the job events queue at `at`.
    ///
    /// # Errors
    /// The message is not a job event. The error repeats none of its text.
    pub fn parse(text: &str, at: Timestamp) -> Result<Self, Malformed> {
        let message: Message<'_> = serde_json::from_str(text).map_err(malformed)?;
        let body = Body {
            event: message.event,
            job_id: &message.job_id,
            nonce: message.nonce,
            workflow: message.workflow,
            deployment_id: message.deployment_id,
            status: message.status,
            result: message.result,
            error: message.error,
            mapped_stack: message.mapped_stack,
        };
        let body = compact(serde_json::to_vec(&body).map_err(malformed)?);
        Ok(Self {
            name: message.event,
            at,
            tenant: message.tenant_id.parse().map_err(|_not_an_id| Malformed("tenant_id is not an id".to_owned()))?,
            audience: audience(
                message.skip_callbacks.unwrap_or(false),
                message.callback_url.as_deref(),
                message.callback_secret.as_deref(),
            )?,
            body: body.into(),
            job_id: message.job_id,
        })
    }
}

/// Removes the whitespace between the tokens of a JSON text. Many receivers verify the signature over `JSON.stringify`
/// of the parsed body instead of the bytes that they received. For ordinary payloads, compact JSON makes the two equal.
fn compact(json: Vec<u8>) -> Vec<u8> {
    if memchr3(b' ', b'\n', b'\r', &json).or_else(|| memchr(b'\t', &json)).is_none() {
        return json;
    }
    let (mut compact, mut rest) = (Vec::with_capacity(json.len()), json.as_slice());
    while !rest.is_empty() {
        let (tokens, strings) = rest.split_at(memchr(b'"', rest).unwrap_or(rest.len()));
        compact.extend(tokens.iter().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')));
        let (string, after) = strings.split_at(string_length(strings));
        compact.extend_from_slice(string);
        rest = after;
    }
    compact
}

/// The length of the JSON string that `json` begins with, quotes included.
fn string_length(json: &[u8]) -> usize {
    let mut length = json.len().min(1);
    while let Some(rest) = json.get(length..) {
        match memchr2(b'"', b'\\', rest) {
            Some(at) if rest.get(at) == Some(&b'\\') => length += at + 2,
            Some(at) => return length + at + 1,
            None => break,
        }
    }
    json.len()
}

/// `skip` takes precedence. A callback URL without a secret, or the reverse, counts as no callback.
fn audience(skip: bool, url: Option<&str>, secret: Option<&str>) -> Result<Audience, Malformed> {
    match (skip, url, secret) {
        (true, _, _) => Ok(Audience::Nobody),
        (false, Some(url), Some(secret)) => callback(url, secret),
        (false, _, _) => Ok(Audience::Endpoints),
    }
}

/// Parses a callback. The errors do not quote the values, which are secret.
fn callback(url: &str, secret: &str) -> Result<Audience, Malformed> {
    let url = EndpointUrl::parse(url).map_err(|_problems| Malformed("callback_url is not a valid URL".to_owned()))?;
    let secret = SigningSecret::parse(secret)
        .map_err(|_problems| Malformed("callback_secret is not a valid secret".to_owned()))?;
    Ok(Audience::Callback { url, secret })
}

/// Reports the position and the kind of a JSON error, but none of the text, which may be secret.
pub(in crate::webhooks) fn malformed(error: serde_json::Error) -> Malformed {
    Malformed(format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::webhooks::event::TEST_BODY;

    fn body(message: &str) -> String {
        String::from_utf8(JobEvent::parse(message, Timestamp::now()).expect("a job event").body.to_vec())
            .expect("UTF-8")
    }

    fn audience_of(more: Value) -> Audience {
        let mut message = json!({"event": "job.completed", "tenant_id": "t", "job_id": "j"});
        message.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        JobEvent::parse(&message.to_string(), Timestamp::now()).expect("a job event").audience
    }

    #[test]
    fn all_nine_fields_are_there_in_their_order() {
        assert_eq!(
            body(r#"{"job_id":"j","tenant_id":"t","event":"job.failed","error":{"message":"no"},"extra":1}"#),
            r#"{"event":"job.failed","job_id":"j","nonce":null,"workflow":null,"deployment_id":null,"status":null,"result":null,"error":{"message":"no"},"mapped_stack":null}"#
        );
    }

    #[test]
    fn a_test_event_has_the_same_fields_as_a_job_event() {
        let of_a_job = body(r#"{"event":"job.failed","tenant_id":"t","job_id":"test"}"#);
        assert_eq!(TEST_BODY, of_a_job.replace("job.failed", "webhook.test").as_bytes());
    }

    #[test]
    fn numbers_come_out_as_they_went_in() {
        let result = r#"{"integer":123456789012345678901234567890,"decimal":0.1000000000000000055511151231257827,"exponent":1E400,"zero":-0.0}"#;
        let message = format!(r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","result":{result}}}"#);
        assert!(body(&message).contains(&format!("\"result\":{result}")));
    }

    #[test]
    fn white_space_around_tokens_goes_and_within_strings_stays() {
        let spaced = "{ \"a b\" : [ 1.10 ,\t\"\\\" \\\\\" ,\r\n\" x\\u0020\\n \" ] , \"\\\\\" : { } }";
        let message = format!(
            r#"{{ "event": "job.completed", "tenant_id": "t", "job_id": "j k", "nonce": [ 1, 2 ], "workflow": {{ "w": " " }},
                "deployment_id": [ ], "status": [ "a" ], "result": {spaced}, "error": {spaced}, "mapped_stack": {spaced} }}"#
        );
        let compact = r#"{"a b":[1.10,"\" \\"," x\u0020\n "],"\\":{}}"#;
        assert_eq!(
            body(&message),
            format!(
                r#"{{"event":"job.completed","job_id":"j k","nonce":[1,2],"workflow":{{"w":" "}},"deployment_id":[],"status":["a"],"result":{compact},"error":{compact},"mapped_stack":{compact}}}"#
            )
        );
    }

    #[test]
    fn a_deeply_nested_result_passes_through() {
        let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(
            body(&format!(r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","result":{deep}}}"#))
                .contains(&deep)
        );
    }

    #[test]
    fn skipping_wins_and_half_a_callback_is_none() {
        let (url, secret) = ("https://example.com/hook", "s");
        assert!(matches!(audience_of(json!({})), Audience::Endpoints));
        assert!(matches!(audience_of(json!({"skip_callbacks": null})), Audience::Endpoints));
        assert!(matches!(audience_of(json!({"callback_url": url})), Audience::Endpoints));
        assert!(matches!(audience_of(json!({"callback_secret": secret, "callback_url": null})), Audience::Endpoints));
        let both = json!({"callback_url": url, "callback_secret": secret});
        assert!(matches!(audience_of(both), Audience::Callback { url: to, .. } if to.as_str() == url));
        let skipped = json!({"callback_url": url, "callback_secret": secret, "skip_callbacks": true});
        assert!(matches!(audience_of(skipped), Audience::Nobody));
    }

    #[test]
    fn a_malformed_message_is_reported_without_its_text() {
        for message in [
            "",
            "x",
            "null",
            "[]",
            "{}",
            r#"{"event":"job.started","tenant_id":"t","job_id":"j"}"#,
            r#"{"event":"webhook.test","tenant_id":"t","job_id":"test"}"#,
            r#"{"event":"job.completed","job_id":"j"}"#,
            r#"{"event":"job.completed","tenant_id":"t"}"#,
            r#"{"event":"job.completed","tenant_id":"","job_id":"j"}"#,
            r#"{"event":"job.completed","tenant_id":"t","job_id":7}"#,
            r#"{"event":"job.completed","tenant_id":"t","job_id":"j","skip_callbacks":"canary"}"#,
            r#"{"event":"job.completed","tenant_id":"t","job_id":"j","callback_url":"canary","callback_secret":"s"}"#,
            r#"{"event":"job.completed","tenant_id":"t","job_id":"j","callback_url":"https://a.b","callback_secret":" "}"#,
        ] {
            let error = JobEvent::parse(message, Timestamp::now()).expect_err(message);
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_pretty_printed_result_is_delivered_compact(keys in any::<Vec<String>>(), text in any::<String>()) {
            let result: Value = keys.into_iter().map(|key| (key, json!([text, {"text": text}, []]))).collect();
            let delivered = |result: &str| {
                body(&format!(r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","result":{result}}}"#))
            };
            let pretty = serde_json::to_string_pretty(&result).expect("JSON");
            prop_assert_eq!(delivered(&pretty), delivered(&result.to_string()));
        }

        #[test]
        fn no_text_panics_the_parser(text in any::<String>()) {
            let _parsed = JobEvent::parse(&text, Timestamp::now());
        }

        #[test]
        fn the_result_keeps_its_meaning(text in any::<String>(), number in any::<i128>()) {
            let result = json!({"text": text});
            let message = format!(
                r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","nonce":{number},"result":{result}}}"#);
            let delivered = body(&message);
            let nonce = format!("\"nonce\":{number},");
            prop_assert!(delivered.contains(&nonce));
            let delivered: Value = serde_json::from_str(&delivered).expect("JSON");
            prop_assert_eq!(&delivered["result"], &result);
        }
    }
}
