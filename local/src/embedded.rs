//! Calls of the functions and pollers to the embedded DynamoDB and SQS, which are in the same process: the AWS SDK's
//! requests reach the services without a socket and without HTTP. Other programs call the same services at their ports.

use std::{fmt, sync::Arc};

use aws_smithy_runtime_api::{
    client::{
        http::HttpConnectorFuture,
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use dynoxide::{Database, DynoxideError};
use rustack_sqs_http::dispatch::SqsHandler;
use rustack_sqs_model::operations::SqsOperation;
use serde::{Serialize, de::DeserializeOwned};

use crate::{queues::Queues, recording::Recording};

/// The embedded services, with their addresses.
#[derive(Clone)]
pub(crate) struct Embedded {
    pub(crate) database: Database,
    /// The file for the calls to DynamoDB, if they are recorded.
    pub(crate) recording: Option<Arc<Recording>>,
    pub(crate) dynamodb: String,
    pub(crate) queues: Queues,
    pub(crate) sqs: String,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").field("dynamodb", &self.dynamodb).field("sqs", &self.sqs).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Calls a service. Returns `None` for a request to another address, or for an operation that needs the service's
    /// HTTP server.
    pub(crate) fn call(&self, request: &HttpRequest) -> Option<HttpConnectorFuture> {
        let (_, operation) = request.headers().get("x-amz-target")?.split_once('.')?;
        let body = Bytes::copy_from_slice(request.body().bytes()?);
        match request.uri().trim_end_matches('/') {
            uri if uri == self.dynamodb => {
                let act = action(operation)?;
                let database = self.database.clone();
                let recording = self.recording.clone().map(|recording| (recording, operation.to_owned()));
                // A task of its own, as for a request from a socket: the calls of an invocation run side by side, and
                // one that has begun takes effect even if its caller stops waiting.
                let answer = tokio::spawn(async move {
                    let call = || act(&database, &body);
                    match recording {
                        Some((recording, operation)) => recording.record(&operation, &body, call),
                        None => call(),
                    }
                });
                Some(HttpConnectorFuture::new(async move {
                    let answer = answer.await.map_err(|error| ConnectorError::other(error.into(), None))?;
                    let (status, body) = match answer {
                        Ok(body) => (200, body),
                        Err(error) => (error.status_code(), error.to_json()),
                    };
                    let status = StatusCode::try_from(status).map_err(|error| ConnectorError::user(error.into()))?;
                    Ok(HttpResponse::new(status, SdkBody::from(body)))
                }))
            }
            uri if uri == self.sqs => {
                let (queues, operation) = (self.queues.clone(), SqsOperation::from_name(operation)?);
                // Without a task: if the caller stops waiting, no messages are received for it.
                Some(HttpConnectorFuture::new(async move {
                    let answer = queues.handle_operation(operation, body).await;
                    let response = answer.map_err(|error| ConnectorError::other(error.into(), None))?;
                    HttpResponse::try_from(response.map(SdkBody::from_body_1_x))
                        .map_err(|error| ConnectorError::other(error.into(), None))
                }))
            }
            _ => None,
        }
    }
}

/// Executes an operation, with the body of its request, and returns the body of the response.
pub type Action = fn(&Database, &[u8]) -> Result<String, DynoxideError>;

/// Returns the action of an operation of DynamoDB, or `None` if no function uses the operation.
pub fn action(operation: &str) -> Option<Action> {
    Some(match operation {
        "GetItem" => |database, body| act(body, |input| database.get_item(input)),
        "PutItem" => |database, body| act(body, |input| database.put_item(input)),
        "UpdateItem" => |database, body| act(body, |input| database.update_item(input)),
        "DeleteItem" => |database, body| act(body, |input| database.delete_item(input)),
        "Query" => |database, body| act(body, |input| database.query(input)),
        "BatchGetItem" => |database, body| act(body, |input| database.batch_get_item(input)),
        "BatchWriteItem" => |database, body| act(body, |input| database.batch_write_item(input)),
        "ExecuteStatement" => |database, body| act(body, |input| database.execute_statement(input)),
        "BatchExecuteStatement" => |database, body| act(body, |input| database.batch_execute_statement(input)),
        "TransactWriteItems" => |database, body| act(body, |input| database.transact_write_items(input)),
        _ => return None,
    })
}

fn act<I: DeserializeOwned, O: Serialize>(
    body: &[u8],
    execute: impl FnOnce(I) -> Result<O, DynoxideError>,
) -> Result<String, DynoxideError> {
    let input = serde_json::from_slice(body).map_err(|error| DynoxideError::ValidationException(error.to_string()))?;
    serde_json::to_string(&execute(input)?).map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}
