//! Least privilege, checked in the template and in the functions' calls.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use common::{timestamp::Timestamp, webhooks::delivery::Status};
use serde_json::{Value, json};
use tests::{
    Browser, Call, Protected, Proxy, Receiver, Switch, World, event,
    world::{link, people::PASSWORD, tables::Item},
};

use super::{ALL, LEAST, functions, last, queues, resources, template, text, texts, variables};

/// The permissions that AWS cannot restrict to a resource.
const UNAVOIDABLE: [&str; 8] = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
];

/// The statements of a role or policy.
fn statements(properties: &Value) -> Vec<&Value> {
    let own = properties["Policies"].as_array().into_iter().flatten().map(|policy| &policy["PolicyDocument"]);
    let documents = own.chain(properties.get("PolicyDocument"));
    documents.flat_map(|document| document["Statement"].as_array().expect("statements")).collect()
}

/// The role of the function `name`, the only source of its permissions.
fn role<'a>(template: &'a Value, function: &Value) -> &'a Value {
    let name = last(text(&function["Role"]), '/');
    let wanted = name.replace('-', "");
    let mut roles = resources(template, "AWS::IAM::Role").filter(|(logical, _)| logical.to_lowercase() == wanted);
    &roles.next().expect(name).1["Properties"]
}

#[test]
fn nothing_is_permitted_by_a_wildcard() {
    for template in [template(&LEAST), template(&ALL)] {
        let holders = ["AWS::IAM::Role", "AWS::IAM::ManagedPolicy"].map(|kind| resources(&template, kind));
        for (name, holder) in holders.into_iter().flatten() {
            let properties = &holder["Properties"];
            // Policies in the template are referenced by name; an AWS-managed policy would be referenced by ARN.
            let shared = properties["ManagedPolicyArns"].as_array().into_iter().flatten().map(text);
            for policy in shared {
                assert!(!policy.starts_with("arn:"), "{name} has permissions that are not in the template: {policy}");
            }
            for statement in statements(properties).into_iter().filter(|statement| statement["Effect"] != "Deny") {
                let actions = texts(&statement["Action"]);
                if actions == ["ses:SendRawEmail"] {
                    // The identity may be a whole domain.
                    assert!(statement["Condition"]["StringEquals"]["ses:FromAddress"].is_string(), "{name}");
                }
                for action in &actions {
                    assert!(!action.contains(['*', '?']), "{name}: {action}");
                }
                for resource in texts(&statement["Resource"]) {
                    // CloudFormation returns the ARN of a log group with this suffix, which denotes its streams.
                    let resource = resource.strip_suffix("-logs:*").unwrap_or(resource);
                    let is_named = !resource.contains(['*', '?']);
                    assert!(
                        is_named || actions.iter().all(|action| UNAVOIDABLE.contains(action)),
                        "{name}: {resource}"
                    );
                }
            }
        }
        for (name, function) in functions(&template) {
            assert!(function["Policies"].is_null(), "{name}: permissions belong in its role");
        }
    }
}

/// A function with a variable for a table needs a permission on that table, and vice versa. The same is true for queues
/// and email.
#[test]
fn permissions_match_the_resources_in_the_variables() {
    let template = template(&LEAST);
    for (name, function) in functions(&template) {
        let mut named: BTreeSet<String> = queues(function).map(str::to_owned).collect();
        named.insert(format!("arn:aws:logs:eu-central-1:123456789012:log-group:{name}-logs:*"));
        for (variable, value) in variables(function) {
            let value = text(value);
            if variable.ends_with("_TABLE") {
                named.insert(format!("arn:aws:dynamodb:eu-central-1:123456789012:table/{value}"));
            } else if variable.ends_with("_QUEUE_URL") {
                named.insert(format!("arn:aws:sqs:eu-central-1:123456789012:{}", last(value, '/')));
            } else if variable == "MAIL_FROM" {
                for identity in ["example.com", value] {
                    named.insert(format!("arn:aws:ses:eu-central-1:123456789012:identity/{identity}"));
                }
            } else if variable == "MAIL_CONFIGURATION_SET" {
                named.insert(format!("arn:aws:ses:eu-central-1:123456789012:configuration-set/{value}"));
            }
        }
        let permitted = statements(role(&template, function)).into_iter().flat_map(|statement| {
            let service = last(text(&statement["Action"][0]).split(':').next().unwrap_or_default(), ':').to_owned();
            texts(&statement["Resource"]).into_iter().map(move |resource| {
                assert!(
                    resource.starts_with(&format!("arn:aws:{service}:")),
                    "{resource} does not belong to {service}"
                );
                resource.split("/index/").next().unwrap_or_default().to_owned()
            })
        });
        assert_eq!(permitted.collect::<BTreeSet<_>>(), named, "{name}");
    }
}

