//! Undelivered deliveries in a log with 10,000 newer successes. The console's first page, the endpoint's page, `stats`
//! and `list` agree on them.

use std::time::Duration;

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::json;
use tests::{Browser, Pages, Receiver, Tenant, World, browser::readable, event, is_thorough};

use super::{Book, Draft, HOUR, SECOND, pages};

const MINUTE: Duration = Duration::from_mins(1);

/// Reads all pages of the list. Returns the number of an endpoint's deliveries with this status, and the time of the
/// oldest.
async fn listed(world: &World, tenant: &Tenant, endpoint: &str, status: &str) -> (usize, Option<Timestamp>) {
    let fields = json!({"webhook_endpoint_id": endpoint, "status": status, "event": "job.completed", "limit": 100});
    let ids = pages(world, tenant, fields).await.concat();
    let at = |id: &String| id.split('.').nth(2).expect("a time").parse().expect("milliseconds");
    (ids.len(), ids.last().map(|id| Timestamp::from_millisecond(at(id))))
}

/// The text of an endpoint's row on the first page, and the text of its banner.
fn row<'a>(page: &'a str, name: &str) -> (&'a str, Option<&'a str>) {
    let parts: Vec<_> = page.split(&format!("{name} ")).collect();
    assert!((2..=3).contains(&parts.len()), "{name} is not on {page}");
    (parts[parts.len() - 1], (parts.len() == 3).then(|| parts[1]))
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_and_stats_count_the_deliveries_in_the_list() {
    let world = World::with(&[("RETRY_SCHEDULE", "3600")]).await;
    let tenant = world.tenant("acme").await;
    let (broken, gone) = (Receiver::scripted(&[(503, &[])]).await, Receiver::scripted(&[(410, &[])]).await);
    let retrying = world.endpoint(&tenant, &broken.url("/retrying"), "s").await;
    let disabled = world.endpoint(&tenant, &gone.url("/disabled"), "s").await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let inactive = world.endpoint(&tenant, "http://127.0.0.1:9/inactive", "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": inactive, "active": false})).await.ok();
    let healthy = world.endpoint(&tenant, "http://127.0.0.1:9/healthy", "s").await;

    let newer = if is_thorough() { 10_000 } else { 2_000 };
    let book = Book::of(&world);
    let successes = |endpoint: &str, number: u32| {
        let endpoint = endpoint.to_owned();
        (0..number).map(move |job| (endpoint.clone(), job))
    };
    let behind = [successes(&retrying, newer), successes(&disabled, 100), successes(&inactive, 100)];
    let drafts = behind.into_iter().chain([successes(&healthy, 20)]).flatten();
    // All successes are newer than the undelivered deliveries.
    let at = |job: u32| book.now.after(SECOND * 5).before(Duration::from_micros(400) * job);
    let delivered = |(endpoint, job): (String, u32)| Draft::to(&endpoint, at(job), format!("ok {job}"));
    book.write(&tenant, drafts.map(delivered)).await;
    let old = |number: u32| book.ago(HOUR * 20 + MINUTE * number);
    book.write(&tenant, (0..7).map(|job| Draft::to(&disabled, old(job), job).status(Status::Failed))).await;
    book.write(&tenant, (0..1_500).map(|job| Draft::to(&inactive, old(job % 200), job).status(Status::Held))).await;
    book.write(&tenant, (0..3).map(|job| Draft::to(&healthy, old(job), job).status(Status::Failed))).await;

    let browser = Browser::new(&world, &tenant.cookie);
    let first = browser.open("/console").await;
    let page = readable(first.page());
    assert!(page.contains("4 endpoints, 1 retrying, 1 disabled by us, 1 disabled by your team ."), "{page}");
    let expected = [
        ("/retrying", &retrying, "Retrying", None, "HTTP 503"),
        ("/disabled", &disabled, "Disabled: HTTP 410", Some("8 failed deliveries"), "HTTP 410"),
        ("/inactive", &inactive, "Disabled by your team", Some("1,500 held deliveries"), "None"),
        ("/healthy", &healthy, "3 failed", Some("3 failed deliveries"), "Not recorded"),
    ];
    for (name, endpoint, state, missed, error) in expected {
        let own = readable(browser.open(&format!("/console/endpoints/{endpoint}")).await.page());
        let stats = world.rpc(&tenant.key, "deliveries/stats", json!({"webhook_endpoint_id": endpoint})).await;
        let (stats, (row, banner)) = (stats.ok(), row(&page, name));
        assert!(row.contains(state) && own.contains(state), "{name}: {row}\n{own}");
        assert!(row.contains(error), "{name}: {row}");
        for status in ["pending", "failed", "held"] {
            let (count, oldest) = listed(&world, &tenant, endpoint, status).await;
            let open = &stats["open"][status];
            let mut fields = json!({"count": count, "more": false});
            if let Some(oldest) = oldest {
                fields["oldest_at"] = json!(oldest);
            }
            assert_eq!(*open, fields, "{name}: {status}");
            assert_eq!(stats["total"][status], count, "{name}: all are from the last 24 hours");
        }
        let (pending, oldest) = listed(&world, &tenant, endpoint, "pending").await;
        if let Some(oldest) = oldest {
            let said = format!("{pending} , oldest ");
            assert!(row.contains(&said) && first.page().contains(&format!("datetime=\"{oldest}\"")), "{name}: {row}");
            assert!(own.contains(&format!("Pending {pending} oldest ")), "{name}: {own}");
        } else {
            assert!(own.contains("Pending 0 "), "{name}: {own}");
        }
        if let Some(missed) = missed {
            let banner = banner.expect("a banner");
            let status = if missed.contains("held") { "held" } else { "failed" };
            let (_, oldest) = listed(&world, &tenant, endpoint, status).await;
            for said in [missed, &oldest.expect("a missed delivery").readable()] {
                assert!(banner.contains(said) && own.contains(said), "{name}: {said} in {banner}\n{own}");
            }
        }
        if error.starts_with("HTTP") {
            let logged = world.log(&tenant.id).await;
            let newest = logged.iter().find(|one| {
                one.webhook_endpoint_id.is_some_and(|id| id.to_string() == **endpoint) && one.job_id == "job-1"
            });
            let attempt = newest.and_then(|one| one.last_attempt.as_ref()).expect("the attempt of the event");
            let code = attempt.status_code;
            let last = json!({"at": attempt.at, "reason": attempt.outcome, "status_code": code});
            assert_eq!(stats["last_error"], last, "{name}");
            assert!(first.page().contains(&format!("datetime=\"{}\"", attempt.at)), "{name}: {row}");
            assert!(own.contains(&attempt.at.readable()), "{name}: {own}");
        } else {
            assert!(stats.get("last_error").is_none(), "{name}: {stats}");
        }
    }
    let (retrying_row, _) = row(&page, "/retrying");
    assert!(retrying_row.contains(&format!("{newer} delivered, 1 pending")), "{retrying_row}");
    assert!(row(&page, "/healthy").0.contains("20 delivered, 3 failed"), "{page}");
    assert!(!first.page().contains("<rect class=\"unread\""), "all are counted");
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({"webhook_endpoint_id": retrying})).await;
    let stats = stats.ok();
    assert_eq!((&stats["total"]["delivered"], &stats["complete"]), (&json!(newer), &json!(true)));
}

