//! Deliveries are found by job, by workflow and by `webhook-id` in a log of any size.

use std::time::Duration;

use common::{
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Shard, Status, WebhookId},
        event::EventName,
    },
};
use serde_json::{Value, json};
use tests::{Call, Receiver, Tenant, World, event, records};

use super::{Book, Draft, HOUR, SECOND, id, ids, newest_first, pages};

const MINUTE: Duration = Duration::from_mins(1);

impl Book {
    /// Writes a tenant's index as if it were this time, until there is no more to write.
    pub(super) async fn index(&self, tenant: &TenantId, shards: &[Shard], now: Timestamp) -> Result<()> {
        while self.log.index(tenant, shards, now).await? {}
        Ok(())
    }
}

pub(super) async fn shards(world: &World, tenant: &Tenant) -> Vec<Shard> {
    world.stored_endpoints().shards(&id(tenant), None).await.expect("the shards")
}

/// The only page of a list.
async fn page(world: &World, tenant: &Tenant, fields: Value) -> Vec<String> {
    let page = world.rpc(&tenant.key, "deliveries/list", fields).await;
    assert_eq!(page.ok().get("next_cursor"), None);
    ids(page.ok())
}

/// Writes two deliveries of a job and of a rare workflow an hour ago, and 3,000 deliveries since then to one of the
/// endpoints, of a frequent workflow.
async fn beside_many(world: &World) -> (Tenant, Vec<Delivery>, Book) {
    let tenant = world.tenant("acme").await;
    let [one, other] = [
        world.endpoint(&tenant, "https://example.com/1", "s").await,
        world.endpoint(&tenant, "https://example.com/2", "s").await,
    ];
    let book = Book::of(world);
    let [one_sought, other_sought] =
        [&one, &other].map(|to| Draft::to(to, book.ago(HOUR), "sought").workflow("monthly-report"));
    let sought = book.write(&tenant, [one_sought, other_sought.status(Status::Failed)]).await;
    for some in 0..30_u32 {
        let drafts = (0..100).map(|number| {
            let at = book.ago(SECOND * (3000 - some * 100 - number));
            Draft::to(&one, at, format!("job-{some}-{number}")).workflow("import")
        });
        book.write(&tenant, drafts).await;
    }
    (tenant, sought, book)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_found_in_one_call_among_many_deliveries() {
    let world = World::metered().await;
    let (tenant, sought, book) = beside_many(&world).await;
    let other = world.tenant("other").await;
    let (job, webhook_id) = (json!({"job_id": "sought"}), json!({"webhook_id": sought[0].webhook_id}));
    for is_indexed in [false, true] {
        if is_indexed {
            book.index(&id(&tenant), &shards(&world, &tenant).await, book.now).await.expect("it is written");
        }
        let _before = world.units();
        assert_eq!(page(&world, &tenant, job.clone()).await, newest_first(&sought));
        let units = world.units().read;
        // Two parts of the index, two states, and the last three minutes, instead of 3,000 deliveries.
        assert_eq!(units < 100.0, is_indexed, "{units}");
        assert_eq!(page(&world, &tenant, webhook_id.clone()).await, [sought[0].id.to_string()]);
        for (filter, value, found) in
            [("status", "failed", 1), ("event", "job.failed", 0), ("outcome", "status_5xx", 1)]
        {
            let mut fields = job.clone();
            fields[filter] = json!(value);
            assert_eq!(page(&world, &tenant, fields).await, newest_first(&sought[1..])[..found], "{filter}");
        }
        let to = sought[0].webhook_endpoint_id.expect("an endpoint");
        assert_eq!(page(&world, &tenant, json!({"job_id": "sought", "webhook_endpoint_id": to})).await.len(), 1);
        let since = json!({"job_id": "sought", "since": book.ago(HOUR).after(SECOND)});
        assert_eq!(page(&world, &tenant, since).await.len(), 0);
        let until = json!({"job_id": "sought", "until": book.ago(HOUR).after(SECOND)});
        assert_eq!(page(&world, &tenant, until).await.len(), 2);
        for unknown in [json!({"job_id": "Sought"}), json!({"job_id": ""}), json!({"webhook_id": WebhookId::unique()})]
        {
            assert_eq!(page(&world, &tenant, unknown).await.len(), 0);
        }
        assert_eq!(page(&world, &other, job.clone()).await.len(), 0, "it belongs to another organization");
    }
}

/// A rare workflow is found through the index, a frequent one in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_rare_workflow_is_found_in_one_call_among_many_deliveries() {
    let world = World::metered().await;
    let (tenant, sought, book) = beside_many(&world).await;
    let rare = json!({"workflow": "monthly-report"});
    for is_indexed in [false, true] {
        if is_indexed {
            book.index(&id(&tenant), &shards(&world, &tenant).await, book.now).await.expect("it is written");
        }
        let _before = world.units();
        assert_eq!(page(&world, &tenant, rare.clone()).await, newest_first(&sought));
        let units = world.units().read;
        // The last three minutes, a part of the index, and two states, instead of 3,000 deliveries.
        assert_eq!(units < 100.0, is_indexed, "{units}");
        let failed = json!({"workflow": "monthly-report", "status": "failed"});
        assert_eq!(page(&world, &tenant, failed).await, [sought[1].id.to_string()]);
        assert_eq!(page(&world, &tenant, json!({"workflow": "Monthly-Report"})).await.len(), 0);
        let frequent = world.rpc(&tenant.key, "deliveries/list", json!({"workflow": "import", "limit": 100})).await;
        assert_eq!(ids(frequent.ok()).len(), 100);
        assert_eq!(pages(&world, &tenant, json!({"workflow": "import", "limit": 100})).await.concat().len(), 3000);
    }
}

