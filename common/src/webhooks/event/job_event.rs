//! Job events. Producers send one message per finished job.

use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    envelope,
    json_text::compact,
    name::{EventName, of_a_job},
    trace::TraceParent,
};
use crate::{
    id::TenantId,
    issue::Problem,
    json_members::JsonMembers,
    timestamp::Timestamp,
    webhooks::destination::{EndpointUrl, SigningSecret},
};

/// The maximum size of a message in bytes, as in the template: the limit of SQS since August 2025
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>).
pub const MAX_MESSAGE_BYTES: usize = 1024 * 1024;

/// A finished job, and its audience.
#[derive(Debug)]
pub struct JobEvent {
    /// Whether the job completed or failed.
    pub name: EventName,
    /// The tenant that owns the job.
    pub tenant: TenantId,
    /// The job's id, as sent by the producer. It is not checked.
    pub job_id: String,
    /// The name of the job's workflow, if it is a string.
    pub workflow: Option<String>,
    /// The trace that the job belongs to.
    pub trace: Option<TraceParent>,
    /// When the event entered its queue.
    pub at: Timestamp,
    pub audience: Audience,
    /// The body of every delivery, serialized once, because signatures cover exactly these bytes.
    pub body: Bytes,
}

/// The destinations of an event.
#[derive(Debug)]
pub enum Audience {
    /// No destinations, because the job skips its callbacks.
    None,
    /// Only the job's callback.
    Callback {
        url: EndpointUrl,
        /// The secret for signing the delivery.
        secret: SigningSecret,
    },
    /// All endpoints of the tenant that are active or collect held deliveries when the event is processed.
    Endpoints,
}

impl Audience {
    pub fn callback(&self) -> Option<(&EndpointUrl, &SigningSecret)> {
        match self {
            Self::Callback { url, secret } => Some((url, secret)),
            Self::None | Self::Endpoints => None,
        }
    }
}

/// Why a message cannot be parsed. Retries cannot succeed, so the queue's redrive policy moves the message to the
/// dead-letter queue.
#[derive(Debug)]
pub struct Malformed(pub(in crate::webhooks) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The delivered body. It always has all of these fields, in this order.
#[derive(Serialize)]
struct JobEventBody<'a> {
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
    /// The message is not a job event. The error does not quote the message.
    pub fn parse(text: &str, at: Timestamp) -> Result<Self, Malformed> {
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(Malformed(format!("the message has more than {MAX_MESSAGE_BYTES} bytes")));
        }
        let message = JobMessage(serde_json::from_str(text).map_err(|error| no_object(text, error))?);
        let event = message.required("event").map_err(|missing| match envelope::in_members(&message.0) {
            Some(mistake) => Malformed(mistake.to_owned()),
            None => missing,
        })?;
        let name = of_a_job(&mut serde_json::Deserializer::from_str(event.get()))
            .map_err(|_not_one| Malformed("event is neither \"job.completed\" nor \"job.failed\"".to_owned()))?;
        let tenant = message.required_text("tenant_id")?;
        let job_id = message.required_text("job_id")?;
        let body = JobEventBody {
            event: name,
            job_id: &job_id,
            nonce: message.last("nonce"),
            workflow: message.last("workflow"),
            deployment_id: message.last("deployment_id"),
            status: message.last("status"),
            result: message.last("result"),
            error: message.last("error"),
            mapped_stack: message.last("mapped_stack"),
        };
        let body = compact(serde_json::to_vec(&body).map_err(malformed)?);
        Ok(Self {
            name,
            at,
            tenant: tenant.parse().map_err(|_not_an_id| Malformed("tenant_id is not an id".to_owned()))?,
            audience: message.audience()?,
            workflow: message.passing_text("workflow"),
            trace: message.passing_text("traceparent").as_deref().and_then(TraceParent::parse),
            body: body.into(),
            job_id,
        })
    }
}

/// The message as received. Values that are only forwarded stay raw JSON, so that numbers keep their digits and strings
/// keep their escapes.
struct JobMessage<'a>(JsonMembers<'a>);

