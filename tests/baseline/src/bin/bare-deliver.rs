//! A minimal function that makes the same AWS calls as `webhooks-deliver`: for each batch, one query for the endpoints
//! and batched writes of log rows; for each event, a signed post to each endpoint.
//!
//! All events in a batch belong to one tenant. Any failure fails the batch. Nothing is retried, checked, measured or
//! logged.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lambda_events::sqs::{SqsEvent, SqsMessage};
use aws_sdk_dynamodb::{
    primitives::Blob,
    types::{AttributeValue, PutRequest, WriteRequest},
};
use baseline::{Error, signed, variable};
use bytes::Bytes;
use futures::future::try_join_all;
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use lambda_runtime::{LambdaEvent, service_fn};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The maximum number of rows in a `BatchWriteItem`.
const BATCH: usize = 25;
const RETENTION: Duration = Duration::from_hours(30 * 24);

struct App {
    dynamodb: aws_sdk_dynamodb::Client,
    endpoints: String,
    deliveries: String,
    http: Client<HttpConnector, Full<Bytes>>,
}

/// The message fields that a delivery needs. The message itself is posted as it is.
#[derive(Deserialize)]
struct Message {
    event: String,
    tenant_id: String,
    job_id: String,
}

struct Endpoint {
    id: String,
    url: String,
    secret: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let app = App {
        dynamodb: baseline::dynamodb()?,
        endpoints: variable("WEBHOOK_ENDPOINTS_TABLE")?,
        deliveries: variable("DELIVERIES_TABLE")?,
        http: Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build_http(),
    };
    let app = &app;
    lambda_runtime::run(service_fn(move |event: LambdaEvent<SqsEvent>| app.handle(event.payload.records))).await
}

impl App {
    async fn handle(&self, records: Vec<SqsMessage>) -> Result<Value, Error> {
        let events: Vec<(Message, i64, Bytes)> = records.into_iter().map(parsed).collect::<Result<_, _>>()?;
        let (first, ..) = events.first().ok_or("an empty batch")?;
        let endpoints = self.endpoints(&first.tenant_id).await?;
        let deliveries = events.iter().flat_map(|(message, sent_at, body)| {
            endpoints.iter().map(move |endpoint| self.deliver(endpoint, message, *sent_at, body))
        });
        let rows = try_join_all(deliveries).await?;
        try_join_all(rows.chunks(BATCH).map(|rows| self.write(rows.to_vec()))).await?;
        Ok(json!({"batchItemFailures": []}))
    }

    async fn endpoints(&self, tenant: &str) -> Result<Vec<Endpoint>, Error> {
        let query = self
            .dynamodb
            .query()
            .table_name(&self.endpoints)
            .consistent_read(true)
            .key_condition_expression("tenant_id = :tenant AND webhook_endpoint_id >= :first")
            .expression_attribute_values(":tenant", text(tenant))
            .expression_attribute_values(":first", text("0"))
            .projection_expression("webhook_endpoint_id, #url, active, signing_secret")
            .expression_attribute_names("#url", "url");
        let found = query.send().await?;
        found
            .items()
            .iter()
            .map(|item| {
                let text = |name: &str| {
                    item.get(name)
                        .and_then(|value| value.as_s().ok())
                        .cloned()
                        .ok_or("an endpoint without a string attribute")
                };
                Ok(Endpoint { id: text("webhook_endpoint_id")?, url: text("url")?, secret: text("signing_secret")? })
            })
            .collect()
    }

    /// Posts an event to an endpoint. Returns the log row.
    async fn deliver(
        &self,
        endpoint: &Endpoint,
        message: &Message,
        sent_at: i64,
        body: &Bytes,
    ) -> Result<WriteRequest, Error> {
        let Message { event, tenant_id, job_id } = message;
        let id = hex::encode(Sha256::digest(format!("{tenant_id}/{job_id}/{event}/{}", endpoint.id)));
        let id = id.get(..32).unwrap_or(&id);
        let started = Instant::now();
        let request = signed(&endpoint.url, endpoint.secret.as_bytes(), id, body.clone())?;
        let response = self.http.request(request).await?;
        let status = response.status();
        let _answer = response.into_body().collect().await?;
        if !status.is_success() {
            return Err(status.as_str().into());
        }
        let duration = started.elapsed().as_millis();
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let last = [
            ("at", number(now.as_millis())),
            ("status_code", number(status.as_u16())),
            ("duration_ms", number(duration)),
            ("outcome", text("delivered")),
        ];
        let row = PutRequest::builder()
            .item("destination", text(format!("{tenant_id}/{}.0", endpoint.id)))
            .item("delivery", text(format!("{sent_at:013}.{id}")))
            .item("status", text("delivered"))
            .item("event", text(event))
            .item("job_id", text(job_id))
            .item("attempts", number(1))
            .item("expires_at", number((now + RETENTION).as_secs()))
            .item("last", AttributeValue::M(last.map(|(name, value)| (name.to_owned(), value)).into()))
            .item("payload", AttributeValue::B(Blob::new(body.as_ref())));
        Ok(WriteRequest::builder().put_request(row.build()?).build())
    }

    async fn write(&self, rows: Vec<WriteRequest>) -> Result<(), Error> {
        let written = self.dynamodb.batch_write_item().request_items(&self.deliveries, rows).send().await?;
        let left = written.unprocessed_items.unwrap_or_default();
        if left.is_empty() { Ok(()) } else { Err("rows are left over".into()) }
    }
}

/// A record's event, the time at which it entered the queue, and its bytes.
fn parsed(record: SqsMessage) -> Result<(Message, i64, Bytes), Error> {
    let sent_at = record.attributes.get("SentTimestamp").ok_or("a record without its time")?.parse()?;
    let body = record.body.ok_or("a record without a body")?;
    Ok((serde_json::from_str(&body)?, sent_at, body.into()))
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}
