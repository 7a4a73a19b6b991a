//! Bytes sent to the socket of the local API.

use std::time::Duration;

use fastrand::Rng;
use futures::{StreamExt, stream};
use serde_json::Value;
use tests::{Tenant, World};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{query, route, run, spoil, text};

/// The time after which a request is considered incomplete.
const QUIET: Duration = Duration::from_secs(1);
/// The time limit for a request, sufficient on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// `usual`, or occasionally a different value. Only one or two parts of a request should be unusual, so that the code
/// after the first parser is also tested.
fn mostly(rng: &mut Rng, usual: &str) -> String {
    if rng.u8(..24) > 0 { usual.to_owned() } else { text(rng) }
}

/// A request to one of the routes, valid except for some parts and bytes.
fn request(rng: &mut Rng, tenant: &Tenant, api: &str) -> Vec<u8> {
    let (_, method, path, body) = route(rng);
    let mut line = format!("{} {}", mostly(rng, method), mostly(rng, path));
    if rng.u8(..4) == 0 {
        line = format!("{line}?{}", query(rng));
    }
    let host = api.trim_start_matches("http://");
    let mut headers = vec![format!("{line} {}", mostly(rng, "HTTP/1.1")), "connection: close".to_owned()];
    for (name, usual) in [("host", host), ("x-api-key", &tenant.key), ("cookie", &tenant.cookie), ("origin", api)] {
        // Some headers occur twice, and some are missing.
        for _ in 0..rng.choice([0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]).unwrap_or_default() {
            headers.push(format!("{}: {}", mostly(rng, name), mostly(rng, usual)));
        }
    }
    for name in
        ["x-forwarded-proto", "x-forwarded-for", "content-type", "content-encoding", "expect", "upgrade", "accept"]
    {
        if rng.u8(..24) == 0 {
            headers.push(format!("{name}: {}", text(rng)));
        }
    }
    let body = content(rng, &body);
    let body = framed(rng, &mut headers, body);
    let mut request = headers.join("\r\n").into_bytes();
    request.extend(b"\r\n\r\n");
    request.extend(body);
    if rng.u8(..8) == 0 {
        noise(rng, &mut request);
    }
    request
}

/// A body: the usual one, one with different members, or a random one.
fn content(rng: &mut Rng, usual: &str) -> Vec<u8> {
    match rng.u8(..5) {
        0 => text(rng).into_bytes(),
        1 => {
            let mut body: Value = serde_json::from_str(usual).unwrap_or_default();
            spoil(rng, &mut body);
            body.to_string().into_bytes()
        }
        _ => usual.as_bytes().to_vec(),
    }
}

/// The body as sent. Also adds headers that describe the body, correctly or not.
fn framed(rng: &mut Rng, headers: &mut Vec<String>, body: Vec<u8>) -> Vec<u8> {
    match rng.u8(..16) {
        0 => headers.push(format!("content-length: {}", text(rng))),
        1 => headers.push(format!("content-length: {}", body.len().saturating_add_signed(rng.isize(-5..5)))),
        2 => headers.extend(["content-length: 2".to_owned(), format!("content-length: {}", body.len())]),
        3..6 => {
            headers.push(format!("transfer-encoding: {}", mostly(rng, "chunked")));
            let mut chunks = Vec::new();
            for chunk in body.chunks(rng.usize(1..100)) {
                chunks.extend(mostly(rng, &format!("{:x}", chunk.len())).bytes().chain(*b"\r\n"));
                chunks.extend(chunk.iter().chain(b"\r\n"));
            }
            chunks.extend(mostly(rng, "0\r\n\r\n").bytes());
            return chunks;
        }
        _ => headers.push(format!("content-length: {}", body.len())),
    }
    body
}

/// Changes, adds and removes a few bytes.
fn noise(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.u8(1..5) {
        let at = rng.usize(..bytes.len().max(1));
        match rng.u8(..4) {
            0 => bytes.insert(at, rng.u8(..)),
            1 => drop(bytes.drain(at..(at + rng.usize(..8)).min(bytes.len()))),
            2 => bytes.truncate(at.max(1)),
            _ => bytes.get_mut(at).into_iter().for_each(|byte| *byte = rng.u8(..)),
        }
    }
}

/// The response up to the end of the connection. `None` is acceptable if the service may close the connection or did
/// not read the whole request.
async fn exchange(address: &str, request: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await.expect("the API accepts connections");
    drop(stream.write_all(request).await);
    let mut answer = Vec::new();
    let ended = match timeout(QUIET, stream.read_to_end(&mut answer)).await {
        Ok(ended) => ended.is_ok(),
        Err(_incomplete) => {
            drop(stream.shutdown().await);
            drop(timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it ends"));
            false
        }
    };
    (ended || !answer.is_empty()).then_some(answer)
}

#[test]
fn every_request_gets_an_answer_from_the_local_api() {
    run(async |seeds| {
        let world = World::start().await;
        let tenant = world.tenant("acme").await;
        let address = world.stack.api().trim_start_matches("http://");
        let cases = seeds.map(async |seed| {
            let request = request(&mut Rng::with_seed(seed), &tenant, world.stack.api());
            let mut answer = exchange(address, &request).await;
            // Calls by one user that change the same session are correctly rejected as contended.
            for _ in 0..4 {
                let is_contended = answer.as_ref().is_some_and(|answer| answer.starts_with(b"HTTP/1.1 503"));
                if !is_contended {
                    break;
                }
                answer = exchange(address, &request).await;
            }
            let Some(answer) = answer else { return };
            let (answer, request) = (String::from_utf8_lossy(&answer), String::from_utf8_lossy(&request));
            let fine = answer.starts_with("HTTP/1.") && !answer.contains("HTTP/1.1 5");
            assert!(fine, "FUZZ_SEED={seed}: {answer:?} to {request:?}");
        });
        stream::iter(cases).buffer_unordered(64).collect::<()>().await;
        assert_eq!(world.cli_get("", "get-session").await.status, 200);
    });
}
