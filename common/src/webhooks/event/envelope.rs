//! Recognizes common mistakes of producers by their signs, so that the log can name them: job events in the envelope of
//! another service or library, and text that is almost JSON.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use memchr::memmem;

use super::json_text::string_length;
use crate::json_members::JsonMembers;

/// Each envelope in a JSON object: the members that are its signs, and the mistake.
const ENVELOPES: [(&[&str], &str); 9] = [
    (
        &["Type", "TopicArn", "Message"],
        "the message is an SNS notification: turn on raw message delivery for the subscription",
    ),
    (
        &["detail-type", "source", "detail"],
        "the message is an EventBridge event: set InputPath to $.detail for the rule's target",
    ),
    (
        &["messageId", "receiptHandle", "body"],
        "the message is an SQS record: set InputTemplate to <$.body> for the EventBridge pipe",
    ),
    (&["s3BucketName", "s3Key"], POINTER),
    (&["specversion", "type", "source"], "the message is a CloudEvent: send only its data"),
    (&["body", "properties", "content-type"], "the message is from kombu or Celery: send the JSON with an SQS client"),
    (&["queue_name", "actor_name", "args"], "the message is from dramatiq: send the JSON with an SQS client"),
    (&["Records"], "the message is a batch of records: send each event as its own message"),
    (&["MessageBody"], "the message is a request to SQS: send only its MessageBody"),
];
const POINTER: &str = "the message is a pointer to S3, from an SQS extended client: turn off its offloading";
const MARK: &str = "the message begins with a byte order mark (U+FEFF): send UTF-8 without it";
const BASE64: &str = "the message is base64, as kombu, Celery and dramatiq send it: send the JSON itself";
const NO_NUMBER: &str = "NaN and Infinity are not JSON: use json.dumps(event, allow_nan=False) in Python";
const REPRESENTATION: &str = "the message has single quotes, like a dict in Python: use json.dumps(event)";
const TWICE: &str = "the message is a JSON string: encode the event only once";
const URL_ENCODED: &str = "the message is URL-encoded: send the JSON itself";

/// Returns the mistake in an object without an `event`, if it is known.
pub(super) fn in_members(JsonMembers(members): &JsonMembers<'_>) -> Option<&'static str> {
    let has = |sign: &&str| members.iter().any(|(name, _)| name == sign);
    ENVELOPES.iter().find(|(signs, _)| signs.iter().all(has)).map(|(_, mistake)| *mistake)
}

/// Returns the mistake in a text that is not a JSON object, if it is known.
pub(super) fn in_text(text: &str) -> Option<&'static str> {
    let start = text.trim_ascii_start();
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| start.starts_with(beginning));
    let known = [
        (begins(&["\u{feff}"]), MARK),
        (begins(&["{'", "{u'"]), REPRESENTATION),
        (begins(&["%7B", "%7b"]), URL_ENCODED),
        (begins(&["\"{", "\"\\u007b"]), TWICE),
        (begins(&["["]) && memmem::find(text.as_bytes(), b"S3Pointer\"").is_some(), POINTER),
        (is_base64(text.trim_ascii()), BASE64),
        (begins(&["{"]) && has_no_number(start.as_bytes()), NO_NUMBER),
    ];
    known.into_iter().find(|(is_it, _)| *is_it).map(|(_, mistake)| mistake)
}

/// Whether the text is the base64 of a JSON object.
fn is_base64(text: &str) -> bool {
    let mut decoded =
        text.get(..4).and_then(|first| STANDARD_NO_PAD.decode(first).ok()).unwrap_or_default().into_iter();
    let is_symbol = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\r\n".contains(&byte);
    decoded.find(|byte| !byte.is_ascii_whitespace()) == Some(b'{') && text.bytes().all(is_symbol)
}

