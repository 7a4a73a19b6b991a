//! The page `/console`.

use std::{io::Write, time::Duration};

use common::webhooks::delivery::Status;
use flate2::{Compression, write::DeflateEncoder};
use serde_json::json;
use tests::{Browser, Receiver, World, event, world::tables::Item};

use super::{says, text};
use crate::deliveries::{Book, Draft, HOUR};

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_console_shows_the_first_step() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console").await;
    let send = format!("fanfare send --tenant {} --job job-1", tenant.id);
    let steps = ["Add an endpoint.", "fanfare listen --to 3000/hook", "Verify the signature.", "See it arrive.", &send];
    says(&page, &["Webhooks", "Endpoints", "No endpoints yet"]);
    says(&page, &steps);
    says(&page, &["curl http://127.0.0.1"]);
    assert!(page.page().contains("<a class=\"button\" href=\"/console/endpoints/new\">"));
    assert_eq!(browser.open("/").await.headers["location"], "/console");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_with_problems_come_first_with_a_resend_button() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let (well, gone) = (Receiver::start().await, Receiver::scripted(&[(410, &[])]).await);
    world.endpoint(&tenant, &well.url("/well"), "s").await;
    let endpoint = world.endpoint(&tenant, &gone.url("/gone"), "s").await;
    for job in 0..3 {
        world.deliver(event(&tenant.id, job)).await;
        world.handle_all().await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console").await;
    says(
        &page,
        &[
            "2 endpoints, 1 disabled by us .",
            "Disabled: HTTP 410",
            "/gone",
            "1 failed and 2 held deliveries , the oldest created just now",
            "Last error: HTTP 410. The receiver asked to stop deliveries.",
            "Enable and resend 3 deliveries",
            "/gone",
            "Disabled",
            "1 failed, 2 held",
            "HTTP 410",
            "/well",
            "Healthy",
            "3 delivered",
        ],
    );
    // The receiver has answered 410.
    let page = browser.press("/console", &page, "Enable and resend 3 deliveries", &[]).await;
    says(
        &page,
        &["Enable and resend 3 deliveries?", "1 failed and 2 held deliveries", "The receiver answered 410 Gone"],
    );
    assert_eq!(gone.count().await, 1);
    let page = browser.press("/console", &page, "Enable and resend 3 deliveries", &[]).await;
    says(&page, &["Resending 3 deliveries : starts within seconds"]);
    // The page has one notice about the receiver, and no button to resend.
    assert_eq!(page.page().matches("starts within").count(), 1, "{}", page.page());
    assert!(!text(&page).contains("resend 3 deliveries") && !text(&page).contains("Resend 3"), "{}", text(&page));
    says(&browser.open("/console").await, &["1 failed and 2 held deliveries", "They are being resent."]);
    world.sweep(common::timestamp::Timestamp::now()).await;
    world.handle_all().await;
    says(
        &browser.open(&format!("/console/endpoints/{endpoint}")).await,
        &["Healthy", "3 deliveries resent, all delivered"],
    );
    assert_eq!(gone.count().await, 4);
    says(&browser.open("/console").await, &["none failing or disabled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_attempts_are_shown_before_a_delivery_has_failed() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.deliver(event(&tenant.id, "job")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console").await;
    says(&page, &["1 retrying", "1 pending", "Retrying", "1 pending", "HTTP 500", "just now"]);
    says(&browser.open(&format!("/console/endpoints/{endpoint}")).await, &["Retrying", "Success rate 0% so far"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_test_is_shown_until_a_later_delivery_succeeds() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(401, &[]), (200, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let (browser, path) = (Browser::new(&world, &tenant.cookie), format!("/console/endpoints/{endpoint}"));
    let page = browser.open(&path).await;
    let delivery = browser.press(&path, &page, "Send test event", &[("event", "job.failed")]).await;
    // The usual mistakes have one answer.
    says(
        &delivery,
        &[
            "the usual causes are a parsed body, a wrong secret and a wrong clock. A signature that does not match",
            "HTTP 401",
        ],
    );
    assert!(
        delivery.page().contains("href=\"/docs/receiving#a-signature-that-does-not-match\""),
        "{}",
        delivery.page()
    );
    says(&browser.open("/console").await, &["/hook", "No recent jobs", "Test: HTTP 401 , just now"]);
    let delivery = browser.press(&path, &page, "Send test event", &[]).await;
    says(&delivery, &["Delivered", "it does not count in the numbers of its endpoint"]);
    let page = browser.open("/console").await;
    assert!(!text(&page).contains("Test: HTTP"), "{}", text(&page));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_of_an_event_is_not_shown_as_a_test() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(200, &[]), (500, &[])]).await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
    world.handle_all().await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let page = Browser::new(&world, &tenant.cookie).open("/console").await;
    says(&page, &["HTTP 500"]);
    assert!(!text(&page).contains("Test: HTTP"), "{}", text(&page));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bars_have_the_numbers_of_their_hours() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    for job in 0..2 {
        world.deliver(event(&tenant.id, job)).await;
    }
    let path = format!("/console/endpoints/{endpoint}");
    let page = Browser::new(&world, &tenant.cookie).open(&path).await;
    let bars = page.page().matches("<rect class=\"delivered\"").count();
    // The hour may have ended in the meantime.
    assert!((1..=2).contains(&bars) && page.page().contains(": 2 delivered</title>") == (bars == 1), "{}", page.page());
    assert_eq!(page.page().matches("<path class=\"hit\"").count(), 25);
    says(&page, &["Success rate 100% of 2", "Response time (p95)", " ms", "Failed 0", "Pending 0", "Last error None"]);
    // Each bar links to the deliveries of its hour.
    let bar = page.page().split("<a href=\"").find(|link| link.contains("<rect class=\"delivered\"")).expect("a bar");
    let hour = bar.split('"').next().unwrap_or_default().replace("&amp;", "&");
    let listed = Browser::new(&world, &tenant.cookie).open(&hour).await;
    assert_eq!(text(&listed).matches("job.completed Delivered").count(), 3 - bars, "{hour}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_endpoints_is_on_one_page() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "290")]).await;
    let tenant = world.tenant("acme").await;
    for number in 100..223 {
        world.endpoint(&tenant, &format!("http://127.0.0.1:9/n{number}"), "s").await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let mut seen = Vec::new();
    for page in 1..=3 {
        let answer = browser.open(&format!("/console?page={page}")).await;
        let mut compressed = DeflateEncoder::new(Vec::new(), Compression::default());
        compressed.write_all(answer.page().as_bytes()).expect("a write to memory succeeds");
        assert!(compressed.finish().expect("a write to memory succeeds").len() < 10_000, "the page is small");
        let text = text(&answer);
        assert!(text.contains(&format!("Page {page} of 3")), "{text}");
        seen.extend((100..223).filter(|number| text.contains(&format!("/n{number} "))));
    }
    assert_eq!(seen, (100..223).collect::<Vec<_>>());
    for strange in ["0", "99", "-1", "x", ""] {
        assert_eq!(browser.open(&format!("/console?page={strange}")).await.status, 200, "{strange}");
    }
}

/// Descriptions and URLs are untrusted text.
#[tokio::test(flavor = "multi_thread")]
async fn untrusted_text_is_shown_as_text() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let description = "<script>alert(1)</script> \"' \u{202e}evil\u{200b}\u{ad}\u{e0041} javascript:alert(1)";
    let fields = json!({"url": "http://127.0.0.1:9/a?b=<i>&c=\"", "description": description});
    world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    let page = Browser::new(&world, &tenant.cookie).open("/console").await;
    says(&page, &["<script>alert(1)</script> \"' ⟨U+202E⟩evil⟨U+200B⟩⟨U+00AD⟩⟨U+E0041⟩ javascript:al…"]);
}

/// The failures are visible only in the log, not in the endpoints' items: endpoints whose items contain a recent error
/// are listed on the first page.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_names_failures_on_other_pages() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    for number in 10..60 {
        world.endpoint(&tenant, &format!("http://127.0.0.1:9/n{number}"), "s").await;
    }
    let receiver = Receiver::scripted(&[(500, &[]), (204, &[])]).await;
    let last = world.endpoint(&tenant, &receiver.url("/last"), "s").await;
    let endpoints = world.endpoints(&tenant).await;
    for number in 10..60 {
        let id = &endpoints[number - 10]["webhook_endpoint_id"];
        world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "events": ["job.failed"]})).await.ok();
    }
    let browser = Browser::new(&world, &tenant.cookie);
    assert!(!text(&browser.open("/console").await).contains("other pages"));
    for job in ["fails", "succeeds"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let page = browser.open("/console?page=2").await;
    says(
        &page,
        &["51 endpoints, none failing", "1 endpoint on other pages", "/last", "1 failed delivery", "Page 2 of 2"],
    );
    assert!(page.page().contains(&format!("href=\"/console/endpoints/{last}\"")));
    // The endpoint's own page has only its own banner.
    let own = browser.open("/console").await;
    says(&own, &["/last", "1 failed delivery , created just now", "Page 1 of 2"]);
    assert!(!text(&own).contains("other pages"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_counts_failing_and_disabled_endpoints_apart() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let off = world.endpoint(&tenant, "http://127.0.0.1:9/off", "s").await;
    says(&browser.open("/console").await, &["1 endpoint, none failing or disabled"]);
    world.rpc(&tenant.key, "webhooks/update", json!({"id": off, "active": false})).await.ok();
    says(&browser.open("/console").await, &["1 endpoint, 1 disabled by your team ."]);
    for (status, path) in [(500, "/bad"), (410, "/gone")] {
        let receiver = Receiver::scripted(&[(status, &[])]).await;
        world.endpoint(&tenant, &receiver.url(path), "s").await;
        world.deliver(event(&tenant.id, path)).await;
        world.handle_all().await;
    }
    let page = browser.open("/console").await;
    says(&page, &["3 endpoints, 1 failing, 1 disabled by us, 1 disabled by your team ."]);
}

/// Fifty banners would hide the table.
#[tokio::test(flavor = "multi_thread")]
async fn at_most_three_endpoints_have_a_banner() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 58]).await;
    for number in 10..68 {
        world.endpoint(&tenant, &receiver.url(&format!("/n{number}")), "s").await;
    }
    world.deliver(event(&tenant.id, "job")).await;
    let page = Browser::new(&world, &tenant.cookie).open("/console").await;
    says(
        &page,
        &["58 endpoints, 58 failing", "8 endpoints on other pages", "and 3 more", "47 more endpoints in the table"],
    );
    assert_eq!(page.page().matches(">Resend 1 failed delivery</button>").count(), 3);
    assert!(page.page().contains("<a href=\"/console?page=2\">and 3 more</a>"));
    // For screen readers, each button names its endpoint.
    assert_eq!(page.page().matches("aria-label=\"Resend 1 failed delivery: 127.0.0.1").count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_named_or_counted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let all = ["job.completed", "job.failed", "endpoint.failing", "endpoint.disabled", "endpoint.recovered"];
    for fields in [
        json!({"url": "http://127.0.0.1:9/a"}),
        json!({"url": "http://127.0.0.1:9/b", "events": ["job.failed"], "workflows": ["one", "two"]}),
        json!({"url": "http://127.0.0.1:9/c", "events": all}),
    ] {
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console").await;
    says(&page, &["/a", "All job events", "/b", "job.failed", "2 workflows", "/c", "5 events"]);
    let id =
        world.endpoints(&tenant).await.into_iter().find(|endpoint| endpoint["url"] == json!("http://127.0.0.1:9/c"));
    let id = tests::text(&id.expect("an endpoint")["webhook_endpoint_id"]).to_owned();
    says(&browser.open(&format!("/console/endpoints/{id}")).await, &["Settings", "Events", all[2], all[0]]);
}

/// A hundred endpoints with URLs and descriptions of maximum length, which consist of random characters so that they
/// cannot be compressed. Of the fifty on the first page, ten have every kind of bar in every hour.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_of_a_hundred_endpoints_is_small() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut rng = fastrand::Rng::with_seed(7);
    let mut noise = |length: usize| (0..length).map(|_| rng.alphanumeric()).collect::<String>();
    let book = Book::of(&world);
    for number in 0..100_u32 {
        let url = format!("https://{}.example.com/{}", noise(60), noise(1_950));
        let fields = json!({"url": url, "description": noise(500)});
        let made = world.rpc(&tenant.key, "webhooks/create", fields).await;
        let id = made.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
        if number < 10 {
            let drafts = (0..24 * 4).map(|at| {
                let draft = Draft::to(&id, book.ago(HOUR * (at / 4) + MINUTE), format!("{number} {at}"));
                match at % 4 {
                    0 => draft.status(Status::Failed),
                    1 => draft.status(Status::Held),
                    2 if at % 3 == 0 => draft.status(Status::Pending),
                    _ => draft,
                }
            });
            book.write(&tenant, drafts).await;
        }
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console").await;
    says(&page, &["100 endpoints", "Page 1 of 2"]);
    let mut compressed = DeflateEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(page.page().as_bytes()).expect("a write to memory succeeds");
    let (whole, small) = (page.page().len(), compressed.finish().expect("a write to memory succeeds").len());
    assert!(small < 22_000, "{whole} bytes, {small} compressed");
}

/// A hundred endpoints, fifty of them on the page. Ten have a thousand deliveries each, and the others a few. Endpoints on
/// other pages and deliveries that the totals contain do not add reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_page_of_a_hundred_endpoints_makes_few_reads() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    for number in 0..100_u32 {
        let id =
            world.endpoint(&tenant, &format!("https://example.com/hook/{number}"), "a secret of some length").await;
        if number < 50 {
            let jobs = if number < 10 { 1_000 } else { 10_u32 };
            let drafts = (0..jobs).map(|job| Draft::to(&id, book.ago(MINUTE * job), format!("{number} {job}")));
            book.write(&tenant, drafts).await;
        }
    }
    let owner = tenant.id.parse().expect("an id");
    let shards = world.stored_endpoints().shards(&owner, None).await.expect("the shards");
    while world.delivery_log().index(&owner, &shards, common::timestamp::Timestamp::now()).await.expect("it is written")
    {
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let _before = world.units();
    says(&browser.open("/console").await, &["100 endpoints", "10400 delivered"]);
    let page = world.units();
    world.rpc(&tenant.key, "webhooks/list", json!({})).await.ok();
    let list = world.units();
    assert!(page.calls <= 12 && page.read <= 22.0, "{page:?}, against {list:?} for the list");
}

