//! The code and the template have the same functions, names and sample events, and the schema fits the function.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};
use tests::World;

use super::{LEAST, functions, template, text, variables};

/// The names of the entries in a directory of the repository.
fn directory(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let entries = fs::read_dir(path).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_of_tables_and_queues_are_fixed() {
    let world = World::start().await;
    let queues: Vec<_> = world.stack.queues().keys().map(String::as_str).collect();
    assert_eq!(
        queues,
        [
            "deliveries",
            "deliveries-dead",
            "hanging-deliveries",
            "hanging-deliveries-dead",
            "job-events",
            "job-events-dead",
            "slow-deliveries",
            "slow-deliveries-dead",
        ]
    );
    let tables: Vec<_> = world.stack.tables().keys().map(String::as_str).collect();
    assert_eq!(
        tables,
        ["api-keys", "audit", "deliveries", "invitations", "organizations", "tokens", "users", "webhook-endpoints"]
    );
}

#[test]
fn every_crate_is_a_function_and_has_its_sample_event() {
    let crates: BTreeSet<String> = local::function_names().map(str::to_owned).collect();
    let template = template(&LEAST);
    assert_eq!(functions(&template).map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>(), crates);
    let mut events = directory("events");
    assert!(events.remove("job-event.schema.json") && events.remove("fields.json"));
    assert_eq!(events, crates.iter().map(|name| format!("{name}.json")).collect());
}

/// The documentation promises these numbers.
#[test]
fn the_default_is_ten_attempts_of_15_seconds_in_three_days() {
    let template = template(&LEAST);
    let deliver = functions(&template).find(|(name, _)| *name == "webhooks-deliver").expect("the function").1;
    assert_eq!(variables(deliver)["RETRY_SCHEDULE"], "5,300,1800,7200,18000,36000,50400,72000,72000");
    assert_eq!(text(&variables(deliver)["DELIVERY_TIMEOUT"]), "15");
}

/// An unused parameter would have no effect.
#[test]
fn every_parameter_is_used() {
    let source = include_str!("../../../../template.yaml");
    let template = template(&LEAST);
    for name in template["Parameters"].as_object().expect("parameters").keys() {
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        let used = source.split(&format!("!Ref {name}")).skip(1).any(ends) || source.contains(&format!("${{{name}}}"));
        assert!(used, "{name}");
    }
}

/// The function accepts messages that are valid according to the schema, and rejects all others.
#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_job_events_matches_the_function() {
    let schema: Value = serde_json::from_str(include_str!("../../../../events/job-event.schema.json")).expect("JSON");
    let schema = jsonschema::draft202012::new(&schema).expect("a schema");
    let sample: Value = serde_json::from_str(include_str!("../../../../events/webhooks-deliver.json")).expect("JSON");
    for record in sample["Records"].as_array().expect("records") {
        let event: Value = serde_json::from_str(text(&record["body"])).expect("JSON");
        assert!(schema.is_valid(&event), "{event}");
    }

    let with = |more: Value| {
        let mut event = json!({"event": "job.completed", "tenant_id": "t", "job_id": "j"});
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        event
    };
    let callback = |url: &str, secret: &str| with(json!({"callback_url": url, "callback_secret": secret}));
    let skipped = |more: Value| {
        let mut event = with(more);
        event["skip_callbacks"] = json!(true);
        event
    };
    let good = [
        with(json!({})),
        with(json!({"event": "job.failed", "error": {"message": "out of cogs"}, "more": 1})),
        with(json!({"nonce": null, "workflow": null, "deployment_id": null, "status": null, "result": null})),
        with(json!({"callback_url": null, "callback_secret": null, "skip_callbacks": null})),
        with(json!({"tenant_id": "t".repeat(128), "job_id": "", "workflow": "", "nonce": "", "traceparent": ""})),
        with(json!({"job_id": "ä".repeat(1025)})),
        with(json!({"callback_url": "https://example.com/hook"})),
        callback("", ""),
        callback("", "s"),
        callback("https://example.com/", ""),
        skipped(json!({"callback_url": "HTTPS://Example.com/@me?a@b", "callback_secret": "s"})),
        skipped(json!({"callback_url": "hTTp://example.com:8080", "callback_secret": "\u{feff}"})),
        skipped(json!({"callback_url": "https://example.com\\a", "callback_secret": "ä".repeat(256)})),
        skipped(json!({"callback_url": format!("https://example.com/{}", "ä".repeat(2028)), "callback_secret": "s"})),
        skipped(json!({"callback_url": "https://example.com/hook?a=b", "callback_secret": "s"})),
        skipped(json!({"result": [1, "2", {"three": 3.0}], "mapped_stack": "text", "nonce": 7})),
    ];
    let bad = [
        json!([]),
        json!({"event": "job.completed", "tenant_id": "t"}),
        with(json!({"event": "job.started"})),
        with(json!({"tenant_id": ""})),
        with(json!({"tenant_id": "a b"})),
        with(json!({"job_id": 7})),
        with(json!({"skip_callbacks": "yes"})),
        with(json!({"tenant_id": "t".repeat(129)})),
        with(json!({"job_id": null})),
        with(json!({"skip_callbacks": ""})),
        with(json!({"callback_url": 7})),
        callback("ftp://example.com", "s"),
        callback("https:example.com", "s"),
        callback("https:/example.com/", "s"),
        callback("https://", "s"),
        callback("https://me@example.com/", "s"),
        callback("https://@example.com/", "s"),
        callback("https://example.com/#a", "s"),
        callback("https://example.com/a b", "s"),
        callback("https://example.com/a\u{a0}", "s"),
        callback("https://example.com/hook\u{200b}", "s"),
        callback("https://exam\u{ad}ple.com/", "s"),
        callback("https://example.com/?a=\u{2060}", "s"),
        callback("https://example.com/\u{feff}", "s"),
        callback(&format!("https://example.com/{}", "ä".repeat(2029)), "s"),
        callback("https://example.com/", " "),
        callback("https://example.com/", "\u{85}\u{3000}"),
        callback("https://example.com/", &"ä".repeat(257)),
    ];
    for (events, valid) in [(&good[..], true), (&bad[..], false)] {
        let world = World::start().await;
        for event in events {
            assert_eq!(schema.is_valid(event), valid, "{event}");
            let record = json!({"messageId": "m", "body": event.to_string(), "eventSourceARN": "a:job-events"});
            let answer = world.stack.invoke("webhooks-deliver", json!({"Records": [record]})).await.expect("an answer");
            assert_eq!(answer["batchItemFailures"] == json!([]), valid, "{event}");
        }
    }
}
