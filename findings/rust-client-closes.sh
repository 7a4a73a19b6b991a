#!/bin/bash
# minreq 2.14.1 (crates.io) returns `Ok` with the status 503 and no headers if the server closes the connection without a
# response, also after it has read and processed the request; only `reason_phrase` says "Server did not provide a status line".
# And a body that ends before its `content-length` is a success for minreq and for attohttpc 0.28.5, with the part that has
# arrived; ureq 3.5.2 returns an error in both cases. Hurt: developers who call an API with minreq: a program that repeats
# a POST after a 503, because a server that is overloaded has done nothing, has issued two keys or sent two invitations.
# Source: https://docs.rs/minreq/2.14.1/minreq/struct.Response.html
# Usage: findings/rust-client-closes.sh. Needs Rust and Cargo. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "client"
version = "0.0.0"
edition = "2021"

[dependencies]
attohttpc = { version = "=0.28.5", default-features = false }
minreq = "=2.14.1"
ureq = { version = "=3.5.2", default-features = false }
TOML
cat > src/main.rs <<'RUST'
use std::io::{Read, Write};
use std::net::TcpListener;

const BODY: &str = r#"{"name":"ci"}"#;

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    // Reads each request, writes what the case says, and closes the connection.
    let responses = ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"key\":\"ak_1"];
    std::thread::spawn(move || {
        for count in 0.. {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(BODY.as_bytes()) {
                let mut byte = [0];
                connection.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            connection.write_all(responses[count / 3].as_bytes()).unwrap();
        }
    });
    for case in ["closed", "cut"] {
        match minreq::post(&url).with_body(BODY).send() {
            Ok(response) => println!("minreq, {case}: {} {:?}", response.status_code, response.as_str()),
            Err(error) => println!("minreq, {case}: error {error}"),
        }
        match attohttpc::post(&url).text(BODY).send().and_then(|response| response.text()) {
            Ok(body) => println!("attohttpc, {case}: {body:?}"),
            Err(_) => println!("attohttpc, {case}: an error"),
        }
        match ureq::post(&url).send(BODY).and_then(|mut response| response.body_mut().read_to_string()) {
            Ok(body) => println!("ureq, {case}: {body:?}"),
            Err(_) => println!("ureq, {case}: an error"),
        }
    }
}
RUST
seen=$(CARGO_TARGET_DIR=target CARGO_INCREMENTAL=0 timeout 110 cargo run --quiet)
echo "$seen"
[ "$seen" = 'minreq, closed: 503 Ok("")
attohttpc, closed: an error
ureq, closed: an error
minreq, cut: 200 Ok("{\"key\":\"ak_1")
attohttpc, cut: "{\"key\":\"ak_1"
ureq, cut: an error' ]
