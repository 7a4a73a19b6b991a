#!/bin/bash
# axum 0.8.9 and Rocket 0.5.2 answer 200 to a handler that returns `Err("...".to_owned())`, `Err("...")` or `Err(())`: the error
# of a `Result` becomes a response like a success does, and text has the status 200. So does axum for `Err(Json(...))` of a
# type without a status. An error with a status, such as axum's `Err(StatusCode::SERVICE_UNAVAILABLE)`, is answered with it.
# Hurt: receivers of webhooks whose handler returns `Result<(), String>` and uses `?`: an event that failed counts as
# delivered, the sender does not repeat it, and neither framework logs the error.
# Usage: findings/rust-error-results.sh. Needs Rust 1.95, a C compiler, curl, and crates.io. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${receivers:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
mkdir src
cat > Cargo.toml <<'TOML'
[package]
name = "receivers"
version = "0.0.0"
edition = "2024"

[dependencies]
axum = { version = "=0.8.9", default-features = false, features = ["http1", "json", "tokio"] }
rocket = { version = "=0.5.2", default-features = false }
tokio = { version = "1", features = ["macros", "net", "rt-multi-thread"] }

[profile.dev]
debug = false
incremental = false
TOML
cat > src/main.rs <<'RUST'
use axum::{Json, Router, http::StatusCode, routing};

fn fail() -> Result<(), String> {
    Err("The database is away".to_owned())
}

async fn axum_string() -> Result<(), String> {
    fail()?;
    Ok(())
}

async fn axum_unit() -> Result<(), ()> {
    fail().map_err(drop)
}

async fn axum_json() -> Result<(), Json<String>> {
    fail().map_err(Json)
}

async fn axum_status() -> Result<(), StatusCode> {
    fail().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

#[rocket::post("/string")]
fn rocket_string() -> Result<(), String> {
    fail()?;
    Ok(())
}

#[rocket::post("/unit")]
fn rocket_unit() -> Result<(), ()> {
    fail().map_err(drop)
}

#[rocket::post("/status")]
fn rocket_status() -> Result<(), rocket::http::Status> {
    fail().map_err(|_| rocket::http::Status::ServiceUnavailable)
}

#[tokio::main]
async fn main() {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("a port");
    let app = Router::new()
        .route("/string", routing::post(axum_string))
        .route("/unit", routing::post(axum_unit))
        .route("/json", routing::post(axum_json))
        .route("/status", routing::post(axum_status));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
    tokio::spawn(async move { axum::serve(listener, app).await });
    let config = rocket::Config::figment().merge(("port", port + 1));
    let routes = rocket::routes![rocket_string, rocket_unit, rocket_status];
    rocket::custom(config).mount("/", routes).launch().await.expect("a server");
}
RUST
cargo build --quiet
port=$((20000 + $$ % 12000))
target/debug/receivers "$port" > log 2>&1 &
receivers=$!
for ready in "$port" $((port + 1)); do
  for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$ready") 2> /dev/null && break; sleep 0.1; done
done

status() { curl --silent --output /dev/null --write-out '%{http_code}' --request POST "http://127.0.0.1:$1/$2"; }
found="axum: string $(status "$port" string), unit $(status "$port" unit), JSON $(status "$port" json)"
found+=", status $(status "$port" status); "
found+="Rocket: string $(status $((port + 1)) string), unit $(status $((port + 1)) unit), status $(status $((port + 1)) status)"
echo "$found"
grep -i "database is away" log && exit 1
[ "$found" = "axum: string 200, unit 200, JSON 200, status 503; Rocket: string 200, unit 200, status 503" ]
