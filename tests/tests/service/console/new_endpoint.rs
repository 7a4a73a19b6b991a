//! The page that adds an endpoint.

use std::io::Write;

use flate2::{Compression, write::DeflateEncoder};
use serde_json::json;
use tests::{Browser, Receiver, World};

use super::{says, text};

const PATH: &str = "/console/endpoints/new";

/// The secret that a page shows.
fn secret(page: &tests::Answer) -> String {
    let (_, secret) = page.page().split_once("<pre id=\"secret\">").expect("a secret");
    secret.split('<').next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_endpoint_shows_its_secret_once_and_is_tested() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    let (browser, receiver) = (Browser::new(&world, &tenant.cookie), Receiver::start().await);
    let form = browser.open(PATH).await;
    let typed = [
        ("url", receiver.url("/hook")),
        ("description", "Orders".to_owned()),
        ("failed", "yes".to_owned()),
        ("headers", "authorization: Bearer a-secret-token\nX-Team:  blue ".to_owned()),
    ];
    let typed: Vec<_> = typed.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let added = browser.press(PATH, &form, "Add endpoint", &typed).await;
    says(&added, &["Endpoint added", "Copy the signing secret now", "whsec_", "WEBHOOK_SECRET"]);
    says(&added, &["Express", "npm install express", "FastAPI", "Rails", "Laravel", "Spring", "Go", "go run main.go"]);
    says(&added, &["Read how to receive webhooks"]);
    let mut compressed = DeflateEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(added.page().as_bytes()).expect("a write to memory succeeds");
    let size = compressed.finish().expect("a write to memory succeeds").len();
    assert!(size < 12_000, "the page has {size} bytes, compressed");
    let stored = world.only_endpoint(&tenant).await;
    assert_eq!(stored["description"], json!("Orders"));
    assert_eq!(stored["events"], json!(["job.failed"]));
    assert_eq!(stored["header_names"], json!(["authorization", "x-team"]));

    // A reload sends the same form again.
    let again = browser.press(PATH, &form, "Add endpoint", &typed).await;
    assert_eq!(secret(&again), secret(&added));
    assert_eq!(world.endpoints(&tenant).await.len(), 1);

    let tested = browser.press(PATH, &added, "Send test event", &[]).await;
    says(&tested, &["Test event to 127.0.0.1", "Delivered", "HTTP 200", "test event", "authorization: (secret)"]);
    // The page offers samples of the events that the receiver will get.
    for event in ["job.completed", "job.failed"] {
        assert!(added.page().contains(&format!("<option value=\"{event}\">{event}</option>")), "{event}");
        browser.press(PATH, &added, "Send test event", &[("event", event)]).await;
    }
    let mut received = receiver.wait_for(3).await;
    let events: Vec<_> = received.iter().map(|request| request.header("x-event-type").to_owned()).collect();
    assert_eq!(events, ["webhook.test", "job.completed", "job.failed"]);
    let sample: serde_json::Value = serde_json::from_slice(&received[1].body).expect("JSON");
    assert_eq!(
        sample["result"],
        json!({"answer": 42, "rate": 1.0, "id": 12_345_678_901_234_567_890_u64, "name": "Zoë"})
    );
    let received = received.remove(0);
    received.verify(&secret(&added));
    assert_eq!((received.header("authorization"), received.header("x-team")), ("Bearer a-secret-token", "blue"));
    let endpoint = format!("/console/endpoints/{}", tests::text(&stored["webhook_endpoint_id"]));
    for path in ["/console", "/console/deliveries", &endpoint] {
        let page = browser.open(path).await;
        assert!(!page.page().contains(&secret(&added)) && !page.page().contains("a-secret-token"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_next_to_their_fields_and_the_input_is_kept() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let form = browser.open(PATH).await;
    let typed = [("url", "ftp://example.com/\"><script>"), ("description", "mine"), ("headers", "host: x")];
    let refused = browser.press(PATH, &form, "Add endpoint", &typed).await;
    assert_eq!(refused.status, 400);
    text(&refused);
    let page = refused.page();
    assert!(page.contains("value=\"ftp://example.com/&quot;&gt;&lt;script&gt;\"") && page.contains("value=\"mine\""));
    assert!(page.contains("aria-describedby=\"new-url-hint new-url-error\" aria-invalid=\"true\""));
    says(&refused, &["Choose at least one event", "\"host\" is reserved."]);
    assert_eq!(world.endpoints(&tenant).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_endpoints_is_shown() {
    let world = World::with(&[("MAX_ENDPOINTS_PER_TENANT", "1")]).await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, "http://127.0.0.1:9/hook", "s").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let form = browser.open(PATH).await;
    let typed = [("url", "http://127.0.0.1:9/other"), ("completed", "yes"), ("failed", "yes")];
    let refused = browser.press(PATH, &form, "Add endpoint", &typed).await;
    assert_eq!(refused.status, 409);
    says(&refused, &["at most 1 webhook endpoints"]);
}
