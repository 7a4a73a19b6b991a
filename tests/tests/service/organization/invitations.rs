//! Invitations to the organization.

use std::sync::Arc;

use serde_json::{Value, json};
use tests::{Answer, Browser, Call, Tenant, World, text, world::link};

fn accept(invitation: &Value, slug: &str) -> Value {
    json!({"invitationId": invitation, "tenantSlug": slug, "name": "Al", "password": "correct horse battery"})
}

async fn invite(world: &World, by: &Tenant, email: &str, role: &str) -> Answer {
    let fields = json!({"email": email, "role": role, "organizationId": by.id});
    world.cli(&by.cookie, "organization/invite-member", fields).await
}

/// Adds a verified member to the tenant's organization, and returns their cookie.
async fn member(world: &World, tenant: &Tenant) -> String {
    let invited = invite(world, tenant, "member@example.com", "member").await;
    let account = world.rpc("", "auth/acceptInviteAndSignup", accept(&invited.body["id"], &tenant.slug)).await;
    world.confirm(&link(&world.mail_to("member@example.com").await)).await;
    tests::world::cookie(account.ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_invites_and_the_email_has_all_details() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let invited = invite(&world, &tenant, " Al@Example.com ", "member").await;
    assert_eq!(invited.status, 200, "{invited:?}");
    let (id, expires) = (&invited.body["id"], &invited.body["expiresAt"]);
    assert_eq!(
        invited.body,
        json!({
            "id": id, "email": "al@example.com", "role": "member", "organizationId": tenant.id, "status": "pending",
            "inviterId": tenant.user, "expiresAt": expires, "createdAt": invited.body["createdAt"],
        })
    );
    let expires: common::timestamp::Timestamp = expires.as_str().expect("a time").parse().expect("a time");
    let hours = (expires.as_second() - common::timestamp::Timestamp::now().as_second()) / 3600;
    assert!((167..=168).contains(&hours), "{hours}");
    let mail = world.mail_to("al@example.com").await;
    assert_eq!(mail["subject"], "Webhooks: You are invited to join an organization");
    let text = mail["text"].as_str().expect("a text part");
    let id = id.as_str().expect("an id");
    for says in [format!("Invitation ID: {id}"), "Organization slug: acme".to_owned(), link(&mail)] {
        assert!(text.lines().any(|line| line == says), "{says}");
    }
    assert!(text.contains("7 days"));
    assert!(mail["html"].as_str().expect("an HTML part").contains("Doe &amp; Co"));
    let page = world.send(world.http.get(link(&mail))).await;
    assert_eq!(page.status, 200);
    let page = page.page().to_owned();
    assert!(page.contains("You are invited") && page.contains(&format!("value=\"{id}\"")), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_injects_neither_markup_nor_a_header() {
    let world = World::start().await;
    let mut fields = World::sign_up_fields("acme");
    fields["name"] = json!("Jo\r\nBcc: victim@example.com");
    let refused = world.rpc("", "auth/signupAndCreateOrg", fields.clone()).await;
    assert_eq!(refused.issues(), [("name", "invalid_format")]);
    fields["name"] = json!("<script>alert(1)</script>");
    fields["organizationName"] = json!("\"><a href='https://evil.example.com'>click</a>");
    let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
    let cookie = tests::world::cookie(&account);
    world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await;
    let fields = json!({"email": "al@example.com", "role": "owner", "organizationId": account["organizationId"]});
    assert_eq!(world.cli(&cookie, "organization/invite-member", fields).await.status, 200);
    for email in ["jo@acme.example.com", "al@example.com"] {
        let mail = world.mail_to(email).await;
        let html = mail["html"].as_str().expect("an HTML part");
        assert!(!html.contains("<script") && !html.contains("<a href='"), "{html}");
        assert!(!mail["subject"].as_str().expect("a subject").contains(['\r', '\n']));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_verified_owner_invites_into_their_own_organization() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let member = member(&world, &tenant).await;
    let fields =
        |organization: &str| json!({"email": "al@example.com", "role": "member", "organizationId": organization});
    let route = "organization/invite-member";
    let refused = world.cli(&member, route, fields(&tenant.id)).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("FORBIDDEN")));
    assert_eq!(world.cli(&other.cookie, route, fields(&tenant.id)).await.status, 404);
    assert_eq!(world.cli("", route, fields(&tenant.id)).await.status, 401);
    let unverified = world.sign_up("fresh").await;
    let id = unverified["organizationId"].as_str().expect("an id");
    let refused = world.cli(&tests::world::cookie(&unverified), route, fields(id)).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("EMAIL_NOT_VERIFIED")));
    let by_key = world.http.post(world.url(&format!("/api/auth/{route}"))).header("x-api-key", &tenant.key);
    assert_eq!(world.send(by_key.json(&fields(&tenant.id))).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_for_the_callers_organization_by_default() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let fields = json!({"email": "al@example.com", "role": "member"});
    let invited = world.cli(&tenant.cookie, "organization/invite-member", fields).await;
    assert_eq!((invited.status, &invited.body["organizationId"]), (200, &json!(tenant.id)));
    world.rpc("", "auth/acceptInviteAndSignup", accept(&invited.body["id"], "acme")).await.ok();
    let null = json!({"email": "bo@example.com", "role": "member", "organizationId": null});
    let invited = world.cli(&tenant.cookie, "organization/invite-member", null).await;
    assert_eq!((invited.status, &invited.body["organizationId"]), (200, &json!(tenant.id)));
}

/// Better Auth's client sends a list of roles.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_one_role_is_that_role() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let member = world.member(&tenant, "al@example.com", "member").await;
    let invite = async |role: serde_json::Value| {
        let fields = json!({"email": format!("{}@example.com", uuid::Uuid::now_v7()), "role": role});
        world.cli(&tenant.cookie, "organization/invite-member", fields).await
    };
    let change = async |role: serde_json::Value| {
        let fields = json!({"memberId": member.user, "role": role});
        world.cli(&tenant.cookie, "organization/update-member-role", fields).await
    };
    for role in ["member", "owner"] {
        for answer in [invite(json!([role])).await, change(json!([role])).await] {
            assert_eq!((answer.status, &answer.body["role"]), (200, &json!(role)), "{answer:?}");
        }
    }
    let wrong = [
        json!([]),
        json!(["member", "owner"]),
        json!(["admin"]),
        json!([["member"]]),
        json!({"0": "member"}),
        json!([null]),
    ];
    for wrong in wrong {
        assert_eq!(invite(wrong.clone()).await.refused(), (400, "BAD_REQUEST"), "{wrong}");
        assert_eq!(change(wrong.clone()).await.refused(), (400, "BAD_REQUEST"), "{wrong}");
    }
    // A key cannot be used to invite owners in this form, either.
    let by_key = world.http.post(world.url("/api/auth/organization/invite-member")).header("x-api-key", &tenant.key);
    let refused = world.send(by_key.json(&json!({"email": "bo@example.com", "role": ["owner"]}))).await;
    assert_eq!(refused.refused(), (403, "FORBIDDEN"));
}

