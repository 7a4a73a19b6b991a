//! Every event arrives, even if calls fail and processes die.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs::File,
    net::Ipv4Addr,
    process::Stdio,
    time::Duration,
};

use common::webhooks::delivery::Status;
use serde_json::{Value, json};
use tests::{Manner, Proxy, Receiver, Rough, Tenant, World, event, lambda::memory, log};
use tokio::{
    process::{Child, Command},
    time::Instant,
};

/// Starts a worker, which is killed when its handle is dropped.
fn worker(dynamodb: &str, sqs: &str, settings: &[(&str, &str)], log: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worker"));
    command.args([dynamodb, sqs]).envs(settings.iter().copied()).stdout(log).kill_on_drop(true);
    command.spawn().expect("a worker starts")
}

/// Starts a worker with this many file descriptors, which is killed when its handle is dropped.
fn worker_with(descriptors: usize, world: &World, settings: &[(&str, &str)]) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {descriptors} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_worker")]);
    command.args([world.stack.dynamodb(), world.stack.sqs()]).envs(settings.iter().copied());
    command.stdout(Stdio::null()).kill_on_drop(true).spawn().expect("a worker starts")
}

/// Fills the queue with this many of the tenant's events.
async fn enqueue(world: &World, tenant: &Tenant, events: usize) {
    for job in 0..events {
        let mut event = event(&tenant.id, job);
        event["result"] = json!(job);
        world.enqueue("job-events", event).await;
    }
}

/// The deliveries that workers reported as missing from the delivery log.
fn unlogged(said: File) -> HashSet<String> {
    let text = log::read(said);
    let lines = text.lines().filter(|line| line.contains("delivery.unlogged"));
    // The workers append to the same file, and a kill may truncate a line.
    let lines = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ids = lines.filter_map(|line| Some(line["delivery_id"].as_str()?.rsplit('.').next()?.to_owned()));
    ids.map(|hex| format!("msg_{hex}")).collect()
}

