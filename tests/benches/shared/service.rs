//! A running `cargo local`, with a client for its API and one for its queues.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use common::{aws::clients::Aws, config::Env};
use serde_json::{Value, json};
use tests::World;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::artifacts::{cargo_build, folder};

/// Builds the local runner in the profile of this benchmark, which reuses the benchmark's dependencies.
pub(crate) fn build() -> PathBuf {
    let folder = folder();
    let profile = if folder.ends_with("debug") { "dev" } else { "bench" };
    cargo_build(folder.parent().expect("a target folder"), ["--profile", profile, "--bin", "local"]);
    folder.join("local")
}

/// A running `cargo local`. Dropping the value kills the process.
pub(crate) struct Service {
    child: Child,
    addresses: Value,
    http: reqwest::Client,
    /// A client for its queues.
    pub(crate) sqs: aws_sdk_sqs::Client,
}

/// A signed-up organization with an API key.
pub(crate) struct Tenant {
    /// The organization's id.
    pub(crate) id: String,
    key: String,
}

impl Service {
    /// Starts the service with these variables and its data in a folder or in memory, and discards its log. Also returns
    /// the rest of its output.
    pub(crate) async fn start(
        local: &Path,
        variables: &[(&str, &str)],
        folder: Option<&Path>,
    ) -> (Self, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new(local);
        match folder {
            Some(folder) => command.current_dir(folder),
            None => command.arg("--memory"),
        };
        let mut child = command
            .args(["--json", "--api=0", "--dynamodb=0", "--sqs=0", "--mail=0", "--inbox=0"])
            // A deployed function also logs at this level.
            .env("RUST_LOG", "info")
            .envs(variables.iter().copied())
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
        let http = tests::plain_http().build().expect("a client");
        (Self { child, addresses, http, sqs }, lines)
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Signs up, verifies the email, and issues a key.
    pub(crate) async fn tenant(&self, slug: &str) -> Tenant {
        let [api, mail] = ["api", "mail"].map(|name| self.addresses[name].as_str().expect("an address"));
        let post = |path: &str| self.http.post(format!("{api}{path}")).header("origin", api);
        let fields = World::sign_up_fields(slug);
        let account = answer(post("/v1/auth/signupAndCreateOrg").json(&json!({"json": fields}))).await;
        let account = &account["json"];
        let mails = answer(self.http.get(format!("{mail}/messages"))).await;
        let mail = mails.as_array().expect("a list").iter().find(|mail| mail["to"][0] == fields["email"]);
        let link = tests::world::link(mail.expect("a mail"));
        let token = link.split_once("?token=").expect("a token").1;
        let verified = post("/api/auth/verify-email").form(&[("token", token)]).send().await.expect("an answer");
        assert!(verified.status().is_success(), "{verified:?}");
        let key = post("/api/auth/api-key/create").header("cookie", tests::world::cookie(account));
        let key = answer(key.json(&json!({"name": "bench"}))).await;
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        Tenant { id: text(&account["organizationId"]), key: text(&key["key"]) }
    }

    /// Creates an endpoint.
    pub(crate) async fn endpoint(&self, tenant: &Tenant, url: &str) {
        let fields = json!({"url": url, "signing_secret": "a secret of some length"});
        self.rpc(tenant, "webhooks/create", fields).await;
    }

    /// Calls `POST /v1/{route}`, expects a 200, and returns the contents of its envelope.
    pub(crate) async fn rpc(&self, tenant: &Tenant, route: &str, fields: Value) -> Value {
        let api = self.addresses["api"].as_str().expect("an address");
        let call = self.http.post(format!("{api}/v1/{route}")).header("x-api-key", &tenant.key);
        answer(call.json(&json!({ "json": fields }))).await["json"].take()
    }

    /// The URL of the event queue.
    pub(crate) fn job_events(&self) -> &str {
        self.addresses["queues"]["job-events"].as_str().expect("a queue")
    }

    /// Sends up to ten events in one call, each in the message group of its organization.
    pub(crate) async fn send(&self, messages: &[String]) {
        let entries = messages.iter().enumerate().map(|(number, message)| {
            let group = serde_json::from_str::<Value>(message).expect("JSON")["tenant_id"].as_str().map(str::to_owned);
            let entry = SendMessageBatchRequestEntry::builder().id(number.to_string()).message_body(message);
            let entry = entry.set_message_group_id(group);
            entry.build().expect("complete")
        });
        let call = self.sqs.send_message_batch().queue_url(self.job_events());
        let sent = call.set_entries(Some(entries.collect())).send().await;
        assert!(sent.expect("the send succeeds").failed.is_empty());
    }

    /// The CPU time that the process has used.
    pub(crate) fn cpu(&self) -> f64 {
        cpu_of(self.id())
    }
}

/// The CPU time of all a process's threads in seconds, including ended ones. Linux counts hundredths of a second.
pub(crate) fn cpu_of(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux");
    // The second field is the program's name in parentheses; user and system time are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number"));
    ticks.sum::<f64>() / 100.0
}

/// The JSON of a 200 response; panics for any other status.
async fn answer(request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.expect("an answer");
    assert!(answer.status().is_success(), "{answer:?}");
    answer.json().await.expect("JSON")
}
