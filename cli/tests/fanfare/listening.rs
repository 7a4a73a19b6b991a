//! `fanfare listen`: forwarded events, and failures during forwarding.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use local::{Data, Options, Ports};
use serde_json::{Value, json};
use tests::{Receiver, RefusingPort, Tenant, World, event};
use tokio::time::{Instant, sleep, timeout};

use super::{Machine, common_id, network::NetworkSettings};

/// A `fanfare listen` process and its output. Dropping the value kills the process with SIGKILL.
pub(super) struct Listener {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    readers: [std::thread::JoinHandle<()>; 2],
}

impl Listener {
    pub(super) fn start(machine: &Machine, to: &str, more: &[&str]) -> Self {
        Self::of(machine.command(&[&["listen", "--to", to], more].concat()))
    }

    pub(super) fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let said = Arc::default();
        let readers =
            [keep(child.stdout.take().expect("a pipe"), &said), keep(child.stderr.take().expect("a pipe"), &said)];
        Self { child, said, readers }
    }

    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn says(&self, words: &str) {
        let has_said = async {
            while !self.said().iter().any(|line| line.contains(words)) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(Duration::from_secs(30), has_said).await.is_ok(), "{words} is not in {:#?}", self.said());
    }

    pub(super) fn times(&self, words: &str) -> usize {
        self.said().iter().filter(|line| line.contains(words)).count()
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("bash").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        assert!(sent.expect("bash").success());
    }

    /// Waits until the process has ended and all its output was read.
    pub(super) async fn ends(&mut self) -> Option<i32> {
        let end = Instant::now() + Duration::from_secs(30);
        while Instant::now() < end {
            let status = self.child.try_wait().expect("a child");
            if let Some(status) = status.filter(|_| self.readers.iter().all(std::thread::JoinHandle::is_finished)) {
                return status.code();
            }
            sleep(Duration::from_millis(20)).await;
        }
        unreachable!("the process does not end: {:#?}", self.said());
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn keep(pipe: impl std::io::Read + Send + 'static, said: &Arc<Mutex<Vec<String>>>) -> std::thread::JoinHandle<()> {
    let said = said.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    })
}

pub(super) async fn begin(settings: &[(&str, &str)]) -> (World, Tenant, Machine, Receiver) {
    let world = World::live(settings).await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    machine.signs_in(&tenant).await;
    (world, tenant, machine, Receiver::start().await)
}

