//! A bare client loop that repeatedly posts the same bytes over keep-alive connections, with both HMACs.
//!
//! Arguments: the number of posts, the number of concurrent posts, and the URLs, used in turn. The body is read from
//! standard input. A first wave of posts opens the connections. The program prints the wall time and the CPU time from
//! the first post after this wave to the last response, in nanoseconds.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use baseline::{Error, signed};
use bytes::Bytes;
use futures::future::join_all;
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};

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
                let request = signed(url, SECRET, &format!("msg_{number:032}"), body.clone())?;
                let response = client.request(request).await?;
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

/// The CPU time of this thread, the only one in the process.
fn cpu() -> Result<u64, Error> {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(statistics.split_whitespace().next().unwrap_or_default().parse()?)
}

#[expect(clippy::print_stdout, reason = "the benchmark reads it")]
fn print(line: &str) {
    println!("{line}");
}