/// A backlog that is too large for a statement: of its deliveries, those of a period are counted or listed by queries.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_backlog_is_counted_for_any_period() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/hook", "s").await;
    let book = Book::of(&world);
    let failed = (0..700).map(|number| Draft::to(&endpoint, book.ago(MINUTE * (4 * number + 1)), number));
    book.write(&tenant, failed.map(|draft| draft.status(Status::Failed))).await;
    for (since, expected) in [(HOUR, 15), (HOUR * 20, 300), (HOUR * 40, 600), (HOUR * 100, 700)] {
        let since = book.ago(since);
        let stats = world.rpc(&tenant.key, "deliveries/stats", json!({ "since": since })).await;
        let stats = stats.ok();
        assert_eq!((&stats["open"]["failed"]["count"], &stats["total"]["failed"]), (&json!(700), &json!(expected)));
        let hours = stats["hours"].as_array().expect("hours").iter();
        let failed: u64 = hours.map(|hour| hour["failed"].as_u64().expect("a number")).sum();
        assert_eq!((failed, &stats["complete"]), (expected, &json!(true)));
    }
    let browser = Browser::new(&world, &tenant.cookie);
    for (filter, failed) in [("", 700), ("range=1h", 15), ("range=24h", 360)] {
        let page = readable(browser.open(&format!("/console/deliveries?{filter}")).await.page());
        assert!(page.contains(&format!("Failed {failed} ")), "{filter}: {page}");
    }
    assert!(readable(browser.open("/console/recovery").await.page()).contains("Resend all 700 failed deliveries"));
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_in_pages_are_read_to_their_end() {
    for (pages, most_calls) in [(Pages::OfTen, 40), (Pages::OfTenItems, 40), (Pages::OnlyKeys, 40)] {
        let world = World::paging(pages).await;
        let tenant = world.tenant("acme").await;
        let mut endpoints = Vec::new();
        for number in 0..30 {
            endpoints.push(world.endpoint(&tenant, &format!("https://example.com/{number}"), "s").await);
        }
        let all = async || world.rpc(&tenant.key, "deliveries/stats", json!({})).await.ok().clone();
        let stats = async || all().await["open"].clone();
        let before = world.calls();
        stats().await;
        let without_any = world.calls() - before;
        let book = Book::of(&world);
        let old = |job: u32| book.ago(HOUR + SECOND * job);
        book.write(&tenant, endpoints.iter().map(|id| Draft::to(id, old(0), 0).status(Status::Failed))).await;
        let before = world.calls();
        assert_eq!(stats().await["failed"]["count"], 30, "{pages:?}");
        let calls = world.calls() - before;
        assert!(calls <= without_any + most_calls, "{pages:?}: {calls} calls, {without_any} without deliveries");
        // In few calls at a time, which a busy machine answers before their timeout.
        for first in (1..=1_200).step_by(100) {
            let pending = |job| Draft::to(&endpoints[7], old(job), job).status(Status::Pending);
            book.write(&tenant, (first..first + 100).map(pending)).await;
        }
        let open = stats().await;
        let counts = ["pending", "failed", "held"].map(|status| open[status]["count"].clone());
        assert_eq!(counts, [json!(1_200), json!(30), json!(0)], "{pages:?}");
        let job = |number: u32| format!("delivered {number}");
        book.write(&tenant, endpoints.iter().map(|id| Draft::to(id, book.ago(HOUR), job(0)))).await;
        book.write(&tenant, (1..=70).map(|number| Draft::to(&endpoints[7], old(number), job(number)))).await;
        assert_eq!(all().await["total"]["delivered"], 100, "{pages:?}");
    }
}
