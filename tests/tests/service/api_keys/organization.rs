//! Organization keys, which outlive the members who issue them.

use std::sync::{Arc, Mutex, OnceLock, atomic::Ordering};

use serde_json::{Value, json};
use tests::{
    Switch, Tenant, World,
    world::{link, people::PASSWORD},
};

use super::delete;

const ORGANIZATION: &str = "organization";

async fn organization_key(world: &World, owner: &Tenant) -> String {
    world.key(&owner.cookie, json!({"kind": ORGANIZATION})).await
}

/// Adds an owner to the organization of `first`.
async fn owner(world: &World, first: &Tenant) -> Tenant {
    let invited = json!({"email": "al@example.com", "role": "owner"});
    let invited = world.cli(&first.cookie, "organization/invite-member", invited).await.body;
    let fields = json!({"invitationId": invited["id"], "tenantSlug": first.slug, "name": "Al", "password": PASSWORD});
    let account = world.rpc("", "auth/acceptInviteAndSignup", fields).await.ok().clone();
    let cookie = tests::world::cookie(&account);
    assert_eq!(world.confirm(&link(&world.mail_to("al@example.com").await)).await.status, 200);
    let key = world.key(&cookie, json!({})).await;
    let user = account["userId"].as_str().expect("an id").to_owned();
    Tenant { user, email: "al@example.com".to_owned(), cookie, key, ..first.clone() }
}

/// A program that calls the API continuously with a key, counts the calls, and stops at the first rejected one.
struct Producer {
    running: Switch,
    calls: Arc<std::sync::atomic::AtomicUsize>,
    task: tokio::task::JoinHandle<Vec<Value>>,
}

impl Producer {
    fn start(world: &Arc<World>, key: &str, endpoint: &str) -> Self {
        let (running, calls) = (Switch::default(), Arc::<std::sync::atomic::AtomicUsize>::default());
        running.on();
        let (on, counted) = (running.clone(), Arc::clone(&calls));
        let (world, key, endpoint) = (Arc::clone(world), key.to_owned(), endpoint.to_owned());
        let task = tokio::spawn(async move {
            let mut refused = Vec::new();
            while on.is_on() {
                let fields = json!({"id": endpoint, "description": "busy"});
                let answer = world.rpc(&key, "webhooks/update", fields).await;
                if answer.status != 200 {
                    refused.push(answer.body);
                }
                counted.fetch_add(1, Ordering::SeqCst);
            }
            refused
        });
        Self { running, calls, task }
    }

