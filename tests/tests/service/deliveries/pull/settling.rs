//! Leased deliveries are settled with the outcome of an attempt.

use std::{sync::Arc, time::Duration};

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Value, json};
use tests::{Call, World, event};

use super::{
    ends_of_lease, jobs, pull_endpoint, receive, result, settle, settle_one, settlement, sweep_after, take, take_one,
    with_endpoint,
};
use crate::deliveries::read;

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_delivery_is_delivered_in_the_log() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in ["one", "two", "three"] {
        world.deliver(event(&tenant.id, job)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(world.log_of(&tenant.id, Status::Held).await.len(), 3);
    assert_eq!(world.left().await, 0, "no message waits in a queue");
    let two = receive(&world, &tenant, &endpoint, 2).await;
    assert_eq!(jobs(two["deliveries"].as_array().expect("deliveries")), ["one", "two"], "the oldest first");
    assert_eq!(two["poll_after_ms"], 0, "there may be more deliveries");
    let rest = receive(&world, &tenant, &endpoint, 10).await;
    assert_eq!(jobs(rest["deliveries"].as_array().expect("deliveries")), ["three"]);
    assert_eq!(rest["poll_after_ms"], 1_000);
    assert_eq!(receive(&world, &tenant, &endpoint, 10).await["deliveries"], json!([]), "all are leased");
    let all = [two["deliveries"].as_array().expect("two").clone(), rest["deliveries"].as_array().expect("one").clone()];
    let all = all.concat();
    let settled = settle(&world, &tenant, &all, json!({"status_code": 204, "duration_ms": 12})).await;
    let expected: Vec<_> = all.iter().map(|taken| result(taken, "settled", Some("delivered"))).collect();
    assert_eq!(settled, expected);
    for taken in &all {
        let got = read(&world, &tenant, "get", json!({"delivery_id": taken["delivery_id"]})).await.ok().clone();
        assert_eq!((&got["delivery"]["status"], &got["delivery"]["attempts"]), (&json!("delivered"), &json!(1)));
        let attempt = &got["attempts"][0];
        assert_eq!((&attempt["outcome"], &attempt["status_code"]), (&json!("delivered"), &json!(204)));
        assert_eq!((&attempt["duration_ms"], &attempt["trigger"]), (&json!(12), &json!("event")));
        assert_eq!(got["payload"], taken["body"]);
    }
    let listed = world.only_endpoint(&tenant).await;
    assert!(listed["last_asked_at"].is_string() && listed["last_taken_at"].is_string(), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_returns_its_delivery_and_cannot_settle() {
    let (world, tenant, endpoint) = with_endpoint(&[("LEASE_TIME", "1")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let first = take_one(&world, &tenant, &endpoint).await;
    ends_of_lease().await;
    let late = settle_one(&world, &tenant, &first, json!({"status_code": 200})).await;
    assert_eq!(late, result(&first, "lease_expired", None));
    assert_eq!(world.only_logged(&tenant.id).await.attempts, 0, "nothing has changed");
    let second = take_one(&world, &tenant, &endpoint).await;
    assert_eq!((&second["attempt"], &second["delivery_id"]), (&json!(1), &first["delivery_id"]));
    assert_ne!(second["lease"], first["lease"]);
    let late = settle_one(&world, &tenant, &first, json!({"status_code": 500})).await;
    assert_eq!(late["result"], "lease_expired");
    let settled = settle_one(&world, &tenant, &second, json!({"status_code": 200})).await;
    assert_eq!(settled, result(&second, "settled", Some("delivered")));
    assert_eq!(settle_one(&world, &tenant, &second, json!({"status_code": 200})).await, settled, "response was lost");
    let logged = world.only_logged(&tenant.id).await;
    assert_eq!((logged.status, logged.attempts), (Status::Delivered, 1));
    ends_of_lease().await;
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_pull_delivery_is_retried_and_finally_fails() {
    let (world, tenant, endpoint) = with_endpoint(&[("RETRY_SCHEDULE", "0,0")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let outcomes = [
        (json!({"status_code": 503, "response": "é".repeat(1_000)}), "pending", "status_5xx"),
        (json!({"error": "connect"}), "pending", "connect"),
        (json!({"status_code": 302}), "failed", "redirect"),
    ];
    for (number, (outcome, status, reason)) in outcomes.into_iter().enumerate() {
        let taken = take_one(&world, &tenant, &endpoint).await;
        assert_eq!(taken["attempt"], number + 1);
        let mut settled = settle_one(&world, &tenant, &taken, outcome).await;
        let next = settled.as_object_mut().and_then(|settled| settled.remove("next_attempt_at"));
        assert_eq!(settled, result(&taken, "settled", Some(status)));
        assert_eq!(next.is_some(), status == "pending");
        let last = world.only_logged(&tenant.id).await.last_attempt.expect("an attempt");
        assert_eq!(last.outcome, reason);
    }
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new());
    let got = read(&world, &tenant, "get", json!({"delivery_id": world.only_logged(&tenant.id).await.id})).await;
    let attempts = got.ok()["attempts"].as_array().expect("attempts").clone();
    let outcomes: Vec<_> = attempts.iter().map(|attempt| attempt["outcome"].as_str().expect("a reason")).collect();
    assert_eq!(outcomes, ["status_5xx", "connect", "redirect"]);
    assert_eq!(attempts[0]["response"], "é".repeat(512));
    assert_eq!(attempts[1]["trigger"], "schedule");
    assert_eq!(tests::log::of_this_test().metric("DeliveryFailed"), [(1.0, "redirect".to_owned())]);
    assert!(world.only_endpoint(&tenant).await["failing_since"].is_string());
    world.deliver(event(&tenant.id, "k")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await;
    assert_eq!(world.only_endpoint(&tenant).await.get("failing_since"), None, "a success clears the error");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_makes_a_delivery_available_without_an_attempt() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    let released = settle_one(&world, &tenant, &taken, json!({})).await;
    assert_eq!(released, result(&taken, "released", Some("held")));
    let again = take_one(&world, &tenant, &endpoint).await;
    assert_eq!(again["attempt"], 1);
    assert_eq!(settle_one(&world, &tenant, &taken, json!({"status_code": 200})).await["result"], "lease_expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_410_disables_a_pull_endpoint_and_is_counted_once() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    for _ in 0..2 {
        let settled = settle_one(&world, &tenant, &taken, json!({"status_code": 410})).await;
        assert_eq!(settled, result(&taken, "settled", Some("failed")));
    }
    let disabled = world.only_endpoint(&tenant).await;
    assert_eq!((&disabled["active"], &disabled["disabled_reason"]), (&json!(false), &json!("gone")));
    let log = tests::log::of_this_test();
    for metric in ["DeliveryFailed", "EndpointDisabled"] {
        assert_eq!(log.metric(metric), [(1.0, "gone".to_owned())], "{metric}");
    }
    for message in ["delivery.failed", "endpoint.disabled"] {
        assert_eq!(log.0.iter().filter(|line| line["message"] == message).count(), 1, "{message}");
    }
}

/// Settlements of one call are written together. Each of its calls to the tables fails with its repetitions, alone or
/// with all later ones, and the client repeats a failed call.
#[tokio::test(flavor = "multi_thread")]
async fn settlements_count_once_although_any_call_fails() {
    let (world, cut_off) = World::cut_off_with(&[("RETRY_SCHEDULE", "3600")]).await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    let mut jobs = (0..).map(|job: usize| event(&tenant.id, job));
    let mut take_three = async || {
        for event in jobs.by_ref().take(3) {
            world.deliver(event).await;
        }
        let taken = take(&world, &tenant, &endpoint).await;
        assert_eq!(taken.len(), 3);
        taken
    };
    let settle = async |taken: &[Value]| {
        let settlements =
            taken.iter().zip([200, 500, 200]).map(|(taken, status)| settlement(taken, json!({"status_code": status})));
        let fields = json!({"settlements": settlements.collect::<Vec<_>>()});
        world.rpc(&tenant.key, "deliveries/settle", fields).await
    };
    let (taken, before) = (take_three().await, world.calls());
    settle(&taken).await.ok();
    let calls = world.calls() - before;
    assert!((5..9).contains(&calls), "{calls}");
    let cases = (0..calls).flat_map(|call| [call + 3, u64::MAX].map(|end| call..end));
    for (failing, takes_effect) in cases.flat_map(|calls| [(calls.clone(), false), (calls, true)]) {
        let taken = take_three().await;
        cut_off.fail(failing.clone(), takes_effect);
        let broken = settle(&taken).await;
        cut_off.fail(0..0, false);
        let settled = if broken.status == 200 { broken } else { settle(&taken).await };
        let settled = settled.ok()["settlements"].as_array().expect("a list").clone();
        let results: Vec<_> = settled.iter().map(|settled| [&settled["result"], &settled["status"]]).collect();
        let expected = ["delivered", "pending", "delivered"].map(|status| [json!("settled"), json!(status)]);
        assert_eq!(results, expected.each_ref().map(|[result, status]| [result, status]), "{failing:?} {takes_effect}");
        let logged = world.log(&tenant.id).await;
        assert!(logged.iter().all(|delivery| delivery.attempts == 1), "{failing:?} {takes_effect}: {logged:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_settled_together_all_count_toward_the_streak() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in 0..3 {
        world.deliver(event(&tenant.id, job)).await;
    }
    settle(&world, &tenant, &take(&world, &tenant, &endpoint).await, json!({"status_code": 500})).await;
    let items = world.items("webhook-endpoints").await;
    let streak = items.iter().find_map(|item| item.get("streak")?.as_s().ok()).expect("a streak");
    assert!(streak.ends_with(".3"), "{streak}");
}

/// Each call to the tables loses its response in turn, and is repeated by the SDK.
#[tokio::test(flavor = "multi_thread")]
async fn settlements_count_in_the_streak_if_a_response_is_lost() {
    let (world, cut_off) = World::cut_off_with(&[]).await;
    for settlements in [1, 2] {
        for lost in 0.. {
            let tenant = world.tenant(&format!("acme-{settlements}-{lost}")).await;
            let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
            for job in 0..settlements {
                world.deliver(event(&tenant.id, job)).await;
            }
            let taken = take(&world, &tenant, &endpoint).await;
            cut_off.fail(lost..lost + 1, true);
            settle(&world, &tenant, &taken, json!({"status_code": 500})).await;
            if !cut_off.is_reached() {
                break;
            }
            cut_off.fail(0..0, false);
            let items = world.items("webhook-endpoints").await;
            let own = items.iter().find(|item| item["webhook_endpoint_id"].as_s().is_ok_and(|id| *id == endpoint));
            let streak = own.and_then(|item| item.get("streak")?.as_s().ok()).map(String::as_str).unwrap_or_default();
            assert!(streak.ends_with(&format!(".{settlements}")), "{streak}: call {lost} of {settlements}");
        }
    }
}

#[tokio::test]
async fn a_settlement_that_a_call_repeats_counts_once() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    world.deliver(event(&tenant.id, 0)).await;
    let taken = take(&world, &tenant, &endpoint).await;
    settle(&world, &tenant, &[taken.clone(), taken].concat(), json!({"status_code": 500})).await;
    let items = world.items("webhook-endpoints").await;
    let streak = items.iter().find_map(|item| item.get("streak")?.as_s().ok()).expect("a streak");
    assert!(streak.ends_with(".1"), "{streak}");
}

#[tokio::test]
async fn the_first_of_two_settlements_in_one_call_counts() {
    let (world, tenant, endpoint) = with_endpoint(&[]).await;
    for job in ["one", "other"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let taken = take(&world, &tenant, &endpoint).await;
    let (one, other) = (&taken[0], &taken[1]);
    let outcomes = [(one, json!({"status_code": 200})), (other, json!({"status_code": 204})), (one, json!({}))];
    let settlements = outcomes.map(|(taken, outcome)| settlement(taken, outcome));
    let fields = json!({"settlements": settlements});
    for _ in ["at first", "again"] {
        let answer = world.rpc(&tenant.key, "deliveries/settle", fields.clone()).await;
        let expected = [one, other, one].map(|taken| result(taken, "settled", Some("delivered")));
        assert_eq!(answer.ok()["settlements"], json!(expected));
    }
    let attempts = world.log(&tenant.id).await.into_iter().map(|delivery| delivery.attempts);
    assert_eq!(attempts.collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_problem_of_a_settlement_is_an_issue_with_its_path() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issues = async |fields: Value| {
        let answer = world.rpc(&tenant.key, "deliveries/settle", fields).await;
        let issues: Vec<String> = answer.json()["data"]["issues"]
            .as_array()
            .expect("issues")
            .iter()
            .map(|issue| {
                let path = issue["path"].as_array().expect("a path").iter();
                path.map(|part| part.as_str().unwrap_or_default()).collect::<Vec<_>>().join(".")
            })
            .collect();
        (answer.status, issues.join(" "))
    };
    let valid = "019c1422-7c00-7b4c-8e6f-3a5b7d9f1c24.0.1769860800000.1854d20f452c5b4c1e350d7c7a00518b";
    for (fields, paths) in [
        (json!({}), "settlements"),
        (json!({"settlements": []}), "settlements"),
        (json!({"settlements": {}}), "settlements"),
        (json!({"settlements": vec![json!({}); 101]}), "settlements"),
        (json!({"settlements": [7, {}]}), "settlements.0 settlements.1.delivery_id settlements.1.lease"),
        (
            json!({"settlements": [{"delivery_id": valid, "lease": "x", "status_code": 7, "error": "bad",
                "duration_ms": -1, "response": 1}]}),
            "settlements.0.lease settlements.0.status_code settlements.0.error settlements.0.duration_ms \
             settlements.0.response",
        ),
        (
            json!({"settlements": [{"delivery_id": valid, "lease": "01890f3e-7b5a-7cc0-8000-000000000000",
                "status_code": 200, "error": "dns"}]}),
            "settlements.0.error",
        ),
    ] {
        assert_eq!(issues(fields.clone()).await, (400, paths.to_owned()), "{fields}");
    }
}

/// The receiver may have repeated a header's earlier value, which is not known any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_is_left_out_if_the_endpoint_has_changed() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for (route, change) in [("update", json!({"headers": {"authorization": "canary-2-new"}})), ("delete", json!({}))] {
        let headers = json!({"authorization": "canary-1-old"});
        let fields = json!({"kind": "pull", "signing_secret": "correct-horse-battery", "headers": headers});
        let created = world.rpc(&tenant.key, "webhooks/create", fields).await;
        let endpoint = created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
        let mut change = change;
        change["id"] = json!(endpoint);
        for (is_changed, expected) in [(false, json!("no [secret]")), (true, json!(null))] {
            world.deliver(event(&tenant.id, format!("{route} {is_changed}"))).await;
            let taken = take_one(&world, &tenant, &endpoint).await;
            if is_changed {
                world.rpc(&tenant.key, &format!("webhooks/{route}"), change.clone()).await.ok();
            }
            let outcome = json!({"status_code": 401, "response": "no canary-1-old"});
            settle_one(&world, &tenant, &taken, outcome).await;
            let got = read(&world, &tenant, "get", json!({"delivery_id": taken["delivery_id"]})).await;
            assert_eq!(got.ok()["attempts"][0]["response"], expected, "{route}");
        }
        world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await;
    }
}

/// Both calls have read the delivery with its lease before either settles it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_two_concurrent_settlements_counts() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let endpoint = pull_endpoint(&world, &tenant, "correct-horse-battery").await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    let settles = |call: &Call| call.function == "deliveries-settle" && call.operation == "UpdateItem";
    let (rival, who, same) = (Arc::clone(&world), tenant.clone(), taken.clone());
    race.before(settles, async move { drop(settle_one(&rival, &who, &same, json!({"status_code": 200})).await) });
    let late = settle_one(&world, &tenant, &taken, json!({"status_code": 500})).await;
    assert_eq!(late, result(&taken, "settled", Some("delivered")));
    let logged = world.only_logged(&tenant.id).await;
    assert_eq!((logged.status, logged.attempts), (Status::Delivered, 1));
}

/// A resend would end the lease of a client that is working on the delivery.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_leaves_out_what_waits_for_a_client() {
    let (world, tenant, endpoint) = with_endpoint(&[("RETRY_SCHEDULE", "600")]).await;
    world.deliver(event(&tenant.id, "j")).await;
    let taken = take_one(&world, &tenant, &endpoint).await;
    settle_one(&world, &tenant, &taken, json!({"status_code": 500})).await;
    tokio::time::sleep(Duration::from_millis(2)).await;
    let since = Timestamp::now().before(Duration::from_mins(1));
    let fields = json!({"webhook_endpoint_id": endpoint, "since": since, "status": "pending"});
    world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
    sweep_after(&world, 0).await;
    assert_eq!(take(&world, &tenant, &endpoint).await, Vec::<Value>::new());
}