/// Pages from other origins may call the API only if the deployment names them.
#[test]
fn only_named_origins_and_headers_are_allowed() {
    let cors = |template: &Value| template["Resources"]["HttpApi"]["Properties"]["CorsConfiguration"].clone();
    assert_eq!(cors(&template(&LEAST)), Value::Null);
    let origins = json!(["https://app.example.com", "https://admin.example.com"]);
    let cors = cors(&template(&ALL));
    assert_eq!(cors["AllowOrigins"], origins);
    assert_eq!(cors["AllowHeaders"], json!(["content-type", "idempotency-key", "x-api-key"]));
}

/// The functions use exactly their permissions: a scenario with every action makes only calls that the roles permit,
/// and needs every permission.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_permitted_and_every_permission_is_used() {
    let (made, throttles) = (Arc::<Mutex<BTreeSet<String>>>::default(), Switch::default());
    let (calls, is_throttled) = (Arc::clone(&made), throttles.clone());
    let record = move |call: &Call| {
        let needed = permissions(&call.operation, &call.body).into_iter();
        let mut calls = calls.lock().expect("no panic");
        calls.extend(needed.map(|permission| format!("{} {permission}", call.function)));
        // Queries read parts of the index that are too large for a statement.
        if call.operation == "ExecuteStatement" && call.function == "deliveries-stats" {
            return Some((200, json!({"Items": [], "LastEvaluatedKey": {"open": {"S": "more"}}})));
        }
        let is_refused = call.operation == "BatchWriteItem" && is_throttled.is_on() && is_to_first_partition(call);
        is_refused.then(|| (200, json!({"UnprocessedItems": call["RequestItems"]})))
    };
    let (tables, queues) = (Proxy::answering(record.clone()).await, Proxy::answering(record).await);
    let world = World::with(&[
        ("AWS_ENDPOINT_URL_DYNAMODB", tables.address()),
        ("AWS_ENDPOINT_URL_SQS", queues.address()),
        ("RETRY_SCHEDULE", "0"),
        ("KEPT_PAYLOAD_BYTES", "0"),
    ])
    .await;
    let _before = (tables.before(world.stack.dynamodb()), queues.before(world.stack.sqs()));
    everything_happens_once(&world, &throttles).await;

    let template = template(&LEAST);
    let mut permitted = BTreeSet::new();
    for (name, function) in functions(&template) {
        for statement in statements(role(&template, function)) {
            for action in texts(&statement["Action"]) {
                let by_code = action.starts_with("dynamodb:") || action == "sqs:SendMessage";
                for resource in texts(&statement["Resource"]).into_iter().filter(|_| by_code) {
                    let target = last(resource, ':').trim_start_matches("table/");
                    permitted.insert(format!("{name} {action} {target}"));
                }
            }
        }
    }
    let made = made.lock().expect("no panic").clone();
    let refused: Vec<_> = made.difference(&permitted).collect();
    let unused: Vec<_> = permitted.difference(&made).collect();
    assert!(refused.is_empty() && unused.is_empty(), "refused: {refused:#?}\nnever used: {unused:#?}");
}

