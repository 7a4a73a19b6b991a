//! An organization's members: listing them, changing their roles, and removing them.

use futures::future::join_all;
use serde_json::{Value, json};
use tests::{
    Answer, Call, Switch, Tenant, World,
    world::{
        faults::failure,
        people::PASSWORD,
        tables::{Item, item},
    },
};

async fn set_role(world: &World, by: &Tenant, member: &Tenant, role: &str) -> Answer {
    world.cli(&by.cookie, "organization/update-member-role", json!({"memberId": member.user, "role": role})).await
}

async fn remove(world: &World, by: &Tenant, member: &str) -> Answer {
    world.cli(&by.cookie, "organization/remove-member", json!({"memberIdOrEmail": member})).await
}

async fn leave(world: &World, who: &Tenant) -> Answer {
    world.cli(&who.cookie, "organization/leave", json!({"organizationId": who.id})).await
}

/// The email and role of each member, as listed for a member.
async fn members(world: &World, who: &Tenant) -> Vec<(String, String)> {
    let listed = world.cli_get(&who.cookie, "organization/list-members").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let listed = listed.body["members"].as_array().expect("members").clone();
    listed.iter().map(|member| (text(&member["user"]["email"]), text(&member["role"]))).collect()
}

/// The number of owners in the table.
async fn owners(world: &World, organization: &str) -> usize {
    let is =
        |item: &Item, name, value| item.get(name).is_some_and(|found| found.as_s().is_ok_and(|found| found == value));
    let users = world.items("users").await;
    users.iter().filter(|item| is(item, "organization_id", organization) && is(item, "role", "owner")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_cannot_remove_its_own_user() {
    let world = World::start().await;
    let ada = world.tenant("acme").await;
    let bo = world.member(&ada, "bo@example.com", "owner").await;
    for named in [&bo.email, &bo.user] {
        let fields = json!({"memberIdOrEmail": named});
        let refused = world.post_by_key(&bo.key, "organization/remove-member", fields).await;
        assert_eq!(refused.refused(), (401, "UNAUTHORIZED"), "{refused:?}");
    }
    assert!(world.is_signed_in(&bo.cookie).await && world.key_works(&bo.key).await);
    assert_eq!(remove(&world, &bo, &bo.email).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_member_sees_the_members_of_their_organization_only() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let al = world.member(&ours, "al@example.com", "member").await;
    let listed = world.cli_get(&al.cookie, "organization/list-members").await.body;
    let member = |who: &Tenant, name: &str, role: &str, created: &Value| {
        json!({
            "id": who.user, "userId": who.user, "organizationId": ours.id, "role": role, "createdAt": created,
            "user": {"id": who.user, "name": name, "email": who.email},
        })
    };
    let created = |place: usize| &listed["members"][place]["createdAt"];
    let expected = [member(&ours, "Jo Doe", "owner", created(0)), member(&al, "Al", "member", created(1))];
    assert_eq!(listed, json!({"members": expected, "total": 2}));
    let by_key = world.http.get(world.url("/api/auth/organization/list-members")).header("x-api-key", &ours.key);
    assert_eq!(world.send(by_key).await.body, listed);
    let route = |query: &str| format!("organization/list-members?{query}");
    let own = world.cli_get(&al.cookie, &route(&format!("organizationId={}", ours.id))).await;
    assert_eq!(own.body, listed);
    let second = world.cli_get(&al.cookie, &route("limit=1&offset=1")).await.body;
    assert_eq!(second, json!({"members": [expected[1]], "total": 2}));
    assert_eq!(world.cli_get(&al.cookie, &route("offset=2")).await.body, json!({"members": [], "total": 2}));
    for query in ["limit=0", "limit=101", "limit=x", "offset=-1"] {
        assert_eq!(world.cli_get(&al.cookie, &route(query)).await.status, 400, "{query}");
    }
    let foreign = world.cli_get(&theirs.cookie, &route(&format!("organizationId={}", ours.id))).await;
    assert_eq!(foreign.refused(), (404, "NOT_FOUND"));
    assert_eq!(members(&world, &theirs).await, [(theirs.email.clone(), "owner".to_owned())]);
    assert_eq!(world.cli_get("", "organization/list-members").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_sorted_and_unsupported_parameters_refused() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let al = world.member(&jo, "al@example.com", "member").await;
    let bo = world.member(&jo, "bo@example.com", "member").await;
    let list = async |query: &str| world.cli_get(&jo.cookie, &format!("organization/list-members?{query}")).await;
    let ids = async |query: &str| {
        let listed = list(query).await;
        assert_eq!((listed.status, &listed.body["total"]), (200, &json!(3)), "{query}");
        listed.body["members"].as_array().expect("members").iter().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    let joined = [&jo, &al, &bo].map(|member| json!(member.user));
    let mut latest = joined.clone();
    latest.reverse();
    for query in ["", "sortBy=createdAt", "sortDirection=asc", "organizationSlug=acme"] {
        assert_eq!(ids(query).await, joined, "{query}");
    }
    for query in ["sortDirection=desc", "sortBy=createdAt&sortDirection=desc"] {
        assert_eq!(ids(query).await, latest, "{query}");
    }
    assert_eq!(ids("sortDirection=desc&limit=1&offset=1").await, [joined[1].clone()]);
    assert_eq!(ids("sortDirection=desc&limit=2").await, [joined[2].clone(), joined[1].clone()]);
    for (query, fields) in [
        ("filterField=role&filterValue=owner&filterOperator=eq", &["filterField", "filterValue", "filterOperator"][..]),
        ("filterValue=", &["filterValue"]),
        ("sortBy=role", &["sortBy"]),
        ("sortDirection=up&limit=x&filterField=role", &["limit", "sortDirection", "filterField"]),
    ] {
        let answer = list(query).await;
        assert_eq!(answer.refused(), (400, "BAD_REQUEST"), "{query}");
        let issues = answer.body["issues"].as_array().expect("issues").iter().map(|issue| &issue["path"][0]);
        assert_eq!(issues.collect::<Vec<_>>(), fields, "{query}");
    }
    let filtered = list("filterField=role").await;
    assert_eq!(filtered.body["message"], "filterField: is not supported here");
    assert_eq!(list(&format!("organizationSlug={}", other.slug)).await.refused(), (404, "NOT_FOUND"));
    assert_eq!(list("organizationSlug=unknown").await.refused(), (404, "NOT_FOUND"));
    // Unknown parameters are ignored.
    assert_eq!(ids("_=1769860800").await, joined);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_members_than_one_read_returns_are_listed_in_pages() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let user =
        world.items("users").await.into_iter().find(|item| item.contains_key("user_id") && item.contains_key("role"));
    let user = user.expect("the owner");
    for number in 0..149 {
        let (mut other, id) = (user.clone(), uuid::Uuid::now_v7());
        other.extend(item(&json!({
            "pk": format!("user#{id}"), "user_id": id, "email": format!("al{number}@example.com"),
            "role": if number == 148 { "owner" } else { "member" },
        })));
        world.put("users", other).await;
    }
    let page = async |query: &str| {
        let listed = world.cli_get(&tenant.cookie, &format!("organization/list-members?{query}")).await.body;
        assert_eq!(listed["total"], 150);
        listed["members"].as_array().expect("members").clone()
    };
    let (first, second) = (page("").await, page("offset=100").await);
    assert_eq!((first.len(), second.len()), (100, 50));
    assert_eq!(first[0]["id"], json!(tenant.user));
    assert_eq!(second[49]["user"]["email"], "al148@example.com");
    // The only other owner is on the last page.
    assert_eq!(leave(&world, &tenant).await.status, 200);
    assert_eq!(owners(&world, &tenant.id).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_changes_roles_which_take_effect_at_once() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    let made = set_role(&world, &jo, &al, "owner").await;
    assert_eq!((made.status, &made.body["role"], &made.body["id"]), (200, &json!("owner"), &json!(al.user)));
    // Repeating the call succeeds.
    assert_eq!(set_role(&world, &jo, &al, "owner").await.status, 200);
    assert_eq!(set_role(&world, &al, &jo, "member").await.status, 200);
    let invitation = json!({"email": "bo@example.com", "role": "member", "organizationId": jo.id});
    assert_eq!(world.cli(&al.cookie, "organization/invite-member", invitation.clone()).await.status, 200);
    assert_eq!(world.cli(&jo.cookie, "organization/invite-member", invitation).await.status, 403);
    assert_eq!(set_role(&world, &jo, &jo, "owner").await.refused(), (403, "FORBIDDEN"));
    let roles = [(jo.email.clone(), "member".to_owned()), (al.email.clone(), "owner".to_owned())];
    assert_eq!(members(&world, &jo).await, roles);
    let by_key = world.http.post(world.url("/api/auth/organization/update-member-role")).header("x-api-key", &al.key);
    // Otherwise, the holder of a leaked key could remain an owner permanently.
    let by_thief = by_key.try_clone().expect("no stream");
    let stolen = world.send(by_thief.json(&json!({"memberId": jo.user, "role": "owner"}))).await;
    assert_eq!(stolen.refused(), (403, "FORBIDDEN"));
    assert_eq!(stolen.body["message"], "An API key cannot make a user an owner. Sign in to do that");
    assert_eq!(world.send(by_key.json(&json!({"memberId": jo.user, "role": "member"}))).await.status, 200);
    let leave =
        world.http.post(world.url("/api/auth/organization/leave")).header("x-api-key", &jo.key).json(&json!({}));
    assert_eq!(world.send(leave).await.status, 401, "a key cannot delete its user's account");
    assert_eq!(set_role(&world, &al, &jo, "owner").await.status, 200);
    // An owner can step down if another owner remains.
    assert_eq!(set_role(&world, &jo, &jo, "member").await.body["role"], "member");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_verified_owner_manages_members_and_only_their_own() {
    let world = World::start().await;
    let (ours, theirs) = (world.tenant("ours").await, world.tenant("theirs").await);
    let al = world.member(&ours, "al@example.com", "member").await;
    for member in [&ours, &al] {
        assert_eq!(set_role(&world, &al, member, "member").await.refused(), (403, "FORBIDDEN"));
        assert_eq!(remove(&world, &al, &member.user).await.refused(), (403, "FORBIDDEN"));
        for answer in [
            set_role(&world, &theirs, member, "owner").await,
            remove(&world, &theirs, &member.user).await,
            remove(&world, &theirs, &member.email).await,
        ] {
            assert_eq!(answer.refused(), (404, "NOT_FOUND"));
            assert_eq!(answer.body["message"], "Member not found");
        }
    }
    let unknown = uuid::Uuid::now_v7();
    for (route, fields, status) in [
        ("update-member-role", json!({"memberId": unknown, "role": "owner"}), 404),
        ("update-member-role", json!({"memberId": al.user, "role": "owner", "organizationId": theirs.id}), 404),
        ("update-member-role", json!({"memberId": al.email, "role": "owner"}), 400),
        ("update-member-role", json!({}), 400),
        ("remove-member", json!({"memberIdOrEmail": unknown}), 404),
        ("remove-member", json!({"memberIdOrEmail": "nobody@example.com"}), 404),
        ("remove-member", json!({"memberIdOrEmail": al.user, "organizationId": theirs.id}), 404),
        ("remove-member", json!({"memberIdOrEmail": "al"}), 400),
        ("leave", json!({"organizationId": theirs.id}), 404),
        ("leave", json!({"organizationId": ""}), 400),
    ] {
        let route = format!("organization/{route}");
        let answer = world.cli(&ours.cookie, &route, fields.clone()).await;
        assert_eq!(answer.status, status, "{route} {fields}: {answer:?}");
        assert_eq!(world.cli("", &route, fields).await.status, 401);
    }
    let admin = set_role(&world, &ours, &al, "admin").await;
    assert_eq!(admin.status, 400);
    assert_eq!(admin.body["message"], "role: there is no role admin. Must be owner or member");

    let fields = json!({"email": "bo@example.com", "role": "owner", "organizationId": ours.id});
    let invited = world.cli(&ours.cookie, "organization/invite-member", fields).await.body;
    let fields =
        json!({"invitationId": invited["id"], "tenantSlug": "ours", "name": "Bo", "password": "correct horse"});
    let bo = tests::world::cookie(world.rpc("", "auth/acceptInviteAndSignup", fields).await.ok());
    let bo = Tenant { cookie: bo, ..ours.clone() };
    assert_eq!(set_role(&world, &bo, &ours, "member").await.refused(), (403, "EMAIL_NOT_VERIFIED"));
    assert_eq!(remove(&world, &bo, &ours.user).await.refused(), (403, "EMAIL_NOT_VERIFIED"));
    assert_eq!(members(&world, &ours).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_keeps_an_owner() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    for answer in
        [set_role(&world, &jo, &jo, "member").await, remove(&world, &jo, &jo.email).await, leave(&world, &jo).await]
    {
        assert_eq!(answer.refused(), (409, "LAST_OWNER"));
        assert_eq!(
            answer.body["message"],
            "An organization must have an owner: make another member an owner first, or delete your account if you are the only member"
        );
    }
    assert_eq!(world.cli(&jo.cookie, "organization/leave", json!({})).await.refused(), (409, "LAST_OWNER"));
    assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.status, 200);
    assert_eq!(set_role(&world, &jo, &al, "owner").await.status, 200);
    let left = leave(&world, &jo).await;
    assert_eq!((left.status, &left.body["id"]), (200, &json!(jo.user)));
    assert!(left.headers["set-cookie"].to_str().expect("a string").contains("session_token=;"), "{left:?}");
    world.is_shut_out(&jo).await;
    assert_eq!(leave(&world, &al).await.refused(), (409, "LAST_OWNER"));
    assert_eq!(members(&world, &al).await, [(al.email.clone(), "owner".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_ends_sessions_and_keys_and_frees_the_address() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    let other = world.sign_in(&al.email, PASSWORD).await;
    let other = other.headers["set-cookie"].to_str().expect("a string").split(';').next().expect("a cookie").to_owned();
    assert_ne!(world.session(&other).await.body, Value::Null);
    let removed = remove(&world, &jo, " AL@example.com ").await;
    assert_eq!((removed.status, &removed.body["member"]["id"]), (200, &json!(al.user)), "{removed:?}");
    world.is_shut_out(&al).await;
    assert_eq!(world.session(&other).await.body, Value::Null);
    assert_eq!(world.sign_in(&al.email, PASSWORD).await.refused(), (401, "INVALID_EMAIL_OR_PASSWORD"));
    // The second call succeeds, too.
    assert_eq!(remove(&world, &jo, &al.email).await.refused(), (404, "NOT_FOUND"));
    assert_eq!(remove(&world, &jo, &al.user).await.refused(), (404, "NOT_FOUND"));
    assert_eq!(members(&world, &jo).await, [(jo.email.clone(), "owner".to_owned())]);
    // The keys of the removed member are removed from the list and from the count.
    let keys = world.cli_get(&jo.cookie, "api-key/list").await.body;
    assert_eq!(keys.as_array().map(Vec::len), Some(1));
    // If invited again, the user becomes a new member: earlier sessions and keys remain invalid.
    let again = world.member(&jo, "al@example.com", "member").await;
    assert_ne!(again.user, al.user);
    world.is_shut_out(&al).await;
    assert_eq!(world.rpc(&again.key, "webhooks/list", json!({})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_concurrent_removals_succeeds() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    let answers = join_all((0..8).map(|_| remove(&world, &jo, &al.user))).await;
    let mut statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404, 404, 404, 404, 404, 404, 404]);
    world.is_shut_out(&al).await;
    // If a member calls `leave` twice at once, the second call no longer finds the member.
    let bo = world.member(&jo, "bo@example.com", "member").await;
    let (one, two) = tokio::join!(leave(&world, &bo), leave(&world, &bo));
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert!(matches!(statuses, [200, 401 | 404]), "{statuses:?}");
}

/// The owners in each pair or ring make concurrent calls that would leave no owner if all of them succeeded.
#[tokio::test(flavor = "multi_thread")]
async fn owners_who_remove_each_other_or_leave_keep_one_owner() {
    let world = World::start().await;
    for round in 0..6 {
        let jo = world.tenant(&format!("acme{round}")).await;
        let al = world.member(&jo, &format!("al{round}@example.com"), "owner").await;
        let bo = world.member(&jo, &format!("bo{round}@example.com"), "owner").await;
        let answers = match round {
            0 => vec![tokio::join!(leave(&world, &jo), leave(&world, &al), leave(&world, &bo))],
            1 => vec![tokio::join!(
                set_role(&world, &jo, &jo, "member"),
                set_role(&world, &al, &al, "member"),
                set_role(&world, &bo, &bo, "member")
            )],
            2 => vec![tokio::join!(
                remove(&world, &jo, &al.user),
                remove(&world, &al, &bo.user),
                remove(&world, &bo, &jo.user)
            )],
            3 => vec![tokio::join!(
                set_role(&world, &jo, &al, "member"),
                set_role(&world, &al, &bo, "member"),
                set_role(&world, &bo, &jo, "member")
            )],
            4 => vec![tokio::join!(
                leave(&world, &jo),
                remove(&world, &al, &bo.user),
                set_role(&world, &bo, &al, "member")
            )],
            _ => vec![tokio::join!(
                set_role(&world, &jo, &jo, "member"),
                leave(&world, &al),
                remove(&world, &bo, &jo.user)
            )],
        };
        let answers: Vec<_> = answers.into_iter().flat_map(|(one, two, three)| [one, two, three]).collect();
        assert!(owners(&world, &jo.id).await >= 1, "round {round}: {answers:?}");
        assert!(answers.iter().any(|answer| answer.status == 200), "round {round}: {answers:?}");
        let expected = |answer: &Answer| matches!(answer.status, 200 | 401 | 403 | 404 | 409 | 503);
        assert!(answers.iter().all(expected), "round {round}: {answers:?}");
    }
}

/// A call that begins before a member is removed and ends afterward must not return a valid credential.
#[tokio::test(flavor = "multi_thread")]
async fn a_sign_in_and_a_new_key_during_the_removal_are_void() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    for round in 0..4 {
        let al = world.member(&jo, &format!("al{round}@example.com"), "member").await;
        let (signed_in, issued, removed) = tokio::join!(
            world.sign_in(&al.email, PASSWORD),
            world.cli(&al.cookie, "api-key/create", json!({"name": "late"})),
            remove(&world, &jo, &al.user),
        );
        assert_eq!(removed.status, 200);
        if let Some(token) = signed_in.body["token"].as_str() {
            assert_eq!(world.session(&format!("session_token={token}")).await.body, Value::Null);
        }
        if let Some(key) = issued.body["key"].as_str() {
            assert_eq!(world.rpc(key, "webhooks/list", json!({})).await.status, 401);
        }
        world.is_shut_out(&al).await;
    }
}

fn is_removal(call: &Call) -> bool {
    call.operation == "TransactWriteItems" && call["TransactItems"][0]["Delete"]["TableName"] == "users"
}

/// The process dies after removing a member, before deleting the member's keys.
#[tokio::test(flavor = "multi_thread")]
async fn undeleted_keys_of_a_removed_member_are_refused() {
    let is_dead = Switch::default();
    let dies = is_dead.clone();
    let world = World::answering(&[], move |call| {
        if dies.is_on() {
            return Some(failure());
        }
        if is_removal(call) {
            dies.on();
        }
        None
    })
    .await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    let removed = remove(&world, &jo, &al.user).await;
    assert!(is_dead.is_on(), "the removal was made");
    is_dead.off();
    assert_eq!(removed.status, 200, "{removed:?}");
    world.is_shut_out(&al).await;
    // The remaining keys can be listed and deleted.
    let keys = world.cli_get(&jo.cookie, "api-key/list").await.body;
    assert_eq!(keys[1]["name"], "a member's");
    assert_eq!(world.cli(&jo.cookie, "api-key/delete", json!({"keyId": keys[1]["id"]})).await.status, 200);
    assert_eq!(world.rpc(&jo.key, "webhooks/list", json!({})).await.status, 200);
}

/// If the process dies or the table fails before the removal, nothing has changed, including the keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_fails_changes_nothing() {
    let (world, fails) = World::failing(is_removal).await;
    fails.on();
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    assert_eq!(remove(&world, &jo, &al.user).await.status, 500);
    assert_eq!(world.rpc(&al.key, "webhooks/list", json!({})).await.status, 200);
    assert_eq!(members(&world, &al).await.len(), 2);
    fails.off();
    assert_eq!(remove(&world, &jo, &al.user).await.status, 200);
    world.is_shut_out(&al).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_roles_are_read_from_the_table_not_the_index() {
    let (world, index) = World::lagging("users").await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "owner").await;
    let bo = world.member(&jo, "bo@example.com", "member").await;
    let key = |who: &Tenant| json!({"pk": {"S": format!("user#{}", who.user)}, "organization_id": {"S": who.id}});
    *index.lock().expect("no panic") = vec![key(&jo), key(&al), key(&bo)];
    assert_eq!(remove(&world, &jo, &al.user).await.status, 200);
    let listed = [(jo.email.clone(), "owner".to_owned()), (bo.email.clone(), "member".to_owned())];
    assert_eq!(members(&world, &jo).await, listed);
    assert_eq!(leave(&world, &jo).await.refused(), (409, "LAST_OWNER"));
    assert_eq!(set_role(&world, &jo, &bo, "owner").await.status, 200);
    assert_eq!(leave(&world, &jo).await.status, 200);
}
