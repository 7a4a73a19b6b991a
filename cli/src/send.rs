//! `fanfare send`: sends a job event like a producer.

use std::time::{Duration, SystemTime};

use api::{TenantId, account::Organizations, webhooks::EventName};
use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4::SigningParams,
};
use http::{Request, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use url::Url;

use crate::{
    address::is_loopback,
    args::Send,
    calls::{Api, unreachable},
    failure::Failure,
    http::NetworkSettings,
    terminal::{cell, cell_of, print_result},
};

/// A job event as sent by a producer. Raw values keep their digits, duplicates and escapes.
#[derive(Serialize)]
struct Event<'a> {
    event: EventName,
    tenant_id: &'a TenantId,
    job_id: &'a str,
    workflow: Option<&'a str>,
    status: &'static str,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// The time limit for the call.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a response from the queue, in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

pub(crate) async fn run(api: &Api, network: &NetworkSettings, send: Send, is_json: bool) -> Result<(), Failure> {
    let queue = match send.queue_url {
        Some(queue) => queue,
        None if is_loopback(&api.base) => local_queue()?,
        None => {
            let failure = Failure::local("The client does not know the queue of a remote service.");
            return Err(failure.hint("Add --queue-url, or set FANFARE_QUEUE_URL."));
        }
    };
    let tenant = match send.tenant {
        Some(tenant) => tenant,
        None => {
            let [organization] = api.call(&Organizations::new()).await?;
            organization.id
        }
    };
    let name = send.event.unwrap_or(if send.error.is_some() { EventName::Failed } else { EventName::Completed });
    let event = Event {
        event: name,
        tenant_id: &tenant,
        job_id: &send.job,
        workflow: send.workflow.as_deref(),
        status: name.as_str().trim_start_matches("job."),
        result: send.result.as_deref(),
        error: send.error.as_deref(),
    };
    let body = serde_json::to_string(&event).map_err(|error| Failure::local(format!("{error}.")))?;
    // One group per tenant, so that fair queues keep one tenant's events from delaying those of others.
    let message = json!({ "QueueUrl": queue.as_str(), "MessageGroupId": group(tenant.as_str()), "MessageBody": body });
    let signer = if is_loopback(&queue) { None } else { Some(Signer::of_environment(&queue)?) };
    let request = request(&queue, message.to_string(), signer.as_ref(), SystemTime::now())?;
    let request =
        request.try_into().map_err(|error| Failure::local(format!("The request could not be built: {error}.")))?;
    let answer = network.client(&queue, TIMEOUT)?.send(request, MAX_RESPONSE_BYTES, TIMEOUT).await;
    let answer = answer.map_err(|missing| unreachable(&queue, &missing, "--queue-url"))?;
    let Said { message_id, message, kind } = serde_json::from_slice(&answer.body).unwrap_or_default();
    if answer.status != 200 {
        let why = cell_of(message.or(kind));
        return Err(Failure::local(format!("The queue rejected the event with HTTP {}: {why}", answer.status)));
    }
    let meaning = format!("Sent {} of {}.", cell(&name), cell(&send.job));
    Ok(print_result(&SentEvent { message_id, event }, is_json, &meaning)?)
}

/// A sent event, as printed for programs.
#[derive(Serialize)]
struct SentEvent<'a> {
    message_id: Option<String>,
    event: Event<'a>,
}

/// An SQS error response. SQS emulators spell `message` differently.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    #[serde(rename = "MessageId")]
    message_id: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
    #[serde(rename = "__type")]
    kind: Option<String>,
}

/// Returns the queue of `cargo local`.
fn local_queue() -> Result<Url, Failure> {
    let queue = Url::parse("http://127.0.0.1:9324/123456789012/job-events");
    queue.map_err(|error| Failure::local(error.to_string()))
}

/// Returns the message group for a tenant: up to 128 of the characters that SQS allows.
fn group(tenant: &str) -> String {
    tenant.chars().filter(|character| character.is_ascii_alphanumeric() || *character == '-').take(128).collect()
}

