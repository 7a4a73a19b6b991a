//! Whatever a receiver does, the attempt ends as it should.

use std::sync::Arc;

use serde_json::{Value, json};
use tests::{Manner, Receiver, Rough, World};
use tokio::{io::AsyncReadExt, net::TcpListener};

/// A world with these retry delays, and one second for an attempt.
async fn world(schedule: &str) -> World {
    World::with(&[("RETRY_SCHEDULE", schedule), ("DELIVERY_TIMEOUT", "1")]).await
}

async fn send_to(world: &World, url: &str) {
    let event = json!({
        "event": "job.completed", "tenant_id": "t", "job_id": "j", "callback_url": url, "callback_secret": "s",
    });
    world.enqueue("job-events", event.to_string()).await;
    assert_eq!(world.stack.poll("job-events").await.expect("a step"), 1);
    assert!(world.drain("job-events").await.is_empty(), "the event was acknowledged");
}

/// Why the only attempt at `url` failed, if it did.
async fn failure(world: &World, url: &str) -> Option<Value> {
    send_to(world, url).await;
    let mut dead = world.drain("deliveries-dead").await;
    assert!(dead.len() <= 1 && world.drain("deliveries").await.is_empty());
    Some(dead.pop()?["dead"]["reason"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn any_2xx_is_a_success_and_nothing_else_is() {
    let world = world("").await;
    for (status, reason) in [
        (200, None),
        (201, None),
        (202, None),
        (204, None),
        (299, None),
        (301, Some("redirect")),
        (302, Some("redirect")),
        (304, Some("redirect")),
        (307, Some("redirect")),
        (400, Some("status_4xx")),
        (401, Some("status_4xx")),
        (404, Some("status_4xx")),
        (410, Some("gone")),
        (429, Some("status_4xx")),
        (500, Some("status_5xx")),
        (503, Some("status_5xx")),
        (599, Some("status_5xx")),
        (600, Some("status_other")),
    ] {
        let receiver = Receiver::scripted(&[(status, &[("location", "/elsewhere")])]).await;
        assert_eq!(failure(&world, &receiver.url("/")).await, reason.map(Value::from), "{status}");
        let received = receiver.received().await;
        assert_eq!(received.iter().map(|r| r.path.as_str()).collect::<Vec<_>>(), ["/"], "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_manners_are_failures_of_their_own_kind() {
    let world = world("").await;
    for (manner, reason) in [
        (Manner::Hangs, Some("timeout")),
        (Manner::Closes, Some("protocol")),
        (Manner::Drips, Some("timeout")),
        (Manner::Floods, None),
        (Manner::ResetsMidBody, Some("protocol")),
        (Manner::SpeaksGarbage, Some("protocol")),
        (Manner::HeadersWithoutEnd, Some("protocol")),
        (Manner::Continues, Some("protocol")),
        (Manner::ChunkLengthWithoutEnd, None),
        (Manner::ClosesAfterEach, None),
    ] {
        let receiver = Rough::start(manner).await;
        assert_eq!(failure(&world, receiver.url()).await, reason.map(Value::from), "{manner:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_a_failure() {
    let world = world("").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    drop(listener);
    assert_eq!(failure(&world, &url).await, Some(json!("connect")));
    assert_eq!(failure(&world, "http://no-such-host.invalid/").await, Some(json!("dns")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_trusts_is_a_failure_and_nothing_is_sent() {
    let world = world("").await;
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}/", listener.local_addr().expect("an address"));
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut got = Vec::new();
        if let Ok(mut stream) = acceptor.accept(stream).await {
            stream.read_to_end(&mut got).await.ok();
        }
        got
    });
    assert_eq!(failure(&world, &url).await, Some(json!("tls")));
    assert!(server.await.expect("a server").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_is_not_allowed_is_refused_with_its_own_reason() {
    let receiver = Receiver::start().await;
    let settings = [("RETRY_SCHEDULE", ""), ("ALLOWED_DESTINATIONS", ""), ("ALLOW_HTTP_DESTINATIONS", "true")];
    let closed = World::with(&settings).await;
    let by_name = receiver.url("/").replace("127.0.0.1", "localhost");
    for url in [receiver.url("/"), by_name, "http://169.254.169.254/latest/meta-data".to_owned()] {
        assert_eq!(failure(&closed, &url).await, Some(json!("blocked")), "{url}");
    }
    let only_tls = World::with(&[("RETRY_SCHEDULE", ""), ("ALLOW_HTTP_DESTINATIONS", "false")]).await;
    assert_eq!(failure(&only_tls, &receiver.url("/")).await, Some(json!("blocked")));
    assert!(receiver.received().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_ends_it_at_once() {
    let world = world("0,0,0").await;
    let receiver = Receiver::scripted(&[(410, &[("retry-after", "1")])]).await;
    assert_eq!(failure(&world, &receiver.url("/")).await, Some(json!("gone")));
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_after_is_honoured_on_429_and_503_only() {
    let world = world("0").await;
    let http_date = "Fri, 31 Dec 9999 23:59:59 GMT";
    for (status, header, waits) in [
        (429, "3600", true),
        (503, "3600", true),
        (429, http_date, true),
        (429, "soon", false),
        (429, "0", false),
        (500, "3600", false),
        (404, "3600", false),
    ] {
        let script: &[_] = match header {
            "3600" => &[("retry-after", "3600")],
            "soon" => &[("retry-after", "soon")],
            "0" => &[("retry-after", "0")],
            _ => &[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")],
        };
        let receiver = Receiver::scripted(&[(status, script)]).await;
        send_to(&world, &receiver.url("/")).await;
        let taken = world.stack.poll("deliveries").await.expect("a step");
        assert_eq!(taken, usize::from(!waits), "{status} {header}");
        assert_eq!(receiver.received().await.len(), 1 + taken, "{status} {header}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_three_times_and_then_works_is_delivered() {
    let world = world("0,0,0").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[])]).await;
    send_to(&world, &receiver.url("/")).await;
    for _ in 0..3 {
        assert_eq!(world.stack.poll("deliveries").await.expect("a step"), 1);
    }
    assert_eq!(receiver.received().await.len(), 4);
    assert!(world.drain("deliveries").await.is_empty() && world.drain("deliveries-dead").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_seen_from_outside() {
    let world = world("").await;
    let receiver = Receiver::scripted(&[(200, &[]), (503, &[])]).await;
    send_to(&world, &receiver.url("/")).await;
    send_to(&world, &receiver.url("/")).await;
    let received = receiver.received().await;
    let log = tests::log::collected();
    let id = received[0].header("webhook-id");
    let lines: Vec<Value> =
        log.lines().filter(|line| line.contains(id)).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (outcome, status) in [("delivered", 200), ("status_5xx", 503)] {
        let line = lines.iter().find(|line| line["message"] == "attempt" && line["outcome"] == outcome);
        let line = line.expect("a line for the attempt");
        assert_eq!(line["status"], status);
        assert_eq!(line["attempt"], 1);
        assert_eq!(line["tenant"], "t");
        assert_eq!(line["endpoint"], "callback");
        assert!(line["duration_ms"].is_number());
    }
    let metrics: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("\"_aws\""))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for metric in ["Attempts", "Delivered", "Failed", "Dead", "AttemptLatency", "AgeAtDelivery"] {
        assert!(metrics.iter().any(|line| line[metric].is_number()), "{metric}");
    }
    assert!(metrics.iter().any(|line| line["Failed"] == 1.0 && line["Reason"] == "status_5xx"));
}
