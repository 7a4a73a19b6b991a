//! Every function's binary, run with its sample event against a Lambda Runtime API and the local services.

use std::{
    collections::BTreeSet,
    env,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{Lambda, Receiver, World};
use tokio::{process::Command, time::timeout};

const SIGTERM: i32 = 15;
/// The time limit for starting and calling an unoptimized binary on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// The functions whose binaries every run tests: those with a `main` of their own, and a few of the others.
const USUAL: [&str; 8] = [
    "accounts-bounces",
    "accounts-purge",
    "auth-signup-and-create-org",
    "console",
    "deliveries-wake",
    "webhooks-create",
    "webhooks-deliver",
    "webhooks-list",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_binary_starts_answers_and_ends() {
    let directory = build().await;
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let key = world.tenant("acme").await.key;
    let mut with_metrics = BTreeSet::new();
    for name in tested() {
        let event = tests::sample_event(name).to_string();
        let mut event: Value =
            serde_json::from_str(&event.replace("https://example.com/hook", &receiver.url("/hook"))).expect("an event");
        if event["headers"]["x-api-key"].is_string() {
            event["headers"]["x-api-key"] = json!(key);
            event["body"] = json!(text(&event["body"]).replace(&receiver.url("/hook"), "https://example.com/hook"));
        }
        if name == "webhooks-deliver" {
            // The event is too old to wait for a drain.
            let body: Value = serde_json::from_str(text(&event["Records"][0]["body"])).expect("a job event");
            world.make_origin_quick(text(&body["tenant_id"]), &receiver.url("/")).await;
        }
        let started = Instant::now();
        let environment = world.stack.environment(name).expect("a function of the template");
        let mut lambda = Lambda::start(&directory.join(name), environment, Stdio::piped()).await;
        let answer: Value = serde_json::from_str(&lambda.invoke(event.to_string()).await).expect("JSON");
        let cold = started.elapsed();
        let started = Instant::now();
        // The same process handles the next event.
        lambda.invoke(event.to_string()).await;
        eprintln!("{name}: first answer after {cold:?}, the second after {:?}", started.elapsed());
        let body = answer["body"].as_str().unwrap_or("null");
        let body = serde_json::from_str::<Value>(body).unwrap_or_else(|_page| json!(body));
        let status = answer["statusCode"].as_u64().unwrap_or_default();
        let (described, expected) = match name {
            // A session's sample event has a different base URL. The objects in the sample events do not exist.
            _ if event["rawPath"].as_str().is_some_and(|path| path.starts_with("/v1/")) => {
                let possible: &[u64] = if event["cookies"].is_null() { &[200, 404] } else { &[401] };
                (status, possible.contains(&status) && body["json"].is_object())
            }
            "auth-cli" => (200, body.is_null()),
            "auth-organization" => (401, body["code"] == "UNAUTHORIZED"),
            // The sample events have a different base URL.
            "auth-delete-user" | "auth-account" => (403, body["code"] == "INVALID_ORIGIN"),
            "console" | "docs" => (200, text(&body).starts_with("<!DOCTYPE html>")),
            "console-webhooks" => (303, answer["headers"]["location"] == "/signin?next=%2Fconsole"),
            "deliveries-wake" | "accounts-bounces" | "accounts-purge" => (0, answer.is_null()),
            _ => (0, answer["batchItemFailures"] == json!([])),
        };
        assert_eq!(status, described, "{name}: {answer}");
        assert!(expected, "{name}: {answer}");
        let (status, log) = lambda.end().await;
        assert!(status.signal() == Some(SIGTERM) || status.success(), "{name}: {status}");
        // A purge without work logs nothing.
        assert!(name == "accounts-purge" || !log.is_empty(), "{name}");
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|_| unreachable!("{name} logs {line}"));
            for metrics in line["_aws"]["CloudWatchMetrics"].as_array().into_iter().flatten() {
                assert_eq!(metrics["Namespace"], "Webhooks/local", "{name}: that of its stack");
                with_metrics.insert(name);
            }
        }
    }
    assert!(with_metrics.is_superset(&["deliveries-wake", "webhooks-deliver"].into()), "{with_metrics:?}");
    // The sample event is old, so the second event counts as a late copy, whose delivery is already in the log.
    assert_eq!(receiver.received().await.len(), 1);
}

#[test]
fn every_other_binary_differs_only_in_its_function() {
    let main = |name: &str| {
        let path = format!("{}/../functions/{name}/src/main.rs", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("a program").replace(&name.replace('-', "_"), "NAME")
    };
    for name in local::function_names().filter(|name| !USUAL.contains(name)) {
        assert_eq!(main(name), main("webhooks-list"), "add {name} to USUAL");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binary_without_a_setting_ends_with_a_message_that_names_it() {
    let directory = build().await;
    let binary = Command::new(directory.join("webhooks-list"))
        .env_clear()
        .envs([("AWS_REGION", "eu-central-1"), ("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x")])
        .output();
    let output = timeout(PATIENCE, binary).await.expect("it ends").expect("it starts");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("_TABLE"), "{said}");
}

/// The functions whose binaries this run tests. Linking all of them takes half a minute of CPU time. Thorough runs do so,
/// and CI, where `FUNCTIONS_DIR` contains all binaries.
pub(crate) fn tested() -> Vec<&'static str> {
    let is_complete = tests::is_thorough() || env::var_os("FUNCTIONS_DIR").is_some();
    local::function_names().filter(|name| is_complete || USUAL.contains(name)).collect()
}

/// The folder with the functions' binaries: `FUNCTIONS_DIR`, which CI sets to a folder of release binaries, or this
/// test's target directory. In the target directory, the binaries share the features and the artifacts of `cargo test`,
/// so they only have to be linked. The first call builds them, and Cargo makes concurrent calls wait.
pub(crate) async fn build() -> PathBuf {
    if let Some(directory) = env::var_os("FUNCTIONS_DIR") {
        return directory.into();
    }
    let test = env::current_exe().expect("this test is a file");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let mut cargo = Command::from(tests::cargo());
    cargo.args(["build", "--quiet", "--locked", "--target-dir"]).arg(profile.parent().expect("target"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    for name in tested() {
        cargo.args(["--bin", name]);
    }
    // Cargo runs in the root, because in a package's folder it would enable only that package's features.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    assert!(cargo.current_dir(root).status().await.expect("cargo runs").success());
    profile.to_owned()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}
