//! Emails and events about failing and disabled endpoints.

mod crashes;
mod mails;
mod outages;
mod webhooks;

use common::timestamp::Timestamp;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event, text};

const MINUTE: i64 = 60_000;

/// A time this many milliseconds from now.
fn later(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond() + milliseconds)
}

/// Runs the sweep for the minute that contains this time, in which nothing is due.
pub(crate) async fn sweep(world: &World, at: Timestamp) {
    pass_over_all_minutes(world, at).await;
    world.sweep(at).await;
}

async fn pass_over_all_minutes(world: &World, at: Timestamp) {
    let minute = at.as_second() / 60;
    world.put_cursors(&json!({"woken": minute, "checked": minute})).await;
}

/// The emails to the notification address, oldest first.
async fn mails(world: &World) -> Vec<Value> {
    let mut mails = world.mails().await;
    mails.retain(|mail| mail["to"] == json!(["ops@example.com"]));
    mails
}

/// The subjects of the emails, without the receivers' ports and the ends of the endpoints' ids.
async fn subjects(world: &World) -> Vec<String> {
    let without_port = |subject: &str| match subject.split_once("127.0.0.1:") {
        Some((before, rest)) => format!("{before}127.0.0.1{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())),
        None => subject.to_owned(),
    };
    let without_id = |subject: String| match subject.split_once(" (…") {
        Some((before, rest)) => format!("{before}{}", rest.split_once(')').map_or("", |(_, rest)| rest)),
        None => subject,
    };
    mails(world).await.iter().map(|mail| without_id(without_port(text(&mail["subject"])))).collect()
}

const FAILING: &str = "Webhooks: Endpoint 127.0.0.1 is failing";
const DISABLED: &str = "Webhooks: Endpoint 127.0.0.1 has been disabled";
const RECOVERED: &str = "Webhooks: Endpoint 127.0.0.1 works again";

/// A receiver that fails thousands of requests.
async fn broken() -> Receiver {
    Receiver::scripted(&vec![(503, &[] as &[_]); 5000]).await
}

/// A world with this schedule, an endpoint that answers with this status, and an event for the endpoint.
async fn about_to_fail(status: u16, schedule: &str) -> (World, Tenant, Receiver) {
    let world = World::with(&[("RETRY_SCHEDULE", schedule)]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&vec![(status, &[] as &[_]); 40]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.come_back_after(1).await;
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    (world, tenant, receiver)
}
