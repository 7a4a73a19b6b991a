//! The page `/console/account`.

use serde_json::json;
use tests::{
    Answer, World,
    world::{cookie, forged, hidden_fields, link, people::PASSWORD},
};

use super::{SCRIPT, filled, follow, harmless, location, open, set, submit};

const PAGE: &str = "/console/account";
const NEW: &str = "another long password";
const SURE: (&str, &str) = ("sure", "yes");

/// Presses a button on the page, and returns the response.
async fn press(world: &World, cookie: &str, button: &str, typed: &[(&str, &str)]) -> Answer {
    let page = open(world, cookie, PAGE).await;
    submit(world, cookie, PAGE, &filled(&page, button, typed)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_account_page_shows_the_user_and_the_verification() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    let page = open(&world, &cookie, PAGE).await;
    assert_eq!(page.status, 200);
    for says in ["<dd>Jo Doe</dd>", "jo@acme.example.com", "! Not confirmed", "Resend confirmation email"] {
        assert!(page.page().contains(says), "{says} in {page:?}");
    }
    let sent = press(&world, &cookie, "Resend confirmation email", &[]).await;
    assert_eq!(location(&sent), "/console/account?did=mailed");
    assert!(follow(&world, &cookie, &sent).await.page().contains("Confirmation email sent."));
    let again = filled(&page, "Resend confirmation email", &[]);
    assert_eq!(world.mails().await.len(), 2);
    assert_eq!(world.confirm(&link(&world.mail_to("jo@acme.example.com").await)).await.status, 200);
    let page = open(&world, &cookie, PAGE).await;
    assert!(page.page().contains("✓ Confirmed") && !page.page().contains("Resend confirmation email"));
    // This form is from a page that was opened earlier.
    assert_eq!(location(&submit(&world, &cookie, PAGE, &again).await), "/console/account?did=confirmed");
    assert_eq!(world.mails().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_emails_share_the_limit_of_the_api() {
    let world = World::start().await;
    let cookie = cookie(&world.sign_up("acme").await);
    for round in 0..5 {
        if round % 2 == 0 {
            assert_eq!(press(&world, &cookie, "Resend confirmation email", &[]).await.status, 303);
        } else {
            let address = json!({"email": "jo@acme.example.com"});
            assert_eq!(world.cli("", "send-verification-email", address).await.status, 200);
        }
    }
    let refused = press(&world, &cookie, "Resend confirmation email", &[]).await;
    assert_eq!(refused.status, 429);
    assert!(
        refused.page().contains("role=\"alert\"><p>Too many attempts") && refused.headers.contains_key("retry-after")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_ends_all_other_sessions() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let elsewhere = world.signed_in(&tenant.email, PASSWORD).await;
    let typed = [("currentPassword", PASSWORD), ("newPassword", NEW)];
    let changed = press(&world, &tenant.cookie, "Change password", &typed).await;
    assert_eq!(location(&changed), "/console/account?did=password");
    let cookie = set(&changed);
    assert!(follow(&world, &cookie, &changed).await.page().contains("Password changed."));
    assert!(!world.is_signed_in(&elsewhere).await && !world.is_signed_in(&tenant.cookie).await);
    assert!(world.key_works(&tenant.key).await);
    assert_eq!(world.sign_in(&tenant.email, PASSWORD).await.status, 401);
    assert_eq!(world.sign_in(&tenant.email, NEW).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_and_short_passwords_are_refused_and_tries_counted() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let change = async |current: &str, new: &str| {
        press(&world, &tenant.cookie, "Change password", &[("currentPassword", current), ("newPassword", new)]).await
    };
    let short = change(PASSWORD, "short").await;
    assert_eq!(short.status, 400);
    assert!(short.page().contains("id=\"password-newPassword-error\">Must have at least 8 characters."), "{short:?}");
    let wrong = change("wrong horse", NEW).await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.page().contains("<p class=\"error\" role=\"alert\">This is not your current password.</p>"));
    for typed in ["wrong horse", NEW, PASSWORD] {
        assert!(!wrong.page().contains(typed) && !short.page().contains(typed));
    }
    // Attempts with this form share the limit with API calls and other forms.
    for round in 0..9 {
        let status = match round % 3 {
            0 => change("wrong horse", NEW).await.status,
            1 => press(&world, &tenant.cookie, "Delete account", &[("password", "wrong horse"), SURE]).await.status,
            _ => world.cli(&tenant.cookie, "delete-user", json!({"password": "wrong horse"})).await.status,
        };
        assert_eq!(status, 400);
    }
    assert_eq!(change(PASSWORD, NEW).await.status, 429);
    assert!(world.is_signed_in(&tenant.cookie).await);
}

/// A client's name is untrusted.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_shown_and_ended() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let agent = format!("evil/1 {SCRIPT}");
    let signed_in = world.http.post(world.url("/api/auth/sign-in/email")).header("user-agent", &agent);
    let signed_in = world.send(signed_in.json(&json!({"email": tenant.email, "password": PASSWORD}))).await;
    let (evil, third) = (set(&signed_in), world.signed_in(&tenant.email, PASSWORD).await);
    world.set("tokens", ("agent", &agent), json!({"agent": format!("{agent} \u{202e}")})).await;
    let page = open(&world, &tenant.cookie, PAGE).await;
    let says = harmless(&page);
    assert!(says.contains("evil/1 &quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"), "{says}");
    assert!(!says.contains('\u{202e}') && says.contains("⟨U+202E⟩") && says.contains("127.0.0.1"));
    assert_eq!((says.matches("✓ This session").count(), says.matches(">End session</button>").count()), (1, 2));
    let row = says.split("<tr>").find(|row| row.contains("evil/1")).expect("a row");
    let end = hidden_fields(row);
    let ended = submit(&world, &tenant.cookie, PAGE, &end).await;
    assert_eq!(location(&ended), "/console/account?did=ended");
    assert!(!world.is_signed_in(&evil).await && world.is_signed_in(&third).await);
    // The session has ended, or belongs to a different user.
    assert_eq!(submit(&world, &tenant.cookie, PAGE, &end).await.status, 404);
    let other = world.tenant("other").await;
    let row = open(&world, &tenant.cookie, PAGE).await;
    let row = row.page().split("<tr>").find(|row| row.contains(">End session</button>")).expect("a row").to_owned();
    assert_eq!(submit(&world, &other.cookie, PAGE, &forged(hidden_fields(&row))).await.status, 404);
    assert!(world.is_signed_in(&third).await);

    let others = press(&world, &tenant.cookie, "End all other sessions", &[]).await;
    let page = follow(&world, &tenant.cookie, &others).await;
    assert!(page.page().contains("All other sessions have ended.") && !page.page().contains("End all other sessions"));
    assert!(!world.is_signed_in(&third).await && world.is_signed_in(&tenant.cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_the_organization_needs_password_and_checkbox() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    let member = world.member(&owner, "al@example.com", "member").await;
    let page = open(&world, &member.cookie, PAGE).await;
    assert!(!page.page().contains("You are the only member") && page.page().contains("<dd>Member</dd>"));
    let unsure = press(&world, &member.cookie, "Leave organization", &[]).await;
    assert_eq!(unsure.status, 400);
    assert!(unsure.page().contains("id=\"leave-sure-error\"") && !unsure.page().contains("id=\"delete-sure-error\""));
    let right = ("password", PASSWORD);
    for typed in [
        vec![right, ("sure", "")],
        vec![right, ("sure", "no")],
        vec![right, ("sure", "on")],
        vec![SURE],
        vec![("password", "wrong horse"), SURE],
    ] {
        let refused = press(&world, &member.cookie, "Leave organization", &typed).await;
        assert_eq!(refused.status, 400, "{typed:?}");
    }
    assert!(world.is_signed_in(&member.cookie).await);
    let left = press(&world, &member.cookie, "Leave organization", &[right, SURE]).await;
    assert_eq!((location(&left), set(&left).as_str()), ("/signin?did=gone", "session_token="));
    assert!(follow(&world, "session_token=", &left).await.page().contains("Your account has been deleted."));
    world.is_shut_out(&member).await;

    // The only member can delete the organization. A form from a page opened earlier still tries to leave it.
    let page = open(&world, &owner.cookie, PAGE).await;
    assert!(!page.page().contains("Leave organization") && page.page().contains("You are the only member"));
    let form = [("action", "leave"), right, SURE].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let last = submit(&world, &owner.cookie, PAGE, &form).await;
    assert_eq!(last.status, 409);
    assert!(last.page().contains("An organization must have an owner") && last.headers.get("set-cookie").is_none());
    assert!(world.is_signed_in(&owner.cookie).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_is_deleted_with_its_password_and_a_checkbox() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.endpoint(&tenant, "http://127.0.0.1:9/", "s").await;
    for (typed, says) in [
        (vec![("password", PASSWORD)], "id=\"delete-sure-error\""),
        (vec![("password", "wrong horse"), SURE], "This is not your current password."),
        (vec![SURE], "id=\"delete-password-error\""),
    ] {
        let refused = press(&world, &tenant.cookie, "Delete account", &typed).await;
        assert_eq!(refused.status, 400, "{typed:?}");
        assert!(refused.page().contains(says) && !refused.page().contains("wrong horse"), "{says}");
    }
    let form = filled(&open(&world, &tenant.cookie, PAGE).await, "Delete account", &[("password", PASSWORD), SURE]);
    let foreign =
        world.http.post(world.url(PAGE)).header("cookie", &tenant.cookie).header("origin", "https://evil.example.com");
    assert_eq!(world.send(foreign.form(&form)).await.refused(), (403, "INVALID_ORIGIN"));
    assert!(world.is_signed_in(&tenant.cookie).await);

    let deleted = submit(&world, &tenant.cookie, PAGE, &form).await;
    assert_eq!((location(&deleted), set(&deleted).as_str()), ("/signin?did=gone", "session_token="));
    world.is_shut_out(&tenant).await;
    // The user was the last member, so the slug is available again.
    world.sign_up("acme").await;
    let again = submit(&world, &tenant.cookie, PAGE, &form).await;
    assert_eq!(location(&again), "/signin?next=%2Fconsole%2Faccount&did=lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_only_owner_among_members_cannot_delete_the_account() {
    let world = World::start().await;
    let owner = world.tenant("acme").await;
    world.member(&owner, "al@example.com", "member").await;
    let refused = press(&world, &owner.cookie, "Delete account", &[("password", PASSWORD), SURE]).await;
    assert_eq!(refused.status, 409);
    assert!(refused.page().contains("make another member an owner first") && !refused.page().contains(PASSWORD));
    assert!(world.is_signed_in(&owner.cookie).await);
}
