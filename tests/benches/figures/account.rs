//! The HTTP functions: cold starts, warm calls, sign-ups.

use std::{process::Stdio, time::Duration};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use common::{
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Delivery, Destination, Outcome, Payload, Trigger},
        event::JobEvent,
    },
};
use serde_json::{Value, json};
use tests::{Lambda, World};

use crate::{
    Effort,
    build::{BASELINE, Binaries, http_functions},
    table::{Row, Table, median},
    tls::Tls,
};

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A function's sample event from `events/`, with a different body and key.
fn event(function: &str, key: &str, fields: &Value) -> String {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../events/{}.json"), function);
    let event = std::fs::read_to_string(path).expect("an event");
    let mut event: Value = serde_json::from_str(&event).expect("an event");
    event["headers"]["x-api-key"] = json!(key);
    event["body"] = json!(json!({ "json": fields }).to_string());
    event.to_string()
}

/// The CPU time from exec until the function requests its first event, and until it has answered a first request, for
/// which it connects to the tables over TLS.
pub(crate) async fn cold_starts(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let environment = |function: &str| tls.applied_to(world.stack.environment(function).expect("a function"));
    // The runs alternate, so both are measured under the same conditions.
    for function in http_functions() {
        let (mut own, mut baseline) = (Vec::new(), Vec::new());
        for _ in 0..effort.runs(20) {
            let start = async |binary| {
                ms(Lambda::start(&binaries.path(binary), &environment(function), Stdio::null()).await.cpu())
            };
            baseline.push(start(BASELINE).await);
            own.push(start(function).await);
        }
        let row = Row::ratio(&format!("cold start of {function}, CPU"), "ms", median(own), median(baseline));
        table.push(row.at_most(1.2, 0.8).within("cold start of a function, CPU"));
    }
    let event = event("webhooks-list", &world.tenant("cold").await.key, &json!({}));
    let (mut own, mut baseline) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs(20) {
        for (binary, runs) in [(BASELINE, &mut baseline), ("webhooks-list", &mut own)] {
            let mut lambda = Lambda::start(&binaries.path(binary), &environment("webhooks-list"), Stdio::null()).await;
            call(&mut lambda, &event).await;
            runs.push(ms(lambda.cpu()));
        }
    }
    let row = Row::ratio("cold start and first webhooks/list, CPU", "ms", median(own), median(baseline));
    table.push(row.at_most(1.5, 1.2));
}

/// Calls a function and expects a 200. Returns the CPU time used, in milliseconds.
async fn call(lambda: &mut Lambda, event: &str) -> f64 {
    let before = lambda.cpu();
    let answer = lambda.invoke(event.to_owned()).await;
    assert!(answer.contains("\"statusCode\":200"), "{answer}");
    ms(lambda.cpu() - before)
}

/// `webhooks/list` with ten endpoints, in a warm process.
pub(crate) async fn warm_calls(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let tenant = world.tenant("warm").await;
    for number in 0..10 {
        world.endpoint(&tenant, &format!("https://example.com/hook/{number}"), "a secret of some length").await;
    }
    let environment = tls.applied_to(world.stack.environment("webhooks-list").expect("a function"));
    let event = event("webhooks-list", &tenant.key, &json!({}));
    let start = async |binary| Lambda::start(&binaries.path(binary), &environment, Stdio::null()).await;
    let (mut own, mut baseline) = (start("webhooks-list").await, start(BASELINE).await);
    let (mut own_runs, mut baseline_runs) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs(400) {
        baseline_runs.push(call(&mut baseline, &event).await);
        own_runs.push(call(&mut own, &event).await);
    }
    let (own, baseline) = (median(own_runs), median(baseline_runs));
    table.push(Row::ratio("warm webhooks/list of 10 endpoints, CPU", "ms", own, baseline).at_most(1.5, 1.3));
}