async fn everything_happens_once(world: &World, throttles: &Switch) {
    let tenant = world.tenant("acme").await;
    let sign_in = json!({"email": tenant.email, "password": World::sign_up_fields("acme")["password"]});
    assert_eq!(world.cli("", "sign-in/email", sign_in).await.status, 200);
    world.rpc("", "auth/requestPasswordReset", json!({"email": tenant.email})).await.ok();
    a_client_is_signed_in_by_the_browser(world, &tenant).await;
    let address = json!({"debug_notification_email": "alerts@example.com"});
    world.rpc(&tenant.key, "tenant/settings", address).await.ok();
    let guarded = world.tenant("guarded").await;
    let session = the_second_factor_is_used(world, &guarded).await;
    a_password_is_reset(world).await;
    world.rpc_by_session(&session, "tenant/settings", json!({"require_two_factor": true})).await.ok();
    let optional = world.http.post(world.url("/console/settings")).header("origin", world.stack.api());
    let optional = optional.form(&[("action", "require"), ("requireTwoFactor", "off")]);
    assert_eq!(world.send(optional.header("cookie", &session)).await.status, 303);
    let get = |path: &str| world.send(world.http.get(world.url(path)).header("x-api-key", &tenant.key));
    assert_eq!(get("/api/auth/organization/list").await.status, 200);

    let invitation = json!({"email": "new@example.com", "role": "member", "organizationId": tenant.id});
    assert_eq!(world.cli(&tenant.cookie, "organization/invite-member", invitation.clone()).await.status, 200);
    assert_eq!(world.cli(&tenant.cookie, "organization/invite-member", invitation).await.status, 200);
    let page = world.send(world.http.get(link(&world.mail_to("new@example.com").await))).await;
    assert_eq!(page.status, 200);
    let invited = world.items("invitations").await;
    let pending =
        |item: &&Item| item.get("status").is_some_and(|status| status == &AttributeValue::S("pending".to_owned()));
    let pending = invited.iter().find(pending);
    let id = pending.expect("a pending invitation")["invitation_id"].as_s().expect("a string");
    world.rpc("", "auth/inviteDetails", json!({"invitationId": id, "tenantSlug": "acme"})).await.ok();
    let accepting = json!({"invitationId": id, "tenantSlug": "acme", "name": "New", "password": "correct horse"});
    let account = world.rpc("", "auth/acceptInviteAndSignup", accepting).await.ok().clone();

    let receiver = Receiver::scripted(&[(500, &[]), (200, &[]), (500, &[]), (500, &[])]).await;
    let fields = json!({"url": receiver.url("/"), "signing_secret": "correct-horse-battery"});
    let created = world.rpc_once(&tenant.key, "webhooks/create", "once", fields).await;
    let id = created.ok()["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    world.rpc(&tenant.key, "webhooks/list", json!({})).await.ok();
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id})).await.ok();
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "url": receiver.url("/")})).await.ok();
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": true})).await.ok();
    everybody_is_looked_up(world, &tenant).await;
    endpoints_whose_receivers_are_gone_are_disabled(world, &tenant).await;
    // One delivery with a payload that is too large to be kept succeeds on a retry, and another delivery fails.
    for (job, status) in [("late", Status::Delivered), ("failed", Status::Failed)] {
        world.deliver(event(&tenant.id, job)).await;
        assert_eq!(world.poll("deliveries").await, 1);
        let logged = world.log_of(&tenant.id, status).await;
        assert_eq!(logged.iter().map(|delivery| delivery.job_id.as_str()).collect::<Vec<_>>(), [job]);
    }
    the_log_is_read(world, &tenant, &id).await;
    endpoints_are_used_in_the_console(world, &tenant, &id).await;
    deliveries_are_taken(world, &tenant).await;
    world.rpc_once(&tenant.key, "webhooks/test", "once", json!({"id": id})).await.ok();
    assert_eq!(world.poll("deliveries").await, 1);
    let mut failed = event(&tenant.id, "failed permanently");
    failed["event"] = json!("job.failed");
    world.deliver(failed).await;
    a_delivery_waits_for_a_silent_receiver(world).await;
    lost_messages_of_drains_are_replaced(world).await;
    large_held_deliveries_are_resent(world).await;
    a_slow_receiver_asks_for_an_hour(world).await;
    // The partition of the endpoint is throttled. A random eighth of the deliveries still goes to this partition.
    throttles.on();
    for job in 0..10 {
        world.enqueue("job-events", event(&tenant.id, job)).await;
    }
    world.poll_all("job-events").await;
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": id})).await.ok();

    let role = json!({"memberId": account["userId"], "role": "owner"});
    assert_eq!(world.cli(&tenant.cookie, "organization/update-member-role", role).await.status, 200);
    assert_eq!(get("/api/auth/organization/list-members").await.body["total"], 2);
    assert_eq!(get("/api/auth/organization/list-invitations").await.body.as_array().map(Vec::len), Some(2));
    let member = json!({"memberIdOrEmail": "new@example.com"});
    assert_eq!(world.cli(&tenant.cookie, "organization/remove-member", member).await.status, 200);
    let removed = world.member(&tenant, "removed@example.com", "member").await;
    let member = json!({"memberIdOrEmail": removed.user});
    assert_eq!(world.cli(&tenant.cookie, "organization/remove-member", member).await.status, 200);
    let leaver = world.member(&tenant, "leaver@example.com", "owner").await;
    let password = json!({"password": "correct horse battery"});
    assert_eq!(world.cli(&leaver.cookie, "delete-user", password).await.status, 200);
    // A key is read before it is rejected, and a known one together with its user.
    for _ in 0..2 {
        let by_key = world.http.post(world.url("/api/auth/delete-user")).header("x-api-key", &tenant.key);
        assert_eq!(world.send(by_key.json(&json!({"password": PASSWORD}))).await.status, 401);
    }
    assert_eq!(world.cli_get(&tenant.cookie, "list-sessions").await.body.as_array().map(Vec::len), Some(2));
    assert_eq!(world.cli(&tenant.cookie, "revoke-other-sessions", json!({})).await.status, 200);
    the_pages_are_used(world).await;
    the_console_is_used(world).await;
    let mut keys = json!([]);
    for route in ["get-session", "api-key/list"] {
        world.forget_uses().await;
        for _ in 0..2 {
            keys = get(&format!("/api/auth/{route}")).await.body;
        }
    }
    let deleted = world.cli(&tenant.cookie, "api-key/delete", json!({"keyId": keys[0]["id"]})).await;
    assert_eq!(deleted.status, 200);
    assert_eq!(world.cli(&tenant.cookie, "sign-out", json!({})).await.status, 200);
    throttles.off();
    the_organization_is_deleted(world, &tenant).await;
}

