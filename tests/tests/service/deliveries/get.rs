//! `POST /v1/deliveries/get`.

use api::deliveries;
use common::webhooks::delivery::{Attempt, Delivery, Detail, Failure, Outcome, Payload, Status, Trigger};
use serde_json::json;
use tests::{Receiver, World};

use super::{Book, Draft, HOUR, SECOND, STATUSES, id, read};

fn shown(attempts: Vec<Attempt>) -> Vec<deliveries::Attempt> {
    attempts.into_iter().map(Into::into).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payload_is_returned_exactly() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let short =
        "{\"result\":\"\\\"\\\\\\u0000\\u001f\\ud83e\\udd80 \\/ é🦀\\u2028\u{2028}\u{7f}\u{fffe}\",\"n\":1.10e400}";
    let long = format!(r#"{{"result":"{}"}}"#, r#"\" é "#.repeat(900));
    for (number, body) in [short, &long].into_iter().enumerate() {
        for status in STATUSES {
            let job = format!("{number}{status}");
            for draft in [Draft::to(&endpoint, book.now, &job), Draft::to_callback(3, book.now, &job)] {
                let delivery = book.write_one(&tenant, draft.status(status).body(body)).await;
                let answer = read(&world, &tenant, "get", json!({"delivery_id": delivery.id})).await;
                let attempts = shown(delivery.last_attempt.iter().cloned().collect());
                let delivery = deliveries::Delivery::from(delivery);
                let expected = json!({"delivery": delivery, "payload": body, "attempts": attempts});
                assert_eq!(answer.ok(), &expected);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_payload_is_kept_until_it_is_delivered() {
    let world = World::with(&[("KEPT_PAYLOAD_BYTES", "100")]).await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let body = json!({"result": "x".repeat(101)}).to_string();
    for (status, kept) in [(Status::Delivered, false), (Status::Pending, true), (Status::Failed, true)] {
        let draft = Draft::to_callback(0, book.now, status).status(status).body(&body);
        let delivery = book.write_one(&tenant, draft).await;
        let answer = read(&world, &tenant, "get", json!({"delivery_id": delivery.id})).await;
        assert_eq!(answer.ok().get("payload"), kept.then(|| json!(body)).as_ref(), "{status}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_is_shown_oldest_first() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let attempts: Vec<_> = (1..=12)
        .map(|number| {
            let (at, outcome) = (book.ago(HOUR - SECOND * number), Outcome::Failed(Failure::Timeout));
            Attempt::new(at, number, outcome, None, Trigger::Schedule)
        })
        .collect();
    let (mut delivery, _) = Draft::to_callback(0, book.ago(HOUR), "j").status(Status::Failed).delivery(&id(&tenant));
    let mut rows = Vec::new();
    for (number, attempt) in (1..).zip(&attempts) {
        (delivery.attempts, delivery.last_attempt) = (number, Some(attempt.clone()));
        // After a crash, the last attempt may be stored in both places.
        rows.extend(book.log.attempts_row(&id(&tenant), &delivery, &delivery, book.now));
    }
    book.put(rows).await;
    assert!(matches!(
        book.log.begin(vec![book.log.first_row(&id(&tenant), &delivery, None, book.now)]).await[..],
        [Ok(())]
    ));
    let answer = read(&world, &tenant, "get", json!({"delivery_id": delivery.id})).await;
    assert_eq!(answer.ok(), &json!({"delivery": deliveries::Delivery::from(delivery), "attempts": shown(attempts)}));
}

/// A success is written regardless of earlier writes, so its state may repeat attempts from a separate item.
#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_in_two_places_of_the_log_is_shown_once() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let outcome = Outcome::Failed(Failure::Timeout);
    let [first, second, third] =
        [3, 2, 1].map(|ago| Attempt::new(book.ago(SECOND * ago), ago, outcome, None, Trigger::Schedule));
    let (mut delivery, _) = Draft::to_callback(0, book.ago(HOUR), "j").status(Status::Failed).delivery(&id(&tenant));
    (delivery.attempts, delivery.last_attempt) = (2, Some(second.clone()));
    let before = Delivery { earlier: vec![first.clone()], ..delivery.clone() };
    book.put(book.log.attempts_row(&id(&tenant), &before, &delivery, book.now).into_iter().collect()).await;
    (delivery.attempts, delivery.last_attempt) = (5, Some(third.clone()));
    delivery.earlier = vec![first.clone(), second.clone()];
    let state = book.log.first_row(&id(&tenant), &delivery, None, book.now);
    assert!(matches!(book.log.begin(vec![state]).await[..], [Ok(())]));
    let answer = read(&world, &tenant, "get", json!({"delivery_id": delivery.id})).await;
    assert_eq!(answer.ok()["attempts"], json!(shown(vec![first, second, third])));
}

/// A Lambda response is at most 6 MiB and 100 bytes long, and contains the body as a JSON string.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_delivery_fits_into_lambdas_response() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let (mut delivery, payload) = Draft::to_callback(0, book.now, "j").status(Status::Failed).delivery(&id(&tenant));
    // No other body of one mebibyte or response of one kibibyte is longer when encoded as JSON inside JSON.
    let payload = Payload { body: "\\".repeat(1 << 20).into(), ..payload };
    let outcome = Outcome::Failed(Failure::Status(500, None));
    let largest = Attempt {
        detail: Some(Detail::new("\\".repeat(240))),
        ..Attempt::new(book.now, u32::MAX, outcome, Some("\u{1}".repeat(1024)), Trigger::Recovery)
    };
    let mut rows = book.log.payload_rows(&id(&tenant), &delivery.id, &payload, book.now);
    for number in 1..=300 {
        let attempt = Attempt { at: book.now.after(SECOND * number), ..largest.clone() };
        (delivery.attempts, delivery.last_attempt) = (number, Some(attempt));
        rows.extend(book.log.attempts_row(&id(&tenant), &delivery, &delivery, book.now));
    }
    book.put(rows).await;
    assert!(matches!(
        book.log.begin(vec![book.log.first_row(&id(&tenant), &delivery, None, book.now)]).await[..],
        [Ok(())]
    ));
    for request in [json!(null), json!("now")] {
        let mut event = tests::sample_event("deliveries-get");
        event["headers"]["x-api-key"] = json!(tenant.key);
        event["body"] = json!(json!({"json": {"delivery_id": delivery.id, "request": request}}).to_string());
        let answer = world.stack.invoke("deliveries-get", event).await.expect("an answer").to_string();
        assert_eq!(
            answer.matches("duration_ms").count(),
            202,
            "200 earlier attempts, the last attempt, and the delivery"
        );
        assert!(answer.len() <= 6 * 1024 * 1024 + 100, "{}", answer.len());
    }
}

/// The headers of a request, without those that depend on the HTTP client and on the time of the call.
fn own_headers<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    let others = ["host", "content-length", "accept", "webhook-timestamp", "webhook-signature", "authorization"];
    let own = headers.filter(|(name, _)| !others.contains(name));
    let mut own: Vec<_> = own.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    own.sort_unstable();
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_the_one_that_the_receiver_got() {
    let world = World::live(&[]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let secret = "a secret of some length";
    for form in ["full", "thin"] {
        let endpoint = json!({
            "url": receiver.url(&format!("/{form}")), "signing_secret": secret, "payload": form,
            "headers": {"authorization": "Bearer hidden words"},
        });
        world.rpc(&tenant.key, "webhooks/create", endpoint).await.ok();
    }
    let mut with_callback = tests::callback(&tenant.id, "job-2", receiver.url("/callback"));
    with_callback["callback_secret"] = json!(secret);
    for mut event in [tests::event(&tenant.id, "job-1"), with_callback] {
        event["result"] = json!({"n": 1.5});
        world.enqueue("job-events", event).await;
    }
    let log = loop {
        let log = world.log_of(&tenant.id, Status::Delivered).await;
        if log.len() == 3 {
            break log;
        }
        tokio::task::yield_now().await;
    };
    let received = receiver.received().await;
    for delivery in &log {
        let id = delivery.id.to_string();
        let (webhook_id, is_callback) = (delivery.webhook_id.to_string(), delivery.webhook_endpoint_id.is_none());
        let original = received.iter().find(|one| one.header("webhook-id") == webhook_id).expect("a request");
        for at in ["now", "latest_attempt"] {
            let fields = json!({"delivery_id": id, "request": at});
            // Signed at the time of the call, so the responses to two callers may differ.
            let answer = match at {
                "now" => world.rpc(&tenant.key, "deliveries/get", fields).await,
                _ => read(&world, &tenant, "get", fields).await,
            };
            let (answer, text) = (answer.ok(), answer.ok().to_string());
            assert!(!text.contains(secret) && !text.contains("hidden"), "{text}");
            let request = &answer["request"];
            assert_eq!(answer["payload"].as_str().expect("text").as_bytes(), original.body);
            assert_eq!(request["secret_headers"], if is_callback { json!([]) } else { json!(["authorization"]) });
            let headers = request["headers"].as_object().expect("headers");
            let header = |name: &str| headers[name].as_str().expect("text");
            let shown = headers.iter().map(|(name, value)| (name.as_str(), value.as_str().expect("text")));
            let sent = original.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().expect("text")));
            assert_eq!(own_headers(shown), own_headers(sent));
            if at == "latest_attempt" {
                assert_eq!(header("webhook-signature"), original.header("webhook-signature"));
            }
            let webhook = standardwebhooks::Webhook::from_bytes(secret.as_bytes().to_vec()).expect("a key");
            let timestamp = header("webhook-timestamp").parse().expect("a number");
            let signature = webhook.sign(&webhook_id, timestamp, &original.body).expect("a signature");
            assert_eq!(header("webhook-signature").split(' ').next(), Some(signature.as_str()));
        }
    }
    assert_eq!(receiver.count().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_needs_the_scope_of_a_resend() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let delivery = book.write_one(&tenant, Draft::to_callback(0, book.now, "j")).await;
    let (plain, signed) = (json!({"delivery_id": delivery.id}), json!({"delivery_id": delivery.id, "request": "now"}));
    let reader = world.key(&tenant.cookie, json!({"scopes": ["deliveries:read"]})).await;
    world.rpc(&reader, "deliveries/get", plain).await.ok();
    assert_eq!(world.rpc(&reader, "deliveries/get", signed.clone()).await.error(), (403, "FORBIDDEN", "scope_missing"));
    let writer = world.key(&tenant.cookie, json!({"scopes": ["deliveries:read", "deliveries:write"]})).await;
    assert!(world.rpc(&writer, "deliveries/get", signed).await.ok()["request"].is_object());
    let wrong = world.rpc(&writer, "deliveries/get", json!({"delivery_id": delivery.id, "request": "later"})).await;
    assert_eq!(wrong.status, 400);
}
