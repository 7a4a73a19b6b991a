//! The page `/console`.

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};
use serde_json::json;
use tests::{Browser, Receiver, World, event};

use super::{says, text};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_console_says_what_to_do_first() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console").await;
    says(&page, &["Webhooks", "Endpoints", "No endpoints yet", "Add endpoint", "curl"]);
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
            "2 endpoints, 1 failing or disabled.",
            "/gone : disabled, 1 failed and 2 held deliveries since",
            "Last error: HTTP 410. The receiver asked for no more deliveries.",
            "Enable and resend 3 deliveries",
            "/gone",
            "■ Disabled",
            "1 failed, 2 held in 24 hours",
            "HTTP 410",
            "/well",
            "● Healthy",
            "3 delivered in 24 hours",
        ],
    );
    let page = browser.press("/console", &page, "Enable and resend 3 deliveries", &[]).await;
    says(&page, &["Recovery requested . It starts within 2 minutes", "of those missed since"]);
    // One notice about it, and no button that requests it again.
    assert_eq!(page.page().matches("Recovery").count(), 1, "{}", page.page());
    assert!(!text(&page).contains("resend 3 deliveries") && !text(&page).contains("Resend 3"), "{}", text(&page));
    says(&browser.open("/console").await, &["1 failed and 2 held deliveries since", "A recovery is resending them."]);
    world.sweep(common::timestamp::Timestamp::now()).await;
    world.handle_all().await;
    says(
        &browser.open(&format!("/console/endpoints/{endpoint}")).await,
        &["● Healthy", "Recovery finished: 3 deliveries resent"],
    );
    assert_eq!(gone.count().await, 4);
    says(&browser.open("/console").await, &["none failing or disabled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_fail_are_seen_before_a_delivery_has_failed() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.deliver(event(&tenant.id, "job")).await;
    let page = Browser::new(&world, &tenant.cookie).open("/console").await;
    says(&page, &["none failing", "◆ Retrying", "1 pending in 24 hours", "HTTP 500", "0 s ago"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bars_have_the_numbers_of_their_hours() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    for job in 0..2 {
        world.deliver(event(&tenant.id, job)).await;
    }
    let page = Browser::new(&world, &tenant.cookie).open("/console").await;
    let bars = page.page().matches("<rect class=\"delivered\"").count();
    // The hour may have ended in between.
    assert!((1..=2).contains(&bars) && page.page().contains(": 2 delivered</title>") == (bars == 1), "{}", page.page());
    assert_eq!(page.page().matches("<rect class=\"base\"").count(), 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_endpoints_have_pages_and_each_is_on_one() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for number in 10..33 {
        world.endpoint(&tenant, &format!("http://127.0.0.1:9/n{number}"), "s").await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let mut seen = Vec::new();
    for page in 1..=3 {
        let answer = browser.open(&format!("/console?page={page}")).await;
        let mut compressed = DeflateEncoder::new(Vec::new(), Compression::default());
        compressed.write_all(answer.page().as_bytes()).expect("memory takes it");
        assert!(compressed.finish().expect("memory takes it").len() < 10_000, "a page is small");
        let text = text(&answer);
        assert!(text.contains(&format!("Page {page} of 3")), "{text}");
        seen.extend((10..33).filter(|number| text.contains(&format!("/n{number} "))));
    }
    assert_eq!(seen, (10..33).collect::<Vec<_>>());
    for strange in ["0", "99", "-1", "x", ""] {
        assert_eq!(browser.open(&format!("/console?page={strange}")).await.status, 200, "{strange}");
    }
}

/// Descriptions and URLs are untrusted text.
#[tokio::test(flavor = "multi_thread")]
async fn strange_words_are_shown_as_what_they_are() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let description = "<script>alert(1)</script> \"' \u{202e}evil\u{200b}\u{ad}\u{e0041} javascript:alert(1)";
    let fields = json!({"url": "http://127.0.0.1:9/a?b=<i>&c=\"", "description": description});
    world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    let page = Browser::new(&world, &tenant.cookie).open("/console").await;
    says(&page, &["<script>alert(1)</script> \"' ⟨U+202E⟩evil⟨U+200B⟩⟨U+00AD⟩⟨U+E0041⟩ javascript:alert(1)"]);
}