/// One receiver responds to a POST with 410, and so does another to deliveries that a client then settles together.
async fn endpoints_whose_receivers_are_gone_are_disabled(world: &World, owner: &tests::Tenant) {
    let tenant = world.tenant("gone").await;
    let receiver = Receiver::scripted(&[(410, &[])]).await;
    world.endpoint(&tenant, &receiver.url("/"), "s").await;
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await.ok().clone();
    world.deliver(event(&tenant.id, "gone")).await;
    world.deliver(event(&tenant.id, "gone, too")).await;
    let endpoint = json!({"webhook_endpoint_id": created["webhook_endpoint_id"]});
    let taken = world.rpc(&tenant.key, "deliveries/receive", endpoint).await.ok()["deliveries"].clone();
    let taken = taken.as_array().expect("deliveries").iter();
    let settled =
        taken.map(|taken| json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": 410}));
    let settled = json!({"settlements": settled.collect::<Vec<_>>()});
    assert_eq!(world.rpc(&tenant.key, "deliveries/settle", settled).await.ok()["settlements"][1]["result"], "settled");
    assert!(world.endpoints(&tenant).await.iter().all(|endpoint| endpoint["active"] == false));
    world.rpc(&owner.key, "audit/list", json!({})).await.ok();
    // A page with several endpoints counts their deliveries by a statement.
    assert_eq!(Browser::new(world, &tenant.cookie).open("/console").await.status, 200);
}

/// The receiver is silent, so the attempt waits for the next one of its drain.
async fn a_delivery_waits_for_a_silent_receiver(world: &World) {
    let tenant = world.tenant("silent").await;
    let id = world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    world.make_silent(&tenant, &id, Timestamp::now().before(Duration::from_mins(40))).await;
    world.deliver(event(&tenant.id, "j")).await;
    world.poll_all("hanging-deliveries").await;
}

async fn lost_messages_of_drains_are_replaced(world: &World) {
    let tenant = world.tenant("lost").await;
    world.new_endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    let silent = world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    world.make_silent(&tenant, &silent, Timestamp::now().before(Duration::from_mins(40))).await;
    world.enqueue("job-events", event(&tenant.id, "j")).await;
    world.poll_all("job-events").await;
    for queue in ["slow-deliveries", "hanging-deliveries"] {
        assert_eq!(world.drain(queue).await.len(), 1, "{queue}");
    }
    let late = Timestamp::now().before(Duration::from_mins(6)).as_millisecond();
    world.set_drains(&tenant, json!({"expected_at": late})).await;
    world.sweep(Timestamp::now().after(Duration::from_mins(20))).await;
    assert_eq!(world.counts("slow-deliveries").await, [1, 0, 0]);
    world.handle_all().await;
}

/// The payloads are too large for the rows of their deliveries, so they are stored separately.
async fn large_held_deliveries_are_resent(world: &World) {
    let tenant = world.tenant("held").await;
    let id = world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    world.rpc(&tenant.key, "webhooks/update", json!({"id": id, "active": false})).await.ok();
    for job in ["resent", "recovered"] {
        let mut large = event(&tenant.id, job);
        large["result"] = json!("x".repeat(1000));
        world.deliver(large).await;
    }
    let resent = json!({"delivery_id": world.log(&tenant.id).await[0].id});
    let mut signed = resent.clone();
    signed["request"] = json!("now");
    world.rpc(&tenant.key, "deliveries/get", signed).await.ok();
    world.rpc(&tenant.key, "deliveries/resend", resent).await.ok();
    let since = json!({"webhook_endpoint_id": id, "since": "2026-01-01T00:00:00Z"});
    world.rpc(&tenant.key, "deliveries/recover", since.clone()).await.ok();
    world.sweep(Timestamp::now()).await;
    // They are held again. A new recovery begins with its message.
    world.handle_all().await;
    world.rpc(&tenant.key, "deliveries/recover", since).await.ok();
    world.poll_all("slow-deliveries").await;
    assert_eq!(world.log_of(&tenant.id, Status::Pending).await.len(), 2);
}

/// A drain makes the attempts, also the one that the next sweep wakes.
async fn a_slow_receiver_asks_for_an_hour(world: &World) {
    let (tenant, receiver) =
        (world.tenant("slow").await, Receiver::scripted(&[(503, &[("retry-after", "3600")])]).await);
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    world.make_late(&tenant, &id).await;
    world.deliver(event(&tenant.id, "slow")).await;
    world.sweep(Timestamp::now().after(Duration::from_hours(2))).await;
    world.handle_all().await;
}

async fn the_organization_is_deleted(world: &World, tenant: &tests::Tenant) {
    let password = &World::sign_up_fields("acme")["password"];
    let signed_in = world.cli("", "sign-in/email", json!({"email": tenant.email, "password": password})).await;
    let cookie = format!("session_token={}", text(&signed_in.body["token"]));
    let endpoint = json!({"url": "http://127.0.0.1:9/", "signing_secret": "correct-horse-battery"});
    world.rpc_by_session(&cookie, "webhooks/create", endpoint.clone()).await.ok();
    let mover = world.tenant("mover").await;
    world.rpc(&mover.key, "webhooks/create", endpoint.clone()).await.ok();
    let invitation = json!({"email": mover.email, "role": "member"});
    let invited = world.cli(&cookie, "organization/invite-member", invitation).await.body;
    assert_eq!(world.cli_get(&mover.cookie, "organization/list-user-invitations").await.status, 200);
    let accepting = json!({"invitationId": invited["id"], "deleteOrganization": true});
    assert_eq!(world.cli(&mover.cookie, "organization/accept-invitation", accepting).await.status, 200);
    // The same through the other route, by the last member of another organization.
    let second = world.tenant("second").await;
    let third = world.member(&second, "third@example.com", "owner").await;
    let invitation = json!({"email": third.email, "role": "member"});
    let invited = world.cli(&cookie, "organization/invite-member", invitation).await.body;
    let accepting = json!({"invitationId": invited["id"], "tenantSlug": tenant.slug});
    // The first notice of an hour.
    let is_counter = |item: &Item| item.get("kind").is_some_and(|kind| kind == &AttributeValue::S("alert".to_owned()));
    assert_ne!(world.set_where("tokens", is_counter, &json!({"expires_at": 1})).await, 0);
    world.rpc_by_session(&third.cookie, "auth/acceptInviteForCurrentUser", accepting).await.ok();
    assert_eq!(world.cli(&third.cookie, "delete-user", json!({"password": PASSWORD})).await.status, 200);
    world.rpc(&second.key, "webhooks/create", endpoint).await.ok();
    let invitation = json!({"email": second.email, "role": "member"});
    let invited = world.cli(&cookie, "organization/invite-member", invitation).await.body;
    let accepting = json!({"invitationId": invited["id"], "tenantSlug": tenant.slug, "deleteOrganization": true});
    world.rpc_by_session(&second.cookie, "auth/acceptInviteForCurrentUser", accepting).await.ok();
    let leaving = json!({"password": password});
    assert_eq!(world.cli(&second.cookie, "delete-user", leaving.clone()).await.status, 200);
    assert_eq!(world.cli(&mover.cookie, "delete-user", leaving.clone()).await.status, 200);
    assert_eq!(world.cli(&cookie, "delete-user", leaving).await.status, 200);
    let later = Timestamp::now().after(Duration::from_mins(3));
    world.stack.invoke("accounts-purge", json!({"time": later})).await.expect("the purge succeeds");
    let mut bounced = tests::sample_event("accounts-bounces");
    bounced["detail"]["bounce"]["bounceType"] = json!("Transient");
    world.stack.invoke("accounts-bounces", bounced).await.expect("the bounce is noted");
    let bounced = tests::sample_event("accounts-bounces");
    world.stack.invoke("accounts-bounces", bounced).await.expect("the address is stored");
}

/// These calls also identify the caller first, but do not accept a key.
async fn a_client_is_signed_in_by_the_browser(world: &World, tenant: &tests::Tenant) {
    let login = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    let invitation = json!({"invitationId": tenant.id, "tenantSlug": "acme"});
    for (route, fields, expected) in [
        ("auth/cliLoginApprove", &login, 200),
        ("auth/status", &login, 200),
        ("auth/acceptInviteForCurrentUser", &invitation, 404),
    ] {
        world.forget_uses().await;
        assert_eq!(world.rpc_by_session(&tenant.cookie, route, fields.clone()).await.status, expected, "{route}");
        // In the second call, the process has cached the key and reads the key and its user together.
        for _ in 0..2 {
            assert_eq!(world.rpc(&tenant.key, route, json!({})).await.status, 401, "{route}");
        }
    }
    let fetched = world.rpc("", "auth/cliLoginPoll", login).await.ok().clone();
    assert_eq!(world.cli(text(&fetched["cookieHeader"]), "sign-out", json!({})).await.status, 200);
}

/// Sets up a second factor, signs in with it and returns the session of the setup.
async fn the_second_factor_is_used(world: &World, user: &tests::Tenant) -> String {
    let Protected { app, cookie, .. } = world.protect(user).await;
    let pending = world.begin_sign_in(&user.email, PASSWORD).await;
    assert_eq!(world.enter_code(&pending, &app.code(0)).await.status, 200);
    cookie
}

/// A reset also deletes the user's keys.
async fn a_password_is_reset(world: &World) {
    let user = world.tenant("forgetful").await;
    assert_eq!(world.cli("", "request-password-reset", json!({"email": user.email})).await.status, 200);
    let link = link(&world.mail_to(&user.email).await);
    let reset = json!({"token": link.rsplit('=').next(), "newPassword": "a new long password"});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
    // The first verification of an address takes the notifications back.
    let email = world.sign_up("unverified").await["email"].clone();
    assert_eq!(world.cli("", "request-password-reset", json!({"email": email})).await.status, 200);
    let link = self::link(&world.mail_to(text(&email)).await);
    let reset = json!({"token": link.rsplit('=').next(), "newPassword": "a new long password"});
    assert_eq!(world.cli("", "reset-password", reset).await.status, 200);
}

/// The caller is identified before the fields are read. Once a day, the use is recorded. The second call with a key reads
/// the key and its owner together.
async fn everybody_is_looked_up(world: &World, tenant: &tests::Tenant) {
    for (name, route) in tests::description::routes() {
        let takes_keys = route["security"].as_array().into_iter().flatten().any(|security| security["key"].is_array());
        let Some(route) = name.strip_prefix("POST /v1/").filter(|_| takes_keys) else { continue };
        world.forget_uses().await;
        for answer in [
            world.rpc_by_session(&tenant.cookie, route, json!({})).await,
            world.rpc(&tenant.key, route, json!({})).await,
            world.rpc(&tenant.key, route, json!({})).await,
        ] {
            assert_ne!(answer.status, 401, "{route}");
        }
    }
}

/// Uses the account pages.
async fn the_pages_are_used(world: &World) {
    let tenant = world.tenant("pages").await;
    let form = |path: &str, fields: Value| world.send(world.http.post(world.url(path)).form(&fields));
    assert_eq!(form("/reset-password", json!({"email": tenant.email})).await.status, 200);
    let link = link(&world.mail_to(&tenant.email).await);
    let token = link.rsplit('=').next().expect("a token");
    let reset = form("/reset-password", json!({"token": token, "newPassword": "a new long password"})).await;
    assert_eq!(reset.status, 200);

    let founder = json!({
        "action": "sign-up", "name": "Jo", "email": "jo@page.example.com", "password": "correct horse",
        "organizationName": "Doe", "organizationSlug": "page",
    });
    assert_eq!(form("/signin", founder).await.status, 303);
    let signed_in = form("/signin", json!({"email": "jo@page.example.com", "password": "correct horse"})).await;
    assert_eq!(signed_in.status, 303);
    let invited = world.invitation(&tenant.id, "al@page.example.com", Timestamp::now().as_second() + 60).await;
    let accepting = json!({"tenantSlug": "pages", "invitationId": invited, "name": "Al", "password": "correct horse"});
    let page = world.url(&format!("/invite?tenantSlug=pages&invitationId={invited}"));
    assert_eq!(world.send(world.http.get(page)).await.status, 200);
    assert_eq!(form("/invite", accepting).await.status, 303);
}

/// Calls by an owner who invites, manages and removes a member, and finally leaves.
async fn the_console_is_used(world: &World) {
    let owner = world.tenant("console").await;
    let act = async |cookie: &str, page: &str, fields: Value| {
        let form = world.http.post(world.url(&format!("/console/{page}"))).header("origin", world.stack.api());
        let answer = world.send(form.header("cookie", cookie).form(&fields)).await;
        assert!([200, 303].contains(&answer.status), "{page} {fields}: {answer:?}");
    };
    let member = world.member(&owner, "member@console.example.com", "member").await;
    for page in ["keys", "team", "audit", "settings", "account"] {
        let page = world.http.get(world.url(&format!("/console/{page}"))).header("cookie", &owner.cookie);
        assert_eq!(world.send(page).await.status, 200);
    }
    act(&owner.cookie, "keys", json!({"action": "issue", "form": "1", "name": "ci", "expires": "30", "access": "all"}))
        .await;
    let keys = world.cli_get(&owner.cookie, "api-key/list").await.body;
    act(&owner.cookie, "keys", json!({"action": "delete", "keyId": keys[2]["id"]})).await;
    for _ in 0..2 {
        act(&owner.cookie, "team", json!({"action": "invite", "email": "new@console.example.com", "role": "owner"}))
            .await;
    }
    let invited = world.cli_get(&owner.cookie, "organization/list-invitations").await.body;
    act(&owner.cookie, "team", json!({"action": "cancel", "invitationId": invited[0]["id"]})).await;
    act(&owner.cookie, "team", json!({"action": "role", "memberId": member.user, "role": "owner"})).await;
    act(&owner.cookie, "team", json!({"action": "remove", "memberId": member.user})).await;
    let settings = json!({"debugNotificationEmail": "alerts@console.example.com", "jobFailureMails": "off"});
    act(&owner.cookie, "settings", settings).await;
    act(&owner.cookie, "account", json!({"action": "end-others"})).await;
    world.endpoint(&owner, "http://127.0.0.1:9/", "s").await;
    let password = &World::sign_up_fields("console")["password"];
    act(&owner.cookie, "account", json!({"action": "delete", "password": password, "sure": "yes"})).await;
}

async fn the_log_is_read(world: &World, tenant: &tests::Tenant, endpoint: &str) {
    let read = async |route: &str, fields| {
        let answer = world.rpc(&tenant.key, &format!("deliveries/{route}"), fields).await;
        answer.ok().clone()
    };
    // Delivered payloads are not kept, so they could not be resent.
    let listed = read("list", json!({"webhook_endpoint_id": endpoint, "status": "failed"})).await;
    let id = &listed["deliveries"][0]["delivery_id"];
    read("get", json!({"delivery_id": id})).await;
    let headers = format!("webhook-id: {}", tests::text(&listed["deliveries"][0]["webhook_id"]));
    let seen = json!({"id": endpoint, "headers": headers, "body": "e30="});
    world.rpc(&tenant.key, "webhooks/verify", seen).await.ok();
    for fields in [json!({}), json!({"webhook_endpoint_id": endpoint})] {
        read("stats", fields).await;
    }
    let since = json!({"webhook_endpoint_id": endpoint, "since": "2026-01-01T00:00:00Z"});
    read("recover", since.clone()).await;
    world.rpc_once(&tenant.key, "deliveries/recover", "once", since).await.ok();
    world.sweep(Timestamp::now()).await;
    read("resend", json!({"delivery_id": id})).await;
    world.rpc_once(&tenant.key, "deliveries/resend", "once", json!({"delivery_id": id})).await.ok();
    // The job has no deliveries, but its error waits to be emailed.
    let mut reported = event(&tenant.id, "no job");
    (reported["event"], reported["error"]) = (json!("job.failed"), json!("no"));
    reported["skip_callbacks"] = json!(true);
    world.deliver(reported).await;
    read("erase", json!({"job_id": "no job"})).await;
    // The recovery finds pending deliveries through the index.
    assert_eq!(&read("list", json!({"status": "pending"})).await["deliveries"][0]["delivery_id"], id);
    world.poll("deliveries").await;
}

/// A pull endpoint stops keeping payloads while a delivery with a shared payload waits.
async fn payloads_are_no_longer_kept(world: &World, tenant: &tests::Tenant, endpoint: &Value) {
    let mut unkept = event(&tenant.id, "unkept");
    unkept["result"] = json!("x".repeat(1000));
    world.deliver(unkept).await;
    let change = json!({"id": endpoint["webhook_endpoint_id"], "keep_payload": false});
    world.rpc(&tenant.key, "webhooks/update", change).await.ok();
    world.set_where("deliveries", |item| item.contains_key("shared_at"), &json!({"shared_at": 0})).await;
    let taken = world.rpc(&tenant.key, "deliveries/receive", endpoint.clone()).await.ok()["deliveries"][0].clone();
    let settled = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": 204});
    world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [settled]})).await.ok();
    let mut period = endpoint.clone();
    period["since"] = json!("2026-01-01T00:00:00Z");
    world.rpc(&tenant.key, "deliveries/erase", period).await.ok();
}

