//! The page `/console/keys`.

use api::{ClosedSet, account::Scope};
use serde_json::{Value, json};
use tests::{
    Answer, Tenant, World,
    world::{cookie, forged, hidden_fields},
};

use super::{SCRIPT, filled, follow, harmless, location, open, set, submit};

const PAGE: &str = "/console/keys";

/// Fills in the form that issues a key on a newly opened page.
async fn form(world: &World, who: &Tenant, name: &str, expires: &str) -> Vec<(String, String)> {
    let page = open(world, &who.cookie, PAGE).await;
    filled(&page, "Create API key", &[("name", name), ("expires", expires), ("access", "all")])
}

/// The key on a page.
fn shown(page: &Answer) -> String {
    assert_eq!(page.status, 200, "{page:?}");
    let key = page.page().split("<code id=\"key\">").nth(1).expect("a key");
    key.split('<').next().unwrap_or_default().to_owned()
}

/// The keys that the API lists for a user.
async fn keys(world: &World, who: &Tenant) -> Vec<Value> {
    world.cli_get(&who.cookie, "api-key/list").await.body.as_array().expect("a list").clone()
}

fn names(keys: &[Value]) -> Vec<&str> {
    keys.iter().map(|key| key["name"].as_str().expect("a string")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_issued_shown_once_and_works() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let issued = submit(&world, &tenant.cookie, PAGE, &form(&world, &tenant, "ci", "30").await).await;
    let key = shown(&issued);
    assert!(world.key_works(&key).await);
    // The text that a browser displays.
    let line =
        issued.page().split("<pre id=\"try\">").nth(1).and_then(|rest| rest.split("</pre>").next()).expect("a line");
    let expected = format!("curl {}/v1/webhooks/list -d '{{}}' -H 'x-api-key: {key}'", world.stack.api());
    assert_eq!(line.replace("&#39;", "'"), expected);
    let ran = tokio::process::Command::new("sh").args(["-c", &expected]).output().await.expect("it runs");
    assert!(String::from_utf8_lossy(&ran.stdout).contains("webhook_endpoints"), "{ran:?}");

    let listed = keys(&world, &tenant).await;
    assert_eq!(names(&listed), ["test", "ci"]);
    let page = open(&world, &tenant.cookie, PAGE).await;
    let says = harmless(&page);
    assert!(!says.contains(&key) && says.contains(&format!("<code>{}…</code>", &key[..9])), "{says}");
    assert!(says.contains("Jo Doe") && !says.contains("No API keys yet"));
    let expires = listed[1]["expiresAt"].as_str().and_then(|at| at.split('T').next()).expect("a time");
    assert!(says.contains(&format!(" title=\"{expires} ")) && says.contains(">in 30 days</time>"), "{says}");
    assert_eq!(listed[0]["expiresAt"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_tried_with_a_call_that_it_may_make() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for scope in Scope::ALL {
        let page = open(&world, &tenant.cookie, PAGE).await;
        let typed = [("name", scope.as_str()), ("expires", "30"), ("access", "chosen"), (scope.as_str(), "yes")];
        let issued = submit(&world, &tenant.cookie, PAGE, &filled(&page, "Create API key", &typed)).await;
        let line = issued.page().split("<pre id=\"try\">").nth(1).and_then(|rest| rest.split("</pre>").next());
        let command = format!("{} -sSf", line.expect("a line").replace("&#39;", "'"));
        let ran = tokio::process::Command::new("sh").args(["-c", &command]).output().await.expect("it runs");
        assert!(ran.status.success() && ran.stdout.starts_with(b"{"), "{scope}: {command}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_of_the_key_page_does_not_issue_another_key() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let sent = form(&world, &tenant, "ci", "never").await;
    shown(&submit(&world, &tenant.cookie, PAGE, &sent).await);
    for _ in 0..2 {
        let again = submit(&world, &tenant.cookie, PAGE, &sent).await;
        assert_eq!(location(&again), "/console/keys?did=known");
        assert!(follow(&world, &tenant.cookie, &again).await.page().contains("no new key was created"));
    }
    assert_eq!(names(&keys(&world, &tenant).await), ["test", "ci"]);
    // The form is still recognized after the key is deleted.
    let page = open(&world, &tenant.cookie, PAGE).await;
    let deleted = submit(&world, &tenant.cookie, PAGE, &filled(&page, "Delete key: ci", &[])).await;
    assert_eq!(location(&deleted), "/console/keys?did=deleted");
    assert_eq!(location(&submit(&world, &tenant.cookie, PAGE, &sent).await), "/console/keys?did=known");
    // Opening the page again provides a new form.
    shown(&submit(&world, &tenant.cookie, PAGE, &form(&world, &tenant, "ci", "never").await).await);
    assert_eq!(names(&keys(&world, &tenant).await), ["test", "ci"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_key_is_invalid() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let page = open(&world, &tenant.cookie, PAGE).await;
    let deleted = submit(&world, &tenant.cookie, PAGE, &filled(&page, "Delete key: test", &[])).await;
    let page = follow(&world, &tenant.cookie, &deleted).await;
    assert!(page.page().contains("role=\"status\"><p>API key deleted.") && page.page().contains("No API keys yet."));
    assert!(!world.key_works(&tenant.key).await);
    // An unknown value of `did` does not show a notice.
    assert!(!open(&world, &tenant.cookie, "/console/keys?did=x").await.page().contains("role=\"status\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_see_and_delete_their_own_keys_and_owners_all() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let seen = open(&world, &owner.cookie, PAGE).await;
    assert!(seen.page().contains("aria-label=\"Delete key: a member's\"") && seen.page().contains("\">Al</td>"));
    let page = open(&world, &member.cookie, PAGE).await;
    assert!(page.page().contains("Delete key: a member's") && !page.page().contains("Delete key: test"));
    // The form offers scopes that the key can use.
    for scope in Scope::ALL {
        let is_offered = |page: &Answer| page.page().contains(&format!("id=\"issue-{scope}\""));
        let is_for_members = !matches!(scope, Scope::SettingsWrite | Scope::MembersWrite | Scope::AuditRead);
        assert_eq!((is_offered(&seen), is_offered(&page)), (true, is_for_members), "{scope}");
    }
    let of_owner = filled(&seen, "Delete key: test", &[]);
    let refused = submit(&world, &member.cookie, PAGE, &forged(of_owner.clone())).await;
    assert_eq!(refused.status, 404);
    assert!(refused.page().contains("Not found") && refused.page().contains("API key not found."));
    // Another organization's key is not found.
    let other = world.tenant("other").await;
    assert_eq!(submit(&world, &other.cookie, PAGE, &forged(of_owner)).await.status, 404);
    assert!(world.key_works(&owner.key).await);
    assert_eq!(submit(&world, &owner.cookie, PAGE, &filled(&seen, "Delete key: a member's", &[])).await.status, 303);
    assert!(!world.key_works(&member.key).await && world.key_works(&owner.key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_return_the_form_with_its_input() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let bad = form(&world, &tenant, &format!("{SCRIPT}\u{7}"), "90").await;
    let again = submit(&world, &tenant.cookie, PAGE, &bad).await;
    assert_eq!(again.status, 400);
    let says = harmless(&again);
    assert!(says.contains("value=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u{7}\""), "{says}");
    assert!(
        says.contains("id=\"issue-name-error\">Must not contain control characters.")
            && says.contains("<title>Error: ")
    );
    assert!(says.contains("<option value=\"90\" selected>"), "{says}");
    // The form can be sent again.
    let corrected = filled(&again, "Create API key", &[("name", SCRIPT), ("expires", "365"), ("access", "all")]);
    assert!(harmless(&submit(&world, &tenant.cookie, PAGE, &corrected).await).contains("<code id=\"key\">"));
    assert!(harmless(&open(&world, &tenant.cookie, PAGE).await).contains("&lt;script&gt;"));
    for expires in ["", "0", "31", "-1", "60000", "x"] {
        let refused = submit(&world, &tenant.cookie, PAGE, &form(&world, &tenant, "ci", expires).await).await;
        assert_eq!(refused.status, 400, "{expires}");
        assert!(refused.page().contains("id=\"issue-expires-error\">Choose one of the options."), "{expires}");
    }
    // Browsers never send requests like these.
    for (fields, status) in
        [(vec![], 404), (vec![("action", "x")], 404), (vec![("action", "delete"), ("keyId", "x")], 400)]
    {
        let fields: Vec<_> = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(submit(&world, &tenant.cookie, PAGE, &fields).await.status, status, "{fields:?}");
    }
    // A link does not fill in the form.
    let page = open(&world, &tenant.cookie, "/console/keys?action=issue&name=evil&expires=365").await;
    assert!(!page.page().contains("evil") && !page.page().contains("selected"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_creates_a_key_of_the_organization_with_scopes() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut sent = form(&world, &tenant, "ci", "never").await;
    sent.extend(
        [("webhooks:read", "yes"), ("members:write", "yes")].map(|(name, on)| (name.to_owned(), on.to_owned())),
    );
    sent.retain(|(name, _)| !["kind", "access"].contains(&name.as_str()));
    sent.extend([("kind", "organization"), ("access", "chosen")].map(|(name, on)| (name.to_owned(), on.to_owned())));
    let refused = submit(&world, &tenant.cookie, PAGE, &sent).await;
    assert_eq!(refused.status, 400);
    let says = harmless(&refused);
    assert!(says.contains("An organization key cannot have the scope members:write."), "{says}");
    assert!(
        says.contains("name=\"webhooks:read\" value=\"yes\" checked") && says.contains("\"organization\" selected")
    );
    sent.retain(|(name, _)| name != "members:write");
    let key = shown(&submit(&world, &tenant.cookie, PAGE, &sent).await);
    world.rpc(&key, "webhooks/list", json!({})).await.ok();
    let refused = world.rpc(&key, "deliveries/list", json!({})).await;
    assert_eq!(refused.error(), (403, "FORBIDDEN", "scope_missing"));
    let page = open(&world, &tenant.cookie, PAGE).await;
    let says = harmless(&page);
    for part in ["The organization<div class=\"soft\">Created by Jo Doe</div>", "webhooks:read</td>", "from 127.0.0.1"]
    {
        assert!(says.contains(part), "{part}: {says}");
    }
}

/// A form whose scopes are not understood must not create a key with all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_has_all_scopes_only_if_they_are_chosen() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let page = open(&world, &tenant.cookie, PAGE).await;
    let fields = filled(&page, "Create API key", &[("name", "ci"), ("expires", "never")]);
    for (typed, problem) in [
        (vec![], "Choose everything or scopes"),
        (vec![("access", "some")], "Choose everything or scopes"),
        (vec![("webhooks:read", "yes")], "Choose everything or scopes"),
        (vec![("access", "chosen")], "Check at least one scope"),
        (vec![("access", "chosen"), ("webhooks:delete", "yes")], "Check at least one scope"),
        (vec![("access", "chosen"), ("webhooks:read", "on")], "Check or uncheck each scope"),
        (vec![("access", "all"), ("webhooks:read", "no")], "Check or uncheck each scope"),
        (vec![("access", "all"), ("webhooks:read", "yes")], "Uncheck all scopes, or choose only those checked"),
    ] {
        let typed = typed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let sent: Vec<_> = fields.iter().cloned().chain(typed).collect();
        let refused = submit(&world, &tenant.cookie, PAGE, &sent).await;
        assert!(refused.status == 400 && harmless(&refused).contains(problem), "{sent:?}: {refused:?}");
    }
    assert_eq!(names(&keys(&world, &tenant).await), ["test"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_creates_no_key_of_the_organization() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let mut sent = form(&world, &member, "ci", "never").await;
    assert!(!sent.iter().any(|(name, _)| name == "kind"));
    sent.push(("kind".to_owned(), "organization".to_owned()));
    let refused = submit(&world, &member.cookie, PAGE, &sent).await;
    assert_eq!(refused.status, 403);
    assert!(refused.page().contains("Only an owner of the organization may do this."));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_keys_is_shown() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.set("api-keys", ("key_hash", &format!("count#{}", tenant.id)), json!({"keys": 100})).await;
    let refused = submit(&world, &tenant.cookie, PAGE, &form(&world, &tenant, "ci", "never").await).await;
    assert_eq!(refused.status, 409);
    assert!(
        refused.page().contains("An organization may have at most 100 API keys.")
            && refused.page().contains("value=\"ci\"")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_user_cannot_issue_a_key() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let page = open(&world, &cookie, PAGE).await;
    assert_eq!(page.status, 200);
    assert!(
        page.page().contains("Confirm your email address to create API keys.")
            && page.page().contains("href=\"/console/account\"")
    );
    assert!(!page.page().contains("Create API key"));
    let fields =
        ["action=issue", "form=x", "name=ci", "expires=never"].map(|field| field.split_once('=').expect("a field"));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let refused = submit(&world, &cookie, PAGE, &fields).await;
    assert_eq!(refused.status, 403);
    assert!(refused.page().contains("Verify your email address first."));
    assert!(world.items("api-keys").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_site_does_nothing() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let page = open(&world, &tenant.cookie, PAGE).await;
    for form in [
        filled(&page, "Delete key: test", &[]),
        filled(&page, "Create API key", &[("name", "x"), ("expires", "never")]),
    ] {
        for origin in [Some("https://evil.example.com"), Some("null"), None] {
            let request = world.http.post(world.url(PAGE)).header("cookie", &tenant.cookie).form(&form);
            let request = match origin {
                Some(origin) => request.header("origin", origin),
                None => request,
            };
            assert_eq!(world.send(request).await.refused(), (403, "INVALID_ORIGIN"), "{origin:?}");
        }
        // A key does not give access to a page.
        let by_key = world.http.post(world.url(PAGE)).header("x-api-key", &tenant.key).form(&form);
        assert_eq!(world.send(by_key).await.status, 401);
    }
    assert_eq!(names(&keys(&world, &tenant).await), ["test"]);
}

/// Each console page has the same header.
#[tokio::test(flavor = "multi_thread")]
async fn the_frame_names_the_organization_and_signs_out() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let page = open(&world, &tenant.cookie, PAGE).await;
    assert!(page.page().contains("<span class=\"org\">Doe &amp; Co</span>"), "{}", page.page());
    assert!(page.page().contains("<a href=\"/console/keys\" aria-current=\"page\">API keys</a>"));
    assert_eq!(page.page().matches(" aria-current=").count(), 1);
    let form = page.page().split("<form ").find(|form| form.contains("Sign out")).expect("a form");
    assert!(form.starts_with("method=\"post\" action=\"/signin\""));
    let out =
        submit(&world, &tenant.cookie, "/signin", &hidden_fields(form.split("</form>").next().unwrap_or_default()))
            .await;
    assert_eq!((location(&out), set(&out).as_str()), ("?", "session_token="));
    assert!(!world.is_signed_in(&tenant.cookie).await);
}

/// Each call to the tables loses its response in turn, and is repeated by the SDK.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_issued_although_a_response_is_lost() {
    let (world, cut_off) = World::cut_off_with(&[]).await;
    let tenant = world.tenant("acme").await;
    for lost in 0.. {
        let form = form(&world, &tenant, &format!("key {lost}"), "30").await;
        cut_off.fail(lost..lost + 1, true);
        let issued = submit(&world, &tenant.cookie, PAGE, &form).await;
        let is_over = !cut_off.is_reached();
        cut_off.fail(0..0, false);
        assert!(!shown(&issued).is_empty(), "call {lost}");
        if is_over {
            assert!(lost > 3, "{lost}");
            break;
        }
    }
}
