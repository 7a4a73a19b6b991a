//! The whole service in one process, as `cargo local` runs it: from the embedded queue through the function and the
//! embedded tables to a receiver.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use aws_sdk_sqs::types::{QueueAttributeName, SendMessageBatchRequestEntry};
use axum::http::StatusCode;
use common::{aws::clients::Aws, config::Env};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tests::World;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    Effort,
    build::Binaries,
    delivery::{Counter, job_event},
    table::{Row, Table, median},
};

/// How many batches are on their way to the queue at a time.
const SENDERS: usize = 8;
/// More than any of this takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a process does with 20,000 events of 1 KB for one endpoint, which answers with 200 or with 500.
pub(crate) async fn process(binaries: &Binaries, effort: Effort, table: &mut Table) {
    let (runs, events) = if effort.quick { (1, 2_000) } else { (3, 20_000) };
    let (mut rates, mut costs, mut failing) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let (rate, cpu) = run(binaries, events, StatusCode::OK).await;
        rates.push(rate);
        costs.push(cpu);
        failing.push(run(binaries, events, StatusCode::INTERNAL_SERVER_ERROR).await.1);
    }
    let what = "whole local process, deliveries of 1 KB to one endpoint";
    let rate = Row::alone(what, "per s", median(rates));
    let cost = Row::alone("the same, CPU of 1,000", "s", median(costs));
    let what = "the same, CPU of 1,000 first attempts that are answered with 500";
    let failing = Row::alone(what, "s", median(failing));
    // In a quick run, neither the process nor the harness beside it is optimised.
    let rows = if effort.quick {
        [rate, cost.at_most(2.5, 2.5), failing.at_most(5.0, 5.0)]
    } else {
        [rate.at_least(4000.0, 8000.0), cost.at_most(0.25, 0.2), failing.at_most(0.5, 0.4)]
    };
    rows.into_iter().for_each(|row| table.push(row));
}

/// Sends `events` to a new process. Returns how many of them the receiver got in a second, from the first send on, and
/// the process's CPU time for a thousand of them, until its queue is empty.
async fn run(binaries: &Binaries, events: usize, answer: StatusCode) -> (f64, f64) {
    let receiver = Counter::answering(answer).await;
    let service = Service::start(binaries).await;
    let tenant = service.tenant_with_endpoint(&receiver.url).await;
    let messages: Vec<_> = (0..events + 100).map(|job| job_event(&tenant, job).to_string()).collect();
    let (warm, messages) = messages.split_at(100);
    service.deliver(warm, &receiver).await;
    let (started, cpu) = (Instant::now(), service.cpu());
    let arrived = service.deliver(messages, &receiver).await;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let events = events as f64;
    (events / (arrived - started).as_secs_f64(), (service.cpu() - cpu) / events * 1e3)
}

/// A running `cargo local`, and a client for its queues. Dropping it stops it.
struct Service {
    child: Child,
    addresses: Value,
    sqs: aws_sdk_sqs::Client,
}

impl Service {
    /// Starts it in memory; its log is thrown away. What failed waits for five minutes, so that no second attempt is among the first ones.
    async fn start(binaries: &Binaries) -> Self {
        let mut child = Command::new(binaries.local())
            .args(["--memory", "--json", "--api=0", "--dynamodb=0", "--sqs=0", "--mail=0"])
            .env("RETRY_SCHEDULE", "300,300,1800,7200,18000,36000,36000")
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = lines.next_line().await.expect("UTF-8").expect("a line");
        let addresses: Value = serde_json::from_str(&line).expect("JSON");
        let address = addresses["sqs"].as_str().expect("an address").to_owned();
        let env =
            Env::new(move |name| Some(if name == "AWS_ENDPOINT_URL_SQS" { &address } else { "local" }.to_owned()));
        let sqs = Aws::new(&env).expect("settings").sqs();
        Self { child, addresses, sqs }
    }

    /// Signs up, verifies the email, issues a key, and creates an endpoint. Returns the tenant's id.
    async fn tenant_with_endpoint(&self, url: &str) -> String {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client");
        let [api, mail] = ["api", "mail"].map(|name| self.addresses[name].as_str().expect("an address"));
        let post = |path: &str| http.post(format!("{api}{path}")).header("origin", api);
        let account = post("/v1/auth/signupAndCreateOrg").json(&json!({"json": World::sign_up_fields("whole")}));
        let account = &answer(account).await["json"];
        let link = tests::world::link(&answer(http.get(format!("{mail}/messages"))).await[0]);
        let token = link.split_once("?token=").expect("a token").1;
        let verified = post("/api/auth/verify-email").form(&[("token", token)]).send().await.expect("an answer");
        assert!(verified.status().is_success(), "{verified:?}");
        let key = post("/api/auth/api-key/create").header("cookie", tests::world::cookie(account));
        let key = answer(key.json(&json!({"name": "bench"}))).await;
        let create = post("/v1/webhooks/create").header("x-api-key", key["key"].as_str().expect("a key"));
        answer(create.json(&json!({"json": {"url": url, "signing_secret": "a secret of some length"}}))).await;
        account["organizationId"].as_str().expect("an id").to_owned()
    }

    /// Sends these messages, and waits until they are handled. Returns when the last one was received.
    async fn deliver(&self, messages: &[String], receiver: &Counter) -> Instant {
        let queue = self.addresses["queues"]["job-events"].as_str().expect("a queue");
        let before = receiver.count();
        let send = stream::iter(messages.chunks(10)).for_each_concurrent(SENDERS, async |messages| {
            let entries = messages.iter().enumerate().map(|(number, message)| {
                let entry = SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(message);
                entry.build().expect("complete")
            });
            let sent = self.sqs.send_message_batch().queue_url(queue).set_entries(Some(entries.collect())).send().await;
            assert!(sent.expect("it is sent").failed.is_empty());
        });
        let arrive = async {
            receiver.wait(before, messages.len()).await;
            Instant::now()
        };
        let all = async { tokio::join!(arrive, send).0 };
        let arrived = tokio::time::timeout(PATIENCE, all).await.expect("all arrive");
        tokio::time::timeout(PATIENCE, self.empty(queue)).await.expect("all are handled");
        arrived
    }

    async fn empty(&self, queue: &str) {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        ];
        loop {
            let attributes = self.sqs.get_queue_attributes().queue_url(queue);
            let attributes = attributes.set_attribute_names(Some(names.to_vec())).send().await.expect("attributes");
            if attributes.attributes.expect("attributes").values().all(|number| number == "0") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The CPU time in seconds of all its threads, those that have ended included. Linux counts it in hundredths.
    fn cpu(&self) -> f64 {
        let stat = format!("/proc/{}/stat", self.child.id().expect("it runs"));
        let stat = std::fs::read_to_string(stat).expect("Linux");
        // The second field is the program's name in parentheses; user and system time are the 14th and 15th.
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number"));
        ticks.sum::<f64>() / 100.0
    }
}

/// The JSON of an answer, which must be a 200.
async fn answer(request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.expect("an answer");
    assert!(answer.status().is_success(), "{answer:?}");
    answer.json().await.expect("JSON")
}
