//! Moving accounts to an organization that invited them.

use std::time::Duration;

use common::timestamp::Timestamp;
use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Answer, Tenant, World,
    world::{faults::Switch, people::PASSWORD},
};
use tokio::task::block_in_place;

const ACCEPT: &str = "organization/accept-invitation";
/// The number of times that each race is repeated.
const ROUNDS: usize = 6;
const PAUSE: Duration = Duration::from_millis(5);

async fn invite(world: &World, by: &Tenant, email: &str, role: &str) -> String {
    let fields = json!({"email": email, "role": role});
    let invited = world.cli(&by.cookie, "organization/invite-member", fields).await;
    assert_eq!(invited.status, 200, "{invited:?}");
    invited.body["id"].as_str().expect("an id").to_owned()
}

/// An invitation that does not count toward any limit.
async fn invitation(world: &World, to: &Tenant, email: &str) -> String {
    world.invitation(&to.id, email, Timestamp::now().as_second() + 3600).await
}

async fn accept(world: &World, who: &Tenant, id: &str) -> Answer {
    world.cli(&who.cookie, ACCEPT, json!({"invitationId": id})).await
}

async fn accept_and_delete(world: &World, who: &Tenant, id: &str) -> Answer {
    world.cli(&who.cookie, ACCEPT, json!({"invitationId": id, "deleteOrganization": true})).await
}

/// The id of the organization that a session belongs to.
async fn organization(world: &World, cookie: &str) -> String {
    let listed = world.cli_get(cookie, "organization/list").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    listed.body[0]["id"].as_str().expect("an id").to_owned()
}

/// The addresses of the members, with a star before those of owners.
async fn members(world: &World, cookie: &str) -> Vec<String> {
    let listed = world.cli_get(cookie, "organization/list-members").await;
    let members = listed.body["members"].as_array().expect("members").clone();
    let shown = |member: &Value| {
        let star = if member["role"] == "owner" { "*" } else { "" };
        format!("{star}{}", member["user"]["email"].as_str().expect("an address"))
    };
    members.iter().map(shown).collect()
}

/// The users who joined, according to an organization's item.
async fn joined(world: &World, organization: &str) -> Vec<String> {
    let items = world.items("organizations").await;
    let key = format!("org#{organization}");
    let item = items.iter().find(|item| item["pk"].as_s() == Ok(&key)).expect("an organization");
    item.get("joined").map(|joined| joined.as_ss().expect("a set").clone()).unwrap_or_default()
}

