//! What is shipped is started: every function's own binary, built as it is for Lambda, against a Lambda Runtime API
//! and the local services, with its sample event.

use std::{
    env,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    routing::{get, post},
};
use serde_json::{Value, json};
use tests::{Receiver, World};
use tokio::{
    io::AsyncReadExt,
    net::TcpListener,
    process::Command,
    sync::{Mutex, mpsc},
    time::timeout,
};

const FUNCTIONS: [(&str, &str); 8] = [
    ("auth-accept-invite-and-signup", include_str!("../../../events/auth-accept-invite-and-signup.json")),
    ("auth-cli", include_str!("../../../events/auth-cli.json")),
    ("auth-signup-and-create-org", include_str!("../../../events/auth-signup-and-create-org.json")),
    ("webhooks-create", include_str!("../../../events/webhooks-create.json")),
    ("webhooks-delete", include_str!("../../../events/webhooks-delete.json")),
    ("webhooks-deliver", include_str!("../../../events/webhooks-deliver.json")),
    ("webhooks-list", include_str!("../../../events/webhooks-list.json")),
    ("webhooks-update", include_str!("../../../events/webhooks-update.json")),
];
const SIGTERM: i32 = 15;
/// The delivery function's timeout in the template. It refuses to start an attempt that would not fit into it.
const LONGEST_TIMEOUT_MS: i64 = 30_000;
/// More than a start and a call of an unoptimised binary take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn every_binary_starts_answers_and_ends() {
    let directory = build().await;
    let world = World::start().await;
    let receiver = Receiver::start().await;
    let key = world.tenant("acme").await.key;
    for (name, event) in FUNCTIONS {
        let mut event: Value =
            serde_json::from_str(&event.replace("https://example.com/hook", &receiver.url("/hook"))).expect("an event");
        if event["headers"]["x-api-key"].is_string() {
            event["headers"]["x-api-key"] = json!(key);
            event["body"] = json!(text(&event["body"]).replace(&receiver.url("/hook"), "https://example.com/hook"));
        }
        let started = Instant::now();
        let mut lambda = Lambda::start(&directory.join(name), &world, name).await;
        let answer = lambda.invoke(&event).await;
        let cold = started.elapsed();
        let started = Instant::now();
        // A warm one: the same process takes the next event.
        lambda.invoke(&event).await;
        eprintln!("{name}: first answer after {cold:?}, the second after {:?}", started.elapsed());
        let body = answer["body"].as_str().map(|body| serde_json::from_str::<Value>(body).expect("JSON"));
        let body = body.unwrap_or_default();
        let (status, expected) = match name {
            "auth-signup-and-create-org" => (200, body["json"]["emailVerified"] == false),
            "auth-accept-invite-and-signup" => (404, body["json"]["message"] == "Invitation not found"),
            "auth-cli" => (200, body.is_null()),
            "webhooks-create" => (200, body["json"]["success"] == true),
            "webhooks-list" => (200, body["json"]["webhook_endpoints"].is_array()),
            "webhooks-update" | "webhooks-delete" => (404, body["json"]["code"] == "NOT_FOUND"),
            _ => (0, answer["batchItemFailures"] == json!([])),
        };
        assert_eq!(answer["statusCode"].as_u64().unwrap_or_default(), status, "{name}: {answer}");
        assert!(expected, "{name}: {answer}");
        lambda.end().await;
    }
    assert_eq!(receiver.received().await.len(), 2);
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

/// Builds the functions into the target directory of this test, with the features that they ship with, and returns
/// where they are. Only the first call has work to do; Cargo makes the others wait for it.
async fn build() -> PathBuf {
    let test = env::current_exe().expect("this test is a file");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--locked", "--target-dir"]).arg(profile.parent().expect("target"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    for (name, _) in FUNCTIONS {
        cargo.args(["--package", name]);
    }
    assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().await.expect("cargo runs").success());
    profile.to_owned()
}

/// A function's process and the Lambda Runtime API that it talks to.
/// <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>
struct Lambda {
    process: tokio::process::Child,
    events: mpsc::Sender<Value>,
    answers: mpsc::Receiver<Value>,
}

#[derive(Clone)]
struct RuntimeApi {
    events: Arc<Mutex<mpsc::Receiver<Value>>>,
    answers: mpsc::Sender<Value>,
}

impl Lambda {
    /// Starts `binary` as Lambda would, with the environment that the template gives to the function `name`.
    async fn start(binary: &Path, world: &World, name: &str) -> Self {
        let (events, next) = mpsc::channel(1);
        let (answered, answers) = mpsc::channel(1);
        let api = RuntimeApi { events: Arc::new(Mutex::new(next)), answers: answered };
        let router = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next_invocation))
            .route("/2018-06-01/runtime/invocation/1/response", post(response))
            .route("/2018-06-01/runtime/invocation/1/error", post(failure))
            .route("/2018-06-01/runtime/init/error", post(failure))
            .with_state(api);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let process = Command::new(binary)
            .env_clear()
            .envs(world.stack.environment(name).expect("a function of the template"))
            .envs([
                ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
                ("AWS_LAMBDA_FUNCTION_NAME", name),
                ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
                ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
                ("AWS_LAMBDA_LOG_GROUP_NAME", "log"),
                ("AWS_LAMBDA_LOG_STREAM_NAME", "log"),
                ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
            ])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the binary starts");
        Self { process, events, answers }
    }

    /// Hands an event over; answers the function's answer, or a text if it failed.
    async fn invoke(&mut self, event: &Value) -> Value {
        self.events.send(event.clone()).await.expect("the API runs");
        timeout(PATIENCE, self.answers.recv()).await.expect("an answer in time").expect("an answer")
    }

    /// Ends it as Lambda ends what it no longer needs. It is idle, so it ends at once; and all that it said is JSON.
    async fn end(mut self) {
        let id = self.process.id().expect("it runs").to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().await.expect("kill runs").success());
        let status = timeout(Duration::from_secs(2), self.process.wait()).await.expect("it ends").expect("a status");
        assert!(status.signal() == Some(SIGTERM) || status.success(), "{status}");
        let mut log = String::new();
        self.process.stdout.take().expect("a pipe").read_to_string(&mut log).await.expect("UTF-8");
        assert!(!log.is_empty());
        for line in log.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
    }
}

/// Waits for an event, as long as it takes.
async fn next_invocation(State(api): State<RuntimeApi>) -> (HeaderMap, String) {
    let Some(event) = api.events.lock().await.recv().await else { std::future::pending().await };
    let deadline = jiff::Timestamp::now().as_millisecond() + LONGEST_TIMEOUT_MS;
    let headers = [
        ("lambda-runtime-aws-request-id", "1".to_owned()),
        ("lambda-runtime-deadline-ms", deadline.to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-central-1:123456789012:function:f".to_owned()),
        ("content-type", "application/json".to_owned()),
    ];
    let headers = headers.into_iter().map(|(name, value)| {
        (name.parse::<axum::http::HeaderName>().expect("a name"), value.parse().expect("a value"))
    });
    (headers.collect(), event.to_string())
}

async fn response(State(api): State<RuntimeApi>, body: Bytes) -> axum::http::StatusCode {
    api.answers.send(serde_json::from_slice(&body).expect("JSON")).await.expect("the test waits");
    axum::http::StatusCode::ACCEPTED
}

async fn failure(State(api): State<RuntimeApi>, body: Bytes) -> axum::http::StatusCode {
    api.answers.send(json!(String::from_utf8_lossy(&body))).await.expect("the test waits");
    axum::http::StatusCode::ACCEPTED
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}