/// The number of endpoints that the tenant has, the number of those whose successes the page counts, and the number of
/// deliveries to each of these, and the time between two.
const ENDPOINTS: usize = 100;
const COUNTED: usize = 10;
const DELIVERIES: usize = 1000;
const APART: Duration = Duration::from_secs(80);
/// The number of the organization's newest deliveries that no total contains. In a running service, one delivery in
/// about a thousand requests the totals.
const NEWEST: u32 = 1000;

/// The page `/console` in a warm process, compared with `webhooks/list` for the same number of endpoints.
pub(crate) async fn console(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let tenant = world.tenant("console").await;
    for number in 0..ENDPOINTS {
        let id =
            world.endpoint(&tenant, &format!("https://example.com/hook/{number}"), "a secret of some length").await;
        if number < COUNTED {
            log_deliveries(world, &tenant.id, &id).await;
        }
    }
    total(world, &tenant.id).await;
    let environment = |function: &str| tls.applied_to(world.stack.environment(function).expect("a function"));
    let start = async |name| Lambda::start(&binaries.path(name), &environment(name), Stdio::null()).await;
    let list = event("webhooks-list", &tenant.key, &json!({}));
    let mut page: Value = tests::sample_event("console-webhooks");
    page["cookies"] = json!([tenant.cookie]);
    page["headers"]["host"] = json!("127.0.0.1");
    let page = page.to_string();
    let (mut own, mut baseline) = (start("console-webhooks").await, start("webhooks-list").await);
    let (mut own_runs, mut baseline_runs) = (Vec::new(), Vec::new());
    for _ in 0..effort.runs(200) {
        baseline_runs.push(call(&mut baseline, &list).await);
        own_runs.push(call(&mut own, &page).await);
    }
    let (own, baseline) = (median(own_runs), median(baseline_runs));
    let name = "warm /console with 100 endpoints, against webhooks/list with 100, CPU";
    table.push(Row::ratio(name, "ms", own, baseline).at_most(3.0, 2.0));
}

/// The number of deliveries that a client receives in one call.
const TAKEN: usize = 10;

/// Receiving and settling deliveries, and an empty poll. Each delivery takes two writes, so it is compared with two
/// calls to the bare function, each of which makes one AWS call.
pub(crate) async fn pull(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let tenant = world.tenant("pull").await;
    let made = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await;
    let fields = json!({"webhook_endpoint_id": made.ok()["webhook_endpoint_id"], "limit": TAKEN});
    let environment = |function: &str| tls.applied_to(world.stack.environment(function).expect("a function"));
    let start = async |name| Lambda::start(&binaries.path(name), &environment(name), Stdio::null()).await;
    let (mut receive, mut settle) = (start("deliveries-receive").await, start("deliveries-settle").await);
    let list = environment("webhooks-list");
    let mut baseline = Lambda::start(&binaries.path(BASELINE), &list, Stdio::null()).await;
    let (ask, call_of_bare) =
        (event("deliveries-receive", &tenant.key, &fields), event("webhooks-list", &tenant.key, &json!({})));
    let (mut idle, mut one, mut busy, mut many) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.runs(100) {
        idle.push(call(&mut receive, &ask).await);
        one.push(call(&mut baseline, &call_of_bare).await);
    }
    for round in 0..effort.runs(40) {
        for job in 0..TAKEN {
            world.enqueue("job-events", tests::event(&tenant.id, format!("{round} {job}"))).await;
        }
        world.handle_all().await;
        let before = receive.cpu() + settle.cpu();
        let taken: Value = serde_json::from_str(&receive.invoke(ask.clone()).await).expect("an answer");
        let taken: Value = serde_json::from_str(taken["body"].as_str().expect("a body")).expect("JSON");
        let settlements: Vec<_> =
            taken["json"]["deliveries"].as_array().expect("deliveries").iter().map(settled).collect();
        assert_eq!(settlements.len(), TAKEN);
        call(&mut settle, &event("deliveries-settle", &tenant.key, &json!({"settlements": settlements}))).await;
        busy.push(ms(receive.cpu() + settle.cpu() - before));
        let mut calls = 0.0;
        for _ in 0..2 * TAKEN {
            calls += call(&mut baseline, &call_of_bare).await;
        }
        many.push(calls);
    }
    let name = "warm deliveries/receive with nothing waiting, CPU";
    table.push(Row::ratio(name, "ms", median(idle), median(one)).at_most(2.2, 1.6));
    let name = "10 deliveries received and settled, against 20 calls to a bare function, CPU";
    table.push(Row::ratio(name, "ms", median(busy), median(many)).at_most(1.0, 0.7));
}

