//! Serves HTTP on loopback. Connections that send nothing, or an incomplete request, are closed after a time limit.

use std::{convert::Infallible, error::Error, pin::pin, time::Duration};

use anyhow::{Context, Result};
use axum::{
    body::Body,
    http::{HeaderValue, Request, Response, StatusCode, header},
};
use bytes::Bytes;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpSocket},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The time limits for clients.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The maximum time for a request's head to arrive, starting at the connection or the previous response. This also
    /// limits the idle time.
    pub head: Duration,
    /// The maximum time from then until the response is sent. It includes a slow request body, a function's timeout,
    /// and a long poll.
    pub answer: Duration,
}

/// API Gateway waits up to 30 seconds for a function, and SQS up to 20 for a message. AWS does not document the limits
/// for clients.
impl Default for Limits {
    fn default() -> Self {
        Self { head: Duration::from_secs(30), answer: Duration::from_mins(1) }
    }
}

/// The maximum number of connections waiting to be accepted.
const BACKLOG: u32 = 1024;

/// Listens on loopback only. Port 0 picks a free port.
pub(crate) fn listen(port: u16, flag: &str) -> Result<TcpListener> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        // Accepted connections inherit this option. Without it, small responses would wait for the client's delayed
        // acknowledgment.
        socket.set_nodelay(true)?;
        socket.bind(([127, 0, 0, 1], port).into())?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on 127.0.0.1:{port}; choose another port with {flag} (0 = any)"))
}

/// Returns the address of `listener`: `http://127.0.0.1:PORT`.
pub(crate) fn address(listener: &TcpListener) -> Result<String> {
    Ok(format!("http://{}", listener.local_addr()?))
}

/// Serves every connection on `listener` with `service` until `stop`, and then completes the requests in progress.
pub(crate) async fn serve<S, B>(listener: TcpListener, service: S, limits: Limits, stop: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>,
    S: Clone + Send + Sync + 'static,
    B: hyper::body::Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head);
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The usual cause is that the process has run out of file descriptors. The next connection that closes
                // frees one.
                tracing::warn!(%error, "connection.refused");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = service.clone();
        let timed = service_fn(move |request| {
            let answer = timeout(limits.answer, service.call(request));
            async { Ok::<_, Infallible>(answer.await.map_or_else(|_| too_slow(), |Ok(answer)| answer.map(Body::new))) }
        });
        let connection = http.serve_connection(TokioIo::new(stream), timed);
        let stop = stop.clone();
        connections.spawn(async move {
            let mut connection = pin!(connection);
            let ended = match stop.run_until_cancelled(connection.as_mut()).await {
                Some(ended) => ended,
                None => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "connection.broken");
            }
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Returns the response to a request whose body did not arrive in time. The connection is closed.
fn too_slow() -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::REQUEST_TIMEOUT;
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}
