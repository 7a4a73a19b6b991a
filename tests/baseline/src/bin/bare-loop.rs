//! A bare client loop: posts the same bytes repeatedly over keep-alive connections, with both HMACs.
//!
//! Arguments: the number of posts, how many may run concurrently, and the URLs, used in turn; the body comes from
//! standard input. A first wave of posts opens the connections. Then it prints the wall time and the CPU time from the
//! first post to the last response, in nanoseconds.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use futures::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use sha2::Sha256;

type Error = Box<dyn std::error::Error + Send + Sync>;

const SECRET: &[u8] = b"a secret of some length";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().ok_or("too few arguments")?.parse::<usize>().map_err(Error::from);
    let (posts, at_once) = (number()?, number()?);
    let urls: Vec<String> = arguments.collect();
    let body = Bytes::from(std::io::read_to_string(std::io::stdin())?);
    let client = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build_http();
    let post = async |posts: usize| {
        let next = AtomicUsize::new(0);
        let lanes = (0..at_once).map(|_| async {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= posts {
                    return Ok::<(), Error>(());
                }
                let url = urls.get(number % urls.len()).ok_or("no URL")?;
                let response = client.request(request(url, number, body.clone())?).await?;
                let _answer = response.into_body().collect().await?;
            }
        });
        join_all(lanes).await.into_iter().collect::<Result<Vec<()>, Error>>()
    };
    post(at_once).await?;
    let (started, cpu) = (Instant::now(), cpu()?);
    post(posts).await?;
    print(&format!("{} {}", started.elapsed().as_nanos(), self::cpu()? - cpu));
    Ok(())
}

fn request(url: &str, number: usize, body: Bytes) -> Result<Request<Full<Bytes>>, Error> {
    let (id, timestamp) = (format!("msg_{number:032}"), SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let plain = hex::encode(hmac(&[&body])?);
    let standard = hex::encode(hmac(&[format!("{id}.{timestamp}.").as_bytes(), &body])?);
    let request = Request::post(url)
        .header("content-type", "application/json")
        .header("x-webhook-signature", plain)
        .header("webhook-id", id)
        .header("webhook-timestamp", timestamp)
        .header("webhook-signature", standard);
    Ok(request.body(Full::new(body))?)
}

fn hmac(parts: &[&[u8]]) -> Result<[u8; 32], Error> {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET)?;
    for part in parts {
        mac.update(part);
    }
    Ok(mac.finalize().into_bytes().into())
}

/// The CPU time of this thread, the only one.
fn cpu() -> Result<u64, Error> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(statistics.split_whitespace().next().unwrap_or_default().parse()?)
}

#[expect(clippy::print_stdout, reason = "the benchmark reads it")]
fn print(line: &str) {
    println!("{line}");
}