/// A delivery for a pull endpoint is received, fails once, and is then delivered. The payload is too large to be kept.
async fn deliveries_are_taken(world: &World, tenant: &tests::Tenant) {
    let created = world.rpc(&tenant.key, "webhooks/create", json!({"kind": "pull"})).await.ok().clone();
    let endpoint = json!({"webhook_endpoint_id": created["webhook_endpoint_id"]});
    let mut told = event(&tenant.id, "taken");
    told["result"] = json!("x".repeat(1000));
    world.deliver(told).await;
    for status in [500, 500, 204] {
        let taken = world.rpc(&tenant.key, "deliveries/receive", endpoint.clone()).await.ok()["deliveries"][0].clone();
        let settled = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": status});
        let settled = world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [settled]})).await;
        assert_eq!(settled.ok()["settlements"][0]["result"], "settled", "{settled:?}");
        if settled.ok()["settlements"][0]["status"] == "failed" {
            world.rpc(&tenant.key, "deliveries/resend", json!({"delivery_id": taken["delivery_id"]})).await.ok();
        }
    }
    // The payload of a test is never shared.
    world.rpc(&tenant.key, "webhooks/test", json!({"id": created["webhook_endpoint_id"]})).await.ok();
    world.poll("deliveries").await;
    let taken = world.rpc(&tenant.key, "deliveries/receive", endpoint.clone()).await.ok()["deliveries"][0].clone();
    let settled = json!({"delivery_id": taken["delivery_id"], "lease": taken["lease"], "status_code": 204});
    world.rpc(&tenant.key, "deliveries/settle", json!({"settlements": [settled]})).await.ok();
    // The payload of several endpoints was stored a while ago.
    world.set_where("deliveries", |item| item.contains_key("shared_at"), &json!({"shared_at": 0})).await;
    world.rpc(&tenant.key, "deliveries/erase", json!({"job_id": "taken"})).await.ok();
    payloads_are_no_longer_kept(world, tenant, &endpoint).await;
    let browser = Browser::new(world, &tenant.cookie);
    let page = browser.open(&format!("/console/endpoints/{}", text(&created["webhook_endpoint_id"]))).await;
    assert!(page.page().contains("0 to fetch"), "{page:?}");
    world.rpc(&tenant.key, "webhooks/delete", json!({"id": created["webhook_endpoint_id"]})).await.ok();
}