impl<'a> JobMessage<'a> {
    /// Returns a member that is only forwarded. If it occurs more than once, the last one wins: nearly every JSON parser
    /// does this, so the producer's tests see the same value.
    fn last(&self, name: &str) -> Option<&'a RawValue> {
        let mut members = self.0.0.iter().rev();
        let (_, value) = members.find(|(other, _)| other == name)?;
        (value.get() != "null").then_some(*value)
    }

    /// Returns a member that is only forwarded, if it is a valid string.
    fn passing_text(&self, name: &str) -> Option<String> {
        let json = self.last(name)?.get();
        if json.starts_with('"') { serde_json::from_str(json).ok() } else { None }
    }

    /// Returns a member that determines the recipients of the event. Duplicates with different values are an error,
    /// because if a producer concatenates JSON, a customer may have injected the second value.
    fn only(&self, name: &str) -> Result<Option<&'a RawValue>, Malformed> {
        let mut values = self.0.0.iter().filter(|(other, _)| other == name).map(|(_, value)| value.get());
        let first = values.next();
        if values.any(|value| Some(value) != first) {
            return Err(Malformed(format!("{name} occurs several times, with different values")));
        }
        Ok(self.last(name))
    }

    fn required(&self, name: &str) -> Result<&'a RawValue, Malformed> {
        self.only(name)?.ok_or_else(|| Malformed(format!("{name} is missing")))
    }

    fn required_text(&self, name: &str) -> Result<String, Malformed> {
        text(name, self.required(name)?)
    }

    /// Returns a string, or `None` for an empty one: producers in Go send `""` for an unset string.
    fn optional_text(&self, name: &str) -> Result<Option<String>, Malformed> {
        let given = self.only(name)?.map(|value| text(name, value)).transpose()?;
        Ok(given.filter(|text| !text.is_empty()))
    }

    /// Determines the audience. `skip_callbacks` takes precedence. A callback URL without a secret is ignored, and so
    /// is a secret without a URL.
    fn audience(&self) -> Result<Audience, Malformed> {
        match self.only("skip_callbacks")?.map(RawValue::get) {
            Some("true") => return Ok(Audience::None),
            Some("false") | None => {}
            Some(_) => return Err(Malformed("skip_callbacks is neither true nor false".to_owned())),
        }
        match (self.optional_text("callback_url")?, self.optional_text("callback_secret")?) {
            (Some(url), Some(secret)) => callback(&url, &secret),
            _ => Ok(Audience::Endpoints),
        }
    }
}

fn text(name: &str, value: &RawValue) -> Result<String, Malformed> {
    let is_text = value.get().starts_with('"');
    let problem = if is_text { "has an unpaired surrogate, which is not valid Unicode" } else { "is not a string" };
    serde_json::from_str(value.get()).map_err(|_not_a_text| Malformed(format!("{name} {problem}")))
}

/// Parses a callback. Errors do not quote the values, which are secret.
fn callback(url: &str, secret: &str) -> Result<Audience, Malformed> {
    let url = EndpointUrl::parse_new(url).map_err(|problems| invalid("callback_url", &problems))?;
    let secret = SigningSecret::parse(secret).map_err(|problems| invalid("callback_secret", &problems))?;
    Ok(Audience::Callback { url, secret })
}

/// Describes the problems of a member, as in an API response.
fn invalid(name: &str, problems: &[Problem]) -> Malformed {
    let problems: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
    Malformed(format!("{name}: {}", problems.join("; ")))
}

/// Describes a text that is not a JSON object.
fn no_object(text: &str, error: serde_json::Error) -> Malformed {
    match envelope::in_text(text) {
        Some(mistake) => Malformed(mistake.to_owned()),
        // Only the syntax of objects is checked.
        None if error.is_data() => Malformed("the message is not a JSON object".to_owned()),
        None => malformed(error),
    }
}

