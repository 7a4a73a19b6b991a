//! SQS events sent to the delivery function in the local runner and to its binary.

use fastrand::Rng;
use serde_json::{Value, json};
use tests::{Lambda, Receiver, World, log};

use super::{run, spoil, text};
use crate::functions::binaries::build;

const NAME: &str = "webhooks-deliver";
const SAMPLE: &str = include_str!("../../../../events/webhooks-deliver.json");

/// The sample event, addressed to `receiver`.
fn sample(receiver: &Receiver) -> Value {
    serde_json::from_str(&SAMPLE.replace("https://example.com/hook", &receiver.url("/hook"))).expect("an event")
}

/// The sample event with a fault in it.
fn event(rng: &mut Rng, receiver: &Receiver) -> Value {
    let mut event = sample(receiver);
    let index = rng.usize(..2);
    let record = &mut event["Records"][index];
    match rng.u8(..8) {
        0 => record["body"] = json!(text(rng)),
        1 | 2 => {
            let mut body = serde_json::from_str(record["body"].as_str().unwrap_or_default()).unwrap_or_default();
            spoil(rng, &mut body);
            record["body"] = json!(body.to_string());
        }
        3 | 4 => {
            let mut body = due_attempt();
            if rng.bool() {
                body["attempt"] = json!(number(rng));
            } else {
                spoil(rng, &mut body);
            }
            record["body"] = json!(body.to_string());
            record["eventSourceARN"] = json!("arn:aws:sqs:eu-central-1:123456789012:deliveries");
        }
        5 => {
            let length = rng.usize(..record["body"].as_str().map_or(1, str::len));
            record["body"] = json!(record["body"].as_str().and_then(|body| body.get(..length)));
        }
        6 => record["attributes"]["SentTimestamp"] = json!(number(rng).to_string()),
        _ => spoil(rng, &mut event),
    }
    event
}

/// A message in the queue `deliveries`.
fn due_attempt() -> Value {
    json!({
        "tenant_id": "t", "delivery_id": "callback.3.1769860800999.0123456789abcdef0123456789abcdef", "attempt": 2,
    })
}

fn number(rng: &mut Rng) -> i64 {
    let numbers =
        [i64::MIN, i64::MAX, i64::MIN + 1, -1, 0, 1, i64::from(u32::MAX), i64::from(u32::MAX) + 1, rng.i64(..)];
    rng.choice(numbers).unwrap_or_default()
}

/// The response must contain the ids of failed records, or an error about an unreadable event.
fn check(seed: u64, event: &Value, answer: &str) {
    let parsed: Value = serde_json::from_str(answer).unwrap_or_default();
    let answered = parsed["batchItemFailures"].is_array() || !answer.contains("panicked");
    assert!(answered, "FUZZ_SEED={seed}: {answer} to {event}");
}

#[test]
fn every_batch_gets_an_answer_from_the_local_runner() {
    run(async |seeds| {
        let (world, receiver) = (World::start().await, Receiver::start().await);
        for seed in seeds {
            let event = event(&mut Rng::with_seed(seed), &receiver);
            let answer = world.stack.invoke(NAME, event.clone()).await;
            check(seed, &event, &answer.map_or_else(|error| format!("{error:#}"), |answer| answer.to_string()));
        }
        let answer = world.stack.invoke(NAME, sample(&receiver)).await.expect("an answer");
        assert_eq!(answer, json!({"batchItemFailures": []}));
    });
}

#[test]
fn every_batch_gets_an_answer_from_the_binary() {
    run(async |seeds| {
        let (directory, log) = (build().await, log::file());
        let (world, receiver) = (World::start().await, Receiver::start().await);
        let environment = world.stack.environment(NAME).expect("a function");
        let mut lambda = Lambda::start_logged(&directory.join(NAME), environment, &log).await;
        for seed in seeds {
            let event = event(&mut Rng::with_seed(seed), &receiver);
            check(seed, &event, &lambda.invoke(event.to_string()).await);
        }
        assert_eq!(lambda.invoke(sample(&receiver).to_string()).await, r#"{"batchItemFailures":[]}"#);
        let said = log::read(log);
        assert!(!said.contains("panicked"), "{said}");
    });
}
