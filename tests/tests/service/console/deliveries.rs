//! The pages about deliveries.

use serde_json::{Value, json};
use tests::{Answer, Browser, Receiver, World, callback, event};

use super::{says, text};

/// The path of the first delivery in a list.
fn first_delivery(page: &Answer) -> String {
    let (_, link) = page.page().split_once("href=\"/console/deliveries/").expect("a link");
    format!("/console/deliveries/{}", link.split('"').next().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_delivery_shows_its_cause_and_is_resent() {
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
    says(&page, &["job-1", "127.0.0.1", "job.completed", "Failed", "HTTP 500, just now", "1", "just now"]);
    let path = first_delivery(&page);
    let page = browser.open(&path).await;
    says(
        &page,
        &[
            "job-1 to 127.0.0.1",
            "Failed This delivery won't be retried automatically.",
            "Resend",
            "Destination",
            "/hook",
            "Attempts",
            "HTTP 500",
            "first attempt. The receiver reported a server error.",
            "Request",
            "x-event-type: job.completed",
            "Payload",
            "\"note\": \"<script>alert(1)</script>⟨U+202E⟩\"",
            "Exactly as sent",
            "Verify the signature",
        ],
    );
    let page = browser.press(&path, &page, "Resend", &[]).await;
    says(&page, &["Delivered", "Delivered", "manual resend", "HTTP 500"]);
    assert_eq!(receiver.count().await, 2);
}

/// The link resends all of them, not only those of the workflow.
#[tokio::test(flavor = "multi_thread")]
async fn a_filtered_list_has_no_link_that_resends_others() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/hook", "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "active": false})).await.ok();
    for number in 0..21 {
        let mut held = event(&tenant.id, format!("job-{number}"));
        held["workflow"] = json!("nightly");
        world.deliver(held).await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    for (filter, has_link) in [("", true), ("&event=job.completed", false), ("&workflow=nightly", false)] {
        let page = browser.open(&format!("/console/deliveries?endpoint={endpoint}&status=held{filter}")).await;
        says(&page, &["job-20"]);
        assert_eq!(text(&page).contains("Resend all held deliveries of this endpoint"), has_link, "{filter}");
    }
}