/// Whether there is a `NaN` or `Infinity` outside strings.
fn has_no_number(json: &[u8]) -> bool {
    let mut rest = json;
    while !rest.is_empty() {
        let (tokens, strings) = rest.split_at(memchr::memchr(b'"', rest).unwrap_or(rest.len()));
        if [b"NaN".as_slice(), b"Infinity"].iter().any(|name| memmem::find(tokens, name).is_some()) {
            return true;
        }
        rest = strings.split_at(string_length(strings)).1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENTATION: &str = include_str!("../../../../docs/job-events.md");

    #[test]
    fn every_mistake_is_in_the_docs() {
        let others = [MARK, BASE64, NO_NUMBER, REPRESENTATION, TWICE, URL_ENCODED, POINTER];
        for mistake in ENVELOPES.iter().map(|(_, mistake)| *mistake).chain(others) {
            let (what, what_to_do) = mistake.split_once(": ").expect("a colon");
            let row = DOCUMENTATION.lines().find(|line| line.contains(what.trim_start_matches("the message ")));
            assert!(row.is_some_and(|row| row.contains(what_to_do)), "{mistake}");
        }
    }

    #[test]
    fn mistakes_are_recognized_by_their_signs() {
        let members = |text: &str| in_members(&serde_json::from_str(text).expect("JSON"));
        for (text, sign) in [
            (
                r#"{"Type":"Notification","MessageId":"1","TopicArn":"arn:aws:sns:eu-central-1:1:t","Message":"{\"event\":\"job.completed\"}","Timestamp":"2026-01-31T12:00:00.000Z","SignatureVersion":"1","Signature":"EXAMPLE","SigningCertURL":"https://sns","UnsubscribeURL":"https://sns"}"#,
                "SNS",
            ),
            (
                r#"{"version":"0","id":"1","detail-type":"Job","source":"jobs","account":"1","time":"2026-01-31T12:00:00Z","region":"eu-central-1","resources":[],"detail":{"event":"job.completed"}}"#,
                "EventBridge event",
            ),
            (
                r#"{"messageId":"1","receiptHandle":"h","body":"{}","attributes":{},"messageAttributes":{},"md5OfBody":"","eventSource":"aws:sqs","eventSourceARN":"a","awsRegion":"eu-central-1"}"#,
                "<$.body>",
            ),
            (r#"{"s3BucketName":"b","s3Key":"k"}"#, "S3"),
            (
                r#"{"specversion":"1.0","type":"job","source":"/jobs","id":"1","data":{"event":"job.completed"}}"#,
                "CloudEvent",
            ),
            (
                r#"{"body":"W10=","content-encoding":"utf-8","content-type":"application/json","headers":{},"properties":{}}"#,
                "kombu",
            ),
            (
                r#"{"queue_name":"default","actor_name":"job","args":[],"kwargs":{},"options":{},"message_id":"1"}"#,
                "dramatiq",
            ),
            (r#"{"Records":[{"eventSource":"aws:s3"}]}"#, "own message"),
            (r#"{"QueueUrl":"https://sqs","MessageBody":"{}"}"#, "MessageBody"),
        ] {
            assert!(members(text).is_some_and(|mistake| mistake.contains(sign)), "{text}: {:?}", members(text));
        }
        for other in ["{}", r#"{"Type":"x","Message":"y"}"#, r#"{"source":"x","detail":1}"#, r#"{"body":"x"}"#] {
            assert_eq!(members(other), None, "{other}");
        }
    }

    #[test]
    fn text_that_is_almost_json_is_recognized() {
        for (text, mistake) in [
            ("\u{feff}{\"event\":\"job.completed\"}", MARK),
            ("eyJldmVudCI6ImpvYi5jb21wbGV0ZWQifQ==", BASE64),
            ("ewogICJldmVudCI6IDEKfQ", BASE64),
            ("ICB7ImEiOjF9\n", BASE64),
            (r#"{"event":"job.completed","result":NaN}"#, NO_NUMBER),
            (r#"{"event":"job.completed","result":[1,-Infinity]}"#, NO_NUMBER),
            ("{'event': 'job.completed'}", REPRESENTATION),
            (r#""{\"event\":\"job.completed\"}""#, TWICE),
            ("%7B%22event%22%3A1%7D", URL_ENCODED),
            (r#"["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"b","s3Key":"k"}]"#, POINTER),
            (r#"["com.amazon.sqs.javamessaging.MessageS3Pointer",{"s3BucketName":"b","s3Key":"k"}]"#, POINTER),
        ] {
            assert_eq!(in_text(text), Some(mistake), "{text}");
        }
        for other in ["", "x", "null", "[]", "eyJl.x", "abcd", r#"{"a":"NaN","b":"\"NaN"}"#, r#"{"a":"NaN"#, "e30"] {
            assert_eq!(in_text(other), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_the_search(text in "[\\PC{}\":,\\\\]{0,40}") {
            let _mistake = in_text(&text);
        }
    }
}
