//! Emails about endpoints: their timing and content.

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    aws::clients::Aws,
    config::Env,
    timestamp::Timestamp,
    webhooks::job_failures::{JobFailures, Quota},
};
use serde_json::json;
use tests::{Receiver, Tenant, World, event, text, world::tables::item};

use super::{
    DISABLED, FAILING, MINUTE, RECOVERED, about_to_fail, broken, later, mails, pass_over_all_minutes, subjects, sweep,
};
use crate::{
    endpoints::failing::{DAY, failing_for, impatient},
    job_failures::failed,
};

#[tokio::test(flavor = "multi_thread")]
async fn an_email_names_the_endpoint_the_cause_and_the_next_step() {
    let (world, tenant) = impatient().await;
    let receiver = broken().await;
    let fields = json!({"url": receiver.url("/billing/Secret-path?token=canary"), "signing_secret": "hidden-horse-battery", "description": "<ours>"});
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await;
    let id = created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    for job in ["1", "2", "3"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    sweep(&world, later(0)).await;
    let mails = mails(&world).await;
    assert_eq!(mails.len(), 1);
    let (text, html) = (mails[0]["text"].as_str().expect("a string"), mails[0]["html"].as_str().expect("a string"));
    let endpoint = world.only_endpoint(&tenant).await;
    let since = endpoint["failing_since"].as_str().expect("a time").parse::<Timestamp>().expect("a time");
    let address = receiver.url("");
    assert_eq!(
        mails[0]["subject"],
        format!(
            "Webhooks: Endpoint <ours> ({}/billing/…, …{}) is failing",
            address.trim_start_matches("http://"),
            &id[id.len() - 6..]
        )
    );
    for part in [
        "An endpoint of Doe & Co is failing",
        &format!("Endpoint ID: {id}\n"),
        &format!("Address: {}/billing/…\n", address.replace("http:", "http: ")),
        "Description: <ours>\n",
        &format!("First failed attempt: {}\n", since.readable()),
        &format!("First permanent failure: {}\n", since.readable()),
        "Failed attempts: 3 or more\n",
        "Failed deliveries: 3 or more\n",
        "Last failed job: 3\n",
        "Last failed delivery: ",
        "Last error: HTTP 503. The receiver reported a server error.\n",
        &format!("View endpoint:\n{}/console/endpoints/{id}\n", world.stack.api()),
        "disables the endpoint",
        "You received this email because an owner of Doe & Co chose this address",
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
    assert!(html.contains("<td>&lt;ours&gt;</td>") && html.contains(&since.readable()), "{html}");
    assert_eq!(html.matches("class=\"button\"").count(), 1, "{html}");
    for hidden in ["Secret-path", "canary", "hidden", "POST /v1/"] {
        assert!(!text.contains(hidden) && !html.contains(hidden), "{text}");
    }
    let page = tests::Browser::new(&world, &tenant.cookie).open(&format!("/console/endpoints/{id}")).await;
    assert_eq!(page.status, 200, "the button opens the page of the endpoint");
}

#[tokio::test(flavor = "multi_thread")]
async fn emails_about_different_endpoints_have_different_subjects() {
    let (world, tenant) = impatient().await;
    let receiver = broken().await;
    for path in ["/customers/Secret-1", "/customers/Secret-2", "/customers/Secret-2"] {
        world.endpoint(&tenant, &receiver.url(path), "s").await;
    }
    world.deliver(event(&tenant.id, "1")).await;
    sweep(&world, later(0)).await;
    let mails = mails(&world).await;
    let subjects: std::collections::BTreeSet<_> = mails.iter().map(|mail| mail["subject"].to_string()).collect();
    assert_eq!(subjects.len(), 3, "{subjects:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_names_the_cause_without_the_url_of_a_redirect() {
    for (url, status, error) in [
        ("http://127.0.0.1:1/", 0, "Last error: Connection failed. The connection was refused."),
        ("", 302, "Last error: HTTP 302. The receiver redirected the request. Redirects are not followed."),
        ("", 413, "Last error: HTTP 413. The receiver accepts no body of this size (1 KB). Raise its limit"),
    ] {
        let (world, tenant) = impatient().await;
        let receiver = Receiver::scripted(&[(status, &[("location", "https://example.com/canary")])]).await;
        let url = if url.is_empty() { receiver.url("/") } else { url.to_owned() };
        world.endpoint(&tenant, &url, "s").await;
        world.deliver(event(&tenant.id, "1")).await;
        sweep(&world, later(0)).await;
        let mails = mails(&world).await;
        let text = mails[0]["text"].as_str().expect("a string");
        assert!(text.contains(error) && !text.contains("canary"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_gets_one_email_at_failing_and_one_at_disabling() {
    let (world, tenant) = impatient().await;
    let receiver = broken().await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for minute in 0..3 {
        world.deliver(event(&tenant.id, minute)).await;
        world.handle_all().await;
        sweep(&world, later(minute * MINUTE)).await;
        assert_eq!(subjects(&world).await, [FAILING]);
    }
    failing_for(&world, &tenant, &id, 5 * DAY).await;
    for minute in 3..6 {
        world.deliver(event(&tenant.id, minute)).await;
        world.handle_all().await;
        sweep(&world, later(minute * MINUTE)).await;
        assert_eq!(subjects(&world).await, [FAILING, DISABLED]);
    }
    let disabled = mails(&world).await.pop().expect("a mail");
    let text = disabled["text"].as_str().expect("a string");
    for part in [
        "its deliveries failed for too long",
        "Failed deliveries: 4 or more\n",
        "are held instead",
        "So far, no deliveries are held.",
        "are not sent automatically",
        &format!("View endpoint:\n{}/console/endpoints/{id}\n", world.stack.api()),
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_sends_one_email() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    for minute in 0..2 {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert_eq!(subjects(&world).await, [DISABLED]);
    let text = mails(&world).await[0]["text"].as_str().expect("a string").to_owned();
    assert!(text.contains("410 Gone") && text.contains("Last error: HTTP 410. "), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brief_failure_sends_no_email_and_a_flapping_one_an_hour() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[]), (200, &[]), (500, &[]), (200, &[]), (500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    world.deliver(event(&tenant.id, "2")).await;
    sweep(&world, later(0)).await;
    assert_eq!(subjects(&world).await.len(), 0, "the endpoint recovered before the email");
    world.deliver(event(&tenant.id, "3")).await;
    sweep(&world, later(MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING]);
    world.deliver(event(&tenant.id, "4")).await;
    world.deliver(event(&tenant.id, "5")).await;
    sweep(&world, later(60 * MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING]);
    sweep(&world, later(62 * MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING, FAILING]);
}

#[tokio::test(flavor = "multi_thread")]
async fn enabling_an_endpoint_resets_the_notices() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(410, &[]), (410, &[]), (500, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    let enable = json!({"id": id, "active": true});
    world.rpc(&tenant.key, "webhooks/update", enable.clone()).await.ok();
    sweep(&world, later(0)).await;
    assert_eq!(subjects(&world).await.len(), 0, "its owner has been notified already");
    world.deliver(event(&tenant.id, "2")).await;
    sweep(&world, later(MINUTE)).await;
    assert_eq!(subjects(&world).await, [DISABLED]);
    world.rpc(&tenant.key, "webhooks/update", enable).await.ok();
    world.deliver(event(&tenant.id, "3")).await;
    sweep(&world, later(2 * MINUTE)).await;
    assert_eq!(subjects(&world).await, [DISABLED, FAILING], "another failure is reported within the hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsendable_notice_ends_after_a_day_blocking_nothing_else() {
    let (world, acme) = impatient().await;
    let other = world.tenant("other").await;
    let receiver = broken().await;
    for tenant in [&acme, &other] {
        world.endpoint(tenant, &receiver.url("/"), "s").await;
        world.deliver(event(&tenant.id, "1")).await;
    }
    let organization = format!("org#{}", acme.id);
    world.set("organizations", ("pk", &organization), json!({"debug_notification_email": null})).await;
    sweep(&world, later(0)).await;
    assert_eq!(subjects(&world).await, [FAILING]);
    let pending =
        async || world.items("webhook-endpoints").await.iter().filter(|item| item.contains_key("notice")).count();
    sweep(&world, later(DAY - MINUTE)).await;
    assert_eq!(pending().await, 1);
    sweep(&world, later(DAY + MINUTE)).await;
    assert_eq!(pending().await, 0);
    assert_eq!(tests::log::of_this_test().metric("NoticeGivenUp").len(), 1, "and the dropped notice is counted");
    assert_eq!(subjects(&world).await, [FAILING]);
}

/// The table accepts every write except the one that records the email.
#[tokio::test(flavor = "multi_thread")]
async fn an_email_is_repeated_at_growing_intervals() {
    let world = World::answering(&[("RETRY_SCHEDULE", "")], |call| {
        let update = call["UpdateExpression"].as_str().unwrap_or_default();
        let refused = json!({"__type": "com.amazon.coral.validate#ValidationException"});
        (call.operation == "UpdateItem" && update.contains("SET mailed_at")).then_some((400, refused))
    })
    .await;
    let tenant = world.tenant("acme").await;
    let receiver = broken().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    let mut mails = Vec::new();
    for minute in 0..=16 {
        pass_over_all_minutes(&world, later(minute * MINUTE)).await;
        let tick = json!({"time": later(minute * MINUTE)});
        world.stack.invoke("deliveries-wake", tick).await.ok();
        mails.push(subjects(&world).await.len());
    }
    assert_eq!(mails, [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5]);
}

/// The endpoint of the deleted organization still exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_organization_gets_no_email() {
    let (world, tenant, _receiver) = about_to_fail(500, "").await;
    world.poll("job-events").await;
    let deleted = json!({"deleted_at": Timestamp::now()});
    world.set("organizations", ("pk", &format!("org#{}", tenant.id)), deleted).await;
    sweep(&world, later(0)).await;
    assert!(subjects(&world).await.is_empty());
    assert!(world.items("webhook-endpoints").await.iter().all(|item| !item.contains_key("notice")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_email_about_a_disabled_endpoint_explains_recovery() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in ["gone", "held", "held, too"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    sweep(&world, later(0)).await;
    let mail = mails(&world).await.pop().expect("a mail");
    let text = mail["text"].as_str().expect("a string");
    let disabled = world.only_endpoint(&tenant).await["disabled_at"].as_str().expect("a time").parse::<Timestamp>();
    let until = disabled.expect("a time").after(std::time::Duration::from_hours(7 * 24));
    for part in [
        &format!("Until {}, new and pending deliveries are held instead", until.readable()),
        "So far, 2 deliveries are held.",
        "There you can also resend its failed and held deliveries",
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_is_reported_once_and_only_after_a_failure() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (200, &[]), (200, &[]), (500, &[]), (200, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in ["1", "2"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    sweep(&world, later(0)).await;
    let since = world.only_endpoint(&tenant).await["failing_since"].as_str().expect("a time").parse::<Timestamp>();
    for job in ["3", "4"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    for minute in 1..4 {
        sweep(&world, later(minute * MINUTE)).await;
        assert_eq!(subjects(&world).await, [FAILING, RECOVERED]);
    }
    let mail = mails(&world).await.pop().expect("a mail");
    let text = mail["text"].as_str().expect("a string");
    for part in [
        "An endpoint of Doe & Co works again",
        &format!("First failed attempt: {}\n", since.expect("a time").readable()),
        "Works since: 20",
        "Failed deliveries: 2 can be resent\n",
        "are not resent automatically",
        &format!("View endpoint:\n{}/console/endpoints/{id}\n", world.stack.api()),
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
    // The tenant is not notified of a second failure within the hour, and therefore not of the recovery, either.
    for job in ["5", "6"] {
        world.deliver(event(&tenant.id, job)).await;
        sweep(&world, later(5 * MINUTE)).await;
    }
    assert_eq!(subjects(&world).await, [FAILING, RECOVERED]);
}

/// Between sending the email and removing the notice, the process dies, or the receiver recovers.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_during_the_email_is_reported_as_well() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[]), (200, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    let endpoints = world.stored_endpoints();
    let (owner, endpoint) = (tenant.id.parse().expect("an id"), id.parse().expect("an id"));
    let notice = endpoints.notice(&owner, endpoint, later(0)).await.expect("a read").expect("a notice");
    let notice = endpoints.try_notice(&owner, notice).await.expect("a write").expect("it is unchanged");
    world.deliver(event(&tenant.id, "2")).await;
    endpoints.settle_notice(&owner, &notice, Some(later(0))).await.expect("a write");
    sweep(&world, later(MINUTE)).await;
    assert_eq!(subjects(&world).await, [RECOVERED]);
}

/// Otherwise, an organization whose endpoints keep failing and recovering could fill a stranger's mailbox.
#[tokio::test(flavor = "multi_thread")]
async fn an_organization_gets_a_hundred_emails_a_day() {
    for (sent, more) in [(99, 1), (100, 0)] {
        let (world, tenant) = impatient().await;
        let receiver = broken().await;
        world.endpoint(&tenant, &receiver.url("/"), "s").await;
        let today = Timestamp::now().day().as_second();
        let count = json!({
            "tenant_id": tenant.id, "webhook_endpoint_id": "#notice-mails", "mails": sent, "mail_day": today,
        });
        world.put("webhook-endpoints", tests::world::tables::item(&count)).await;
        world.deliver(event(&tenant.id, "1")).await;
        for minutes in 0..3 {
            sweep(&world, later(minutes * MINUTE)).await;
        }
        let mails = mails(&world).await;
        assert_eq!(mails.len(), more, "after {sent}");
        for last in &mails {
            let text = last["text"].as_str().expect("a string");
            assert!(text.contains("This is today's last email about endpoints."), "{text}");
        }
    }
}

/// A world whose writes are repeated as if their responses were lost, with an endpoint and a workflow that are about to
/// be reported.
async fn with_lost_responses() -> (World, Tenant, Receiver) {
    let world = World::repeating(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[]), (500, &[])]).await);
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(failed(&tenant.id, "a", 1)).await;
    (world, tenant, receiver)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_does_not_postpone_an_email() {
    let (world, ..) = with_lost_responses().await;
    sweep(&world, later(0)).await;
    assert_eq!(mails(&world).await.len(), 2, "about the endpoint, and about the workflow");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_does_not_use_up_the_days_last_email() {
    let (world, tenant, _receiver) = with_lost_responses().await;
    let today = Timestamp::now().day().as_second();
    for (key, sent) in [("#failure-mails", 49), ("#notice-mails", 99)] {
        let count = json!({"tenant_id": tenant.id, "webhook_endpoint_id": key, "mails": sent, "mail_day": today});
        world.put("webhook-endpoints", item(&count)).await;
    }
    for minutes in 0..3 {
        sweep(&world, later(minutes * MINUTE)).await;
    }
    let mails = mails(&world).await;
    assert_eq!(mails.len(), 2);
    assert!(mails.iter().all(|mail| text(&mail["text"]).contains("today's last email")), "{mails:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_counts_and_shows_a_failed_job_once() {
    let (world, tenant, _receiver) = with_lost_responses().await;
    for job in [2, 3] {
        world.deliver(failed(&tenant.id, "a", job)).await;
    }
    world.deliver(failed(&tenant.id, "b", 0)).await;
    let mut full = world.items("webhook-endpoints").await;
    full.retain(|item| item.get("workflow") == Some(&AttributeValue::S("b".to_owned())));
    let mut full = full.pop().expect("the workflow");
    let ids = (1..100).map(|job| format!("{}.{job:016x}", Timestamp::now().as_millisecond()));
    full.insert("failed".to_owned(), AttributeValue::Ss(ids.collect()));
    world.put("webhook-endpoints", full).await;
    world.deliver(failed(&tenant.id, "b", 100)).await;
    sweep(&world, later(MINUTE)).await;
    let mails = mails(&world).await;
    let of = |workflow: &str| {
        let mut texts = mails.iter().map(|mail| text(&mail["text"]));
        texts.find(|text| text.contains(&format!("Workflow: {workflow}\n"))).expect("an email")
    };
    for part in ["New failures: 3\n", "Listed below: the 3 newest\n", "Job: 1\n", "Job: 2\n", "Job: 3\n"] {
        assert!(of("a").contains(part), "{part} is missing from {}", of("a"));
    }
    assert!(of("b").contains("New failures: about 100\n"), "{}", of("b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_gives_an_email_back_once() {
    let world = World::repeating(&[]).await;
    let settings = world.stack.environment("deliveries-wake").expect("a function").clone();
    let env = Env::new(move |name| settings.get(name).cloned());
    let table = JobFailures::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings");
    let (tenant, now) = ("acme".parse().expect("a tenant"), Timestamp::now());
    for number in 1..=2 {
        let taken = table.take_mail(&tenant, Quota::Failures, now).await.expect("it is counted");
        assert_eq!(taken, Some(number));
    }
    table.give_back_mail(&tenant, Quota::Failures, now).await.expect("it is given back");
    assert_eq!(table.take_mail(&tenant, Quota::Failures, now).await.expect("it is counted"), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_does_not_hide_a_recovery_from_the_log() {
    let world = World::repeating(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "1")).await;
    sweep(&world, later(0)).await;
    world.deliver(event(&tenant.id, "2")).await;
    let logged = tests::log::collected();
    let recovered = logged.lines().filter(|line| line.contains("endpoint.recovered") && line.contains(&id));
    assert_eq!(recovered.count(), 1);
}