/// The credentials for a queue in AWS, and its region. A local queue does not need any.
struct Signer {
    credentials: Credentials,
    region: String,
}

impl Signer {
    fn of_environment(queue: &Url) -> Result<Self, Failure> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let needed = |name: &str| {
            set(name).ok_or_else(|| Failure::local(format!("{name} is not set, but is required for a queue in AWS.")))
        };
        let (key, secret) = (needed("AWS_ACCESS_KEY_ID")?, needed("AWS_SECRET_ACCESS_KEY")?);
        let region = region_of(queue).or_else(|| set("AWS_REGION")).map_or_else(|| needed("AWS_REGION"), Ok)?;
        // The message contains the job's result, so the connection must be encrypted.
        if queue.scheme() != "https" {
            return Err(Failure::local("--queue-url must be an https URL, unless the queue is on this machine."));
        }
        let credentials = Credentials::new(key, secret, set("AWS_SESSION_TOKEN"), None, "environment");
        Ok(Self { credentials, region })
    }
}

/// Returns the region in the queue's host name, such as `sqs.eu-central-1.amazonaws.com`.
fn region_of(queue: &Url) -> Option<String> {
    let region = queue.host_str()?.strip_prefix("sqs.")?.split('.').next()?;
    Some(region.to_owned())
}

/// Builds a call in SQS's JSON protocol.
fn request(queue: &Url, message: String, signer: Option<&Signer>, now: SystemTime) -> Result<Request<String>, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::local(format!("The message could not be signed: {error}."));
    let address = format!("{}/", queue.origin().ascii_serialization());
    let mut request = Request::post(&address)
        .header(CONTENT_TYPE, "application/x-amz-json-1.0")
        .header("x-amz-target", "AmazonSQS.SendMessage")
        .body(())
        .map_err(|error| failed(&error))?;
    if let Some(Signer { credentials, region }) = signer {
        let identity = credentials.clone().into();
        let signing = SigningParams::builder().identity(&identity).region(region).name("sqs").time(now);
        let signing = signing.settings(SigningSettings::default()).build().map_err(|error| failed(&error))?.into();
        let headers = request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let body = SignableBody::Bytes(message.as_bytes());
        let signable = SignableRequest::new("POST", &address, headers, body).map_err(|error| failed(&error))?;
        let (signature, _) = sign(signable, &signing).map_err(|error| failed(&error))?.into_parts();
        signature.apply_to_request_http1x(&mut request);
    }
    Ok(request.map(|()| message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_of_any_form_has_a_group() {
        assert_eq!(group("01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0"), "01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0");
        assert_eq!(group("a b/ü").len(), 2);
    }

    #[test]
    fn a_message_to_aws_is_signed_and_a_local_one_is_not() {
        let queue: Url = "https://sqs.eu-central-1.amazonaws.com/123456789012/job-events".parse().expect("a URL");
        assert_eq!(region_of(&queue).as_deref(), Some("eu-central-1"));
        let credentials = Credentials::new("AKID", "secret", Some("token".to_owned()), None, "test");
        let signer = Signer { credentials, region: "eu-central-1".to_owned() };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_255_377);
        let signed = request(&queue, "{}".to_owned(), Some(&signer), now).expect("a request");
        assert_eq!(signed.uri(), "https://sqs.eu-central-1.amazonaws.com/");
        let header = |name: &str| signed.headers()[name].to_str().expect("text");
        assert_eq!((header("x-amz-date"), header("x-amz-security-token")), ("20261121T100257Z", "token"));
        let scope = "AWS4-HMAC-SHA256 Credential=AKID/20261121/eu-central-1/sqs/aws4_request, \
                     SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, Signature=";
        assert!(header("authorization").starts_with(scope), "{}", header("authorization"));
        let plain = request(&queue, "{}".to_owned(), None, now).expect("a request");
        assert!(!plain.headers().contains_key("authorization"));
    }
}
