//! Processes under measure: a function's own binary under a Lambda Runtime API, and what it costs.

use std::{collections::HashMap, path::Path, process::Stdio, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Path as UrlPath, State},
    http::{HeaderMap, HeaderValue},
    routing::{get, post},
};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    sync::{Mutex, mpsc},
    task::JoinHandle,
};

/// A function's binary, started as Lambda starts it (<https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>).
pub(crate) struct Lambda {
    child: Child,
    events: mpsc::Sender<String>,
    idle: mpsc::Receiver<()>,
    answers: mpsc::Receiver<String>,
    api: JoinHandle<()>,
}

struct Api {
    idle: mpsc::Sender<()>,
    events: Mutex<mpsc::Receiver<String>>,
    answers: mpsc::Sender<String>,
}

impl Lambda {
    /// Starts `binary`; returns when it asks for its first event.
    pub(crate) async fn start(binary: &Path, environment: &HashMap<String, String>) -> Self {
        let (idle_sender, idle) = mpsc::channel(1);
        let (events, event_receiver) = mpsc::channel(1);
        let (answer_sender, answers) = mpsc::channel(1);
        let api = Arc::new(Api { idle: idle_sender, events: Mutex::new(event_receiver), answers: answer_sender });
        let routes = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/{what}", post(answer))
            .with_state(api);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let api = tokio::spawn(async move { axum::serve(listener, routes).await.expect("a running server") });
        let mut command = Command::new(binary);
        command.env_clear().envs(environment).env("AWS_LAMBDA_RUNTIME_API", address);
        for (name, value) in [
            ("AWS_LAMBDA_FUNCTION_NAME", "measured"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1769"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "measured"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "measured"),
        ] {
            command.env(name, value);
        }
        let child = command.stdout(Stdio::null()).kill_on_drop(true).spawn().expect("the binary starts");
        let mut lambda = Self { child, events, idle, answers, api };
        lambda.idle().await;
        lambda
    }

    async fn idle(&mut self) {
        let waited = tokio::time::timeout(Duration::from_secs(60), self.idle.recv()).await;
        waited.expect("the function asks for an event in time").expect("a running server");
    }

    /// Hands an event over; returns the answer once the function asks for the next event.
    pub(crate) async fn invoke(&mut self, event: String) -> String {
        self.events.send(event).await.expect("a running server");
        let answer = self.answers.recv().await.expect("a running server");
        self.idle().await;
        answer
    }

    /// CPU time so far.
    pub(crate) fn cpu(&self) -> Duration {
        cpu(&format!("/proc/{}/task", self.pid()))
    }

    /// Resident memory in KiB: now (`VmRSS`), or at most so far (`VmHWM`).
    pub(crate) fn memory(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let line = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':')).expect("the line");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }

    fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }
}

impl Drop for Lambda {
    fn drop(&mut self) {
        self.api.abort();
    }
}

async fn next(State(api): State<Arc<Api>>) -> (HeaderMap, String) {
    api.idle.send(()).await.expect("somebody measures");
    let event = api.events.lock().await.recv().await.unwrap_or_default();
    let deadline = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let headers = [
        ("lambda-runtime-aws-request-id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd".to_owned()),
        ("lambda-runtime-deadline-ms", (deadline.as_millis() + 30_000).to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:eu-central-1:123456789012:function:measured".to_owned(),
        ),
    ];
    let headers =
        headers.map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_str(&value).expect("a value")));
    (HeaderMap::from_iter(headers), event)
}

async fn answer(State(api): State<Arc<Api>>, UrlPath((_, what)): UrlPath<(String, String)>, body: Bytes) {
    assert_eq!(what, "response", "{}", String::from_utf8_lossy(&body));
    api.answers.send(String::from_utf8_lossy(&body).into_owned()).await.expect("somebody measures");
}

/// The CPU time of all threads under a `task` folder of `/proc`, to the nanosecond.
fn cpu(tasks: &str) -> Duration {
    let threads = std::fs::read_dir(tasks).expect("it runs").filter_map(Result::ok);
    let nanoseconds = threads.filter_map(|thread| {
        let statistics = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        statistics.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// The CPU time of this thread.
pub(crate) fn own_thread_cpu() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = statistics.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}
