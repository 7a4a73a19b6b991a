//! A connection to a receiver, with a limit on the bytes that are read from it.

use std::{
    error::Error,
    fmt, io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use futures::future::{BoxFuture, poll_fn};
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1, ext::on_informational};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::OwnedSemaphorePermit,
};

/// The maximum number of bytes to read for a response or a TLS handshake. Interim responses, headers, the framing of
/// the body and the TLS overhead all count, because a receiver could send an endless amount of each.
const MAX_BYTES: usize = 64 * 1024;
/// The minimum number of bytes counted per read, because reading one byte costs as much as reading many.
const MIN_COUNTED_BYTES: usize = 128;
/// The maximum number of header lines in a response. A line of four bytes takes up thirty times as much memory.
const MAX_HEADERS: usize = 1024;
/// The number of bytes that an interim response (100, 102, 103) counts as. A few are normal; sixteen are too many.
const INTERIM_RESPONSE_BYTES: usize = MAX_BYTES / 16;

/// Counts the bytes that are read.
#[derive(Debug)]
pub(super) struct Meter {
    /// The number of bytes that may still be read.
    left: AtomicUsize,
    /// Whether a response began with an HTTP/2 frame.
    is_http2: AtomicBool,
    /// Whether the bytes since the last refill begin with anything but a status line.
    is_stray: AtomicBool,
    /// Whether a write found that the receiver has closed the connection.
    is_closed: AtomicBool,
}

impl Meter {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(MAX_BYTES),
            is_http2: AtomicBool::new(false),
            is_stray: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    fn refill(&self) {
        self.left.store(MAX_BYTES, Ordering::Relaxed);
        self.is_stray.store(false, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.left.load(Ordering::Relaxed) == MAX_BYTES
    }

    fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    fn count(&self, bytes: &[u8]) {
        if self.is_full() {
            self.is_http2.fetch_or(is_http2_frame(bytes), Ordering::Relaxed);
            self.is_stray.store(!begins_status_line(bytes), Ordering::Relaxed);
        }
        self.charge(bytes.len().max(MIN_COUNTED_BYTES));
    }

    fn charge(&self, bytes: usize) {
        // There is no race, because only one attempt polls a connection.
        self.left.store(self.left.load(Ordering::Relaxed).saturating_sub(bytes), Ordering::Relaxed);
    }
}

/// Whether `bytes` begin with a frame that begins or ends an HTTP/2 connection: SETTINGS or GOAWAY, on stream 0 and
/// smaller than 64 KiB (RFC 9113, section 4.1).
fn is_http2_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [0, _, _, 4 | 7, _, 0, 0, 0, 0, ..])
}

/// Whether `bytes` begin like a status line, which empty lines may precede.
fn begins_status_line(bytes: &[u8]) -> bool {
    const RESPONSE_PREFIX: &[u8] = b"HTTP/";
    let line = bytes.trim_ascii_start();
    line.starts_with(RESPONSE_PREFIX) || RESPONSE_PREFIX.starts_with(line)
}

/// The receiver sent more than the limit.
#[derive(Debug)]
pub(super) struct TooMuch;

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the receiver sent more than the limit")
    }
}

impl Error for TooMuch {}

