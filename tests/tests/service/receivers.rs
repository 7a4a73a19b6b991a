//! Whatever a receiver does, the attempt ends as it should.

use std::sync::Arc;

use common::webhooks::delivery::{Delivery, Status};
use serde_json::{Value, json};
use tests::{Manner, Receiver, Rough, World, receiver::Scripted};
use tokio::{io::AsyncReadExt, net::TcpListener};

use crate::batches::records;

/// A world with these retry delays, and one second for an attempt.
async fn world(schedule: &str) -> World {
    World::with(&[("RETRY_SCHEDULE", schedule), ("DELIVERY_TIMEOUT", "1")]).await
}

/// An event of a job that has a callback.
fn to_callback(job: &str, url: &str) -> String {
    let event = json!({
        "event": "job.completed", "tenant_id": "t", "job_id": job, "callback_url": url, "callback_secret": "s",
    });
    event.to_string()
}

async fn send_to(world: &World, url: &str) {
    world.enqueue("job-events", to_callback("j", url)).await;
    assert_eq!(world.stack.poll("job-events").await.expect("a step"), 1);
    assert!(world.drain("job-events").await.is_empty(), "the event was acknowledged");
}

/// Why the only attempt at `url` failed, if it did.
async fn failure(world: &World, url: &str) -> Option<String> {
    send_to(world, url).await;
    assert!(world.drain("deliveries").await.is_empty());
    let delivery = world.log("t").await.into_iter().next().expect("a delivery");
    assert_eq!(delivery.attempts, 1);
    match delivery.status {
        Status::Delivered => None,
        status => {
            assert_eq!(status, Status::Failed);
            Some(reason(&delivery))
        }
    }
}

/// How the last attempt ended.
fn reason(delivery: &Delivery) -> String {
    delivery.last_attempt.as_ref().expect("an attempt").outcome.clone().into_owned()
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
        assert_eq!(failure(&world, &receiver.url("/")).await, reason.map(str::to_owned), "{status}");
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
        assert_eq!(failure(&world, receiver.url()).await, reason.map(str::to_owned), "{manner:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_a_failure() {
    let world = world("").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    drop(listener);
    assert_eq!(failure(&world, &url).await, Some("connect".to_owned()));
    assert_eq!(failure(&world, "http://no-such-host.invalid/").await, Some("dns".to_owned()));
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
    assert_eq!(failure(&world, &url).await, Some("tls".to_owned()));
    assert!(server.await.expect("a server").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_is_not_allowed_is_refused_with_its_own_reason() {
    let receiver = Receiver::start().await;
    let settings = [("RETRY_SCHEDULE", ""), ("ALLOWED_DESTINATIONS", ""), ("ALLOW_HTTP_DESTINATIONS", "true")];
    let closed = World::with(&settings).await;
    let by_name = receiver.url("/").replace("127.0.0.1", "localhost");
    for url in [receiver.url("/"), by_name, "http://169.254.169.254/latest/meta-data".to_owned()] {
        assert_eq!(failure(&closed, &url).await, Some("blocked".to_owned()), "{url}");
    }
    let only_tls = World::with(&[("RETRY_SCHEDULE", ""), ("ALLOW_HTTP_DESTINATIONS", "false")]).await;
    assert_eq!(failure(&only_tls, &receiver.url("/")).await, Some("blocked".to_owned()));
    assert!(receiver.received().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_ends_it_at_once() {
    let world = world("0,0,0").await;
    let receiver = Receiver::scripted(&[(410, &[("retry-after", "1")])]).await;
    assert_eq!(failure(&world, &receiver.url("/")).await, Some("gone".to_owned()));
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
async fn receivers_that_ask_for_the_same_patience_are_not_asked_again_at_the_same_time() {
    let world = world("5").await;
    let busy: Scripted = (503, &[("retry-after", "3600")]);
    let receiver = Receiver::scripted(&[busy; 20]).await;
    let events: Vec<_> = (0..20).map(|job| to_callback(&job.to_string(), &receiver.url("/"))).collect();
    world.stack.invoke("webhooks-deliver", records(&events)).await.expect("an answer");
    let now = common::timestamp::Timestamp::now().as_millisecond();
    let due = world.log("t").await.into_iter().filter_map(|delivery| delivery.next_attempt_at);
    let waits: Vec<_> = due.map(|due| due.as_millisecond() - now).collect();
    assert_eq!(waits.len(), 20);
    let (first, last) = (waits.iter().min().expect("they wait"), waits.iter().max().expect("they wait"));
    assert!(*first > 3_500_000 && *last < 3600 * 1200 && last - first > 60_000, "{waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn three_days_after_its_event_a_delivery_fails_whatever_its_receiver_asks_for() {
    let world = world("5,5,5").await;
    let day = 24 * 3600 * 1000;
    let now = common::timestamp::Timestamp::now().as_millisecond();
    let asks: [(i64, Scripted, bool); 3] = [
        // A day, and no jitter is below nothing.
        (2 * day + 10_000, (503, &[("retry-after", "86400")]), false),
        (2 * day, (503, &[("retry-after", "3600")]), true),
        (3 * day, (503, &[]), false),
    ];
    for (age, answer, waits) in asks {
        let receiver = Receiver::scripted(&[answer]).await;
        let mut batch = records(&[to_callback(&age.to_string(), &receiver.url("/"))]);
        batch["Records"][0]["attributes"]["SentTimestamp"] = json!((now - age).to_string());
        world.stack.invoke("webhooks-deliver", batch).await.expect("an answer");
        let logged = world.log("t").await;
        let delivery = logged.iter().find(|delivery| delivery.job_id == age.to_string()).expect("a delivery");
        let status = if waits { Status::Pending } else { Status::Failed };
        assert_eq!((delivery.status, delivery.attempts), (status, 1), "{age} {answer:?}");
        assert_eq!(reason(delivery), "status_5xx");
        assert_eq!(receiver.received().await.len(), 1);
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
    assert!(world.drain("deliveries").await.is_empty());
    let delivery = world.only_logged("t").await;
    assert_eq!((delivery.status, delivery.attempts), (Status::Delivered, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_seen_from_outside() {
    let world = world("").await;
    let receiver = Receiver::scripted(&[(200, &[]), (503, &[])]).await;
    send_to(&world, &receiver.url("/")).await;
    send_to(&world, &receiver.url("/")).await;
    let received = receiver.received().await;
    let log = tests::log::collected();
    let id = received[0].header("webhook-id").trim_start_matches("msg_");
    let lines: Vec<Value> =
        log.lines().filter(|line| line.contains(id)).map(|line| serde_json::from_str(line).expect("JSON")).collect();
    for (outcome, status) in [("delivered", 200), ("status_5xx", 503)] {
        let line = lines.iter().find(|line| line["message"] == "attempt" && line["outcome"] == outcome);
        let line = line.expect("a line for the attempt");
        assert_eq!(line["status"], status);
        assert_eq!(line["attempt"], 1);
        assert_eq!(line["tenant"], "t");
        assert!(line["delivery_id"].as_str().expect("an id").starts_with("callback."));
        assert!(line["duration_ms"].is_number());
    }
    let metrics: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("\"_aws\""))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for metric in ["Attempts", "Delivered", "Failed", "DeliveryFailed", "AttemptLatency", "AgeAtDelivery"] {
        assert!(metrics.iter().any(|line| line[metric].is_number()), "{metric}");
    }
    assert!(metrics.iter().any(|line| line["Failed"] == 1.0 && line["Reason"] == "status_5xx"));
}