async fn status(world: &World, id: &str) -> String {
    let items = world.items("invitations").await;
    let item = items.iter().find(|item| item["invitation_id"].as_s() == Ok(&id.to_owned())).expect("an invitation");
    item["status"].as_s().expect("a string").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_moves_to_the_organization_that_invited_it() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "owner").await;
    let endpoint = world.endpoint(&other, "http://127.0.0.1:9/", "s").await;
    let second = world.signed_in("bo@example.com", PASSWORD).await;
    let id = invite(&world, &acme, "Bo@example.com", "member").await;

    let shown = world.cli_get(&bo.cookie, &format!("organization/get-invitation?id={id}")).await;
    let (expires, created) = (&shown.body["expiresAt"], &shown.body["createdAt"]);
    let invitation = json!({
        "id": id, "email": "bo@example.com", "role": "member", "organizationId": acme.id, "inviterId": acme.user,
        "status": "pending", "expiresAt": expires, "createdAt": created,
    });
    let with = |more: Value| {
        let mut all = invitation.clone();
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    let named = json!({"organizationName": "Doe & Co", "organizationSlug": "acme"});
    let mut details = with(named.clone());
    details["inviterEmail"] = json!(acme.email);
    assert_eq!((shown.status, &shown.body), (200, &details));
    let listed = world.cli_get(&bo.cookie, "organization/list-user-invitations").await;
    assert_eq!(listed.body, json!([with(named)]));

    let before = Timestamp::now();
    let accepted = accept(&world, &bo, &id).await;
    assert_eq!(accepted.status, 200, "{accepted:?}");
    let joined_at: Timestamp = accepted.body["member"]["createdAt"].as_str().expect("a time").parse().expect("a time");
    assert!(joined_at >= before, "{joined_at}");
    let member = json!({
        "id": bo.user, "userId": bo.user, "organizationId": acme.id, "role": "member", "createdAt": joined_at,
        "user": {"id": bo.user, "name": "Al", "email": "bo@example.com"},
    });
    assert_eq!(accepted.body, json!({"invitation": with(json!({"status": "accepted"})), "member": member}));
    // The sessions continue in the other organization, but the key no longer works.
    for cookie in [&bo.cookie, &second] {
        assert_eq!(organization(&world, cookie).await, acme.id);
        assert_eq!(world.cli_get(cookie, "organization/get-active-member").await.body, member);
        assert_eq!(world.rpc_by_session(cookie, "webhooks/list", json!({})).await.ok()["webhook_endpoints"], json!([]));
    }
    assert!(!world.key_works(&bo.key).await);
    assert_eq!(world.cli_get(&other.cookie, "api-key/list").await.body.as_array().map(Vec::len), Some(1));
    assert_eq!(members(&world, &acme.cookie).await, ["*jo@acme.example.com", "bo@example.com"]);
    assert_eq!(members(&world, &other.cookie).await, ["*jo@other.example.com"]);
    assert_eq!(world.only_endpoint(&other).await["webhook_endpoint_id"], json!(endpoint));
    assert!(joined(&world, &acme.id).await.contains(&bo.user) && !joined(&world, &other.id).await.contains(&bo.user));
    let mail = world.mail_to("bo@example.com").await;
    assert_eq!(mail["subject"], "Webhooks: You joined another organization");
    assert!(mail["text"].as_str().expect("a string").contains("Organization: Doe & Co"), "{mail}");

    // A second call returns the same response, and has no further effect.
    let mails = world.mails().await.len();
    let again = accept(&world, &bo, &id).await;
    assert_eq!((again.status, &again.body), (200, &accepted.body));
    assert_eq!(world.mails().await.len(), mails);
    assert_eq!(world.cli_get(&bo.cookie, "organization/list-user-invitations").await.body, json!([]));
    let gone = world.cli_get(&bo.cookie, &format!("organization/get-invitation?id={id}")).await;
    assert_eq!(gone.refused(), (409, "INVITATION_USED"));
}

