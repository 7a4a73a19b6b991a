//! The HTTP functions: cold starts, warm calls, sign-ups.

use std::{path::Path, process::Stdio, time::Duration};

use argon2::{Algorithm, Argon2, Block, Params, Version};
use serde_json::{Value, json};
use tests::{Lambda, World};

use crate::{
    Effort,
    build::{BASELINE, Binaries, HTTP_FUNCTIONS},
    table::{Row, Table, median},
    tls::Tls,
};

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The event of a function, from `events/`, with another body and key.
fn event(function: &str, key: &str, fields: &Value) -> String {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../events/{}.json"), function);
    let event = std::fs::read_to_string(path).expect("an event");
    let mut event: Value = serde_json::from_str(&event).expect("an event");
    event["headers"]["x-api-key"] = json!(key);
    event["body"] = json!(json!({ "json": fields }).to_string());
    event.to_string()
}

/// From exec to the first request for an event; and to the end of a first request, with TLS to the tables.
pub(crate) async fn cold_starts(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let environment = |function: &str| tls.applied_to(world.stack.environment(function).expect("a function"));
    let start = async |binary: &Path, function: &str| {
        let mut runs = Vec::new();
        for _ in 0..effort.runs(20) {
            runs.push(ms(Lambda::start(binary, &environment(function), Stdio::null()).await.cpu()));
        }
        median(runs)
    };
    for function in HTTP_FUNCTIONS {
        // The two in turn, so that both meet the machine in the same mood.
        let baseline = start(&binaries.path(BASELINE), "webhooks-list").await;
        let own = start(&binaries.path(function), function).await;
        table.push(Row::ratio(&format!("cold start of {function}, CPU"), "ms", own, baseline).at_most(1.2, 0.8));
    }
    let key = world.tenant("cold").await.key;
    let first = async |binary: &str| {
        let mut runs = Vec::new();
        for _ in 0..effort.runs(20) {
            let mut lambda = Lambda::start(&binaries.path(binary), &environment("webhooks-list"), Stdio::null()).await;
            let answer = lambda.invoke(event("webhooks-list", &key, &json!({}))).await;
            assert!(answer.contains("\"statusCode\":200"), "{answer}");
            runs.push(ms(lambda.cpu()));
        }
        median(runs)
    };
    let (baseline, own) = (first(BASELINE).await, first("webhooks-list").await);
    table.push(Row::ratio("cold start and first webhooks/list, CPU", "ms", own, baseline).at_most(1.5, 1.2));
}

/// `webhooks/list` with ten endpoints, in a process that is warm.
pub(crate) async fn warm_calls(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let tenant = world.tenant("warm").await;
    for number in 0..10 {
        world.endpoint(&tenant, &format!("https://example.com/hook/{number}"), "a secret of some length").await;
    }
    let environment = tls.applied_to(world.stack.environment("webhooks-list").expect("a function"));
    let call = async |binary: &str| {
        let mut lambda = Lambda::start(&binaries.path(binary), &environment, Stdio::null()).await;
        let mut runs = Vec::new();
        for _ in 0..effort.runs(400) {
            let before = lambda.cpu();
            let answer = lambda.invoke(event("webhooks-list", &tenant.key, &json!({}))).await;
            assert!(answer.contains("\"statusCode\":200"), "{answer}");
            runs.push(ms(lambda.cpu() - before));
        }
        median(runs)
    };
    let (baseline, own) = (call(BASELINE).await, call("webhooks-list").await);
    table.push(Row::ratio("warm webhooks/list of 10 endpoints, CPU", "ms", own, baseline).at_most(2.2, 1.6));
}

/// Sign-ups, one after the other in one process.
pub(crate) async fn sign_ups(world: &World, binaries: &Binaries, effort: Effort, table: &mut Table) {
    let tls = Tls::before(world.stack.dynamodb()).await;
    let function = "auth-signup-and-create-org";
    let environment = tls.applied_to(world.stack.environment(function).expect("a function"));
    let mut lambda = Lambda::start(&binaries.path(function), &environment, Stdio::null()).await;
    let (mut runs, mut memory) = (Vec::new(), Vec::new());
    let hash = one_hash(effort);
    for number in 0..50 {
        let before = lambda.cpu();
        let answer = lambda.invoke(event(function, "", &World::sign_up_fields(&format!("bench-{number}")))).await;
        assert!(answer.contains("\"statusCode\":200"), "{answer}");
        runs.push(ms(lambda.cpu() - before));
        #[expect(clippy::cast_precision_loss, reason = "KiB of a process are far below 2^52")]
        memory.push(lambda.memory("VmRSS") as f64 / 1024.0);
    }
    table.push(Row::ratio("sign-up, CPU", "ms", median(runs), hash).at_most(1.15, 1.05));
    table.push(Row::ratio("resident memory after 50 sign-ups", "MiB", memory[49], memory[0]).at_most(1.2, 1.05));
}

/// One Argon2id hash with the default parameters, in a buffer that is kept.
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
