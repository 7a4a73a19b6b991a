//! All commands except `listen`.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::{Receiver, World, event};

use super::{Machine, listening::Listener};

/// The script is tests/story.sh.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_manages_endpoints_and_deliveries() {
    let world = World::live(&[]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let machine = Machine::new(&world);
    let mut script = Command::new("bash");
    script.args(["-euo", "pipefail", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/story.sh")]).env_clear();
    script.env("PATH", Machine::path());
    script.env("XDG_CONFIG_HOME", &machine.home).env("FANFARE_API", &machine.api).env("KEY", &tenant.key);
    script.env("RECEIVER", receiver.url("/hook")).env("QUEUE", &world.stack.queues()["job-events"]);
    script.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || script.output().expect("bash")).await.expect("it ends");
    let told = [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    assert!(output.status.success(), "{told}");
    let received = receiver.received().await;
    let jobs: Vec<_> = received.iter().map(|one| one.json()["job_id"].clone()).collect();
    assert_eq!(jobs, ["test", "job-1", "job-1"].map(|job| json!(job)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_login_stores_a_key_that_only_its_owner_can_read() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    let mut login = machine.command(&["login", "--no-browser"]);
    let mut login = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut told = std::io::BufReader::new(login.stderr.take().expect("a pipe"));
    let page = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        while !line.contains("/signin?") {
            line.clear();
            assert_ne!(std::io::BufRead::read_line(&mut told, &mut line).expect("a line"), 0);
        }
        line.trim().to_owned()
    });
    let page = page.await.expect("a page");
    let page: reqwest::Url = page.parse().expect("a URL");
    let of = |name: &str| page.query_pairs().find(|(key, _)| key == name).expect("a value").1.into_owned();
    let request = json!({"requestId": of("cliLoginId"), "secret": of("cliLoginSecret")});
    world.rpc_by_session(&tenant.cookie, "auth/cliLoginApprove", request).await.ok();
    let ended = tokio::task::spawn_blocking(move || login.wait_with_output().expect("it ends")).await.expect("it ends");
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && told.contains("owner of") && told.contains(&tenant.id), "{told}");
    #[cfg(unix)]
    for (path, mode) in [("fanfare", 0o40700), ("fanfare/credentials.json", 0o100_600)] {
        let of_path = std::fs::metadata(machine.home.join(path)).expect("the path exists");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&of_path), mode, "{path}");
    }
    let keys = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    assert_eq!(keys.as_array().map(Vec::len), Some(2));
    assert_eq!(machine.run(&["whoami"]).await.code, 0);
    assert_eq!(machine.run(&["logout"]).await.code, 0);
    let keys = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    assert_eq!(keys.as_array().map(Vec::len), Some(1), "the login's key is deleted");
    assert_eq!(machine.run(&["whoami"]).await.code, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_has_an_exit_code_and_a_message() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    let signed_out = machine.run(&["endpoints", "list"]).await;
    assert_eq!((signed_out.code, signed_out.err.lines().count()), (3, 2), "{signed_out:?}");
    machine.signs_in(&tenant).await;
    let unknown = "01a1fd8f-10a2-77d3-8ec2-62101bd7f1e0";
    for (arguments, code, says) in [
        (&["endpoints", "test", unknown][..], 4, "Webhook endpoint not found."),
        (&["endpoints", "delete", unknown], 4, "No endpoint has an id beginning with"),
        (&["endpoints", "create", "nonsense"], 1, "url: "),
        (&["endpoints", "create"], 2, "Usage"),
        (&["deliveries", "list", "--since", "soon"], 2, "15m"),
        (&["--api", "http://127.0.0.1:1", "endpoints", "list"], 3, "Not signed in to http://127.0.0.1:1."),
        (&["--api", "ftp://127.0.0.1", "endpoints", "list"], 2, "--api"),
        (&["--api", "http://127.0.0.1/v1", "endpoints", "list"], 2, "must not have a path: remove /v1"),
        (&["listen", "--to", "http://3000"], 2, "0.0.11.184"),
        (&["listen", "--to", "ftp://localhost/"], 2, "--to"),
        (&["listen", "--to", "localhost:3000", "--endpoint", unknown], 4, "Endpoint not found."),
        (&["deliveries", "get", "--job", "unknown"], 4, "No delivery of unknown found."),
        (&["--api", "https://example.com", "send", "--tenant", "t", "--job", "j"], 1, "--queue-url"),
    ] {
        let answer = machine.run(arguments).await;
        assert_eq!(answer.code, code, "{arguments:?}: {answer:?}");
        assert!(answer.err.contains(says), "{arguments:?}: {answer:?}");
    }
    let mut command = machine.command(&["--api", "http://127.0.0.1:1", "whoami"]);
    let output = tokio::task::spawn_blocking(move || command.env("FANFARE_API_KEY", "x").output().expect("it ends"));
    assert_eq!(output.await.expect("it ends").status.code(), Some(5));
    // Another program, which answers 404.
    let elsewhere = [("FANFARE_API", world.stack.mail()), ("FANFARE_API_KEY", "x")];
    let elsewhere = machine.run_in(&elsewhere, &["endpoints", "list"]).await;
    assert!(elsewhere.code == 5 && elsewhere.err.contains("hint: Check --api."), "{elsewhere:?}");
    world
        .cli(
            &tenant.cookie,
            "api-key/delete",
            json!({"keyId": world.cli_get(&tenant.cookie, "api-key/list").await.body[0]["id"]}),
        )
        .await;
    assert_eq!(machine.run(&["endpoints", "list"]).await.code, 3, "the key is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn control_characters_of_others_do_not_reach_the_terminal() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(410, &[])]).await);
    let machine = Machine::new(&world);
    machine.signs_in(&tenant).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "\u{1b}[2J\u{202e}job\u{7}")).await;
    let listed = machine.run(&["deliveries", "list"]).await;
    assert!(listed.out.contains("job") && !listed.out.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{listed:?}");
    let json: Value = serde_json::from_str(&machine.run(&["--json", "deliveries", "list"]).await.out).expect("JSON");
    let id = json["deliveries"][0]["delivery_id"].as_str().expect("an id");
    let shown = machine.run(&["deliveries", "get", id]).await;
    assert!(shown.out.contains("HTTP 410") && !shown.out.contains('\u{1b}'), "{shown:?}");
    let raw = machine.run(&["--json", "deliveries", "list"]).await;
    assert!(raw.out.contains("\\u202e") && !raw.out.contains('\u{202e}'), "{raw:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_shows_the_cause_of_its_failure() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(302, &[("location", "https://example.com/new?key=canary")])]).await;
    let machine = Machine::new(&world);
    machine.signs_in(&tenant).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let shown = machine.run(&["deliveries", "get", "--job", "job-1"]).await;
    assert!(shown.out.contains("redirected the request to https://example.com/new"), "{shown:?}");
    assert!(!shown.out.contains("canary"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_names_its_delivery_and_stats_count_failures_by_reason() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[]), (500, &[])]).await);
    let machine = Machine::new(&world);
    machine.signs_in(&tenant).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.endpoint(&tenant, &receiver.url("/other"), "s").await;
    world.deliver(event(&tenant.id, "one")).await;
    let several = machine.run(&["deliveries", "resend", "--job", "one"]).await;
    assert!(several.code == 1 && several.err.contains("one has several deliveries."), "{several:?}");
    assert!(several.err.contains("`fanfare deliveries list --job JOB`"), "{several:?}");
    let resent = machine.run(&["deliveries", "resend", "--job", "one", "--endpoint", &endpoint]).await;
    assert_eq!(resent.out, "Delivery will be resent\n", "{resent:?}");
    let stats = machine.run(&["deliveries", "stats"]).await;
    assert!(stats.out.contains("FAILED FOR") && stats.out.contains("status_5xx"), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_is_no_longer_listed_prints_json() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let recover = machine.command(&["--json", "deliveries", "recover", "--since", "1h"]);
    let recover = tokio::spawn(super::ended(recover, ""));
    let count = async || world.rpc(&tenant.key, "deliveries/stats", json!({})).await.ok()["recoveries"].clone();
    while count().await == json!([]) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // Statistics list ten recoveries.
    for number in 0..10 {
        let fields = json!({"since": "2026-01-31T12:00:00Z", "workflow": number.to_string()});
        world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    }
    let recovered = recover.await.expect("it ends");
    let printed: Value = serde_json::from_str(&recovered.out).unwrap_or_default();
    assert!(recovered.code == 0 && printed["recovery_id"].is_string(), "{recovered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_without_its_service_says_that_it_waits() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let recover = Listener::of(machine.command(&["deliveries", "recover", "--since", "1h"]));
    recover.says("0 resent so far").await;
    world.stack.stop().await;
    recover.says("connection refused. Retrying. The recovery continues in the background.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_event_goes_through_the_service_to_an_endpoint() {
    let world = World::live(&[]).await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    assert_eq!(machine.run(&["trigger", "job.failed"]).await.code, 3);
    machine.signs_in(&tenant).await;
    let none = machine.run(&["trigger", "job.failed"]).await;
    assert!(none.code == 4 && none.err.contains("The organization has no endpoint."), "{none:?}");
    let receiver = Receiver::scripted(&[(200, &[]), (503, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), "a secret of some length").await;
    let sent = machine.run(&["trigger", "job.failed"]).await;
    assert!(sent.code == 0 && sent.out.contains("\nResult: HTTP 200 after "), "{sent:?}");
    let posted = receiver.received().await.remove(0);
    posted.verify("a secret of some length");
    assert_eq!((posted.header("x-event-type"), &posted.json()["status"]), ("job.failed", &json!("failed")));
    let refused = machine.run(&["endpoints", "test", &endpoint, "--event", "job.completed"]).await;
    assert!(refused.code == 1 && refused.err.contains("The attempt failed with HTTP 503"), "{refused:?}");
    assert_eq!(receiver.received().await[1].json()["event"], "job.completed");
    world.endpoint(&tenant, &receiver.url("/other"), "a secret of some length").await;
    let several = machine.run(&["trigger", "job.failed"]).await;
    assert!(several.code == 1 && several.err.contains("hint: Choose one with --endpoint"), "{several:?}");
    let chosen = machine.run(&["--json", "trigger", "job.failed", "--endpoint", &endpoint]).await;
    let id = serde_json::from_str::<Value>(&chosen.out).expect("JSON")["delivery_id"].clone();
    assert!(chosen.code == 0 && id.as_str().expect("an id").starts_with(&endpoint), "{chosen:?}");
    let unknown = machine.run(&["trigger", "job.done"]).await;
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_needs_no_folder_and_an_operator_no_account() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    let run = async |key: &str, arguments: &[&str]| {
        let mut command = machine.command(arguments);
        command.env_remove("XDG_CONFIG_HOME");
        if !key.is_empty() {
            command.env("FANFARE_API_KEY", key);
        }
        tokio::task::spawn_blocking(move || command.output().expect("it ends")).await.expect("it ends")
    };
    let who = run(&tenant.key, &["whoami"]).await;
    assert!(String::from_utf8_lossy(&who.stdout).contains(&tenant.email), "{who:?}");
    let ours = serde_json::json!({"kind": "organization", "scopes": ["webhooks:read"]});
    let who = run(&world.key(&tenant.cookie, ours).await, &["whoami"]).await;
    assert!(String::from_utf8_lossy(&who.stdout).starts_with("organization key of Doe & Co ("), "{who:?}");
    assert_eq!(run("", &["whoami"]).await.status.code(), Some(3));
    let queue = &world.stack.queues()["job-events"];
    let sent = run("", &["send", "--tenant", &tenant.id, "--job", "one", "--queue-url", queue]).await;
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(world.drain("job-events").await[0]["job_id"], "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_for_one_service_and_a_logout_forgets_the_latest() {
    let (world, other) = (World::start().await, World::start().await);
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    machine.signs_in(&tenant).await;
    let whoami = async || {
        let mut command = machine.command(&["whoami"]);
        command.env_remove("FANFARE_API");
        tokio::task::spawn_blocking(move || command.output().expect("it ends")).await.expect("it ends")
    };
    assert!(String::from_utf8_lossy(&whoami().await.stdout).contains(world.stack.api()), "the latest login counts");
    let elsewhere = machine.run(&["--api", other.stack.api(), "whoami"]).await;
    assert_eq!(elsewhere.code, 3, "{elsewhere:?}");
    assert_eq!(machine.run(&["logout"]).await.code, 0);
    let signed_out = whoami().await;
    let told = String::from_utf8_lossy(&signed_out.stderr);
    assert!(signed_out.status.code() == Some(3) && told.contains("Not signed in to http://127.0.0.1:9000"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_shows_each_new_delivery_and_each_change_once() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(500, &[])]).await);
    let machine = Machine::new(&world);
    machine.signs_in(&tenant).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "before")).await;
    let arguments = ["--json", "deliveries", "list", "--watch", "--limit", "1"];
    let mut watch = machine.command(&arguments).stdout(Stdio::piped()).spawn().expect("it starts");
    let told = std::io::BufReader::new(watch.stdout.take().expect("a pipe"));
    let (tell, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::BufRead::lines(told).map_while(Result::ok).all(|line| tell.send(line).is_ok()));
    let mut next = async || {
        let line = lines.recv().await.expect("a line");
        let delivery: Value = serde_json::from_str(&line).expect("JSON");
        format!("{} {}", tests::text(&delivery["job_id"]), tests::text(&delivery["status"]))
    };
    assert_eq!(next().await, "before failed");
    // More events at once than fit on the first page.
    for job in ["one", "two", "three"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    for job in ["one", "two", "three"] {
        assert_eq!(next().await, format!("{job} delivered"));
    }
    machine.run(&["deliveries", "resend", "--job", "before"]).await;
    world.poll_due().await;
    while next().await != "before delivered" {}
    watch.kill().expect("it runs");
    watch.wait().expect("it ends");
}
