//! `POST /v1/deliveries/stats`.

use common::{
    timestamp::Timestamp,
    webhooks::{delivery::Status, event::EventName},
};
use serde_json::{Value, json};
use tests::World;

use super::{Book, DAY, Draft, HOUR, SECOND, id, lookup, read};

fn counts([pending, delivered, failed, held, ended]: [u32; 5]) -> Value {
    json!({"pending": pending, "delivered": delivered, "failed": failed, "held": held, "ended": ended})
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_counted_by_status_hour_and_reason() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let deleted = world.endpoint(&tenant, "https://example.com/2", "s").await;
    world.set("webhook-endpoints", ("webhook_endpoint_id", &deleted), json!({"log_shards": 8})).await;
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
async fn a_count_reads_many_pages() {
    let world = World::with(&[("KEPT_PAYLOAD_BYTES", "350000")]).await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let body = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        json!(std::iter::repeat_with(|| random.alphanumeric()).take(300_000).collect::<String>()).to_string()
    };
    for job in 0..12_u32 {
        book.write_one(&tenant, Draft::to_callback(0, book.ago(SECOND * job), job).body(&body(job.into()))).await;
    }
    let stats = read(&world, &tenant, "stats", json!({"since": book.ago(DAY)})).await;
    assert_eq!((&stats.ok()["complete"], &stats.ok()["total"]), (&json!(true), &counts([0, 12, 0, 0, 0])));
}

/// A statement leaves the rest to queries.
#[tokio::test(flavor = "multi_thread")]
async fn many_successes_are_counted_beside_few() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let mut endpoints = Vec::new();
    for number in 0..3_u32 {
        let endpoint = world.endpoint(&tenant, &format!("https://example.com/{number}"), "s").await;
        // The statement reads the endpoints in the order of their ids.
        endpoints.push(endpoint);
        endpoints.sort();
    }
    for (endpoint, deliveries) in endpoints.iter().zip([3, 2200, 5]) {
        book.write(&tenant, (0..deliveries).map(|job| Draft::to(endpoint, book.ago(SECOND * job), job))).await;
    }
    let stats = read(&world, &tenant, "stats", json!({"since": book.ago(HOUR)})).await;
    assert_eq!((&stats.ok()["complete"], &stats.ok()["total"]), (&json!(true), &counts([0, 2208, 0, 0, 0])));
}

/// An index does not change the numbers, neither when it is written, nor when deliveries change later.
#[tokio::test(flavor = "multi_thread")]
async fn successes_are_counted_through_totals() {
    const STATUSES: [Status; 5] = [Status::Delivered, Status::Pending, Status::Failed, Status::Held, Status::Ended];
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let one = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let other = world.endpoint(&tenant, "https://example.com/2", "s").await;
    let book = Book::of(&world);
    let first = Timestamp::from_millisecond(book.now.hour().as_millisecond()).before(HOUR * 3);
    let mut written = Vec::new();
    for number in 0..1000_u32 {
        let to = if number.is_multiple_of(3) { &other } else { &one };
        let status = STATUSES[usize::try_from(number % 50).expect("small").min(9) % 5];
        let draft = Draft::to(to, first.after(SECOND * (number * 9)), number).status(status);
        written.push(match number.is_multiple_of(7) {
            true => Draft { event: EventName::Test, ..draft },
            false => Draft { shard: u8::from(number.is_multiple_of(2)), ..draft },
        });
    }
    book.write(&tenant, written).await;
    for endpoint in [&one, &other] {
        world
            .stored_endpoints()
            .spread_log(&id(&tenant), endpoint.parse().expect("an id"))
            .await
            .expect("it is spread");
    }
    let all = async || {
        let mut all = Vec::new();
        for fields in [json!({}), json!({"webhook_endpoint_id": one}), json!({"webhook_endpoint_id": other})] {
            for since in [first, first.after(HOUR)] {
                let mut fields = fields.clone();
                fields["since"] = json!(since);
                let mut stats = read(&world, &tenant, "stats", fields).await.ok().clone();
                stats["recoveries"] = Value::Null;
                all.push(stats);
            }
        }
        all
    };
    let _before = world.units();
    let read_all = all().await;
    let units = world.units().read;
    book.index(&id(&tenant), &lookup::shards(&world, &tenant).await, book.now).await.expect("it is written");
    let _before = world.units();
    assert_eq!(all().await, read_all);
    let units = (units, world.units().read);
    assert!(units.1 < units.0 * 0.8, "{units:?}");
    assert_eq!(read_all[0]["complete"], true);

    // Within an hour that is covered, the whole hour is counted.
    let since = json!({"since": first.after(HOUR * 3 / 2)});
    let stats = read(&world, &tenant, "stats", since).await.ok().clone();
    assert_eq!((&stats["since"], &stats["total"]), (&read_all[1]["since"], &read_all[1]["total"]));

    let failed = read(&world, &tenant, "list", json!({"status": "failed", "event": "job.completed", "limit": 1})).await;
    let failed = failed.ok()["deliveries"][0].clone();
    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": failed["delivery_id"]})).await.ok();
    let stats = read(&world, &tenant, "stats", json!({"since": first})).await.ok().clone();
    let changed = |status: &str, by: i64| {
        let [now, before] = [&stats, &read_all[0]].map(|stats| stats["total"][status].as_i64().expect("a number"));
        assert_eq!(now - before, by, "{status}");
    };
    changed("failed", -1);
    changed("pending", 1);
    changed("delivered", 0);
}
