//! The commands in docs/operating.md have the described effect on the API and on deliveries.
//!
//! The commands run unchanged, in a shell with `tests/bin/aws` as `aws`.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Map, Value, json};
use tests::{
    Receiver, World, event,
    world::{link, log::due_message, people::PASSWORD, tables::item},
};
use tokio::process::Command;

use super::{examples::examples, page, root};
use crate::template::{LEAST, last, template};

const FIVE_DAYS: i64 = 5 * 24 * 60 * 60 * 1000;
const NEW: &str = "a new long password";

/// Runs a command from the page, which is a shell function. Returns the printed words of each line.
pub(super) async fn run(world: &World, command: &[&str]) -> Vec<Vec<String>> {
    let output = shell(world, command).await;
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    said.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

async fn shell(world: &World, command: &[&str]) -> Output {
    let (script, _) = examples(&page("docs/operating.md"));
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &format!("{script}\n\"$@\""), "bash"]).args(command);
    environment(world, &mut bash).stdin(Stdio::null()).output().await.expect("a shell")
}

/// Lets a command use the stand-in, which calls the services of this world.
fn environment<'a>(world: &World, command: &'a mut Command) -> &'a mut Command {
    let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("bin");
    let path = std::env::var("PATH").expect("a path");
    command
        .env("PATH", format!("{}:{path}", stand_in.display()))
        .env("AWS_ENDPOINT_URL_DYNAMODB", world.stack.dynamodb())
        .env("AWS_ENDPOINT_URL_SQS", world.stack.sqs())
        .env("STACK_OUTPUTS", outputs(world).to_string())
        .env("no_proxy", "*")
        .current_dir(root().join("docs"))
}

/// The template's outputs: the tables and queues of this world.
fn outputs(world: &World) -> Value {
    let template = template(&LEAST);
    let outputs = template["Outputs"].as_object().expect("outputs").iter();
    let here = outputs.filter_map(|(name, output)| {
        let value = output["Value"].as_str()?;
        // The name of a table, or the URL of a queue.
        let queue = world.stack.queues().get(last(value, '/')).filter(|_| value.contains('/'));
        Some((name.clone(), queue.map_or(value, String::as_str).into()))
    });
    Value::Object(here.collect::<Map<_, _>>())
}

fn seconds(at: Timestamp) -> String {
    at.as_second().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn recover_resends_the_missed_deliveries_of_an_endpoint() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let since = Timestamp::now();
    for job in ["1", "2"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    assert_eq!(run(&world, &["failed"]).await, [["2".to_owned(), format!("{}/{endpoint}.0", tenant.id)]]);

    let (now, until) = (Timestamp::now(), Timestamp::now().as_second() + 1);
    run(&world, &["operate", "recover", &tenant.id, &endpoint, &seconds(since), &until.to_string()]).await;
    world.sweep(now).await;
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({"webhook_endpoint_id": endpoint})).await;
    let recovery = &stats.ok()["recoveries"][0];
    assert_eq!((&recovery["resent"], &recovery["done"]), (&json!(2), &json!(true)), "{recovery}");
    let (made, id) = (Timestamp::now(), recovery["recovery_id"].as_str().expect("an id"));
    let made_at = uuid::Uuid::parse_str(id).expect("a UUID").get_timestamp().expect("version 7").to_unix().0;
    assert!(made_at.abs_diff(u64::try_from(made.as_second()).expect("it fits")) < 60, "{id} sorts by its time");

    // The attempts are spread over the next minute, but the test does not wait for them.
    for delivery in world.log_of(&tenant.id, Status::Pending).await {
        world.make_due(&tenant.id, &delivery, now).await;
        world.enqueue("deliveries", due_message(&tenant.id, &delivery)).await;
    }
    while receiver.count().await < 4 {
        world.poll("deliveries").await;
    }
    assert_eq!(world.log_of(&tenant.id, Status::Delivered).await.len(), 2);
    assert_eq!(run(&world, &["failed"]).await.concat().len(), 0);
}

