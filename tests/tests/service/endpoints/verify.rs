//! `POST /v1/webhooks/verify`: why a request does not verify.

use base64::{Engine, prelude::BASE64_STANDARD};
use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::{
            Attempt, Delivery, DeliveryId, Destination, DestinationId, Millis, Outcome, Payload, Status, Trigger,
        },
        destination::{SigningSecret, body_signature},
        event::EventName,
    },
};
use serde_json::{Value, json};
use tests::{Answer, Received, Receiver, Tenant, World, event, text};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";

/// A delivered event, with everything that is needed to verify it.
struct Delivered {
    world: World,
    tenant: Tenant,
    id: String,
    receiver: Receiver,
    received: Received,
}

impl Delivered {
    async fn new() -> Self {
        Self::with(async |_, _, _| {}).await
    }

    /// Within the overlap of another secret.
    async fn after_a_rotation() -> Self {
        Self::with(async |world, tenant, id| {
            let fields = json!({"id": id, "signing_secret": "a new secret of ours"});
            world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
        })
        .await
    }

    /// Delivers an event to an endpoint after this change to it.
    async fn with(change: impl AsyncFnOnce(&World, &Tenant, &str)) -> Self {
        let (world, receiver) = (World::start().await, Receiver::start().await);
        let tenant = world.tenant("acme").await;
        let id = world.endpoint(&tenant, &receiver.url("/"), SECRET).await;
        change(&world, &tenant, &id).await;
        let mut event = event(&tenant.id, "j");
        event["result"] = json!({"name": "é", "rate": 1.5, "list": [1, 2]});
        world.deliver(event).await;
        let received = receiver.received().await.pop().expect("a delivery");
        Self { world, tenant, id, receiver, received }
    }

    fn headers(&self) -> String {
        let lines =
            self.received.headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().expect("text")));
        lines.collect()
    }

    async fn verify(&self, headers: &str, body: &[u8], more: Value) -> Answer {
        let mut fields = json!({"id": self.id, "headers": headers, "body": BASE64_STANDARD.encode(body)});
        fields.as_object_mut().expect("fields").extend(more.as_object().cloned().unwrap_or_default());
        self.world.rpc(&self.tenant.key, "webhooks/verify", fields).await
    }
}

/// The requests as receivers saw them that verify wrongly: `tests/receivers/make.py` ran them with real frameworks.
const CASES: &str = include_str!("../../../receivers/cases.json");

/// Puts a delivery into the log, with attempts at these Unix seconds.
async fn log(world: &World, tenant: &Tenant, endpoint: &str, delivery: &Value) {
    let at = |seconds: &Value| Timestamp::from_second(seconds.as_i64().expect("seconds")).expect("a time");
    let times: Vec<_> = delivery["times"].as_array().expect("times").iter().map(at).collect();
    let mut attempts: Vec<_> =
        times.iter().map(|at| Attempt::new(*at, 7, Outcome::Delivered(204), None, Trigger::Event)).collect();
    let (tenant, endpoint) = (tenant.id.parse().expect("an id"), endpoint.parse().expect("an id"));
    let id = DeliveryId {
        destination: DestinationId::Endpoint(endpoint),
        shard: 0,
        at: Millis::new(times[0].as_millisecond()),
        webhook_id: text(&delivery["id"]).parse().expect("an id"),
    };
    let state = Delivery {
        status: Status::Delivered,
        attempts: u32::try_from(attempts.len()).expect("a few"),
        last_attempt: attempts.pop(),
        earlier: attempts,
        ..Delivery::new(id, EventName::Completed, "j".to_owned())
    };
    let body = text(&delivery["body"]).to_owned().into();
    let payload = Payload { destination: Destination::Endpoint(endpoint), body, trace: None };
    let log = world.delivery_log();
    log.put_all([log.delivered_row(&tenant, &state, &payload, id.created_at())]).await.expect("it is stored");
}