/// A stream that fails once its meter is exhausted.
///
/// A write does not fail, so that what has arrived is read: a receiver may refuse a large request without reading it
/// (RFC 9110, section 15.5.14) and close the connection, and after an error `hyper` would not read its response.
pub(super) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }

    /// The result of writing `bytes`, which are lost if the receiver has closed the connection. The next read then
    /// returns the rest of what it sent, and its end.
    fn written(&self, result: io::Result<usize>, bytes: usize) -> usize {
        result.unwrap_or_else(|_closed| {
            self.meter.is_closed.store(true, Ordering::Relaxed);
            bytes
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, to))?;
        if let Some(read) = to.filled().get(before..).filter(|read| !read.is_empty()) {
            self.meter.count(read);
        }
        Poll::Ready(if self.meter.is_spent() { Err(io::Error::other(TooMuch)) } else { Ok(()) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        Poll::Ready(Ok(self.written(result, bytes.len())))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, bytes));
        Poll::Ready(Ok(self.written(result, bytes.iter().map(|bytes| bytes.len()).sum())))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// An HTTP/1.1 connection. It does not use a background task: it makes progress only during a request, and closes when
/// dropped, so an attempt that times out leaves nothing running.
pub(super) struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    /// Performs reads and writes; `None` if the connection is closed.
    driver: Option<BoxFuture<'static, hyper::Result<()>>>,
    /// Counts the bytes that arrive over TCP.
    wire: Arc<Meter>,
    /// Counts the bytes that arrive inside TLS. Without TLS, this is the same meter as `wire`.
    response: Arc<Meter>,
    /// Counts this connection against the pool's limit.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// Opens a connection over `stream`. `wire` counts the stream's TCP bytes. The connection releases `permit` when it
    /// closes.
    pub(super) async fn over<S>(
        stream: Metered<S>,
        wire: Arc<Meter>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let response = Arc::clone(&stream.meter);
        // Accepts the invalid headers that common clients accept, because servers send such headers, which rarely
        // matter for a delivery.
        let mut builder = http1::Builder::new();
        builder.max_headers(MAX_HEADERS).allow_spaces_after_header_name_in_responses(true);
        builder.allow_obsolete_multiline_headers_in_responses(true).ignore_invalid_headers_in_responses(true);
        let (requests, driver) = builder.max_buf_size(MAX_BYTES).handshake(TokioIo::new(stream)).await?;
        Ok(Self { requests, driver: Some(Box::pin(driver)), wire, response, _permit: permit })
    }

    /// Sends a request, and calls `read` with the response.
    pub(super) async fn send<T>(
        &mut self,
        mut request: Request<Full<Bytes>>,
        read: impl AsyncFnOnce(Response<Incoming>) -> T,
    ) -> hyper::Result<T> {
        self.wire.refill();
        self.response.refill();
        let meter = Arc::clone(&self.response);
        // If this exhausts the meter, the next read fails.
        on_informational(&mut request, move |_| meter.charge(INTERIM_RESPONSE_BYTES));
        let response = self.requests.send_request(request);
        let driver = &mut self.driver;
        let mut exchange = pin!(async { Ok(read(response.await?).await) });
        poll_fn(|context| {
            if driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
                *driver = None;
            }
            exchange.as_mut().poll(context)
        })
        .await
    }

    /// Whether nothing has been received since the last request.
    pub(super) fn is_unanswered(&self) -> bool {
        self.response.is_full()
    }

    /// Whether `error` shows nothing about the last request: the connection closed before any byte arrived, the request
    /// was not sent, or the bytes that arrived are no response, but for example the rest of an earlier one.
    pub(super) fn has_no_response(&self, error: &hyper::Error) -> bool {
        self.is_unanswered() || error.is_canceled() || self.response.is_stray.load(Ordering::Relaxed)
    }

    /// Whether the receiver sent more than the limit.
    pub(super) fn is_spent(&self) -> bool {
        self.response.is_spent() || self.wire.is_spent()
    }

    /// Whether the receiver speaks HTTP/2 although the client did not request it.
    pub(super) fn is_http2(&self) -> bool {
        self.response.is_http2.load(Ordering::Relaxed)
    }

    /// Whether the connection can be reused, because it is open and has finished the last exchange.
    pub(super) fn is_idle(&mut self) -> bool {
        // Polling also replaces the waker, which releases the task that last used the connection.
        let context = &mut Context::from_waker(Waker::noop());
        let is_closed = [&self.wire, &self.response].iter().any(|meter| meter.is_closed.load(Ordering::Relaxed));
        !is_closed
            && self.driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_pending())
            && self.requests.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// A receiver that closes the connection without reading the request, with or without a response.
    struct Refuses {
        response: &'static [u8],
        is_refused: bool,
    }

    impl AsyncRead for Refuses {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            to: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if !self.is_refused {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Pin::new(&mut self.response).poll_read(context, to)
        }
    }

    impl AsyncWrite for Refuses {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            self.is_refused = true;
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_response_to_a_request_that_is_not_read_counts() {
        let refused = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
        for (response, status) in [(refused.as_slice(), Some(413)), (b"", None)] {
            let (stream, wire) = (Refuses { response, is_refused: false }, Meter::new());
            let stream = Metered::new(stream, Arc::clone(&wire));
            let mut connection = Connection::over(stream, wire, None).await.expect("a connection");
            let request = Request::post("/").body(Full::new(Bytes::from_static(b"{}"))).expect("a request");
            let response = connection.send(request, async |response| response.status().as_u16()).await;
            assert_eq!(response.ok(), status);
            assert!(!connection.is_idle(), "a connection that cannot be written is not reused");
        }
    }

    #[tokio::test]
    async fn no_more_is_read_than_the_meter_allows() {
        for (length, piece, allowed) in
            [(MAX_BYTES - 1, 4096, true), (MAX_BYTES, 4096, false), (500, 1, true), (512, 1, false)]
        {
            let bytes = vec![b'.'; length];
            let (mut stream, mut piece) = (Metered::new(bytes.as_slice(), Meter::new()), vec![0; piece]);
            let end = loop {
                match stream.read(&mut piece).await {
                    Ok(0) => break Ok(()),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            };
            assert_eq!(end.is_ok(), allowed, "{length}: {end:?}");
        }
    }
}
