//! The page of an endpoint.

use serde_json::{Value, json};
use tests::{Answer, Browser, Receiver, Tenant, World, event, world::tables::item};

use super::{disable, says, text};

/// An endpoint of a tenant, with its page.
async fn begin(world: &World, url: &str) -> (Tenant, String) {
    let tenant = world.tenant("acme").await;
    let id = world.endpoint(&tenant, url, "the first secret").await;
    (tenant, format!("/console/endpoints/{id}"))
}

async fn edit(browser: &Browser<'_>, path: &str, typed: &[(&str, &str)]) -> Answer {
    let page = browser.open(path).await;
    browser.press(path, &page, "Save changes", typed).await
}

const HOOK: &str = "http://127.0.0.1:9/hook";
const BOTH: [(&str, &str); 2] = [("completed", "yes"), ("failed", "yes")];

#[tokio::test(flavor = "multi_thread")]
async fn saving_changes_only_changed_fields() {
    let world = World::start().await;
    let (tenant, path) = begin(&world, HOOK).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let before = world.only_endpoint(&tenant).await;
    let same =
        edit(&browser, &path, &[&[("url", HOOK), ("description", ""), ("headers", "")], &BOTH[..]].concat()).await;
    says(&same, &["Nothing has changed."]);
    assert_eq!(world.only_endpoint(&tenant).await, before, "the time of the change is the same");

    let typed = [("url", HOOK), ("description", "Orders"), ("completed", "yes"), ("headers", "x-key: 0123456789")];
    says(&edit(&browser, &path, &typed).await, &["Changes saved", "Orders", "Events job.completed", "Headers x-key"]);
    let after = world.only_endpoint(&tenant).await;
    assert_eq!((&after["description"], &after["events"]), (&json!("Orders"), &json!(["job.completed"])));

    // The headers are secret, and would be sent to the new URL.
    let moved = [&[("url", "http://127.0.0.1:9/new"), ("description", "Orders")], &BOTH[..]].concat();
    let refused = edit(&browser, &path, &moved).await;
    assert_eq!(refused.status, 409);
    says(&refused, &["You changed the URL, and the headers are secret. Enter the headers again"]);
    assert!(refused.page().contains("value=\"http://127.0.0.1:9/new\""), "the input stays");
    let bare = [&moved[..], &[("no_headers", "yes"), ("description", "")]].concat();
    edit(&browser, &path, &bare).await;
    let after = world.only_endpoint(&tenant).await;
    assert_eq!(after["url"], json!("http://127.0.0.1:9/new"));
    let gone = ["description", "events", "header_names"].map(|name| after.get(name));
    assert_eq!(gone, [Some(&json!("Orders")), None, None], "if two fields have the same name, the first one counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_headers_can_be_entered_for_another_url() {
    let world = World::start().await;
    let (tenant, path) = begin(&world, HOOK).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let typed = |url| [&[("url", url), ("headers", "x-key: 0123456789")], &BOTH[..]].concat();
    says(&edit(&browser, &path, &typed(HOOK)).await, &["Changes saved", "Headers x-key"]);
    let page = browser.open(&path).await;
    for result in ["Changes saved", "Nothing has changed"] {
        let moved = browser.press(&path, &page, "Save changes", &typed("http://127.0.0.1:9/new")).await;
        says(&moved, &[result, "http://127.0.0.1:9/new", "Headers x-key"]);
    }

    let bare = [&[("url", "http://127.0.0.1:9/new"), ("no_headers", "yes")], &BOTH[..]].concat();
    let page = browser.open(&path).await;
    for result in ["Changes saved", "Nothing has changed"] {
        says(&browser.press(&path, &page, "Save changes", &bare).await, &[result]);
    }
    assert_eq!(world.only_endpoint(&tenant).await.get("header_names"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_endpoint_that_collects_nothing_says_so() {
    let world = World::with(&[("HOLD_FOR", "0")]).await;
    let (tenant, path) = begin(&world, HOOK).await;
    let browser = Browser::new(&world, &tenant.cookie);
    says(&disable(&browser, &path).await, &["Endpoint disabled. New events are lost."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_secret_is_shown_once_and_the_old_one_signs_too() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open(&path).await;
    let changed = browser.press(&path, &page, "Rotate secret", &[]).await;
    says(&changed, &["Secret rotated", "Copy the signing secret now", "whsec_"]);
    let again = browser.press(&path, &page, "Rotate secret", &[]).await;
    let secret = |page: &Answer| {
        let (_, secret) = page.page().split_once("<pre id=\"secret\">").expect("a secret");
        secret.split('<').next().unwrap_or_default().to_owned()
    };
    assert_eq!(secret(&again), secret(&changed), "a reload rotates nothing");
    let later = browser.open(&path).await;
    let newest = browser.press(&path, &later, "Rotate secret", &[]).await;
    let old = browser.press(&path, &page, "Rotate secret", &[]).await;
    assert_eq!(old.status, 400, "an old form does not restore earlier values");
    says(&old, &["The endpoint was changed after you opened this form"]);
    let changed = newest;
    world.deliver(event(&tenant.id, "job")).await;
    let received = receiver.wait_for(1).await.remove(0);
    received.verify(&secret(&changed));
    assert_eq!(received.header("webhook-signature").split(' ').count(), 4, "two keys of each secret");
    says(&browser.open("/console").await, &["two secrets"]);
    says(
        &browser.open(&path).await,
        &[
            "Secret rotated. The old secret also signs deliveries for another",
            "The old secret also signs deliveries until it ends in 24 h",
            "If you rotate again, it stops working immediately",
            "End the old secret now",
        ],
    );
    for (own, refused) in [
        ("  ", "Must not be blank"),
        ("fifteen-letters", "Must have at least 16 visible characters"),
        ("correct-horse-battery ", "Must not begin or end with white space"),
    ] {
        let page = browser.press(&path, &browser.open(&path).await, "Rotate secret", &[("own", own)]).await;
        assert_eq!(page.status, 400, "{own}");
        says(&page, &[refused]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_overlap_the_old_secret_ends_at_once() {
    let world = World::with(&[("ROTATION_OVERLAP", "0")]).await;
    let (tenant, path) = begin(&world, "https://example.com/hook").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open(&path).await;
    says(&page, &["No longer: it ends now"]);
    assert!(!page.page().contains("For 0 s"), "{}", page.page());
    says(&browser.press(&path, &page, "Rotate secret", &[]).await, &["The old secret has ended."]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_secret_ends_when_the_form_says() {
    let world = World::with(&[("ROTATION_OVERLAP", "1209600")]).await;
    let (tenant, path) = begin(&world, "https://example.com/hook").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open(&path).await;
    says(&page, &["For 14 days"]);
    says(
        &browser.press(&path, &page, "Rotate secret", &[]).await,
        &["The old secret also signs deliveries until it ends in 14 days"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inactive_endpoint_holds_events_until_a_button_resends() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    // A form without the confirmation, as version 0.1.0 had, leads to it.
    let unsure = world.http.post(world.url(&path)).header("origin", world.stack.api()).header("cookie", &tenant.cookie);
    let asked = world.send(unsure.form(&[("action", "deactivate")])).await;
    assert_eq!(asked.headers["location"], format!("{path}?confirm=deactivate"));
    assert_eq!(world.only_endpoint(&tenant).await["active"], json!(true));
    let asked = browser.open(&format!("{path}?confirm=deactivate")).await;
    says(&asked, &["Disable endpoint?", "/hook", "New events are held until", "Disable endpoint", "Cancel"]);
    let page = browser.press(&path, &asked, "Disable endpoint", &[]).await;
    says(&page, &["Enable endpoint", "Endpoint disabled", "Disabled by your team"]);
    world.deliver(event(&tenant.id, "job")).await;
    let page = browser.open(&path).await;
    says(&page, &["1 held delivery , created", "Enable and resend 1 held delivery", "Held"]);
    assert_eq!(receiver.count().await, 0);
    let page = browser.press(&path, &page, "Enable and resend 1 held delivery", &[]).await;
    says(&page, &["Resending 1 delivery : starts within seconds"]);
    world.sweep(common::timestamp::Timestamp::now()).await;
    world.handle_all().await;
    assert_eq!((receiver.count().await, &world.only_endpoint(&tenant).await["active"]), (1, &json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_is_refused_does_not_enable_the_endpoint() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    disable(&browser, &path).await;
    world.deliver(event(&tenant.id, "job")).await;
    for _ in 0..100 {
        let id = uuid::Uuid::now_v7().to_string();
        let unfinished = json!({
            "destination": format!("recovery/{}", tenant.id), "delivery": id, "open": "recovery", "since": 0, "until": 1,
            "begun": true,
        });
        world.put("deliveries", item(&unfinished)).await;
    }
    let page = browser.open(&path).await;
    let refused = browser.press(&path, &page, "Enable and resend 1 held delivery", &[]).await;
    assert_eq!(refused.status, 409);
    assert_eq!(world.only_endpoint(&tenant).await["active"], json!(false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_resends_deliveries_missed_since_a_time() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    world.deliver(event(&tenant.id, "job")).await;
    world.handle_all().await;
    let page = browser.open(&path).await;
    says(
        &page,
        &[
            "Failing",
            "HTTP 500",
            "First permanent failure",
            "The receiver reported a server error",
            "1 failed delivery , created",
        ],
    );
    let form = [("action", "recover"), ("status", "failed")];
    let send = async |since: &str| {
        let request = world.http.post(world.url(&path)).header("accept", "text/html").header("cookie", &tenant.cookie);
        let fields = [&form[..], &[("since", since)]].concat();
        world.send(request.header("origin", world.stack.api()).form(&fields)).await
    };
    let refused = send("soon").await;
    assert_eq!(refused.status, 400);
    says(&refused, &["Must be an RFC 3339 time"]);
    assert_eq!(send("2026-01-31T12:00").await.status, 303);
    world.sweep(common::timestamp::Timestamp::now()).await;
    world.handle_all().await;
    assert_eq!(receiver.count().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_deleted_only_with_a_checkbox() {
    let world = World::start().await;
    let (tenant, path) = begin(&world, HOOK).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open(&path).await;
    browser.press(&path, &page, "Delete endpoint", &[]).await;
    assert_eq!(world.endpoints(&tenant).await.len(), 1);
    let after = browser.press(&path, &page, "Delete endpoint", &[("sure", "yes")]).await;
    says(&after, &["Endpoint deleted", "No endpoints yet"]);
    assert_eq!(browser.open(&path).await.status, 404);
    assert_eq!(world.endpoints(&tenant).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_tests_of_an_endpoint_are_explained() {
    let world = World::start().await;
    let (tenant, path) = begin(&world, HOOK).await;
    for _ in 0..10 {
        world.rpc(&tenant.key, "webhooks/test", json!({"id": path.rsplit('/').next()})).await.ok();
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open(&path).await;
    let refused = browser.press(&path, &page, "Send test event", &[]).await;
    assert_eq!(refused.status, 429);
    says(&refused, &["Too many attempts"]);
}

/// Common libraries reject a secret that is not valid base64.
#[tokio::test(flavor = "multi_thread")]
async fn a_chosen_secret_is_shown_in_a_form_for_libraries() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let shown = |page: &Answer, id: &str| {
        let (_, rest) = page.page().split_once(&format!("<pre id=\"{id}\">"))?;
        rest.split('<').next().map(str::to_owned)
    };
    let generated = browser.press(&path, &browser.open(&path).await, "Rotate secret", &[]).await;
    assert_eq!(shown(&generated, "library-secret"), None, "every library accepts the secret as it is");
    for own in ["correct horse battery staple!", "a-secret-of-ones-own", "whsec_über sechzehn Zeichen"] {
        let page = browser.open(&path).await;
        let rotated = browser.press(&path, &page, "Rotate secret", &[("own", own)]).await;
        assert_eq!(shown(&rotated, "secret").as_deref(), Some(own));
        let form = shown(&rotated, "library-secret").expect("a form for libraries");
        world.deliver(event(&tenant.id, own)).await;
        let received = receiver.received().await.pop().expect("a request");
        let library = standardwebhooks::Webhook::new(&form).expect("a secret that libraries accept");
        library.verify(&received.body, &received.headers).expect("it verifies");
    }
}

/// Anyone can create such a link.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_cannot_show_a_false_confirmation() {
    let world = World::start().await;
    let (tenant, path) = begin(&world, HOOK).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let existing = path.rsplit('/').next().expect("an id");
    let unknown = uuid::Uuid::now_v7().to_string();
    says(&browser.open(&format!("{path}?did=deactivated")).await, &["Disable endpoint"]);
    let claims = browser.open(&format!("{path}?did=deactivated")).await;
    assert!(!claims.page().contains("Endpoint disabled"));
    for query in ["did=deleted", &format!("deleted={existing}"), &format!("deleted={unknown}"), "deleted=x"] {
        let page = browser.open(&format!("/console?{query}")).await;
        assert!(page.status == 200 && !page.page().contains("Endpoint deleted"), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_from_an_old_tab_does_not_undo_a_change() {
    let world = World::start().await;
    let (tenant, path) = begin(&world, HOOK).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let old = browser.open(&path).await;
    let before = world.only_endpoint(&tenant).await["updated_at"].clone();
    let typed =
        |description| [&[("url", HOOK), ("description", description), ("headers", "x-key: 1")], &BOTH[..]].concat();
    let first = browser.press(&path, &old, "Save changes", &typed("Orders")).await;
    says(&first, &["Changes saved", "Orders"]);
    // A double click submits the form twice.
    says(&browser.press(&path, &old, "Save changes", &typed("Orders")).await, &["Nothing has changed."]);
    // Both changes may have been made in the same millisecond.
    let id = path.rsplit('/').next().expect("an id");
    world.set("webhook-endpoints", ("webhook_endpoint_id", id), json!({"updated_at": before})).await;
    let refused = browser.press(&path, &old, "Save changes", &typed("Invoices")).await;
    assert_eq!(refused.status, 400);
    says(
        &refused,
        &["The endpoint was changed after you opened this form", "Now saved:", "Description: Orders", "Headers: x-key"],
    );
    assert!(refused.page().contains("value=\"Invoices\""), "the page keeps the submitted values");
    let (above, _) = refused.page().split_once("<h2>").expect("a section");
    assert!(above.contains("Not saved.") && above.contains(" autofocus"), "the notice is at the top: {above}");
    assert_eq!(world.only_endpoint(&tenant).await["description"], json!("Orders"));
    // The rejected form is now up to date.
    browser.press(&path, &refused, "Save changes", &typed("Invoices")).await;
    assert_eq!(world.only_endpoint(&tenant).await["description"], json!("Invoices"));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_twenty_deliveries_are_resent_after_a_confirmation() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    disable(&browser, &path).await;
    for job in 0..21 {
        world.deliver(event(&tenant.id, job)).await;
    }
    let button = "Enable and resend 21 held deliveries";
    let confirm = browser.press(&path, &browser.open(&path).await, button, &[]).await;
    says(
        &confirm,
        &["Enable and resend 21 held deliveries?", "/hook", "created since", "The endpoint is enabled first", "Cancel"],
    );
    assert!(!text(&confirm).contains("410"), "the receiver has not answered 410");
    assert_eq!(world.only_endpoint(&tenant).await["active"], json!(false), "nothing has happened yet");
    // Events are held until the endpoint is enabled.
    world.deliver(event(&tenant.id, "later")).await;
    says(&browser.press(&path, &confirm, button, &[]).await, &["Resending 22 deliveries : starts within seconds"]);
    world.sweep(common::timestamp::Timestamp::now()).await;
    world.handle_all().await;
    assert_eq!(receiver.count().await, 22);

    // There are no failed deliveries in this period.
    let page = browser.open(&path).await;
    let typed = [("since", "2026-01-31T12:00"), ("status", "failed")];
    let nothing = browser.press(&path, &page, "Recover deliveries", &typed).await;
    says(&nothing, &["Nothing to resend", "This endpoint has no matching deliveries", "Back to endpoint"]);
    let refused = browser.open(&format!("{path}?confirm=recover&since=soon")).await;
    assert_eq!(refused.status, 400);
}

/// The heading shortens a long URL to one or two lines.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_settings_show_a_long_url_in_full() {
    let world = World::start().await;
    let url = format!("http://127.0.0.1:9/{}", "w".repeat(1000));
    let (tenant, path) = begin(&world, &url).await;
    let page = Browser::new(&world, &tenant.cookie).open(&path).await;
    let (_, heading) = page.page().split_once("<h1>").expect("a heading");
    let heading = heading.split("</h1>").next().unwrap_or_default();
    assert!(heading.chars().count() == 60 && heading.contains("w…w"), "{heading}");
    says(&page, &["Settings", &url]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_invalid_field_has_the_focus() {
    let world = World::start().await;
    let (tenant, path) = begin(&world, HOOK).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let refused = edit(&browser, &path, &[("url", "ftp://example.com"), ("headers", "host: x")]).await;
    assert_eq!(refused.page().matches(" autofocus").count(), 1, "{}", refused.page());
    let (_, field) = refused.page().split_once("id=\"edit-url\"").expect("the field");
    assert!(field.split('>').next().unwrap_or_default().contains(" autofocus"));
}

/// The endpoint was disabled after the recovery was requested, and before it began.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_of_a_disabled_endpoint_is_shown_as_not_sent() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    world.deliver(event(&tenant.id, "job")).await;
    let asked = browser.press(&path, &browser.open(&path).await, "Resend 1 failed delivery", &[]).await;
    // The notice is above the numbers.
    says(&asked, &["Resending 1 delivery : starts within seconds", "State", "Success rate"]);
    let off = disable(&browser, &path).await;
    says(&off, &["Not sent: the endpoint is disabled", "State"]);
    assert!(!text(&off).contains("Resending"), "{}", text(&off));
    world.sweep(common::timestamp::Timestamp::now()).await;
    world.handle_all().await;
    let after = browser.open(&path).await;
    says(&after, &["Not sent: the endpoint is disabled . Its deliveries stay held: 1 held."]);
    assert!(!text(&after).contains("delivery resent"), "{}", text(&after));
    assert_eq!(receiver.count().await, 1);
}

/// The endpoint's item contains an older error, because it is updated at most once a minute.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_page_shows_one_age_of_its_last_error() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let (tenant, path) = begin(&world, &receiver.url("/hook")).await;
    world.deliver(event(&tenant.id, "job")).await;
    world.deliver(event(&tenant.id, "later")).await;
    let page = Browser::new(&world, &tenant.cookie).open(&path).await;
    let (_, head) = page.page().split_once("<dt>Last error</dt>").expect("the header");
    let (_, latest) = page.page().split_once("Latest failed attempt: ").expect("the explanation");
    let time = |html: &str| html.split_once("datetime=\"").and_then(|(_, at)| at.split('"').next()).map(str::to_owned);
    assert_eq!(time(head), time(latest));
}

#[tokio::test(flavor = "multi_thread")]
async fn error_pages_of_the_console_keep_its_navigation() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let page = Browser::new(&world, &tenant.cookie).open("/console/endpoints/x").await;
    assert_eq!(page.status, 404);
    says(&page, &["Endpoints", "Deliveries", "API keys", "Sign out", "Not found", "Endpoint not found."]);
}
