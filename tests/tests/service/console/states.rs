//! The first page, the endpoint's page and `stats` show the same states and counts.

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::json;
use tests::{Browser, Receiver, Tenant, World, browser::readable, event, world::log::due_message};

use super::{disable, says, text};
use crate::endpoints::failing::failing_since;

/// The number of successful deliveries to an endpoint according to `stats`, and whether all of them were counted.
async fn delivered(world: &World, tenant: &Tenant, endpoint: &str) -> (u64, bool) {
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({"webhook_endpoint_id": endpoint})).await;
    let stats = stats.ok();
    (stats["total"]["delivered"].as_u64().expect("a number"), stats["complete"] == json!(true))
}

/// Makes all pending deliveries due, and handles them.
async fn retry(world: &World, tenant: &Tenant) {
    for delivery in world.log_of(&tenant.id, Status::Pending).await {
        world.make_due(&tenant.id, &delivery, Timestamp::now()).await;
        world.enqueue("deliveries", due_message(&tenant.id, &delivery)).await;
    }
    world.handle_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_endpoints_leave_their_share_to_a_busy_one() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let busy = world.endpoint(&tenant, &receiver.url("/busy"), "s").await;
    for number in 0..9 {
        let fields = json!({"url": format!("http://127.0.0.1:9/idle{number}"), "events": ["job.failed"]});
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    // The first page reads at most 300 deliveries, and initially 30 per endpoint. The last number tests this limit.
    let mut sent = 0;
    for all in [30, 31, 60] {
        while sent < all {
            world.deliver(event(&tenant.id, format!("job {sent}"))).await;
            sent += 1;
        }
        let browser = Browser::new(&world, &tenant.cookie);
        let first = text(&browser.open("/console").await);
        assert!(first.contains(&format!("{all} delivered")), "{all}: {first}");
        assert!(
            first.contains(&format!("Of the events of 24 hours, tests excluded: {all} delivered.")),
            "{all}: {first}"
        );
        let own = text(&browser.open(&format!("/console/endpoints/{busy}")).await);
        assert!(own.contains(&format!("{all} delivered in 24 hours")), "{all}: {own}");
        assert!(!own.contains("not read") && !first.contains('+'), "{all}: {own}\n{first}");
        assert_eq!(delivered(&world, &tenant, &busy).await, (all, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_a_failing_endpoint_as_the_api_does() {
    let world = World::with(&[("RETRY_SCHEDULE", "7200,7200,7200")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(204, &[]), (500, &[]), (500, &[]), (500, &[]), (500, &[]), (204, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let path = format!("/console/endpoints/{endpoint}");
    world.deliver(event(&tenant.id, "before")).await;
    for job in ["a", "b"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    retry(&world, &tenant).await;
    assert_eq!(receiver.count().await, 5);
    // The attempts have not failed for long enough.
    says(&browser.open(&path).await, &["Retrying", "Success rate 100% of 1"]);
    says(&browser.open("/console").await, &["1 endpoint, 1 retrying", "No attempt has succeeded for", "Retrying"]);
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None);
    let since = failing_since(&world, &tenant, &endpoint, 5 * 60).await;
    assert_eq!(world.only_endpoint(&tenant).await["failing_since"], json!(since));
    let page = browser.open("/console").await;
    says(
        &page,
        &[
            "1 endpoint, 1 failing .",
            "Failing",
            "All attempts have failed for",
            "2 deliveries wait",
            "HTTP 500",
            "Failing",
        ],
    );
    let own = browser.open(&path).await;
    says(
        &own,
        &[
            "Failing",
            "Success rate 0% of 4 attempts",
            "All attempts fail",
            "and at least 4 have failed in all",
            "2 deliveries wait",
            "The receiver reported a server error",
        ],
    );
    // Any success ends this state, including the success of a retry.
    retry(&world, &tenant).await;
    says(&browser.open("/console").await, &["none failing", "Healthy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_endpoints_of_all_pages_are_counted() {
    let world = World::with(&[("RETRY_SCHEDULE", "7200,7200,7200")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 156]).await;
    let mut ids = Vec::new();
    for number in 10..62 {
        ids.push(world.endpoint(&tenant, &receiver.url(&format!("/n{number}")), "s").await);
    }
    world.deliver(event(&tenant.id, "job")).await;
    for _ in 0..2 {
        retry(&world, &tenant).await;
    }
    for id in &ids {
        failing_since(&world, &tenant, id, 5 * 60).await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    for page in 1..=2 {
        let page = browser.open(&format!("/console?page={page}")).await;
        says(&page, &["52 endpoints, 52 failing", "on other pages", "failing"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_enabled_after_a_410_is_untried_until_a_success() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(204, &[]), (410, &[]), (204, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let path = format!("/console/endpoints/{endpoint}");
    let browser = Browser::new(&world, &tenant.cookie);
    for job in ["before", "gone"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let page = browser.open(&path).await;
    says(&page, &["Enable endpoint …", "Disabled: HTTP 410", "Events of the next 7 days"]);
    // The form on a page that was opened earlier also leads to the confirmation.
    let request = world.http.post(world.url(&path)).header("accept", "text/html").header("cookie", &tenant.cookie);
    let asked = world.send(request.header("origin", world.stack.api()).form(&[("action", "activate")])).await;
    assert_eq!(asked.headers["location"], format!("{path}?confirm=activate"));
    let confirm = browser.open(&format!("{path}?confirm=activate")).await;
    says(&confirm, &["Enable endpoint?", "410 Gone", "Cancel"]);
    assert_eq!(world.only_endpoint(&tenant).await["active"], json!(false));
    let enabled = browser.press(&path, &confirm, "Enable endpoint", &[]).await;
    says(&enabled, &["Endpoint enabled", "Not tried yet"]);
    says(&browser.open("/console").await, &["none failing", "Not tried yet"]);
    world.deliver(event(&tenant.id, "after")).await;
    for path in ["/console", &path] {
        let page = text(&browser.open(path).await);
        assert!(!page.contains("Not tried") && page.contains("1 failed"), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_are_counted_nowhere() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(204, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    for _ in 0..2 {
        world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
        world.handle_all().await;
    }
    assert_eq!(receiver.count().await, 2);
    assert_eq!(delivered(&world, &tenant, &endpoint).await, (0, true));
    let browser = Browser::new(&world, &tenant.cookie);
    says(&browser.open("/console").await, &["tests excluded: no deliveries.", "No recent jobs"]);
    let own = browser.open(&format!("/console/endpoints/{endpoint}")).await;
    says(&own, &["Success rate –", "Failed 0", "No deliveries in the last 24 hours", "webhook.test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_names_the_deliveries_that_cannot_be_resent() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/echo"), "s").await;
    for job in ["a", "b"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let path = format!("/console/endpoints/{endpoint}");
    let page = browser.open(&path).await;
    says(
        &page,
        &[
            "First permanent failure",
            "the endpoint is disabled by the first",
            "Delete endpoint",
            "2 failed deliveries can then no longer be resent",
            "30 days",
        ],
    );
    // The receiver's response explains the failure.
    let (_, responded) = page.page().split_once("The receiver responded:").expect("the response");
    assert!(readable(responded).contains("x-webhook-signature"), "{responded}");
    disable(&browser, &path).await;
    let page = browser.open("/console").await;
    says(
        &page,
        &["1 disabled by your team", "Disabled by your team", "2 failed deliveries", "Events of the next 7 days"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_deliveries_can_be_retried_now() {
    let world = World::with(&[("RETRY_SCHEDULE", "7200,7200,7200")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (204, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let path = format!("/console/endpoints/{endpoint}");
    let browser = Browser::new(&world, &tenant.cookie);
    for job in ["a", "b"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    says(&browser.open("/console/deliveries?status=pending").await, &["Retry these 2 pending deliveries"]);
    let page = browser.open(&path).await;
    says(
        &page,
        &["2 pending deliveries wait for the next attempt, the oldest created", "Retry 2 pending deliveries now"],
    );
    let page = browser.press(&path, &page, "Retry 2 pending deliveries now", &[]).await;
    says(&page, &["Resending 2 pending deliveries : starts within seconds"]);
    assert!(!text(&page).contains("Retry 2"), "the button is not shown a second time: {}", text(&page));
    world.sweep(Timestamp::now()).await;
    world.handle_all().await;
    assert_eq!(receiver.count().await, 4);
    let page = browser.open(&path).await;
    says(&page, &["Healthy", "2 pending deliveries resent, all delivered"]);
}

/// Whether the page's only button with this label is its primary one.
fn is_primary(page: &tests::Answer, label: &str) -> bool {
    let buttons = page.page().split("<button").skip(1).filter(|button| button.contains(&format!(">{label}</button>")));
    let buttons: Vec<_> = buttons.collect();
    assert_eq!(buttons.len(), 1, "{label}: {}", page.page());
    !buttons[0].split('>').next().unwrap_or_default().contains("secondary")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_endpoint_is_tested_before_deliveries_are_resent() {
    let world = World::with(&[("RETRY_SCHEDULE", "7200")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 8]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let (path, browser) = (format!("/console/endpoints/{endpoint}"), Browser::new(&world, &tenant.cookie));
    for job in ["a", "b"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    retry(&world, &tenant).await;
    for page in [&path, "/console"] {
        let page = browser.open(page).await;
        says(&page, &["Failing"]);
        assert!(is_primary(&page, "Send test event"), "{}", page.page());
        assert!(!is_primary(&page, "Resend 2 failed deliveries"), "{}", page.page());
    }
    let page = browser.open(&path).await;
    browser.press(&path, &page, "Resend 2 failed deliveries", &[]).await;
    world.sweep(Timestamp::now()).await;
    world.handle_all().await;
    // The attempts failed again. The page says that they are not over, and asks for a test first.
    let page = browser.open(&path).await;
    says(
        &page,
        &[
            "Failing",
            "2 deliveries wait for another attempt",
            "2 deliveries resent",
            "Not delivered at this endpoint: 2 pending",
        ],
    );
    assert!(is_primary(&page, "Send test event") && !is_primary(&page, "Retry 2 pending deliveries now"));
    says(&browser.open("/console").await, &["Failing", "2 deliveries wait for another attempt"]);
    // Once a test succeeds, the first button resends.
    retry(&world, &tenant).await;
    let page = browser.open(&path).await;
    let page = browser.press(&path, &page, "Send test event", &[]).await;
    says(&page, &["Test event"]);
    world.handle_all().await;
    assert_eq!(receiver.count().await, 9);
    world.deliver(event(&tenant.id, "works")).await;
    for page in [&path, "/console"] {
        let page = browser.open(page).await;
        assert!(!text(&page).contains("Failing"), "{}", text(&page));
        assert!(is_primary(&page, "Resend 2 failed deliveries"), "{}", page.page());
    }
}

/// The state by which endpoints are selected follows the latest attempts. The badge also shows a delivery that waits.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_selected_as_retrying_until_a_success() {
    let world = World::with(&[("RETRY_SCHEDULE", "7200")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (204, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let browser = Browser::new(&world, &tenant.cookie);
    world.deliver(event(&tenant.id, "fails")).await;
    let listed = browser.open("/console?state=retrying").await;
    says(&listed, &["Retrying 1", "Enabled 0", "The latest attempts at these endpoints failed.", "/hook", "Retrying"]);
    world.deliver(event(&tenant.id, "succeeds")).await;
    says(&browser.open("/console?state=retrying").await, &["Retrying 0", "Enabled 1", "No endpoint is retrying."]);
    let listed = browser.open("/console?state=enabled").await;
    says(&listed, &["Single deliveries may still be retried.", "/hook", "Retrying", "1 delivered, 1 pending"]);
}