/// Eleven endpoints, of which the last two have a backlog.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_counted_to_its_end_for_every_endpoint() {
    let world = World::metered().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    let mut last = String::new();
    for number in 0..11_u32 {
        last = world.endpoint(&tenant, &format!("https://example.com/hook/{number}"), "a secret of some length").await;
        if number >= 9 {
            let failed = (0..2_500_u32).map(|job| {
                Draft::to(&last, book.ago(Duration::from_secs(job.into())), format!("{number} {job}"))
                    .status(Status::Failed)
            });
            book.write(&tenant, failed).await;
        }
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let _before = world.units();
    let page = browser.open("/console").await;
    let units = world.units();
    says(&page, &["/hook/9", "2,500 failed", "/hook/10", "2,500 failed"]);
    assert!(units.calls <= 28, "{units:?}");
    says(&browser.open(&format!("/console/endpoints/{last}")).await, &["2,500 failed deliveries"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_refreshes_itself_only_on_request_and_while_pending() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (204, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.deliver(event(&tenant.id, "job")).await;
    let delivery = world.only_logged(&tenant.id).await.id;
    let browser = Browser::new(&world, &tenant.cookie);
    let paths = [
        "/console".to_owned(),
        format!("/console/endpoints/{endpoint}"),
        format!("/console/deliveries/{delivery}"),
        "/console/deliveries".to_owned(),
    ];
    for path in &paths {
        let still = browser.open(path).await;
        says(&still, &["Refresh every 5 s"]);
        assert!(still.headers.get("refresh").is_none(), "{path}");
        let live = browser.open(&format!("{path}?live=1")).await;
        says(&live, &["Refreshing every 5 s", "Stop refreshing"]);
        assert_eq!(live.headers["refresh"], "5", "{path}");
    }
    let page = browser.open(&paths[2]).await;
    browser.submit(&paths[2], &page, "Resend", &[]).await;
    world.handle_all().await;
    for path in &paths {
        let done = browser.open(&format!("{path}?live=1")).await;
        says(&done, &["Nothing is pending, so this page stopped refreshing."]);
        assert!(done.headers.get("refresh").is_none(), "{path}");
        assert!(!text(&browser.open(path).await).contains("Refresh"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_deliveries_of_all_endpoints_are_resent_at_once() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let book = Book::of(&world);
    let browser = Browser::new(&world, &tenant.cookie);
    let failed = |endpoint: &str, job: usize| Draft::to(endpoint, book.ago(HOUR), job).status(Status::Failed);
    let mut again = String::new();
    for number in 0..12 {
        let endpoint = world.endpoint(&tenant, &receiver.url(&format!("/{number}")), "s").await;
        again.clone_from(&endpoint);
        book.write(&tenant, (0..2).map(|job| failed(&endpoint, job))).await;
        // An endpoint may have failed deliveries only if it has had an error.
        let is_it = |item: &Item| item.get("webhook_endpoint_id").is_some_and(|id| id.as_s() == Ok(&endpoint));
        let error = json!({"erred_at": book.ago(HOUR).as_millisecond(), "erred_with": "status_5xx"});
        world.set_where("webhook-endpoints", is_it, &error).await;
        let page = browser.open("/console").await;
        assert_eq!(text(&page).contains("endpoints have failed deliveries"), number > 0, "one has its own button");
    }
    let page = browser.open("/console").await;
    says(&page, &["12 endpoints have failed deliveries .", "Resend all 24 failed deliveries"]);
    let off = world.endpoint(&tenant, &receiver.url("/off"), "s").await;
    book.write(&tenant, [failed(&off, 0)]).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": off, "active": false})).await.ok();
    let page = browser.open("/console/recovery").await;
    says(
        &page,
        &[
            "Resend all 24 failed deliveries?",
            "Created since",
            "/0 : 2 failed deliveries",
            "/11 : 2 failed deliveries",
            "Held deliveries and those of disabled endpoints are not resent.",
            "/off : 1 failed delivery",
        ],
    );
    let page = browser.press("/console/recovery", &page, "Resend all 24 failed deliveries", &[]).await;
    says(&page, &["Resending 24 failed deliveries : starts within seconds."]);
    let running = "Resending the failed deliveries of all endpoints : 0 so far.";
    says(&browser.open("/console").await, &[running]);
    says(&browser.open("/console/recovery").await, &["Resend all 24 failed deliveries?", running, "View progress"]);
    world.poll("slow-deliveries").await;
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
    let id = stats.ok()["recoveries"][0]["recovery_id"].as_str().expect("an id").to_owned();
    let path = format!("/console/recovery?id={id}");
    says(
        &browser.open(&path).await,
        &["24 failed deliveries resent . Now failed: 0. Pending: 24, with those that were not resent"],
    );
    world.handle_all().await;
    assert_eq!(receiver.count().await, 24);
    // A disabled endpoint may have got some of them.
    says(&browser.open(&path).await, &["Now failed: 0. Pending: 0.", "are not resent.", "/off : 1 failed delivery"]);
    let nothing = ["Nothing to resend", "are not resent.", "/off : 1 failed delivery"];
    says(&browser.open("/console/recovery").await, &nothing);
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": off})).await.ok();
    says(&browser.open(&path).await, &["24 failed deliveries resent, all delivered ."]);
    book.write(&tenant, [failed(&again, 9)]).await;
    says(&browser.open(&path).await, &["Now failed: 1. Pending: 0.", "/11 : 1 failed delivery"]);
    says(&browser.open("/console/recovery?id=x").await, &["not one of the ten latest"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_pages_and_a_recovery_name_failing_endpoints() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    for number in 10..60 {
        let fields = json!({"url": format!("http://127.0.0.1:9/n{number}"), "events": ["job.failed"]});
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 3]).await;
    world.endpoint(&tenant, &receiver.url("/failing"), "s").await;
    for job in 0..3 {
        world.deliver(event(&tenant.id, job)).await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let confirmation = ["/failing : failing, 3 failed deliveries", "Send it a test event first.", "Resend all 3"];
    says(&browser.open("/console/recovery").await, &confirmation);
    let page = browser.open("/console?page=2").await;
    says(&page, &["1 endpoint on other pages", "/failing : failing, 3 failed deliveries"]);
}

/// Deliveries that have failed again count as failed, so there is no total.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_in_progress_counts_what_is_failed_now() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let (book, endpoint) = (Book::of(&world), world.endpoint(&tenant, &receiver.url("/hook"), "s").await);
    let failed = (0..30).map(|job| Draft::to(&endpoint, book.ago(HOUR), job).status(Status::Failed));
    book.write(&tenant, failed).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let is_recovery = |item: &Item| ["since", "until"].iter().all(|name| item.contains_key(*name));
    for (path, progress) in [
        ("/console/recovery".to_owned(), "7 failed deliveries so far . Now failed: 30. Pending: 0. Started just now"),
        (
            format!("/console/endpoints/{endpoint}"),
            "7 failed deliveries so far . Not delivered at this endpoint: 30 failed.",
        ),
    ] {
        let fields = json!({
            "webhook_endpoint_id": path.contains("endpoints").then_some(&endpoint), "since": book.ago(HOUR * 2),
            "status": "failed",
        });
        let started = world.rpc(&tenant.key, "deliveries/recover", fields).await;
        assert!(world.set_where("deliveries", is_recovery, &json!({"resent": 7})).await > 0);
        let id = started.ok()["recovery_id"].as_str().expect("an id").to_owned();
        let query = if path.contains("endpoints") { String::new() } else { format!("?id={id}") };
        says(&browser.open(&format!("{path}{query}")).await, &["Resending:", progress]);
    }
    world.handle_all().await;
    let done = browser.open(&format!("/console/endpoints/{endpoint}")).await;
    says(&done, &["resent, all delivered .", "Started just now"]);
}
