//! Functions, routes, variables and sample events: each is there in the code and in the template, or in neither.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use common::config::{ConfigError, Env};
use serde_json::{Value, json};
use tests::World;

use super::{LEAST, functions, template, text, variables};

/// A function's crate.
struct Crate {
    name: &'static str,
    /// None for one that reads queues.
    route: Option<&'static str>,
    start: fn(&Env) -> Result<(), ConfigError>,
}

macro_rules! http {
    ($name:literal, $crate_:ident) => {
        Crate { name: $name, route: Some($crate_::ROUTE), start: |env| $crate_::function(env).map(drop) }
    };
}

const CRATES: [Crate; 8] = [
    http!("auth-accept-invite-and-signup", auth_accept_invite_and_signup),
    http!("auth-cli", auth_cli),
    http!("auth-signup-and-create-org", auth_signup_and_create_org),
    http!("webhooks-create", webhooks_create),
    http!("webhooks-delete", webhooks_delete),
    Crate { name: "webhooks-deliver", route: None, start: |env| webhooks_deliver::function(env).map(drop) },
    http!("webhooks-list", webhooks_list),
    http!("webhooks-update", webhooks_update),
];

/// The names in a directory of the repository.
fn directory(name: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let entries = fs::read_dir(path).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_are_those_of_the_contract() {
    let world = World::start().await;
    let queues: Vec<_> = world.stack.queues().keys().map(String::as_str).collect();
    assert_eq!(queues, ["deliveries", "deliveries-dead", "job-events", "job-events-dead"]);
    let tables: Vec<_> = world.stack.tables().keys().map(String::as_str).collect();
    assert_eq!(tables, ["api-keys", "invitations", "organizations", "tokens", "users", "webhook-endpoints"]);
}

#[test]
fn every_crate_is_a_function_and_has_its_sample_event() {
    let crates: BTreeSet<String> = CRATES.iter().map(|part| part.name.to_owned()).collect();
    assert_eq!(directory("functions"), crates);
    let template = template(&LEAST);
    assert_eq!(functions(&template).map(|(name, _)| name.to_owned()).collect::<BTreeSet<_>>(), crates);
    let mut events = directory("events");
    assert!(events.remove("job-event.schema.json"));
    assert_eq!(events, crates.iter().map(|name| format!("{name}.json")).collect());
}

#[test]
fn every_route_is_mapped_to_its_function() {
    let template = template(&LEAST);
    for (name, function) in functions(&template) {
        let part = CRATES.iter().find(|part| part.name == name).expect(name);
        let events = function["Events"].as_object().expect("events").values();
        let routes: Vec<_> = events
            .filter(|event| event["Type"] == "HttpApi")
            .map(|event| (text(&event["Properties"]["Method"]), text(&event["Properties"]["Path"])))
            .map(|(method, path)| format!("{method} {path}"))
            .collect();
        assert_eq!(routes, Vec::from_iter(part.route), "{name}");
    }
    let throttled = template["Resources"]["HttpApi"]["Properties"]["RouteSettings"].as_object().expect("settings");
    for route in throttled.keys() {
        assert!(CRATES.iter().any(|part| part.route == Some(route)), "{route} is no route");
    }
}

/// `cargo lambda watch` serves the same routes.
#[test]
fn the_router_of_cargo_lambda_has_every_route() {
    let manifest = include_str!("../../../../Cargo.toml");
    let (_, table) = manifest.split_once("[workspace.metadata.lambda.watch.router]\n").expect("the table");
    let served: BTreeSet<_> = table.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect();
    let line = |part: &Crate| {
        let name = part.name;
        Some(match part.route?.split_once(' ').expect("method and path") {
            ("ANY", path) => format!("\"{}\" = \"{name}\"", path.replace("{proxy+}", "{*path}")),
            (method, path) => format!("\"{path}\" = [{{ method = \"{method}\", function = \"{name}\" }}]"),
        })
    };
    assert_eq!(served, CRATES.iter().filter_map(line).collect());
}

/// A function is given just the variables that it reads. Those whose names start with `AWS_` are Lambda's.
#[test]
fn every_variable_is_read_and_every_read_variable_is_given() {
    let template = template(&LEAST);
    for (name, function) in functions(&template) {
        let part = CRATES.iter().find(|part| part.name == name).expect(name);
        let given = variables(function).clone();
        let read = Arc::new(Mutex::new(BTreeSet::new()));
        let reading = Arc::clone(&read);
        let values = given.clone();
        let env = Env::new(move |name| {
            if name.starts_with("AWS_") {
                return (!name.starts_with("AWS_ENDPOINT_URL")).then(|| "x".to_owned());
            }
            reading.lock().expect("no panic").insert(name.to_owned());
            Some(text(values.get(name)?).to_owned())
        });
        (part.start)(&env).unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let read = read.lock().expect("no panic").clone();
        assert_eq!(read, given.keys().cloned().collect(), "{name}");
    }
}

/// What is valid by the schema is accepted by the function, and what the function refuses is not valid.
#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_job_events_is_true() {
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
        with(json!({"callback_url": "https://example.com/hook"})),
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
        callback("ftp://example.com", "s"),
        callback("https://me@example.com/", "s"),
        callback("https://example.com/", " "),
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
