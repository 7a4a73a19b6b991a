//! Deliveries and the delivery log. These tests write rows through the store, and the log's routes read them.

mod attempts;
mod batches;
mod crashes;
mod drains;
mod duplicates;
mod erase;
mod faults;
mod get;
mod held;
mod input;
mod isolation;
mod large;
mod list;
mod log;
mod lookup;
mod open;
mod parked;
mod pull;
mod reads;
mod recover;
mod recoveries;
mod resend;
mod retries;
mod shared;
mod signatures;
mod stats;
mod sweep;
mod through;
mod toggles;
mod traces;
mod unreadable;
mod waiting;
mod workflows;

use std::time::Duration;

use common::{
    aws::clients::Aws,
    config::Env,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{
            Attempt, Delivery, DeliveryId, Destination, DestinationId, Failure, Millis, Outcome, Payload, Status,
            Trigger, WebhookId,
        },
        destination::{EndpointUrl, SigningSecret},
        event::EventName,
        log::{DeliveryLog, Row},
    },
};
use serde_json::{Value, json};
use tests::{Answer, Tenant, World};

const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const STATUSES: [Status; 5] = [Status::Pending, Status::Delivered, Status::Failed, Status::Held, Status::Ended];
/// Callback secrets, which must not appear in any response.
const CANARIES: [&str; 2] = ["canary-query-81d2", "canary-secret-03fa"];

/// The store that tests use to write deliveries.
pub(crate) struct Book {
    log: DeliveryLog,
    now: Timestamp,
}

/// A delivery to write.
#[derive(Clone)]
pub(crate) struct Draft {
    to: DestinationId,
    shard: u8,
    at: Timestamp,
    job: String,
    workflow: Option<String>,
    event: EventName,
    status: Status,
    body: String,
}

impl Book {
    pub(crate) fn of(world: &World) -> Self {
        let env = world.stack.environment("deliveries-resend").expect("the function").clone();
        let env = Env::new(move |name| env.get(name).cloned());
        let log = DeliveryLog::from_env(&env, &Aws::new(&env).expect("clients")).expect("the store");
        // The log stores times in milliseconds.
        Self { log, now: Timestamp::from_millisecond(Timestamp::now().as_millisecond()) }
    }

    pub(crate) fn ago(&self, time: Duration) -> Timestamp {
        self.now.before(time)
    }

    /// Writes deliveries as `webhooks-deliver` does after one attempt, at the time of their events.
    pub(crate) async fn write(&self, tenant: &Tenant, drafts: impl IntoIterator<Item = Draft>) -> Vec<Delivery> {
        let (tenant, mut rows, mut deliveries) = (id(tenant), Vec::new(), Vec::new());
        for draft in drafts {
            let at = draft.at;
            let (delivery, payload) = draft.delivery(&tenant);
            rows.extend(match delivery.status {
                Status::Delivered => vec![self.log.delivered_row(&tenant, &delivery, &payload, at)],
                _ => self.log.payload_rows(&tenant, &delivery.id, &payload, at),
            });
            deliveries.push(delivery);
        }
        let states = deliveries.iter().filter(|delivery| delivery.status != Status::Delivered);
        let states = states.map(|delivery| self.log.first_row(&tenant, delivery, None, delivery.id.created_at()));
        assert!(self.log.begin(states.collect()).await.iter().all(Result::is_ok));
        self.put(rows).await;
        deliveries
    }

    async fn put(&self, rows: Vec<Row>) {
        assert!(self.log.put(rows.into_iter().map(|row| ((), row)).collect()).await.is_empty());
    }

    async fn write_one(&self, tenant: &Tenant, draft: Draft) -> Delivery {
        self.write(tenant, [draft]).await.remove(0)
    }
}

impl Draft {
    pub(crate) fn to(endpoint: &str, at: Timestamp, job: impl ToString) -> Self {
        let to = DestinationId::Endpoint(endpoint.parse().expect("an id"));
        Self { to, ..Self::to_callback(0, at, job) }
    }

