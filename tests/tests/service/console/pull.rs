//! Pull endpoints in the console.

use serde_json::json;
use tests::{Browser, World, event};

use super::{disable, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_endpoint_is_added_changed_and_shows_waiting_events() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let new = "/console/endpoints/new";
    says(&browser.open(new).await, &["Add a pull endpoint instead"]);
    let form = browser.open(&format!("{new}?kind=pull")).await;
    assert!(!form.page().contains("name=\"url\""), "it has no URL");
    let typed = [("description", "A laptop"), ("completed", "yes"), ("failed", "yes")];
    let nothing = browser.press(new, &form, "Add endpoint", &typed[..1]).await;
    says(&nothing, &["Choose at least one event"]);
    let added = browser.press(new, &nothing, "Add endpoint", &typed).await;
    says(&added, &["Endpoint added", "whsec_", "fanfare listen --endpoint", "How to verify signatures", "Express"]);
    assert!(added.page().contains("<details open><summary>How to fetch deliveries"));
    let listed = world.only_endpoint(&tenant).await;
    assert_eq!((&listed["kind"], &listed["description"]), (&json!("pull"), &json!("A laptop")));

    for job in ["one", "two"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let path = format!("/console/endpoints/{}", listed["webhook_endpoint_id"].as_str().expect("an id"));
    says(
        &browser.open(&path).await,
        &["2 to fetch", "No delivery fetched yet", "No program has asked", "fanfare listen --endpoint"],
    );
    let page = browser.open(&path).await;
    assert!(page.page().contains("A laptop</h1>") && !page.page().contains("<p><bdi>A laptop"), "{}", page.page());
    // Waiting events do not count as a problem.
    let overview = browser.open("/console").await;
    says(&overview, &["none failing or disabled", "A laptop", "pull", "2 to fetch"]);
    assert!(!overview.page().contains("notice bad"));
    let taken = json!({"webhook_endpoint_id": listed["webhook_endpoint_id"], "limit": 1});
    world.rpc(&tenant.key, "deliveries/receive", taken).await.ok();
    says(
        &browser.open(&path).await,
        &["1 to fetch , 1 fetched but not settled yet", "Last delivery fetched", "A program last asked"],
    );

    let page = browser.open(&path).await;
    let saved =
        browser.press(&path, &page, "Save changes", &[("description", "My laptop"), ("completed", "yes")]).await;
    says(&saved, &["My laptop", "Changes saved", "Events job.completed"]);
    says(&disable(&browser, &path).await, &["New events are held"]);
    let deliveries = browser.open("/console/deliveries").await;
    says(&deliveries, &["My laptop", "Held"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_delivery_stays_so_at_a_disabled_pull_endpoint() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let made = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let path = format!("/console/endpoints/{}", made.ok()["webhook_endpoint_id"].as_str().expect("an id"));
    world.deliver(event(&tenant.id, "one")).await;
    let id = world.only_logged(&tenant.id).await.id;
    world.rpc(&tenant.key, "deliveries/erase", json!({"delivery_id": id})).await.ok();
    let browser = Browser::new(&world, &tenant.cookie);
    let delivery = format!("/console/deliveries/{id}");
    says(&browser.open(&delivery).await, &["Ended Canceled: it was erased."]);
    disable(&browser, &path).await;
    says(&browser.open(&delivery).await, &["Ended Canceled: it was erased."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_test_of_a_pull_endpoint_waits_for_a_client() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    let made = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let path = format!("/console/endpoints/{}", made.ok()["webhook_endpoint_id"].as_str().expect("an id"));
    let browser = Browser::new(&world, &tenant.cookie);
    let test = browser.press(&path, &browser.open(&path).await, "Send test event", &[]).await;
    says(&test, &["To fetch", "Waiting for a client to receive it."]);
    // Like all test deliveries, this one is listed but not counted.
    says(&browser.open("/console").await, &["tests excluded: no deliveries.", "Pull endpoint …", "No recent jobs"]);
    says(
        &browser.open(&path).await,
        &["To fetch 1", "1 to fetch", "No deliveries in the last 24 hours", "webhook.test", "To fetch"],
    );
    says(&browser.open("/console/deliveries?status=held").await, &["Held 0", "webhook.test", "To fetch"]);
    assert!(!super::text(&test).contains("inactive"), "{}", super::text(&test));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_delivery_can_be_canceled_but_not_resent() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let made = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull", "description": "A laptop"})).await;
    let path = format!("/console/endpoints/{}", made.ok()["webhook_endpoint_id"].as_str().expect("an id"));
    world.deliver(event(&tenant.id, "one")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    // Both the chart's legend and the table by hour use the state's word.
    says(&browser.open(&path).await, &["To fetch 1", "By hour", "Hour Delivered Failed To fetch Pending Ended"]);
    let delivery = format!("/console/deliveries/{}", world.only_logged(&tenant.id).await.id);
    let page = browser.open(&delivery).await;
    says(&page, &["Waiting for a client to receive it.", "Destination A laptop Job"]);
    assert!(!page.page().contains(">Resend</button>"), "nothing would be sent");
    says(&page, &["No client has received this delivery. Erasing cancels it"]);
    let erased = browser.press(&delivery, &page, "Erase payload and responses", &[]).await;
    says(&erased, &["Ended Canceled: it was erased."]);
}
