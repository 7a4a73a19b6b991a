//! The embedded SQS, with fair queues.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use rustack_sqs_core::{config::SqsConfig, handler::RustackSqsHandler, provider::RustackSqs};
use rustack_sqs_http::{
    body::SqsResponseBody,
    dispatch::SqsHandler,
    service::{SqsHttpConfig, SqsHttpService},
};
use rustack_sqs_model::{error::SqsError, operations::SqsOperation};
use serde_json::Value;

/// SQS takes a `MessageGroupId` on a standard queue too, and shares the queue fairly between the groups. The embedded
/// one refuses it there. The order in which groups are served is no part of a queue's contract, so leaving it away
/// changes nothing that a program could rely on.
pub(crate) struct FairQueues(RustackSqsHandler);

/// The HTTP service of queues whose addresses start with `http://127.0.0.1:port/account`.
pub(crate) fn service(region: &str, account: &str, port: u16) -> SqsHttpService<FairQueues> {
    let config = SqsConfig {
        default_region: region.to_owned(),
        account_id: account.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        skip_signature_validation: true,
    };
    let queues = FairQueues(RustackSqsHandler::new(Arc::new(RustackSqs::new(config))));
    SqsHttpService::new(Arc::new(queues), SqsHttpConfig { region: region.to_owned(), ..Default::default() })
}

impl SqsHandler for FairQueues {
    fn handle_operation(
        &self,
        operation: SqsOperation,
        body: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<axum::http::Response<SqsResponseBody>, SqsError>> + Send>> {
        let body = match operation {
            SqsOperation::SendMessage | SqsOperation::SendMessageBatch => without_group(body),
            _ => body,
        };
        self.0.handle_operation(operation, body)
    }
}

fn without_group(body: Bytes) -> Bytes {
    let Ok(Value::Object(mut request)) = serde_json::from_slice(&body) else {
        // The embedded service says what is wrong with it.
        return body;
    };
    if request.get("QueueUrl").and_then(Value::as_str).is_some_and(|url| url.ends_with(".fifo")) {
        return body;
    }
    request.remove("MessageGroupId");
    let entries = request.get_mut("Entries").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        entry.remove("MessageGroupId");
    }
    Value::Object(request).to_string().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(request: &Value) -> serde_json::Result<Value> {
        serde_json::from_slice(&without_group(request.to_string().into()))
    }

    #[test]
    fn the_group_is_left_away_on_standard_queues_only() -> serde_json::Result<()> {
        let one = json!({"QueueUrl": "http://q/1/jobs", "MessageGroupId": "a", "MessageBody": "{}"});
        assert_eq!(sent(&one)?, json!({"QueueUrl": "http://q/1/jobs", "MessageBody": "{}"}));
        let batch = json!({"QueueUrl": "http://q/1/jobs", "Entries": [{"Id": "1", "MessageGroupId": "a"}]});
        assert_eq!(sent(&batch)?, json!({"QueueUrl": "http://q/1/jobs", "Entries": [{"Id": "1"}]}));
        let fifo = json!({"QueueUrl": "http://q/1/jobs.fifo", "MessageGroupId": "a"});
        assert_eq!(sent(&fifo)?, fifo);
        Ok(())
    }
}
