//! The contents of the log after real deliveries.

use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Value, json};
use tests::{Receiver, Tenant, World, event};

use super::{Book, CANARIES, HOUR, ids, read};

/// The only delivery in the log.
async fn only(world: &World, tenant: &Tenant) -> Value {
    let page = read(world, tenant, "list", json!({})).await;
    let [id] = &ids(page.ok())[..] else { unreachable!("{:?}", page.body) };
    read(world, tenant, "get", json!({"delivery_id": id})).await.ok().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_resends_of_a_failed_delivery_cause_one_series() {
    let world = World::with(&[("RETRY_SCHEDULE", "3600")]).await;
    for slug in ["stored", "callback"] {
        let (tenant, receiver) = (world.tenant(slug).await, Receiver::scripted(&[(503, &[])]).await);
        let (url, secret) = (receiver.url(&format!("/hook?token={}", CANARIES[0])), CANARIES[1]);
        let mut event = event(&tenant.id, "j");
        event["event"] = json!("job.failed");
        if slug == "stored" {
            world.endpoint(&tenant, &url, secret).await;
        } else {
            (event["callback_url"], event["callback_secret"]) = (json!(url), json!(secret));
        }
        world.deliver(event).await;
        let failed = only(&world, &tenant).await;
        assert_eq!(failed["delivery"]["status"], "pending");
        assert_eq!(failed["attempts"][0]["outcome"], "status_5xx");
        assert_eq!(failed["attempts"][0]["status_code"], 503);

        for _ in 0..2 {
            let fields = json!({"delivery_id": failed["delivery"]["delivery_id"]});
            world.rpc(&tenant.key, "deliveries/resend", fields).await.ok();
        }
        assert_eq!(world.poll("deliveries").await, 2, "both messages");
        let received = receiver.received().await;
        // Two messages that are handled at the same moment may both cause a post, but only one attempt is recorded and
        // continued.
        assert!((2..=3).contains(&received.len()), "{}", received.len());
        assert!(world.drain("deliveries").await.is_empty());
        for one in &received {
            assert_eq!(one.header("webhook-id"), failed["delivery"]["webhook_id"]);
            assert_eq!(one.body, failed["payload"].as_str().expect("a string"));
        }
        let delivered = only(&world, &tenant).await;
        assert_eq!(
            (&delivered["delivery"]["status"], &delivered["payload"]),
            (&json!("delivered"), &failed["payload"])
        );
        let triggers: Vec<_> =
            delivered["attempts"].as_array().expect("a list").iter().map(|one| &one["trigger"]).collect();
        assert_eq!(triggers, ["event", "resend"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_runs_a_recovery() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let mut event = event(&tenant.id, "j");
    event["event"] = json!("job.failed");
    world.deliver(event).await;
    assert_eq!(only(&world, &tenant).await["delivery"]["status"], json!(Status::Failed));

    let since = Book::of(&world).ago(HOUR);
    let fields = json!({"webhook_endpoint_id": endpoint, "since": since});
    let id = world.rpc(&tenant.key, "deliveries/recover", fields).await.ok()["recovery_id"].clone();
    world.sweep(Timestamp::now()).await;
    assert_eq!(only(&world, &tenant).await["delivery"]["status"], json!(Status::Pending));
    let stats = read(&world, &tenant, "stats", json!({"since": since})).await;
    let recovery = &stats.ok()["recoveries"][0];
    assert_eq!((&recovery["recovery_id"], &recovery["resent"], &recovery["done"]), (&id, &json!(1), &json!(true)));
}