/// Uses the console's endpoint pages. The queues are not polled in the meantime, so each page waits for an attempt that
/// never happens.
async fn endpoints_are_used_in_the_console(world: &World, tenant: &tests::Tenant, endpoint: &str) {
    world.forget_uses().await;
    let browser = Browser::new(world, &tenant.cookie);
    let form = browser.open("/console/endpoints/new").await;
    let typed = [("url", "http://127.0.0.1:9/"), ("completed", "yes")];
    let added = browser.press("/console/endpoints/new", &form, "Add endpoint", &typed).await;
    assert_eq!(added.status, 200);
    let (_, other) = added.page().split_once("action=\"/console/endpoints/").expect("a link");
    let other = format!("/console/endpoints/{}", other.split('"').next().unwrap_or_default());
    let page = browser.open(&other).await;
    assert_eq!(browser.press(&other, &page, "Delete endpoint", &[("sure", "yes")]).await.status, 200);
    let path = format!("/console/endpoints/{endpoint}");
    let page = browser.open(&path).await;
    assert_eq!(browser.press(&path, &page, "Send test event", &[]).await.status, 200);
    let asked = browser.open(&format!("{path}?confirm=deactivate")).await;
    assert_eq!(browser.press(&path, &asked, "Disable endpoint", &[]).await.status, 200);
    let page = browser.open(&path).await;
    assert_eq!(browser.press(&path, &page, "Enable endpoint", &[]).await.status, 200);
    let recover = json!({"action": "recover", "since": "2026-01-01T00:00:00Z", "sure": "yes"});
    let request = world.http.post(world.url(&path)).header("origin", world.stack.api()).form(&recover);
    assert_eq!(world.send(request.header("cookie", &tenant.cookie)).await.status, 303);
    let found = browser.open("/console/deliveries?status=pending").await;
    let (_, delivery) = found.page().split_once("href=\"/console/deliveries/").expect("a link");
    let delivery = format!("/console/deliveries/{}", delivery.split('"').next().unwrap_or_default());
    let page = browser.open(&delivery).await;
    assert_eq!(browser.press(&delivery, &page, "Resend", &[]).await.status, 200);
    world.poll("deliveries").await;
}

