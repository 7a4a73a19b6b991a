//! `fanfare mcp`, driven by the lines that a program with a language model sends.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event};

use super::Machine;

/// The revisions of the protocol with sessions.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const SECRET: &str = "a signing secret of some length";

/// A session with the server.
struct Session {
    server: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Every line that the server has written.
    lines: String,
    id: u32,
}

impl Session {
    async fn start(machine: &Machine, tenant: &Tenant, arguments: &[&str], revision: &str) -> Self {
        let mut command = machine.command(&[&["mcp"], arguments].concat());
        command.env("FANFARE_API_KEY", &tenant.key).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().expect("it starts");
        let input = server.stdin.take().expect("a pipe");
        let output = BufReader::new(server.stdout.take().expect("a pipe"));
        let mut session = Self { server, input, output, lines: String::new(), id: 0 };
        let client = json!({"name": "a test", "version": "1"});
        let hello = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let answer = session.ask("initialize", hello).await;
        assert_eq!(answer["result"]["protocolVersion"], revision, "{answer}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "fanfare");
        session.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("it listens");
    }

    /// Sends a request and returns the response. The service runs in the same process, so the wait must not block it.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.write(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        let mut line = String::new();
        tokio::task::block_in_place(|| self.output.read_line(&mut line)).expect("a line");
        self.lines.push_str(&line);
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], self.id, "{answer}");
        answer
    }

    async fn tools(&mut self) -> Vec<Value> {
        self.ask("tools/list", json!({})).await["result"]["tools"].as_array().expect("tools").clone()
    }

    /// Uses a tool. Returns whether it failed, and its text.
    async fn use_tool(&mut self, name: &str, arguments: Value) -> (bool, String) {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        let result = &answer["result"];
        assert_eq!(result["content"][0]["type"], "text", "{answer}");
        (result["isError"] == true, tests::text(&result["content"][0]["text"]).to_owned())
    }

    async fn used(&mut self, name: &str, arguments: Value) -> Value {
        let (is_error, text) = self.use_tool(name, arguments).await;
        assert!(!is_error, "{name}: {text}");
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// Closes standard input, after which the server ends. Returns all that it has written.
    fn end(self) -> String {
        let Self { mut server, input, output, lines, .. } = self;
        drop(input);
        let status = tokio::task::block_in_place(|| server.wait()).expect("it ends");
        assert!(status.success(), "{status}");
        assert_eq!(output.lines().count(), 0);
        lines
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_finds_explains_and_resends_a_failed_delivery() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::scripted(&[(401, &[]), (204, &[])]).await);
    let machine = Machine::new(&world);
    let endpoint = world.endpoint(&tenant, &receiver.url("/hook"), SECRET).await;
    world
        .rpc(&tenant.key, "webhooks/update", json!({"id": endpoint, "headers": {"x-team": "a header's value"}}))
        .await
        .ok();
    world.deliver(event(&tenant.id, "job-1")).await;
    let mut session = Session::start(&machine, &tenant, &["--allow-writes"], "2025-06-18").await;

    assert_eq!(session.used("whoami", json!({})).await["organization"]["id"], tenant.id);
    assert_eq!(session.used("list_endpoints", json!({})).await["endpoints"][0]["webhook_endpoint_id"], endpoint);
    assert_eq!(session.used("list_endpoints", json!({"state": "disabled"})).await["matching"], 0);
    assert_eq!(
        session.used("get_endpoint", json!({"endpoint": &endpoint[..13]})).await["header_names"],
        json!(["x-team"])
    );
    assert_eq!(session.used("delivery_stats", json!({})).await["total"]["failed"], 1);
    let failed = session.used("list_deliveries", json!({"status": "failed", "since": "1h", "limit": 20.0})).await;
    let delivery = failed["deliveries"][0]["delivery_id"].clone();
    assert_eq!(failed["deliveries"][0]["last_status_code"], 401);
    let explained = session.used("explain_delivery", json!({"delivery": delivery})).await;
    let explained = explained.as_str().expect("text");
    for part in ["job.completed of job-1", "HTTP 401", "they reject the signature", "resend this delivery"] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let received = &receiver.received().await[0];
    let signature = format!("x-webhook-signature: {}", received.header("x-webhook-signature"));
    let body = String::from_utf8_lossy(&received.body).replace(':', ": ");
    let verified = session.used("verify_request", json!({"headers": signature, "body": body})).await;
    assert_eq!(
        (&verified["verified"], verified["causes"][0]["cause"].as_str()),
        (&json!(false), Some("body_reserialized"))
    );
    session.used("resend_delivery", json!({"delivery": delivery})).await;
    world.handle_all().await;
    let found = session.used("get_delivery", json!({"delivery": delivery})).await;
    assert_eq!((&found["delivery"]["status"], &found["payload"]["is_whole"]), (&json!("delivered"), &json!(true)));
    let changes = session.used("list_changes", json!({"action": "delivery.resent"})).await;
    assert_eq!(changes["entries"][0]["target"]["id"], delivery);
    let test = session.used("test_endpoint", json!({"endpoint": endpoint, "event": "job.failed"})).await;
    assert_eq!(test["success"], true);
    session.used("set_endpoint_active", json!({"endpoint": endpoint, "active": false})).await;
    assert_eq!(world.only_endpoint(&tenant).await["active"], false);
    let recovery = session.used("recover_deliveries", json!({"since": "1h", "status": "failed"})).await;
    assert!(recovery["recovery_id"].is_string(), "{recovery}");
    let lines = session.end();
    assert!(!lines.contains(SECRET) && !lines.contains("a header's value") && !lines.contains(&tenant.key));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_change_something_have_to_be_allowed() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    let mut reading = Session::start(&machine, &tenant, &[], "2025-06-18").await;
    let mut writing = Session::start(&machine, &tenant, &["--allow-writes"], "2025-06-18").await;
    let (reads, all) = (reading.tools().await, writing.tools().await);
    assert!(reads.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true), "{reads:?}");
    let writes: Vec<_> = all.iter().filter(|tool| !reads.contains(tool)).map(|tool| &tool["name"]).collect();
    assert_eq!(writes, ["recover_deliveries", "resend_delivery", "set_endpoint_active", "test_endpoint"]);
    for tool in &all {
        let schema = &tool["inputSchema"];
        assert!(tool["description"].as_str().is_some_and(|text| text.len() > 40), "{tool}");
        assert_eq!(schema["type"], "object", "{tool}");
        for property in schema["properties"].as_object().expect("properties").values() {
            assert!(property["description"].is_string() && property["type"].is_string(), "{tool}");
            let keywords = ["type", "description", "enum", "pattern", "minimum"];
            let others: Vec<_> = property.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            assert!(others.iter().all(|name| keywords.contains(name)), "some clients fail at other keywords: {tool}");
        }
    }
    let refused = reading.ask("tools/call", json!({"name": "resend_delivery", "arguments": {"delivery": "a"}})).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    reading.end();
    writing.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_can_read_what_is_wrong_with_its_call() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    let mut session = Session::start(&machine, &tenant, &[], "2025-11-25").await;
    for (name, arguments, says) in [
        ("get_delivery", json!({"delivery": "0123abcd"}), "No delivery has an id beginning with 0123abcd. The newest"),
        ("get_endpoint", json!({"endpoint": "0123"}), "No endpoint has an id beginning with 0123."),
        ("list_deliveries", json!({"outcome": "status_500"}), "outcome: Must be one of delivered, status_5xx"),
    ] {
        let (is_error, text) = session.use_tool(name, arguments).await;
        assert!(is_error && text.contains(says), "{name}: {text}");
    }
    for (name, arguments, says) in [
        ("list_deliveries", json!({"since": "yesterday"}), "must be an age such as 90s, 15m, 2h or 3d"),
        ("list_deliveries", json!({"state": "failed"}), "unknown field `state`"),
        ("list_deliveries", json!({"limit": 1.5}), "1.5 is not a whole number"),
        ("list_deliveries", json!({"status": "lost"}), "unknown variant `lost`"),
    ] {
        let answer = session.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        assert!(answer.to_string().contains(says), "{answer}");
    }
    session.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_each_revision_of_the_protocol_can_connect() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    for revision in REVISIONS {
        let mut session = Session::start(&machine, &tenant, &[], revision).await;
        assert_eq!(session.used("list_endpoints", json!({})).await["all"], 0, "{revision}");
        session.end();
    }
    let signed_out = machine.run(&["mcp"]).await;
    assert!(signed_out.code == 3 && signed_out.err.contains("in the settings of the program"), "{signed_out:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_before_many_others_is_listed() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    world.endpoint(&tenant, "https://example.com/hook", SECRET).await;
    let entries = world.items("audit").await;
    let mut other =
        entries.into_iter().find(|entry| entry["action"].as_s().is_ok_and(|action| action == "key.created"));
    let other = other.as_mut().expect("an entry");
    // The service reads a thousand entries for a page.
    for number in 0..1001 {
        other.insert("entry".to_owned(), AttributeValue::S(format!("9999999999999.{number:032x}")));
        world.put("audit", other.clone()).await;
    }
    let mut session = Session::start(&machine, &tenant, &[], "2025-06-18").await;
    let changes = session.used("list_changes", json!({"action": "webhook.created"})).await;
    assert_eq!(changes["entries"][0]["target"]["name"], "https://example.com/hook", "{changes}");
    let first = session.used("list_changes", json!({"limit": 1})).await;
    let second = session.used("list_changes", json!({"limit": 1, "cursor": first["next_cursor"]})).await;
    assert_ne!(first["entries"], second["entries"]);
}
