//! Receivers that behave badly, below HTTP.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// What a receiver does with a request.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// It reads, and never answers.
    Hangs,
    /// It closes the connection without an answer.
    Closes,
    /// It answers 200 and a body of one byte a second.
    Drips,
    /// It answers 200 and 200 MiB.
    Floods,
    /// It answers 200, a part of the body, and resets the connection.
    ResetsMidBody,
    /// It says something that is not HTTP.
    SpeaksGarbage,
    /// It answers 200 with headers that do not end.
    HeadersWithoutEnd,
}

/// A receiver with bad manners on a loopback port.
pub struct Rough {
    url: String,
    server: JoinHandle<()>,
}

impl Rough {
    /// A receiver of this manner.
    pub async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // What the other side does to the connection is its business.
                tokio::spawn(async move { serve(stream, manner).await.ok() });
            }
        });
        Self { url, server }
    }

    /// Its URL.
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

async fn serve(mut stream: TcpStream, manner: Manner) -> std::io::Result<()> {
    let mut request = [0; 16 * 1024];
    let _read = stream.read(&mut request).await?;
    match manner {
        Manner::Hangs => tokio::time::sleep(Duration::from_secs(600)).await,
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
    }
    Ok(())
}