fn settled(taken: &Value) -> Value {
    json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": 200, "duration_ms": 7})
}

/// Deliveries to an endpoint over the last day, as if its receiver had accepted them.
async fn log_deliveries(world: &World, tenant: &str, endpoint: &str) {
    let (log, now) = (world.delivery_log(), Timestamp::now());
    let tenant: TenantId = tenant.parse().expect("a tenant");
    let endpoint: EndpointId = endpoint.parse().expect("an endpoint");
    let rows = (0..DELIVERIES).map(|number| {
        let at = now.before(APART * u32::try_from(number).expect("a small number"));
        let event = json!({"event": "job.completed", "tenant_id": tenant, "job_id": number.to_string()});
        let event = JobEvent::parse(&event.to_string(), at).expect("a job event");
        let destination = Destination::Endpoint(endpoint);
        let attempt = Attempt::new(at, 12, Outcome::Delivered(200), None, Trigger::Event);
        let made = AttemptResult::Made(attempt, Outcome::Delivered(200));
        let delivery = Delivery::first(&event, &destination, 1).after(&made, &[], || 0.0, at);
        ((), log.delivered_row(&tenant, &delivery, &Payload { destination, body: event.body.into(), trace: None }, at))
    });
    assert!(log.put(rows.collect()).await.is_empty(), "all are written");
}

/// Counts the deliveries except [`NEWEST`], as the sweep does.
async fn total(world: &World, tenant: &str) {
    let tenant: TenantId = tenant.parse().expect("a tenant");
    let shards = world.stored_endpoints().shards(&tenant, None).await.expect("the shards");
    let newest = NEWEST / u32::try_from(COUNTED).expect("a small number");
    let at = Timestamp::now().before(APART * newest);
    while world.delivery_log().index(&tenant, &shards, at).await.expect("the totals are written") {}
}

/// Sign-ups, one after another in one process.
pub(crate) async fn sign_ups(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let function = "auth-signup-and-create-org";
    let environment = tls.applied_to(world.stack.environment(function).expect("a function"));
    let mut lambda = Lambda::start(&binaries.path(function), &environment, Stdio::null()).await;
    let (mut runs, mut memory) = (Vec::new(), Vec::new());
    let hash = one_hash(effort);
    for number in 0..50 {
        let event = event(function, "", &World::sign_up_fields(&format!("bench-{number}")));
        runs.push(call(&mut lambda, &event).await);
        #[expect(clippy::cast_precision_loss, reason = "KiB of a process are far below 2^52")]
        memory.push(lambda.memory("VmRSS") as f64 / 1024.0);
    }
    table.push(Row::ratio("sign-up, CPU", "ms", median(runs), hash).at_most(1.15, 1.05));
    table.push(Row::ratio("resident memory after 50 sign-ups", "MiB", memory[49], memory[0]).at_most(1.2, 1.05));
}

/// One Argon2id hash with the default parameters, in a reused buffer.
fn one_hash(effort: Effort) -> f64 {
    let params = Params::new(19_456, 2, 1, Some(32)).expect("parameters");
    let mut memory = vec![Block::default(); params.block_count()];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let runs = (0..effort.runs(20).max(5)).map(|_| {
        let (before, mut hash) = (own_thread_cpu(), [0; 32]);
        let hashed = argon2.hash_password_into_with_memory(
            b"correct horse battery",
            b"somesaltsomesalt",
            &mut hash,
            &mut memory,
        );
        hashed.expect("hashed");
        ms(own_thread_cpu() - before)
    });
    median(runs.collect())
}

/// The CPU time of this thread.
fn own_thread_cpu() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = statistics.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}
