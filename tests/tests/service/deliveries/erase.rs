//! `POST /v1/deliveries/erase`.

use std::sync::Arc;

use common::webhooks::delivery::{Attempt, Delivery, Failure, Outcome, Status, Trigger};
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{Browser, Call, Doomed, Receiver, Tenant, World, at_each_call, context, event, sample_event};

use super::{Book, Draft, HOUR, SECOND, id, ids, read};
use crate::{job_failures, notices};

const SECRET: &str = "canary-payload-77c1";
const ANSWER: &str = "canary-answer-19ab";

fn draft(book: &Book, endpoint: &str, job: impl ToString, status: Status) -> Draft {
    let body = json!({"result": format!("{SECRET}{}", "x".repeat(700))}).to_string();
    Draft::to(endpoint, book.ago(SECOND), job).status(status).body(&body)
}

async fn erase(world: &World, tenant: &Tenant, fields: Value) -> tests::Answer {
    world.rpc(&tenant.key, "deliveries/erase", fields).await
}

/// Whether the table still contains the payload or a receiver's response.
async fn is_anything_left(world: &World) -> bool {
    let items = format!("{:?}", world.items("deliveries").await);
    // A compressed payload is not readable.
    [SECRET, ANSWER, "payload"].into_iter().any(|text| items.contains(text))
}

