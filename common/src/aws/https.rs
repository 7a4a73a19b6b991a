//! The AWS clients' HTTP client: `hyper` with HTTP/1.1, which the AWS APIs used here support. With the SDK's own
//! client, HTTP/2, proxies and more would make up an eighth of a function's binary.

use std::{error::Error, io, sync::OnceLock};

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents};
use aws_smithy_runtime_api::client::{
    connection::{CaptureSmithyConnection, ConnectionMetadata},
    http::{HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector},
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
};
use aws_smithy_types::{body::SdkBody, retry::ErrorKind};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client, Error as ClientError,
        connect::{CaptureConnection, HttpConnector as Tcp, capture_connection},
    },
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore};

/// A connection pool that several clients can share. It reads the machine's root certificates at the first request
/// rather than during the cold start.
#[derive(Debug)]
pub(super) struct Https {
    has_tls: bool,
    connector: OnceLock<Result<SharedHttpConnector, String>>,
}

impl Https {
    pub(super) fn new() -> Self {
        Self { has_tls: true, connector: OnceLock::new() }
    }

    /// A client for services without TLS. It does not need certificates.
    pub(super) fn plain() -> Self {
        Self { has_tls: false, connector: OnceLock::new() }
    }
}

impl HttpClient for Https {
    /// Uses the first caller's settings for all clients. All of them have the same settings (see `clients`).
    fn http_connector(&self, settings: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        let connector = self.connector.get_or_init(|| {
            let pool = AwsPool::new(settings, self.has_tls).map_err(|error| error.to_string())?;
            Ok(SharedHttpConnector::new(pool))
        });
        match connector {
            Ok(connector) => connector.clone(),
            Err(error) => SharedHttpConnector::new(NoCertificates(error.clone())),
        }
    }
}

/// A connector whose calls all fail, because the certificates could not be read.
#[derive(Debug)]
struct NoCertificates(String);

impl HttpConnector for NoCertificates {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::ready(Err(ConnectorError::user(self.0.clone().into())))
    }
}

#[derive(Debug)]
struct AwsPool(Client<HttpsConnector<Tcp>, SdkBody>);

impl AwsPool {
    fn new(settings: &HttpConnectorSettings, has_tls: bool) -> io::Result<Self> {
        let mut tcp = Tcp::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(settings.connect_timeout());
        let builder = HttpsConnectorBuilder::new();
        let builder = if has_tls {
            builder.with_native_roots()?
        } else {
            let trusts_none = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
            builder.with_tls_config(trusts_none.with_no_client_auth())
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(tcp);
        Ok(Self(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector)))
    }
}

impl HttpConnector for AwsPool {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        let connection = capture_connection(&mut request);
        // After some failures, the SDK requires the next attempt to use another connection.
        if let Some(captured) = request.extensions().get::<CaptureSmithyConnection>() {
            captured.set_connection_retriever(move || metadata(&connection));
        }
        let response = self.0.request(request);
        HttpConnectorFuture::new(async move {
            let response = response.await.map_err(connector_error)?;
            HttpResponse::try_from(response.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

/// Tells the SDK how to end a connection.
fn metadata(connection: &CaptureConnection) -> Option<ConnectionMetadata> {
    let is_there = connection.connection_metadata().is_some();
    let connection = connection.clone();
    let poison = move || {
        if let Some(connected) = connection.connection_metadata().as_ref() {
            connected.poison();
        }
    };
    is_there.then(|| ConnectionMetadata::builder().proxied(false).poison_fn(poison).build())
}

/// Classifies an error for the SDK, which retries network errors and timeouts.
fn connector_error(error: ClientError) -> ConnectorError {
    let from_hyper = source::<hyper::Error>(&error);
    if from_hyper.is_some_and(hyper::Error::is_timeout) {
        ConnectorError::timeout(error.into())
    } else if from_hyper.is_some_and(hyper::Error::is_user) {
        ConnectorError::user(error.into())
    } else if error.is_connect()
        || source::<io::Error>(&error).is_some()
        || from_hyper.is_some_and(|cause| cause.is_closed() || cause.is_canceled())
    {
        ConnectorError::io(error.into())
    } else if from_hyper.is_some_and(hyper::Error::is_incomplete_message) {
        ConnectorError::other(error.into(), Some(ErrorKind::TransientError))
    } else {
        ConnectorError::other(error.into(), None)
    }
}

/// The first error of this type in the chain of causes.
fn source<E: Error + 'static>(error: &ClientError) -> Option<&E> {
    std::iter::successors(error.source(), |&cause| cause.source()).find_map(|cause| cause.downcast_ref())
}
