//! The content of all emails: which links they have, and how they are sent.

use linkify::LinkFinder;
use serde_json::{Value, json};
use tests::{Browser, Receiver, World, event, text};

use crate::{
    job_failures::{failed, later},
    notices::sweep,
};

/// Everything that an email program might turn into a link. Without a scheme, an IP address is none.
fn links(text: &str) -> Vec<String> {
    let mut finder = LinkFinder::new();
    finder.url_must_have_scheme(false);
    let found = finder.links(text).map(|link| link.as_str().to_owned());
    found.filter(|link| !link.starts_with(|c: char| c.is_ascii_digit())).collect()
}

/// The text of an HTML part, without its head and markup.
pub(super) fn words(html: &str) -> String {
    let body = html.split_once("<body>").expect("a body").1;
    let words: String =
        body.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, words)| format!("{words} ")).collect();
    words.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The addresses of the links in an HTML part.
pub(super) fn targets(html: &str) -> Vec<&str> {
    html.split("href=\"").skip(1).filter_map(|link| link.split('"').next()).collect()
}

/// Fails the test if an email has a link to another site, or a long line.
pub(super) fn check(world: &World, mail: &Value) {
    let (subject, plain, html) = (text(&mail["subject"]), text(&mail["text"]), text(&mail["html"]));
    assert_eq!(links(subject), [""; 0], "{subject}");
    for link in links(plain).iter().chain(&links(&words(html))).map(String::as_str).chain(targets(html)) {
        assert!(link.starts_with(&format!("{}/", world.stack.api())), "{link} is a link in {mail:#}");
    }
    let raw = text(&mail["raw"]);
    let (header, body) = raw.split_once("\r\n\r\n").expect("a header");
    assert!(header.split("\r\n").all(|line| line.len() <= 200), "{header}");
    assert!(body.split("\r\n").all(|line| line.len() <= 78), "{body}");
    assert!(!body.replace("\r\n", "").contains(['\r', '\n']), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_text_of_jobs_never_become_links() {
    let world = World::start().await;
    for (number, name) in [
        "Claim $500 at https://evil.example/claim?a=b",
        "EVIL.example",
        "jo@evil.example",
        "www.evil.co.uk",
        "http://203.0.113.7/x \u{ad}evil.example",
        "ｅvil．example is mailto:x@evil.example",
    ]
    .into_iter()
    .enumerate()
    {
        let receiver = Receiver::scripted(&[(410, &[])]).await;
        let mut fields = World::sign_up_fields(&format!("tenant-{number}"));
        (fields["name"], fields["organizationName"]) = (json!(name), json!(name));
        let account = world.rpc("", "auth/signupAndCreateOrg", fields).await.ok().clone();
        let (id, cookie) = (text(&account["organizationId"]), tests::world::cookie(&account));
        let own = text(&account["email"]);
        assert_eq!(world.confirm(&tests::world::link(&world.mail_to(own).await)).await.status, 200);
        let key = world.key(&cookie, json!({})).await;
        let invited = format!("guest-{number}@example.net");
        let fields = json!({"email": invited, "role": "member"});
        assert_eq!(world.cli(&cookie, "organization/invite-member", fields).await.status, 200);
        let invitation = world.mail_to(&invited).await;
        let path = tests::world::link(&invitation);
        let page = Browser::new(&world, "").open(path.trim_start_matches(world.stack.api())).await;
        assert!(page.page().contains("You are invited"), "{page:?}");
        assert_eq!(links(&words(page.page()).replace(&invited, "")), [""; 0]);
        let moved = format!("ops-{number}@example.net");
        world.rpc(&key, "tenant/settings", json!({"debug_notification_email": moved})).await.ok();
        let chosen = tests::world::link(&world.mail_to(&moved).await);
        let path = chosen.trim_start_matches(world.stack.api());
        let page = Browser::new(&world, "").open(path).await;
        assert_eq!(links(&words(page.page()).replace(&moved, "")), [""; 0]);
        Browser::new(&world, "").press(path, &page, "Receive emails with details", &[]).await;
        let fields = json!({"url": receiver.url("/evil.example"), "description": name, "signing_secret": "hidden-horse-battery"});
        world.rpc(&key, "webhooks/create", fields).await.ok();
        let mut job = failed(id, name, name);
        (job["error"], job["mapped_stack"]) =
            (json!({"message": name}), json!(format!("{name}\n{}", "x".repeat(3000))));
        job["deployment_id"] = json!(name);
        world.deliver(job).await;
        world.deliver(event(id, name)).await;
        sweep(&world, later(0)).await;
        let to = |mail: &&Value| mail["to"] == json!([moved]);
        assert_eq!(world.mails().await.iter().filter(to).count(), 3, "{name}");
    }
    for mail in world.mails().await {
        check(&world, &mail);
    }
}

/// Email programs decode the words of RFC 2047 in a subject, after links in it were broken.
#[tokio::test(flavor = "multi_thread")]
async fn text_of_jobs_in_a_subject_is_not_decoded() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    world.deliver(failed(&tenant.id, "=?utf-8?q?https=3A//other=2Eexample/win?= x", "j")).await;
    sweep(&world, later(0)).await;
    let mail = world.mail_to("ops@example.com").await;
    assert_eq!(mail["subject"], "Webhooks: Workflow = ?utf-8?q?https=3A//other=2Eexample/win?= x: 1 job failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_jobs_email_shows_letters_instead_of_escapes() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut job = failed(&tenant.id, "w", "j").to_string();
    job.insert_str(job.len() - 1, r#","error":{"message":"\u00dcberlauf \ud83d\ude00 \u0007"}"#);
    world.deliver(job).await;
    sweep(&world, later(0)).await;
    let mail = world.mail_to("ops@example.com").await;
    for part in ["text", "html"] {
        let part = text(&mail[part]).replace("&quot;", "\"");
        assert!(part.contains(r#"{"message":"Überlauf 😀 \u0007"}"#), "{part}");
    }
}
