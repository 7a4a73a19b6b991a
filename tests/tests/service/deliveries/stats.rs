//! `POST /v1/deliveries/stats`.

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Value, json};
use tests::World;

use super::{Book, DAY, Draft, HOUR, SECOND, id, read};

fn counts([pending, delivered, failed, held, ended]: [u32; 5]) -> Value {
    json!({"pending": pending, "delivered": delivered, "failed": failed, "held": held, "ended": ended})
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_counted_by_status_hour_and_reason() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let deleted = world.endpoint(&tenant, "https://example.com/2", "s").await;
    let book = Book::of(&world);
    let (now, earlier, old) = (book.now, book.ago(HOUR * 5), book.ago(DAY + SECOND * 60));
    let drafts = [
        Draft::to(&endpoint, now, "1"),
        Draft::to(&endpoint, now, "2").status(Status::Pending),
        Draft::to(&endpoint, earlier, "3").status(Status::Failed),
        Draft::to_callback(6, earlier, "4").status(Status::Failed),
        Draft { shard: 3, ..Draft::to(&deleted, now, "5") }.status(Status::Ended),
        Draft::to(&endpoint, old, "6").status(Status::Failed),
        Draft::to(&endpoint, earlier, "8").status(Status::Held),
    ];
    book.write(&tenant, drafts).await;
    let (mut gone, _) = Draft::to(&endpoint, earlier, "7").status(Status::Failed).delivery(&id(&tenant));
    gone.last_attempt.as_mut().expect("an attempt").outcome = "gone".into();
    assert!(matches!(
        book.log.begin(vec![book.log.first_row(&id(&tenant), &gone, None, book.now)]).await[..],
        [Ok(())]
    ));
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": deleted})).await.ok();

    let answer = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
    let stats = answer.ok();
    let since: Timestamp = stats["since"].as_str().expect("a time").parse().expect("a time");
    assert!(since >= book.ago(DAY) && since < book.ago(DAY - SECOND * 60), "{since}");
    assert_eq!((&stats["complete"], &stats["total"]), (&json!(true), &counts([1, 1, 3, 1, 1])));
    let hour = |time: Timestamp, mut counts: Value| {
        counts["hour"] = json!(format!("{}:00:00.000Z", &time.to_string()[..13]));
        counts
    };
    assert_eq!(stats["hours"], json!([hour(earlier, counts([0, 0, 3, 1, 0])), hour(now, counts([1, 1, 0, 0, 1]))]));
    assert_eq!(stats["failures"], json!([{"reason": "status_5xx", "count": 2}, {"reason": "gone", "count": 1}]));
    assert_eq!(stats["recoveries"], json!([]));

    let all = book.ago(DAY * 2);
    for (fields, expected) in [
        (json!({"since": all}), counts([1, 1, 4, 1, 1])),
        (json!({"since": book.ago(HOUR)}), counts([1, 1, 0, 0, 1])),
        (json!({"since": all, "webhook_endpoint_id": endpoint}), counts([1, 1, 3, 1, 0])),
        (json!({"since": all, "webhook_endpoint_id": deleted}), counts([0, 0, 0, 0, 1])),
    ] {
        assert_eq!(read(&world, &tenant, "stats", fields.clone()).await.ok()["total"], expected, "{fields}");
    }
}

/// DynamoDB reads at most one megabyte at a time, and this log is larger.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_reads_many_pages_up_to_a_limit() {
    let world = World::with(&[("KEPT_PAYLOAD_BYTES", "350000")]).await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let body = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        json!(std::iter::repeat_with(|| random.alphanumeric()).take(300_000).collect::<String>()).to_string()
    };
    for (jobs, is_complete) in [(0..4_u32, true), (4..36, false)] {
        for job in jobs.clone() {
            let draft = Draft::to_callback(0, book.ago(SECOND * job), job).body(&body(job.into()));
            book.write_one(&tenant, draft).await;
        }
        let stats = read(&world, &tenant, "stats", json!({"since": book.ago(DAY)})).await;
        let counted = stats.ok()["total"]["delivered"].as_u64().expect("a number");
        assert_eq!(stats.ok()["complete"], is_complete);
        assert!(counted >= 4 && (counted == u64::from(jobs.end)) == is_complete, "{counted}");
        // All successes since `complete_since` are counted.
        if let Some(since) = stats.ok().get("complete_since") {
            let since: Timestamp = since.as_str().expect("a time").parse().expect("a time");
            let newer = jobs.end - u32::try_from(counted).expect("a number")..=jobs.end;
            let age = book.now.since(since).as_secs() + 1;
            assert!(newer.contains(&(jobs.end - u32::try_from(age).expect("seconds"))), "{counted} since {since}");
        }
    }
}
