//! One connection to a receiver, and how much of what comes over it is read.

use std::{
    error::Error,
    fmt, io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
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

/// No more is read of an answer, or of a TLS handshake. Interim responses, headers, the framing of the body and what
/// TLS adds all count: a receiver may send each of them for ever.
const MAX_BYTES: usize = 64 * 1024;
/// What a read counts at least: who sends single bytes costs us as much as who sends many.
const READ: usize = 128;
/// What an interim response (100, 102, 103) counts: a handful is usual, sixteen are too many.
const INTERIM: usize = MAX_BYTES / 16;

/// What may still be read.
#[derive(Debug)]
pub(crate) struct Meter(AtomicUsize);

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(MAX_BYTES)))
    }

    fn refill(&self) {
        self.0.store(MAX_BYTES, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) == MAX_BYTES
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn count(&self, bytes: usize) {
        // Nobody else counts at the same time: a connection is polled by one attempt.
        self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(bytes), Ordering::Relaxed);
    }
}

/// More came than is read.
#[derive(Debug)]
pub(crate) struct TooMuch;

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more came than is read")
    }
}

impl Error for TooMuch {}

/// A stream of which no more is read than its meter lets through.
pub(crate) struct Metered<S> {
    stream: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, meter: Arc<Meter>) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, to))?;
        let read = to.filled().len() - before;
        if read > 0 {
            self.meter.count(read.max(READ));
        }
        Poll::Ready(if self.meter.is_spent() { Err(io::Error::other(TooMuch)) } else { Ok(()) })
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
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

/// A connection that speaks HTTP/1.1. Nothing of it runs on its own: it moves while a request is sent, and closes when
/// it is dropped, so an attempt that is out of time leaves nothing behind.
pub(crate) struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    /// What reads and writes; gone once the connection is closed.
    driver: Option<BoxFuture<'static, hyper::Result<()>>>,
    /// The meters of what comes over the wire and of what HTTP gets of it; without TLS they are one.
    wire: Arc<Meter>,
    answer: Arc<Meter>,
    _room: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// A connection over `stream`, whose innermost layer counts on `wire`, for as long as it has `room`.
    pub(crate) async fn over<S>(
        stream: Metered<S>,
        wire: Arc<Meter>,
        room: Option<OwnedSemaphorePermit>,
    ) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let answer = Arc::clone(&stream.meter);
        let (requests, driver) = http1::Builder::new().max_buf_size(MAX_BYTES).handshake(TokioIo::new(stream)).await?;
        Ok(Self { requests, driver: Some(Box::pin(driver)), wire, answer, _room: room })
    }

    /// Sends a request, and reads as much of the answer as `read` wants.
    pub(crate) async fn send<T>(
        &mut self,
        mut request: Request<Full<Bytes>>,
        read: impl AsyncFnOnce(Response<Incoming>) -> T,
    ) -> hyper::Result<T> {
        self.wire.refill();
        self.answer.refill();
        let answer = Arc::clone(&self.answer);
        // Where it is one too many, the next read says so.
        on_informational(&mut request, move |_| answer.count(INTERIM));
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

    /// Whether nothing has come back since the last request was sent.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.answer.is_full()
    }

    /// Whether it is open and done with what it was used for: it can be used again.
    pub(crate) fn is_idle(&mut self) -> bool {
        // It also lets go of the task that used it.
        let context = &mut Context::from_waker(Waker::noop());
        self.driver.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_pending())
            && self.requests.is_ready()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn no_more_is_read_than_the_meter_lets_through() {
        for (length, piece, lets_through) in
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
            assert_eq!(end.is_ok(), lets_through, "{length}: {end:?}");
        }
    }
}