fn id_of(endpoint: &Value) -> String {
    endpoint["webhook_endpoint_id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_and_each_change_of_the_endpoint_is_one_line() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    let mut listener = Listener::start(&machine, &receiver.url("/hook"), &["--print-secret"]);
    listener.says("Forwarding to").await;
    let endpoint = id_of(&world.only_endpoint(&tenant).await);
    let secret = listener.said().iter().find_map(|line| Some(line.split_once("Signing secret: ")?.1.to_owned()));
    world.enqueue("job-events", event(&tenant.id, "one")).await;
    listener.says("job.completed  one  200").await;
    let posted = receiver.received().await.remove(0);
    let webhook = standardwebhooks::Webhook::new(&secret.expect("a secret")).expect("a key");
    webhook.verify(&posted.body, &posted.headers).expect("a signature");
    let delivery = world.only_logged(&tenant.id).await;
    assert_eq!(delivery.status, Status::Delivered);
    assert_eq!(listener.times(&format!("/console/deliveries/{}", delivery.id)), 1);

    world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": delivery.id})).await.ok();
    receiver.wait_for(2).await;
    let update = async |mut fields: Value| {
        fields["id"] = json!(endpoint);
        world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
    };
    update(json!({"active": false})).await;
    listener.says("endpoint is disabled").await;
    world.enqueue("job-events", event(&tenant.id, "held")).await;
    update(json!({"active": true})).await;
    listener.says("enabled again").await;
    listener.says("job.completed  held  200").await;
    update(json!({"signing_secret": "another secret of some length"})).await;
    listener.says("The signing secret was rotated").await;
    world.enqueue("job-events", event(&tenant.id, "signed anew")).await;
    listener.says("The stored signing secret is no longer valid").await;
    let second = Listener::start(&machine, &receiver.url("/hook"), &["--print-secret"]);
    second.says("Each event goes to only one of them").await;
    let replaced = "The stored signing secret is no longer valid: it was rotated elsewhere.";
    assert_eq!((second.times(replaced), second.times("Signing secret: ")), (1, 0), "{:#?}", second.said());
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    listener.says("The endpoint was deleted").await;
    assert_eq!(listener.ends().await, Some(4));
    for words in ["endpoint is disabled", "endpoint is enabled again", "secret was rotated", "endpoint was deleted"] {
        assert_eq!(listener.times(words), 1, "{words}: {:#?}", listener.said());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_secret_and_filter_and_ctrl_c_settles() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    let slow = receiver.url("/hook");
    let mut secrets = Vec::new();
    for (run, more) in [&["--print-secret", "--events", "job.completed"][..], &["--print-secret"]].iter().enumerate() {
        let mut listener = Listener::start(&machine, &slow, more);
        listener.says("Forwarding to").await;
        assert_eq!(listener.times("It receives only job.completed."), run, "a kept filter is named");
        secrets.extend(listener.said().into_iter().filter(|line| line.starts_with("Signing secret: ")));
        world.enqueue("job-events", event(&tenant.id, format!("job {run}"))).await;
        receiver.wait_for(run + 1).await;
        listener.signal("INT");
        assert_eq!(listener.ends().await, Some(0));
    }
    assert!(secrets.len() == 2 && secrets[0] == secrets[1], "{secrets:?}");
    assert_eq!(world.endpoints(&tenant).await.len(), 1);
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
}

/// `nohup` ignores SIGHUP and redirects the output.
#[tokio::test(flavor = "multi_thread")]
async fn an_ignored_hangup_does_not_end_a_listener() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    let listen = machine.command(&["listen", "--to", &receiver.url("/")]);
    let mut nohup = Command::new("nohup");
    nohup.arg(listen.get_program()).args(listen.get_args()).stdin(Stdio::null()).env_clear();
    nohup.envs(listen.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let listener = Listener::of(nohup);
    listener.says("Forwarding to").await;
    listener.signal("HUP");
    world.enqueue("job-events", event(&tenant.id, "later")).await;
    receiver.wait_for(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_exits_at_once_and_the_event_is_redelivered() {
    let (world, tenant, machine, receiver) = begin(&[("LEASE_TIME", "2")]).await;
    // This program accepts connections and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!("http://{}/", silent.local_addr().expect("an address"));
    let mut listener = Listener::start(&machine, &to, &[]);
    listener.says("Forwarding to").await;
    world.enqueue("job-events", event(&tenant.id, "one")).await;
    let post = tokio::task::spawn_blocking(move || silent.accept().map(|(stream, _)| (silent, stream)));
    let _held = post.await.expect("a thread").expect("a post");
    // A program that starts others may repeat the signal.
    listener.signal("TERM");
    listener.signal("TERM");
    listener.says("Posts in progress: 1.").await;
    listener.signal("INT");
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(listener.times("Stopped immediately"), 0);
    listener.signal("INT");
    assert_eq!(listener.ends().await, Some(130));
    let _listener = Listener::start(&machine, &receiver.url("/"), &[]);
    assert_eq!(receiver.wait_for(1).await[0].json()["job_id"], "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_of_a_hanging_service_does_not_block_others() {
    let (_world, tenant, machine, receiver) = begin(&[]).await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut command = machine.command(&["listen", "--to", &receiver.url("/")]);
    let api = format!("http://{}", silent.local_addr().expect("an address"));
    command.env("FANFARE_API", api).env("FANFARE_API_KEY", &tenant.key);
    let _waits = Listener::of(command);
    let _asked = tokio::task::spawn_blocking(move || silent.accept().map(|(stream, _)| (silent, stream))).await;
    Listener::start(&machine, &receiver.url("/"), &[]).says("Forwarding to").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_key_ends_the_listener() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    let mut listener = Listener::start(&machine, &receiver.url("/"), &[]);
    listener.says("Forwarding to").await;
    let keys = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    world.cli(&tenant.cookie, "api-key/delete", json!({"keyId": keys[0]["id"]})).await;
    assert_eq!(listener.ends().await, Some(3));
    assert_eq!(listener.times("hint: Run `fanfare login`."), 1, "{:#?}", listener.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_running_is_reported_once() {
    let (world, tenant, machine, _) = begin(&[("RETRY_SCHEDULE", "1")]).await;
    let refusing = RefusingPort::new();
    let closed = refusing.address().port();
    let listener = Listener::start(&machine, &closed.to_string(), &[]);
    listener.says(&format!("Forwarding to http://localhost:{closed}/.")).await;
    for job in ["one", "two"] {
        world.enqueue("job-events", event(&tenant.id, job)).await;
        listener.says(&format!("{job}  connect")).await;
    }
    let hint = format!("hint: Nothing listens on localhost:{closed}. Start the program, or check --to.");
    assert_eq!(listener.times(&hint), 1, "{:#?}", listener.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_goes_to_the_first_target_that_matches() {
    let (world, tenant, machine, others) = begin(&[("RETRY_SCHEDULE", "600")]).await;
    let (failures, port) = (Receiver::start().await, |url: String| url.rsplit(':').next().expect("a port").to_owned());
    let refusing = RefusingPort::new();
    let closed = refusing.address().port();
    let (to_failures, to_nightly) =
        (format!("job.failed={}", port(failures.url("/failed"))), format!("nightly-*={closed}"));
    let more = ["--to", &to_nightly, "--to", &others.url("/hook?a=b")];
    let listener = Listener::start(&machine, &to_failures, &more);
    for line in [
        format!("Forwarding job.failed to http://localhost:{}.", port(failures.url("/failed"))),
        format!("Forwarding workflow nightly-* to http://localhost:{closed}/."),
        format!("Forwarding other events to {}.", others.url("/hook?a=b")),
    ] {
        listener.says(&line).await;
    }
    listener.says("Press Ctrl-C to stop.").await;
    for (job, event_name, workflow) in [
        ("one", "job.failed", json!("nightly-import")),
        ("two", "job.completed", json!("nightly-import")),
        ("three", "job.completed", json!("weekly")),
        ("four", "job.completed", json!(null)),
    ] {
        let mut event = event(&tenant.id, job);
        (event["event"], event["workflow"]) = (json!(event_name), workflow);
        world.enqueue("job-events", event).await;
    }
    for words in ["job.failed  one  200", "job.completed  two  connect", "  three  200", "  four  200"] {
        listener.says(words).await;
    }
    assert_eq!(listener.times("workflow nightly-*  http"), 1, "{:#?}", listener.said());
    let hint =
        format!("hint: Nothing listens on localhost:{closed}. Start the program, or check --to 'nightly-*=...'.");
    listener.says(&hint).await;
    let paths = async |receiver: &Receiver| {
        let received = receiver.received().await;
        let mut found: Vec<_> = received.iter().map(|one| (one.json()["job_id"].clone(), one.path.clone())).collect();
        found.sort_by_key(|(job, _)| job.to_string());
        found
    };
    assert_eq!(paths(&failures).await, [(json!("one"), "/failed".to_owned())]);
    assert_eq!(paths(&others).await, ["four", "three"].map(|job| (json!(job), "/hook?a=b".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_a_target_is_refused_at_the_start() {
    let (world, tenant, machine, _) = begin(&[]).await;
    for (targets, words) in [
        (&["job.failed=3000"][..], "hint: Add one without a rule, such as --to 3000/hook."),
        (&["3000", "job.failed=3001"], "The --to of job.failed never gets an event"),
        (&["job.faild=3000", "3000"], "job.faild is not an event: the events are job.completed"),
        (&[], "--to <[NAME=]URL>"),
    ] {
        let options: Vec<_> = targets.iter().flat_map(|target| ["--to", *target]).collect();
        let refused = machine.run(&[&["listen"], &options[..]].concat()).await;
        assert!(refused.code == 2 && refused.err.contains(words), "{words}: {refused:?}");
    }
    assert_eq!(world.endpoints(&tenant).await.len(), 0, "a refused command creates no endpoint");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_event_is_signed_with_the_stored_secret() {
    let (_world, _tenant, machine, receiver) = begin(&[]).await;
    let to = receiver.url("/hook");
    let unknown = machine.run(&["trigger", "job.failed", "--to", &to]).await;
    assert!(unknown.code == 4 && unknown.err.contains("hint: Run `fanfare listen` once"), "{unknown:?}");
    let mut listener = Listener::start(&machine, &to, &["--print-secret"]);
    listener.says("Forwarding to").await;
    listener.signal("INT");
    assert_eq!(listener.ends().await, Some(0));
    assert_eq!(listener.times("Stopped: no events."), 1, "{:#?}", listener.said());
    let secret = listener.said().iter().find_map(|line| Some(line.split_once("Signing secret: ")?.1.to_owned()));
    let secret = secret.expect("a secret");
    let sent = machine.run(&["trigger", "job.failed", "--to", &to]).await;
    assert!(sent.code == 0 && sent.out.starts_with("job.failed  200  "), "{sent:?}");
    let posted = receiver.received().await.remove(0);
    posted.verify(&secret);
    let webhook = standardwebhooks::Webhook::new(&secret).expect("a key");
    webhook.verify(&posted.body, &posted.headers).expect("a signature");
    assert_eq!((posted.header("x-event-type"), &posted.json()["status"]), ("job.failed", &json!("failed")));
    assert_eq!(posted.header("accept"), "application/json, */*;q=0.8", "as from the service");
    let refusing = Receiver::scripted(&[(500, &[])]).await;
    let refused = machine.run(&["trigger", "job.completed", "--to", &refusing.url("/")]).await;
    assert!(refused.code == 1 && refused.err == "error: The program returned HTTP 500.\n", "{refused:?}");
    let gone = machine.run(&["trigger", "job.completed", "--to", "1"]).await;
    assert!(gone.code == 1 && gone.err.contains("localhost:1 did not respond: connection refused."), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_events_with_long_responses_are_delivered() {
    let (world, tenant, machine, _) = begin(&[]).await;
    let long = program(vec![b'x'; 200_000]).await;
    let listener = Listener::start(&machine, &long, &["--json"]);
    listener.says("Forwarding to").await;
    for job in 0..200 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    let end = Instant::now() + Duration::from_mins(1);
    while listener.times("\"result\":\"settled\"") < 200 {
        assert!(Instant::now() < end, "{:#?}", listener.said().last());
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(listener.times("\"outcome\":\"200\""), 200);
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 200);
}

/// Starts a program that responds with 200 and this body, and then closes the connection. Returns its address.
async fn program(body: Vec<u8>) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    let answer: Arc<[u8]> = [head.into_bytes(), body].concat().into();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let _head = stream.read(&mut [0; 8192]).await;
                let _gone = stream.write_all(&answer).await;
            });
        }
    });
    format!("http://{address}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_events_arrive_at_the_start_and_failures_are_retried() {
    let (world, tenant, machine, receiver) = begin(&[("RETRY_SCHEDULE", "1")]).await;
    let mut listener = Listener::start(&machine, &receiver.url("/"), &[]);
    listener.says("Forwarding to").await;
    // A killed listener's last call could still lease the event.
    listener.signal("INT");
    listener.ends().await;
    world.enqueue("job-events", event(&tenant.id, "asleep")).await;
    let refusing = Receiver::scripted(&[(500, &[])]).await;
    let listener = Listener::start(&machine, &refusing.url("/"), &["--json"]);
    refusing.wait_for(2).await;
    listener.says("\"200\"").await;
    let lines = listener.said().into_iter().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let outcomes: Vec<_> = lines.map(|line| (line["outcome"].clone(), line["status"].clone())).collect();
    assert_eq!(outcomes, [("500", "pending"), ("200", "delivered")].map(|(one, other)| (json!(one), json!(other))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_unused_for_three_days_is_deleted_with_a_note() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    for (description, is_pull) in [
        ("fanfare listen: old", true),
        ("fanfare listen: used", true),
        ("fanfare listen: weekend", true),
        ("something else", true),
        ("fanfare listen: x", false),
    ] {
        let mut fields = json!({"description": description});
        if is_pull {
            fields["kind"] = json!("pull");
        } else {
            fields["url"] = json!(receiver.url("/"));
        }
        world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    }
    for endpoint in world.endpoints(&tenant).await {
        let id = id_of(&endpoint);
        let days = if endpoint["description"] == "fanfare listen: weekend" { 3 } else { 30 };
        let created_at = Timestamp::now().before(Duration::from_hours(days * 24));
        world.set("webhook-endpoints", ("webhook_endpoint_id", &id), json!({"created_at": created_at})).await;
        if endpoint["description"] == "fanfare listen: used" {
            world.rpc(&tenant.key, "deliveries/receive", json!({"webhook_endpoint_id": id})).await.ok();
        }
    }
    let listener = Listener::start(&machine, &receiver.url("/"), &[]);
    listener.says("Deleted endpoint fanfare listen: old").await;
    listener.says("Forwarding to").await;
    let left: Vec<_> = world.endpoints(&tenant).await.iter().map(|one| one["description"].clone()).collect();
    let expected = ["listen: used", "listen: weekend", "something else", "listen: x", "listen: laptop"];
    assert_eq!(left, expected.map(|text| json!(text.replace("listen:", "fanfare listen:"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_clock_deletes_no_endpoint_that_is_in_use() {
    const DAY: u64 = 24 * 60;
    let (world, tenant, mut machine, receiver) = begin(&[]).await;
    let fields = json!({"description": "fanfare listen: colleague", "kind": "pull"});
    world.rpc(&tenant.key, "webhooks/create", fields).await.ok();
    let id = id_of(&world.endpoints(&tenant).await[0]);
    let now = SystemTime::now();
    let ago = |minutes: u64| now - Duration::from_secs(60 * minutes);
    let used = ago(4 * DAY + 1).duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
    world.set("webhook-endpoints", ("webhook_endpoint_id", &id), json!({"asked_at": used})).await;
    let network = NetworkSettings::at(world.stack.api(), ago(4 * DAY)).await;
    network.address().clone_into(&mut machine.api);
    machine.signs_in(&tenant).await;
    let listener = Listener::start(&machine, &receiver.url("/"), &[]);
    listener.says("Forwarding to").await;
    let left = world.endpoints(&tenant).await;
    assert!(left.iter().any(|one| id_of(one) == id), "{left:?}");
    assert_eq!(listener.times("Deleted endpoint"), 0);
}

/// The failures to inject during a run.
struct Troubles {
    events: usize,
    kills: usize,
    asleep: Duration,
    /// The duration of each network outage.
    cuts: Vec<Duration>,
    restarts: usize,
    settings: &'static [(&'static str, &'static str)],
}

/// The maximum number of events that a listener leases, and that each failure can therefore repeat.
const LEASED: usize = 20;

async fn nothing_is_lost(troubles: Troubles) {
    let folder = std::env::temp_dir().join(format!("fanfare-data-{}", common_id()));
    let mut ports = Ports::default();
    let options = |ports| Options { data: Data::Directory(folder.clone()), ports, ..Options::default() };
    let mut world = World::started(troubles.settings, options(ports)).await;
    ports.api = world.stack.api().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    ports.sqs =
        world.stack.sqs().rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse().ok()).expect("a port");
    let (tenant, mut machine, receiver) = (world.tenant("acme").await, Machine::new(&world), Receiver::start().await);
    let network = NetworkSettings::to(world.stack.api()).await;
    network.address().clone_into(&mut machine.api);
    machine.signs_in(&tenant).await;
    let mut listener = Listener::start(&machine, &receiver.url("/"), &[]);
    listener.says("Forwarding to").await;
    let endpoint = id_of(&world.only_endpoint(&tenant).await);
    let mut cuts = troubles.cuts.iter();
    let rounds = troubles.kills + troubles.cuts.len() + troubles.restarts + 1;
    let mut sent = 0;
    for round in 0..rounds {
        let until = troubles.events * (round + 1) / rounds;
        for job in sent..until {
            world.enqueue("job-events", event(&tenant.id, job)).await;
        }
        sent = until;
        sleep(Duration::from_millis(300)).await;
        if round == 0 {
            listener.signal("STOP");
            sleep(troubles.asleep).await;
            listener.signal("CONT");
        } else if round <= troubles.kills {
            drop(listener);
            listener = Listener::start(&machine, &receiver.url("/"), &[]);
            // A listener that cannot reach the service when it starts exits.
            listener.says("Forwarding to").await;
        } else if let Some(time) = cuts.next() {
            network.cut();
            sleep(*time).await;
            network.mend();
        } else {
            world.stack.stop().await;
            sleep(Duration::from_secs(1)).await;
            world = World::started(troubles.settings, options(ports)).await;
        }
    }
    let end = Instant::now() + Duration::from_secs(120 + u64::try_from(troubles.events / 50).expect("a number"));
    loop {
        let came = receiver.count().await;
        if came >= troubles.events && world.left().await == 0 {
            let (held, pending) = (world.log_of(&tenant.id, Status::Held), world.log_of(&tenant.id, Status::Pending));
            if held.await.is_empty() && pending.await.is_empty() {
                break;
            }
        }
        assert!(Instant::now() < end, "{came} came, and {:#?}", listener.said().last());
        sleep(Duration::from_millis(500)).await;
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for one in receiver.received().await {
        *times.entry(one.json()["job_id"].as_str().expect("a job").to_owned()).or_default() += 1;
    }
    assert_eq!(times.len(), troubles.events, "each came");
    let repeated: usize = times.values().map(|count| count - 1).sum();
    eprintln!("{} events, {rounds} troubles, {repeated} repetitions", troubles.events);
    assert!(repeated <= rounds * LEASED, "{repeated} repetitions after {rounds} troubles");
    let mut delivered = 0;
    let mut cursor = Value::Null;
    loop {
        let mut fields = json!({"status": "delivered", "limit": 100});
        if !cursor.is_null() {
            fields["cursor"] = cursor;
        }
        let page = world.rpc(&tenant.key, "deliveries/list", fields).await.ok().clone();
        delivered += page["deliveries"].as_array().map_or(0, Vec::len);
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(delivered, troubles.events, "the log agrees");
    let left = world.rpc(&tenant.key, "deliveries/receive", json!({"webhook_endpoint_id": endpoint})).await;
    assert_eq!(left.ok()["deliveries"], json!([]), "nothing is left");
    drop(listener);
    world.stack.stop().await;
    std::fs::remove_dir_all(&folder).expect("the data");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_while_listen_is_killed_stopped_and_cut_off() {
    nothing_is_lost(Troubles {
        events: 300,
        kills: 2,
        asleep: Duration::from_secs(9),
        cuts: vec![Duration::from_secs(3)],
        restarts: 1,
        // A busy machine must not be too slow for it, because each lease that ends repeats its delivery.
        settings: &[("LEASE_TIME", "8")],
    })
    .await;
}

/// `cargo test -p cli -- --ignored a_hundred_thousand --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half an hour"]
async fn none_of_a_hundred_thousand_events_is_lost() {
    nothing_is_lost(Troubles {
        events: 100_000,
        kills: 10,
        asleep: Duration::from_mins(10),
        cuts: vec![Duration::from_secs(5), Duration::from_secs(90)],
        restarts: 2,
        settings: &[],
    })
    .await;
}
