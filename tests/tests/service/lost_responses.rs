//! Lost responses: the SDK repeats each write whose response it did not get, so a write may take effect twice, and its
//! caller sees only the second response.

use std::time::Duration;

use common::timestamp::Timestamp;
use serde_json::{Value, json};
use tests::{
    Answer, Receiver, Tenant, World, event,
    world::{people::PASSWORD, tables::Item},
};

const DATA: [&str; 8] =
    ["users", "organizations", "invitations", "tokens", "api-keys", "webhook-endpoints", "audit", "deliveries"];

/// The attributes of states and payloads.
const LASTING: [&str; 3] = ["status", "payload", "payload_lz4"];

/// The results of a walk, in which ids, times and secrets are replaced.
struct Walk {
    world: World,
    seen: Vec<Value>,
}

impl Walk {
    /// Adds a successful response to the results.
    fn see(&mut self, answer: Answer) -> Value {
        assert_eq!(answer.status, 200, "{}", answer.body);
        self.seen.push(masked(&answer.body));
        answer.body
    }

    async fn call(&mut self, tenant: &Tenant, route: &str, fields: Value) -> Value {
        let answer = self.world.rpc(&tenant.key, route, fields).await;
        self.see(answer)["json"].take()
    }

    async fn post(&mut self, cookie: &str, route: &str, fields: Value) -> Value {
        let answer = self.world.cli(cookie, route, fields).await;
        self.see(answer)
    }

    async fn deliver(&mut self, tenant: &Tenant, job: &str) {
        self.world.deliver(event(&tenant.id, job)).await;
        self.world.handle_all().await;
        self.call(tenant, "deliveries/list", json!({})).await;
        self.call(tenant, "webhooks/list", json!({})).await;
    }

    /// Adds the subjects of all emails and the number of items in each table to the results.
    async fn look(&mut self) {
        let mails = self.world.mails().await;
        let subjects: Vec<_> = mails.iter().map(|mail| masked(&json!([mail["to"], mail["subject"]]))).collect();
        self.seen.push(json!(subjects));
        for table in DATA {
            let items = self.world.items(table).await;
            // Rows for the sweep depend on the minute.
            let is_lasting = |item: &&Item| table != "deliveries" || item.keys().any(|name| LASTING.contains(&&**name));
            self.seen.push(json!([table, items.iter().filter(is_lasting).count()]));
        }
    }
}

/// A copy of `value` without ids, times, secrets and durations, which differ from walk to walk.
fn masked(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().filter(|(name, _)| !name.ends_with("_ms"));
            members.map(|(name, value)| (name.clone(), masked(value))).collect()
        }
        Value::Array(elements) => {
            let mut elements: Vec<_> = elements.iter().map(masked).collect();
            // Deliveries of one event are listed in the order of random ids.
            elements.sort_by_key(Value::to_string);
            elements.into()
        }
        Value::String(text) if text.len() > 30 || text.contains(|c: char| c.is_ascii_digit()) => json!("masked"),
        other => other.clone(),
    }
}

/// From a sign-up to the deletion of the last account, through the routes that write.
async fn walk(world: World) -> Vec<Value> {
    let mut walk = Walk { world, seen: Vec::new() };
    // If a record fails, it comes back soon.
    walk.world.come_back_after(1).await;
    let tenant = walk.world.tenant("acme").await;
    let receiver = Receiver::scripted(&[(500, &[]), (204, &[]), (204, &[]), (500, &[]), (500, &[])]).await;
    let endpoint = walk.world.endpoint(&tenant, &receiver.url("/"), "correct-horse-battery").await;

    walk.deliver(&tenant, "retried").await;
    let delivery = walk.call(&tenant, "deliveries/list", json!({})).await["deliveries"][0]["delivery_id"].clone();
    walk.call(&tenant, "deliveries/resend", json!({"delivery_id": delivery})).await;
    walk.world.handle_all().await;
    walk.deliver(&tenant, "failed").await;
    walk.world.sweep(Timestamp::now()).await;
    walk.look().await;
    let since = Timestamp::now().before(Duration::from_mins(1));
    walk.call(&tenant, "deliveries/recover", json!({"webhook_endpoint_id": endpoint, "since": since})).await;
    walk.world.handle_all().await;
    walk.call(&tenant, "deliveries/list", json!({})).await;

    walk.call(&tenant, "webhooks/test", json!({"id": endpoint})).await;
    walk.world.handle_all().await;
    for _ in 0..2 {
        // The second call changes nothing.
        walk.call(&tenant, "webhooks/update", json!({"id": endpoint, "description": "mine"})).await;
    }
    walk.call(&tenant, "webhooks/update", json!({"id": endpoint, "active": false})).await;
    walk.call(&tenant, "webhooks/update", json!({"id": endpoint, "active": true})).await;

    let pull = walk.call(&tenant, "webhooks/create", json!({"kind": "pull"})).await["webhook_endpoint_id"].take();
    walk.deliver(&tenant, "pulled").await;
    let received = walk.call(&tenant, "deliveries/receive", json!({"webhook_endpoint_id": pull})).await;
    let leased = &received["deliveries"][0];
    let settlement = json!({"delivery_id": leased["delivery_id"], "lease": leased["lease"], "status_code": 204});
    walk.call(&tenant, "deliveries/settle", json!({"settlements": [settlement]})).await;
    walk.call(&tenant, "deliveries/list", json!({})).await;
    walk.call(&tenant, "deliveries/erase", json!({"job_id": "retried"})).await;
    walk.call(&tenant, "webhooks/delete", json!({"id": pull})).await;
    walk.seen.push(json!(receiver.count().await));

    let member = walk.world.member(&tenant, "al@example.com", "member").await;
    let change = json!({"memberId": member.user, "role": "owner"});
    walk.post(&tenant.cookie, "organization/update-member-role", change).await;
    let again = json!({"email": "bo@example.com", "role": "member", "organizationId": tenant.id});
    let invited = walk.post(&tenant.cookie, "organization/invite-member", again).await["id"].take();
    walk.post(&tenant.cookie, "organization/cancel-invitation", json!({"invitationId": invited})).await;
    let audit = walk.world.rpc_by_session(&tenant.cookie, "audit/list", json!({})).await;
    walk.see(audit);
    walk.look().await;
    let keys = walk.world.cli_get(&member.cookie, "api-key/list").await.body;
    walk.post(&member.cookie, "api-key/delete", json!({"keyId": keys[0]["id"]})).await;
    let password = json!({"currentPassword": PASSWORD, "newPassword": "another horse battery"});
    walk.post(&member.cookie, "change-password", password).await;
    walk.post("", "request-password-reset", json!({"email": tenant.email})).await;
    let signed_in = walk.world.signed_in(&member.email, "another horse battery").await;
    walk.post(&signed_in, "delete-user", json!({"password": "another horse battery"})).await;
    walk.post(&tenant.cookie, "delete-user", json!({"password": PASSWORD})).await;
    for _ in 0..3 {
        let time = Timestamp::now().after(Duration::from_mins(3));
        walk.world.stack.invoke("accounts-purge", json!({"time": time})).await.expect("a pass");
    }
    walk.look().await;
    walk.seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_has_the_same_results_if_each_write_is_repeated() {
    let settings = [("RETRY_SCHEDULE", "0")];
    let expected = walk(World::with(&settings).await).await;
    let seen = walk(World::repeating(&settings).await).await;
    for (number, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        assert_eq!(seen, expected, "result {number}");
    }
    assert_eq!(seen.len(), expected.len());
}