/// A frequent job or a workflow that is nearly frequent has up to a thousand ids in the index for a page.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_reads_few_of_the_deliveries_in_the_index() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let (endpoint, book) = (world.endpoint(&tenant, "https://example.com/1", "s").await, Book::of(&world));
    for some in 0..9_u32 {
        let at = |number| book.ago(10 * MINUTE + SECOND * (some * 100 + number));
        book.write(&tenant, (0..100).map(|number| Draft::to(&endpoint, at(number), "sought"))).await;
    }
    book.index(&id(&tenant), &shards(&world, &tenant).await, book.now).await.expect("it is written");
    let fields = json!({"job_id": "sought", "limit": 20});
    let _before = world.units();
    assert_eq!(ids(world.rpc(&tenant.key, "deliveries/list", fields.clone()).await.ok()).len(), 20);
    let units = world.units().read;
    assert!(units < 250.0, "{units}");
    let all = pages(&world, &tenant, fields).await;
    assert_eq!((all.len(), all.concat().len()), (45, 900));
}

/// The price of a search by `fanfare wait`, in `docs/performance.md`.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_of_the_last_hour_reads_each_shard_once() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let fields = json!({"job_id": "sought", "since": Book::of(&world).ago(HOUR)});
    let mut units = Vec::new();
    for endpoints in 1..=3 {
        world.endpoint(&tenant, &format!("https://example.com/{endpoints}"), "s").await;
        let _before = world.units();
        assert_eq!(page(&world, &tenant, fields.clone()).await.len(), 0);
        units.push(world.units().read);
    }
    assert_eq!(units, [14.5, 15.5, 16.5]);
}

/// The deliveries of a job are erased exactly, also in the part that the index covers.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_erased_through_the_index() {
    let world = World::start().await;
    let (tenant, sought, book) = beside_many(&world).await;
    book.index(&id(&tenant), &shards(&world, &tenant).await, book.now).await.expect("it is written");
    let erased = world.rpc(&tenant.key, "deliveries/erase", json!({"job_id": "sought"})).await;
    assert_eq!((&erased.ok()["erased"], erased.ok().get("next_cursor")), (&json!(2), None));
    let listed = world.rpc(&tenant.key, "deliveries/list", json!({"job_id": "sought"})).await;
    let listed = listed.ok()["deliveries"].as_array().expect("a list").clone();
    assert_eq!(listed.iter().filter(|delivery| delivery["erased_at"].is_string()).count(), sought.len());
}