    fn to_callback(shard: u8, at: Timestamp, job: impl ToString) -> Self {
        let (job, to) = (job.to_string(), DestinationId::Callback);
        let body = json!({ "job_id": job }).to_string();
        Self { to, shard, at, job, workflow: None, event: EventName::Completed, status: Status::Delivered, body }
    }

    fn workflow(self, name: &str) -> Self {
        Self { workflow: Some(name.to_owned()), ..self }
    }

    pub(crate) fn status(self, status: Status) -> Self {
        Self { status, ..self }
    }

    fn body(self, body: &str) -> Self {
        Self { body: body.to_owned(), ..self }
    }

    fn delivery(self, tenant: &TenantId) -> (Delivery, Payload) {
        let Self { to: destination, shard, at, job, workflow, event, status, body } = self;
        let webhook_id = WebhookId::of(tenant, &job, event.as_str(), &destination.to_string());
        let id = DeliveryId { destination, shard, at: Millis::new(at.as_millisecond()), webhook_id };
        let (outcome, response) = match status {
            Status::Delivered => (Outcome::Delivered(204), None),
            _ => (Outcome::Failed(Failure::Status(500, None)), Some("no".to_owned())),
        };
        let delivery = Delivery {
            status,
            attempts: 1,
            tries: 1,
            next_attempt_at: (status == Status::Pending).then(|| at.after(DAY * 2)),
            last_attempt: Some(Attempt::new(at, 7, outcome, response, Trigger::Event)),
            workflow,
            ..Delivery::new(id, event, job)
        };
        let destination = match destination {
            DestinationId::Endpoint(id) => Destination::Endpoint(id),
            DestinationId::Callback => Destination::Callback {
                url: EndpointUrl::parse(&format!("https://example.com/?token={}", CANARIES[0])).expect("a URL"),
                secret: SigningSecret::parse(CANARIES[1]).expect("a secret"),
            },
        };
        (delivery, Payload { destination, body: body.into(), trace: None })
    }
}

fn id(tenant: &Tenant) -> TenantId {
    tenant.id.parse().expect("an id")
}

/// Calls `POST /v1/deliveries/{route}` with a key and with a session: both must get the same response, which must not
/// contain a secret.
async fn read(world: &World, tenant: &Tenant, route: &str, fields: Value) -> Answer {
    let route = format!("deliveries/{route}");
    let answer = world.rpc(&tenant.key, &route, fields.clone()).await;
    assert_eq!(answer.body, world.rpc_by_session(&tenant.cookie, &route, fields).await.body);
    for canary in CANARIES {
        assert!(!answer.body.to_string().contains(canary), "{}", answer.body);
    }
    answer
}

/// The ids of the deliveries on a page.
fn ids(page: &Value) -> Vec<String> {
    let deliveries = page["deliveries"].as_array().expect("a list");
    deliveries.iter().map(|delivery| delivery["delivery_id"].as_str().expect("an id").to_owned()).collect()
}

/// The delivery ids on each page of a list.
async fn pages(world: &World, tenant: &Tenant, mut fields: Value) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    loop {
        let answer = world.rpc(&tenant.key, "deliveries/list", fields.clone()).await;
        pages.push(ids(answer.ok()));
        match answer.ok().get("next_cursor") {
            Some(cursor) => fields["cursor"] = cursor.clone(),
            None => return pages,
        }
    }
}

/// The ids of deliveries, newest first.
fn newest_first<'a>(deliveries: impl IntoIterator<Item = &'a Delivery>) -> Vec<String> {
    let mut deliveries: Vec<_> = deliveries.into_iter().collect();
    deliveries.sort_by_key(|delivery| (delivery.id.at, delivery.webhook_id.to_string()));
    deliveries.iter().rev().map(|delivery| delivery.id.to_string()).collect()
}