/// Sends `events` to four live endpoints and a dead one, through a worker whose calls may fail and that is killed
/// `kills` times, and waits until the queues are empty. The tables and the queues are in this process, so they survive.
async fn survive(events: usize, kills: usize, between_kills: Duration, visibility: u32, limit: Duration) {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut live = Vec::new();
    for number in 0..4 {
        let receiver = Receiver::start().await;
        world.endpoint(&tenant, &receiver.url("/"), &format!("secret {number}")).await;
        live.push(receiver);
    }
    let dead = world.endpoint(&tenant, "http://127.0.0.1:1/", "s").await;
    world.come_back_after(visibility).await;
    enqueue(&world, &tenant, events).await;

    let (dynamodb, sqs) = (Proxy::faulty(world.stack.dynamodb()).await, Proxy::faulty(world.stack.sqs()).await);
    let said = log::file();
    let start = || {
        let log = said.try_clone().expect("an open file");
        worker(dynamodb.address(), sqs.address(), &[("RETRY_SCHEDULE", "0,0")], log.into())
    };
    let (started, mut running) = (Instant::now(), start());
    for _ in 0..kills {
        tokio::time::sleep(between_kills).await;
        running.kill().await.expect("the kill succeeds");
        running = start();
    }
    loop {
        let left = world.left().await;
        if left == 0 {
            break;
        }
        assert!(started.elapsed() < limit, "{left} messages are left");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    drop(running);
    assert!(world.dead_letters().await.is_empty());

    let (mut duplicates, mut taken) = (0, HashSet::new());
    for receiver in &live {
        let received = receiver.received().await;
        let mut ids = BTreeMap::new();
        for attempt in &received {
            let id = attempt.header("webhook-id").to_owned();
            let first = ids.entry(attempt.json()["job_id"].to_string()).or_insert_with(|| id.clone());
            assert_eq!(*first, id, "a duplicate has the webhook-id of the first request");
        }
        assert_eq!(ids.len(), events, "nothing is lost");
        assert_eq!(ids.values().collect::<BTreeSet<_>>().len(), events);
        duplicates += received.len() - events;
        taken.extend(ids.into_values());
    }

    // The log must agree with the receivers.
    let (mut delivered, mut failed) = (HashSet::new(), BTreeSet::new());
    for delivery in world.log(&tenant.id).await {
        let is_new = match delivery.status {
            Status::Delivered => delivered.insert(delivery.webhook_id.to_string()),
            Status::Failed => failed.insert(delivery.job_id.clone()),
            Status::Pending | Status::Held | Status::Ended => unreachable!("{delivery:?} will not be woken"),
        };
        assert!(is_new, "{delivery:?} is listed twice");
        let is_dead = delivery.webhook_endpoint_id.is_some_and(|id| id.to_string() == dead);
        assert_eq!((is_dead, delivery.attempts >= 3), (delivery.status == Status::Failed, is_dead), "{delivery:?}");
    }
    assert_eq!(failed.len(), events, "deliveries that were not accepted have failed");
    assert_eq!(delivered.difference(&taken).count(), 0, "only accepted deliveries are marked as delivered");
    let unlogged = unlogged(said);
    let missing: Vec<_> = taken.difference(&delivered).collect();
    assert!(missing.iter().all(|id| unlogged.contains(*id)), "{missing:?} but {unlogged:?}");

    let calls = dynamodb.calls() + sqs.calls();
    eprintln!(
        "{events} events to 4 live endpoints and a dead one, {kills} kills, {calls} calls of which a fifth failed, \
         {:.0} s: nothing lost, {duplicates} duplicates among {} deliveries, {} of them not in the log",
        started.elapsed().as_secs_f64(),
        4 * events + duplicates,
        missing.len(),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_events_survive_failing_calls_and_three_kills() {
    survive(60, 3, Duration::from_millis(700), 5, Duration::from_mins(5)).await;
}

/// The full version: `cargo test --release -p tests -- --ignored two_thousand`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; the test above is a smaller version"]
async fn two_thousand_events_survive_failing_calls_and_ten_kills() {
    // As in the template, messages are redelivered only after their invocation has ended.
    survive(2000, 10, Duration::from_secs(3), 30, Duration::from_mins(15)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn misbehaving_receivers_do_not_fill_the_memory() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let good = Receiver::start().await;
    let settings = [("RETRY_SCHEDULE", ""), ("DELIVERY_TIMEOUT", "2")];
    let worker = worker(world.stack.dynamodb(), world.stack.sqs(), &settings, Stdio::null());
    world.endpoint(&tenant, &good.url("/"), "s").await;
    enqueue(&world, &tenant, 20).await;
    good.wait_for(20).await;
    let idle = memory(worker.id().expect("it runs"), "VmRSS");

    let mut rough = Vec::new();
    for manner in [Manner::Floods, Manner::Hangs, Manner::Drips, Manner::HeadersWithoutEnd] {
        for _ in 0..8 {
            let receiver = Rough::start(manner).await;
            let endpoint = world.endpoint(&tenant, receiver.url(), "s").await;
            rough.push((endpoint, receiver));
        }
    }
    enqueue(&world, &tenant, 40).await;
    let (mut fewest, deadline) = (0, Instant::now() + Duration::from_secs(90));
    while fewest < 4 {
        assert!(Instant::now() < deadline, "{fewest} of a receiver's deliveries have ended");
        tokio::time::sleep(Duration::from_millis(500)).await;
        fewest = fewest_ended(&world, &tenant, &rough).await;
    }
    let peak = memory(worker.id().expect("it runs"), "VmHWM");
    eprintln!("idle {} MiB, at most {} MiB beside 32 misbehaving receivers", idle / 1024, peak / 1024);
    assert!(peak - idle < 64 * 1024, "idle {idle} KiB, peak {peak} KiB");

    let (neighbor, receiver) = (world.tenant("neighbor").await, Receiver::start().await);
    world.endpoint(&neighbor, &receiver.url("/"), "s").await;
    enqueue(&world, &neighbor, 1).await;
    receiver.wait_for(1).await;
}

/// The number of ended deliveries of the endpoint with the fewest.
async fn fewest_ended(world: &World, tenant: &Tenant, rough: &[(String, Rough)]) -> usize {
    let log = world.log(&tenant.id).await;
    let ended: Vec<_> = log.iter().filter(|it| it.status != Status::Pending).map(|it| it.webhook_endpoint_id).collect();
    let ended_at = |endpoint: &str| ended.iter().flatten().filter(|id| id.to_string() == endpoint).count();
    rough.iter().map(|(endpoint, _)| ended_at(endpoint)).min().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_settings_of_the_environment_change_nothing() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let (receiver, proxy) = (Receiver::start().await, Receiver::start().await);
    let proxy_url = proxy.url("");
    let settings = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, proxy_url.as_str()));
    let _worker = worker(world.stack.dynamodb(), world.stack.sqs(), &settings, Stdio::null());
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    enqueue(&world, &tenant, 1).await;
    receiver.wait_for(1).await;
    assert!(proxy.received().await.is_empty());
}

/// Creates an endpoint for each of `tenants` on each of `hosts` hosts, all represented by one receiver.
async fn on_many_hosts(world: &World, receiver: &Receiver, tenants: u8, hosts: u8) -> Vec<Tenant> {
    let mut all = Vec::new();
    for number in 1..=tenants {
        let tenant = world.tenant(&format!("tenant-{number}")).await;
        for host in 1..=hosts {
            let url = receiver.url_of_host(Ipv4Addr::new(127, number, host, 1));
            world.endpoint(&tenant, &url, "s").await;
        }
        all.push(tenant);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn running_out_of_descriptors_does_not_count_as_an_attempt() {
    let world = World::start().await;
    let receiver = Receiver::everywhere().await;
    let tenants = on_many_hosts(&world, &receiver, 1, 60).await;
    world.come_back_after(5).await;
    // These are far fewer descriptors than 200 concurrent attempts need, and too few even for the queues.
    let _worker = worker_with(40, &world, &[("RETRY_SCHEDULE", "")]);
    enqueue(&world, &tenants[0], 1).await;
    let (mut hosts, deadline) = (BTreeSet::new(), Instant::now() + Duration::from_mins(1));
    while hosts.len() < 60 {
        hosts.extend(receiver.received().await.iter().map(|r| r.header("host").to_owned()));
        assert!(Instant::now() < deadline, "{} of 60 deliveries arrived", hosts.len());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.log_of(&tenants[0].id, Status::Failed).await.is_empty());
    assert!(world.dead_letters().await.is_empty());
}

/// Sends events for tenants with this many hosts each, through a worker with this many file descriptors. Every second
/// round adds receivers that answer `100 Continue` endlessly and a receiver that closes its connection after each
/// response. Every possible delivery must succeed on the first and only attempt.
async fn deliver_beside_rough_ones(tenants: u8, hosts: u8, descriptors: usize, at_once: usize, rounds: usize) {
    let world = World::start().await;
    let (healthy, closing) = (Receiver::everywhere().await, Rough::start(Manner::ClosesAfterEach).await);
    let tenants = on_many_hosts(&world, &healthy, tenants, hosts).await;
    let (closed, harassed) = (world.tenant("closed").await, world.tenant("harassed").await);
    world.endpoint(&closed, closing.url(), "s").await;
    let mut endless = Vec::new();
    for _ in 0..20 {
        let receiver = Rough::start(Manner::Continues).await;
        world.endpoint(&harassed, receiver.url(), "s").await;
        endless.push(receiver);
    }
    let at_once = at_once.to_string();
    let settings = [("RETRY_SCHEDULE", ""), ("MAX_CONCURRENT_ATTEMPTS", at_once.as_str())];
    let _worker = worker_with(descriptors, &world, &settings);

    let (mut sent, mut failed, mut calm, mut rough) = (BTreeMap::new(), 0, Vec::new(), Vec::new());
    let (in_round, closing_in_round) = (tenants.len() * usize::from(hosts), 30);
    for round in 1..=rounds {
        let rough_rounds = round / 2;
        let is_rough = round % 2 == 0;
        let started = Instant::now();
        if is_rough {
            enqueue(&world, &harassed, 1).await;
            enqueue(&world, &closed, closing_in_round).await;
        }
        for (number, tenant) in tenants.iter().enumerate() {
            let job = format!("{round}-{number}");
            sent.insert(job.clone(), (is_rough, Instant::now()));
            world.enqueue("job-events", event(&tenant.id, job)).await;
        }
        let deadline = Instant::now() + Duration::from_mins(1);
        while healthy.count().await < round * in_round
            || closing.arrivals().await.len() < rough_rounds * closing_in_round
            || failed < rough_rounds * endless.len()
        {
            failed = world.log_of(&harassed.id, Status::Failed).await.len();
            assert!(Instant::now() < deadline, "{failed} failed, {} arrived", healthy.count().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if is_rough {
            let before = rough.len();
            rough.extend(closing.arrivals().await.iter().skip(before).map(|at| *at - started));
        }
    }
    for tenant in tenants.iter().chain([&closed]) {
        assert!(world.log_of(&tenant.id, Status::Failed).await.is_empty());
    }
    for received in healthy.received().await {
        let (is_rough, at) = sent[received.json()["job_id"].as_str().expect("a job")];
        if is_rough { &mut rough } else { &mut calm }.push(received.at - at);
    }
    assert_eq!((calm.len() + rough.len()), rounds * in_round + rounds / 2 * closing_in_round, "nothing arrived twice");
    for (beside, mut waits) in [("no others", calm), ("rough receivers", rough)] {
        waits.sort();
        let (median, p99) = (waits[waits.len() / 2], waits[waits.len() * 99 / 100]);
        eprintln!("{} deliveries beside {beside}, from the queue on: median {median:?}, p99 {p99:?}", waits.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rough_receivers_and_many_hosts_do_not_cost_attempts() {
    deliver_beside_rough_ones(4, 60, 200, 40, 2).await;
}

/// The full version: `cargo test --release -p tests -- --ignored thousand_hosts`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half a minute; the test above is a smaller version"]
async fn rough_receivers_and_a_thousand_hosts_do_not_cost_attempts() {
    deliver_beside_rough_ones(10, 100, 1024, 200, 10).await;
}

/// The time from the start of this step until the event has reached the last healthy receiver.
async fn last_arrival(world: &World, tenant: &Tenant, healthy: &[Receiver], round: usize) -> Duration {
    world.enqueue("job-events", event(&tenant.id, round)).await;
    let started = Instant::now();
    world.poll("job-events").await;
    let mut last = Duration::ZERO;
    for receiver in healthy {
        last = last.max(receiver.received().await.last().expect("it has the event").at - started);
    }
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_endpoint_delays_the_eight_others_under_50_ms() {
    let world = World::with(&[("DELIVERY_TIMEOUT", "1")]).await;
    let tenant = world.tenant("acme").await;
    let mut healthy = Vec::new();
    for _ in 0..8 {
        let receiver = Receiver::start().await;
        world.endpoint(&tenant, &receiver.url("/"), "s").await;
        healthy.push(receiver);
    }
    let mut without: Vec<_> = Vec::new();
    for round in 0..5 {
        without.push(last_arrival(&world, &tenant, &healthy, round).await);
    }
    let hanging = Rough::start(Manner::Hangs).await;
    world.endpoint(&tenant, hanging.url(), "s").await;
    let mut with: Vec<_> = Vec::new();
    for round in 5..10 {
        with.push(last_arrival(&world, &tenant, &healthy, round).await);
    }
    // The minimum of five runs, because other load on the machine only adds to the time.
    let (without, with) = (without.into_iter().min().expect("five"), with.into_iter().min().expect("five"));
    assert!(with < without + Duration::from_millis(50), "{with:?} with, {without:?} without");
}