/// `failed` prints the endpoint with its shard, and `disabled` prints milliseconds. An item with another name than that of an
/// endpoint would make the organization's statistics unreadable.
#[tokio::test(flavor = "multi_thread")]
async fn recover_needs_an_endpoint_and_a_period() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let endpoint = world.new_endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    let shard = format!("{endpoint}.0");
    let (since, until) = ("1769860800", "1769864400");
    for [tenant, endpoint, since, until] in [
        [&tenant.id, &shard, since, until],
        [&other.id, &endpoint, since, until],
        [&tenant.id, &endpoint, "1769860800000", until],
        [&tenant.id, &endpoint, until, since],
    ] {
        let refused = shell(&world, &["operate", "recover", tenant, endpoint, since, until]).await;
        assert!(!refused.status.success(), "{tenant} {endpoint} {since} {until}");
    }
    let stats = world.rpc(&tenant.key, "deliveries/stats", json!({})).await;
    assert_eq!(stats.ok()["recoveries"], json!([]));
}

/// A recovery does not resend tests, and statistics do not count them.
#[tokio::test(flavor = "multi_thread")]
async fn failed_does_not_count_tests() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[])]).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.rpc(&tenant.key, "webhooks/test", json!({"id": endpoint})).await.ok();
    world.handle_all().await;
    assert_eq!(world.log_of(&tenant.id, Status::Failed).await.len(), 1);
    assert_eq!(run(&world, &["failed"]).await, Vec::<Vec<String>>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn activate_has_the_effect_of_activation_by_the_tenant() {
    let world = World::with(&[("RETRY_SCHEDULE", "")]).await;
    let tenant = world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (500, &[]), (500, &[]), (500, &[])]).await;
    let owner = tenant.id.parse().expect("an id");
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(world.endpoint(&tenant, &receiver.url("/"), "s").await);
    }
    world.deliver(event(&tenant.id, "1")).await;
    let (endpoints, now) = (world.stored_endpoints(), Timestamp::now());
    for id in &ids {
        let long_ago = json!({"failing_since": now.as_millisecond() - FIVE_DAYS});
        world.set("webhook-endpoints", ("webhook_endpoint_id", id), long_ago).await;
    }
    world.deliver(event(&tenant.id, "2")).await;
    assert_eq!(receiver.count().await, 4);
    // Its receiver was also silent, and emails about it were sent, so it has every attribute that enabling removes.
    for id in &ids {
        world.make_silent(&tenant, id, now).await;
        let mailed = json!({"mailed_at": now.as_millisecond()});
        world.set("webhook-endpoints", ("webhook_endpoint_id", id), mailed).await;
        let id = id.parse().expect("an id");
        let notice =
            endpoints.notice(&owner, id, Timestamp::now()).await.expect("the read succeeds").expect("a notice");
        endpoints.try_notice(&owner, notice).await.expect("the notice is counted").expect("the endpoint is unchanged");
    }

    let listed = run(&world, &["disabled", &seconds(now.before(Duration::from_mins(1)))]).await;
    let named: BTreeSet<_> = listed.iter().map(|line| (line[0].as_str(), line[1].as_str())).collect();
    assert_eq!(named, ids.iter().map(|id| (tenant.id.as_str(), id.as_str())).collect());
    assert!(listed.iter().all(|line| line[2] == (now.as_millisecond() - FIVE_DAYS).to_string()), "{listed:?}");
    assert!(run(&world, &["disabled", &seconds(now.after(Duration::from_mins(1)))]).await.concat().is_empty());

    run(&world, &["activate", &tenant.id, &ids[0]]).await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": ids[1], "active": true})).await.ok();
    let mut stored = Vec::new();
    for item in world.items("webhook-endpoints").await {
        if item["webhook_endpoint_id"].as_s().is_ok_and(|id| ids.contains(id)) {
            stored.push(item.into_keys().collect::<BTreeSet<_>>());
        }
    }
    assert_eq!(stored[0], stored[1]);
    world.deliver(event(&tenant.id, "3")).await;
    assert_eq!(receiver.count().await, 6, "both get events again");
    let again = shell(&world, &["activate", &tenant.id, &ids[0]]).await;
    assert!(!again.status.success(), "the organization was not disabled");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_finds_a_name_and_deactivate_stops_an_endpoint() {
    let world = World::start().await;
    let (tenant, receiver) = (world.tenant("acme").await, Receiver::start().await);
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let said = run(&world, &["tenant", &tenant.id]).await;
    let organization = world.items("organizations").await.into_iter().find(|item| item.contains_key("slug"));
    let organization = organization.expect("an organization");
    let words = |name: &str| organization[name].as_s().expect("text").split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(said, [[words("slug"), words("debug_notification_email"), words("name")].concat()]);
    assert!(run(&world, &["tenant", "nobody"]).await.concat().is_empty());

    assert!(
        !shell(&world, &["deactivate", "unknown", &id]).await.status.success(),
        "the endpoint belongs to another tenant"
    );
    // A streak would be reported as an outage of the endpoint.
    world.set("webhook-endpoints", ("webhook_endpoint_id", &id), json!({"streak": "1769860800000.3"})).await;
    run(&world, &["deactivate", &tenant.id, &id]).await;
    assert!(!world.items("webhook-endpoints").await.iter().any(|item| item.contains_key("streak")));
    world.deliver(event(&tenant.id, "1")).await;
    assert_eq!((world.only_logged(&tenant.id).await.status, receiver.count().await), (Status::Held, 0));
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    world.deliver(event(&tenant.id, "2")).await;
    assert_eq!(receiver.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_counts_the_attempts_that_wait_for_a_receiver() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let id = world.new_endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    for job in 0..2 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    world.poll("job-events").await;
    assert_eq!(run(&world, &["parked", &tenant.id]).await, [["2", &id]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoke_ends_a_key() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let issued = world.cli(&tenant.cookie, "api-key/create", json!({"name": "second"})).await.body;
    let (id, second) = (issued["id"].as_str().expect("an id"), issued["key"].as_str().expect("a key"));
    let listed = run(&world, &["keys", &tenant.id]).await;
    assert_eq!(listed.len(), 2);
    assert!(listed.contains(&[id, &second[..9], "second"].map(str::to_owned).to_vec()), "{listed:?}");

    assert!(!shell(&world, &["operate", "revoke", &other.id, id]).await.status.success(), "the key is not theirs");
    assert!(world.key_works(second).await);
    run(&world, &["operate", "revoke", &tenant.id, id]).await;
    assert!(!world.key_works(second).await && world.key_works(&tenant.key).await && world.key_works(&other.key).await);
    let listed = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(world.cli(&tenant.cookie, "api-key/delete", json!({"keyId": id})).await.status, 404);
    let mut items = world.items("api-keys").await;
    items.retain(|item| item["key_hash"] == AttributeValue::S(format!("count#{}", tenant.id)));
    assert_eq!(items[0]["keys"], AttributeValue::N("1".to_owned()), "another key can be created");
}

#[tokio::test(flavor = "multi_thread")]
async fn remove_second_factor_lets_the_password_sign_in() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let (protected, others) = (world.protect(&jo).await, world.protect(&other).await);
    assert!(!shell(&world, &["operate", "remove_second_factor", "absent@example.com"]).await.status.success());
    run(&world, &["operate", "remove_second_factor", &jo.email]).await;
    assert!(!world.is_signed_in(&protected.cookie).await && world.key_works(&jo.key).await);
    let session = world.signed_in(&jo.email, PASSWORD).await;
    assert_eq!(world.is_protected(&session).await, false);
    assert_eq!(world.is_protected(&others.cookie).await, true);
    world.begin_sign_in(&other.email, PASSWORD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn move_gives_an_account_another_address() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let (old, new) = (tenant.email.as_str(), "new@example.com");
    let asked = world.cli("", "request-password-reset", json!({"email": old})).await;
    assert_eq!(asked.status, 200);
    let token = |mail: &Value| link(mail).split_once("?token=").expect("a token").1.to_owned();
    let stale = token(&world.mail_to(old).await);

    for (from, to) in [(old, other.email.as_str()), ("nobody@example.com", new)] {
        assert!(!shell(&world, &["operate", "move", from, to]).await.status.success(), "{from} to {to}");
    }
    assert!(world.key_works(&tenant.key).await);
    world.rpc(&tenant.key, "tenant/settings", json!({"debug_notification_email": old})).await.ok();
    run(&world, &["operate", "move", old, new]).await;
    let organizations = world.items("organizations").await;
    let notified = organizations.iter().filter_map(|item| item.get("debug_notification_email")?.as_s().ok());
    assert!(notified.clone().any(|to| to == new) && !notified.clone().any(|to| to == old));
    assert_eq!(world.session(&tenant.cookie).await.body, Value::Null);
    assert!(!world.key_works(&tenant.key).await && world.key_works(&other.key).await);
    assert_eq!((world.sign_in(old, PASSWORD).await.status, world.sign_in(new, PASSWORD).await.status), (401, 200));
    let before = world.mails().await.len();
    world.rpc("", "auth/requestPasswordReset", json!({"email": old})).await.ok();
    assert_eq!(world.mails().await.len(), before, "the old address is free");
    let reset =
        async |token: &str| world.cli("", "reset-password", json!({"token": token, "newPassword": NEW})).await.status;
    assert_eq!(reset(&stale).await, 400, "the old mailbox gets no more emails");

    assert_eq!(world.cli("", "request-password-reset", json!({"email": new})).await.status, 200);
    assert_eq!(reset(&token(&world.mail_to(new).await)).await, 200);
    let signed_in = world.sign_in(new, NEW).await;
    assert_eq!((signed_in.status, &signed_in.body["user"]["id"]), (200, &json!(tenant.user)));
    assert_eq!(signed_in.body["user"]["emailVerified"], true);
    // The old address is free.
    let mut fields = World::sign_up_fields("again");
    fields["email"] = json!(old);
    world.rpc("", "auth/signupAndCreateOrg", fields).await.ok();
}

/// After a change, the earlier address is reserved for its account, and then free.
#[tokio::test(flavor = "multi_thread")]
async fn move_gives_an_account_a_reserved_address() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let new = "new@example.com";
    assert_eq!(world.cli(&jo.cookie, "change-email", json!({"newEmail": new})).await.status, 200);
    assert_eq!(world.confirm(&link(&world.mail_to(new).await)).await.status, 200);
    for (from, to) in [(new, new), (other.email.as_str(), jo.email.as_str())] {
        assert!(!shell(&world, &["operate", "move", from, to]).await.status.success(), "{from} to {to}");
    }
    run(&world, &["operate", "move", new, &jo.email]).await;
    assert_eq!(world.sign_in(&jo.email, PASSWORD).await.body["user"]["id"], jo.user);
    run(&world, &["operate", "move", &jo.email, new]).await;
    let ended = json!({"pk": format!("email#{}", jo.email), "reserved_for": other.user, "reserved_until": 1});
    world.put("users", item(&ended)).await;
    run(&world, &["operate", "move", new, &jo.email]).await;
    assert_eq!(world.sign_in(&jo.email, PASSWORD).await.body["user"]["id"], jo.user);
    // No other account can get the address.
    let mut fields = World::sign_up_fields("again");
    fields["email"] = json!(jo.email);
    assert_eq!(world.rpc("", "auth/signupAndCreateOrg", fields).await.error(), (409, "CONFLICT", "email_taken"));
}

/// An intruder who has changed the address twice can read the link that undoes the second change.
#[tokio::test(flavor = "multi_thread")]
async fn move_voids_the_links_that_undo_changes() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let (first, second, new) = ("first@example.com", "second@example.com", "new@example.com");
    for to in [first, second] {
        assert_eq!(world.cli(&jo.cookie, "change-email", json!({"newEmail": to})).await.status, 200);
        assert_eq!(world.confirm(&link(&world.mail_to(to).await)).await.status, 200);
    }
    let undo = link(&world.mail_to(first).await);
    assert_eq!(world.open(&undo).await.status, 200);
    run(&world, &["operate", "move", second, new]).await;
    assert_eq!(world.confirm(&undo).await.status, 400);
    assert_eq!(world.sign_in(new, PASSWORD).await.body["user"]["id"], jo.user);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_can_be_typed_in_any_case() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    world.protect(&jo).await;
    run(&world, &["operate", "remove_second_factor", &jo.email.to_uppercase()]).await;
    run(&world, &["operate", "move", &jo.email.to_uppercase(), "New@Example.com"]).await;
    assert_eq!(world.sign_in("new@example.com", PASSWORD).await.body["user"]["id"], jo.user);
}

#[tokio::test(flavor = "multi_thread")]
async fn bring_back_copies_an_item_of_a_restored_table() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let dynamodb = world.stack.dynamodb_client();
    let user = format!("user#{}", tenant.user);
    let table = dynamodb.describe_table().table_name("users").send().await.expect("the description succeeds").table;
    let table = table.expect("a table");
    let attributes = table.attribute_definitions().iter().filter(|one| one.attribute_name() == "pk").cloned();
    dynamodb
        .create_table()
        .table_name("restored")
        .set_key_schema(Some(table.key_schema().to_vec()))
        .set_attribute_definitions(Some(attributes.collect()))
        .billing_mode(aws_sdk_dynamodb::types::BillingMode::PayPerRequest)
        .send()
        .await
        .expect("the creation succeeds");
    let deleted = dynamodb.delete_item().table_name("users").set_key(Some(item(&json!({"pk": user}))));
    let deleted = deleted
        .return_values(aws_sdk_dynamodb::types::ReturnValue::AllOld)
        .send()
        .await
        .expect("the deletion succeeds");
    world.put("restored", deleted.attributes.expect("an item")).await;
    assert!(!world.key_works(&tenant.key).await);

    run(&world, &["operate", "bring_back", "restored", "users", &json!({"pk": {"S": user}}).to_string()]).await;
    assert!(world.key_works(&tenant.key).await);
    assert_eq!(world.sign_in(&tenant.email, PASSWORD).await.status, 200);
    let nothing = json!({"pk": {"S": "user#nobody"}}).to_string();
    assert!(!shell(&world, &["operate", "bring_back", "restored", "users", &nothing]).await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_and_deleted_print_their_items() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for letter in [r#"{"event":"no-job"}"#, "nonsense"] {
        world.enqueue("job-events-dead", letter).await;
    }
    let mut letters = run(&world, &["letters", "JobEventsDead"]).await.concat();
    letters.sort();
    assert_eq!(letters, ["nonsense", r#"{"event":"no-job"}"#]);
    assert!(run(&world, &["letters", "DeliveriesDead"]).await.concat().is_empty());

    let gone = world.cli(&tenant.cookie, "delete-user", json!({"password": PASSWORD})).await;
    assert_eq!(gone.status, 200, "{gone:?}");
    assert_eq!(run(&world, &["deleted"]).await, [[tenant.id]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsuppress_sends_to_a_bounced_address_again() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let status = async || {
        let settings = world.rpc(&tenant.key, "tenant/settings", json!({})).await;
        settings.ok()["notification_email_status"].clone()
    };
    let mut bounce = tests::sample_event("accounts-bounces");
    bounce["detail"]["mail"]["destination"] = json!(["ops@example.com"]);
    world.stack.invoke("accounts-bounces", bounce).await.expect("the address is stored");
    assert_eq!(status().await, "bounced");
    run(&world, &["unsuppress", "ops@example.com"]).await;
    assert_eq!(status().await, "ok");
}

/// Functions that only other functions call.
const WITHIN: [&str; 1] = ["output"];

#[test]
fn every_command_is_called_here_and_nothing_else_edits_a_table() {
    let source = page("docs/operating.md");
    let (script, _) = examples(&source);
    let names = script.lines().filter_map(|line| line.split_once("() {")).map(|(name, _)| name);
    let names: Vec<_> = names.filter(|name| !WITHIN.contains(name)).collect();
    assert!(names.len() > 5, "{names:?}");
    let tests = [include_str!("commands.rs"), include_str!("disaster.rs"), include_str!("usage.rs")].concat();
    for name in names {
        assert!(tests.contains(&format!("&[\"{name}\"")), "no test calls {name}");
    }
    let program = page("docs/operate.py");
    let tasks = program.lines().find_map(|line| line.strip_prefix("TASKS = [")).expect("a list of tasks");
    for task in tasks.trim_end_matches(']').split(", ").filter(|task| *task != "repeated") {
        assert!(tests.contains(&format!("\"operate\", \"{task}\"")), "no test runs {task}");
        assert!(source.contains(&format!("`operate {task}")), "the page does not name {task}");
    }
    let edits = ["put-item", "update-item", "delete-item", "batch-write-item", "transact-write-items"];
    for edit in edits {
        assert_eq!(source.matches(edit).count(), script.matches(edit).count(), "{edit} outside of a `bash` block");
    }
}
