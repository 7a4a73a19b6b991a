//! The page `/console/audit`.

use serde_json::json;
use tests::{World, world::people::PASSWORD};

use super::{SCRIPT, harmless, open};

const PAGE: &str = "/console/audit";

/// The target of the link with this text.
fn link(page: &str, text: &str) -> Option<String> {
    let (before, _) = page.split_once(&format!("\">{text}</a>"))?;
    let (_, address) = before.rsplit_once("href=\"")?;
    Some(address.replace("&amp;", "&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_read_who_changed_what_in_words() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    world.cli(&owner.cookie, "update-user", json!({"name": SCRIPT})).await;
    world.rpc(&owner.key, "webhooks/create", json!({"url": "http://127.0.0.1:9/hook?secret=x"})).await.ok();
    let page = open(&world, &owner.cookie, PAGE).await;
    let says = harmless(&page);
    for text in ["Endpoint created", ">127.0.0.1:9/hook</a>", "Name changed", "Jo Doe", "API key created", "127.0.0.1"]
    {
        assert!(says.contains(text), "{text}: {says}");
    }
    assert!(!says.contains("secret=x"), "{says}");
    let team = open(&world, &owner.cookie, "/console/team").await;
    assert!(team.page().contains("href=\"/console/audit\""), "{team:?}");

    let filtered = open(&world, &owner.cookie, &format!("{PAGE}?action=user.renamed&actor={}", owner.user)).await;
    let table = filtered.page().split_once("<tbody>").expect("a table").1;
    assert!(table.contains("Name changed") && !table.contains("Endpoint created"), "{table}");
    let empty = open(&world, &owner.cookie, &format!("{PAGE}?action=member.removed")).await;
    assert!(empty.page().contains("No changes found."), "{empty:?}");
    let wrong = open(&world, &owner.cookie, &format!("{PAGE}?cursor=x")).await;
    assert_eq!(wrong.status, 400);
}

/// Ids and the API's field names mean nothing to people.
#[tokio::test(flavor = "multi_thread")]
async fn changes_and_sign_ins_are_described_without_ids() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let made = world.rpc(&owner.key, "webhooks/create", json!({"url": "http://127.0.0.1:9/hook"})).await;
    let id = made.ok()["webhook_endpoint_id"].clone();
    world.rpc(&owner.key, "webhooks/update", json!({"id": id, "active": false})).await.ok();
    let off = json!({"disable_job_failure_notifications": true});
    world.rpc_by_session(&owner.cookie, "tenant/settings", off).await.ok();
    world.signed_in(&owner.email, PASSWORD).await;
    let page = open(&world, &owner.cookie, PAGE).await;
    let table = page.page().split_once("<tbody>").expect("a table").1;
    let says = tests::browser::readable(&format!("<body>{table}"));
    for text in ["Disabled", "Acts for: its creator", "Emails about failed jobs: on → off", "just now", " UTC"] {
        assert!(says.contains(text), "{text}: {says}");
    }
    for text in ["active", "true", "Enabled", "kind: ", "debug_notification_email", "_"] {
        assert!(!says.contains(text), "{text}: {says}");
    }
    // The entry for a sign-in names the device instead of the session's id.
    let (_, sign_in) = says.split_once("Signed in").expect("a sign-in");
    let sign_in = sign_in.split("just now").next().unwrap_or_default();
    assert_eq!(sign_in.matches('-').count(), 0, "{sign_in}");
}

#[tokio::test(flavor = "multi_thread")]
async fn older_and_newer_changes_are_on_other_pages() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    for number in 0..45 {
        let renamed = world.cli(&owner.cookie, "update-user", json!({"name": format!("Name {number}")})).await;
        assert_eq!(renamed.status, 200);
    }
    let newest = open(&world, &owner.cookie, PAGE).await;
    assert!(newest.page().contains("Name 44") && link(newest.page(), "Newer changes").is_none(), "{newest:?}");
    let second = open(&world, &owner.cookie, &link(newest.page(), "Older changes").expect("a link")).await;
    assert!(second.page().contains("Name 20") && !second.page().contains("Name 44"), "{second:?}");
    let third = open(&world, &owner.cookie, &link(second.page(), "Older changes").expect("a link")).await;
    assert!(
        third.page().contains("Organization created") && link(third.page(), "Older changes").is_none(),
        "{third:?}"
    );
    let back = open(&world, &owner.cookie, &link(third.page(), "Newer changes").expect("a link")).await;
    assert!(back.page().contains("Name 20"), "{back:?}");
    let first = open(&world, &owner.cookie, &link(back.page(), "Newer changes").expect("a link")).await;
    assert!(first.page().contains("Name 44"), "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_does_not_see_the_audit_log() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let page = open(&world, &member.cookie, PAGE).await;
    assert_eq!(page.status, 403, "{page:?}");
    assert!(!page.page().contains("API key created"), "{page:?}");
    assert!(!open(&world, &member.cookie, "/console/team").await.page().contains(PAGE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_of_all_endpoints_has_no_id_as_its_object() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    world.rpc(&owner.key, "deliveries/recover", json!({"since": "2026-01-31T12:00:00Z"})).await.ok();
    let page = open(&world, &owner.cookie, &format!("{PAGE}?action=recovery.started")).await;
    let table = page.page().split_once("<tbody>").expect("a table").1;
    assert!(table.contains(">All endpoints<") && !table.contains(&owner.id), "{table}");
}