/// Whether all writes in a batch go to the first partition of a destination.
fn is_to_first_partition(call: &Call) -> bool {
    let mut writes = call["RequestItems"]["deliveries"].as_array().into_iter().flatten();
    writes.all(|write| text(&write["PutRequest"]["Item"]["destination"]["S"]).ends_with(".0"))
}

/// The permissions that a call needs, each as an action and a resource.
fn permissions(operation: &str, call: &Value) -> Vec<String> {
    let table = |call: &Value| match call.get("IndexName") {
        Some(index) => format!("{}/index/{}", text(&call["TableName"]), text(index)),
        None => text(&call["TableName"]).to_owned(),
    };
    match operation {
        "SendMessage" | "SendMessageBatch" => vec![format!("sqs:SendMessage {}", last(text(&call["QueueUrl"]), '/'))],
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = call["RequestItems"].as_object().expect("tables").keys();
            tables.map(|table| format!("dynamodb:{operation} {table}")).collect()
        }
        // `INSERT INTO "table" VALUE ...` or `UPDATE "table" SET ...`
        "BatchExecuteStatement" => {
            let statements = call["Statements"].as_array().expect("statements").iter();
            let written = statements.map(|statement| {
                let (verb, rest) = text(&statement["Statement"]).split_once('"').expect("a table");
                let action = if verb == "UPDATE " { "Update" } else { "Insert" };
                format!("dynamodb:PartiQL{action} {}", rest.split('"').next().expect("a table"))
            });
            written.collect()
        }
        // `SELECT ... FROM "table" WHERE ...` or `SELECT ... FROM "table"."index" WHERE ...`
        "ExecuteStatement" => {
            let (_, rest) = text(&call["Statement"]).split_once(" FROM \"").expect("a table");
            let (source, _) = rest.split_once("\" WHERE ").expect("a condition");
            vec![format!("dynamodb:PartiQLSelect {}", source.replace("\".\"", "/index/"))]
        }
        // A transaction needs the permissions of its parts.
        "TransactWriteItems" => {
            let items = call["TransactItems"].as_array().expect("items");
            let parts = items.iter().flat_map(|item| item.as_object().expect("an item"));
            parts.map(|(part, write)| format!("dynamodb:{part}Item {}", table(write))).collect()
        }
        _ => vec![format!("dynamodb:{operation} {}", table(call))],
    }
}

/// The code of the function must not be able to use the permissions for network interfaces, and no other function may
/// be in the VPC.
#[test]
fn only_deliver_is_in_a_vpc_and_cannot_use_its_permissions() {
    let within = template(&ALL);
    let placed: Vec<_> = functions(&within).filter(|(_, function)| function["VpcConfig"].is_object()).collect();
    let [(name, function)] = placed[..] else { unreachable!("{placed:?}") };
    assert_eq!(name, "webhooks-deliver");
    assert_eq!(function["VpcConfig"]["SubnetIds"], json!(["subnet-0a1b2c3d", "subnet-4e5f6a7b"]));
    assert_eq!(function["VpcConfig"]["SecurityGroupIds"], json!(["sg-0a1b2c3d"]));
    let policy = &within["Resources"]["EgressPolicy"]["Properties"];
    let denied = statements(policy).into_iter().filter(|statement| statement["Effect"] == "Deny");
    let condition = |statement: &Value| statement["Condition"]["ArnLike"]["lambda:SourceFunctionArn"].is_string();
    assert_eq!(denied.map(condition).collect::<Vec<_>>(), [true]);
    assert!(functions(&template(&LEAST)).all(|(_, function)| !function["VpcConfig"].is_object()));
}