/// An event that waited in its queue for ten minutes belongs to a time that the index already covers. One that waited for
/// less than a minute does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_found_however_long_its_event_waited() {
    for (waited, status, is_known) in
        [(600, 200, false), (600, 200, true), (600, 500, true), (50, 200, false), (50, 200, true), (50, 500, true)]
    {
        let world = World::start().await;
        let tenant = world.tenant("acme").await;
        let script = [(200, &[] as &[_]), (status, &[])];
        let receiver = Receiver::scripted(&script[usize::from(!is_known)..]).await;
        let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
        if is_known {
            // The next attempt is made at once, so a success is stored in another way.
            world.deliver(event(&tenant.id, "before")).await;
        }
        let book = Book::of(&world);
        book.write(&tenant, [Draft::to(&endpoint, book.ago(MINUTE * 5), "earlier")]).await;
        book.index(&id(&tenant), &shards(&world, &tenant).await, book.now).await.expect("it is written");
        let mut records = records([event(&tenant.id, "sought")]);
        let sent = book.ago(SECOND * waited).as_millisecond().to_string();
        records["Records"][0]["attributes"] = json!({"SentTimestamp": sent, "ApproximateReceiveCount": "1"});
        world.stack.invoke("webhooks-deliver", records).await.expect("it is handled");
        world.drain_late().await;
        let period = json!({"since": book.ago(SECOND * (waited + 1)), "until": book.ago(SECOND * (waited - 1))});
        let listed = world.rpc(&tenant.key, "deliveries/list", period).await;
        let [delivery] = &listed.ok()["deliveries"].as_array().expect("a list")[..] else { unreachable!("{listed:?}") };
        for field in ["job_id", "webhook_id"] {
            let found = page(&world, &tenant, json!({field: delivery[field]})).await;
            assert_eq!(found, ids(listed.ok()), "{field} after {waited} s, HTTP {status}, known: {is_known}");
        }
        let all = pages(&world, &tenant, json!({})).await.concat().len();
        for later in [0, 5] {
            let now = book.now.after(MINUTE * later);
            book.index(&id(&tenant), &shards(&world, &tenant).await, now).await.expect("it is written");
            let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
            let total = stats.ok()["total"].as_object().expect("counts").values();
            let total: u64 = total.map(|count| count.as_u64().expect("a number")).sum();
            assert_eq!(total, all as u64, "after {waited} s, HTTP {status}, known: {is_known}, later: {later}");
        }
    }
}

/// About one delivery in a thousand requests the index of its organization. If it cannot be written, the next sweep
/// tries again.
#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_writes_the_index_that_a_delivery_requests() {
    let is_segment =
        |call: &Call| call.operation == "TransactWriteItems" && call.body.to_string().contains("\"parts\"");
    let (world, fails) = World::failing(is_segment).await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, &Receiver::start().await.url("/"), "s").await;
    let requests = |job: &u32| {
        let webhook_id = WebhookId::of(&id(&tenant), &job.to_string(), EventName::Completed.as_str(), &endpoint);
        let hex = webhook_id.to_string().split_off("msg_".len());
        u128::from_str_radix(&hex, 16).expect("a number").is_multiple_of(1024)
    };
    let job = (0..).find(requests).expect("a job of the sample");
    let others = (0..).filter(|job| !requests(job)).take(3);
    let minutes = |minutes: u32| Timestamp::now().after(MINUTE * minutes);
    let items_of = async |attribute: &str| {
        let (items, key) = (world.items("deliveries").await, format!("index/{}", tenant.id));
        items.iter().filter(|item| item[attribute].as_s().is_ok_and(|value| *value == key)).count()
    };
    for other in others {
        world.deliver(event(&tenant.id, other)).await;
    }
    assert_eq!(items_of("delivery").await, 0, "a few deliveries are found without an index");
    world.deliver(event(&tenant.id, job)).await;
    assert_eq!(items_of("delivery").await, 1);
    fails.on();
    world.sweep(minutes(4)).await;
    fails.off();
    world.sweep(minutes(5)).await;
    assert_eq!(items_of("destination").await, 4, "a segment, its part, a total, and the part of the failed sweep");
    assert_eq!(page(&world, &tenant, json!({"job_id": job.to_string()})).await.len(), 1);
}