/// Each attempt's request is shown as the receiver got it, and as a command, with the bytes of the body.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_shows_each_request_as_it_was_sent() {
    for (is_callback, form) in [(false, "full"), (false, "thin"), (true, "full")] {
        let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
        let tenant = world.tenant("acme").await;
        let receiver = Receiver::scripted(&[(500, &[]), (204, &[])]).await;
        let mut sent = event(&tenant.id, "job-1");
        sent["result"] = json!({"note": "it's"});
        if is_callback {
            sent["callback_url"] = json!(receiver.url("/hook?token=canary"));
            sent["callback_secret"] = json!("callback secret");
        } else {
            let headers = json!({"x-key": "canary"});
            let fields = json!({"url": receiver.url("/hook?a=b"), "signing_secret": "secret's", "headers": headers, "payload": form});
            world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
        }
        world.deliver(sent).await;
        assert_eq!(world.poll("deliveries").await, 1);
        let delivery = world.only_logged(&tenant.id).await.id;
        let browser = Browser::new(&world, &tenant.cookie);
        let page = browser.open(&format!("/console/deliveries/{delivery}")).await;
        let shown = text(&page);
        assert!(!page.page().contains("canary"), "{shown}");
        for request in receiver.received().await {
            for (name, value) in &request.headers {
                let value = value.to_str().expect("ASCII");
                let line = match name.as_str() {
                    "content-length" => continue,
                    "host" if is_callback => continue,
                    "x-key" => "x-key: (secret)".to_owned(),
                    name => format!("{name}: {value}"),
                };
                assert!(shown.contains(&line), "{line} is not in {shown}");
            }
            let body = String::from_utf8(request.body.to_vec()).expect("UTF-8");
            assert!(shown.contains(&format!("Exactly as sent {body}")), "{body} is not in {shown}");
        }
        let line = if is_callback { "POST (the URL of the job's callback)" } else { "POST /hook?a=b" };
        assert_eq!(shown.matches(line).count(), 2, "{shown}");
        assert_eq!(shown.matches("--data-binary @payload.json").count(), 2, "{shown}");
    }
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
async fn the_address_and_the_next_pages_keep_the_filters() {
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
    assert!(form.page().contains("aria-current=\"true\">Held") && form.page().contains("value=\"&quot;&gt;\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_delivery_is_not_shown_as_resent() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, "http://127.0.0.1:9/hook", "s").await;
    for job in ["kept", "erased"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let (browser, path) = (Browser::new(&world, &tenant.cookie), "/console/deliveries");
    let before = browser.open(path).await;
    says(&before, &["Resend these 2 failed deliveries"]);
    world.rpc(&tenant.key, "deliveries/erase", json!({"job_id": "erased"})).await.ok();
    says(&browser.open(path).await, &["Resend 1 failed delivery"]);
    let resent = browser.press(path, &before, "Resend these 2 failed deliveries", &[]).await;
    says(&resent, &["1 resent delivery: 1 pending", "kept"]);
    assert!(!text(&resent).contains("erased"), "{}", text(&resent));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_filter_is_marked() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    for (query, message) in [
        ("status=lost", "Must be pending, delivered, failed, held or ended"),
        ("since=yesterday", "Must be an RFC 3339 time"),
        ("event=%3Cb%3E", "Must be the name of an event"),
        ("endpoint=x", "No endpoint has this in its URL, description or ID"),
    ] {
        let page = browser.open(&format!("/console/deliveries?{query}")).await;
        assert_eq!(page.status, 400, "{query}");
        says(&page, &[message]);
    }
    // A link that was edited by hand.
    assert_eq!(browser.open("/console/deliveries?cursor=x").await.status, 400);
    assert_eq!(browser.open("/console/deliveries?status=&since=&cursor=").await.status, 200);
}

/// The payload is 200 KB and consists mostly of brackets, but the size of the page is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_payload_is_cut_on_its_page() {
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
    says(&page, &["Shortened: the payload has", "The API returns the entire payload"]);
}

/// The endpoint was deleted while the delivery waited, so the page does not show a next attempt.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_of_a_deleted_endpoint_does_not_promise_attempts() {
    let world = World::with(&[("RETRY_SCHEDULE", "3600")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let path = format!("/console/deliveries/{}", world.only_logged(&tenant.id).await.id);
    says(&browser.open("/console/deliveries").await, &["Pending", "1, next in"]);
    says(&browser.open(&path).await, &["Next attempt in", "Resend", "Next"]);
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let (list, page) = (browser.open("/console/deliveries").await, browser.open(&path).await);
    says(&list, &["job-1", "Deleted endpoint", "HTTP 500"]);
    says(
        &page,
        &[
            "The endpoint was deleted. This delivery won't be retried.",
            "This delivery cannot be resent, because its endpoint was deleted.",
        ],
    );
    for page in [list, page] {
        let text = text(&page);
        assert!(!text.to_lowercase().contains(" next ") && !page.page().contains(">Resend<"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_search_finds_jobs_deliveries_and_webhook_ids() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    for job in ["job-one", "job-two", "job-three"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let log = world.log(&tenant.id).await;
    let two = log.iter().find(|delivery| delivery.job_id == "job-two").expect("a delivery");
    let browser = Browser::new(&world, &tenant.cookie);
    for sought in ["job-two".to_owned(), "+job-two+".to_owned(), two.webhook_id.to_string()] {
        let page = browser.open(&format!("/console/deliveries?q={sought}")).await;
        let text = text(&page);
        assert!(
            text.contains("job-two") && !text.contains("job-one") && !text.contains("job-three"),
            "{sought}: {text}"
        );
    }
    let led = browser.open(&format!("/console/deliveries?q={}", two.id)).await;
    let to = led.headers["location"].to_str().expect("a path");
    assert_eq!((led.status, to), (303, &*format!("/console/deliveries/{}", two.id)));
    let stranger = world.tenant("evil").await;
    let strange = Browser::new(&world, &stranger.cookie).open(&format!("/console/deliveries?q={}", two.id)).await;
    says(&strange, &["No deliveries match these filters."]);
    let hint = "An ID is found only as a whole, and upper and lower case count.";
    for unknown in ["msg_00000000000000000000000000000000", "msg_x", "job", "JOB-TWO"] {
        let page = browser.open(&format!("/console/deliveries?q={unknown}")).await;
        says(&page, &["No deliveries match these filters.", hint]);
    }
    let first = browser.open("/console").await;
    says(&first, &["1 endpoint", "Exact job, delivery or message ID", "Find deliveries"]);
    assert!(first.page().contains(r#"action="/console/deliveries""#));
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_have_counts_and_reasons_and_times_filter() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let (broken, lost) =
        (Receiver::scripted(&[(500, &[]), (500, &[])]).await, Receiver::scripted(&[(404, &[]), (404, &[])]).await);
    for url in [broken.url("/broken"), lost.url("/lost")] {
        world.endpoint(&tenant, &url, "s").await;
    }
    for job in ["one", "two"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console/deliveries").await;
    says(
        &page,
        &[
            "All",
            "Pending 0",
            "Failed 4",
            "Held 0",
            "Delivered",
            "Any time",
            "Last hour",
            "Resend these 4 failed deliveries",
        ],
    );
    for (query, expected) in [
        ("reason=status_5xx", 2),
        ("reason=status_4xx&status=failed", 2),
        ("reason=timeout", 0),
        ("workflow=import", 0),
        ("range=1h", 4),
        ("range=7d&until=2026-01-01T00%3A00", 0),
    ] {
        let page = browser.open(&format!("/console/deliveries?{query}")).await;
        assert_eq!((page.status, text(&page).matches("Failed HTTP").count()), (200, expected), "{query}");
    }
    says(&browser.open("/console/deliveries?range=1h").await, &["Failed 4"]);
    says(&browser.open("/console/deliveries?until=2026-01-01T00%3A00").await, &["Failed 0"]);
    let counted = browser.open("/console/deliveries?reason=status_5xx").await;
    assert!(!text(&counted).contains("Failed 4"), "the index does not contain reasons");
    for (query, message) in
        [("range=1y", "range: Must be 1h, 24h or 7d."), ("reason=A", "Must be one of delivered, status_5xx")]
    {
        let page = browser.open(&format!("/console/deliveries?{query}")).await;
        assert_eq!(page.status, 400, "{query}");
        says(&page, &[message]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_links_to_older_pages_and_back_to_newer_ones() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    for job in 100..145 {
        world.deliver(event(&tenant.id, job)).await;
    }
    let browser = Browser::new(&world, &tenant.cookie);
    let jobs = |page: &Answer| {
        let text = text(page);
        (100..145).filter(|job| text.contains(&format!(" {job} "))).collect::<Vec<_>>()
    };
    let link = |page: &Answer, words: &str| {
        let (before, _) = page.page().split_once(&format!("\">{words}</a>")).expect(words);
        before.rsplit('"').next().unwrap_or_default().replace("&amp;", "&")
    };
    let first = browser.open("/console/deliveries").await;
    let second = browser.open(&link(&first, "Older deliveries")).await;
    let third = browser.open(&link(&second, "Older deliveries")).await;
    assert_eq!((jobs(&first).len(), jobs(&second).len(), jobs(&third).len()), (20, 20, 5));
    let back = browser.open(&link(&third, "Newer")).await;
    assert_eq!(jobs(&back), jobs(&second));
    assert_eq!(jobs(&browser.open(&link(&back, "Newer")).await), jobs(&first));
    assert_eq!(jobs(&browser.open(&link(&third, "Newest deliveries")).await), jobs(&first));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shown_failures_are_resent_together() {
    let world = World::live(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[]), (204, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    let off = world.endpoint(&tenant, "http://127.0.0.1:9/off", "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": off, "active": false})).await.ok();
    for job in ["job-1", "job-2", "job-3"] {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    receiver.wait_for(3).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let page = loop {
        let page = browser.open("/console/deliveries?status=failed").await;
        if text(&page).contains("Resend these 3 failed deliveries") {
            break page;
        }
    };
    let all = browser.open("/console/deliveries").await;
    says(&all, &["Resend these 3 failed deliveries"]);
    assert!(!text(&all).contains("disabled endpoints"), "{}", text(&all));
    let held = browser.open("/console/deliveries?status=held").await;
    says(&held, &["3 deliveries on this page are for disabled endpoints"]);
    let path = "/console/deliveries?status=failed";
    let sent = browser.press(path, &page, "Resend these 3 failed deliveries", &[]).await;
    says(&sent, &["Resent deliveries", "3 resent deliveries: 3 delivered.", "job-3", "Delivered"]);
    assert_eq!(receiver.count().await, 6);
    // Another tenant's deliveries are neither shown nor sent.
    let stranger = Browser::new(&world, &world.tenant("evil").await.cookie).forging();
    let foreign = stranger.press(path, &page, "Resend these 3 failed deliveries", &[]).await;
    says(
        &foreign,
        &["None of these deliveries was resent : they or their payloads are no longer stored", "All deliveries"],
    );
    assert_eq!(receiver.count().await, 6);
}

/// The receiver responded with 410 to stop deliveries.
#[tokio::test(flavor = "multi_thread")]
async fn a_resend_to_a_receiver_that_is_gone_is_confirmed() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(410, &[]), (204, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.enqueue("job-events", event(&tenant.id, "job-1")).await;
    receiver.wait_for(1).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let path = loop {
        let page = browser.open("/console/deliveries?status=failed").await;
        if text(&page).contains("job-1") {
            break first_delivery(&page);
        }
    };
    says(&browser.open(&path).await, &["Failed", "Enable endpoint and resend …"]);
    // Submits a form in another tab that was opened before the endpoint was disabled.
    let request = world.http.post(world.url(&path)).header("accept", "text/html").header("cookie", &tenant.cookie);
    let asked = world.send(request.header("origin", world.stack.api()).form(&[("action", "resend")])).await;
    assert_eq!(asked.headers["location"], format!("{path}?confirm=resend"));
    let confirm = browser.open(&format!("{path}?confirm=resend")).await;
    says(&confirm, &["The receiver answered 410 Gone", "Enable endpoint and resend", "Cancel"]);
    let sent = browser.press(&path, &confirm, "Enable endpoint and resend", &[]).await;
    says(&sent, &["Delivered", "manual resend"]);
    assert_eq!(world.only_endpoint(&tenant).await["active"], json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_button_resends_as_many_deliveries_as_are_counted() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "s").await;
    world.deliver(event(&tenant.id, "job")).await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
    world.handle_all().await;
    assert_eq!(receiver.count().await, 2);
    let browser = Browser::new(&world, &tenant.cookie);
    let page = browser.open("/console/deliveries?status=failed").await;
    says(&page, &["Failed 1", "Resend 1 failed delivery", "Test event", "webhook.test", "Failed"]);
}

/// An email about a failed job links to a list like this one.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_explains_why_failed_jobs_are_not_delivered() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let browser = Browser::new(&world, &tenant.cookie);
    let path = "/console/deliveries?job_id=job-1";
    let reason = "No endpoint is subscribed to job.failed , so failed jobs are not delivered. Add endpoint";
    says(&browser.open(path).await, &["No deliveries match these filters.", reason]);
    let fields = json!({"url": "http://127.0.0.1:9/hook", "events": ["job.completed"]});
    let made = world.rpc(&tenant.key, "webhooks/create", fields).await;
    says(&browser.open(path).await, &[reason]);
    let id = &made.ok()["webhook_endpoint_id"];
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "events": null})).await.ok();
    assert!(!text(&browser.open(path).await).contains("subscribed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn notices_name_the_endpoint_that_they_are_about() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let (sick, monitor) = (Receiver::scripted(&[(410, &[])]).await, Receiver::start().await);
    let id = world.endpoint(&tenant, &sick.url("/sick"), "s").await;
    let fields = json!({"url": monitor.url("/monitor"), "events": ["endpoint.disabled"]});
    let watching = world.rpc(&tenant.key, "webhooks/create", fields).await;
    world.deliver(event(&tenant.id, "job")).await;
    world.sweep(common::timestamp::Timestamp::now()).await;
    world.handle_all().await;
    monitor.wait_for(1).await;
    let browser = Browser::new(&world, &tenant.cookie);
    let list = browser.open("/console/deliveries?event=endpoint.disabled").await;
    says(&list, &["Notice: 127.0.0.1", "/sick was disabled", "/monitor", "endpoint.disabled"]);
    assert!(!text(&list).contains(&id), "{}", text(&list));
    let page = browser.open(&first_delivery(&list)).await;
    says(&page, &["Notice: 127.0.0.1", "/sick was disabled, to 127.0.0.1", "/monitor", "About", "/sick", "Event"]);
    assert!(page.page().contains(&format!("<dt>About</dt><dd><a href=\"/console/endpoints/{id}\">")));
    let watching = tests::text(&watching.ok()["webhook_endpoint_id"]);
    says(&browser.open(&format!("/console/endpoints/{watching}")).await, &["Latest deliveries", "/sick was disabled"]);
}
