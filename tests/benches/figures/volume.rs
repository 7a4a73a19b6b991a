//! The calls and pages that people use after a night with an outage, in a log with a million deliveries.

use std::time::{Duration, Instant};

use common::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Delivery, Destination, Failure, Outcome, Payload, Status, Trigger},
        event::JobEvent,
        log::Row,
    },
};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tests::{Browser, Tenant, World};

use crate::{
    Effort, page,
    table::{Row as Figure, Table, median},
};

/// The number of endpoints, and the period of their deliveries.
const ENDPOINTS: usize = 290;
const DAYS: u64 = 20;
/// One delivery in this many has failed, all of them at this many endpoints.
const FAILED: usize = 10;
/// The number of deliveries that enter the index together.
const INDEXED: usize = 1000;
/// The number of deliveries that are written together, and the number of writes in progress.
const CHUNK: usize = 500;
const WRITES: usize = 4;
/// The bound and the aim of a call, in milliseconds.
const BOUND: (f64, f64) = (500.0, 300.0);

/// Measures the calls of one organization with 290 endpoints and a million deliveries, a tenth of which have failed, in
/// the embedded tables. Each call to a table passes a proxy that counts units. A quick run, which is not optimized, has
/// 100,000 deliveries and no bounds. The others write a table to `docs/performance.md`.
pub(crate) async fn night(effort: Effort) {
    let (deliveries, calls_of_each) = if effort.quick { (100_000, 1) } else { (1_000_000, 5) };
    let mut table = Table::default();
    let world = World::metered_with(&[("MAX_ENDPOINTS_PER_TENANT", "290")]).await;
    let tenant = world.tenant("volume").await;
    let mut endpoints = Vec::new();
    for number in 0..ENDPOINTS {
        let url = format!("https://example.com/customers/{number}");
        endpoints.push(world.endpoint(&tenant, &url, "a secret of some length").await);
    }
    let sought = fill(&world, &tenant, &endpoints, deliveries).await;
    let (calls, pages) = (calls(&endpoints[0], &sought), pages(&endpoints[0], &sought));
    let bounded = |row: Figure| if effort.quick { row } else { row.at_most(BOUND.0, BOUND.1) };
    for (what, route, fields) in calls {
        let call = async || assert_eq!(world.rpc(&tenant.key, route, fields.clone()).await.status, 200, "{route}");
        table.push(bounded(measured(&world, what, calls_of_each, call).await));
    }
    let browser = Browser::new(&world, &tenant.cookie);
    for (what, path) in pages {
        let call = async || assert_eq!(browser.open(&path).await.status, 200, "{path}");
        table.push(bounded(measured(&world, what, calls_of_each, call).await));
    }
    world.stack.stop().await;
    if !effort.quick {
        page::put("performance.md", "volume", &table.markdown());
    }
}

/// The calls of programs: a name, a route and the fields.
fn calls(endpoint: &str, sought: &Delivery) -> Vec<(&'static str, &'static str, Value)> {
    let (list, job) = ("deliveries/list", &sought.job_id);
    vec![
        ("a job", list, json!({"job_id": job})),
        ("a job that is not there", list, json!({"job_id": "none"})),
        ("a webhook-id", list, json!({"webhook_id": sought.webhook_id})),
        ("the list", list, json!({})),
        ("the list of an endpoint", list, json!({"webhook_endpoint_id": endpoint})),
        ("the failed deliveries", list, json!({"status": "failed"})),
        ("the failed deliveries of an event", list, json!({"status": "failed", "event": "job.failed"})),
        ("the deliveries of a workflow", list, json!({"workflow": "rare"})),
        ("stats", "deliveries/stats", json!({})),
    ]
}

/// The pages of people: a name and a path.
fn pages(endpoint: &str, sought: &Delivery) -> Vec<(&'static str, String)> {
    let deliveries = "/console/deliveries";
    vec![
        ("the first page", "/console".to_owned()),
        ("an endpoint's page", format!("/console/endpoints/{endpoint}")),
        ("the page of the list", deliveries.to_owned()),
        ("the page of failed deliveries", format!("{deliveries}?status=failed")),
        ("the page of a job", format!("{deliveries}?q={}", sought.job_id)),
    ]
}

/// Makes a call several times. The name of the figure includes the read units of one call.
async fn measured(world: &World, what: &str, calls: u32, call: impl AsyncFn()) -> Figure {
    call().await;
    let _units = world.units();
    let mut runs = Vec::new();
    for _ in 0..calls {
        let started = Instant::now();
        call().await;
        runs.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let units = world.units().read / f64::from(calls);
    Figure::alone(&format!("{what} ({units:.0} read units)"), "ms", median(runs))
}

/// Writes the deliveries and their index. Returns one from the middle of the period.
async fn fill(world: &World, tenant: &Tenant, endpoints: &[String], deliveries: usize) -> Delivery {
    let (log, now) = (world.delivery_log(), Timestamp::now());
    let id: TenantId = tenant.id.parse().expect("a tenant");
    let endpoints: Vec<EndpointId> = endpoints.iter().map(|id| id.parse().expect("an endpoint")).collect();
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let apart = Duration::from_secs_f64(DAYS as f64 * 86_400.0 / deliveries as f64);
    let state = |number: usize| {
        let at = now.before(apart * u32::try_from(number).expect("a small number"));
        let has_failed = number.is_multiple_of(FAILED);
        let to = endpoints[if has_failed { number / FAILED % (ENDPOINTS / FAILED) } else { number % ENDPOINTS }];
        let event = if number.is_multiple_of(7) { "job.failed" } else { "job.completed" };
        let workflow = if number.is_multiple_of(5000) { "rare" } else { "nightly-import" };
        let event = json!({
            "event": event, "tenant_id": id, "job_id": format!("job-{number}"), "workflow_name": workflow,
            "result": {"rows": "x".repeat(600)},
        });
        let event = JobEvent::parse(&event.to_string(), at).expect("a job event");
        let destination = Destination::Endpoint(to);
        let outcome = if has_failed { Outcome::Failed(Failure::Status(500, None)) } else { Outcome::Delivered(200) };
        let attempt = Attempt::new(at, 12, outcome, None, Trigger::Event);
        let made = AttemptResult::Made(attempt, outcome);
        let delivery = Delivery::first(&event, &destination, 1).after(&made, &[], || 0.0, at);
        (delivery, Payload { destination, body: event.body.into(), trace: None })
    };
    let row = |number: usize| -> ((), Row) {
        let (delivery, payload) = state(number);
        (
            (),
            match delivery.status {
                Status::Delivered => log.delivered_row(&id, &delivery, &payload, delivery.id.created_at()),
                _ => log.first_row(&id, &delivery, None, delivery.id.created_at()),
            },
        )
    };
    let chunks = (0..deliveries).step_by(CHUNK).map(async |first| {
        let rows = (first..deliveries.min(first + CHUNK)).map(row).collect();
        assert!(log.put(rows).await.is_empty(), "all are written");
    });
    stream::iter(chunks.collect::<Vec<_>>()).buffer_unordered(WRITES).collect::<Vec<_>>().await;
    let shards = world.stored_endpoints().shards(&id, None).await.expect("the shards");
    // As in a running service, where one delivery in a thousand requests it.
    let segments = u32::try_from(deliveries / INDEXED).expect("a small number");
    for segment in (0..=segments).rev() {
        let now = now.before(apart * u32::try_from(INDEXED).expect("a small number") * segment);
        while log.index(&id, &shards, now).await.expect("the index is written") {}
    }
    state(deliveries / 2 + 1).0
}
