//! API Gateway events sent to the functions in the local runner and to their binaries.

use std::{collections::BTreeSet, fs};

use fastrand::Rng;
use futures::{StreamExt, future::join_all, stream};
use serde_json::{Value, json};
use tests::{Lambda, Tenant, World, log};

use super::{query, route, routes, run, spoil, text};
use crate::functions::binaries::{build, tested};

/// The function under test.
fn function(seed: u64) -> &'static str {
    route(&mut Rng::with_seed(seed)).0
}

/// The API Gateway event for a call by `tenant`, with a fault in it.
fn event(seed: u64, tenant: &Tenant, origin: &str) -> Value {
    let rng = &mut Rng::with_seed(seed);
    let (function, method, path, body) = route(rng);
    let sample = format!("{}/../events/{function}.json", env!("CARGO_MANIFEST_DIR"));
    let mut event: Value = serde_json::from_str(&fs::read_to_string(sample).expect("a sample")).expect("an event");
    event["requestContext"]["http"]["method"] = json!(method);
    event["rawPath"] = json!(path);
    event["body"] = json!(body);
    event["headers"]["x-api-key"] = json!(tenant.key);
    if rng.bool() {
        event["cookies"] = json!([tenant.cookie]);
        event["headers"]["origin"] = json!(origin);
    }
    match rng.u8(..10) {
        0 => event["headers"]["host"] = json!(text(rng)),
        1 => event["rawQueryString"] = json!(text(rng)),
        2 => event["rawQueryString"] = json!(query(rng)),
        3 => event["rawPath"] = json!(text(rng)),
        4 => event["requestContext"]["domainName"] = json!(text(rng)),
        5 => event["requestContext"]["http"]["method"] = json!(text(rng)),
        6 => {
            event["isBase64Encoded"] = json!(true);
            event["body"] = json!(text(rng));
        }
        7 => {
            let mut body = serde_json::from_str(&body).unwrap_or_default();
            spoil(rng, &mut body);
            event["body"] = json!(body.to_string());
        }
        8 if rng.u8(..10) == 0 => event = json!([event]),
        _ => spoil(rng, &mut event),
    }
    event
}

/// An event that is not an object makes the invocation fail, but API Gateway never sends such an event.
fn check(seed: u64, event: &Value, answer: &str) {
    let parsed: Value = serde_json::from_str(answer).unwrap_or_default();
    let answered = parsed["statusCode"].as_u64().is_some_and(|status| (200..500).contains(&status));
    assert!(answered || !event.is_object(), "FUZZ_SEED={seed}: {answer} to {event}");
}

#[test]
fn every_event_gets_an_answer_from_the_local_runner() {
    run(async |seeds| {
        let world = World::start().await;
        let tenant = world.tenant("acme").await;
        let cases = seeds.map(async |seed| {
            let event = event(seed, &tenant, world.stack.api());
            let call = async || {
                let answer = world.stack.invoke(function(seed), event.clone()).await;
                answer.map_or_else(|error| format!("{error:#}"), |answer| answer.to_string())
            };
            let mut answer = call().await;
            // Of many calls that change the same user at once, some are asked to try again.
            for _ in 0..5 {
                if !answer.contains("SERVICE_UNAVAILABLE") {
                    break;
                }
                answer = call().await;
            }
            check(seed, &event, &answer);
        });
        stream::iter(cases).buffer_unordered(16).collect::<()>().await;
    });
}

#[test]
fn every_event_gets_an_answer_from_the_binaries() {
    run(async |seeds| {
        let (directory, log) = (build().await, log::file());
        let world = World::start().await;
        let tenant = world.tenant("acme").await;
        let tested = tested();
        let functions = routes().iter().map(|(function, ..)| function).filter(|function| tested.contains(function));
        let functions: BTreeSet<_> = functions.collect();
        let each = functions.into_iter().map(async |name| {
            let mut environment = world.stack.environment(name).expect("a function").clone();
            // The base URL is empty, as in a deployment, so the event's domain is used.
            environment.insert("BASE_URL".to_owned(), String::new());
            let mut lambda = Lambda::start_logged(&directory.join(name), &environment, &log).await;
            for seed in seeds.clone().filter(|seed| function(*seed) == *name) {
                let event = event(seed, &tenant, world.stack.api());
                check(seed, &event, &lambda.invoke(event.to_string()).await);
            }
        });
        join_all(each).await;
        let said = log::read(log);
        assert!(!said.contains("panicked"), "{said}");
    });
}
