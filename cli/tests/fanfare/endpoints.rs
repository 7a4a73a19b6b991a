//! Lists that name endpoints: `endpoints list` with its filters, and `deliveries list`.

use common::timestamp::Timestamp;
use serde_json::{Value, json};
use tests::{Receiver, World, event};

use super::Machine;

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_listed_by_text_and_state() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let machine = Machine::new(&world);
    machine.signs_in(&tenant).await;
    let mut ids = Vec::new();
    for (path, description) in [("a", "Berlin"), ("b", "Paris"), ("c", "Madrid"), ("d", "Oslo")] {
        let fields = json!({"url": format!("http://127.0.0.1:9/{path}"), "description": description});
        let made = world.rpc(&tenant.key, "webhooks/create", fields).await;
        ids.push(made.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned());
    }
    let now = Timestamp::now().as_millisecond();
    let gone = json!({"active": false, "inactive_since": now, "disabled_at": now, "disabled_reason": "gone"});
    for (id, attributes) in [(&ids[1], json!({"failing_since": now})), (&ids[2], gone)] {
        let is_one =
            |item: &tests::world::tables::Item| item["webhook_endpoint_id"].as_s().is_ok_and(|found| found == id);
        assert_eq!(world.set_where("webhook-endpoints", is_one, &attributes).await, 1);
    }
    world.rpc(&tenant.key, "webhooks/update", json!({"id": ids[3], "active": false})).await.ok();
    for (arguments, expected) in [
        (&["--search", "PARIS"][..], &["Paris"][..]),
        (&["--search", "127.0.0.1:9/c"], &["Madrid"]),
        (&["--search", &ids[0].to_uppercase()], &["Berlin"]),
        (&["--state", "enabled"], &["Berlin"]),
        (&["--state", "failing"], &["Paris"]),
        (&["--state", "disabled"], &["Madrid", "Oslo"]),
        (&["--state", "disabled", "--search", "oslo"], &["Oslo"]),
    ] {
        let listed = machine.run(&[&["endpoints", "list"], arguments].concat()).await;
        let names: Vec<_> =
            ["Berlin", "Paris", "Madrid", "Oslo"].into_iter().filter(|name| listed.out.contains(name)).collect();
        assert_eq!((listed.code, &names[..]), (0, expected), "{arguments:?}: {listed:?}");
        let raw = machine.run(&[&["--json", "endpoints", "list"], arguments].concat()).await;
        let raw: Value = serde_json::from_str(&raw.out).expect("JSON");
        assert_eq!(raw["webhook_endpoints"].as_array().map(Vec::len), Some(expected.len()), "{arguments:?}");
    }
    let none = machine.run(&["endpoints", "list", "--state", "failing", "--search", "oslo"]).await;
    assert_eq!((none.code, none.out.trim()), (0, "No endpoints match. `fanfare endpoints list` shows all 4."));
    let unknown = machine.run(&["endpoints", "list", "--state", "broken"]).await;
    assert!(unknown.code == 2 && unknown.err.contains("enabled, failing, disabled"), "{unknown:?}");
}

/// Such a key cannot read the list of endpoints, so it does not know which of them were deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_deliveries_shows_the_ids_of_endpoints() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.deliver(event(&tenant.id, "job-1")).await;
    let machine = Machine::new(&world);
    let key = world.key(&tenant.cookie, json!({"scopes": ["deliveries:read"]})).await;
    let (list, get) = (["deliveries", "list"], ["deliveries", "get", "--job", "job-1"]);
    let environment = [("FANFARE_API_KEY", key.as_str())];
    // The id of a delivery begins with that of its endpoint.
    let ids = |listed: &super::Output| listed.out.matches(&endpoint).count();
    let listed = machine.run_in(&environment, &list).await;
    assert!(ids(&listed) == 2 && !listed.out.contains("(deleted)"), "{listed:?}");
    let shown = machine.run_in(&environment, &get).await;
    assert!(shown.out.contains(&format!("Endpoint: {endpoint}\n")), "{shown:?}");
    // A key that can read the list shows the URL, and later that the endpoint was deleted.
    let environment = [("FANFARE_API_KEY", tenant.key.as_str())];
    let listed = machine.run_in(&environment, &list).await;
    assert!(listed.out.contains(&receiver.url("/")), "{listed:?}");
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": endpoint})).await.ok();
    let listed = machine.run_in(&environment, &list).await;
    assert!(listed.out.contains("(deleted)") && ids(&listed) == 1, "{listed:?}");
    let shown = machine.run_in(&environment, &get).await;
    assert!(shown.out.contains(&format!("Endpoint: (deleted) ({endpoint})")), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_disabled_and_enabled() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let id = world.endpoint(&tenant, "https://example.com/hook", "s").await;
    for (command, said, active) in [("disable", "Endpoint disabled.\n", false), ("enable", "Endpoint enabled.\n", true)]
    {
        let done = machine.run(&["endpoints", command, &id[..13]]).await;
        assert_eq!((done.code, done.out.as_str()), (0, said), "{done:?}");
        assert_eq!(world.only_endpoint(&tenant).await["active"], active);
    }
    assert_eq!(machine.run(&["endpoints", "disable", "none"]).await.code, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_listed_up_to_a_time_and_from_a_cursor() {
    let world = World::start().await;
    let (tenant, machine, receiver) = (world.tenant("acme").await, Machine::new(&world), Receiver::start().await);
    machine.signs_in(&tenant).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in ["one", "two"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let list = async |more: &[&str]| {
        let listed = machine.run(&[&["--json", "deliveries", "list"], more].concat()).await;
        serde_json::from_str::<Value>(&listed.out).unwrap_or_else(|error| unreachable!("{error}: {listed:?}"))
    };
    let ids = |page: &Value| -> Vec<_> {
        let deliveries = page["deliveries"].as_array().expect("a list");
        deliveries.iter().map(|one| one["delivery_id"].as_str().expect("an id").to_owned()).collect()
    };
    let all = ids(&list(&[]).await);
    let first = list(&["--limit", "1"]).await;
    assert_eq!((all.len(), ids(&first)), (2, all[..1].to_vec()));
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    assert_eq!(ids(&list(&["--cursor", cursor]).await), all[1..]);
    assert_eq!(ids(&list(&["--until", "1h"]).await), [""; 0]);
    assert_eq!(ids(&list(&["--until", "2999-01-01T00:00:00Z", "--since", "1h"]).await).len(), 2);
    assert_eq!(machine.run(&["deliveries", "list", "--watch", "--until", "1h"]).await.code, 2);
}