/// Whatever is written between the sweeps, the pages of a search are the deliveries of the job, newest first. The same
/// holds for workflows that are rare in some segments and frequent in others.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_exact_between_any_sweeps() {
    let world = World::start().await;
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let tenant = world.tenant(&format!("t{seed}")).await;
        let (book, shards) = (Book::of(&world), shards(&world, &tenant).await);
        let (mut now, mut of_job, mut number) = (book.ago(HOUR), vec![Vec::new(); 4], 0);
        let mut of_workflow = vec![Vec::new(); 2];
        for _ in 0..rng.u32(1..6) {
            let share = rng.u32(0..100);
            let drafts = (0..rng.u32(0..80)).map(|_| {
                number += 1;
                // Each at another time, because a delivery is identified by its job and its time.
                let at = now.before(SECOND * rng.u32(0..59) + Duration::from_millis(number));
                // Jobs have the same names as workflows.
                let workflow = format!("name-{}", u8::from(rng.u32(0..100) < share));
                Draft::to_callback(rng.u8(0..8), at, format!("name-{}", rng.u32(0..4))).workflow(&workflow)
            });
            let drafts: Vec<_> = drafts.collect();
            for delivery in book.write(&tenant, drafts).await {
                let job = delivery.job_id.strip_prefix("name-").and_then(|job| job.parse::<usize>().ok());
                let workflow = delivery.workflow.as_deref() == Some("name-1");
                of_workflow[usize::from(workflow)].push(delivery.clone());
                of_job[job.expect("a number")].push(delivery);
            }
            now = now.after(MINUTE * 3);
            // Two sweeps at once, or none.
            let id = id(&tenant);
            let sweep = || book.index(&id, &shards, now);
            let (one, other) = if rng.bool() { tokio::join!(sweep(), sweep()) } else { (Ok(()), Ok(())) };
            one.and(other).expect("it is written");
            now = now.after(SECOND);
        }
        for (job, expected) in of_job.iter().enumerate() {
            let pages = pages(&world, &tenant, json!({"job_id": format!("name-{job}"), "limit": 3})).await;
            assert_eq!(pages.concat(), newest_first(expected), "seed {seed}, job-{job}");
        }
        for (workflow, expected) in of_workflow.iter().enumerate() {
            let fields = json!({"workflow": format!("name-{workflow}"), "limit": 9});
            let pages = pages(&world, &tenant, fields).await;
            assert_eq!(pages.concat(), newest_first(expected), "seed {seed}, workflow-{workflow}");
            assert!(pages.iter().rev().skip(1).all(|page| page.len() == 9), "seed {seed}: all but the last are full");
        }
        let stats = world.rpc(&tenant.key, "deliveries/stats", json!({"since": book.ago(HOUR * 3)})).await;
        assert_eq!(stats.ok()["total"]["delivered"], of_job.concat().len(), "seed {seed}");
    }
}

/// The slower sweep has the older clock. Its segment would end earlier, so the next sweep would count deliveries twice.
#[tokio::test(flavor = "multi_thread")]
async fn two_sweeps_that_index_a_log_count_each_delivery_once() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let (book, owner, shards) = (Book::of(&world), id(&tenant), shards(&world, &tenant).await);
    book.write(&tenant, [1, 3].map(|hours| Draft::to(&endpoint, book.ago(HOUR * hours), hours))).await;
    let (log, of, all, now) = (book.log.clone(), owner.clone(), shards.clone(), book.now);
    race.before_transaction(async move { assert!(!log.index(&of, &all, now).await.expect("it is written")) });
    for now in [book.ago(HOUR * 2), book.now] {
        book.index(&owner, &shards, now).await.expect("it is written");
    }
    assert!(race.is_over());
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({"since": book.ago(HOUR * 5)})).await;
    assert_eq!(stats.ok()["total"]["delivered"], 2);
}
