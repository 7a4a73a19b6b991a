//! The calls about the active organization that Better Auth's clients make at startup. A user's only organization is
//! always the active one.

use serde_json::{Value, json};
use tests::{Answer, Tenant, World};

async fn get(world: &World, who: &Tenant, route: &str) -> Answer {
    world.cli_get(&who.cookie, &format!("organization/{route}")).await
}

async fn by_key(world: &World, who: &Tenant, route: &str) -> Answer {
    let request = world.http.get(world.url(&format!("/api/auth/organization/{route}")));
    world.send(request.header("x-api-key", &who.key)).await
}

async fn set_active(world: &World, who: &Tenant, fields: Value) -> Answer {
    world.cli(&who.cookie, "organization/set-active", fields).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_full_organization_shows_invitations_to_owners_only() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let al = world.member(&jo, "al@example.com", "member").await;
    let fields = json!({"email": "bo@example.com", "role": "owner"});
    assert_eq!(world.cli(&jo.cookie, "organization/invite-member", fields).await.status, 200);

    let organization = get(&world, &jo, "list").await.body[0].clone();
    let members = get(&world, &jo, "list-members").await.body["members"].clone();
    let invitations = get(&world, &jo, "list-invitations").await.body;
    assert_eq!(invitations.as_array().map(Vec::len), Some(2));
    let with = |invitations: &Value| {
        let mut full = organization.clone();
        full["members"] = members.clone();
        full["invitations"] = invitations.clone();
        full
    };
    for query in ["".to_owned(), format!("?organizationId={}", jo.id), "?organizationSlug=acme".to_owned()] {
        let full = get(&world, &jo, &format!("get-full-organization{query}")).await;
        assert_eq!((full.status, full.body), (200, with(&invitations)), "{query}");
    }
    // An invitation's id is enough to accept it, and a key must not make its holder an owner.
    assert_eq!(invitations[0]["role"], "owner");
    assert_eq!(by_key(&world, &jo, "get-full-organization").await.body, with(&json!([invitations[1]])));
    // Pages count only the invitations that the key may see, so one that is full of others does not end the list.
    assert_eq!(by_key(&world, &jo, "list-invitations?limit=1").await.body, json!([invitations[1]]));
    assert_eq!(by_key(&world, &jo, "list-invitations?limit=1&offset=1").await.body, json!([]));
    assert_eq!(get(&world, &jo, "list-invitations?limit=1&offset=1").await.body, json!([invitations[1]]));
    assert_eq!(get(&world, &al, "get-full-organization").await.body, with(&json!([])));
    let fresh = world.sign_up("fresh").await;
    let fresh = world.cli_get(&tests::world::cookie(&fresh), "organization/get-full-organization").await;
    assert_eq!((fresh.status, &fresh.body["invitations"], &fresh.body["slug"]), (200, &json!([]), &json!("fresh")));

    let first = get(&world, &jo, "get-full-organization?membersLimit=1").await.body;
    assert_eq!(first["members"], json!([members[0]]));
    for bad in ["membersLimit=0", "membersLimit=101", "membersLimit=x", "organizationId=", "organizationSlug=A"] {
        assert_eq!(get(&world, &jo, &format!("get-full-organization?{bad}")).await.status, 400, "{bad}");
    }
    for query in [
        format!("organizationId={}", other.id),
        format!("organizationSlug={}", other.slug),
        format!("organizationId={}", uuid::Uuid::now_v7()),
        "organizationSlug=unknown".to_owned(),
        format!("organizationId={}&organizationSlug={}", jo.id, other.slug),
        format!("organizationId={}&organizationSlug={}", other.id, jo.slug),
    ] {
        let answer = get(&world, &jo, &format!("get-full-organization?{query}")).await;
        assert_eq!(answer.refused(), (404, "NOT_FOUND"), "{query}");
        assert_eq!(answer.body["message"], "Organization not found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_active_member_is_the_caller() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let al = world.member(&jo, "al@example.com", "member").await;
    let members = get(&world, &jo, "list-members").await.body["members"].clone();
    for (member, who) in [&jo, &al].into_iter().enumerate() {
        let active = get(&world, who, "get-active-member").await;
        assert_eq!((active.status, &active.body), (200, &members[member]));
        assert_eq!(by_key(&world, who, "get-active-member").await.body, active.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_active_role_is_that_of_the_caller_or_a_given_member() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let al = world.member(&jo, "al@example.com", "member").await;
    let role = async |who: &Tenant, query: &str| get(&world, who, &format!("get-active-member-role{query}")).await;
    assert_eq!(role(&jo, "").await.body, json!({"role": "owner"}));
    assert_eq!(role(&al, "").await.body, json!({"role": "member"}));
    assert_eq!(by_key(&world, &al, "get-active-member-role").await.body, json!({"role": "member"}));
    assert_eq!(role(&al, &format!("?userId={}", jo.user)).await.body, json!({"role": "owner"}));
    let own = format!("?organizationId={}&organizationSlug=acme&userId={}", jo.id, al.user);
    assert_eq!(role(&jo, &own).await.body, json!({"role": "member"}));
    for query in [format!("?userId={}", other.user), format!("?userId={}", uuid::Uuid::now_v7())] {
        let answer = role(&jo, &query).await;
        assert_eq!((answer.refused(), &answer.body["message"]), ((404, "NOT_FOUND"), &json!("Member not found")));
    }
    for query in [format!("?organizationId={}", other.id), "?organizationSlug=other".to_owned()] {
        assert_eq!(role(&jo, &query).await.refused(), (404, "NOT_FOUND"), "{query}");
    }
    assert_eq!(role(&jo, "?userId=x").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_own_organization_is_always_the_active_one() {
    let world = World::start().await;
    let (jo, other) = (world.tenant("acme").await, world.tenant("other").await);
    let organization = get(&world, &jo, "list").await.body[0].clone();
    for fields in [
        json!({"organizationId": jo.id}),
        json!({"organizationSlug": "acme"}),
        json!({"organizationId": jo.id, "organizationSlug": "acme"}),
        json!({}),
    ] {
        let active = set_active(&world, &jo, fields.clone()).await;
        assert_eq!((active.status, active.body), (200, organization.clone()), "{fields}");
    }
    // Another organization and an unknown one get the same response.
    for fields in [
        json!({"organizationId": other.id}),
        json!({"organizationSlug": other.slug}),
        json!({"organizationId": uuid::Uuid::now_v7()}),
        json!({"organizationSlug": "unknown"}),
        json!({"organizationId": jo.id, "organizationSlug": other.slug}),
    ] {
        let answer = set_active(&world, &jo, fields.clone()).await;
        assert_eq!(answer.refused(), (403, "USER_IS_NOT_A_MEMBER_OF_THE_ORGANIZATION"), "{fields}");
        assert_eq!(answer.body["message"], "You are not a member of this organization");
    }
    // An organization is always active, so a call that clears it is rejected.
    for fields in [json!({"organizationId": null}), json!({"organizationId": 7}), json!({"organizationSlug": "A"})] {
        assert_eq!(set_active(&world, &jo, fields.clone()).await.refused(), (400, "BAD_REQUEST"), "{fields}");
    }
    assert_eq!(get(&world, &jo, "get-full-organization").await.body["id"], json!(jo.id));
    let foreign = world.http.post(world.url("/api/auth/organization/set-active")).header("cookie", &jo.cookie);
    let foreign = world.send(foreign.header("origin", "https://evil.example.com").json(&json!({}))).await;
    assert_eq!(foreign.refused(), (403, "INVALID_ORIGIN"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_credentials_has_no_active_organization() {
    let world = World::start().await;
    for route in ["get-full-organization", "get-active-member", "get-active-member-role"] {
        assert_eq!(world.cli_get("", &format!("organization/{route}")).await.refused(), (401, "UNAUTHORIZED"));
    }
    assert_eq!(world.cli("", "organization/set-active", json!({})).await.refused(), (401, "UNAUTHORIZED"));
}

/// Sessions are not cached in cookies, and calls do not extend them, so these client parameters can be ignored.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_bypass_the_session_cache_and_refresh() {
    let world = World::start().await;
    let jo = world.tenant("acme").await;
    let session = world.session(&jo.cookie).await.body;
    let asked = world.cli_get(&jo.cookie, "get-session?disableCookieCache=true&disableRefresh=true").await;
    assert_eq!((asked.status, asked.body), (200, session));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_lists_their_one_organization() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let listed = world.cli_get(&tenant.cookie, "organization/list").await;
    let created = &listed.body[0]["createdAt"];
    let organization = json!({"id": tenant.id, "name": "Doe & Co", "slug": "acme", "createdAt": created});
    assert_eq!(listed.body, json!([organization]));
    let by_key = world.http.get(world.url("/api/auth/organization/list")).header("x-api-key", &tenant.key);
    assert_eq!(world.send(by_key).await.body, listed.body);
    assert_eq!(world.cli_get("", "organization/list").await.status, 401);
}
