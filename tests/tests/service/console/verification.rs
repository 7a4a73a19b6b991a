//! The page that finds out why a request does not verify.

use serde_json::json;
use tests::{Browser, Receiver, World, event};

use super::says;

#[tokio::test(flavor = "multi_thread")]
async fn a_pasted_request_is_diagnosed_on_a_page() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=").await;
    let mut event = event(&tenant.id, "j");
    event["result"] = json!({"name": "<b>&amp;", "rate": 1.5});
    world.deliver(event).await;
    let received = receiver.received().await.remove(0);
    let delivery = world.only_logged(&tenant.id).await.id;
    let browser = Browser::new(&world, &tenant.cookie);
    let path = format!("/console/verify/{id}");
    for page in [format!("/console/endpoints/{id}"), format!("/console/deliveries/{delivery}")] {
        assert!(browser.open(&page).await.page().contains(&format!("href=\"{path}\"")), "{page}");
    }
    let form = browser.open(&path).await;
    says(&form, &["Verify a request", "nothing of it is stored"]);
    // Browsers send line breaks as a carriage return and a line feed.
    let lines = received.headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().expect("text")));
    let headers: String = lines.collect();
    let body = String::from_utf8(received.body.to_vec()).expect("text");
    let submit = async |body: &str, more: &[(&str, &str)]| {
        let typed = [&[("seen_headers", headers.as_str()), ("body", body)], more].concat();
        browser.submit(&path, &form, "Verify", &typed).await
    };
    let verified = submit(&body, &[]).await;
    says(&verified, &["Verified", "webhook-signature is valid, with the current secret as text"]);

    let spaced = submit(&body.replace("\"rate\":1.5", "\"rate\": 1.5"), &[]).await;
    says(&spaced, &["Not verified", "parsed and written again", "white space", "From byte", "\"rate\": 1.5"]);
    assert!(!spaced.page().contains("<b>"), "{spaced:?}");
    let ended = submit(&format!("{body}\r\n"), &[]).await;
    says(&ended, &["Not verified", "A line feed was added after the body"]);
    let clock = submit(&body, &[("received_at", "2020-01-31T12:00")]).await;
    says(&clock, &["Not verified", "before webhook-timestamp"]);
    let script = submit("<script>alert(1)</script>", &[("computed", "<script>")]).await;
    assert!(script.status == 200 && !script.page().contains("<script"), "{script:?}");

    let wrong = browser.submit(&path, &form, "Verify", &[("seen_headers", "no headers"), ("body", "{}")]).await;
    says(&wrong, &["Not verified", "could not be read from the text", "one header per line"]);
    let large = "a: b\n".repeat(7000);
    let large = browser.submit(&path, &form, "Verify", &[("seen_headers", &large), ("body", "{}")]).await;
    assert!(large.status == 400 && large.page().contains("Correct the fields marked below"), "{large:?}");
    let empty = browser.submit(&path, &form, "Verify", &[("seen_headers", "{}")]).await;
    says(&empty, &["Not verified", "were not seen", "Headers object"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_another_tenants_endpoint_is_not_found() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("acme").await, world.tenant("other").await);
    let id = world.endpoint(&ours, "https://example.com/", "a secret of some length").await;
    let (path, browser) = (format!("/console/verify/{id}"), Browser::new(&world, &theirs.cookie).forging());
    assert_eq!(browser.open(&path).await.status, 404);
    assert_eq!(browser.open("/console/verify/x").await.status, 404);
    let form = Browser::new(&world, &ours.cookie).open(&path).await;
    assert_eq!(browser.submit(&path, &form, "Verify", &[("seen_headers", "a: b"), ("body", "{}")]).await.status, 404);
}
