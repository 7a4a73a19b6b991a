//! The usage of organizations, for billing: `operate usage` and the log line `usage.recorded`.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::json;
use tests::{Receiver, World, event, log, records, world::log::due_message};

use super::{commands::run, root};

#[tokio::test(flavor = "multi_thread")]
async fn usage_counts_events_deliveries_and_attempts_of_a_day() {
    let world = World::with(&[("RETRY_SCHEDULE", "1800")]).await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let unknown = "unknown";
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    // Events before midnight belong to the day before.
    let day = Timestamp::now().to_string()[..10].to_owned();
    world.deliver(event(&tenant.id, "failed \"first\",\n\tthen delivered")).await;
    let pending = world.log_of(&tenant.id, Status::Pending).await.remove(0);
    world.make_due(&tenant.id, &pending, Timestamp::now()).await;
    world.enqueue("deliveries", due_message(&tenant.id, &pending)).await;
    world.poll_due().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "to two endpoints")).await;
    world.deliver(event(&other.id, "to none")).await;
    world.deliver(event(unknown, "to none")).await;
    let tested = world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await;
    tested.ok();
    world.handle_all().await;
    assert_eq!(receiver.count().await, 5, "with the test");

    let printed = run(&world, &["operate", "usage", &day]).await.concat();
    assert_eq!(printed[0], "organization,day,events,deliveries,attempts");
    assert_eq!(printed[1..], [format!("{},{day},2,3,4", tenant.id)]);
    let (before, after) = ("2026-01-31", "2999-01-01");
    for day in [before, after] {
        assert_eq!(run(&world, &["operate", "usage", day]).await.len(), 1, "only the names of the columns");
    }

    let lines = log::of_this_test().0;
    let sum = |tenant: &str, field: &str| {
        let own = lines.iter().filter(|line| line["message"] == "usage.recorded" && line["tenant"] == tenant);
        own.map(|line| line[field].as_u64().expect("a number")).sum::<u64>()
    };
    let sums = |tenant: &str| ["events", "deliveries", "attempts"].map(|field| sum(tenant, field));
    assert_eq!(sums(&tenant.id), [2, 3, 4]);
    for without_endpoints in [other.id.as_str(), unknown] {
        assert!(!lines.iter().any(|line| line["message"] == "usage.recorded" && line["tenant"] == without_endpoints));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redelivered_event_is_not_counted_again() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let day = Timestamp::now().to_string()[..10].to_owned();
    let sent_at = Timestamp::now().as_millisecond().to_string();
    for receives in ["1", "2"] {
        let mut record = records([event(&tenant.id, "1")]);
        record["Records"][0]["attributes"] = json!({"SentTimestamp": sent_at, "ApproximateReceiveCount": receives});
        world.stack.invoke("webhooks-deliver", record).await.expect("an answer");
    }
    assert_eq!(receiver.count().await, 1);
    assert_eq!(run(&world, &["operate", "usage", &day]).await[1].concat(), format!("{},{day},1,1,1", tenant.id));
    let lines = log::of_this_test().0;
    let recorded = lines.iter().filter(|line| line["message"] == "usage.recorded");
    let recorded: Vec<_> = recorded.map(|line| json!([line["events"], line["deliveries"], line["attempts"]])).collect();
    assert_eq!(recorded, [json!([1, 1, 1])]);
}

/// The AWS CLI fails after the first page.
#[test]
fn usage_of_half_a_log_is_not_printed() {
    let aws = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failing-aws");
    let page = r#"["t/e.0","1769860800000.a","job.completed","1","1"]"#;
    fs::write(&aws, format!("#!/bin/sh\n[ $1 = dynamodb ] || exec echo deliveries\necho '{page}'\nexit 255\n"))
        .expect("a program");
    fs::set_permissions(&aws, Permissions::from_mode(0o755)).expect("it can be run");
    let mut usage = Command::new("python3");
    let usage = usage.arg(root().join("docs/operate.py")).args(["usage", "2026-01-31"]).env("AWS", aws);
    let output = usage.output().expect("Python");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(error.contains("the log could not be read") && !error.contains("no such object"), "{error}");
}
