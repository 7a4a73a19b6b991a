//! Emails about failed jobs: their timing, recipients and content.

use std::sync::Arc;

use common::{
    timestamp::Timestamp,
    webhooks::{
        event::JobEvent,
        job_failures::{FailedJob, storm::Write},
    },
};
use serde_json::json;
use tests::{Browser, Call, Receiver, Tenant, World, callback, text};

use super::{HOUR, MINUTE, failed, later, mails, reported, said};
use crate::notices::sweep;

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_is_reported_without_callbacks_and_endpoints() {
    let world = World::start().await;
    let receiver = Receiver::start().await;
    for (number, more) in [
        json!({}),
        json!({"skip_callbacks": true}),
        json!({"callback_url": receiver.url("/"), "callback_secret": "s"}),
        json!({"callback_url": "http://127.0.0.1:1/", "callback_secret": "s"}),
    ]
    .into_iter()
    .enumerate()
    {
        let tenant = world.tenant(&format!("tenant-{number}")).await;
        let mut event = failed(&tenant.id, &format!("workflow {number}"), "j");
        event.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        world.deliver(event).await;
        sweep(&world, later(0)).await;
        assert_eq!(reported(&world).await.len(), number + 1, "{more}");
    }
    let tenant = world.tenant("with-an-endpoint").await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(failed(&tenant.id, "last", "j")).await;
    sweep(&world, later(0)).await;
    assert_eq!(reported(&world).await.pop(), Some(said("last", "1")));
    assert_eq!(receiver.count().await, 2, "and the event is delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_job_costs_nothing() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.make_origin_quick(&tenant.id, "http://127.0.0.1:1/").await;
    let before = world.items("webhook-endpoints").await.len();
    world.deliver(callback(&tenant.id, "j", "http://127.0.0.1:1/")).await;
    sweep(&world, later(0)).await;
    assert_eq!(mails(&world).await.len(), 0);
    assert_eq!(world.items("webhook-endpoints").await.len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_names_the_job_the_time_and_the_error() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut event = failed(&tenant.id, "import <b>", "job-7");
    event["deployment_id"] = json!("dpl_1");
    event["error"] = json!({"message": "out of <i>cogs</i>"});
    event["mapped_stack"] = json!("at main (a.ts:1)\n  at run (b.ts:2)");
    world.deliver(event).await;
    sweep(&world, later(0)).await;
    let mail = mails(&world).await.pop().expect("a mail");
    assert_eq!(mail["subject"], "Webhooks: Workflow import <b>: 1 job failed");
    let (text, html) = (text(&mail["text"]), tests::text(&mail["html"]));
    for part in [
        "A job of Doe & Co has failed.",
        "Workflow: import <b>\n",
        "New failures: 1\n",
        "Job: job-7\n",
        "Deployment: dpl_1\n",
        "Failed at: 20",
        &format!("View deliveries:\n{}/console/deliveries?job_id=job-7\n", world.stack.api()),
        "Error:\n\n> {\"message\":\"out of <i>cogs</i>\"}\n",
        "Stack:\n\n> at main (a. ts:1)\n>   at run (b. ts:2)\n",
        "at most once an hour",
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
    for part in ["import &lt;b&gt;", "out of &lt;i&gt;cogs&lt;/i&gt;", "at main (a. ts:1)\n  at run (b. ts:2)</pre>"] {
        assert!(html.contains(part), "{part} is missing from {html}");
    }
    // Each link opens the deliveries of its job.
    for path in text.lines().filter_map(|line| line.strip_prefix(world.stack.api())) {
        assert_eq!(Browser::new(&world, &tenant.cookie).open(path).await.status, 200, "{path}");
    }
}

/// An email shows only the beginning of a long id, and a search for that beginning would not find any delivery.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_job_ids_deliveries_are_found_by_their_time() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::start().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let job = "j".repeat(300);
    world.deliver(failed(&tenant.id, "w", &job)).await;
    sweep(&world, later(0)).await;
    let mail = mails(&world).await.pop().expect("a mail");
    let link = tests::world::link(&mail);
    let path = link.strip_prefix(world.stack.api()).expect("a page of ours");
    assert!(path.contains("event=job.failed&since=") && !path.contains("jjj"), "{path}");
    let page = Browser::new(&world, &tenant.cookie).open(path).await;
    assert!(page.page().contains(&job), "{}", page.page());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_producers_text_is_inert_and_truncated() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut event = failed(&tenant.id, "a\nWorkflow: b\u{1b}[2J\u{202e}\u{ad}\u{e0041}", "j\r\nJob: k");
    let link = "https://evil.example/\u{0}<a href=\"https://evil.example\">x</a>";
    event["error"] = json!(format!("{link}{}", "ü".repeat(3000)));
    event["mapped_stack"] = json!(format!("\u{feff}\u{9b}1m{}", "s".repeat(5000)));
    world.deliver(event).await;
    sweep(&world, later(0)).await;
    let mail = mails(&world).await.pop().expect("a mail");
    let (text, html) = (text(&mail["text"]), tests::text(&mail["html"]));
    assert!(text.contains("Workflow: a Workflow: b [2J   \n") && text.contains("Job: j Job: k\n"), "{text}");
    let all = format!("{text}{html}");
    assert!(!all.chars().any(|character| character.is_control() && character != '\n'), "{all:?}");
    assert!(
        !all.contains(['\u{202e}', '\u{feff}', '\u{ad}', '\u{e0041}']) && html.matches("<a ").count() == 4,
        "{html}"
    );
    assert!(html.contains("/console/deliveries?job_id=j%0D%0AJob%3A+k\">"), "{html}");
    assert_eq!(mail["subject"], "Webhooks: Workflow a Workflow: b [2J: 1 job failed");
    let (reported, stack) = (link.chars().count(), 4000 - 4);
    for mail in [text, html] {
        assert_eq!(mail.matches('ü').count(), 2000 - reported);
        assert!(mail.contains(&"s".repeat(stack)) && !mail.contains(&"s".repeat(stack + 1)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_failure_sends_an_email_and_then_one_an_hour() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.deliver(failed(&tenant.id, "a", 0)).await;
    sweep(&world, later(MINUTE)).await;
    assert_eq!(reported(&world).await, [said("a", "1")]);
    for job in 1..6 {
        world.deliver(failed(&tenant.id, "a", job)).await;
        sweep(&world, later(job * 10 * MINUTE)).await;
    }
    world.deliver(failed(&tenant.id, "b", 0)).await;
    sweep(&world, later(60 * MINUTE)).await;
    assert_eq!(reported(&world).await, [said("a", "1"), said("b", "1")], "another workflow is reported at once");
    sweep(&world, later(61 * MINUTE)).await;
    assert_eq!(reported(&world).await.pop(), Some(said("a", "5")));
    let mail = mails(&world).await.pop().expect("a mail");
    assert_eq!(mail["subject"], "Webhooks: Workflow a: 5 jobs failed");
    assert_eq!(text(&mail["html"]).matches("class=\"button\"").count(), 1, "{mail}");
    let shown: Vec<_> = text(&mail["text"]).lines().filter_map(|line| line.strip_prefix("Job: ")).collect();
    assert_eq!(shown, ["5", "4", "3"], "the newest three");
    sweep(&world, later(3 * HOUR)).await;
    assert_eq!(reported(&world).await.len(), 3);
    world.deliver(failed(&tenant.id, "a", 7)).await;
    sweep(&world, later(3 * HOUR)).await;
    assert_eq!(reported(&world).await.pop(), Some(said("a", "1")), "the workflow had gone an hour without a failure");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_is_reported_once_despite_duplicates() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for job in [0, 0, 1] {
        world.enqueue("job-events", failed(&tenant.id, "a", job)).await;
    }
    world.poll_all("job-events").await;
    world.deliver(failed(&tenant.id, "a", 1)).await;
    sweep(&world, later(0)).await;
    assert_eq!(reported(&world).await, [said("a", "2")]);
    world.deliver(failed(&tenant.id, "a", 0)).await;
    for hour in 1..4 {
        sweep(&world, later(hour * HOUR)).await;
    }
    assert_eq!(reported(&world).await.len(), 1);
}

/// Whether a new failure of the tenant is reported.
async fn is_reported(world: &World, tenant: &Tenant, job: i64) -> bool {
    let before = mails(world).await.len();
    world.deliver(failed(&tenant.id, &format!("workflow {job}"), job)).await;
    sweep(world, later(job * MINUTE)).await;
    mails(world).await.len() > before
}

#[tokio::test(flavor = "multi_thread")]
async fn no_email_is_sent_if_disabled_unverified_or_deleted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let owner = |verified: bool| {
        let key = format!("user#{}", tenant.user);
        let world = &world;
        async move {
            let is_one = |item: &tests::world::tables::Item| item["pk"].as_s().is_ok_and(|pk| *pk == key);
            let mut user = world.items("users").await.into_iter().find(is_one).expect("the owner");
            user.insert("email_verified".to_owned(), aws_sdk_dynamodb::types::AttributeValue::Bool(verified));
            world.put("users", user).await;
        }
    };
    let disable = async |disable: bool| {
        let fields = json!({"disable_job_failure_notifications": disable});
        world.rpc(&tenant.key, "tenant/settings", fields).await.ok();
    };
    assert!(is_reported(&world, &tenant, 1).await);
    disable(true).await;
    assert!(!is_reported(&world, &tenant, 2).await);
    disable(false).await;
    assert!(is_reported(&world, &tenant, 3).await);
    world.member(&tenant, "al@example.com", "member").await;
    owner(false).await;
    assert!(!is_reported(&world, &tenant, 4).await, "a verified member does not count");
    owner(true).await;
    assert!(is_reported(&world, &tenant, 5).await);
    let stranger = Tenant { id: "stranger".to_owned(), ..tenant.clone() };
    assert!(!is_reported(&world, &stranger, 6).await);
    world
        .set("organizations", ("organization_id", &tenant.id), json!({"deleted_at": "2026-01-31T12:00:00.000Z"}))
        .await;
    assert!(!is_reported(&world, &tenant, 7).await);
    let pending = world.items("webhook-endpoints").await.into_iter().filter(|item| item.contains_key("notice"));
    assert_eq!(pending.count(), 0, "nothing waits");
    assert_eq!(reported(&world).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_email_goes_to_the_current_address_of_the_organization() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.deliver(failed(&tenant.id, "a", 1)).await;
    let fields = json!({"debug_notification_email": "alerts@example.com"});
    world.rpc(&tenant.key, "tenant/settings", fields).await.ok();
    world.agree(&tenant.id, "alerts@example.com").await;
    sweep(&world, later(0)).await;
    assert_eq!(world.mail_to("alerts@example.com").await["subject"], "Webhooks: Workflow a: 1 job failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failures_of_a_deleted_organization_are_deleted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.deliver(failed(&tenant.id, "a", 1)).await;
    sweep(&world, later(0)).await;
    let password = json!({"password": tests::world::people::PASSWORD});
    assert_eq!(world.cli(&tenant.cookie, "delete-user", password).await.status, 200);
    world.deliver(failed(&tenant.id, "b", 2)).await;
    sweep(&world, later(0)).await;
    world.stack.invoke("accounts-purge", json!({"time": later(3 * MINUTE)})).await.expect("the purge succeeds");
    assert!(world.items("webhook-endpoints").await.is_empty());
    assert_eq!(reported(&world).await, [said("a", "1")]);
}

/// A sweep drops the notice of a failure that was reported before, and another job fails just before.
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_while_a_notice_is_dropped_is_reported() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    world.deliver(failed(&tenant.id, "a", 1)).await;
    sweep(&world, later(0)).await;
    let again = JobEvent::parse(&failed(&tenant.id, "a", 1).to_string(), Timestamp::now()).expect("an event");
    let (workflow, again) = FailedJob::of(&again, true).and_then(|again| again.read()).expect("a failure");
    let (owner, write) = (tenant.id.parse().expect("a tenant"), Write::Ids { more: 0 });
    world.job_failures().note(&owner, &workflow, &[again], write, Timestamp::now()).await.expect("it is noted");
    let drops = |call: &Call| call.function == "deliveries-wake" && is_of_a_workflow(call);
    let (rival, second) = (Arc::clone(&world), failed(&tenant.id, "a", 2));
    race.before(drops, async move { rival.deliver(second).await });
    for minute in [62, 63] {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert!(race.is_over());
    assert_eq!(reported(&world).await, [said("a", "1"), said("a", "1")]);
}

/// The item would never expire.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_restores_nothing_of_a_purged_organization() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    world.deliver(failed(&tenant.id, "a", 1)).await;
    let reports = |call: &Call| {
        let update = call["UpdateExpression"].as_str();
        is_of_a_workflow(call) && update.is_some_and(|update| update.contains("mailed_at"))
    };
    let (endpoints, owner) = (world.stored_endpoints(), tenant.id.parse().expect("a tenant"));
    race.before(reports, async move { endpoints.forget(&owner).await.expect("the items are deleted") });
    sweep(&world, later(0)).await;
    assert!(race.is_over());
    assert_eq!(world.items("webhook-endpoints").await, []);
}

fn is_of_a_workflow(call: &Call) -> bool {
    let key = call["Key"]["webhook_endpoint_id"]["S"].as_str();
    call.operation == "UpdateItem" && key.is_some_and(|key| key.starts_with("#failing#"))
}