/// Each case is what a framework or library of a registry saw that refused the request.
#[tokio::test(flavor = "multi_thread")]
async fn the_cause_is_named_for_every_wrong_receiver() {
    let cases: Value = serde_json::from_str(CASES).expect("JSON");
    // Frameworks saw these requests on a fixed day.
    let world = World::with(&[("DELIVERY_RETENTION", "3650")]).await;
    let tenant = world.tenant("acme").await;
    let secret = |name: &str| text(&cases["secrets"][name]).to_owned();
    let id = world.endpoint(&tenant, "https://example.com/", &secret("previous")).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "signing_secret": secret("current")})).await.ok();
    let over = json!({"previous_secret_expires_at": 1_735_000_000_000_i64});
    world.set("webhook-endpoints", ("webhook_endpoint_id", &id), over).await;
    let other = world.endpoint(&tenant, "https://example.com/other", &secret("other")).await;
    for delivery in cases["deliveries"].as_array().expect("a list") {
        log(&world, &tenant, &id, delivery).await;
    }
    let all = cases["cases"].as_array().expect("a list");
    let languages: std::collections::BTreeSet<_> =
        all.iter().map(|case| text(&case["name"]).split(' ').next()).collect();
    assert!(all.len() >= 30 && languages.len() == 5, "{} cases in {languages:?}", all.len());
    let mut wrong = Vec::new();
    for case in all {
        let sent = &cases["deliveries"][0]["body"];
        let body = case.get("body").unwrap_or(sent);
        let body = case.get("base64").cloned().unwrap_or_else(|| BASE64_STANDARD.encode(text(body)).into());
        let headers = case.get("headers").unwrap_or(&cases["headers"]).to_string();
        let mut fields = json!({"id": id, "headers": headers, "body": body});
        for name in ["computed", "received_at"] {
            fields[name] = case.get(name).cloned().unwrap_or_default();
        }
        let answer = world.rpc(&tenant.key, "webhooks/verify", fields).await;
        let found = answer.ok();
        let is_right = causes(found).first() == Some(&text(&case["cause"]));
        if !is_right || found["verified"] != false {
            wrong.push(format!("{}: {found:#}", case["name"]));
        }
        if case["cause"] == "other_endpoint" {
            assert_eq!(found["causes"][0]["webhook_endpoint_id"], other);
        }
        let answered = found.to_string();
        let secrets = ["current", "previous", "other"].map(secret);
        assert!(!secrets.iter().any(|secret| answered.contains(&secret[6..20])), "no secret leaves the service");
        let mut signatures = text(&cases["headers"]["webhook-signature"]).split(' ');
        assert!(!signatures.any(|signature| answered.contains(&signature[3..])), "no signature leaves the service");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn causes(answer: &Value) -> Vec<&str> {
    answer["causes"].as_array().expect("a list").iter().map(|found| found["cause"].as_str().expect("a name")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_as_it_was_sent_is_verified() {
    let delivered = Delivered::new().await;
    let answer = delivered.verify(&delivered.headers(), &delivered.received.body, json!({})).await;
    let valid = |scheme: &str, key: &str| json!({"scheme": scheme, "secret": "current", "key": key});
    let expected = json!({
        "verified": true,
        "valid": [valid("standard", "bytes"), valid("standard", "decoded"), valid("body", "bytes")],
        "causes": [],
        "remarks": [],
    });
    assert_eq!(answer.ok(), &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_body_is_compared_with_the_logged_one() {
    let delivered = Delivered::new().await;
    let body = &delivered.received.body;
    let spaced = String::from_utf8_lossy(body).replacen("\"rate\":1.5", "\"rate\": 1.5", 1);
    let answer = delivered.verify(&delivered.headers(), spaced.as_bytes(), json!({})).await;
    let found = answer.ok();
    assert_eq!((&found["verified"], causes(found)), (&json!(false), vec!["body_reserialized"]));
    let found = &found["causes"][0];
    assert_eq!(found["at"], spaced.find(" 1.5").expect("it is there"));
    assert!(found["sent"].as_str().is_some_and(|sent| sent.contains("\"rate\":1.5")), "{found}");
    assert!(found["seen"].as_str().is_some_and(|seen| seen.contains("\"rate\": 1.5")), "{found}");
}

/// The lines of `headers` without that of the header `name`.
fn without(headers: &str, name: &str) -> String {
    headers.lines().filter(|line| !line.starts_with(&format!("{name}:"))).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_endpoint_is_not_found() {
    let delivered = Delivered::new().await;
    let other = delivered.world.tenant("other").await;
    let unknown = "01890f3e-7b5a-7cc0-8000-000000000000";
    let body = BASE64_STANDARD.encode(&delivered.received.body);
    let fields = |id: &str| json!({"id": id, "headers": delivered.headers(), "body": body});
    let theirs = delivered.world.rpc(&other.key, "webhooks/verify", fields(&delivered.id)).await;
    let unknown_answer = delivered.world.rpc(&other.key, "webhooks/verify", fields(unknown)).await;
    assert_eq!(theirs.error(), (404, "NOT_FOUND", ""));
    assert_eq!(theirs.body, unknown_answer.body, "an organization cannot tell whether an endpoint exists");
    // The other organization's own endpoint learns nothing about a foreign request either.
    let own = delivered.world.endpoint(&other, "https://example.com/", "another-secret-of-ours").await;
    let found = delivered.world.rpc(&other.key, "webhooks/verify", fields(&own)).await;
    assert_eq!(causes(found.ok()), ["unexplained"]);
    let message = "The signature is not that of this body, with any known secret. The secret or the body is another one, \
                   and the log has no delivery to compare with.";
    assert_eq!(found.ok()["causes"][0]["message"], message);
    assert_eq!(found.ok()["remarks"][0]["cause"], "not_in_log");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_needs_the_scopes_for_endpoints_and_deliveries() {
    let delivered = Delivered::new().await;
    for (scopes, missing) in [
        (["webhooks:read"].as_slice(), Some("deliveries:read")),
        (&["deliveries:read"], Some("webhooks:read")),
        (&["webhooks:read", "deliveries:read"], None),
    ] {
        let key = delivered.world.key(&delivered.tenant.cookie, json!({ "scopes": scopes })).await;
        let body = BASE64_STANDARD.encode(&delivered.received.body);
        let fields = json!({"id": delivered.id, "headers": delivered.headers(), "body": body});
        let answer = delivered.world.rpc(&key, "webhooks/verify", fields).await;
        match missing {
            Some(scope) => {
                assert_eq!(
                    (answer.error(), &answer.json()["data"]["scope"]),
                    ((403, "FORBIDDEN", "scope_missing"), &json!(scope))
                );
            }
            None => assert_eq!(answer.ok()["verified"], true),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_repeated_and_foreign_headers_are_named() {
    let delivered = Delivered::new().await;
    let (headers, body) = (delivered.headers(), delivered.received.body.clone());
    let id = delivered.received.header("webhook-id");
    for (headers, cause) in [
        (String::new(), "headers_missing"),
        ("host: x".to_owned(), "headers_missing"),
        (without(&headers, "webhook-id"), "headers_missing"),
        (without(&headers, "webhook-timestamp"), "headers_missing"),
        (without(&headers, "webhook-signature"), "headers_missing"),
        (format!("{headers}webhook-id: {id}"), "header_repeated"),
        (headers.replace(id, &format!("{id}, {id}")), "header_repeated"),
        (headers.replace("\nwebhook-", "\nsvix-"), "header_names"),
        (headers.replace("webhook-timestamp: ", "webhook-timestamp: x"), "timestamp_malformed"),
    ] {
        let answer = delivered.verify(&headers, &body, json!({})).await;
        assert_eq!((causes(answer.ok()).first(), &answer.ok()["verified"]), (Some(&cause), &json!(false)), "{headers}");
    }
    // A receiver may verify the signature of the body alone.
    let only = format!("x-webhook-signature: {}", delivered.received.header("x-webhook-signature"));
    let answer = delivered.verify(&only, &body, json!({})).await;
    assert_eq!(
        (&answer.ok()["verified"], &answer.ok()["remarks"][0]["cause"]),
        (&json!(true), &json!("headers_missing"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_values_of_headers_are_not_verified() {
    let delivered = Delivered::new().await;
    let body = delivered.received.body.clone();
    let header = |name: &str| delivered.received.header(name).to_owned();
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let with = |name: &str, value: String| {
        let mut headers: serde_json::Map<_, _> =
            names.map(|name| (name.to_owned(), header(name).into())).into_iter().collect();
        headers.insert(name.to_owned(), value.into());
        Value::Object(headers).to_string()
    };
    let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
    let wrong: String = (1..=4_u8).map(|byte| format!("v1,{} ", BASE64_STANDARD.encode([byte; 32]))).collect();
    for (headers, cause) in [
        (with("webhook-id", format!("\u{a0}{id}")), "header_value"),
        (with("webhook-timestamp", format!("{time}\n")), "header_value"),
        (with("webhook-id", id.to_uppercase()), "header_value"),
        (with("webhook-id", format!("{id},{id}")), "header_repeated"),
        (with("webhook-timestamp", format!("0{time}")), "timestamp_malformed"),
        // A delivery has at most four entries, and a caller must not test more guesses.
        (with("webhook-signature", format!("{wrong}{}", header("webhook-signature"))), "unknown_secret"),
    ] {
        let answer = delivered.verify(&headers, &body, json!({})).await;
        let found = answer.ok();
        assert!(causes(found).contains(&cause) && found["verified"] == false, "{headers}: {found}");
    }
    let unchanged = delivered.verify(&with("webhook-id", id.clone()), &body, json!({})).await;
    assert_eq!(unchanged.ok()["verified"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_in_another_form_are_named_as_unread() {
    let delivered = Delivered::new().await;
    let printed = format!("Headers({{'webhook-id': '{}'}})", delivered.received.header("webhook-id"));
    let computed = delivered.received.header("webhook-signature").split(' ').next().expect("an entry");
    let body = delivered.received.body.clone();
    let answer = delivered.verify(&printed, &body, json!({"computed": computed})).await;
    // Its own delivery is not another one, although it is near.
    assert_eq!(causes(answer.ok()), ["headers_missing", "unexplained"]);
    assert!(text(&answer.ok()["causes"][0]["message"]).contains("could not be read from the text"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_may_have_any_bytes_up_to_a_limit() {
    let delivered = Delivered::new().await;
    let (headers, body) = (delivered.headers(), &delivered.received.body);
    let cut = [&body[..60], &[0xFF, 0xC3, 0x28, 0]].concat();
    let answer = delivered.verify(&headers, &cut, json!({})).await;
    assert_eq!((causes(answer.ok()), &answer.ok()["causes"][0]["at"]), (vec!["body_changed"], &json!(60)));
    let issues = async |body: &str| {
        let fields = json!({"id": delivered.id, "headers": headers, "body": body});
        let answer = delivered.world.rpc(&delivered.tenant.key, "webhooks/verify", fields).await;
        answer.issues().first().map(|(path, code)| ((*path).to_owned(), (*code).to_owned()))
    };
    let issue = |code: &str| Some(("body".to_owned(), code.to_owned()));
    assert_eq!(issues("no base64!").await, issue("invalid_format"));
    assert_eq!(issues(&BASE64_STANDARD.encode(vec![0; 1_100_001])).await, issue("too_big"));
    // The largest body is compared with what is known, but not with every mistake.
    let large = BASE64_STANDARD.encode(vec![b'{'; 1_100_000]);
    let fields = json!({"id": delivered.id, "headers": headers, "body": large, "computed": "v1,AAAA"});
    let answer = delivered.world.rpc(&delivered.tenant.key, "webhooks/verify", fields).await;
    assert_eq!(causes(answer.ok()).first(), Some(&"body_changed"));
    let too_large = json!({"json": {"id": delivered.id, "body": "A".repeat(2 << 20)}}).to_string().into_bytes();
    let refused = delivered.world.post(&delivered.tenant.key, "/v1/webhooks/verify", too_large).await;
    assert_eq!(refused.error(), (413, "PAYLOAD_TOO_LARGE", ""));
}

/// An organization can have 290 endpoints, and a stranger must not keep a core busy with them.
#[tokio::test(flavor = "multi_thread")]
async fn the_work_for_a_request_is_bounded() {
    let delivered = Delivered::new().await;
    for number in 0..40 {
        let url = format!("https://example.com/{number}");
        delivered.world.endpoint(&delivered.tenant, &url, &format!("{SECRET}{number}")).await;
    }
    let id = delivered.received.header("webhook-id");
    let headers =
        format!("webhook-id: {id}\nwebhook-timestamp: 7\nwebhook-signature: v1,{}", BASE64_STANDARD.encode([7; 32]));
    let large = [b"{", vec![b' '; 1_000_000].as_slice(), b"}"].concat();
    let answer = delivered.verify(&headers, &large, json!({})).await;
    let remarks = answer.ok()["remarks"].as_array().expect("a list");
    assert!(remarks.iter().any(|remark| remark["cause"] == "not_all_tried"), "{remarks:?}");
    let small = delivered.verify(&headers, b"{}", json!({})).await;
    assert_eq!(causes(small.ok()), ["body_changed", "unknown_secret"]);
    assert_eq!(small.ok()["remarks"], json!([]), "a small body is compared with everything");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_previous_secret_is_valid_during_its_overlap() {
    let delivered = Delivered::after_a_rotation().await;
    let signature = delivered.received.header("webhook-signature");
    let previous = signature.split(' ').next_back().expect("an entry");
    let headers = without(&delivered.headers(), "x-webhook-signature").replace(signature, previous);
    let body = delivered.received.body.clone();
    let answer = delivered.verify(&headers, &body, json!({})).await;
    let found = answer.ok();
    assert_eq!(found["valid"], json!([{"scheme": "standard", "secret": "previous", "key": "decoded"}]));
    assert_eq!((&found["verified"], &found["remarks"][0]["cause"]), (&json!(true), &json!("previous_secret_used")));
    // Computed with the secret from before the rotation, after its overlap.
    let over = json!({"previous_secret_expires_at": 1});
    delivered.world.set("webhook-endpoints", ("webhook_endpoint_id", &delivered.id), over).await;
    let current = signature.split(' ').next().expect("an entry");
    let headers = delivered.headers().replace(signature, current);
    let answer = delivered.verify(&headers, &body, json!({"computed": previous})).await;
    assert_eq!(causes(answer.ok()), ["previous_secret"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_from_before_a_rotation_is_recognized() {
    let delivered = Delivered::after_a_rotation().await;
    let body = delivered.received.body.clone();
    let old = body_signature(&SigningSecret::parse(SECRET).expect("a secret"), &body);
    let answer = delivered.verify(&delivered.headers(), &body, json!({"computed": old})).await;
    assert_eq!(causes(answer.ok()), ["previous_secret"], "`x-webhook-signature` is made with the current secret only");
    // A request without a timestamp is as old as its receipt, which is within the overlap.
    let answer = delivered.verify(&format!("x-webhook-signature: {old}"), &body, json!({})).await;
    assert_eq!((causes(answer.ok()), &answer.ok()["verified"]), (vec![], &json!(true)));
}

/// `findings/env-file-secrets.sh` shows which programs read a line of an environment file like this.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_an_environment_file_has_changed_is_recognized() {
    let delivered = Delivered::with(async |world, tenant, id| {
        let fields = json!({"id": id, "signing_secret": "staple#and+battery$horse-=", "rotation_overlap_seconds": 0});
        world.rpc(&tenant.key, "webhooks/update", fields).await.ok();
    })
    .await;
    let (headers, body) = (delivered.headers(), delivered.received.body.clone());
    for (read, part) in [
        ("staple", "cut at `#`"),
        ("staple#and+battery-=", "A `$` and the name after it are missing"),
        ("staple#and battery$horse-=", "Each `+` of the secret became a space"),
        ("staple#and+battery$horse-", "The `=` at the end of the secret is missing"),
    ] {
        let computed = body_signature(&SigningSecret::parse(read).expect("a secret"), &body);
        let answer = delivered.verify(&headers, &body, json!({"computed": computed})).await;
        let found = &answer.ok()["causes"][0];
        assert!(found["cause"] == "secret_altered" && text(&found["message"]).contains(part), "{read}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_form_of_an_event_is_recognized() {
    let delivered = Delivered::new().await;
    let full = delivered.received.body.clone();
    let fields = json!({"id": delivered.id, "payload": "thin"});
    delivered.world.rpc(&delivered.tenant.key, "webhooks/update", fields).await.ok();
    let logged = delivered.world.only_logged(&delivered.tenant.id).await.id.to_string();
    delivered.world.rpc(&delivered.tenant.key, "deliveries/resend", json!({"delivery_id": logged})).await.ok();
    delivered.world.poll("deliveries").await;
    let key = delivered.tenant.key.clone();
    let fetched = delivered.world.rpc(&key, "deliveries/get", json!({"delivery_id": logged})).await;
    assert_eq!(text(&fetched.ok()["payload"]).as_bytes(), full);
    let received = delivered.receiver.received().await.pop().expect("a delivery");
    assert!(received.body.len() < full.len());
    let thin = Delivered { received, ..delivered };
    let answer = thin.verify(&thin.headers(), &full, json!({})).await;
    assert_eq!(causes(answer.ok()), ["body_form"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_body_is_restored_where_possible() {
    let delivered = Delivered::new().await;
    let logged = delivered.world.only_logged(&delivered.tenant.id).await.id.to_string();
    delivered.world.rpc(&delivered.tenant.key, "deliveries/erase", json!({"delivery_id": logged})).await.ok();
    let spaced = String::from_utf8_lossy(&delivered.received.body).replace("\":", "\": ");
    let answer = delivered.verify(&delivered.headers(), spaced.as_bytes(), json!({})).await;
    assert_eq!(causes(answer.ok()), ["body_reserialized"]);
    assert_eq!(
        answer.ok()["remarks"][0],
        json!({
            "cause": "payload_not_kept",
            "message": "The log no longer has the body of this delivery, so the bytes could not be compared.",
            "delivery_id": logged,
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_receiver_is_compared() {
    let delivered = Delivered::new().await;
    let (headers, body) = (delivered.headers(), delivered.received.body.clone());
    let sent: i64 = delivered.received.header("webhook-timestamp").parse().expect("seconds");
    for (off, is_accepted) in [(0, true), (300, true), (-300, true), (301, false), (-301, false), (7200, false)] {
        let at = Timestamp::from_second(sent + off).expect("a time");
        let answer = delivered.verify(&headers, &body, json!({"received_at": at.to_string()})).await;
        let found = answer.ok();
        assert_eq!(found["verified"], is_accepted, "{off}");
        if !is_accepted {
            assert_eq!((causes(found), &found["causes"][0]["seconds"]), (vec!["timestamp_tolerance"], &json!(off)));
            let is_of_a_zone = text(&found["causes"][0]["message"]).contains("time zone");
            assert_eq!(is_of_a_zone, off == 7200, "{found}");
        }
    }
}

/// A receiver that computes the right signature may read the header wrongly.
#[tokio::test(flavor = "multi_thread")]
async fn a_computed_signature_is_never_verified_by_itself() {
    let delivered = Delivered::new().await;
    let (headers, body) = (delivered.headers(), delivered.received.body.clone());
    let signature = delivered.received.header("webhook-signature").to_owned();
    let (first, second) = signature.split_once(' ').expect("two entries");
    let bare = second.strip_prefix("v1,").expect("a prefix");
    let of_body = delivered.received.header("x-webhook-signature").to_owned();
    for (computed, cause) in [
        (first, "signature_entries"),
        (second, "signature_entries"),
        (bare, "signature_prefix"),
        (bare.trim_end_matches('='), "signature_encoding"),
        (&*of_body, "signed_content"),
        ("", "signature_encoding"),
        ("undefined", "signature_encoding"),
        ("v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "unexplained"),
    ] {
        let answer = delivered.verify(&headers, &body, json!({"computed": computed})).await;
        assert_eq!((&answer.ok()["verified"], causes(answer.ok())), (&json!(false), vec![cause]), "{computed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_do_not_affect_each_other_or_the_log() {
    let delivered = Delivered::new().await;
    let before = delivered.world.items("deliveries").await;
    let (headers, body) = (delivered.headers(), delivered.received.body.clone());
    let calls = (0..16).map(|number| {
        let body = if number % 2 == 0 { body.to_vec() } else { [&body[..], b"\n"].concat() };
        let (delivered, headers) = (&delivered, &headers);
        async move { (number, delivered.verify(headers, &body, json!({})).await) }
    });
    for (number, answer) in futures::future::join_all(calls).await {
        let expected = if number % 2 == 0 { vec![] } else { vec!["white_space_added"] };
        assert_eq!(causes(answer.ok()), expected);
    }
    assert_eq!(delivered.world.items("deliveries").await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_request_is_stored_logged_or_repeated() {
    let delivered = Delivered::new().await;
    let canary = "canary-in-a-request-4c1d";
    let headers = format!("{}authorization: Bearer {canary}\ncookie: {SECRET}", delivered.headers());
    let body = format!("{{\"event\":\"{canary}\",\"secret\":\"{SECRET}\"}}");
    let mut answers = Vec::new();
    for more in [json!({}), json!({"computed": SECRET}), json!({"computed": canary}), json!({"received_at": canary})] {
        answers.push(delivered.verify(&headers, body.as_bytes(), more).await.body.to_string());
    }
    answers.push(delivered.verify(&format!("{canary} {SECRET}"), b"", json!({})).await.body.to_string());
    answers
        .push(delivered.verify(&format!("webhook-id: {SECRET}\n{canary}: x"), b"", json!({})).await.body.to_string());
    let own = format!("{SECRET}\n");
    answers.push(delivered.verify(&delivered.headers(), own.as_bytes(), json!({})).await.body.to_string());
    for answer in &answers {
        assert!(!answer.contains(&SECRET[6..24]), "{answer}");
    }
    let log = tests::log::collected();
    assert!(log.contains("/v1/webhooks/verify"), "the log was collected");
    assert!(!log.contains(canary) && !log.contains(&SECRET[6..]));
    for table in ["deliveries", "webhook-endpoints", "audit", "api-keys"] {
        let items = format!("{:?}", delivered.world.items(table).await);
        assert!(!items.contains(canary), "{table}");
    }
}
