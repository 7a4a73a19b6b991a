//! The URL of an endpoint as it is sent, and other endpoints with the same URL.

use serde_json::json;
use tests::{Browser, World};

const HINT: &str = "Another endpoint has the same URL, so events that both select are sent twice, with different ids";

#[tokio::test(flavor = "multi_thread")]
async fn a_second_endpoint_with_a_url_is_pointed_out() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let create = async |key: &str, fields| world.rpc(key, "webhooks/create", fields).await.ok().clone();
    let created = "Webhook endpoint created";
    create(&other.key, json!({"url": "https://example.com/hook"})).await;
    assert_eq!(create(&tenant.key, json!({"url": "https://example.com/hook"})).await["message"], created);
    let hinted = format!("{created}. {HINT}");
    for url in ["https://example.com/hook", "https://example.com:443/hook"] {
        let message = &create(&tenant.key, json!({"url": url})).await["message"];
        assert!(message.as_str().is_some_and(|message| message.ends_with(&hinted[created.len()..])), "{message}");
    }
    for fields in [json!({"url": "https://example.com/hook?a=b"}), json!({"kind": "pull"}), json!({"kind": "pull"})] {
        assert_eq!(create(&tenant.key, fields).await["message"], created);
    }
    let short = create(&tenant.key, json!({"url": "https://example.com/hook", "signing_secret": "s"})).await;
    assert!(short["message"].as_str().is_some_and(|message| message.contains("16 visible") && message.contains(HINT)));

    let id = create(&tenant.key, json!({"url": "https://example.com/2"})).await["webhook_endpoint_id"].clone();
    let update = async |url: &str| {
        let fields = json!({"id": id, "url": url});
        world.rpc(&tenant.key, "webhooks/update", fields).await.ok()["message"].clone()
    };
    assert_eq!(update("https://example.com/2").await, "Webhook endpoint updated", "its own URL is not another's");
    let browser = Browser::new(&world, &tenant.cookie);
    let path = format!("/console/endpoints/{}", id.as_str().expect("an id"));
    assert!(!browser.open(&path).await.page().contains(HINT));
    assert_eq!(update("https://example.com/hook").await, format!("Webhook endpoint updated. {HINT}"));
    assert!(browser.open(&path).await.page().contains(HINT));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_is_shown_as_it_is_sent_where_that_differs() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let long = format!("https://example.com/{}", "ä".repeat(200));
    for (url, sent) in [
        ("https://example.com/a/%2e%2e/x", Some("https://example.com/x")),
        ("https://example.com/?a='b'", Some("https://example.com/?a=%27b%27")),
        (r"https://example.com/a\b", Some("https://example.com/a/b")),
        ("HTTPS://EXAMPLE.com/", Some("https://example.com/")),
        ("https://example.com", None),
        ("https://example.com/plain", None),
        (&long, None),
    ] {
        let created = world.rpc(&tenant.key, "webhooks/create", json!({"url": url})).await.ok().clone();
        let listed = world.endpoints(&tenant).await;
        let listed = listed.last().expect("an endpoint");
        assert_eq!((&listed["url"], listed.get("url_as_sent")), (&json!(url), sent.map(|sent| json!(sent)).as_ref()));
        let message = created["message"].as_str().expect("a message");
        assert_eq!(message.split_once("Requests are sent to ").map(|(_, url)| url), sent, "{message}");
        let path = format!("/console/endpoints/{}", listed["webhook_endpoint_id"].as_str().expect("an id"));
        let page = browser.open(&path).await;
        assert_eq!(page.page().contains("Requests are sent to"), sent.is_some(), "{url}");
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": created["webhook_endpoint_id"]})).await.ok();
    }
}
