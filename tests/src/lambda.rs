//! Runs a function's binary against a Lambda Runtime API
//! (<https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>), and measures it.

use std::{
    collections::HashMap,
    fs::File,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    routing::{get, post},
};
use tokio::{
    io::AsyncReadExt,
    net::TcpListener,
    process::{Child, Command},
    sync::{Mutex, mpsc},
    task::JoinHandle,
    time::timeout,
};

/// The time limit of a call. It is sufficient for an unoptimized binary on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// The timeout of `deliveries-wake`, the longest in the template.
const TIMEOUT_MS: i64 = 60_000;

/// A running function, started as Lambda starts it.
pub struct Lambda {
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
    /// Starts `binary` with `environment` and the variables that Lambda sets, and sends its output to `log`. Returns
    /// when the function requests its first event.
    pub async fn start(binary: &Path, environment: &HashMap<String, String>, log: Stdio) -> Self {
        Self::started(Command::new(binary).stdout(log), environment).await
    }

    /// Like [`Self::start`], but sends standard output and standard error to the file `log`.
    pub async fn start_logged(binary: &Path, environment: &HashMap<String, String>, log: &File) -> Self {
        let log = || log.try_clone().expect("an open file");
        Self::started(Command::new(binary).stdout(log()).stderr(log()), environment).await
    }

    async fn started(command: &mut Command, environment: &HashMap<String, String>) -> Self {
        let (idle_sender, idle) = mpsc::channel(1);
        let (events, event_receiver) = mpsc::channel(1);
        let (answer_sender, answers) = mpsc::channel(1);
        let api = Arc::new(Api { idle: idle_sender, events: Mutex::new(event_receiver), answers: answer_sender });
        let routes = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/1/response", post(answer))
            .route("/2018-06-01/runtime/invocation/1/error", post(answer))
            .route("/2018-06-01/runtime/init/error", post(answer))
            .with_state(api);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let api = tokio::spawn(async move { axum::serve(listener, routes).await.expect("a running server") });
        command.env_clear().envs(environment).envs([
            ("AWS_LAMBDA_RUNTIME_API", address.as_str()),
            ("AWS_LAMBDA_FUNCTION_NAME", "function"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_LOG_GROUP_NAME", "log"),
            ("AWS_LAMBDA_LOG_STREAM_NAME", "log"),
            ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
        ]);
        let child = command.kill_on_drop(true).spawn().expect("the binary starts");
        let mut lambda = Self { child, events, idle, answers, api };
        lambda.wait_until_idle().await;
        lambda
    }

    async fn wait_until_idle(&mut self) {
        received(&mut self.idle, &mut self.child).await;
    }

    /// Sends an event. Returns the response or reported error once the function requests the next event.
    pub async fn invoke(&mut self, event: String) -> String {
        self.invoke_all(vec![event]).await.remove(0)
    }

    /// Sends each event when the function requests one. Returns the responses.
    pub async fn invoke_all(&mut self, events: Vec<String>) -> Vec<String> {
        let (sender, mut answers) = (self.events.clone(), Vec::with_capacity(events.len()));
        let expected = events.len();
        let send = async {
            for event in events {
                sender.send(event).await.expect("a running server");
            }
        };
        let receive = async {
            while answers.len() < expected {
                answers.push(received(&mut self.answers, &mut self.child).await);
                self.wait_until_idle().await;
            }
        };
        tokio::join!(send, receive);
        answers
    }

    /// The CPU time of all the function's threads so far, to the nanosecond.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("it runs").filter_map(Result::ok);
        let nanoseconds = threads.filter_map(|thread| {
            let statistics = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            statistics.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// The function's resident memory in KiB: the current value (`VmRSS`) or the peak (`VmHWM`).
    #[must_use]
    pub fn memory(&self, line: &str) -> u64 {
        memory(self.pid(), line)
    }

    /// Stops the function with SIGTERM, as Lambda does. Returns its exit status, and its output if that was piped.
    pub async fn end(mut self) -> (ExitStatus, String) {
        let kill = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().await;
        assert!(kill.expect("kill runs").success());
        let status = timeout(Duration::from_secs(2), self.child.wait())
            .await
            .expect("the process ends at once")
            .expect("a status");
        let mut said = String::new();
        if let Some(mut log) = self.child.stdout.take() {
            log.read_to_string(&mut said).await.expect("UTF-8");
        }
        (status, said)
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

/// The next message from a process, which must not end before sending it.
async fn received<T>(receiver: &mut mpsc::Receiver<T>, child: &mut Child) -> T {
    tokio::select! {
        biased;
        received = timeout(PATIENCE, receiver.recv()) => received.expect("the message arrives in time").expect("a running server"),
        status = child.wait() => unreachable!("the process died: {status:?}"),
    }
}

/// The resident memory of a process in KiB, from a line of its `/proc/PID/status`.
#[must_use]
pub fn memory(pid: u32, line: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':')).expect("the line is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Waits for an event, without a time limit.
async fn next(State(api): State<Arc<Api>>) -> (HeaderMap, String) {
    api.idle.send(()).await.expect("a caller waits");
    let Some(event) = api.events.lock().await.recv().await else { std::future::pending().await };
    let headers = [
        ("lambda-runtime-aws-request-id", "1".to_owned()),
        ("lambda-runtime-deadline-ms", (common::timestamp::Timestamp::now().as_millisecond() + TIMEOUT_MS).to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-central-1:123456789012:function:f".to_owned()),
        ("content-type", "application/json".to_owned()),
    ];
    let headers = headers
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header value")));
    (headers.collect(), event)
}

async fn answer(State(api): State<Arc<Api>>, body: Bytes) -> StatusCode {
    api.answers.send(String::from_utf8_lossy(&body).into_owned()).await.expect("a caller waits");
    StatusCode::ACCEPTED
}
