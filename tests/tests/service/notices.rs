//! The mails about endpoints that are failing or have been disabled.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use common::{config::Env, timestamp::Timestamp};
use futures::{StreamExt, stream};
use lambda_runtime::{Context, LambdaEvent};
use local::{Handler, Worker};
use serde_json::{Value, json};
use tests::{CutOff, Interceptor, Proxy, Receiver, Tenant, World};

use crate::failing::{DAY, deliver, event, failing_for, impatient, listed};

const MINUTE: i64 = 60_000;

/// A time this many milliseconds from now.
fn later(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond() + milliseconds)
}

/// Runs the sweep of the minute of this time, with nothing to do but what is not bound to minutes.
async fn sweep(world: &World, at: Timestamp) {
    pass_over_all_minutes(world, at).await;
    world.stack.invoke("deliveries-wake", json!({"time": at})).await.expect("a sweep");
}

async fn pass_over_all_minutes(world: &World, at: Timestamp) {
    let minute = AttributeValue::N((at.as_second() / 60).to_string());
    let cursor = world.stack.dynamodb_client().put_item().table_name("deliveries");
    let cursor = cursor
        .item("destination", AttributeValue::S("due".to_owned()))
        .item("delivery", AttributeValue::S("cursor".to_owned()))
        .item("woken", minute.clone())
        .item("checked", minute);
    cursor.send().await.expect("it is stored");
}

/// The mails to the address for failures, oldest first.
async fn mails(world: &World) -> Vec<Value> {
    let messages = world.send(world.http.get(format!("{}/messages", world.stack.mail()))).await.body;
    let mut mails = messages.as_array().expect("a list of mails").clone();
    mails.retain(|mail| mail["to"] == json!(["ops@example.com"]));
    mails.reverse();
    mails
}

async fn subjects(world: &World) -> Vec<String> {
    mails(world).await.iter().map(|mail| mail["subject"].as_str().expect("a subject").to_owned()).collect()
}

const FAILING: &str = "A webhook endpoint is failing";
const DISABLED: &str = "A webhook endpoint has been disabled";

