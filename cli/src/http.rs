//! One HTTP client for the service and for programs on this machine. It follows no redirects.

use std::{error::Error as _, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use crate::failure::Failure;

/// Sends requests. Connections are kept.
#[derive(Clone)]
pub(crate) struct Http(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// Why nothing came back, in the words of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    Timeout,
    Dns,
    Connect,
    Tls,
    Protocol,
}

impl NoAnswer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Protocol => "protocol",
        }
    }
}

impl Http {
    pub(crate) fn new() -> Result<Self, Failure> {
        let connector = HttpsConnectorBuilder::new().with_native_roots()?.https_or_http().enable_http1().build();
        Ok(Self(Client::builder(TokioExecutor::new()).pool_max_idle_per_host(16).build(connector)))
    }

    /// Sends a request. At most `most` bytes of the answer are read; more is no answer.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        most: usize,
        timeout: Duration,
    ) -> Result<Answer, NoAnswer> {
        let exchange = async {
            let (head, body) = self.0.request(request).await.map_err(|error| kind(&error))?.into_parts();
            let body = Limited::new(body, most).collect().await.map_err(|_broken| NoAnswer::Protocol)?.to_bytes();
            Ok(Answer { status: head.status.as_u16(), body })
        };
        tokio::time::timeout(timeout, exchange).await.unwrap_or(Err(NoAnswer::Timeout))
    }
}

fn kind(error: &hyper_util::client::legacy::Error) -> NoAnswer {
    if !error.is_connect() {
        return NoAnswer::Protocol;
    }
    let (mut cause, mut kind) = (error.source(), NoAnswer::Connect);
    while let Some(error) = cause {
        let text = error.to_string();
        if text.contains("dns error") {
            kind = NoAnswer::Dns;
        } else if text.contains("certificate") || text.contains("tls") || text.contains("handshake") {
            kind = NoAnswer::Tls;
        }
        cause = error.source();
    }
    kind
}
