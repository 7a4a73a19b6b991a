//! `fanfare verify`.

use serde_json::{Value, json};
use tests::{Receiver, World, event};

use super::Machine;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_verified_from_a_file_or_options() {
    let (world, receiver) = (World::start().await, Receiver::start().await);
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=").await;
    let mut event = event(&tenant.id, "j");
    event["result"] = json!({"rate": 1.5});
    world.deliver(event).await;
    let received = receiver.received().await.remove(0);
    let lines = received.headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().expect("text")));
    let (headers, body) = (lines.collect::<String>(), String::from_utf8(received.body.to_vec()).expect("text"));

    let request = format!("POST / HTTP/1.1\r\n{}\r\n{body}", headers.replace('\n', "\r\n"));
    let verified = machine.run_with(&["verify"], &request).await;
    assert_eq!(verified.code, 0, "{verified:?}");
    assert!(verified.out.starts_with("Verified.\n    webhook-signature is valid, with the current secret as text\n"));

    let file = |name: &str, content: &str| {
        let path = std::env::temp_dir().join(format!("{}-{name}", super::common_id()));
        std::fs::write(&path, content).expect("it is written");
        path.to_str().expect("text").to_owned()
    };
    let (request, headers_file) = (file("request", &request), file("headers", &headers));
    let spaced = body.replace("\"rate\":1.5", "\"rate\": 1.5");
    let body_file = file("body", &spaced);
    let whole = machine.run(&["--json", "verify", &request, "--endpoint", &id[..8]]).await;
    let found: Value = serde_json::from_str(&whole.out).expect("JSON");
    assert_eq!((whole.code, &found["verified"]), (0, &json!(true)), "{whole:?}");

    let apart = machine.run(&["verify", "--headers", &headers_file, "--body", &body_file]).await;
    assert_eq!((apart.code, apart.err.as_str()), (1, ""), "{apart:?}");
    let at = spaced.find(" 1.5").expect("it is there");
    for line in
        ["Not verified.", "body_reserialized: ", &format!("    from byte {at}\n"), "    seen: …", "\"rate\": 1.5"]
    {
        assert!(apart.out.contains(line), "{line}: {apart:?}");
    }
    let json = machine.run(&["--json", "verify", "--headers", &headers_file, "--body", &body_file]).await;
    let found: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((json.code, &found["causes"][0]["at"]), (1, &json!(at)), "{json:?}");

    let id_only = format!("webhook-id: {}", received.header("webhook-id"));
    let missing = machine.run_with(&["verify", "--header", &id_only, "--header", "host: x"], &body).await;
    assert!(missing.code == 1 && missing.out.contains("headers_missing: "), "{missing:?}");
    let late = ["verify", "--headers", &headers_file, "--received-at", "2020-01-31T12:00:00Z"];
    let late = machine.run_with(&late, &body).await;
    assert!(late.code == 1 && late.out.contains("timestamp_tolerance: "), "{late:?}");
    let signature = received.header("webhook-signature").split(' ').next().expect("an entry");
    let computed = machine.run_with(&["verify", "--headers", &headers_file, "--computed", signature], &body).await;
    assert!(computed.code == 1 && computed.out.contains("signature_entries: "), "{computed:?}");

    let large = file("large", &"x".repeat(2 << 20));
    for (arguments, input, code, message) in [
        (&["verify"][..], "no empty line", 2, "no empty line after its headers"),
        (&["verify", "--body", &body_file], "", 2, "The headers are missing"),
        (&["verify", "/nowhere"], "", 1, "Could not use /nowhere"),
        (&["verify", "--endpoint", "ffffffff"], &request, 4, "ffffffff"),
        (&["verify", &large], "", 1, "larger than"),
    ] {
        let refused = machine.run_with(arguments, if input == request { "a: b\n\n{}" } else { input }).await;
        assert!(refused.code == code && refused.err.contains(message), "{arguments:?}: {refused:?}");
    }
    for path in [request, headers_file, body_file, large] {
        std::fs::remove_file(path).expect("it is removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_endpoints_need_a_choice() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let none = machine.run_with(&["verify"], "a: b\n\n{}").await;
    assert!(none.code == 4 && none.err.contains("no endpoint"), "{none:?}");
    for path in ["a", "b"] {
        world.endpoint(&tenant, &format!("https://example.com/{path}"), "a secret of some length").await;
    }
    let several = machine.run_with(&["verify"], "a: b\n\n{}").await;
    assert!(several.code == 1 && several.err.contains("--endpoint"), "{several:?}");
}
