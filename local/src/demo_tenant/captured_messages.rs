//! Intercepts the messages that a function sends in the simulated past, because SQS would count their delays from now.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::{Context, Result};
use aws_smithy_runtime_api::{
    client::{
        http::{HttpClient, HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn},
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use aws_smithy_types::body::SdkBody;
use common::lock::lock;
use serde_json::{Value, json};

/// A message and its delay.
#[derive(Debug)]
pub(super) struct CapturedMessage {
    pub(super) queue: String,
    pub(super) body: String,
    pub(super) delay: Duration,
}

/// The intercepted messages.
#[derive(Debug, Clone, Default)]
pub(super) struct Caught(Arc<Mutex<Vec<CapturedMessage>>>);

impl Caught {
    /// Returns the messages intercepted since the last call.
    pub(super) fn take(&self) -> Vec<CapturedMessage> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// Wraps `client` so that its messages are intercepted.
    pub(super) fn over(&self, client: SharedHttpClient) -> SharedHttpClient {
        let caught = self.clone();
        http_client_fn(move |settings, components| {
            let connector = client.http_connector(settings, components);
            SharedHttpConnector::new(Catching { caught: caught.clone(), connector })
        })
    }

    fn batch(&self, body: &[u8]) -> Result<HttpResponse> {
        let batch: Value = serde_json::from_slice(body)?;
        let url = batch.get("QueueUrl").and_then(Value::as_str).context("a batch without a queue")?;
        let queue = url.rsplit('/').next().unwrap_or_default();
        let mut sent = lock(&self.0);
        let mut taken = Vec::new();
        for entry in batch.get("Entries").and_then(Value::as_array).into_iter().flatten() {
            let body = entry.get("MessageBody").and_then(Value::as_str).context("a message without a body")?;
            let delay = Duration::from_secs(entry.get("DelaySeconds").and_then(Value::as_u64).unwrap_or(0));
            sent.push(CapturedMessage { queue: queue.to_owned(), body: body.to_owned(), delay });
            taken.push(json!({"Id": entry.get("Id"), "MessageId": uuid::Uuid::new_v4(), "MD5OfMessageBody": ""}));
        }
        let answer = json!({"Successful": taken, "Failed": []}).to_string();
        Ok(HttpResponse::new(StatusCode::try_from(200)?, SdkBody::from(answer)))
    }
}

#[derive(Debug)]
struct Catching {
    caught: Caught,
    connector: SharedHttpConnector,
}

impl HttpConnector for Catching {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if request.headers().get("x-amz-target") != Some("AmazonSQS.SendMessageBatch") {
            return self.connector.call(request);
        }
        let answer = self.caught.batch(request.body().bytes().unwrap_or_default());
        HttpConnectorFuture::ready(answer.map_err(|error| ConnectorError::user(error.into())))
    }
}