/// Creates a failed delivery with attempts in its state and in a separate item, each with a response.
async fn failed(book: &Book, tenant: &Tenant, endpoint: &str) -> Delivery {
    let owner = id(tenant);
    let (mut delivery, payload) = draft(book, endpoint, "failed", Status::Failed).delivery(&owner);
    let outcome = Outcome::Failed(Failure::Status(500, None));
    let attempt =
        |ago: u32| Attempt::new(book.ago(SECOND * ago), ago, outcome, Some(ANSWER.to_owned()), Trigger::Schedule);
    (delivery.attempts, delivery.last_attempt) = (1, Some(attempt(9)));
    let earlier = book.log.attempts_row(&owner, &delivery, &delivery, book.now).expect("it does not fit");
    (delivery.attempts, delivery.last_attempt, delivery.earlier) = (3, Some(attempt(7)), vec![attempt(8)]);
    book.put([vec![earlier], book.log.payload_rows(&owner, &delivery.id, &payload, book.now)].concat()).await;
    let first = book.log.first_row(&owner, &delivery, None, book.now);
    assert!(book.log.begin(vec![first]).await.iter().all(Result::is_ok));
    delivery
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_delivery_keeps_only_its_row() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let mut deliveries = vec![failed(&book, &tenant, &endpoint).await];
    for status in [Status::Delivered, Status::Failed, Status::Held, Status::Ended] {
        deliveries.push(book.write_one(&tenant, draft(&book, &endpoint, format!("is {status}"), status)).await);
    }
    assert!(is_anything_left(&world).await);
    for delivery in &deliveries {
        let fields = json!({"delivery_id": delivery.id});
        let before = read(&world, &tenant, "get", fields.clone()).await.ok().clone();
        assert!(before["payload"].as_str().is_some_and(|payload| payload.contains(SECRET)));
        assert_eq!(erase(&world, &other, fields.clone()).await.error().0, 404);
        assert_eq!(read(&world, &tenant, "get", fields.clone()).await.ok(), &before);

        let answer = erase(&world, &tenant, fields.clone()).await;
        assert_eq!(answer.ok(), &json!({"success": true, "message": "1 delivery erased", "erased": 1}));
        let after = read(&world, &tenant, "get", fields.clone()).await.ok().clone();
        assert!(after["delivery"]["erased_at"].is_string());
        let mut expected = before;
        expected.as_object_mut().expect("an object").remove("payload");
        expected["delivery"]["erased_at"] = after["delivery"]["erased_at"].clone();
        let bare = |attempt: &mut Value| drop(attempt.as_object_mut().expect("an attempt").remove("response"));
        expected["attempts"].as_array_mut().expect("attempts").iter_mut().for_each(bare);
        bare(&mut expected["delivery"]["last_attempt"]);
        assert_eq!(after, expected);

        // A second call changes nothing, and the delivery cannot be resent.
        erase(&world, &tenant, fields.clone()).await.ok();
        assert_eq!(read(&world, &tenant, "get", fields.clone()).await.ok(), &after);
        let resent = world.rpc(&tenant.key, "deliveries/resend", fields.clone()).await;
        assert_eq!(resent.error(), (409, "CONFLICT", "payload_not_kept"));
    }
    assert!(!is_anything_left(&world).await, "{:?}", world.items("deliveries").await);
    let listed = read(&world, &tenant, "list", json!({})).await;
    assert!(listed.ok()["deliveries"].as_array().expect("a list").iter().all(|one| one["erased_at"].is_string()));
    // A late success that a second process records does not restore any data.
    let (before, last) = (&deliveries[0], deliveries[0].last_attempt.clone());
    let late = Delivery { status: Status::Delivered, last_attempt: last, ..before.clone() };
    assert!(!book.log.advance(&id(&tenant), before, &late).await.expect("an answer"));
    assert!(!is_anything_left(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_waits_to_be_sent_is_refused() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let pending = book.write_one(&tenant, draft(&book, &endpoint, "j", Status::Pending)).await;
    let fields = json!({"delivery_id": pending.id});
    let refused = erase(&world, &tenant, fields.clone()).await;
    assert_eq!(refused.error(), (409, "CONFLICT", "delivery_pending"));
    assert!(read(&world, &tenant, "get", fields).await.ok()["payload"].is_string());
    for (fields, path) in [
        (json!({}), "delivery_id"),
        (json!({"delivery_id": pending.id, "job_id": "j"}), "job_id"),
        (json!({"job_id": "x".repeat(1025)}), "job_id"),
        (json!({"job_id": "j", "webhook_endpoint_id": endpoint}), "job_id"),
        (json!({"delivery_id": pending.id, "since": "2026-01-31T12:00:00Z"}), "delivery_id"),
        (json!({"webhook_endpoint_id": endpoint}), "since"),
    ] {
        assert_eq!(erase(&world, &tenant, fields).await.issues()[0].0, path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_waits_at_a_pull_endpoint_can_be_erased() {
    let world = World::with(&[("LEASE_TIME", "3"), ("RETRY_SCHEDULE", "600")]).await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let endpoint = json!({"webhook_endpoint_id": created.ok()["webhook_endpoint_id"]});
    let receive =
        async || world.rpc(&tenant.key, "deliveries/receive", endpoint.clone()).await.ok()["deliveries"].clone();
    for job in ["retried", "leased", "held"] {
        let mut finished = event(&tenant.id, job);
        finished["result"] = json!(format!("{SECRET}{}", "x".repeat(700)));
        world.deliver(finished).await;
        if job == "held" {
            continue;
        }
        let taken = receive().await[0].clone();
        if job == "retried" {
            let settled = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": 500});
            world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [settled]})).await.ok();
        }
    }
    for by_job in [json!({"job_id": "leased"}), json!({"delivery_id": found(&world, &tenant, "leased").await.id})] {
        assert_eq!(erase(&world, &tenant, by_job).await.error(), (409, "CONFLICT", "delivery_pending"));
    }
    tokio::time::sleep(std::time::Duration::from_millis(3_050)).await;
    for job in ["held", "retried", "leased"] {
        let fields = json!({"delivery_id": found(&world, &tenant, job).await.id});
        for _repeated in 0..2 {
            erase(&world, &tenant, fields.clone()).await.ok();
        }
        let shown = read(&world, &tenant, "get", fields.clone()).await.ok().clone();
        assert_eq!(
            (&shown["delivery"]["status"], &shown["payload"]),
            (&json!("ended"), &json!(null)),
            "{job}: {shown}"
        );
        assert!(shown["delivery"]["erased_at"].is_string());
        let resent = world.rpc(&tenant.key, "deliveries/resend", fields).await;
        assert_eq!(resent.error(), (409, "CONFLICT", "payload_not_kept"));
    }
    assert_eq!(receive().await, json!([]));
    let open = world.rpc(&tenant.key, "deliveries/stats", json!({})).await.ok()["open"].clone();
    assert_eq!((&open["pending"]["count"], &open["held"]["count"]), (&json!(0), &json!(0)));
    assert!(!is_anything_left(&world).await);
}

async fn found(world: &World, tenant: &Tenant, job: &str) -> Delivery {
    world.log(&tenant.id).await.into_iter().find(|delivery| delivery.job_id == job).expect("a delivery")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_receives_a_delivery_or_it_is_erased() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let endpoint = json!({"webhook_endpoint_id": created.ok()["webhook_endpoint_id"]});
    for round in 0..12 {
        let job = format!("j{round}");
        world.deliver(event(&tenant.id, &job)).await;
        let fields = json!({"delivery_id": found(&world, &tenant, &job).await.id});
        let (erased, received) = tokio::join!(
            erase(&world, &tenant, fields),
            world.rpc(&tenant.key, "deliveries/receive", endpoint.clone())
        );
        let received = received.ok()["deliveries"].as_array().expect("deliveries").len();
        assert_eq!((erased.status, received), if received == 0 { (200, 0) } else { (409, 1) });
    }
}

/// The log stores the first 1,024 bytes of an id, so a longer one would also select other jobs.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_id_that_the_log_shortens_is_refused() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await.ok();
    let browser = Browser::new(&world, &tenant.cookie);
    let longest = ["x".repeat(1024), "ä".repeat(512), format!("{}🦀", "x".repeat(1020))];
    for id in &longest {
        world.deliver(event(&tenant.id, id)).await;
        assert_eq!(ids(read(&world, &tenant, "list", json!({"job_id": id})).await.ok()).len(), 1, "{id}");
        for longer in [format!("{id}a"), format!("{id}ä")] {
            for answer in [
                read(&world, &tenant, "list", json!({"job_id": longer})).await,
                erase(&world, &tenant, json!({"job_id": longer})).await,
            ] {
                assert_eq!(answer.issues(), [("job_id", "too_big")]);
                let message = &answer.json()["data"]["issues"][0]["message"];
                assert_eq!(message, "Must have at most 1024 bytes");
            }
            let page = browser.open(&format!("/console/deliveries?q={longer}")).await;
            assert!(page.page().contains("Must have at most 1024 bytes"), "{}", page.page());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_deliveries_of_a_job_are_erased_or_none() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let book = Book::of(&world);
    let mut endpoints = Vec::new();
    for number in 0..3 {
        endpoints.push(world.endpoint(&tenant, &format!("https://example.com/{number}"), "s").await);
    }
    for endpoint in &endpoints {
        book.write_one(&tenant, draft(&book, endpoint, "a", Status::Failed)).await;
        book.write_one(&tenant, draft(&book, endpoint, "b", Status::Delivered)).await;
    }
    let pending = Draft { at: book.ago(HOUR), ..draft(&book, &endpoints[0], "b", Status::Pending) };
    let pending = book.write_one(&tenant, pending).await;
    book.write_one(&tenant, Draft { at: book.ago(HOUR), ..draft(&book, &endpoints[1], "b", Status::Held) }).await;
    let erased = async || {
        let log = world.log(&tenant.id).await;
        let erased = log.iter().filter(|one| one.erased_at.is_some());
        erased.map(|one| one.job_id.clone()).collect::<Vec<_>>()
    };
    for owner in [&other, &tenant] {
        let answer = erase(&world, owner, json!({"job_id": "c"})).await;
        assert_eq!(answer.ok(), &json!({"success": true, "message": "0 deliveries erased", "erased": 0}));
    }
    assert_eq!(erase(&world, &other, json!({"job_id": "a"})).await.ok()["erased"], 0);
    assert_eq!(erase(&world, &tenant, json!({"job_id": "b"})).await.error(), (409, "CONFLICT", "delivery_pending"));
    assert_eq!(erased().await, [""; 0]);
    assert_eq!(erase(&world, &tenant, json!({"job_id": "a"})).await.ok()["erased"], 3);
    assert_eq!(erased().await, ["a"; 3]);
    let failed = Delivery { status: Status::Failed, next_attempt_at: None, ..pending.clone() };
    assert!(book.log.advance(&id(&tenant), &pending, &failed).await.expect("an answer"));
    assert_eq!(erase(&world, &tenant, json!({"job_id": "b"})).await.ok()["erased"], 5);
    assert_eq!(erased().await.len(), 8);
    assert!(!is_anything_left(&world).await);
}

/// A list contains the deliveries to a limited number of deleted endpoints, because each costs it reads.
#[tokio::test(flavor = "multi_thread")]
async fn deliveries_to_many_deleted_endpoints_are_erased() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let book = Book::of(&world);
    for number in 0..102 {
        let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
        if number < 2 {
            book.write_one(&tenant, draft(&book, &endpoint, number, Status::Delivered)).await;
        }
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    }
    // The second call erases the first delivery again.
    for (fields, erased) in [(json!({"job_id": "0"}), 1), (json!({"since": book.ago(HOUR)}), 2)] {
        assert_eq!(erase(&world, &tenant, fields).await.ok()["erased"], erased);
    }
    assert!(!is_anything_left(&world).await);
}

/// Makes a process die at this call during an erasure. Once the erasure is repeated, no data remains.
async fn erase_and_die(call: u64, takes_effect: bool) -> (bool, ()) {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let delivery = failed(&Book::of(&world), &tenant, &endpoint).await;
    let mut request = sample_event("deliveries-erase");
    request["headers"]["x-api-key"] = json!(tenant.key);
    request["body"] = json!(json!({"json": {"delivery_id": delivery.id}}).to_string());
    let doomed = Doomed::function(&world, "deliveries-erase", call..u64::MAX, takes_effect).await;
    // The call may fail, which is expected.
    doomed.process.clone().call(request, context(60)).await.ok();
    let shown = read(&world, &tenant, "get", json!({"delivery_id": delivery.id})).await.ok().to_string();
    let is_erased = shown.contains("erased_at");
    assert_eq!(shown.contains(SECRET) || shown.contains(ANSWER), !is_erased, "{call}: nothing erased is shown");
    erase(&world, &tenant, json!({"delivery_id": delivery.id})).await.ok();
    assert!(!is_anything_left(&world).await, "{call}");
    (doomed.has_died(), ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_erases_may_die_at_any_call() {
    for takes_effect in [false, true] {
        let lives = at_each_call(0.., |call| erase_and_die(call, takes_effect)).await;
        assert!(lives.calls() >= 3);
    }
}

/// The payload of a held delivery is in the delivery's row, and a resend moves it. Of the two concurrent calls, exactly
/// one takes effect, and it does so completely.
#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_resend_does_not_restore_a_payload() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let owner = id(&tenant);
    let (mut erased, mut resent) = (0, 0);
    for round in 0..20 {
        let (delivery, payload) = draft(&book, &endpoint, round, Status::Held).delivery(&owner);
        let first = book.log.first_row(&owner, &delivery, Some(&payload), book.now);
        assert!(book.log.begin(vec![first]).await.iter().all(Result::is_ok));
        let fields = json!({"delivery_id": delivery.id});
        let calls = ["erase", "resend", "erase", "resend"].map(|route| format!("deliveries/{route}"));
        join_all(calls.iter().map(|route| world.rpc(&tenant.key, route, fields.clone()))).await;
        let after = read(&world, &tenant, "get", fields).await.ok().clone();
        let has_payload = format!("{:?}", world.items("deliveries").await).contains("\"payload");
        if after["delivery"]["erased_at"].is_string() {
            assert_eq!((&after["delivery"]["status"], has_payload), (&json!("held"), false), "{round}");
            erased += 1;
        } else {
            assert_eq!((&after["delivery"]["status"], has_payload), (&json!("pending"), true), "{round}");
            resent += 1;
            let known = book.log.known(&owner, &[delivery.id]).await.expect("the state")[&delivery.id].clone();
            let failed = Delivery { status: Status::Failed, next_attempt_at: None, ..known.clone() };
            book.log.advance(&owner, &known, &failed).await.expect("an answer");
            erase(&world, &tenant, json!({"delivery_id": delivery.id})).await.ok();
        }
    }
    assert_eq!(erased + resent, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_skips_erased_deliveries() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let [one, two] = ["a", "b"].map(|job| draft(&book, &endpoint, job, Status::Failed));
    let (erased, kept) = (book.write_one(&tenant, one).await, book.write_one(&tenant, two).await);
    erase(&world, &tenant, json!({"delivery_id": erased.id})).await.ok();
    let since = json!({"webhook_endpoint_id": endpoint, "since": book.ago(HOUR)});
    world.rpc(&tenant.key, "deliveries/recover", since).await.ok();
    world.sweep(common::timestamp::Timestamp::now()).await;
    let statuses = book.log.known(&id(&tenant), &[erased.id, kept.id]).await.expect("the states");
    assert_eq!([&erased, &kept].map(|one| statuses[&one.id].status), [Status::Failed, Status::Pending]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_can_be_erased_on_its_page() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let delivery = failed(&Book::of(&world), &tenant, &endpoint).await;
    let (browser, path) = (Browser::new(&world, &tenant.cookie), format!("/console/deliveries/{}", delivery.id));
    let page = browser.open(&path).await;
    assert!(page.page().contains(SECRET));
    let erased = browser.press(&path, &page, "Erase payload and responses", &[]).await;
    assert_eq!(erased.status, 200);
    for text in [SECRET, ANSWER, "<button class=\"danger\">"] {
        assert!(!erased.page().contains(text), "{text}");
    }
    assert!(erased.page().contains("The payload is no longer stored."));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ended_deliveries_of_a_period_are_erased() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    for (job, ago, status) in [
        ("new", SECOND, Status::Delivered),
        ("old", HOUR * 3, Status::Delivered),
        ("failed", HOUR * 3, Status::Failed),
        ("ended", HOUR * 3, Status::Ended),
        ("pending", HOUR * 3, Status::Pending),
        ("held", HOUR * 3, Status::Held),
        ("older", HOUR * 9, Status::Delivered),
    ] {
        let body = json!({"result": SECRET}).to_string();
        book.write_one(&tenant, Draft::to(&endpoint, book.ago(ago), job).status(status).body(&body)).await;
    }
    let (since, until) = (book.ago(HOUR * 4), book.ago(HOUR * 2));
    let period = json!({"since": since, "until": until});
    let of_others = erase(&world, &other, period.clone()).await;
    assert_eq!(of_others.ok()["erased"], 0);
    let mut of_endpoint = period.clone();
    of_endpoint["webhook_endpoint_id"] = json!(endpoint);
    assert_eq!(erase(&world, &other, of_endpoint.clone()).await.error().0, 404);
    let erased = erase(&world, &tenant, of_endpoint).await;
    assert_eq!(erased.ok(), &json!({"success": true, "message": "3 deliveries erased", "erased": 3}));
    let erased = |log: Vec<Delivery>| {
        let mut jobs: Vec<_> = log.into_iter().filter(|one| one.erased_at.is_some()).map(|one| one.job_id).collect();
        jobs.sort();
        jobs
    };
    assert_eq!(erased(world.log(&tenant.id).await), ["ended", "failed", "old"]);
    assert_eq!(erase(&world, &tenant, period).await.ok()["erased"], 3, "an interrupted call is repeated");
    assert_eq!(erase(&world, &tenant, json!({"until": until})).await.ok()["erased"], 4, "with the older one");
    for (fields, field) in [
        (json!({"webhook_endpoint_id": endpoint}), "since"),
        (json!({"since": since, "job_id": "new"}), "job_id"),
        (json!({"since": "yesterday"}), "since"),
        (json!({"since": until, "until": since}), "until"),
        (json!({}), "delivery_id"),
    ] {
        let refused = erase(&world, &tenant, fields.clone()).await;
        assert_eq!(refused.issues().iter().map(|(path, _)| *path).collect::<Vec<_>>(), [field], "{fields}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_erases_the_payloads_of_a_period() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    for (job, ago, status) in
        [("new", SECOND, Status::Delivered), ("failed", SECOND * 2, Status::Failed), ("old", HOUR * 30, Status::Failed)]
    {
        let body = json!({"result": SECRET}).to_string();
        book.write_one(&tenant, Draft::to(&endpoint, book.ago(ago), job).status(status).body(&body)).await;
    }
    let (browser, path) = (Browser::new(&world, &tenant.cookie), format!("/console/endpoints/{endpoint}"));
    let page = browser.open(&path).await;
    assert!(page.page().contains("of delivered, failed and ended deliveries are erased"), "{}", page.page());
    let since = book.ago(HOUR).to_string();
    let typed = [("since", &since[..16]), ("sure", "yes")];
    let refused = browser.press(&path, &page, "Erase payloads", &typed[..1]).await;
    assert!(!refused.page().contains("payloads erased"), "the box is not ticked");
    let reversed = [typed[0], typed[1], ("until", "2020-01-01T00:00")];
    assert!(
        browser
            .press(&path, &page, "Erase payloads", &reversed)
            .await
            .page()
            .contains("Must not be before the start of the period")
    );
    let erased = browser.press(&path, &page, "Erase payloads", &typed).await;
    assert!(erased.page().contains("2 payloads erased."));
    let log = world.log(&tenant.id).await;
    let left: Vec<_> = log.iter().filter(|one| one.erased_at.is_none()).map(|one| one.job_id.as_str()).collect();
    assert_eq!(left, ["old"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_an_erased_job_is_in_no_later_email() {
    for by_job in [true, false] {
        let world = World::start().await;
        let tenant = world.tenant("acme").await;
        let receiver = Receiver::scripted(&[(410, &[])]).await;
        world.endpoint(&tenant, &receiver.url("/"), "s").await;
        let job = |id: &str, text: &str| {
            let mut job = job_failures::failed(&tenant.id, "nightly", id);
            (job["error"], job["mapped_stack"], job["deployment_id"]) = (json!(text), json!(text), json!(text));
            job
        };
        for (id, text) in [("first", SECRET), ("second", "stays-5d"), ("third", SECRET)] {
            world.deliver(job(id, text)).await;
        }
        let listed = read(&world, &tenant, "list", json!({})).await.ok().clone();
        for id in ["first", "third"] {
            let found = listed["deliveries"].as_array().expect("a list").iter().find(|found| found["job_id"] == id);
            let delivery = found.expect("a delivery")["delivery_id"].clone();
            let fields = if by_job { json!({"job_id": id}) } else { json!({"delivery_id": delivery}) };
            // A repeated call succeeds.
            for _ in 0..2 {
                erase(&world, &tenant, fields.clone()).await.ok();
            }
        }
        let items = format!("{:?}", world.items("webhook-endpoints").await);
        assert!(!items.contains(SECRET) && items.contains("stays-5d"), "{items}");
        notices::sweep(&world, job_failures::later(0)).await;
        let mails = world.mails().await;
        let mail = mails.iter().find(|mail| mail.to_string().contains("jobs failed")).expect("a report");
        let mail = tests::text(&mail["text"]);
        for part in ["New failures: 3\n", "Job: first\n", "Job: third\n", "> stays-5d\n"] {
            assert!(mail.contains(part), "{part} is missing from {mail}");
        }
        assert!(!mail.contains(SECRET), "{mail}");
    }
}

/// A job without callbacks and endpoints has no deliveries, but is reported as well.
#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_job_without_deliveries_is_erased() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    for tenant in [&tenant, &other] {
        let mut job = job_failures::failed(&tenant.id, "nightly", "j");
        job["error"] = json!(SECRET);
        world.deliver(job).await;
    }
    erase(&world, &tenant, json!({"job_id": "j"})).await.ok();
    let items = format!("{:?}", world.items("webhook-endpoints").await);
    assert_eq!(items.matches(SECRET).count(), 1, "the other organization's job keeps its text");
}

/// Another failure of the workflow moves the text to another place of the item.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_during_an_erasure_is_kept_and_restores_no_text() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let job = |id: &str, text: &str| {
        let mut job = job_failures::failed(&tenant.id, "nightly", id);
        job["error"] = json!(text);
        job
    };
    world.deliver(job("first", SECRET)).await;
    let erases = |call: &Call| call.operation == "UpdateItem" && call["TableName"] == "webhook-endpoints";
    let (rival, second) = (Arc::clone(&world), job("second", "stays-5d"));
    race.before(erases, async move { rival.deliver(second).await });
    erase(&world, &tenant, json!({"job_id": "first"})).await.ok();
    assert!(race.is_over());
    let items = format!("{:?}", world.items("webhook-endpoints").await);
    assert!(!items.contains(SECRET) && items.contains("stays-5d"), "{items}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_erased_or_resent_but_not_both() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let fields = json!({"delivery_id": failed(&Book::of(&world), &tenant, &endpoint).await.id});
    let erases = |call: &Call| call.operation == "UpdateItem" && call["TableName"] == "deliveries";
    let (rival, key, same) = (Arc::clone(&world), tenant.key.clone(), fields.clone());
    race.before(erases, async move { assert_eq!(rival.rpc(&key, "deliveries/resend", same).await.status, 200) });
    assert_eq!(erase(&world, &tenant, fields.clone()).await.error(), (409, "CONFLICT", "delivery_pending"));
    let resent = read(&world, &tenant, "get", fields.clone()).await.ok().clone();
    assert!(resent["payload"].as_str().is_some_and(|payload| payload.contains(SECRET)), "{resent}");

    world.set("deliveries", ("status", "pending"), json!({"status": "failed", "next_attempt_at": null})).await;
    let (rival, who, same) = (Arc::clone(&world), tenant.clone(), fields.clone());
    race.before_transaction(async move { assert_eq!(erase(&rival, &who, same).await.status, 200) });
    let resent = world.rpc(&tenant.key, "deliveries/resend", fields).await;
    assert_eq!(resent.error(), (409, "CONFLICT", "payload_not_kept"));
    assert!(race.is_over() && !is_anything_left(&world).await);
}
