//! `POST /v1/deliveries/list`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use common::webhooks::{
    delivery::{Delivery, Status},
    event::EventName,
};
use serde_json::{Value, json};
use tests::{Tenant, World, is_thorough, world::tables::item};

use super::{Book, DAY, Draft, HOUR, SECOND, STATUSES, id, ids, lookup::shards, newest_first, pages, read};

/// Creates deliveries with every status and event, three at each time. They go to two endpoints, to a deleted endpoint,
/// and to callbacks in several shards.
async fn mixed(world: &World) -> (Tenant, [String; 3], Vec<Delivery>, Book) {
    let tenant = world.tenant("acme").await;
    let mut endpoints = [const { String::new() }; 3];
    for endpoint in &mut endpoints {
        *endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    }
    world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoints[1]), json!({"log_shards": 8})).await;
    let book = Book::of(world);
    let drafts = (0..48_u32).map(|number| {
        let (at, job) = (book.ago(SECOND * (number / 3)), format!("job-{number}"));
        let draft = match number % 5 {
            0 => Draft::to(&endpoints[0], at, job),
            1 => Draft { shard: 7, ..Draft::to(&endpoints[1], at, job) },
            2 => Draft::to(&endpoints[2], at, job),
            3 => Draft::to_callback(0, at, job),
            _ => Draft::to_callback(7, at, job),
        };
        let event = if number % 7 < 3 { EventName::Failed } else { EventName::Completed };
        Draft { event, status: STATUSES[number as usize / 2 % 5], ..draft }
    });
    let deliveries = book.write(&tenant, drafts).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoints[1]})).await.ok();
    (tenant, endpoints, deliveries, book)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_shows_the_outcome_of_a_delivery() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let at = book.ago(SECOND);
    let pending = book.write_one(&tenant, Draft::to(&endpoint, at, "j").status(Status::Pending)).await;
    assert_eq!(
        read(&world, &tenant, "list", json!({})).await.ok(),
        &json!({"deliveries": [{
            "delivery_id": pending.id, "webhook_id": pending.webhook_id, "webhook_endpoint_id": endpoint,
            "event": "job.completed", "job_id": "j", "status": "pending", "attempts": 1,
            "created_at": at, "next_attempt_at": at.after(DAY * 2),
            "last_attempt": {
                "at": at, "outcome": "status_5xx", "status_code": 500, "duration_ms": 7, "response": "no",
                "trigger": "event",
            },
        }]})
    );
    let delivered = book.write_one(&tenant, Draft::to_callback(5, book.now, "k")).await;
    assert_eq!(
        read(&world, &tenant, "list", json!({"limit": 1})).await.ok()["deliveries"],
        json!([{
            "delivery_id": delivered.id, "webhook_id": delivered.webhook_id,
            "event": "job.completed", "job_id": "k", "status": "delivered", "attempts": 1, "created_at": book.now,
            "last_attempt": {
                "at": book.now, "outcome": "delivered", "status_code": 204, "duration_ms": 7, "trigger": "event",
            },
        }])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_are_first_over_all_destinations_and_pages() {
    let world = World::start().await;
    let (tenant, _, deliveries, _) = mixed(&world).await;
    let expected = newest_first(&deliveries);
    for limit in [1, 5, 47, 48, 100] {
        // All pages except the last one are full and have a cursor.
        let pages = pages(&world, &tenant, json!({"limit": limit})).await;
        assert_eq!(pages, expected.chunks(limit).map(<[String]>::to_vec).collect::<Vec<_>>(), "{limit}");
    }
    assert_eq!(ids(read(&world, &tenant, "list", json!({})).await.ok()), expected[..20], "the default");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_combination_of_filters_finds_all_matches() {
    let world = World::start().await;
    let (tenant, endpoints, deliveries, book) = mixed(&world).await;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    // The condition that each field sets.
    let passes = |fields: &Value, delivery: &Delivery| {
        let at = delivery.created_at.to_string();
        let wanted = |name: &str, has: Value| fields.get(name).is_none_or(|wanted| *wanted == has);
        wanted("status", json!(delivery.status))
            && wanted("event", json!(delivery.event))
            && wanted("webhook_endpoint_id", json!(delivery.webhook_endpoint_id))
            && text(&fields["since"]).is_none_or(|since| at >= since)
            && text(&fields["until"]).is_none_or(|until| at < until)
    };
    let (recent, old) = (book.ago(SECOND * 4), book.ago(SECOND * 11));
    let alternatives = [
        STATUSES.map(|status| json!({"status": status})).to_vec(),
        vec![json!({"event": "job.failed"})],
        endpoints.iter().map(|endpoint| json!({"webhook_endpoint_id": endpoint})).collect(),
        vec![json!({"since": recent}), json!({"until": recent}), json!({"since": old, "until": recent})],
    ];
    let mut combinations = vec![json!({})];
    for alternatives in alternatives {
        let with = |fields: &Value, more: &Value| {
            let mut fields = fields.clone();
            fields.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
            fields
        };
        let varied = combinations.iter().flat_map(|fields| alternatives.iter().map(|more| with(fields, more)));
        combinations.extend(varied.collect::<Vec<_>>());
    }
    assert_eq!(combinations.len(), 6 * 2 * 4 * 4);
    let limits: &[_] = if is_thorough() { &[3, 100] } else { &[7] };
    let mut found = 0;
    for mut fields in combinations {
        let expected = newest_first(deliveries.iter().filter(|delivery| passes(&fields, delivery)));
        found += expected.len();
        for limit in limits {
            fields["limit"] = json!(limit);
            assert_eq!(pages(&world, &tenant, fields.clone()).await.concat(), expected, "{fields}");
        }
    }
    assert!(found > 400, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_found_regardless_of_status_and_length_of_its_id() {
    let world = World::start().await;
    let (tenant, _, deliveries, book) = mixed(&world).await;
    for delivery in &deliveries[..8] {
        let found = pages(&world, &tenant, json!({"job_id": delivery.job_id})).await.concat();
        assert_eq!(found, [delivery.id.to_string()]);
        let both = json!({"job_id": delivery.job_id, "status": delivery.status});
        assert_eq!(pages(&world, &tenant, both).await.concat(), found);
    }
    assert!(pages(&world, &tenant, json!({"job_id": "unknown"})).await.concat().is_empty());
    // The log keeps at most 1,024 bytes of the id, cut between characters, and finds the job by them.
    let kept = "j".repeat(1023);
    let long = format!("{kept}🦀");
    let jobs = [(long.as_str(), kept.as_str()), ("", "")];
    for (status, (job, sought)) in STATUSES.into_iter().flat_map(|status| jobs.map(|job| (status, job))) {
        let at = book.ago(HOUR + SECOND * status as u32);
        let delivery = book.write_one(&tenant, Draft::to_callback(1, at, job).status(status)).await;
        let found = pages(&world, &tenant, json!({"job_id": sought, "status": status})).await.concat();
        assert_eq!(found, [delivery.id.to_string()]);
    }
}

/// However few deliveries pass a filter, a page is full unless it is the last.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_full_or_the_last() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let draft = |number: u32| {
        let event = if number.is_multiple_of(1000) { EventName::Failed } else { EventName::Completed };
        Draft { event, ..Draft::to(&endpoint, book.ago(SECOND * number), number) }
    };
    let wanted = book.write(&tenant, (0..4001).map(draft)).await;
    let wanted = newest_first(wanted.iter().filter(|delivery| delivery.event == EventName::Failed));
    let pages = pages(&world, &tenant, json!({"event": "job.failed", "limit": 2})).await;
    assert_eq!(pages, wanted.chunks(2).map(<[String]>::to_vec).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn items_older_than_the_retention_are_gone() {
    let world = World::with(&[("DELIVERY_RETENTION", "2")]).await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let mut kept = Vec::new();
    for status in STATUSES {
        let draft = |at| Draft::to(&endpoint, at, status).status(status);
        kept.push(book.write_one(&tenant, draft(book.ago(DAY * 2 - HOUR))).await);
        let gone = book.write_one(&tenant, draft(book.ago(DAY * 2))).await;
        for route in ["get", "resend"] {
            let answer = read(&world, &tenant, route, json!({"delivery_id": gone.id})).await;
            assert_eq!(answer.error(), (404, "NOT_FOUND", ""), "{route}");
            assert_eq!(answer.json()["message"], "Delivery not found");
        }
        assert_eq!(pages(&world, &tenant, json!({"status": status})).await.concat().len(), 1);
    }
    let long_ago = json!({"since": "2000-01-01T00:00:00Z"});
    assert_eq!(pages(&world, &tenant, long_ago.clone()).await.concat(), newest_first(&kept));
    let stats = read(&world, &tenant, "stats", long_ago).await;
    assert_eq!(stats.ok()["total"], json!({"pending": 1, "delivered": 1, "failed": 1, "held": 1, "ended": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_cannot_read_each_others_deliveries() {
    let world = World::start().await;
    let (theirs, [endpoint, deleted, _], deliveries, _) = mixed(&world).await;
    let ours = world.tenant("ours").await;
    assert_eq!(read(&world, &ours, "list", json!({})).await.ok(), &json!({"deliveries": []}));
    for status in STATUSES {
        assert!(pages(&world, &ours, json!({"status": status})).await.concat().is_empty());
    }
    let since = json!("2026-01-01T00:00:00Z");
    let stats = read(&world, &ours, "stats", json!({"since": since})).await;
    assert_eq!(stats.ok()["total"], json!({"pending": 0, "delivered": 0, "failed": 0, "held": 0, "ended": 0}));
    let unknown = uuid::Uuid::now_v7().to_string();
    for id in [&endpoint, &deleted, &unknown] {
        for route in ["list", "stats", "recover"] {
            let answer = read(&world, &ours, route, json!({"webhook_endpoint_id": id, "since": since})).await;
            assert_eq!(answer.error(), (404, "NOT_FOUND", ""), "{route}");
            assert_eq!(answer.json()["message"], "Webhook endpoint not found");
        }
    }
    for delivery in &deliveries[..5] {
        for route in ["get", "resend"] {
            let answer = read(&world, &ours, route, json!({"delivery_id": delivery.id})).await;
            assert_eq!(answer.error(), (404, "NOT_FOUND", ""), "{route}");
            assert_eq!(answer.json()["message"], "Delivery not found");
        }
    }
    assert_eq!(pages(&world, &theirs, json!({})).await.concat(), newest_first(&deliveries));
    assert!(world.drain("deliveries").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_of_one_millisecond_are_all_listed() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    for status in [Status::Delivered, Status::Failed] {
        let drafts = (0..12).map(|number| match (number % 3, format!("{status}-{number}")) {
            (0, job) => Draft::to_callback(4, book.now, job).status(status),
            (_, job) => Draft::to(&endpoint, book.now, job).status(status),
        });
        let deliveries = book.write(&tenant, drafts).await;
        let pages = pages(&world, &tenant, json!({"limit": 5, "status": status})).await;
        assert_eq!(pages.concat(), newest_first(&deliveries));
    }
}

/// Endpoints that were created later and deleted before it, such as those of `fanfare listen`, do not displace it.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_endpoint_that_was_just_deleted_is_listed() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let delivery = book.write_one(&tenant, Draft::to(&endpoint, book.ago(HOUR), "a")).await;
    let tomorrow = book.now.after(DAY).as_second();
    for _ in 0..100 {
        let id = format!("#deleted#{}", uuid::Uuid::now_v7());
        let deleted = json!({"tenant_id": tenant.id, "webhook_endpoint_id": id, "delete_at": tomorrow});
        world.put("webhook-endpoints", item(&deleted)).await;
    }
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let counted = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
    assert_eq!(counted.ok()["total"]["delivered"], 1);
    book.index(&id(&tenant), &shards(&world, &tenant).await, book.now).await.expect("it is written");
    for fields in [json!({}), json!({"job_id": "a"})] {
        assert_eq!(pages(&world, &tenant, fields).await.concat(), [delivery.id.to_string()]);
    }
}

/// Each shard of a deleted endpoint costs every list a read.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_endpoint_keeps_the_number_of_its_shards() {
    let is_refused = Arc::<AtomicBool>::default();
    let refused = Arc::clone(&is_refused);
    let world = World::answering(&[], move |call| {
        let is_deletion = call.operation == "TransactWriteItems" && call.body.to_string().contains("#deleted#");
        let reasons = ["ConditionalCheckFailed", "None", "None", "None", "None"].map(|code| json!({"Code": code}));
        let refusal = || (400, json!({"__type": "TransactionCanceledException", "CancellationReasons": reasons}));
        (is_deletion && refused.swap(false, Ordering::SeqCst)).then(refusal)
    })
    .await;
    let tenant = world.tenant("acme").await;
    for (number, spread) in [1, 8].into_iter().enumerate() {
        let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
        if spread > 1 {
            world.set("webhook-endpoints", ("webhook_endpoint_id", &endpoint), json!({"log_shards": spread})).await;
        }
        let book = Book::of(&world);
        let last = u8::try_from(spread - 1).expect("a shard");
        let delivery = Draft { shard: last, ..Draft::to(&endpoint, book.ago(HOUR), number) };
        let delivery = book.write_one(&tenant, delivery).await;
        let before = shards(&world, &tenant).await.len();
        // The log was spread over more shards between the read and the deletion.
        is_refused.store(true, Ordering::SeqCst);
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
        assert!(!is_refused.load(Ordering::SeqCst));
        assert_eq!(shards(&world, &tenant).await.len(), before);
        for fields in [json!({"job_id": number.to_string()}), json!({"webhook_endpoint_id": endpoint})] {
            assert_eq!(pages(&world, &tenant, fields).await.concat(), [delivery.id.to_string()]);
        }
    }
    let answer = world.rpc(&tenant.key, "webhooks/delete", json!({"id": uuid::Uuid::now_v7()})).await;
    assert_eq!(answer.status, 404);
}
