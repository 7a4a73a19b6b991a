//! The pages of deliveries.

use serde_json::{Value, json};
use tests::{Browser, Receiver, World, callback, event};

use super::{says, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_tells_why_and_is_sent_again() {
    let world = World::live(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let mut sent = event(&tenant.id, "job-1");
    sent["result"] = json!({"note": "<script>alert(1)</script>\u{202e}", "list": [1, {}]});
    world.enqueue("job-events", sent).await;
    receiver.wait_for(1).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = loop {
        let page = browser.open("/console/deliveries?status=failed").await;
        if text(&page).contains("job-1") {
            break page;
        }
    };
    says(&page, &["job-1", "127.0.0.1", "job.completed", "▲ Failed", "HTTP 500, 0 s ago", "1", "0 s ago"]);
    let (_, link) = page.page().split_once("<td><a href=\"").expect("a link");
    let path = link.split('"').next().unwrap_or_default().to_owned();
    let page = browser.open(&path).await;
    says(
        &page,
        &[
            "job.completed, 20",
            "▲ Failed It won't be retried automatically.",
            "Resend",
            "Destination",
            "/hook",
            "Attempts",
            "▲ HTTP 500",
            "first attempt. The receiver reported a server error.",
            "Payload",
            "\"note\": \"<script>alert(1)</script>⟨U+202E⟩\"",
            "Headers",
            "x-event-type: job.completed",
        ],
    );
    let page = browser.press(&path, &page, "Resend", &[]).await;
    says(&page, &["● Delivered", "● Delivered", "manual resend", "▲ HTTP 500"]);
    assert_eq!(receiver.count().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_shown_with_its_target_everywhere() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(302, &[("location", "https://example.com/new?key=canary")])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let delivery = world.only_logged(&tenant.id).await.id;
    let detail = "The receiver redirected the request to https://example.com/new";
    for answer in [
        &world.rpc(&tenant.key, "deliveries/get", json!({"delivery_id": delivery})).await.ok()["attempts"][0],
        &world.rpc(&tenant.key, "deliveries/list", json!({})).await.ok()["deliveries"][0]["last_attempt"],
    ] {
        assert_eq!((&answer["outcome"], &answer["detail"]), (&json!("redirect"), &json!(detail)));
    }
    let browser = Browser::new(&world, &tenant.cookie);
    for path in [&format!("/console/deliveries/{delivery}"), &format!("/console/endpoints/{endpoint}"), "/console"] {
        let page = browser.open(path).await;
        says(&page, &["HTTP 302", &format!("{detail}. Redirects are not followed.")]);
        assert!(!page.page().contains("canary"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filters_are_the_address_and_pages_go_on_with_them() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    for job in 100..130 {
        world.deliver(event(&tenant.id, job)).await;
    }
    world.deliver(callback(&tenant.id, "called", receiver.url("/callback"))).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let first = browser.open("/console/deliveries").await;
    says(&first, &["called", "Job callback", "129", "127.0.0.1"]);
    let path = format!("/console/deliveries?endpoint={endpoint}&status=delivered&since=2026-01-31T12%3A00");
    let (mut seen, mut next) = (Vec::new(), path);
    let mut pages = 0;
    loop {
        let page = browser.open(&next).await;
        let text = text(&page);
        seen.extend((100..130).filter(|job| text.contains(&format!(" {job} "))));
        pages += 1;
        let Some((before, _)) = page.page().split_once("\">Older deliveries</a>") else { break };
        next = before.rsplit('"').next().unwrap_or_default().replace("&amp;", "&");
        assert!(next.contains("endpoint=") && next.contains("status=delivered") && next.contains("since="), "{next}");
    }
    seen.sort_unstable();
    assert_eq!((pages, seen), (2, (100..130).collect::<Vec<_>>()));
    says(&browser.open("/console/deliveries?job_id=called").await, &["called"]);
    says(&browser.open("/console/deliveries?status=failed").await, &["No deliveries match these filters."]);
    let form = browser.open(&format!("/console/deliveries?endpoint={endpoint}&status=held&job_id=%22%3E")).await;
    assert!(form.page().contains("<option value=\"held\" selected>") && form.page().contains("value=\"&quot;&gt;\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_cannot_be_read_is_marked() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    for (query, message) in [
        ("status=lost", "Must be pending, delivered, failed, held or ended"),
        ("since=yesterday", "Must be an RFC 3339 time"),
        ("event=%3Cb%3E", "Must be the name of an event"),
        ("endpoint=x", "Must be a UUID"),
    ] {
        let page = browser.open(&format!("/console/deliveries?{query}")).await;
        assert_eq!(page.status, 400, "{query}");
        says(&page, &[message]);
    }
    // A manually changed link.
    assert_eq!(browser.open("/console/deliveries?cursor=x").await.status, 400);
    assert_eq!(browser.open("/console/deliveries?status=&since=&cursor=").await.status, 200);
}

/// 200 KB, most of it brackets: a page of a bounded size.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_payload_makes_no_endless_page() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let deep: Value = serde_json::from_str(&deep).expect("JSON");
    let mut sent = event(&tenant.id, "x".repeat(4000));
    sent["result"] = json!(vec![deep; 1000]);
    world.deliver(&sent).await;
    let delivery = world.only_logged(&tenant.id).await.id;
    let page = Browser::new(&world, &tenant.cookie).open(&format!("/console/deliveries/{delivery}")).await;
    assert_eq!(page.status, 200);
    assert!(page.page().len() < 700_000, "{}", page.page().len());
    says(&page, &["Shortened: the payload has", "The API returns all of them"]);
}

/// Its endpoint was deleted while a delivery waited: the page promises no further attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_of_a_deleted_endpoint_promises_no_attempt() {
    let world = World::with(&[("RETRY_SCHEDULE", "3600")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let path = format!("/console/deliveries/{}", world.only_logged(&tenant.id).await.id);
    says(&browser.open("/console/deliveries").await, &["◆ Pending", "1, next in"]);
    says(&browser.open(&path).await, &["Next attempt in", "Resend", "◆ Next"]);
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let (list, page) = (browser.open("/console/deliveries").await, browser.open(&path).await);
    says(&list, &["job-1", "Deleted endpoint", "HTTP 500"]);
    says(&page, &["Its endpoint was deleted. It won't be retried.", "It cannot be resent: its endpoint was deleted."]);
    for page in [list, page] {
        let text = text(&page);
        assert!(!text.to_lowercase().contains(" next ") && !page.page().contains(">Resend<"), "{text}");
    }
}
