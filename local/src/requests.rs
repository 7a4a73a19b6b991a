//! The requests that the functions and the pollers send to DynamoDB and SQS, counted as an AWS bill would. Requests are
//! counted where they are sent, so those from other programs are not included.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use aws_smithy_runtime_api::client::{
    http::{HttpClient, HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn},
    orchestrator::HttpRequest,
};
use common::aws::clients::plain_http;

use crate::embedded::Embedded;

/// The number of requests so far, including failed ones and retries.
#[derive(Debug, Default)]
pub(crate) struct RequestCounts {
    pub(crate) dynamodb: AtomicU64,
    pub(crate) sqs: AtomicU64,
    /// The services in this process, if there are any.
    embedded: Option<Embedded>,
}

impl RequestCounts {
    /// Requests to these services do not need a connection.
    pub(crate) fn to(embedded: Embedded) -> Self {
        Self { embedded: Some(embedded), ..Self::default() }
    }

    /// Returns an HTTP client with separate connections whose requests are counted.
    pub(crate) fn client(self: &Arc<Self>) -> SharedHttpClient {
        let (requests, client) = (Arc::clone(self), plain_http());
        http_client_fn(move |settings, components| {
            let connector = client.http_connector(settings, components);
            SharedHttpConnector::new(Counting { requests: Arc::clone(&requests), connector })
        })
    }
}

#[derive(Debug)]
struct Counting {
    requests: Arc<RequestCounts>,
    connector: SharedHttpConnector,
}

impl HttpConnector for Counting {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let counter = match request.headers().get("x-amz-target") {
            Some(target) if target.starts_with("DynamoDB_") => Some(&self.requests.dynamodb),
            Some(target) if target.starts_with("AmazonSQS.") => Some(&self.requests.sqs),
            _ => None,
        };
        if let Some(counter) = counter {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let embedded = self.requests.embedded.as_ref();
        embedded.and_then(|embedded| embedded.call(&request)).unwrap_or_else(|| self.connector.call(request))
    }
}
