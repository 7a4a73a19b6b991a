//! `fanfare replay`: logged deliveries, posted to a local program.

use std::time::Duration;

use serde_json::{Value, json};
use tests::{Receiver, RefusingPort, Tenant, World, event};

use super::{
    Machine, Output,
    listening::{Listener, begin},
};

const SECRET: &str = "a secret of some length";

fn lines(output: &Output) -> Vec<Value> {
    output.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn replay(machine: &Machine, program: &Receiver, more: &[&str]) -> Output {
    machine.run(&[&["replay", "--to", &program.url("/hook?a=b")], more].concat()).await
}

/// Sends an event, and waits until the log has its first attempt. Returns the delivery's id.
async fn attempted(world: &World, tenant: &Tenant, event: Value) -> String {
    let of_job = json!({"job_id": event["job_id"]});
    world.enqueue("job-events", event).await;
    loop {
        let page = world.rpc(&tenant.key, "deliveries/list", of_job.clone()).await;
        let delivery = page.ok()["deliveries"][0].clone();
        if delivery["attempts"] != json!(0) && delivery.is_object() {
            return delivery["delivery_id"].as_str().expect("an id").to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_posts_the_request_that_the_receiver_got() {
    let (world, tenant, machine, receiver) = begin(&[]).await;
    let program = Receiver::start().await;
    let endpoint = json!({
        "url": receiver.url("/receiver"), "signing_secret": SECRET, "headers": {"authorization": "Bearer hidden words"}
    });
    world.rpc(&tenant.key, "webhooks/create", endpoint).await.ok();
    let mut sent = event(&tenant.id, "job-1");
    sent["result"] = json!({"n": 1.5, "text": "é\u{2028}\"\\"});
    let id = attempted(&world, &tenant, sent).await;
    let original = receiver.received().await.remove(0);
    let log = async || world.rpc(&tenant.key, "deliveries/get", json!({"delivery_id": id})).await.ok().clone();
    let before = log().await;

    let short = &id.rsplit('.').next().expect("a part")[..8];
    let replayed = replay(&machine, &program, &[short]).await;
    assert!(replayed.code == 0 && replayed.out.contains("  job.completed  job-1  200  "), "{replayed:?}");
    for words in ["Replayed 1 of 1: 1 accepted. The log is unchanged.", "they are secret: authorization. Add --header."]
    {
        assert!(replayed.err.contains(words), "{replayed:?}");
    }
    let as_sent = replay(&machine, &program, &[&id, "--as-sent", "--header", "Authorization: mine"]).await;
    assert!(as_sent.code == 0 && !as_sent.err.contains("--header"), "{as_sent:?}");
    let posted = program.received().await;
    for one in &posted {
        one.verify(SECRET);
        assert_eq!((&one.body, one.path.as_str()), (&original.body, "/hook?a=b"));
        for name in ["content-type", "user-agent", "webhook-id", "x-event-type", "x-event-time", "x-webhook-signature"]
        {
            assert_eq!(one.header(name), original.header(name), "{name}");
        }
    }
    assert_eq!(posted[1].header("webhook-timestamp"), original.header("webhook-timestamp"));
    assert_eq!(posted[1].header("webhook-signature"), original.header("webhook-signature"));
    assert_eq!((posted[0].header("authorization"), posted[1].header("authorization")), ("", "mine"));
    assert_eq!((log().await, receiver.count().await), (before, 1), "a replay changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_without_its_request_is_skipped_with_a_reason() {
    let (world, tenant, machine, receiver) = begin(&[("KEPT_PAYLOAD_BYTES", "100")]).await;
    let program = Receiver::start().await;
    let thin = json!({"url": receiver.url("/"), "signing_secret": SECRET, "payload": "thin"});
    let thin = world.rpc(&tenant.key, "webhooks/create", thin).await.ok()["webhook_endpoint_id"].clone();
    let mut with_result = event(&tenant.id, "thin");
    with_result["result"] = json!("hidden");
    attempted(&world, &tenant, with_result).await;
    let accepted = replay(&machine, &program, &["--job", "thin"]).await;
    assert_eq!(accepted.code, 0, "{accepted:?}");
    let posted = program.received().await.remove(0);
    posted.verify(SECRET);
    assert_eq!((&posted.json()["result"], posted.header("x-event-payload")), (&json!(null), "thin"));

    let erased = attempted(&world, &tenant, event(&tenant.id, "erased")).await;
    world.rpc(&tenant.key, "deliveries/erase", json!({"delivery_id": erased})).await.ok();
    attempted(&world, &tenant, event(&tenant.id, "orphan")).await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": thin})).await.ok();
    let full = world.endpoint(&tenant, &receiver.url("/"), SECRET).await;
    let mut large = event(&tenant.id, "large");
    let noise: String = (0..400_u32).map(|number| number.wrapping_mul(2_654_435_761).to_string()).collect();
    large["result"] = json!(noise);
    attempted(&world, &tenant, large).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": full, "active": false})).await.ok();
    world.enqueue("job-events", event(&tenant.id, "held")).await;
    assert_eq!(machine.run(&["wait", "held"]).await.code, 0);
    for (job, options, reason) in [
        ("erased", &[][..], "its payload was erased"),
        ("orphan", &[], "its endpoint was deleted"),
        ("large", &[], "its payload is no longer kept"),
        ("held", &["--as-sent"], "it has had no attempt"),
    ] {
        let skipped = replay(&machine, &program, &[&["--job", job], options].concat()).await;
        assert_eq!(skipped.code, 1, "{skipped:?}");
        assert!(skipped.err.contains(&format!("Skipped job.completed of {job}: {reason}.")), "{skipped:?}");
        let json = replay(&machine, &program, &[&["--json", "--job", job], options].concat()).await;
        assert_eq!(lines(&json)[0]["skipped"], reason);
    }
    assert_eq!(program.count().await, 1);
    assert_eq!(replay(&machine, &program, &["--job", "held"]).await.code, 0, "a held delivery has a request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_is_replayed_oldest_first_within_its_limits() {
    let (world, tenant, machine, _) = begin(&[("RETRY_SCHEDULE", "600")]).await;
    let failing = Receiver::scripted(&[(500, &[]), (200, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &failing.url("/"), SECRET).await;
    for job in ["one", "two", "three"] {
        attempted(&world, &tenant, event(&tenant.id, job)).await;
    }
    let program = Receiver::scripted(&[(200, &[]), (400, &[])]).await;
    let failed = replay(&machine, &program, &["--json", "--failed", "--endpoint", &endpoint[..13]]).await;
    assert_eq!(failed.code, 1, "{failed:?}");
    let shown: Vec<_> = lines(&failed).iter().map(|line| (line["job_id"].clone(), line["outcome"].clone())).collect();
    assert_eq!(shown, [("one", "200"), ("three", "400")].map(|(job, outcome)| (json!(job), json!(outcome))));
    let last: Value = serde_json::from_str(failed.err.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["error"]["message"], "Not accepted: 1 of 2 deliveries.");
    let limited = replay(&machine, &program, &["--since", "1h", "--limit", "2", "--rate", "100"]).await;
    assert_eq!(limited.code, 0, "{limited:?}");
    for words in ["Only the newest 2 deliveries are replayed.", "Replayed 2 of 2: 2 accepted."] {
        assert!(limited.err.contains(words), "{limited:?}");
    }
    let jobs: Vec<_> = program.received().await.iter().map(|one| one.json()["job_id"].clone()).collect();
    assert_eq!(jobs, ["one", "three", "two", "three"].map(|job| json!(job)));
    assert_eq!(replay(&machine, &program, &["--job", "none"]).await.code, 4);
    let nothing = replay(&machine, &program, &["--since", "2999-01-01T00:00:00Z"]).await;
    assert!(nothing.code == 0 && nothing.err.contains("No deliveries found."), "{nothing:?}");
    for wrong in [&[][..], &["x", "--failed"], &["--endpoint", "x"], &["--failed", "--rate", "0"]] {
        assert_eq!(replay(&machine, &program, wrong).await.code, 2, "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_ends_at_the_first_failure_that_concerns_all() {
    let (world, tenant, mut machine, receiver) = begin(&[]).await;
    world.endpoint(&tenant, &receiver.url("/"), SECRET).await;
    for job in ["one", "two"] {
        attempted(&world, &tenant, event(&tenant.id, job)).await;
    }
    let refusing = RefusingPort::new();
    let closed = refusing.address().port();
    let to = closed.to_string();
    let ended = machine.run(&["replay", "--since", "1h", "--to", &to]).await;
    let hint = format!("hint: Nothing listens on localhost:{closed}. Start the program, or check --to.");
    assert!(ended.code == 1 && ended.err.contains(&hint), "{ended:?}");
    assert!(ended.err.contains("Replayed 1 of 2: 1 failed."), "{ended:?}");

    // This program accepts connections and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = silent.local_addr().expect("an address").port().to_string();
    let mut replayer = Listener::of(machine.command(&["replay", "--since", "1h", "--to", &to]));
    let post = tokio::task::spawn_blocking(move || silent.accept().map(|(stream, _)| (silent, stream)));
    let _held = post.await.expect("a thread").expect("a post");
    replayer.signal("INT");
    assert_eq!(replayer.ends().await, Some(130));
    assert_eq!(replayer.times("Replayed 0 of 2: none. The log is unchanged."), 1, "{:#?}", replayer.said());

    let arguments = ["replay", "--since", "1h", "--to", &receiver.url("/")];
    let key = world.key(&tenant.cookie, json!({"scopes": ["deliveries:read"]})).await;
    let refused = machine.run_in(&[("FANFARE_API_KEY", &key)], &arguments).await;
    assert!(refused.code == 1 && refused.err.contains("deliveries:write"), "{refused:?}");
    assert_eq!(machine.run_in(&[("FANFARE_API_KEY", "ak_wrong")], &arguments).await.code, 3);
    "http://127.0.0.1:1".clone_into(&mut machine.api);
    assert_eq!(machine.run_in(&[("FANFARE_API_KEY", &tenant.key)], &arguments).await.code, 5);
}
