//! The inbox: a receiver for webhooks that shows its requests.

use std::time::Duration;

use common::webhooks::delivery::Status;
use tests::{Answer, World, event};

const SECRET: &str = "correct-horse-battery-staple";

/// Submits a form to the inbox as its page does.
async fn submit(world: &World, form: &str, fields: &[(&str, &str)]) -> Answer {
    submit_from(world, world.stack.inbox(), form, fields).await
}

async fn submit_from(world: &World, origin: &str, form: &str, fields: &[(&str, &str)]) -> Answer {
    let form = world.http.post(format!("{}/-/{form}", world.stack.inbox())).form(fields);
    world.send(if origin.is_empty() { form } else { form.header("origin", origin) }).await
}

async fn post(world: &World, path: &str, body: &'static str) -> Answer {
    world.send(world.http.post(format!("{}{path}", world.stack.inbox())).body(body)).await
}

async fn page(world: &World) -> String {
    let answer = world.open(world.stack.inbox()).await;
    assert_eq!(answer.status, 200);
    answer.page().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_verified_once_its_secret_is_known() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, &format!("{}/hook", world.stack.inbox()), SECRET).await;
    world.enqueue("job-events", event(&tenant.id, "job-1")).await;
    world.handle_all().await;

    let shown = page(&world).await;
    for expected in
        ["<code>/hook</code> job.completed", "msg_", "&quot;job_id&quot;: &quot;job-1&quot;", "no signing secret set"]
    {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    assert_eq!(submit(&world, "secret", &[("path", "/hook"), ("secret", SECRET)]).await.status, 303);
    let shown = page(&world).await;
    assert!(shown.contains("<strong>verified</strong>") && !shown.contains(SECRET), "{shown}");

    submit(&world, "secret", &[("path", "/hook"), ("secret", "another")]).await;
    let shown = page(&world).await;
    let verdicts = "<strong>not verified</strong>: webhook-signature is invalid, x-webhook-signature is invalid";
    assert!(shown.contains(verdicts), "{shown}");
    submit(&world, "secret", &[("path", "/hook"), ("secret", "")]).await;
    assert!(page(&world).await.contains("no signing secret set"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_of_nearly_a_mebibyte_is_accepted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, &format!("{}/hook", world.stack.inbox()), SECRET).await;
    let mut event = event(&tenant.id, "job-1");
    event["result"] = "x".repeat((1 << 20) - 1000).into();
    world.enqueue("job-events", event).await;
    world.handle_all().await;
    assert_eq!(world.only_logged(&tenant.id).await.status, Status::Delivered);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_events_are_not_verified() {
    let world = World::start().await;
    submit(&world, "secret", &[("path", "/hook"), ("secret", SECRET)]).await;
    assert_eq!(post(&world, "/hook", "{}").await.status, 204);
    let shown = page(&world).await;
    assert!(shown.contains("webhook-signature is missing, x-webhook-signature is missing"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_path_has_its_response_and_the_page_is_newest_first() {
    let world = World::start().await;
    for (answer, status) in [("500", 500), ("410", 410), ("204", 204)] {
        assert_eq!(submit(&world, "answer", &[("path", "/orders"), ("answer", answer)]).await.status, 303);
        assert_eq!(post(&world, "/orders", "{}").await.status, status);
        assert_eq!(post(&world, "/others", "{}").await.status, 204);
    }
    for answer in ["slowly", "hang"] {
        submit(&world, "answer", &[("path", "/orders"), ("answer", answer)]).await;
        let slow = world.http.post(format!("{}/orders", world.stack.inbox())).timeout(Duration::from_millis(300));
        assert!(slow.body("{}").send().await.is_err_and(|error| error.is_timeout()), "{answer}");
    }
    let shown = page(&world).await;
    let places = ["none; ", "HTTP 204 after 8 seconds; ", "HTTP 410; ", "HTTP 500; "].map(|answer| {
        shown.find(&format!("response: {answer}")).unwrap_or_else(|| unreachable!("{answer} in {shown}"))
    });
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(submit(&world, "answer", &[("path", "/orders"), ("answer", "302")]).await.status, 400);
    assert_eq!(submit(&world, "answer", &[("path", "orders"), ("answer", "204")]).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_path_leaves_a_delivery_pending_until_it_answers() {
    let world = World::with(&[("RETRY_SCHEDULE", "0,0,0,0,0")]).await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, &format!("{}/hook", world.stack.inbox()), SECRET).await;
    submit(&world, "answer", &[("path", "/hook"), ("answer", "500")]).await;
    world.enqueue("job-events", event(&tenant.id, "job-1")).await;
    // On a busy machine, the first attempt may be cut off and repeated.
    while world.log_of(&tenant.id, Status::Pending).await.is_empty() {
        world.poll_each().await;
    }
    submit(&world, "answer", &[("path", "/hook"), ("answer", "204")]).await;
    world.handle_all().await;
    let delivery = world.only_logged(&tenant.id).await;
    assert!(delivery.status == Status::Delivered && delivery.attempts > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_shown_as_text() {
    let world = World::start().await;
    let hostile = "<script>alert(1)</script>\"'></pre><img src=x onerror=alert(1)>";
    let request = world.http.post(format!("{}/%3Cscript%3E'\"", world.stack.inbox())).body(hostile);
    let request = request.header("x-event-type", hostile).header("webhook-id", hostile).header("x-other", hostile);
    assert_eq!(world.send(request).await.status, 204);
    submit(&world, "answer", &[("path", "/\"><script>alert(2)</script>"), ("answer", "500")]).await;
    submit(&world, "secret", &[("path", "/<script>"), ("secret", "<script>")]).await;
    let not_text = world.http.post(format!("{}/bytes", world.stack.inbox())).body(vec![0xff, b'<', 0, b'"']);
    assert_eq!(world.send(not_text).await.status, 204);
    let answer = world.open(world.stack.inbox()).await;
    for tag in ["<script", "<img"] {
        assert!(!answer.page().contains(tag), "{}", answer.page());
    }
    assert!(answer.page().contains("&lt;script&gt;alert(1)"));
    let policy = answer.headers["content-security-policy"].to_str().expect("a string");
    assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_change_nothing_send_nothing_and_read_nothing() {
    let world = World::start().await;
    for origin in ["", "null", "https://example.com", world.stack.api(), "http://127.0.0.1"] {
        for (form, value) in [("answer", "500"), ("secret", "x")] {
            let answer = submit_from(&world, origin, form, &[("path", "/hook"), (form, value)]).await;
            assert_eq!(answer.status, 403, "{form} from {origin:?}");
        }
    }
    let posted = world.http.post(format!("{}/hook", world.stack.inbox())).header("origin", "https://example.com");
    assert_eq!(world.send(posted.body("{}")).await.status, 403);
    let shown = page(&world).await;
    assert!(shown.contains("No requests yet.") && !shown.contains("/-/answer\"><input type=\"hidden\""), "{shown}");
    for url in
        [world.stack.inbox().to_owned(), world.stack.mail().to_owned(), format!("{}/messages", world.stack.mail())]
    {
        let elsewhere = world.http.get(&url).header("host", "inbox.example.com");
        assert_eq!(world.send(elsewhere).await.status, 421, "{url}");
        let by_name = world.http.get(url.replace("127.0.0.1", "localhost"));
        assert_eq!(world.send(by_name).await.status, 200, "{url}");
    }

    let localhost = world.stack.inbox().replace("127.0.0.1", "localhost");
    let own = submit_from(&world, &localhost, "answer", &[("path", "/hook"), ("answer", "500")]).await;
    assert_eq!((own.status, post(&world, "/hook", "{}").await.status), (303, 500));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_accepts_only_posts_of_a_bounded_size() {
    let world = World::start().await;
    let url = format!("{}/hook", world.stack.inbox());
    assert_eq!(world.send(world.http.get(&url)).await.status, 404);
    assert_eq!(world.send(world.http.post(&url).body(vec![b'x'; 2 << 20])).await.status, 204);
    assert_eq!(world.send(world.http.post(&url).body(vec![b'x'; (2 << 20) + 1])).await.status, 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswered_requests_do_not_delay_the_shutdown() {
    let world = World::start().await;
    submit(&world, "answer", &[("path", "/hook"), ("answer", "hang")]).await;
    let hanging = tokio::spawn(world.http.post(format!("{}/hook", world.stack.inbox())).body("{}").send());
    while page(&world).await.contains("No requests yet.") {}
    world.stack.stop().await;
    let answer = hanging.await.expect("no panic").expect("an answer");
    assert_eq!(answer.status(), 503);
}