/// Otherwise, the holder of an owner's leaked key could become an owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_invites_members_and_a_session_owners_too() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let by_key = async |key: &str, role: &str| {
        let request = world.http.post(world.url("/api/auth/organization/invite-member")).header("x-api-key", key);
        world.send(request.json(&json!({"email": "al@example.com", "role": role}))).await
    };
    for _ in 0..4 {
        let refused = by_key(&tenant.key, "owner").await;
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!("FORBIDDEN")));
        assert_eq!(refused.body["message"], "An API key cannot make a user an owner. Sign in to do that");
    }
    assert!(world.items("invitations").await.is_empty(), "no invitation was sent");
    // If rejected calls counted, the address would be over its limit.
    let member = by_key(&tenant.key, "member").await;
    assert_eq!((member.status, &member.body["role"]), (200, &json!("member")));
    let owner = invite(&world, &tenant, "al@example.com", "owner").await;
    assert_eq!((owner.status, &owner.body["role"]), (200, &json!("owner")));
    // An invitation's id is enough to accept it.
    for (route, at) in [("list-invitations", ""), ("get-full-organization", "/invitations")] {
        let route = world.url(&format!("/api/auth/organization/{route}"));
        for (name, credential, sees) in [("x-api-key", &tenant.key, 0), ("cookie", &tenant.cookie, 1)] {
            let answer = world.send(world.http.get(&route).header(name, credential)).await;
            let listed = answer.body.pointer(at).and_then(serde_json::Value::as_array).expect("a list");
            let owners = listed.iter().filter(|invitation| invitation["role"] == "owner").count();
            assert_eq!((listed.len(), owners), (1 + sees, sees), "{route} by {name}: {}", answer.body);
        }
    }
    let bo = world.member(&tenant, "bo@example.com", "member").await;
    let refused = by_key(&bo.key, "owner").await;
    assert_eq!(refused.body["message"], "Only an owner of the organization may do this");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_member_and_a_bad_role_are_refused() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let taken = invite(&world, &tenant, &tenant.email, "member").await;
    assert_eq!(taken.refused(), (409, "USER_IS_ALREADY_A_MEMBER_OF_THIS_ORGANIZATION"));
    for role in ["admin", "", "Owner"] {
        assert_eq!(invite(&world, &tenant, "al@example.com", role).await.status, 400, "{role}");
    }
    let nothing = world.cli(&tenant.cookie, "organization/invite-member", json!({})).await;
    assert_eq!(nothing.body["issues"].as_array().expect("issues").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn inviting_again_replaces_the_pending_invitation() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let first = invite(&world, &tenant, "al@example.com", "member").await.body;
    let second = invite(&world, &tenant, "AL@example.com", "owner").await.body;
    assert_ne!(first["id"], second["id"]);
    let replaced = world.rpc("", "auth/acceptInviteAndSignup", accept(&first["id"], "acme")).await;
    assert_eq!(replaced.error(), (409, "CONFLICT", "invitation_used"));
    let page = format!("/invite?tenantSlug=acme&invitationId={}", first["id"].as_str().expect("an id"));
    assert_eq!(world.send(world.http.get(world.url(&page))).await.status, 400);
    world.rpc("", "auth/acceptInviteAndSignup", accept(&second["id"], "acme")).await.ok();
    assert_eq!(invite(&world, &tenant, "al@example.com", "member").await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_invitations_can_be_accepted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let invited = futures::future::join_all((0..8).map(|_| invite(&world, &tenant, "al@example.com", "member"))).await;
    assert!(invited.iter().all(|answer| matches!(answer.status, 200 | 429 | 503)), "{invited:?}");
    assert!(invited.iter().filter(|answer| answer.status == 200).count() <= 3, "{invited:?}");
    let made = invited.iter().filter(|answer| answer.status == 200);
    let mut accepted = 0;
    for answer in made {
        let answer = world.rpc("", "auth/acceptInviteAndSignup", accept(&answer.body["id"], "acme")).await;
        accepted += usize::from(answer.status == 200);
    }
    assert_eq!(accepted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_gets_three_invitation_emails_a_day_over_all() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    for email in ["al@example.com", "AL@example.com", "al@example.com."] {
        assert_eq!(invite(&world, &ours, email, "member").await.status, 200);
    }
    let refused = invite(&world, &ours, "al@example.com", "member").await;
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("TOO_MANY_REQUESTS")));
    let wait: i64 = refused.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
    assert!((86_000..=86_400).contains(&wait), "{wait}");
    let message = text(&refused.body["message"]);
    assert!(message.contains("an organization can invite an address three times a day"), "{message}");

    // Another organization's invitation is stored and can be accepted, without an email.
    let emails = async || world.mails().await.iter().filter(|mail| mail["to"] == json!(["al@example.com"])).count();
    let invited = invite(&world, &theirs, "al@example.com", "member").await;
    assert_eq!((invited.status, emails().await), (200, 3), "{invited:?}");
    let page = Browser::new(&world, &theirs.cookie).open("/console/team").await;
    assert!(page.page().contains("al@example.com"), "{page:?}");
    world.rpc("", "auth/acceptInviteAndSignup", accept(&invited.body["id"], "theirs")).await.ok();
    assert_eq!(invite(&world, &theirs, "bo@example.com", "member").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inviter_sends_twenty_invitations_an_hour() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    for _ in 0..3 {
        assert_eq!(invite(&world, &ours, "no address", "member").await.status, 400, "not an address");
        assert_eq!(invite(&world, &ours, &ours.email, "member").await.status, 409, "the address of a member");
    }
    for number in 0..17 {
        assert_eq!(invite(&world, &ours, &format!("al{number}@example.com"), "member").await.status, 200);
    }
    let refused = invite(&world, &ours, "bo@example.com", "member").await;
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("TOO_MANY_REQUESTS")));
    let wait: i64 = refused.headers["retry-after"].to_str().expect("a string").parse().expect("seconds");
    assert!((1..=3600).contains(&wait), "{wait}");
    // Invitations that are rejected because of the inviter's limit do not count against the invited address.
    for _ in 0..3 {
        assert_eq!(invite(&world, &theirs, "bo@example.com", "member").await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_invitations_stay_within_the_inviters_limit() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let addresses: Vec<_> = (0..30).map(|number| format!("al{number}@example.com")).collect();
    let invited =
        futures::future::join_all(addresses.iter().map(|email| invite(&world, &tenant, email, "member"))).await;
    assert!(invited.iter().all(|answer| matches!(answer.status, 200 | 429 | 503)), "{invited:?}");
    assert!(invited.iter().filter(|answer| answer.status == 200).count() <= 20, "{invited:?}");
}

/// Every item has the template's TTL attribute, set to a time after the item's last use.
#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_deleted_a_month_after_it_expires() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for _ in 0..2 {
        assert_eq!(invite(&world, &tenant, "al@example.com", "member").await.status, 200);
    }
    let time_to_live = world.stack.dynamodb_client().describe_time_to_live().table_name("invitations").send().await;
    let time_to_live = time_to_live.expect("the description succeeds").time_to_live_description.expect("a description");
    let attribute = time_to_live.attribute_name.expect("an attribute");
    let items = world.items("invitations").await;
    assert_eq!(items.len(), 4, "two invitations, the pointer to the last invitation, and the list for the mailbox");
    let number = |value: &aws_sdk_dynamodb::types::AttributeValue| value.as_n().expect("a number").parse::<i64>();
    for item in items {
        let deleted = number(&item[&attribute]).expect("seconds") - common::timestamp::Timestamp::now().as_second();
        let days = deleted / 86_400;
        assert!((36..=37).contains(&days), "{days}");
        if let Some(expires) = item.get("expires_at") {
            let kept = number(&item[&attribute]).expect("seconds") - number(expires).expect("seconds");
            assert_eq!(kept, 30 * 86_400);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_invitations_of_one_address_make_one_account() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let (one, two) = (
        invite(&world, &ours, "al@example.com", "member").await,
        invite(&world, &theirs, "al@example.com", "member").await,
    );
    let (one, two) = tokio::join!(
        world.rpc("", "auth/acceptInviteAndSignup", accept(&one.body["id"], "ours")),
        world.rpc("", "auth/acceptInviteAndSignup", accept(&two.body["id"], "theirs")),
    );
    let (won, lost) = if one.status == 200 { (one, two) } else { (two, one) };
    won.ok();
    assert_eq!(lost.error(), (409, "CONFLICT", "email_taken"));
}

async fn cancel(world: &World, by: &Tenant, id: &Value) -> Answer {
    world.cli(&by.cookie, "organization/cancel-invitation", json!({"invitationId": id})).await
}

/// The email and status of each invitation, newest first.
async fn listed(world: &World, by: &Tenant) -> Vec<(Value, Value)> {
    let listed = world.cli_get(&by.cookie, "organization/list-invitations").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let listed = listed.body.as_array().expect("invitations").clone();
    listed.iter().map(|one| (one["email"].clone(), one["status"].clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_see_their_invitations_with_their_states() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let al = world.member(&ours, "al@example.com", "member").await;
    let bo = invite(&world, &ours, "bo@example.com", "owner").await.body;
    invite(&world, &theirs, "di@example.com", "member").await;
    let cy = invite(&world, &ours, "cy@example.com", "member").await.body;
    let again = invite(&world, &ours, "cy@example.com", "member").await.body;
    let listed = world.cli_get(&ours.cookie, "organization/list-invitations").await.body;
    let mut replaced = cy.clone();
    replaced["status"] = json!("canceled");
    let accepted = &listed[3];
    assert_eq!(listed, json!([again, replaced, bo, accepted]));
    assert_eq!((&accepted["email"], &accepted["status"]), (&json!("al@example.com"), &json!("accepted")));
    let by_key = world.http.get(world.url("/api/auth/organization/list-invitations")).header("x-api-key", &ours.key);
    assert_eq!(world.send(by_key).await.body, json!([again, replaced, accepted]));
    let route = |query: &str| format!("organization/list-invitations?{query}");
    let own = world.cli_get(&ours.cookie, &route(&format!("organizationId={}&limit=1&offset=1", ours.id))).await;
    assert_eq!(own.body, json!([replaced]));
    let foreign = world.cli_get(&theirs.cookie, &route(&format!("organizationId={}", ours.id))).await;
    assert_eq!((foreign.status, &foreign.body["message"]), (404, &json!("Organization not found")));
    // An invitation's id is enough to accept it.
    assert_eq!(world.cli_get(&al.cookie, "organization/list-invitations").await.status, 403);
    assert_eq!(world.cli_get("", "organization/list-invitations").await.status, 401);
    assert_eq!(world.cli_get(&ours.cookie, &route("limit=x")).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_invitation_is_void_and_can_be_replaced() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let first = invite(&world, &tenant, "al@example.com", "member").await.body;
    // Repeating the call succeeds.
    for _ in 0..2 {
        let cancelled = cancel(&world, &tenant, &first["id"]).await;
        assert_eq!((cancelled.status, &cancelled.body["status"]), (200, &json!("canceled")), "{cancelled:?}");
        assert_eq!(cancelled.body["id"], first["id"]);
    }
    let refused = world.rpc("", "auth/acceptInviteAndSignup", accept(&first["id"], "acme")).await;
    assert_eq!(refused.error(), (409, "CONFLICT", "invitation_used"));
    let page = world.send(world.http.get(link(&world.mail_to("al@example.com").await))).await;
    assert_eq!(page.status, 400);
    let second = invite(&world, &tenant, "al@example.com", "member").await.body;
    let (al, canceled, pending) = (json!("al@example.com"), json!("canceled"), json!("pending"));
    assert_eq!(listed(&world, &tenant).await, [(al.clone(), pending), (al, canceled)]);
    world.rpc("", "auth/acceptInviteAndSignup", accept(&second["id"], "acme")).await.ok();
    let used = cancel(&world, &tenant, &second["id"]).await;
    assert_eq!((used.status, &used.body["code"]), (409, &json!("INVITATION_USED")));
    // Expired invitations can also be canceled.
    let expired = json!(world.invitation(&tenant.id, "bo@example.com", 1).await);
    assert_eq!(cancel(&world, &tenant, &expired).await.body["status"], "canceled");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_follow_a_canceled_invitation_one_is_pending() {
    let (world, race) = World::racing().await;
    let tenant = world.tenant("acme").await;
    let first = invite(&world, &tenant, "al@example.com", "member").await.body;
    assert_eq!(cancel(&world, &tenant, &first["id"]).await.status, 200);
    let (rival, owner) = (Arc::clone(&world), tenant.clone());
    race.before_transaction(async move { drop(invite(&rival, &owner, "al@example.com", "owner").await) });
    assert_eq!(invite(&world, &tenant, "al@example.com", "member").await.status, 200);
    assert!(race.is_over());
    let states: Vec<_> = listed(&world, &tenant).await.into_iter().map(|(_, status)| status).collect();
    assert_eq!(states.iter().filter(|status| **status == "pending").count(), 1, "{states:?}");
    assert_eq!(states.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_verified_owner_cancels_invitations_and_only_their_own() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let al = world.member(&ours, "al@example.com", "member").await;
    let id = invite(&world, &ours, "bo@example.com", "owner").await.body["id"].clone();
    assert_eq!(cancel(&world, &al, &id).await.status, 403);
    for answer in [cancel(&world, &theirs, &id).await, cancel(&world, &ours, &json!(uuid::Uuid::now_v7())).await] {
        assert_eq!((answer.status, &answer.body["message"]), (404, &json!("Invitation not found")));
    }
    assert_eq!(cancel(&world, &ours, &json!("x")).await.status, 400);
    assert_eq!(world.cli("", "organization/cancel-invitation", json!({"invitationId": id})).await.status, 401);
    let bo = world.rpc("", "auth/acceptInviteAndSignup", accept(&id, "ours")).await.ok().clone();
    let bo = Tenant { cookie: tests::world::cookie(&bo), ..ours };
    let refused = cancel(&world, &bo, &id).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("EMAIL_NOT_VERIFIED")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_accepted_or_canceled_and_never_both() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for round in 0..8 {
        let email = format!("al{round}@example.com");
        let id = invite(&world, &tenant, &email, "member").await.body["id"].clone();
        let (accepted, cancelled) = tokio::join!(
            world.rpc("", "auth/acceptInviteAndSignup", accept(&id, "acme")),
            cancel(&world, &tenant, &id),
        );
        let status = if accepted.status == 200 {
            assert_eq!(cancelled.body["code"], "INVITATION_USED", "{cancelled:?}");
            "accepted"
        } else {
            assert_eq!(accepted.error(), (409, "CONFLICT", "invitation_used"));
            assert_eq!(cancelled.status, 200, "{cancelled:?}");
            "canceled"
        };
        assert_eq!(listed(&world, &tenant).await[0], (json!(email), json!(status)));
    }
}

/// The call makes one write, so a crash leaves the invitation either unchanged or canceled.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_cancellation_changes_nothing_and_can_be_repeated() {
    let is_it = |call: &Call| {
        let mut writes = call["TransactItems"].as_array().into_iter().flatten();
        writes.any(|write| write["Update"]["TableName"] == "invitations")
    };
    let (world, fails) = World::failing(is_it).await;
    let tenant = world.tenant("acme").await;
    let id = invite(&world, &tenant, "al@example.com", "member").await.body["id"].clone();
    fails.on();
    assert_eq!(cancel(&world, &tenant, &id).await.status, 500);
    assert_eq!(listed(&world, &tenant).await[0].1, "pending");
    fails.off();
    assert_eq!(cancel(&world, &tenant, &id).await.status, 200);
    assert_eq!(cancel(&world, &tenant, &id).await.status, 200);
}
