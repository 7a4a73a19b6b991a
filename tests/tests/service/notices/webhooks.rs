//! Notices about endpoints as events for other endpoints.

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Value, json};
use tests::{Doomed, Received, Receiver, Tenant, World, at_each_call, context, event};

use super::{MINUTE, broken, later, sweep};
use crate::endpoints::failing::impatient;

const NOTICES: [&str; 3] = ["endpoint.failing", "endpoint.disabled", "endpoint.recovered"];

async fn endpoint(world: &World, tenant: &Tenant, url: &str, events: Value) -> String {
    let fields = json!({"url": url, "signing_secret": "correct-horse-battery", "events": events});
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await;
    created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned()
}

fn notices(received: &[Received]) -> Vec<Value> {
    let names = received.iter().map(|one| one.header("x-event-type").to_owned());
    let notices = names.zip(received).filter(|(name, _)| name.starts_with("endpoint."));
    notices
        .map(|(name, one)| {
            let body = one.json();
            assert_eq!(body["event"], name);
            body
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_subscribes_to_notices_gets_each_once() {
    let (world, tenant) = impatient().await;
    let failing = Receiver::scripted(&[(503, &[]), (503, &[]), (200, &[]), (410, &[])]).await;
    let (asks, other, all) = (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let subject = endpoint(&world, &tenant, &failing.url("/path?token=canary"), json!(["job.completed"])).await;
    let to = endpoint(&world, &tenant, &asks.url("/"), json!(NOTICES)).await;
    endpoint(&world, &tenant, &other.url("/"), json!(["job.failed", "endpoint.recovered"])).await;
    endpoint(&world, &tenant, &all.url("/"), Value::Null).await;
    for job in ["1", "2"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    for minute in [0, 0, 1] {
        sweep(&world, later(minute * MINUTE)).await;
        world.handle_all().await;
    }
    let first = asks.received().await;
    first[0].verify("correct-horse-battery");
    let endpoints = world.endpoints(&tenant).await;
    let since =
        &endpoints.iter().find(|one| one["webhook_endpoint_id"] == json!(subject)).expect("it")["failing_since"];
    let [notice] = &notices(&first)[..] else { unreachable!("{first:?}") };
    let at = notice["at"].as_str().expect("a time").parse::<Timestamp>().expect("a time");
    assert!(since.as_str().expect("a time").parse::<Timestamp>().expect("a time") <= at);
    let log = world.log(&tenant.id).await;
    let newest = log.iter().find(|one| one.job_id == "2" && one.status == Status::Failed).expect("a failed delivery");
    assert_eq!(
        notice,
        &json!({
            "event": "endpoint.failing", "webhook_endpoint_id": subject, "url": failing.url("/path"), "since": since,
            "reason": "status_5xx", "failed": 2, "at": notice["at"], "delivery_id": newest.id.to_string(), "job_id": "2",
            "workflow": null, "outcome": "status_5xx", "pending": 0,
        })
    );
    let logged: Vec<_> = log.iter().filter(|one| one.event.as_str() == "endpoint.failing").collect();
    assert_eq!(logged.len(), 1);
    assert_eq!((logged[0].job_id.as_str(), logged[0].status), (subject.as_str(), Status::Delivered));
    assert_eq!(logged[0].webhook_endpoint_id.expect("an endpoint").to_string(), to);

    world.deliver(event(&tenant.id, "3")).await;
    sweep(&world, later(2 * MINUTE)).await;
    world.handle_all().await;
    world.deliver(event(&tenant.id, "4")).await;
    sweep(&world, later(3 * MINUTE)).await;
    world.handle_all().await;
    let received = notices(&asks.received().await);
    let events: Vec<_> = received.iter().map(|notice| (&notice["event"], &notice["reason"])).collect();
    assert_eq!(
        events,
        [
            (&json!("endpoint.failing"), &json!("status_5xx")),
            (&json!("endpoint.recovered"), &Value::Null),
            (&json!("endpoint.disabled"), &json!("gone")),
        ]
    );
    assert_eq!((&received[1]["since"], &received[1]["failed"]), (since, &json!(2)));
    let others = notices(&other.received().await);
    assert_eq!(others.iter().map(|notice| &notice["event"]).collect::<Vec<_>>(), ["endpoint.recovered"]);
    assert_eq!(notices(&all.received().await), [Value::Null; 0], "notices are not sent by default");
    assert_eq!(notices(&failing.received().await), [Value::Null; 0]);
}

/// Each endpoint gets only notices about the other one, and rejects these as well.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_fail_at_notices_cause_no_loop() {
    let (world, tenant) = impatient().await;
    let receivers = [broken().await, broken().await];
    let mut events = NOTICES.to_vec();
    events.push("job.completed");
    let mut ids = Vec::new();
    for receiver in &receivers {
        ids.push(endpoint(&world, &tenant, &receiver.url("/"), json!(events)).await);
    }
    // Only the first endpoint gets the event, and so begins to fail.
    world.rpc(&tenant.key, "webhooks/update", json!({"id": ids[1], "events": NOTICES})).await.ok();
    world.deliver(event(&tenant.id, "1")).await;
    for minute in 0..6 {
        sweep(&world, later(minute * MINUTE)).await;
        world.handle_all().await;
    }
    let received = [receivers[0].received().await, receivers[1].received().await];
    let about = |received: &[Received]| {
        notices(received)
            .into_iter()
            .map(|one| (one["event"].clone(), one["webhook_endpoint_id"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(about(&received[0]), [(json!("endpoint.failing"), json!(ids[1]))]);
    assert_eq!(about(&received[1]), [(json!("endpoint.failing"), json!(ids[0]))]);
}

/// Makes a sweep die at this call. Returns whether the sweep reached that call, and the ids of the notices after the
/// next sweeps.
async fn announce_and_die(call: u64, takes_effect: bool) -> (bool, ()) {
    let (world, tenant) = impatient().await;
    let (failing, asks) = (broken().await, Receiver::start().await);
    endpoint(&world, &tenant, &failing.url("/"), json!(["job.completed"])).await;
    endpoint(&world, &tenant, &asks.url("/"), json!(NOTICES)).await;
    world.deliver(event(&tenant.id, "1")).await;
    let time = later(10 * MINUTE);
    super::pass_over_all_minutes(&world, time).await;
    let doomed = Doomed::function(&world, "deliveries-wake", call..u64::MAX, takes_effect).await;
    // The call may fail, which is expected.
    doomed.process.clone().call(json!({"time": time}), context(60)).await.ok();
    for minute in 15..20 {
        sweep(&world, later(minute * MINUTE)).await;
        world.handle_all().await;
    }
    let received = asks.received().await;
    let ids: std::collections::BTreeSet<_> = received.iter().map(|one| one.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 1, "call {call}, takes effect: {takes_effect}");
    assert!(received.len() <= 2, "call {call}, takes effect: {takes_effect}: {}", received.len());
    let logged = world.log(&tenant.id).await.into_iter().filter(|one| one.event.as_str().starts_with("endpoint."));
    assert_eq!(logged.map(|one| one.status).collect::<Vec<_>>(), [Status::Delivered], "call {call}");
    (doomed.has_died(), ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_announces_may_die_at_any_call() {
    for takes_effect in [false, true] {
        let lives = at_each_call(0.., |call| announce_and_die(call, takes_effect)).await;
        assert!(lives.calls() >= 8);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_endpoint_receives_notices_and_causes_them() {
    let (world, tenant) = impatient().await;
    let pull = |events: Value| json!({"kind": "pull", "events": events});
    let mut ids = Vec::new();
    for events in [json!(["job.completed"]), json!(NOTICES)] {
        let created = world.rpc(&tenant.key, "webhooks/create", pull(events)).await;
        ids.push(created.ok()["webhook_endpoint_id"].clone());
    }
    let receive = async |id: &Value| {
        let received = world.rpc(&tenant.key, "deliveries/receive", json!({"webhook_endpoint_id": id})).await;
        received.ok()["deliveries"].as_array().expect("deliveries").clone()
    };
    world.deliver(event(&tenant.id, "1")).await;
    let taken = receive(&ids[0]).await.remove(0);
    let gone = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": 410});
    world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [gone]})).await.ok();
    sweep(&world, later(0)).await;
    world.handle_all().await;
    let [notice] = &receive(&ids[1]).await[..] else { unreachable!("one notice") };
    assert_eq!((&notice["event"], &notice["job_id"]), (&json!("endpoint.disabled"), &ids[0]));
    let body: Value = serde_json::from_str(notice["body"].as_str().expect("a body")).expect("JSON");
    assert_eq!((&body["url"], &body["reason"]), (&Value::Null, &json!("gone")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_delivery_of_a_notice_does_not_stop_its_email() {
    let (world, tenant) = impatient().await;
    let (failing, asks) = (broken().await, Receiver::start().await);
    let subject = endpoint(&world, &tenant, &failing.url("/"), json!(["job.completed"])).await;
    endpoint(&world, &tenant, &asks.url("/"), json!(NOTICES)).await;
    world.deliver(event(&tenant.id, "1")).await;
    let organization = format!("org#{}", tenant.id);
    let address = async |address: Value| {
        let change = json!({"debug_notification_email": address});
        world.set("organizations", ("pk", &organization), change).await;
    };
    // The email cannot be sent, so the notice is tried again.
    address(Value::Null).await;
    sweep(&world, later(0)).await;
    world.handle_all().await;
    address(json!("ops@example.com")).await;
    world.set("deliveries", ("job_id", &subject), json!({"event": "unheard.of"})).await;
    sweep(&world, later(2 * MINUTE)).await;
    assert_eq!(super::subjects(&world).await, [super::FAILING]);
    assert_eq!(world.left().await, 0, "no message is about it");
}
