//! The outcome of an attempt for each kind of receiver behavior.

use std::sync::Arc;

use common::webhooks::delivery::{Delivery, Status};
use tests::{Manner, Receiver, RefusingPort, Rough, World, callback};
use tokio::{io::AsyncReadExt, net::TcpListener};

/// A world with these retry delays and a time limit of one second for an attempt.
pub(super) async fn world(schedule: &str) -> World {
    World::with(&[("RETRY_SCHEDULE", schedule), ("DELIVERY_TIMEOUT", "1")]).await
}

pub(super) async fn send_to(world: &World, url: &str) {
    world.deliver(callback("t", "j", url)).await;
    assert!(world.drain("job-events").await.is_empty(), "the event was acknowledged");
}

/// The reason why the only attempt at `url` failed, if it did.
async fn failure(world: &World, url: &str) -> Option<String> {
    send_to(world, url).await;
    // An attempt that is cut off is repeated with more time.
    world.handle_all().await;
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

/// The outcome of the last attempt.
pub(super) fn reason(delivery: &Delivery) -> String {
    delivery.last_attempt.as_ref().expect("an attempt").outcome.clone().into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_2xx_is_a_success() {
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
async fn each_misbehavior_has_its_reason() {
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
async fn a_refused_connection_is_a_failure() {
    let world = world("").await;
    let refusing = RefusingPort::new();
    let url = format!("http://{}/", refusing.address());
    assert_eq!(failure(&world, &url).await, Some("connect".to_owned()));
    assert_eq!(detail(&world).await, "The connection was refused");
    assert_eq!(failure(&world, "http://no-such-host.invalid/").await, Some("dns".to_owned()));
    assert_eq!(failure(&world, "http://a..b.example/").await, Some("dns".to_owned()), "a name that cannot exist");
    // This machine may have no name server.
    assert!(detail(&world).await.starts_with("The "));
}

/// The detail of the newest delivery's last attempt.
async fn detail(world: &World) -> String {
    let delivery = world.log("t").await.into_iter().next().expect("a delivery");
    delivery.last_attempt.and_then(|last| last.detail).expect("a detail").as_str().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_a_failure_is_logged_without_a_url() {
    let world = world("").await;
    let refusing = RefusingPort::new();
    let refused = format!("http://{}/", refusing.address());
    let redirecting = Receiver::scripted(&[(302, &[("location", "https://example.com/canary?key=canary")])]).await;
    let good = Receiver::start().await;
    for url in [&refused, &redirecting.url("/"), &good.url("/")] {
        send_to(&world, url).await;
    }
    let log = tests::log::of_this_test();
    let details: Vec<_> = log.0.iter().filter(|line| line["message"] == "attempt.completed").collect();
    let of = |outcome: &str| &details.iter().find(|line| line["outcome"] == outcome).expect("a line")["detail"];
    assert_eq!(of("connect"), "The connection was refused");
    assert!(of("redirect").is_null() && of("delivered").is_null());
    assert!(!log.0.iter().any(|line| line.to_string().contains("canary")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_untrusted_certificate_fails_before_the_request_is_sent() {
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
    assert_eq!(detail(&world).await, "The certificate is self-signed");
    assert!(server.await.expect("a server").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forbidden_destination_fails_with_its_own_reason() {
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
async fn a_410_ends_a_delivery_at_once() {
    let world = world("0,0,0").await;
    let receiver = Receiver::scripted(&[(410, &[("retry-after", "1")])]).await;
    assert_eq!(failure(&world, &receiver.url("/")).await, Some("gone".to_owned()));
    assert_eq!(receiver.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_leaves_a_log_line_and_metrics() {
    let world = world("").await;
    let receiver = Receiver::scripted(&[(200, &[]), (503, &[])]).await;
    send_to(&world, &receiver.url("/")).await;
    send_to(&world, &receiver.url("/")).await;
    let received = receiver.received().await;
    assert_eq!(received.len(), 2);
    let log = tests::log::of_this_test();
    for (outcome, status) in [("delivered", 200), ("status_5xx", 503)] {
        let line = log.0.iter().find(|line| line["message"] == "attempt.completed" && line["outcome"] == outcome);
        let line = line.expect("a line for the attempt");
        assert_eq!(line["status"], status);
        assert_eq!(line["attempt"], 1);
        assert_eq!(line["tenant"], "t");
        assert!(line["delivery_id"].as_str().expect("an id").starts_with("callback."));
        assert!(line["duration_ms"].is_number());
    }
    let all = String::new();
    assert_eq!(log.metric("Attempts"), [(1.0, all.clone()), (1.0, all.clone())]);
    assert_eq!(log.metric("Delivered"), [(1.0, all.clone()), (0.0, all)]);
    assert_eq!((log.metric("AttemptLatency").len(), log.metric("AgeAtDelivery").len()), (2, 1));
    for metric in ["Failed", "DeliveryFailed"] {
        assert_eq!(log.metric(metric), [(1.0, "status_5xx".to_owned())], "{metric}");
    }
}