/// A receiver that fails very often.
async fn broken() -> Receiver {
    Receiver::scripted(&vec![(503, &[] as &[_]); 5000]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_says_what_fails_since_when_why_and_what_to_do() {
    let (world, tenant) = impatient().await;
    let receiver = broken().await;
    let fields =
        json!({"url": receiver.url("/secret-path?token=canary"), "signing_secret": "hidden", "description": "<ours>"});
    let created = world.rpc(&tenant.key, "webhooks/create", fields).await;
    let id = created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    for job in ["1", "2", "3"] {
        deliver(&world, &tenant, job).await;
    }
    sweep(&world, later(0)).await;
    let mails = mails(&world).await;
    assert_eq!(mails.len(), 1);
    let (text, html) = (mails[0]["text"].as_str().expect("a text"), mails[0]["html"].as_str().expect("a text"));
    let endpoint = listed(&world, &tenant).await;
    let since = endpoint["failing_since"].as_str().expect("a time");
    let oldest = world.log(&tenant.id).await.pop().expect("a delivery").created_at;
    let address = receiver.url("");
    for part in [
        "A webhook endpoint of Doe & Co is failing",
        &format!("Endpoint: {id}"),
        &format!("Address: {address}\n"),
        "Description: <ours>",
        &format!("Failing since: {since}"),
        "Failed deliveries since then: 3",
        "Last failure: status_5xx (status 503)",
        "POST /v1/deliveries/list",
        "POST /v1/deliveries/recover",
        &json!({"json": {"webhook_endpoint_id": id, "since": oldest}}).to_string(),
        "makes the endpoint inactive",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(html.contains("Description: &lt;ours&gt;") && html.contains(since), "{html}");
    for secret in ["secret-path", "canary", "hidden"] {
        assert!(!text.contains(secret) && !html.contains(secret), "{text}");
    }

    // What the mail says to call does what it says.
    let recover = text.lines().find(|line| line.contains("since\"")).expect("the fields");
    let fields: Value = serde_json::from_str(recover).expect("JSON");
    world.rpc(&tenant.key, "deliveries/recover", fields["json"].clone()).await.ok();
    sweep(&world, later(MINUTE)).await;
    assert_eq!(world.log_of(&tenant.id, common::webhooks::delivery::Status::Pending).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_mail_when_it_starts_and_one_when_the_endpoint_is_disabled() {
    let (world, tenant) = impatient().await;
    let receiver = broken().await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for minute in 0..3 {
        deliver(&world, &tenant, &minute.to_string()).await;
        sweep(&world, later(minute * MINUTE)).await;
        assert_eq!(subjects(&world).await, [FAILING]);
    }
    failing_for(&world, &tenant, &id, 5 * DAY).await;
    for minute in 3..6 {
        deliver(&world, &tenant, &minute.to_string()).await;
        sweep(&world, later(minute * MINUTE)).await;
        assert_eq!(subjects(&world).await, [FAILING, DISABLED]);
    }
    let disabled = mails(&world).await.pop().expect("a mail");
    let text = disabled["text"].as_str().expect("a text");
    let update = json!({"json": {"id": id, "active": true}}).to_string();
    for part in [
        "deliveries to it have failed for too long",
        "Failed deliveries since then: 4",
        "none are kept for it",
        "alone sends nothing again",
        "POST /v1/webhooks/update",
        &update,
        "POST /v1/deliveries/recover",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gone_is_one_mail() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    deliver(&world, &tenant, "1").await;
    for minute in 0..2 {
        sweep(&world, later(minute * MINUTE)).await;
    }
    assert_eq!(subjects(&world).await, [DISABLED]);
    let text = mails(&world).await[0]["text"].as_str().expect("a text").to_owned();
    assert!(text.contains("410 Gone") && text.contains("(gone)") && text.contains("Last failure: gone"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_recovers_at_once_is_no_news_and_one_that_flaps_is_one_mail_an_hour() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(500, &[]), (200, &[]), (500, &[]), (200, &[]), (500, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    deliver(&world, &tenant, "1").await;
    deliver(&world, &tenant, "2").await;
    sweep(&world, later(0)).await;
    assert_eq!(subjects(&world).await.len(), 0, "it has recovered before anybody was told");
    deliver(&world, &tenant, "3").await;
    sweep(&world, later(MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING]);
    deliver(&world, &tenant, "4").await;
    deliver(&world, &tenant, "5").await;
    sweep(&world, later(60 * MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING]);
    sweep(&world, later(62 * MINUTE)).await;
    assert_eq!(subjects(&world).await, [FAILING, FAILING]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_start_is_a_new_story() {
    let (world, tenant) = impatient().await;
    let receiver = Receiver::scripted(&[(410, &[]), (410, &[])]).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    deliver(&world, &tenant, "1").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    sweep(&world, later(0)).await;
    assert_eq!(subjects(&world).await.len(), 0, "its owner knows already");
    deliver(&world, &tenant, "2").await;
    sweep(&world, later(MINUTE)).await;
    assert_eq!(subjects(&world).await, [DISABLED]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_that_cannot_be_sent_holds_up_nobody_and_is_given_up_after_a_day() {
    let (world, acme) = impatient().await;
    let other = world.tenant("other").await;
    let receiver = broken().await;
    for tenant in [&acme, &other] {
        world.endpoint(tenant, &receiver.url("/"), "s").await;
        deliver(&world, tenant, "1").await;
    }
    let organization = world.stack.dynamodb_client().update_item().table_name("organizations");
    let organization = organization
        .key("pk", AttributeValue::S(format!("org#{}", acme.id)))
        .update_expression("REMOVE debug_notification_email");
    organization.send().await.expect("it is changed");
    sweep(&world, later(0)).await;
    assert_eq!(subjects(&world).await, [FAILING]);
    let pending =
        async || world.items("webhook-endpoints").await.iter().filter(|item| item.contains_key("notice")).count();
    sweep(&world, later(DAY - MINUTE)).await;
    assert_eq!(pending().await, 1);
    sweep(&world, later(DAY + MINUTE)).await;
    assert_eq!(pending().await, 0);
    assert!(tests::log::collected().contains("NoticeGivenUp"), "and that is counted");
    assert_eq!(subjects(&world).await, [FAILING]);
}

/// The worst that a table can do: it takes everything, except that a mail has been sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_mail_that_is_sent_over_and_over_is_sent_ever_more_rarely() {
    let tables = Interceptor::start(|operation, call| {
        let update = call["UpdateExpression"].as_str().unwrap_or_default();
        let refused = json!({"__type": "com.amazon.coral.validate#ValidationException"});
        (operation == "UpdateItem" && update.contains("SET mailed_at")).then_some((400, refused))
    });
    let tables = tables.await;
    let world = World::with(&[("RETRY_SCHEDULE", ""), ("AWS_ENDPOINT_URL_DYNAMODB", tables.address())]).await;
    tables.stand_before(world.stack.dynamodb());
    let tenant = world.tenant("acme").await;
    let receiver = broken().await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    deliver(&world, &tenant, "1").await;
    let mut mails = Vec::new();
    for minute in 0..=16 {
        pass_over_all_minutes(&world, later(minute * MINUTE)).await;
        let tick = json!({"time": later(minute * MINUTE)});
        world.stack.invoke("deliveries-wake", tick).await.ok();
        mails.push(subjects(&world).await.len());
    }
    assert_eq!(mails, [1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5]);
}

/// The endpoint could not be deleted with the organization yet.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_of_an_organization_that_was_deleted() {
    let (world, tenant, _receiver) = about_to_fail(500, "").await;
    world.stack.poll("job-events").await.expect("a step");
    let key = AttributeValue::S(format!("org#{}", tenant.id));
    let update = world.stack.dynamodb_client().update_item().table_name("organizations").key("pk", key);
    let at = AttributeValue::S(Timestamp::now().to_string());
    let update = update.update_expression("SET deleted_at = :at").expression_attribute_values(":at", at);
    update.send().await.expect("it is marked");
    sweep(&world, later(0)).await;
    assert!(subjects(&world).await.is_empty());
    assert!(world.items("webhook-endpoints").await.iter().all(|item| !item.contains_key("notice")));
}

/// A world with this schedule, an endpoint that answers with this status, and an event for it.
async fn about_to_fail(status: u16, schedule: &str) -> (World, Tenant, Receiver) {
    let world = World::with(&[("RETRY_SCHEDULE", schedule)]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&vec![(status, &[] as &[_]); 40]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    hidden_for_a_second(&world).await;
    world.enqueue("job-events", event(&tenant, "j")).await;
    (world, tenant, receiver)
}

/// Lets records that are not acknowledged come back after a second.
async fn hidden_for_a_second(world: &World) {
    for queue in ["job-events", "deliveries"] {
        let visibility = world.stack.sqs_client().set_queue_attributes().queue_url(&world.stack.queues()[queue]);
        visibility.attributes(QueueAttributeName::VisibilityTimeout, "1").send().await.expect("it is set");
    }
}

fn settings(schedule: &str) -> HashMap<String, String> {
    HashMap::from([("RETRY_SCHEDULE".to_owned(), schedule.to_owned())])
}

/// A worker that dies, as far as others can see.
struct Doomed {
    worker: Worker,
    cut_off: std::sync::Arc<CutOff>,
    _proxies: [Proxy; 2],
}

impl Doomed {
    /// One that dies at this call.
    async fn new(world: &World, schedule: &str, point: u64, takes_effect: bool) -> Self {
        let cut_off = CutOff::new(point..u64::MAX, takes_effect);
        let dynamodb = Proxy::cut_off(world.stack.dynamodb(), &cut_off).await;
        let sqs = Proxy::cut_off(world.stack.sqs(), &cut_off).await;
        let worker = Worker::new(dynamodb.address(), sqs.address(), &settings(schedule)).expect("a worker");
        Self { worker, cut_off, _proxies: [dynamodb, sqs] }
    }
}

async fn a_few_at_a_time<F: Future>(lives: impl Iterator<Item = F>) -> Vec<F::Output> {
    stream::iter(lives).buffered(12).collect().await
}

/// More calls than receiving, delivering and deleting a record takes.
const DELIVERY_CALLS: u64 = 8;

/// The process that makes the last attempt dies at some call: the endpoint is failing, or disabled, all the same, and its
/// tenant is told once. Returns whether the process came to that call.
async fn deliver_and_die((status, schedule): (u16, &str), point: u64, takes_effect: bool) -> bool {
    let case = format!("{status}, schedule {schedule:?}, call {point}, takes effect: {takes_effect}");
    let (world, tenant, _receiver) = about_to_fail(status, schedule).await;
    let healthy = Worker::new(world.stack.dynamodb(), world.stack.sqs(), &settings(schedule)).expect("a worker");
    let mut queue = "job-events";
    if !schedule.is_empty() {
        // The first attempt is not the last.
        assert_eq!(healthy.poll(queue).await.expect("a step"), 1);
        queue = "deliveries";
    }
    let doomed = Doomed::new(&world, schedule, point, takes_effect).await;
    // It may fail: that is the point.
    while matches!(doomed.worker.poll(queue).await, Ok(0)) && !doomed.cut_off.is_reached() {}
    let reached = doomed.cut_off.is_reached();
    for _ in 0..3 {
        healthy.poll(queue).await.expect("a step");
    }
    for minute in 0..2 {
        sweep(&world, later(minute * MINUTE)).await;
    }
    let endpoint = listed(&world, &tenant).await;
    assert!(endpoint["failing_since"].is_string(), "{case}: {endpoint}");
    assert_eq!(endpoint["active"], json!(status != 410), "{case}: {endpoint}");
    assert_eq!(subjects(&world).await, [if status == 410 { DISABLED } else { FAILING }], "{case}");
    reached
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_makes_the_last_attempt_may_die_at_any_call() {
    let cases = [(500, ""), (410, ""), (500, "0")];
    for takes_effect in [false, true] {
        let lives = (1..=DELIVERY_CALLS).flat_map(|point| cases.map(|case| (case, point)));
        let reached = a_few_at_a_time(lives.map(|(case, point)| deliver_and_die(case, point, takes_effect))).await;
        assert_eq!(reached[reached.len() - cases.len()..], [false; 3], "the last points are behind the end");
        assert!(reached.iter().filter(|is_reached| **is_reached).count() >= 16, "{reached:?}");
    }
}

/// More calls than a sweep of no minute takes that sends one notice.
const SWEEP_CALLS: u64 = 14;

/// A sweep dies at some call. Returns whether it came to that, and how many mails there are after the next sweeps.
async fn tell_and_die(point: u64, takes_effect: bool) -> (bool, usize) {
    let (world, tenant, _receiver) = about_to_fail(500, "").await;
    // No minutes are left to pass over: what remains of the sweep is the notices.
    let time = later(10 * MINUTE);
    sweep(&world, time).await;
    world.stack.poll("job-events").await.expect("a step");
    let cut_off = CutOff::new(point..u64::MAX, takes_effect);
    let mut settings = world.stack.environment("deliveries-wake").expect("a function").clone();
    let mut proxies = Vec::new();
    for service in ["DYNAMODB", "SQS", "SES"] {
        let address = settings.get_mut(&format!("AWS_ENDPOINT_URL_{service}")).expect("an address");
        let proxy = Proxy::cut_off(address, &cut_off).await;
        proxy.address().clone_into(address);
        proxies.push(proxy);
    }
    let env = Env::new(move |name| settings.get(name).cloned());
    let Ok(Handler::Wake(doomed)) = Handler::start("deliveries-wake", &env) else { unreachable!("it wakes") };
    let mut context = Context::default();
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") + Duration::from_secs(60);
    context.deadline = u64::try_from(deadline.as_millis()).expect("it fits");
    let tick = serde_json::from_value(json!({"time": time})).expect("a tick");
    // It may fail: that is the point.
    doomed.handle(LambdaEvent::new(tick, context)).await.ok();
    assert!(listed(&world, &tenant).await["failing_since"].is_string());
    for minute in 15..20 {
        sweep(&world, later(minute * MINUTE)).await;
    }
    (cut_off.is_reached(), mails(&world).await.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_may_die_at_any_call_and_one_call_costs_a_second_mail() {
    for takes_effect in [false, true] {
        let lives = a_few_at_a_time((1..=SWEEP_CALLS).map(|point| tell_and_die(point, takes_effect))).await;
        assert_eq!(lives.last().map(|(is_reached, _)| *is_reached), Some(false), "the last points are behind the end");
        assert!(lives.iter().filter(|(is_reached, _)| *is_reached).count() >= 8, "{lives:?}");
        assert!(lives.iter().all(|(_, mails)| (1..=2).contains(mails)), "{lives:?}");
        // The mail service has taken the mail, and nobody could say so.
        assert_eq!(lives.iter().filter(|(_, mails)| *mails == 2).count(), 1, "{lives:?}");
    }
}

/// A thousand failures and more, some events twice, while ten processes die.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_failures_cost_two_mails() {
    let (world, tenant) = impatient().await;
    let receiver = broken().await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    hidden_for_a_second(&world).await;
    let mut minute = 0;
    for (round, events) in [1000, 100].into_iter().enumerate() {
        for job in 0..events + 100 {
            world.enqueue("job-events", event(&tenant, &format!("{round}.{}", job % events))).await;
        }
        for point in 2..7 {
            let doomed = Doomed::new(&world, "", point, point % 2 == 0).await;
            doomed.worker.poll("job-events").await.ok();
        }
        let mut idle = 0;
        while idle < 2 {
            idle = if world.stack.poll("job-events").await.expect("a step") == 0 { idle + 1 } else { 0 };
            if idle == 0 && minute % 50 == 0 {
                sweep(&world, later(minute * MINUTE / 50)).await;
            }
            minute += 1;
        }
        sweep(&world, later(minute * MINUTE / 50)).await;
        if round == 0 {
            assert_eq!(subjects(&world).await, [FAILING]);
            assert!(world.log(&tenant.id).await.len() >= 1000);
            failing_for(&world, &tenant, &id, 5 * DAY).await;
        }
    }
    assert_eq!(subjects(&world).await, [FAILING, DISABLED]);
    assert_eq!(listed(&world, &tenant).await["active"], false);
}
