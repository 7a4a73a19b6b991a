//! The page `/console/settings`.

use tests::{
    Answer, Tenant, World,
    world::{BROWSER, cookie, forged},
};

use super::{SCRIPT, filled, follow, harmless, location, open, submit};

const PAGE: &str = "/console/settings";

async fn save(world: &World, who: &Tenant, address: &str, mails: &str) -> Answer {
    let page = open(world, &who.cookie, PAGE).await;
    let typed = [("debugNotificationEmail", address), ("jobFailureMails", mails)];
    submit(world, &who.cookie, PAGE, &filled(&page, "Save settings", &typed)).await
}

/// The address, and whether emails about jobs are disabled, according to the API.
async fn settings(world: &World, who: &Tenant) -> (String, bool) {
    let settings = world.rpc(&who.key, "tenant/settings", serde_json::json!({})).await.ok().clone();
    let address = settings["debug_notification_email"].as_str().expect("an address").to_owned();
    (address, settings["disable_job_failure_notifications"] == true)
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_and_members_see_the_id_that_producers_send() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    for cookie in [&owner.cookie, &member.cookie] {
        let page = open(&world, cookie, PAGE).await;
        let row = format!("<dt>Organization ID</dt><dd class=\"mono whole\">{}</dd>", owner.id);
        assert!(page.page().contains(&row) && page.page().contains("<code>tenant_id</code>"), "{}", page.page());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_changes_settings_and_both_addresses_get_an_email() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let page = open(&world, &owner.cookie, PAGE).await;
    assert!(
        page.page().contains("value=\"ops@example.com\"") && page.page().contains("<option value=\"on\" selected>")
    );
    let before = world.mails().await.len();
    let saved = save(&world, &owner, "alerts@example.com", "off").await;
    assert_eq!(location(&saved), "/console/settings?did=saved");
    let page = follow(&world, &owner.cookie, &saved).await;
    assert!(page.page().contains("Settings saved.") && page.page().contains("value=\"alerts@example.com\""));
    assert!(page.page().contains("<option value=\"off\" selected>"));
    assert_eq!(settings(&world, &owner).await, ("alerts@example.com".to_owned(), true));
    let mut notified: Vec<_> = world.mails().await[before..].iter().map(|mail| mail["to"][0].to_string()).collect();
    notified.sort();
    assert_eq!(notified, ["\"alerts@example.com\"", "\"ops@example.com\""]);
    // Saving the same values changes nothing and sends no email.
    assert_eq!(save(&world, &owner, "alerts@example.com", "off").await.status, 303);
    assert_eq!(save(&world, &owner, "alerts@example.com", "on").await.status, 303);
    assert_eq!(world.mails().await.len(), before + 2);
    assert_eq!(settings(&world, &owner).await, ("alerts@example.com".to_owned(), false));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_read_the_settings_and_do_not_change_them() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let page = open(&world, &member.cookie, PAGE).await;
    assert!(page.page().contains("<dd>ops@example.com</dd>") && page.page().contains("<dd>On</dd>"), "{page:?}");
    assert!(!page.page().contains("Save settings") && page.page().contains("Only owners"));
    let of_owner = open(&world, &owner.cookie, PAGE).await;
    let form = filled(
        &of_owner,
        "Save settings",
        &[("debugNotificationEmail", "evil@example.com"), ("jobFailureMails", "off")],
    );
    let refused = submit(&world, &member.cookie, PAGE, &forged(form.clone())).await;
    assert_eq!(refused.status, 403);
    assert!(refused.page().contains("role=\"alert\"><p>Only an owner of the organization may do this."));
    let foreign =
        world.http.post(world.url(PAGE)).header("cookie", &owner.cookie).header("origin", "https://evil.example.com");
    assert_eq!(world.send(foreign.form(&form)).await.refused(), (403, "INVALID_ORIGIN"));
    assert_eq!(settings(&world, &owner).await, ("ops@example.com".to_owned(), false));
}

/// Two owners change the settings at the same time, or one does in two tabs.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_changes_only_the_settings_that_were_edited() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let old = open(&world, &owner.cookie, PAGE).await;
    assert_eq!(save(&world, &owner, "new@example.com", "on").await.status, 303);
    let typed = [("debugNotificationEmail", "ops@example.com"), ("jobFailureMails", "off")];
    let saved = submit(&world, &owner.cookie, PAGE, &filled(&old, "Save settings", &typed)).await;
    assert_eq!(location(&saved), "/console/settings?did=saved");
    assert_eq!(settings(&world, &owner).await, ("new@example.com".to_owned(), true));
    // A rejected form still holds what its page showed.
    let typed = [("debugNotificationEmail", "ops@example.com"), ("jobFailureMails", "x")];
    let refused = submit(&world, &owner.cookie, PAGE, &filled(&old, "Save settings", &typed)).await;
    let typed = [("debugNotificationEmail", "ops@example.com"), ("jobFailureMails", "on")];
    submit(&world, &owner.cookie, PAGE, &filled(&refused, "Save settings", &typed)).await;
    assert_eq!(settings(&world, &owner).await, ("new@example.com".to_owned(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_without_a_form_is_shown_on_the_page() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let form = [("action", "require"), ("requireTwoFactor", "on")].map(|(name, value)| (name.into(), value.into()));
    let refused = submit(&world, &owner.cookie, PAGE, &form).await;
    assert_eq!(refused.status, 403);
    assert!(
        refused.page().contains("role=\"alert\"><p>Two-factor authentication is required for this."),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_return_the_form_and_the_limits_are_the_apis() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    for (address, mails, field) in
        [(SCRIPT, "off", "debugNotificationEmail"), ("a@example.com", "x", "jobFailureMails")]
    {
        let refused = save(&world, &owner, address, mails).await;
        assert_eq!(refused.status, 400);
        assert!(harmless(&refused).contains(&format!("id=\"settings-{field}-error\"")), "{refused:?}");
        let kept = address.replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
        assert!(refused.page().contains(&format!("value=\"{kept}\"")));
    }
    for number in 0..10 {
        let address = format!("a{number}@example.com");
        if number % 2 == 0 {
            assert_eq!(save(&world, &owner, &address, "on").await.status, 303);
        } else {
            let fields = serde_json::json!({"debug_notification_email": address});
            world.rpc(&owner.key, "tenant/settings", fields).await.ok();
        }
    }
    let refused = save(&world, &owner, "one-more@example.com", "on").await;
    assert_eq!(refused.status, 429);
    assert!(refused.page().contains("Too many attempts") && refused.page().contains("value=\"one-more@example.com\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unverified_user_is_sent_to_the_welcome_page() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    assert_eq!(location(&open(&world, &cookie, PAGE).await), "/console/welcome");
    let form = [("action", "save"), ("debugNotificationEmail", "a@example.com"), ("jobFailureMails", "on")];
    let request = world.http.post(world.url(PAGE)).header("accept", BROWSER).header("origin", world.stack.api());
    assert_eq!(location(&world.send(request.header("cookie", &cookie).form(&form)).await), "/console/welcome");
    assert_eq!(world.mails().await.len(), 1, "the only email is the one from the sign-up");
}