    /// Waits for at least two more responses.
    async fn goes_on(&self) {
        let before = self.calls.load(Ordering::SeqCst);
        while self.calls.load(Ordering::SeqCst) < before + 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Stops the program, and returns the rejected calls.
    async fn refused(self) -> Vec<Value> {
        self.running.off();
        self.task.await.expect("no panic")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_key_outlives_its_creator_without_a_gap() {
    let world = Arc::new(World::start().await);
    let first = world.tenant("acme").await;
    let maker = owner(&world, &first).await;
    let endpoint = world.endpoint(&first, "https://example.com/1", "s").await;
    let (ours, personal) = (organization_key(&world, &maker).await, world.key(&maker.cookie, json!({})).await);
    let producer = Producer::start(&world, &ours, &endpoint);
    producer.goes_on().await;
    assert!(world.key_works(&personal).await);

    // The key's creator resets their password.
    world.cli("", "request-password-reset", json!({"email": maker.email})).await;
    let mail = world.mail_to(&maker.email).await;
    let token = link(&mail).split("token=").nth(1).expect("a token").to_owned();
    let reset = world.cli("", "reset-password", json!({"token": token, "newPassword": "a new password"})).await;
    assert_eq!(reset.status, 200, "{reset:?}");
    assert!(!world.key_works(&personal).await && !world.key_works(&maker.key).await);
    producer.goes_on().await;

    // The creator is no longer an owner, and can no longer manage organization keys.
    let cookie = world.signed_in(&maker.email, "a new password").await;
    let personal = world.key(&cookie, json!({})).await;
    let member = json!({"memberId": maker.user, "role": "member"});
    assert_eq!(world.cli(&first.cookie, "organization/update-member-role", member).await.status, 200);
    let listed = world.cli_get(&first.cookie, "api-key/list").await.body;
    let listed = listed.as_array().expect("keys").iter().find(|key| key["kind"] == ORGANIZATION).expect("the key");
    assert_eq!(delete(&world, &cookie, &listed["id"]).await.status, 404);
    producer.goes_on().await;

    // The creator is removed.
    let fields = json!({"memberIdOrEmail": maker.email});
    assert_eq!(world.cli(&first.cookie, "organization/remove-member", fields).await.status, 200);
    producer.goes_on().await;
    let by_personal = world.rpc(&personal, "webhooks/list", json!({})).await;
    assert_eq!(by_personal.error(), (401, "UNAUTHORIZED", ""));
    let listed = world.cli_get(&first.cookie, "api-key/list").await.body;
    let listed = listed.as_array().expect("keys").iter().find(|key| key["kind"] == ORGANIZATION).expect("the key");
    assert_eq!(listed["createdBy"], json!({"id": maker.user, "name": null}));
    assert_eq!(producer.refused().await, Vec::<Value>::new());

    // The key ends when an owner deletes it.
    assert_eq!(delete(&world, &first.cookie, &listed["id"]).await.status, 200);
    assert_eq!(world.rpc(&ours, "webhooks/list", json!({})).await.error(), (401, "UNAUTHORIZED", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_key_outlives_a_creator_who_leaves() {
    let world = Arc::new(World::start().await);
    let first = world.tenant("acme").await;
    let maker = owner(&world, &first).await;
    let endpoint = world.endpoint(&first, "https://example.com/1", "s").await;
    let producer = Producer::start(&world, &organization_key(&world, &maker).await, &endpoint);
    let personal = Producer::start(&world, &maker.key, &endpoint);
    tokio::join!(producer.goes_on(), personal.goes_on());
    assert_eq!(world.cli(&maker.cookie, "organization/leave", json!({})).await.status, 200);
    tokio::join!(producer.goes_on(), personal.goes_on());
    assert_eq!(producer.refused().await, Vec::<Value>::new());
    let refused = personal.refused().await;
    assert!(refused.iter().any(|error| error["json"]["code"] == "UNAUTHORIZED"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_key_ends_with_its_organization() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let (key, others) = (organization_key(&world, &tenant).await, organization_key(&world, &other).await);
    // From the second call on, the key is in the process's cache.
    for _ in 0..2 {
        world.rpc(&key, "webhooks/list", json!({})).await.ok();
    }
    assert_eq!(world.cli(&tenant.cookie, "delete-user", json!({"password": PASSWORD})).await.status, 200);
    assert_eq!(world.rpc(&key, "webhooks/list", json!({})).await.error(), (401, "UNAUTHORIZED", ""));
    assert_eq!(world.get_by_key(&key, "organization/list").await.status, 401);
    world.rpc(&others, "webhooks/list", json!({})).await.ok();
}

/// Without the check, a removed owner could leave behind a key that the remaining owners do not know about.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_who_stops_being_an_owner_issues_no_key() {
    let (demotes, table) = (Switch::default(), Arc::<OnceLock<(aws_sdk_dynamodb::Client, String)>>::default());
    let (is_on, to_demote) = (demotes.clone(), Arc::clone(&table));
    let world = World::answering(&[], move |call| {
        let is_issue = call.operation == "TransactWriteItems" && call.body.to_string().contains("key_hash");
        if is_issue && is_on.is_on() {
            let (client, user) = to_demote.get().expect("a user").clone();
            // The role changes just before the key is stored.
            let demote = client
                .update_item()
                .table_name("users")
                .key("pk", aws_sdk_dynamodb::types::AttributeValue::S(format!("user#{user}")))
                .update_expression("SET #role = :role")
                .expression_attribute_names("#role", "role")
                .expression_attribute_values(":role", aws_sdk_dynamodb::types::AttributeValue::S("member".to_owned()));
            let demoted = async { demote.send().await.map(drop).map_err(Box::new) };
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(demoted)).expect("a write");
        }
        None
    })
    .await;
    let tenant = world.tenant("acme").await;
    table.set((world.stack.dynamodb_client(), tenant.user.clone())).expect("once");
    demotes.on();
    let refused = world.cli(&tenant.cookie, "api-key/create", json!({"name": "x", "kind": ORGANIZATION})).await;
    assert_eq!(refused.refused(), (503, "SERVICE_UNAVAILABLE"));
    let again = world.cli(&tenant.cookie, "api-key/create", json!({"name": "x", "kind": ORGANIZATION})).await;
    assert_eq!(again.refused(), (403, "FORBIDDEN"));
    assert_eq!(world.cli_get(&tenant.cookie, "api-key/list").await.body.as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_issue_organization_keys() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "al@example.com", "member").await;
    let create = async |cookie: &str, fields: Value| world.cli(cookie, "api-key/create", fields).await;
    let refused = create(&member.cookie, json!({"name": "x", "kind": ORGANIZATION})).await;
    assert_eq!(refused.refused(), (403, "FORBIDDEN"));
    let refused = create(&tenant.cookie, json!({"name": "x", "kind": ORGANIZATION, "scopes": ["members:write"]})).await;
    assert_eq!((refused.status, &refused.body["issues"][0]["path"]), (400, &json!(["scopes"])));
    for fields in [json!({"kind": "admin"}), json!({"scopes": []}), json!({"scopes": ["x"]}), json!({"scopes": "x"})] {
        let mut named = fields.clone();
        named["name"] = json!("x");
        assert_eq!(create(&tenant.cookie, named).await.status, 400, "{fields}");
    }
    let foreign = world.tenant("other").await.id;
    let refused = create(&tenant.cookie, json!({"name": "x", "organizationId": foreign})).await;
    assert_eq!((refused.status, &refused.body["message"]), (404, &json!("Organization not found")));
    assert_eq!(create(&tenant.cookie, json!({"name": "x", "organizationId": tenant.id})).await.status, 200);
    let key = organization_key(&world, &tenant).await;
    let by_key = world.post_by_key(&key, "api-key/create", json!({"name": "x"})).await;
    assert_eq!(by_key.refused(), (401, "UNAUTHORIZED"));
}

/// If ignored, these parameters would yield a key with more permissions than its issuer intended.
#[tokio::test(flavor = "multi_thread")]
async fn unsupported_parameters_are_refused_by_name() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for name in ["permissions", "remaining", "refillAmount", "refillInterval", "rateLimitMax", "metadata", "userId"] {
        let refused = world.cli(&tenant.cookie, "api-key/create", json!({"name": "x", name: {"a": ["b"]}})).await;
        assert_eq!((refused.status, &refused.body["issues"][0]["path"]), (400, &json!([name])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_key_acts_for_no_user() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let key = organization_key(&world, &tenant).await;
    assert_eq!(world.get_by_key(&key, "get-session").await.body, Value::Null);
    assert_eq!(world.get_by_key(&key, "organization/get-active-member").await.status, 404);
    assert_eq!(world.get_by_key(&key, "organization/list").await.body[0]["id"], json!(tenant.id));
    assert_eq!(world.get_by_key(&key, "organization/list-members").await.body["total"], 1);
    let own = world.get_by_key(&key, "organization/get-active-member-role").await;
    assert_eq!(own.status, 404, "{own:?}");
    let theirs = format!("organization/get-active-member-role?userId={}", tenant.user);
    assert_eq!(world.get_by_key(&key, &theirs).await.body["role"], "owner");
    // An invitation's id is enough to accept it.
    let invited = json!({"email": "bo@example.com", "role": "member"});
    assert_eq!(world.cli(&tenant.cookie, "organization/invite-member", invited.clone()).await.status, 200);
    let whole = world.get_by_key(&key, "organization/get-full-organization").await.body;
    assert_eq!((whole["members"].as_array().map(Vec::len), &whole["invitations"]), (Some(1), &json!([])));
    for route in ["organization/list-invitations", "list-sessions"] {
        let refused = world.get_by_key(&key, route).await;
        assert!([401, 403].contains(&refused.status), "{route}: {refused:?}");
    }
    let member = json!({"memberIdOrEmail": tenant.email, "memberId": tenant.user, "role": "member"});
    for route in ["invite-member", "update-member-role", "remove-member"] {
        let mut fields = member.clone();
        fields["email"] = json!("cy@example.com");
        let refused = world.post_by_key(&key, &format!("organization/{route}"), fields).await;
        assert_eq!(
            (refused.refused(), &refused.body["scope"]),
            ((403, "FORBIDDEN"), &json!("members:write")),
            "{route}"
        );
    }
    // The key can read and change settings, just as an owner can.
    let changed = world.rpc(&key, "tenant/settings", json!({"disable_job_failure_notifications": true})).await;
    assert_eq!(changed.ok()["disable_job_failure_notifications"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_keys_has_scopes_and_the_last_address() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let scoped = json!({"kind": ORGANIZATION, "scopes": ["webhooks:write", "webhooks:read"]});
    let key = world.key(&tenant.cookie, scoped).await;
    world.rpc(&key, "webhooks/list", json!({})).await.ok();
    let listed = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    let creator = json!({"id": tenant.user, "name": "Jo Doe"});
    assert_eq!((&listed[0]["kind"], &listed[0]["scopes"]), (&json!("personal"), &Value::Null));
    assert_eq!((&listed[0]["createdBy"], &listed[0]["lastIpAddress"]), (&creator, &Value::Null));
    assert_eq!((&listed[1]["kind"], &listed[1]["createdBy"]), (&json!(ORGANIZATION), &creator));
    assert_eq!(listed[1]["scopes"], json!(["webhooks:read", "webhooks:write"]));
    assert_eq!(listed[1]["lastIpAddress"], "127.0.0.1");
    assert!(listed[1]["lastRequest"].is_string());
    // An organization key lists all keys, whereas a member sees only their own.
    let all = organization_key(&world, &tenant).await;
    assert_eq!(world.get_by_key(&all, "api-key/list").await.body.as_array().map(Vec::len), Some(3));
    let member = world.member(&tenant, "al@example.com", "member").await;
    let own = world.cli_get(&member.cookie, "api-key/list").await.body;
    assert_eq!(own.as_array().map(Vec::len), Some(1), "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_organization_key_takes_one_read_of_two_items() {
    let reads = Arc::new(Mutex::new(Vec::new()));
    let read = Arc::clone(&reads);
    let world = World::answering(&[], move |call| {
        if call.function == "webhooks-list" && call.operation.ends_with("GetItem") {
            let keys = call["RequestItems"]["api-keys"]["Keys"].as_array().map_or(1, Vec::len);
            read.lock().expect("no panic").push((call.operation.clone(), keys));
        }
        None
    })
    .await;
    let tenant = world.tenant("acme").await;
    let key = organization_key(&world, &tenant).await;
    let get = ("GetItem".to_owned(), 1);
    let both = vec![("BatchGetItem".to_owned(), 2)];
    for expected in [vec![get.clone(), get], both.clone(), both] {
        world.rpc(&key, "webhooks/list", json!({})).await.ok();
        assert_eq!(std::mem::take(&mut *reads.lock().expect("no panic")), expected);
    }
}
