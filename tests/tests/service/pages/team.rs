//! The page `/console/team`.

use serde_json::json;
use tests::{
    Answer, Tenant, World,
    world::{cookie, forged, link},
};

use super::{SCRIPT, filled, follow, harmless, location, open, submit};

const PAGE: &str = "/console/team";

/// Presses a button on the page, and returns the response.
async fn press(world: &World, who: &Tenant, button: &str, typed: &[(&str, &str)]) -> Answer {
    let page = open(world, &who.cookie, PAGE).await;
    submit(world, &who.cookie, PAGE, &filled(&page, button, typed)).await
}

/// The members and their roles.
async fn members(world: &World, who: &Tenant) -> Vec<(String, String)> {
    let listed = world.cli_get(&who.cookie, "organization/list-members").await.body;
    let member = |member: &serde_json::Value| {
        let text = |value: &serde_json::Value| value.as_str().expect("a string").to_owned();
        (text(&member["user"]["email"]), text(&member["role"]))
    };
    listed["members"].as_array().expect("members").iter().map(member).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_change_roles_and_remove_members() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let al = world.member(&owner, "al@example.com", "member").await;
    let page = open(&world, &owner.cookie, PAGE).await;
    let says = harmless(&page);
    assert!(says.contains("al@example.com") && says.contains("★ Owner") && says.contains("○ Member"), "{says}");
    assert!(!says.contains("Remove member: jo@acme.example.com"), "the button for leaving is on another page");

    let changed = press(&world, &owner, "Change role: al@example.com", &[]).await;
    assert_eq!(location(&changed), "/console/team?did=role");
    assert!(follow(&world, &owner.cookie, &changed).await.page().contains("Role changed."));
    let both = [("jo@acme.example.com", "owner"), ("al@example.com", "owner")];
    assert_eq!(members(&world, &owner).await, both.map(|(email, role)| (email.to_owned(), role.to_owned())));
    // The other owner may restore the role, and remove members.
    assert_eq!(press(&world, &al, "Change role: jo@acme.example.com", &[]).await.status, 303);
    let removed = press(&world, &al, "Remove member: jo@acme.example.com", &[]).await;
    assert_eq!(location(&removed), "/console/team?did=removed");
    world.is_shut_out(&owner).await;
    assert_eq!(members(&world, &al).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_which_keys_of_a_removed_member_still_work() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let al = world.member(&owner, "al@example.com", "owner").await;
    let issue = async |kind: &str| {
        let fields = json!({"name": kind, "kind": kind});
        let issued = world.cli(&al.cookie, "api-key/create", fields).await;
        issued.body["key"].as_str().expect("a key").to_owned()
    };
    let (personal, shared) = (issue("personal").await, issue("organization").await);
    let removed = press(&world, &owner, "Remove member: al@example.com", &[]).await;
    let status = async |key: &str| world.rpc(key, "webhooks/list", json!({})).await.status;
    assert_eq!((status(&personal).await, status(&shared).await), (401, 200));
    let page = follow(&world, &owner.cookie, &removed).await;
    let says = harmless(&page);
    for part in ["personal API keys no longer work", "Organization keys that they created still work"] {
        assert!(says.contains(part), "{part} is missing from {says}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_keeps_an_owner() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let form = [("action", "role"), ("memberId", &owner.user), ("role", "member")];
    let form = form.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let refused = submit(&world, &owner.cookie, PAGE, &form).await;
    assert_eq!(refused.status, 409);
    assert!(refused.page().contains("role=\"alert\"><p>An organization must have an owner"), "{refused:?}");
    assert_eq!(members(&world, &owner).await[0].1, "owner");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_see_the_team_and_change_nothing() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let invited = world.invitation(&owner.id, "bo@example.com", 4_000_000_000).await;
    let seen = open(&world, &owner.cookie, PAGE).await;
    let page = open(&world, &member.cookie, PAGE).await;
    assert!(
        page.page().contains("jo@acme.example.com")
            && page.page().contains("Only owners can invite and remove members.")
    );
    for hidden in ["<details", "bo@example.com", &invited, "Invite a teammate"] {
        assert!(!page.page().contains(hidden), "{hidden}");
    }
    for (button, typed) in [
        ("Change role: al@example.com", &[][..]),
        ("Remove member: al@example.com", &[]),
        ("Cancel invitation: bo@example.com", &[]),
        ("Send invitation", &[("email", "cy@example.com"), ("role", "owner")]),
    ] {
        let refused = submit(&world, &member.cookie, PAGE, &forged(filled(&seen, button, typed))).await;
        assert_eq!(refused.status, 403, "{button}");
        assert!(refused.page().contains("Only an owner of the organization may do this."), "{button}");
    }
    assert_eq!(members(&world, &owner).await.len(), 2);
    assert!(open(&world, &owner.cookie, PAGE).await.page().contains("bo@example.com"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_invites_and_cancels_the_invitation() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    assert!(
        open(&world, &owner.cookie, PAGE).await.page().contains("No pending invitations. Invite a teammate below.")
    );
    let sent = press(&world, &owner, "Send invitation", &[("email", " Al@example.com"), ("role", "owner")]).await;
    assert_eq!(location(&sent), "/console/team?did=invited");
    let page = follow(&world, &owner.cookie, &sent).await;
    assert!(page.page().contains("Invitation sent."));
    assert!(page.page().contains("<td data-label=\"Email\">al@example.com</td>"), "{page:?}");
    let mail = world.mails().await.pop().expect("a mail");
    assert_eq!(world.open(&link(&mail)).await.status, 200);

    let cancelled = press(&world, &owner, "Cancel invitation: al@example.com", &[]).await;
    assert_eq!(location(&cancelled), "/console/team?did=canceled");
    assert!(!follow(&world, &owner.cookie, &cancelled).await.page().contains("al@example.com"));
    assert_eq!(world.open(&link(&mail)).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_invitations_are_marked_and_accepted_ones_are_gone() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    world.member(&owner, "al@example.com", "member").await;
    world.invitation(&owner.id, "bo@example.com", 1).await;
    let page = open(&world, &owner.cookie, PAGE).await;
    assert!(
        page.page().contains("✕ Expired") && !page.page().contains("Cancel invitation: al@example.com"),
        "{page:?}"
    );
}

/// The newest hundred invitations are a page of the API, and may all have been accepted.
#[tokio::test(flavor = "multi_thread")]
async fn a_pending_invitation_is_shown_beside_many_accepted_ones() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    world.many_invitations(&owner.id, "bo@example.com").await;
    let page = open(&world, &owner.cookie, PAGE).await;
    assert!(page.page().contains("bo@example.com") && !page.page().contains("No pending invitations"), "{page:?}");
    let canceled = press(&world, &owner, "Cancel invitation: bo@example.com", &[]).await;
    assert!(follow(&world, &owner.cookie, &canceled).await.page().contains("No pending invitations"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_invitations_get_the_form_again() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let invite = async |email: &str, role: &str| {
        press(&world, &owner, "Send invitation", &[("email", email), ("role", role)]).await
    };
    for (email, role, status, says) in [
        ("no address", "owner", 400, "id=\"invite-email-error\">Must be an email address."),
        ("al@example.com", "admin", 400, "There is no role admin. Must be owner or member."),
        ("jo@acme.example.com", "owner", 409, "This user is already a member of the organization."),
        (SCRIPT, "owner", 400, "value=\"&quot;&gt;&lt;script&gt;"),
    ] {
        let refused = invite(email, role).await;
        assert_eq!(refused.status, status, "{email}");
        assert!(harmless(&refused).contains(says), "{says} in {refused:?}");
        assert_eq!(refused.page().contains("value=\"owner\" checked"), role == "owner");
    }
    // The limit is three invitations per address, regardless of the sender.
    for round in 0..4 {
        let api = json!({"email": "al@example.com", "role": "member"});
        let status = match round % 2 {
            0 => invite("al@example.com", "member").await.status,
            _ => world.cli(&owner.cookie, "organization/invite-member", api).await.status,
        };
        assert_eq!(status, [303, 200, 303, 429][round]);
    }
    let refused = invite("al@example.com", "member").await;
    assert_eq!(refused.status, 429);
    assert!(refused.page().contains("Too many attempts") && refused.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_and_invitations_of_others_are_not_found() {
    let world = World::start().await;
    let (owner, other) = (world.tenant("acme").await, world.tenant("other").await);
    world.member(&owner, "al@example.com", "member").await;
    world.invitation(&owner.id, "bo@example.com", 4_000_000_000).await;
    let seen = open(&world, &owner.cookie, PAGE).await;
    for button in ["Change role: al@example.com", "Remove member: al@example.com", "Cancel invitation: bo@example.com"]
    {
        let refused = submit(&world, &other.cookie, PAGE, &forged(filled(&seen, button, &[]))).await;
        assert_eq!(refused.status, 404, "{button}");
        assert!(refused.page().contains("</svg> Not found</h1>"));
    }
    assert_eq!(members(&world, &owner).await.len(), 2);
    assert!(!open(&world, &other.cookie, PAGE).await.page().contains("al@example.com"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_owner_sees_the_team_and_the_next_step() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let page = open(&world, &cookie, PAGE).await;
    assert_eq!(page.status, 200);
    assert!(
        page.page().contains("jo@acme.example.com") && page.page().contains("Confirm your email address to invite")
    );
    let fields = [("action", "invite"), ("email", "al@example.com"), ("role", "member")];
    let refused = submit(&world, &cookie, PAGE, &fields.map(|(name, value)| (name.to_owned(), value.to_owned()))).await;
    assert_eq!(refused.status, 403);
    assert!(refused.page().contains("Verify your email address first."));
    assert_eq!(world.mails().await.len(), 1, "the only email is the one from the sign-up");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_stay_text_and_forms_of_other_sites_do_nothing() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    world.set("users", ("user_id", &member.user), json!({"name": SCRIPT})).await;
    let page = open(&world, &owner.cookie, PAGE).await;
    assert!(harmless(&page).contains("&quot;&gt;&lt;script&gt;"), "{page:?}");
    for table in ["users", "organizations"] {
        let name = json!({"name": "A\u{ad}d\u{202e}a"});
        world.set_where(table, |item| item.contains_key("name"), &name).await;
    }
    let hidden = open(&world, &owner.cookie, PAGE).await;
    assert_eq!(hidden.page().matches("A⟨U+00AD⟩d⟨U+202E⟩a").count(), 3, "two members and the frame: {hidden:?}");
    let request =
        world.http.post(world.url(PAGE)).header("cookie", &owner.cookie).header("origin", "https://evil.example.com");
    let refused = world.send(request.form(&filled(&page, "Remove member: al@example.com", &[]))).await;
    assert_eq!(refused.refused(), (403, "INVALID_ORIGIN"));
    assert!(world.is_signed_in(&member.cookie).await);
}

/// The number of members in an API response.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_team_is_shown_in_parts() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    world.crowd(&owner).await;
    let first = open(&world, &owner.cookie, PAGE).await;
    assert!(
        first.page().contains("There are 101 members.") && first.page().contains("<a href=\"?part=1\">"),
        "{first:?}"
    );
    assert!(!first.page().contains("m99@example.com"));
    let second = open(&world, &owner.cookie, "/console/team?part=1").await;
    assert!(second.page().contains("m99@example.com") && second.page().contains("<a href=\"?part=0\">"));
    assert!(!second.page().contains("?part=2"));
    for part in ["x", "-1", "70000", "65535"] {
        assert_eq!(open(&world, &owner.cookie, &format!("/console/team?part={part}")).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_owner_with_another_owner_can_step_down() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    world.member(&owner, "al@example.com", "member").await;
    let own = "Change to member: jo@acme.example.com";
    let page = open(&world, &owner.cookie, PAGE).await;
    assert!(!page.page().contains(own) && page.page().contains("Change to owner: al@example.com"), "{}", page.page());
    world.member(&owner, "bo@example.com", "owner").await;
    assert!(open(&world, &owner.cookie, PAGE).await.page().contains(own));
}