/// Describes a JSON error by its position and type, without the content, which may be secret.
pub(in crate::webhooks) fn malformed(error: serde_json::Error) -> Malformed {
    Malformed(format!("{:?} error at line {} column {}", error.classify(), error.line(), error.column()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::webhooks::event::{EventName, TEST_JOB, named_in};

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
    fn the_body_has_nine_fields_in_order() {
        assert_eq!(
            body(r#"{"job_id":"j","tenant_id":"t","event":"job.failed","error":{"message":"no"},"extra":1}"#),
            r#"{"event":"job.failed","job_id":"j","nonce":null,"workflow":null,"deployment_id":null,"status":null,"result":null,"error":{"message":"no"},"mapped_stack":null}"#
        );
    }

    #[test]
    fn samples_have_the_body_of_a_job_event() {
        for sample in [EventName::Test, EventName::Completed, EventName::Failed] {
            let sent = sample.sample().replacen('{', r#"{"tenant_id":"t","#, 1);
            assert_eq!(named_in(sample.sample().as_bytes()), Some(sample));
            let as_sent = body(&sent.replace("webhook.test", "job.failed"));
            assert_eq!(as_sent.replace("job.failed", sample.as_str()), sample.sample());
            assert!(as_sent.contains(&format!(r#""job_id":"{TEST_JOB}""#)));
        }
        assert_eq!((named_in(b"{}"), named_in(b""), named_in(br#"{"event":"x"}"#)), (None, None, None));
    }

    #[test]
    fn numbers_are_unchanged() {
        let result = r#"{"integer":123456789012345678901234567890,"decimal":0.1000000000000000055511151231257827,"exponent":1E400,"zero":-0.0}"#;
        let message = format!(r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","result":{result}}}"#);
        assert!(body(&message).contains(&format!("\"result\":{result}")));
    }

    #[test]
    fn white_space_is_removed_except_within_strings() {
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
    fn skipping_wins_and_half_a_callback_is_ignored() {
        let (url, secret) = ("https://example.com/hook", "s");
        assert!(matches!(audience_of(json!({})), Audience::Endpoints));
        assert!(matches!(audience_of(json!({"skip_callbacks": null})), Audience::Endpoints));
        assert!(matches!(audience_of(json!({"callback_url": url})), Audience::Endpoints));
        assert!(matches!(audience_of(json!({"callback_secret": secret, "callback_url": null})), Audience::Endpoints));
        for (url, secret) in [("", ""), ("", secret), (url, ""), ("", " ")] {
            let empty = json!({"callback_url": url, "callback_secret": secret});
            assert!(matches!(audience_of(empty), Audience::Endpoints), "{url} {secret}");
        }
        let both = json!({"callback_url": url, "callback_secret": secret});
        assert!(matches!(audience_of(both), Audience::Callback { url: to, .. } if to.as_str() == url));
        let skipped = json!({"callback_url": url, "callback_secret": secret, "skip_callbacks": true});
        assert!(matches!(audience_of(skipped), Audience::None));
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

    /// Returns why a message with these additional members is malformed.
    fn problem(more: &str) -> String {
        let message = format!(r#"{{"event":"job.completed","tenant_id":"t","job_id":"j"{more}}}"#);
        JobEvent::parse(&message, Timestamp::now()).expect_err(&message).to_string()
    }

    #[test]
    fn a_malformed_member_is_named() {
        let surrogate = "has an unpaired surrogate, which is not valid Unicode";
        for (message, expected) in [
            (r#"{"event":"job.completed","tenant_id":"t","job_id":"\ud800"}"#, format!("job_id {surrogate}")),
            (r#"{"event":"job.completed","tenant_id":"t","job_id":"a\udc00\ud800b"}"#, format!("job_id {surrogate}")),
            (r#"{"event":"job.completed","tenant_id":"\udfff","job_id":"j"}"#, format!("tenant_id {surrogate}")),
            (r#"{"event":"job.completed","tenant_id":"t"}"#, "job_id is missing".to_owned()),
            (r#"{"event":"job.completed","tenant_id":null,"job_id":"j"}"#, "tenant_id is missing".to_owned()),
            (r#"{"event":"job.completed","tenant_id":"t","job_id":7}"#, "job_id is not a string".to_owned()),
            (
                r#"{"event":"\ud800","tenant_id":"t","job_id":"j"}"#,
                r#"event is neither "job.completed" nor "job.failed""#.to_owned(),
            ),
        ] {
            assert_eq!(JobEvent::parse(message, Timestamp::now()).expect_err(message).to_string(), expected);
        }
        for text in ["null", "7", "[]", r#"[{"event":"job.completed"}]"#, r#""event""#] {
            let problem = JobEvent::parse(text, Timestamp::now()).expect_err(text).to_string();
            assert_eq!(problem, "the message is not a JSON object");
        }
        for (text, problem) in [
            (r#"{"Type":"Notification","TopicArn":"a","Message":"{}"}"#, "the message is an SNS notification: "),
            ("eyJldmVudCI6ImpvYi5jb21wbGV0ZWQifQ==", "the message is base64, "),
            (r#"{"event":"job.completed","more":NaN}"#, "NaN and Infinity are not JSON: "),
            (r#"{"event":"job.completed","Type":"x","TopicArn":"a","Message":"{}"}"#, "tenant_id is missing"),
        ] {
            let found = JobEvent::parse(text, Timestamp::now()).expect_err(text).to_string();
            assert!(found.starts_with(problem), "{found}");
        }
        assert_eq!(problem(r#","skip_callbacks":"true""#), "skip_callbacks is neither true nor false");
        let half = r#","callback_url":"https://a.example/","callback_secret":"\ud800""#;
        assert_eq!(problem(half), format!("callback_secret {surrogate}"));
        assert_eq!(problem(r#","callback_url":7"#), "callback_url is not a string");
        let callback = |url: &str, secret: &str| {
            problem(
                &json!({"callback_url": url, "callback_secret": secret})
                    .to_string()
                    .replacen('{', ",", 1)
                    .replace('}', ""),
            )
        };
        for (url, secret, expected) in [
            ("https://a.b/\u{200b}", "s", "callback_url: Must not contain the invisible character U+200B"),
            ("https://a.b/ c", "s", "callback_url: Must not contain whitespace or control characters"),
            ("https:a.b", "s", "callback_url: Must be an absolute https URL"),
            ("https://a.b/", " ", "callback_secret: Must not be blank"),
            ("https://a.b/", &"s".repeat(257), "callback_secret: Must have at most 256 characters"),
        ] {
            assert_eq!(callback(url, secret), expected);
        }
    }

    #[test]
    fn a_workflow_and_a_trace_that_are_not_valid_texts_are_ignored() {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read = |more: &str| {
            let message = format!(r#"{{"event":"job.completed","tenant_id":"t","job_id":"j"{more}}}"#);
            let event = JobEvent::parse(&message, Timestamp::now()).expect("an event");
            (event.workflow, event.trace.map(|trace| trace.as_str().to_owned()))
        };
        let both = format!(r#","workflow":"a\u0062","traceparent":"{trace}""#);
        assert_eq!(read(&both), (Some("ab".to_owned()), Some(trace.to_owned())));
        for other in [
            "",
            r#","workflow":null,"traceparent":null"#,
            r#","workflow":7,"traceparent":7"#,
            r#","workflow":{"a":"b"},"traceparent":["00"]"#,
            r#","workflow":"\ud800","traceparent":"\ud800""#,
        ] {
            assert_eq!(read(other), (None, None), "{other}");
        }
        assert_eq!(read(r#","traceparent":"00-x""#).1, None);
    }

    #[test]
    fn the_last_of_several_payload_members_counts() {
        let twice = |name: &str| {
            let message = format!(
                r#"{{"{name}":{{"a":1,"a":2}},"event":"job.completed","tenant_id":"t","job_id":"j","{name}":1,"\u00{:x}{}":[3]}}"#,
                name.as_bytes()[0],
                &name[1..],
            );
            body(&message)
        };
        for name in ["nonce", "workflow", "deployment_id", "status", "result", "error", "mapped_stack"] {
            assert!(twice(name).contains(&format!(r#""{name}":[3]"#)), "{}", twice(name));
        }
        let cleared = r#"{"event":"job.completed","tenant_id":"t","job_id":"j","result":1,"result":null}"#;
        assert!(body(cleared).contains(r#""result":null"#));
        let unknown = r#"{"event":"job.completed","tenant_id":"t","job_id":"j","x":1,"x":"\ud800","\ud800":1e400}"#;
        assert!(body(unknown).starts_with(r#"{"event":"job.completed","job_id":"j","#));
        let inside = r#"{"event":"job.completed","tenant_id":"t","job_id":"j","result":{"a":1e400,"a":"\ud800"}}"#;
        assert!(body(inside).contains(r#""result":{"a":1e400,"a":"\ud800"}"#));
    }

    #[test]
    fn members_that_decide_the_audience_have_one_value() {
        let url = r#","callback_url":"https://a.example/""#;
        for (more, name) in [
            (r#","tenant_id":"u""#.to_owned(), "tenant_id"),
            (r#","job_id":"k""#.to_owned(), "job_id"),
            (r#","event":"job.failed""#.to_owned(), "event"),
            (r#","skip_callbacks":true,"skip_callbacks":false"#.to_owned(), "skip_callbacks"),
            (format!(r#"{url},"callback_url":null"#), "callback_url"),
            (r#","callback_secret":"a","callback_secret":"b""#.to_owned(), "callback_secret"),
        ] {
            assert_eq!(problem(&more), format!("{name} occurs several times, with different values"));
        }
        // Libraries that flatten one object into another produce such duplicates.
        let same = r#"{"event":"job.completed","tenant_id":"t","job_id":"j","job_id":"j","tenant_id":"t"}"#;
        assert!(body(same).contains(r#""job_id":"j""#));
        let skipped = format!(
            r#"{{"event":"job.completed","tenant_id":"t","job_id":"j","skip_callbacks":true{url},"callback_url":"\ud800"}}"#
        );
        assert!(matches!(JobEvent::parse(&skipped, Timestamp::now()).expect("an event").audience, Audience::None));
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
