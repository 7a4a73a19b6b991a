//! The fields of the routes under `/v1/deliveries`.

use serde_json::{Value, json};
use tests::World;

use super::{Book, Draft, ids, read};

const MOMENT: &str = "1769860800999.0123456789abcdef0123456789abcdef";

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_validated() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    for (route, field, value, code) in [
        ("list", "webhook_endpoint_id", json!("x"), "invalid_format"),
        ("list", "webhook_endpoint_id", json!("callback"), "invalid_format"),
        ("list", "status", json!("done"), "invalid_format"),
        ("list", "status", json!("Failed"), "invalid_format"),
        ("list", "status", json!(["failed"]), "invalid_type"),
        ("list", "event", json!("job.started"), "invalid_format"),
        ("list", "event", json!(7), "invalid_type"),
        ("list", "job_id", json!(7), "invalid_type"),
        ("list", "webhook_id", json!("msg_0"), "invalid_format"),
        ("list", "since", json!("2026-01-31"), "invalid_format"),
        ("list", "since", json!(1_769_860_800), "invalid_type"),
        ("list", "until", json!("yesterday"), "invalid_format"),
        ("list", "limit", json!(0), "too_small"),
        ("list", "limit", json!(-1), "too_small"),
        ("list", "limit", json!(101), "too_big"),
        ("list", "limit", json!(u64::MAX), "too_big"),
        ("list", "limit", json!(2.5), "invalid_type"),
        ("list", "limit", json!("20"), "invalid_type"),
        ("list", "cursor", json!(""), "invalid_format"),
        ("list", "cursor", json!(MOMENT.to_uppercase()), "invalid_format"),
        ("list", "cursor", json!(7), "invalid_type"),
        ("get", "delivery_id", json!(null), "invalid_type"),
        ("get", "delivery_id", json!(endpoint), "invalid_format"),
        ("get", "delivery_id", json!(format!("callback.8.{MOMENT}")), "invalid_format"),
        ("get", "delivery_id", json!(format!("x/callback.0.{MOMENT}")), "invalid_format"),
        ("resend", "delivery_id", json!(7), "invalid_type"),
        ("resend", "delivery_id", json!(MOMENT), "invalid_format"),
        ("recover", "webhook_endpoint_id", json!("callback"), "invalid_format"),
        ("recover", "since", json!("now"), "invalid_format"),
        ("recover", "status", json!("delivered"), "invalid_format"),
        ("recover", "status", json!(["failed"]), "invalid_type"),
        ("recover", "until", json!("2026-01-01T23:59:59.999Z"), "too_small"),
        ("stats", "webhook_endpoint_id", json!("x"), "invalid_format"),
        ("stats", "since", json!(""), "invalid_format"),
    ] {
        let mut fields: Value = match route {
            "recover" => json!({"webhook_endpoint_id": endpoint, "since": "2026-01-02T00:00:00Z"}),
            _ => json!({}),
        };
        fields[field] = value.clone();
        let answer = read(&world, &tenant, route, fields).await;
        assert_eq!(answer.error(), (400, "BAD_REQUEST", ""), "{route} {field} {value}");
        assert_eq!(answer.issues(), [(field, code)], "{route} {field} {value}");
    }
    let wrong = json!({"webhook_endpoint_id": 1, "status": 1, "event": 1, "job_id": 1, "since": 1, "until": 1,
        "limit": "1", "cursor": 1});
    assert_eq!(read(&world, &tenant, "list", wrong).await.issues().len(), 8);
    for (route, required) in [("get", 1), ("resend", 1), ("recover", 1)] {
        assert_eq!(read(&world, &tenant, route, json!({})).await.issues().len(), required, "{route}");
    }
}

/// RFC 3339 permits any offset and any number of digits. Times at the limits of the calendar do not cause errors.
#[tokio::test(flavor = "multi_thread")]
async fn any_time_of_rfc_3339_is_accepted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let endpoint = world.endpoint(&tenant, "https://example.com/1", "s").await;
    let book = Book::of(&world);
    let delivery = book.write_one(&tenant, Draft::to_callback(0, book.now, "j")).await;
    for (since, until, found) in [
        ("0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", 1),
        ("1969-12-31T23:59:59Z", "2262-04-12T00:00:00+14:00", 1),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z", 0),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", 0),
        ("9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", 0),
    ] {
        let page = read(&world, &tenant, "list", json!({"since": since, "until": until})).await;
        assert_eq!(ids(page.ok()).len(), found, "{since} {until}");
        read(&world, &tenant, "stats", json!({"since": since})).await.ok();
        if since <= until {
            let fields = json!({"webhook_endpoint_id": endpoint, "since": since, "until": until});
            world.rpc(&tenant.key, "deliveries/recover", fields).await.ok();
        }
    }
    assert!(super::recover::run(&book).await.is_empty());
    let same =
        json!({"webhook_endpoint_id": endpoint, "since": "2026-01-02T00:00:00Z", "until": "2026-01-02T01:00:00+01:00"});
    world.rpc(&tenant.key, "deliveries/recover", same).await.ok();
    for (cursor, found) in [(format!("9999999999999.{}", "f".repeat(32)), 1), (format!("{:013}.{:032}", 0, 0), 0)] {
        let page = read(&world, &tenant, "list", json!({"cursor": cursor})).await;
        assert_eq!(ids(page.ok()), vec![delivery.id.to_string(); found]);
        assert_eq!(page.ok().get("next_cursor"), None);
    }
}
