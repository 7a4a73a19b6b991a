//! `fanfare wait`: jobs that finish before and during the command, and jobs that never do.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tests::{Tenant, World, event, records};

use super::{
    Machine, Output,
    listening::{Listener, begin},
    network::NetworkSettings,
};

fn lines(output: &Output) -> Vec<Value> {
    output.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn waits(machine: &Machine, more: &[&str]) -> Listener {
    Listener::of(machine.command(&[&["wait"], more].concat()))
}

/// Sends an event, and waits until the log has this many successful deliveries of the job. A success is logged after its
/// attempt.
async fn delivered(world: &World, tenant: &Tenant, event: Value, count: usize) {
    let of_job = json!({"job_id": event["job_id"], "status": "delivered"});
    world.enqueue("job-events", event).await;
    loop {
        let page = world.rpc(&tenant.key, "deliveries/list", of_job.clone()).await;
        if page.ok()["deliveries"].as_array().is_some_and(|all| all.len() == count) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_found_before_and_after_they_finish() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let mut first = event(&tenant.id, "job-1");
    first["result"] = json!({"n": 12_345_678_901_234_567_890_u64, "text": "\u{1b}[2J"});
    delivered(&world, &tenant, first, 1).await;
    let found = machine.run(&["wait", "job-1", "job-1"]).await;
    let line = "completed  job-1  {\"n\":12345678901234567890,\"text\":\"\\u001b[2J\"}\n";
    assert_eq!((found.code, found.out.as_str(), found.err.as_str()), (0, line, ""));

    // A killed command leaves nothing behind.
    waits(&machine, &["job-2"]).says("Waiting for job-2.").await;
    let mut waiter = waits(&machine, &["job-1", "job-2", "job-3"]);
    waiter.says("Waiting for job-2, job-3.").await;
    let mut second = event(&tenant.id, "job-2");
    (second["event"], second["error"]) = (json!("job.failed"), json!({"code": 7}));
    world.enqueue("job-events", second).await;
    waiter.says("failed  job-2  {\"code\":7}").await;
    world.enqueue("job-events", event(&tenant.id, "job-3")).await;
    waiter.says("completed  job-3  null").await;
    assert_eq!(waiter.ends().await, Some(6));
    assert_eq!(waiter.times("error: Failed: job-2."), 1, "{:#?}", waiter.said());

    let all = machine.run(&["--json", "wait", "job-3", "job-2", "job-9", "--timeout", "0s"]).await;
    assert_eq!(all.code, 7);
    let failure: Value = serde_json::from_str(all.err.lines().last().expect("a line")).expect("JSON");
    assert_eq!(failure["error"]["code"], "timed_out");
    let shown: Vec<_> = lines(&all).iter().map(|line| (line["job_id"].clone(), line["status"].clone())).collect();
    assert_eq!(shown, [("job-3", "completed"), ("job-2", "failed")].map(|(job, status)| (json!(job), json!(status))));
    assert_eq!(lines(&all)[1]["error"], json!({"code": 7}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_clock_hides_no_event() {
    let (world, tenant, mut machine, receiver) = begin(&[]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let service_time = SystemTime::now() - Duration::from_hours(2);
    let network = NetworkSettings::at(world.stack.api(), service_time).await;
    network.address().clone_into(&mut machine.api);
    machine.signs_in(&tenant).await;
    let waiter = waits(&machine, &["job-1", "--timeout", "1h"]);
    waiter.says("Waiting for job-1.").await;
    let mut batch = records([event(&tenant.id, "job-1")]);
    let sent = service_time.duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
    batch["Records"][0]["attributes"] = json!({"SentTimestamp": sent.to_string(), "ApproximateReceiveCount": "1"});
    world.stack.invoke("webhooks-deliver", batch).await.expect("a response");
    waiter.says("completed  job-1  null").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_event_of_a_job_counts_and_tests_do_not() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint, "event": "job.failed"})).await.ok();
    receiver.wait_for(1).await;
    assert_eq!(machine.run(&["wait", "test", "--timeout", "0s"]).await.code, 7);
    let mut failed = event(&tenant.id, "job-1");
    failed["event"] = json!("job.failed");
    for (count, event) in [(1, failed), (2, event(&tenant.id, "job-1"))] {
        delivered(&world, &tenant, event, count).await;
    }
    let found = machine.run(&["wait", "job-1"]).await;
    assert!(found.code == 0 && found.out.starts_with("completed  job-1"), "{found:?}");
    world.rpc(&tenant.key, "deliveries/erase", json!({"job_id": "job-1"})).await.ok();
    let erased = machine.run(&["--json", "wait", "job-1"]).await;
    let line = lines(&erased).remove(0);
    assert_eq!(
        (&line["status"], &line["is_payload_kept"], &line["result"]),
        (&json!("completed"), &json!(false), &json!(null))
    );
    assert_eq!(machine.run(&["wait", "job-1"]).await.out, "completed  job-1  (erased)\n");
}

/// A result may contain numbers that other programs cannot hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_printed_as_it_was_sent() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let result = r#"{"n":1E400,"digits":12345678901234567890123.10,"half":"\ud800"}"#;
    let event = event(&tenant.id, "job-1").to_string();
    let event = format!("{},\"result\":{result}}}", event.strip_suffix('}').expect("an object"));
    world.enqueue("job-events", event).await;
    receiver.wait_for(1).await;
    let found = machine.run(&["--json", "wait", "job-1", "--timeout", "10s"]).await;
    assert!(found.code == 0 && found.out.contains(&format!(r#""result":{result},"#)), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_endpoint_gets_times_out_and_says_why() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    let told = "No endpoint gets events of jobs, so only a job with a callback can be found.";
    waits(&machine, &["job-1"]).says(told).await;
    let notices = json!({"url": receiver.url("/notices"), "events": ["endpoint.failing"]});
    world.rpc(&tenant.key, "webhooks/create", notices).await.ok();
    waits(&machine, &["job-1"]).says(told).await;
    world.enqueue("job-events", event(&tenant.id, "job-1")).await;
    let ended = machine.run(&["wait", "job-1", "--timeout", "0s"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (7, ""));
    for words in ["error: No event of job-1 after 0s.", "an endpoint or the job's callback gets"] {
        assert!(ended.err.contains(words), "{ended:?}");
    }
    // A callback is enough.
    world.enqueue("job-events", tests::callback(&tenant.id, "job-2", receiver.url("/callback"))).await;
    assert_eq!(machine.run(&["wait", "job-2"]).await.out, "completed  job-2  null\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_survives_an_outage_and_reports_it_at_the_end() {
    let (world, tenant, mut machine, _) = begin(&[]).await;
    let mut waiter = waits(&machine, &["job-1", "--timeout", "3s"]);
    waiter.says("Waiting for job-1.").await;
    let wrong = machine.run_in(&[("FANFARE_API_KEY", "ak_wrong")], &["wait", "job-1"]).await;
    assert_eq!(wrong.code, 3, "{wrong:?}");
    let key = world.key(&tenant.cookie, json!({"scopes": ["webhooks:read"]})).await;
    let refused = machine.run_in(&[("FANFARE_API_KEY", &key)], &["wait", "job-1"]).await;
    assert!(refused.code == 1 && refused.err.contains("deliveries:read"), "{refused:?}");
    world.stack.stop().await;
    waiter.says("Retrying.").await;
    assert_eq!(waiter.ends().await, Some(5), "{:#?}", waiter.said());
    "http://127.0.0.1:1".clone_into(&mut machine.api);
    let offline = machine.run_in(&[("FANFARE_API_KEY", &tenant.key)], &["wait", "job-1"]).await;
    assert_eq!(offline.code, 5, "{offline:?}");
    for wrong in [&["wait"][..], &["wait", "job-1", "--timeout", "soon"]] {
        assert_eq!(machine.run(wrong).await.code, 2, "{wrong:?}");
    }
}