/// A key from an earlier membership must not become valid again when its user returns.
#[tokio::test(flavor = "multi_thread")]
async fn keys_stay_ended_when_their_user_returns() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let kept = world.items("api-keys").await;
    let there = invitation(&world, &acme, &bo.email).await;
    assert_eq!(accept(&world, &bo, &there).await.status, 200);
    // The key still exists, because its deletion failed or a concurrent call had just issued it.
    for item in kept {
        world.put("api-keys", item).await;
    }
    let back = invitation(&world, &other, &bo.email).await;
    assert_eq!(accept(&world, &bo, &back).await.status, 200);
    assert_eq!(organization(&world, &bo.cookie).await, other.id);
    assert!(!world.key_works(&bo.key).await);
    // The first invitation cannot be used to return.
    assert_eq!(accept(&world, &bo, &there).await.refused(), (409, "INVITATION_USED"));
    let issued = world.cli(&bo.cookie, "api-key/create", json!({"name": "new"})).await;
    assert!(world.key_works(issued.body["key"].as_str().expect("a key")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_member_moves_only_with_consent_to_the_deletion() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    world.endpoint(&other, "http://127.0.0.1:9/", "s").await;
    let pending = invite(&world, &other, "cy@example.com", "member").await;
    let id = invite(&world, &acme, &other.email, "owner").await;
    for refused in [
        accept(&world, &other, &id).await,
        world.cli(&other.cookie, ACCEPT, json!({"invitationId": id, "deleteOrganization": false})).await,
    ] {
        assert_eq!(refused.refused(), (409, "LAST_MEMBER"));
        let message = refused.body["message"].as_str().expect("a message");
        assert!(message.contains("`deleteOrganization` `true`"), "{message}");
    }
    let wrong = world.cli(&other.cookie, ACCEPT, json!({"invitationId": id, "deleteOrganization": "yes"})).await;
    assert_eq!(wrong.refused(), (400, "BAD_REQUEST"));
    assert_eq!(organization(&world, &other.cookie).await, other.id);
    assert!(world.key_works(&other.key).await);
    assert_eq!(status(&world, &id).await, "pending");

    let accepted = accept_and_delete(&world, &other, &id).await;
    assert_eq!((accepted.status, &accepted.body["member"]["role"]), (200, &json!("owner")), "{accepted:?}");
    assert_eq!(organization(&world, &other.cookie).await, acme.id);
    assert!(!world.key_works(&other.key).await);
    assert!(world.stored_endpoints().list(&other.id.parse().expect("an id")).await.expect("a list").is_empty());
    // The slug is available, and invitations to the deleted organization are invalid.
    let fields = json!({"invitationId": pending, "tenantSlug": "other", "name": "Cy", "password": PASSWORD});
    assert_eq!(world.rpc("", "auth/acceptInviteAndSignup", fields).await.status, 404);
    let mut founder = World::sign_up_fields("other");
    founder["email"] = json!("new@example.com");
    world.rpc("", "auth/signupAndCreateOrg", founder).await.ok();
    // The purge deletes the remaining data.
    for _ in 0..2 {
        let time = Timestamp::now().after(Duration::from_mins(3));
        world.stack.invoke("accounts-purge", json!({"time": time})).await.expect("a pass");
    }
    let key = format!("org#{}", other.id);
    assert!(world.items("organizations").await.iter().all(|item| item["pk"].as_s() != Ok(&key)));
    assert_eq!(members(&world, &other.cookie).await, ["*jo@acme.example.com", "*jo@other.example.com"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_owner_must_appoint_another_before_a_move() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let id = invitation(&world, &acme, &other.email).await;
    for refused in [accept(&world, &other, &id).await, accept_and_delete(&world, &other, &id).await] {
        assert_eq!(refused.refused(), (409, "LAST_OWNER"));
        assert!(refused.body["message"].as_str().expect("a string").contains("make another member an owner first"));
    }
    assert_eq!(organization(&world, &other.cookie).await, other.id);
    let role = json!({"memberId": bo.user, "role": "owner"});
    assert_eq!(world.cli(&other.cookie, "organization/update-member-role", role).await.status, 200);
    // If there is another member, the organization remains, although the user agreed to delete it.
    assert_eq!(accept_and_delete(&world, &other, &id).await.status, 200);
    assert_eq!(members(&world, &bo.cookie).await, ["*bo@example.com"]);
    assert!(world.key_works(&bo.key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_verified_session_of_the_recipient_may_answer() {
    let world = World::start().await;
    let (acme, other, third) = (world.tenant("acme").await, world.tenant("other").await, world.tenant("third").await);
    let id = invitation(&world, &acme, &other.email).await;
    let get = format!("organization/get-invitation?id={id}");
    let reject = "organization/reject-invitation";
    // Another account.
    let body = json!({"invitationId": id, "deleteOrganization": true});
    for refused in [
        world.cli(&third.cookie, ACCEPT, body.clone()).await,
        world.cli(&third.cookie, reject, body.clone()).await,
        world.cli_get(&third.cookie, &get).await,
    ] {
        assert_eq!(refused.refused(), (403, "YOU_ARE_NOT_THE_RECIPIENT_OF_THE_INVITATION"));
        assert!(!refused.body.to_string().contains(&other.email), "{refused:?}");
    }
    // A call without a session, or with only a key.
    for (name, value) in [("x-api-key", &other.key), ("x-none", &other.key)] {
        let post = |route: &str| world.http.post(world.url(&format!("/api/auth/{route}"))).header(name, value);
        for answer in [
            world.send(post(ACCEPT).json(&body)).await,
            world.send(post(reject).json(&body)).await,
            world.send(world.http.get(world.url(&format!("/api/auth/{get}"))).header(name, value)).await,
            world
                .send(world.http.get(world.url("/api/auth/organization/list-user-invitations")).header(name, value))
                .await,
        ] {
            assert_eq!(answer.refused(), (401, "UNAUTHORIZED"));
        }
    }
    // A stranger who signed up with the invited address does not learn anything.
    let fresh = world.sign_up("fresh").await;
    let cookie = tests::world::cookie(&fresh);
    let theirs = invitation(&world, &acme, "jo@fresh.example.com").await;
    let body = json!({"invitationId": theirs, "deleteOrganization": true});
    for refused in [
        world.cli(&cookie, ACCEPT, body.clone()).await,
        world.cli(&cookie, reject, body).await,
        world.cli_get(&cookie, &format!("organization/get-invitation?id={theirs}")).await,
        world.cli_get(&cookie, &format!("organization/get-invitation?id={}", uuid::Uuid::now_v7())).await,
        world.cli_get(&cookie, "organization/list-user-invitations").await,
    ] {
        assert_eq!(refused.refused(), (403, "EMAIL_NOT_VERIFIED"));
    }
    // The address cannot be passed as a parameter.
    let listed =
        world.cli_get(&third.cookie, &format!("organization/list-user-invitations?email={}", other.email)).await;
    assert_eq!(listed.refused(), (400, "BAD_REQUEST"));
    assert_eq!((status(&world, &id).await, status(&world, &theirs).await), ("pending".into(), "pending".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_invitation_moves_no_account() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let expired = world.invitation(&acme.id, &bo.email, Timestamp::now().as_second() - 1).await;
    assert_eq!(accept(&world, &bo, &expired).await.refused(), (409, "INVITATION_EXPIRED"));
    let canceled = invitation(&world, &acme, &bo.email).await;
    let canceling = json!({"invitationId": canceled});
    assert_eq!(world.cli(&acme.cookie, "organization/cancel-invitation", canceling).await.status, 200);
    assert_eq!(accept(&world, &bo, &canceled).await.refused(), (409, "INVITATION_USED"));
    let replaced = invite(&world, &acme, &bo.email, "owner").await;
    invite(&world, &acme, &bo.email, "member").await;
    assert_eq!(accept(&world, &bo, &replaced).await.refused(), (409, "INVITATION_USED"));
    let own = invitation(&world, &other, &bo.email).await;
    assert_eq!(accept(&world, &bo, &own).await.refused(), (409, "USER_IS_ALREADY_A_MEMBER_OF_THIS_ORGANIZATION"));
    let unknown = uuid::Uuid::now_v7().to_string();
    assert_eq!(accept(&world, &bo, &unknown).await.refused(), (404, "NOT_FOUND"));
    assert_eq!(accept(&world, &bo, "none").await.refused(), (400, "BAD_REQUEST"));
    // Only valid invitations are listed.
    let listed = world.cli_get(&bo.cookie, "organization/list-user-invitations").await.body;
    let listed: Vec<_> = listed.as_array().expect("a list").iter().map(|one| one["role"].clone()).collect();
    assert_eq!(listed, ["member"]);
    assert_eq!(organization(&world, &bo.cookie).await, other.id);
    assert!(world.key_works(&bo.key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_invitation_cannot_be_accepted() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let id = invite(&world, &acme, &bo.email, "member").await;
    for _ in 0..2 {
        let declined = world.cli(&bo.cookie, "organization/reject-invitation", json!({"invitationId": id})).await;
        assert_eq!((declined.status, &declined.body["member"]), (200, &Value::Null), "{declined:?}");
        assert_eq!(
            (&declined.body["invitation"]["id"], &declined.body["invitation"]["status"]),
            (&json!(id), &json!("rejected"))
        );
    }
    assert_eq!(accept(&world, &bo, &id).await.refused(), (409, "INVITATION_USED"));
    let listed = world.cli_get(&acme.cookie, "organization/list-invitations").await.body;
    assert_eq!((&listed[0]["id"], &listed[0]["status"]), (&json!(id), &json!("rejected")));
    // A later invitation can be accepted.
    let later = invite(&world, &acme, &bo.email, "member").await;
    assert_eq!(accept(&world, &bo, &later).await.status, 200);
    let late = world.cli(&bo.cookie, "organization/reject-invitation", json!({"invitationId": later})).await;
    assert_eq!(late.refused(), (409, "INVITATION_USED"));
}

/// Otherwise, owners could find out whether an address has an account.
#[tokio::test(flavor = "multi_thread")]
async fn inviting_reveals_no_account_of_another_organization() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let mut shapes = Vec::new();
    for email in [&other.email, "new@example.com"] {
        let fields = json!({"email": email, "role": "member"});
        let answer = world.cli(&acme.cookie, "organization/invite-member", fields).await;
        let mail = world.mail_to(email).await;
        let lines = mail["text"].as_str().expect("a string").lines().count();
        let names: Vec<String> = answer.body.as_object().expect("an object").keys().cloned().collect();
        shapes.push((answer.status, names, mail["subject"].clone(), lines));
    }
    assert_eq!(shapes[0], shapes[1]);
    let member = json!({"email": acme.email, "role": "member"});
    let refused = world.cli(&acme.cookie, "organization/invite-member", member).await;
    assert_eq!(refused.refused(), (409, "USER_IS_ALREADY_A_MEMBER_OF_THIS_ORGANIZATION"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_concurrent_acceptances_moves_the_account() {
    let world = World::start().await;
    let (one, two, home) = (world.tenant("one").await, world.tenant("two").await, world.tenant("home").await);
    for round in 0..ROUNDS {
        let bo = world.member(&home, &format!("bo{round}@example.com"), "member").await;
        let ids = [invitation(&world, &one, &bo.email).await, invitation(&world, &two, &bo.email).await];
        let answers = join_all(ids.iter().map(|id| accept(&world, &bo, id))).await;
        let moved: Vec<usize> = (0..2).filter(|index| answers[*index].status == 200).collect();
        // If the calls run one after the other, the second one leaves the organization that the first one has joined.
        let last = moved.last().copied().unwrap_or_else(|| panic!("{answers:?}"));
        if let [winner] = moved[..] {
            assert_eq!(answers[1 - winner].refused(), (409, "ORGANIZATION_CHANGED"), "{answers:?}");
            assert_eq!(status(&world, &ids[1 - winner]).await, "pending");
        }
        let at = organization(&world, &bo.cookie).await;
        if moved.len() == 1 {
            assert_eq!(at, [&one.id, &two.id][last].as_str());
        }
        for place in [&one.id, &two.id, &home.id] {
            assert_eq!(joined(&world, place).await.contains(&bo.user), *place == at, "{place}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_acceptances_of_an_invitation_move_once() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    for round in 0..ROUNDS {
        let bo = world.member(&other, &format!("bo{round}@example.com"), "member").await;
        let id = invitation(&world, &acme, &bo.email).await;
        let answers = join_all((0..3).map(|_| accept(&world, &bo, &id))).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
        let told = world.mails().await;
        let told = told.iter().filter(|mail| {
            mail["to"] == json!([bo.email]) && mail["subject"] == "Webhooks: You joined another organization"
        });
        assert_eq!(told.count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_owners_who_move_concurrently_leave_an_owner() {
    let world = World::start().await;
    let acme = world.tenant("acme").await;
    for round in 0..ROUNDS {
        let home = world.tenant(&format!("home{round}")).await;
        let bo = world.member(&home, &format!("bo{round}@example.com"), "owner").await;
        let ids = [invitation(&world, &acme, &home.email).await, invitation(&world, &acme, &bo.email).await];
        let (one, two) = tokio::join!(accept(&world, &home, &ids[0]), accept(&world, &bo, &ids[1]));
        let (stays, refused) = match (one.status, two.status) {
            (200, 409) => (&bo, &two),
            (409, 200) => (&home, &one),
            _ => panic!("{one:?} {two:?}"),
        };
        assert_eq!(refused.refused(), (409, "LAST_MEMBER"));
        assert_eq!(members(&world, &stays.cookie).await, [format!("*{}", stays.email)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_removed_during_a_move_has_moved_or_is_deleted() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    for round in 0..ROUNDS {
        let bo = world.member(&other, &format!("bo{round}@example.com"), "member").await;
        let id = invitation(&world, &acme, &bo.email).await;
        let removal = json!({"memberIdOrEmail": bo.user});
        let (moved, removed) =
            tokio::join!(accept(&world, &bo, &id), world.cli(&other.cookie, "organization/remove-member", removal),);
        match (moved.status, removed.status) {
            (200, 404) => {
                assert_eq!(organization(&world, &bo.cookie).await, acme.id);
                assert_eq!(world.sign_in(&bo.email, PASSWORD).await.status, 200);
            }
            (401, 200) => {
                world.is_shut_out(&bo).await;
                assert_eq!(status(&world, &id).await, "pending");
                assert!(!joined(&world, &acme.id).await.contains(&bo.user));
            }
            _ => panic!("{moved:?} {removed:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_cancellation_or_rejection_excludes_the_move() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    for round in 0..2 * ROUNDS {
        let bo = world.member(&other, &format!("bo{round}@example.com"), "member").await;
        let id = invitation(&world, &acme, &bo.email).await;
        let (by, route) = if round % 2 == 0 { (&acme, "cancel") } else { (&bo, "reject") };
        let route = format!("organization/{route}-invitation");
        let body = json!({"invitationId": id});
        let (moved, ended) = tokio::join!(accept(&world, &bo, &id), world.cli(&by.cookie, &route, body));
        let at = organization(&world, &bo.cookie).await;
        match (moved.status, ended.status) {
            (200, 409) => assert_eq!((at, status(&world, &id).await), (acme.id.clone(), "accepted".to_owned())),
            (409, 200) => {
                assert_eq!(moved.refused(), (409, "INVITATION_USED"));
                assert_eq!(at, other.id);
                assert_ne!(status(&world, &id).await, "accepted");
            }
            _ => panic!("{moved:?} {ended:?}"),
        }
    }
}

/// Either the organization to join is deleted with its last member, or the organization to leave gets another member.
#[tokio::test(flavor = "multi_thread")]
async fn no_account_moves_to_a_deleted_organization() {
    let world = World::start().await;
    let (safe, other) = (world.tenant("safe").await, world.tenant("other").await);
    for round in 0..ROUNDS {
        let target = world.tenant(&format!("target{round}")).await;
        let bo = world.member(&other, &format!("bo{round}@example.com"), "member").await;
        let id = invitation(&world, &target, &bo.email).await;
        // The last member deletes their account, or also moves.
        let away = invitation(&world, &safe, &target.email).await;
        let ends = async {
            if round % 2 == 0 {
                world.cli(&target.cookie, "delete-user", json!({"password": PASSWORD})).await
            } else {
                accept_and_delete(&world, &target, &away).await
            }
        };
        let (moved, ended) = tokio::join!(accept(&world, &bo, &id), ends);
        let at = organization(&world, &bo.cookie).await;
        match (moved.status, ended.status) {
            (200, 409) => {
                assert_eq!(ended.refused(), (409, "LAST_OWNER"));
                assert_eq!(at, target.id);
                assert!(members(&world, &bo.cookie).await.contains(&bo.email));
            }
            (404, 200) => assert_eq!(at, other.id),
            _ => panic!("{moved:?} {ended:?}"),
        }
        assert_eq!(world.sign_in(&bo.email, PASSWORD).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demotion_during_a_move_leaves_an_owner() {
    let world = World::start().await;
    let acme = world.tenant("acme").await;
    for round in 0..ROUNDS {
        let home = world.tenant(&format!("home{round}")).await;
        let bo = world.member(&home, &format!("bo{round}@example.com"), "owner").await;
        let id = invitation(&world, &acme, &home.email).await;
        let demotion = json!({"memberId": bo.user, "role": "member"});
        let (moved, demoted) = tokio::join!(
            accept(&world, &home, &id),
            world.cli(&bo.cookie, "organization/update-member-role", demotion),
        );
        let owners = members(&world, &bo.cookie).await.iter().filter(|member| member.starts_with('*')).count();
        match (moved.status, demoted.status) {
            (200, 409) | (409, 200) => assert_eq!(owners, 1),
            _ => panic!("{moved:?} {demoted:?}"),
        }
    }
}

/// An intruder who moves the account cannot prevent the owner of the mailbox from resetting the password.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_voids_no_link_that_resets_the_password() {
    let world = World::start().await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let ask = async || {
        world.rpc("", "auth/requestPasswordReset", json!({"email": bo.email})).await.ok();
        tests::world::link(&world.mail_to(&bo.email).await).rsplit('=').next().expect("a token").to_owned()
    };
    let reset = async |token: &str| {
        world.cli("", "reset-password", json!({"token": token, "newPassword": "a new long password"})).await
    };
    let (used, unused) = (ask().await, ask().await);
    let id = invitation(&world, &acme, &bo.email).await;
    assert_eq!(accept(&world, &bo, &id).await.status, 200);
    assert_eq!(reset(&used).await.status, 200);
    assert!(!world.is_signed_in(&bo.cookie).await);
    // Links from before the reset remain invalid after another move.
    let cookie = world.signed_in(&bo.email, "a new long password").await;
    let id = invitation(&world, &other, &bo.email).await;
    assert_eq!(accept(&world, &Tenant { cookie, ..bo.clone() }, &id).await.status, 200);
    for void in [&used, &unused] {
        assert_eq!(reset(void).await.refused(), (400, "INVALID_TOKEN"));
    }
}

/// The intruder moves the account just before the reset is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_during_a_reset_does_not_stop_it() {
    let (is_writing, has_moved) = (Switch::default(), Switch::default());
    let (writes, moved) = (is_writing.clone(), has_moved.clone());
    let world = World::answering(&[], move |call| {
        if call.operation == "TransactWriteItems" && call.body.to_string().contains("password_reset") {
            writes.on();
            block_in_place(|| {
                while !moved.is_on() {
                    std::thread::sleep(PAUSE);
                }
            });
        }
        None
    })
    .await;
    let (acme, other) = (world.tenant("acme").await, world.tenant("other").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    world.rpc("", "auth/requestPasswordReset", json!({"email": bo.email})).await.ok();
    let link = tests::world::link(&world.mail_to(&bo.email).await);
    let fields = json!({"token": link.rsplit('=').next(), "newPassword": "a new long password"});
    let id = invitation(&world, &acme, &bo.email).await;
    let late = async {
        while !is_writing.is_on() {
            tokio::time::sleep(PAUSE).await;
        }
        let moved = accept(&world, &bo, &id).await;
        has_moved.on();
        moved
    };
    let (reset, moved) = tokio::join!(world.cli("", "reset-password", fields), late);
    assert_eq!((moved.status, reset.status), (200, 200), "{reset:?}");
    assert!(!world.is_signed_in(&bo.cookie).await);
    let entry = &world.rpc_by_session(&acme.cookie, "audit/list", json!({"action": "password.reset"})).await;
    assert_eq!(entry.ok()["entries"][0]["target"]["id"], json!(bo.user), "it is in the new organization's log");
}

/// A user can be invited twice before they join.
#[tokio::test(flavor = "multi_thread")]
async fn invitations_to_the_own_organization_are_not_listed() {
    let world = World::start().await;
    let (acme, other, third) = (world.tenant("acme").await, world.tenant("other").await, world.tenant("third").await);
    let bo = world.member(&other, "bo@example.com", "member").await;
    let ids = [invitation(&world, &acme, &bo.email).await, invite(&world, &acme, &bo.email, "member").await];
    invite(&world, &third, &bo.email, "member").await;
    let listed = async || {
        let listed = world.cli_get(&bo.cookie, "organization/list-user-invitations").await.body;
        let slugs = listed.as_array().expect("a list").iter().map(|one| one["organizationSlug"].clone());
        slugs.collect::<Vec<_>>()
    };
    assert_eq!(listed().await.len(), 2);
    assert_eq!(accept(&world, &bo, &ids[0]).await.status, 200);
    assert_eq!(status(&world, &ids[1]).await, "pending");
    assert_eq!(listed().await, ["third"]);
}
