//! Receivers that violate HTTP.

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
    task::JoinHandle,
    time::Instant,
};

/// The way in which a receiver treats a request.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// Reads the request, and never responds.
    Hangs,
    /// Closes the connection without responding.
    Closes,
    /// Responds with 200 and a body that arrives at one byte per second.
    Drips,
    /// Responds with 200 and 200 MiB.
    Floods,
    /// Responds with 200 and part of the body, then resets the connection.
    ResetsMidBody,
    /// Responds with bytes that are not HTTP.
    SpeaksGarbage,
    /// Responds with 200 and endless headers.
    HeadersWithoutEnd,
    /// Responds with endless `100 Continue`.
    Continues,
    /// Responds with 200 and a chunk with an endless length.
    ChunkLengthWithoutEnd,
    /// Responds with 204, and closes the connection without announcing it.
    ClosesAfterEach,
}

/// A misbehaving receiver on a loopback port.
pub struct Rough {
    url: String,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    server: JoinHandle<()>,
}

impl Rough {
    /// Starts a receiver with this behavior.
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let arrivals = Arc::<Mutex<_>>::default();
        let shared = Arc::clone(&arrivals);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let arrivals = Arc::clone(&shared);
                // The peer may close the connection first.
                tokio::spawn(async move { serve(stream, manner, &arrivals).await.ok() });
            }
        });
        Self { url, arrivals, server }
    }

    /// The arrival times of its requests.
    pub async fn arrivals(&self) -> Vec<Instant> {
        self.arrivals.lock().await.clone()
    }

    /// The receiver's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Rough {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(mut stream: TcpStream, manner: Manner, arrivals: &Mutex<Vec<Instant>>) -> std::io::Result<()> {
    let mut request = [0; 16 * 1024];
    if stream.read(&mut request).await? > 0 {
        arrivals.lock().await.push(Instant::now());
    }
    match manner {
        Manner::Hangs => tokio::time::sleep(Duration::from_mins(10)).await,
        Manner::Closes => {}
        Manner::SpeaksGarbage => stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n\r\n").await?,
        Manner::Drips => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await?;
            loop {
                stream.write_all(b".").await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        Manner::Floods => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 209715200\r\n\r\n").await?;
            let chunk = vec![b'.'; 1024 * 1024];
            for _ in 0..200 {
                stream.write_all(&chunk).await?;
            }
        }
        Manner::ResetsMidBody => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n.....").await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            stream.set_zero_linger()?;
        }
        Manner::HeadersWithoutEnd => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                stream.write_all(b"x-more: and more and more and more and more and more\r\n").await?;
            }
        }
        Manner::Continues => {
            let many = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
            loop {
                stream.write_all(&many).await?;
            }
        }
        Manner::ChunkLengthWithoutEnd => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'0'; 4096]).await?;
            }
        }
        Manner::ClosesAfterEach => stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?,
    }
    Ok(())
}
