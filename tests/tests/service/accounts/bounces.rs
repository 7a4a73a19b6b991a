//! An address whose emails bounced, or whose owner reported an email as spam, gets only requested emails.

use std::time::Duration;

use serde_json::{Value, json};
use tests::{
    Browser, World, sample_event, text,
    world::{link, people::PASSWORD},
};

use crate::{
    job_failures::{failed, later},
    notices::sweep,
    template::{LEAST, template},
};

/// SES's event about a permanent bounce of an email to `address`.
fn bounce(address: &str) -> Value {
    let mut event = sample_event("accounts-bounces");
    event["detail"]["bounce"]["bouncedRecipients"][0]["emailAddress"] = json!(address);
    event["detail"]["mail"]["destination"] = json!([address]);
    event
}

/// SES's event after the owner of `address` reported an email as spam.
fn complaint(address: &str) -> Value {
    json!({"source": "aws.ses", "detail-type": "Email Complaint Received", "detail": {
        "eventType": "Complaint",
        "complaint": {"complainedRecipients": [{"emailAddress": address}], "complaintFeedbackType": "abuse"},
        "mail": {"destination": [address]},
    }})
}

async fn report(world: &World, event: Value) {
    assert_eq!(world.stack.invoke("accounts-bounces", event).await.expect("it is stored"), Value::Null);
}

/// The subjects of the emails to `address`, except for the first `before` emails sent in this world.
async fn subjects(world: &World, address: &str, before: usize) -> Vec<String> {
    let mails = world.mails().await.into_iter().skip(before).filter(|mail| mail["to"] == json!([address]));
    mails.map(|mail| text(&mail["subject"]).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounced_address_gets_only_requested_emails() {
    let world = World::start().await;
    let (tenant, other) = (world.tenant("acme").await, world.tenant("other").await);
    let before = world.mails().await.len();
    let issue = async |cookie: &str| world.cli(cookie, "api-key/create", json!({"name": "build"})).await.status;
    for repeated in [1, 2] {
        report(&world, bounce(&tenant.email.to_uppercase())).await;
        assert_eq!(issue(&tenant.cookie).await, 200);
        assert_eq!(subjects(&world, &tenant.email, before).await, [""; 0], "report {repeated}");
    }
    assert_eq!(issue(&other.cookie).await, 200);
    assert_eq!(subjects(&world, &other.email, before).await, ["Webhooks: An API key was created"]);

    // The link in a requested email proves that the mailbox works.
    assert_eq!(world.cli("", "request-password-reset", json!({"email": tenant.email})).await.status, 200);
    let token = link(&world.mail_to(&tenant.email).await).split_once("?token=").expect("a token").1.to_owned();
    assert_eq!(world.cli("", "reset-password", json!({"token": token, "newPassword": PASSWORD})).await.status, 200);
    let expected = ["Webhooks: Choose a new password", "Webhooks: Your password was changed"];
    assert_eq!(subjects(&world, &tenant.email, before).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounce_after_forwarding_counts_for_the_address() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut permanent = bounce("forwarded@example.com");
    permanent["detail"]["mail"]["destination"] = json!([tenant.email]);
    report(&world, permanent).await;
    for id in 1..=3 {
        let mut transient = passing("forwarded@example.com", "5.1.1", id, id);
        transient["detail"]["mail"]["destination"] = json!(["al@example.com"]);
        report(&world, transient).await;
    }
    let before = world.mails().await.len();
    for (address, status) in [("al@example.com", 409), ("forwarded@example.com", 200)] {
        let fields = json!({"email": address, "role": "member"});
        assert_eq!(world.cli(&tenant.cookie, "organization/invite-member", fields).await.status, status, "{address}");
    }
    assert_eq!(world.cli(&tenant.cookie, "api-key/create", json!({"name": "build"})).await.status, 200);
    assert_eq!(subjects(&world, &tenant.email, before).await, [""; 0]);
}

/// Otherwise, SES would drop the requested emails as well.
#[test]
fn ses_does_not_use_its_own_list_of_bounces() {
    let set = &template(&LEAST)["Resources"]["MailConfigurationSet"]["Properties"];
    assert_eq!(set["SuppressionOptions"], json!({"SuppressedReasons": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bounce_that_may_pass_changes_nothing() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let mut full = bounce(&tenant.email);
    full["detail"]["bounce"]["bounceType"] = json!("Transient");
    report(&world, full).await;
    assert_eq!(world.tokens("suppression").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suppression_ends_by_itself() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for (event, days) in [(bounce(&tenant.email), 30), (complaint(&tenant.email), 365)] {
        report(&world, event).await;
        let stored = world.tokens("suppression").await.pop().expect("an entry");
        let expires_at: i64 = stored["expires_at"].as_n().expect("seconds").parse().expect("a number");
        let end = later(0).after(Duration::from_hours(days * 24)).as_second();
        assert!((end - 60..=end).contains(&expires_at), "{expires_at} {end}");
    }
    // If a requested email bounces later, the suppression that the complaint caused still does not end early.
    report(&world, bounce(&tenant.email)).await;
    assert_eq!(world.tokens("suppression").await[0]["cause"].as_s().expect("a string"), "complaint");
    let is_suppression = |item: &tests::world::tables::Item| item.contains_key("cause");
    world.set_where("tokens", is_suppression, &json!({"expires_at": later(0).as_second()})).await;
    let before = world.mails().await.len();
    assert_eq!(world.cli(&tenant.cookie, "api-key/create", json!({"name": "build"})).await.status, 200);
    assert_eq!(subjects(&world, &tenant.email, before).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_see_that_notifications_are_not_sent() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let status = async || {
        let settings = world.rpc(&tenant.key, "tenant/settings", json!({})).await;
        text(&settings.ok()["notification_email_status"]).to_owned()
    };
    let page = async || Browser::new(&world, &tenant.cookie).open("/console/settings").await.page().to_owned();
    assert_eq!(status().await, "ok");
    assert!(!page().await.contains("no notifications are sent"));
    for (event, expected, notice) in [
        (bounce("ops@example.com"), "bounced", "</strong> bounced"),
        (complaint("ops@example.com"), "complained", "</strong> were reported as spam"),
    ] {
        report(&world, event).await;
        assert_eq!(status().await, expected);
        assert!(page().await.contains(notice));
    }
    // Emails about failed jobs are not kept until the address works. They are dropped, and later failures start over.
    world.deliver(failed(&tenant.id, "import", "1")).await;
    sweep(&world, later(0)).await;
    assert_eq!(subjects(&world, "ops@example.com", 0).await, [""; 0]);
    let change = json!({"debug_notification_email": "new@example.com"});
    assert_eq!(
        world.rpc(&tenant.key, "tenant/settings", change).await.ok()["notification_email_status"],
        "unconfirmed"
    );
    world.deliver(failed(&tenant.id, "import", "2")).await;
    sweep(&world, later(120_000)).await;
    assert_eq!(subjects(&world, "new@example.com", 0).await.len(), 2, "one about the change, one about the failure");
}

/// A bounce that SES calls transient, on this day, with this status.
fn passing(address: &str, status: &str, id: u32, day: u32) -> Value {
    let mut event = bounce(address);
    event["detail"]["bounce"]["bounceType"] = json!("Transient");
    event["detail"]["bounce"]["bouncedRecipients"][0]["status"] = json!(status);
    event["detail"]["bounce"]["timestamp"] = json!(format!("2026-01-{day:02}T12:00:00.000Z"));
    event["detail"]["mail"]["messageId"] = json!(format!("email-{id}"));
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_transient_bounce_of_a_missing_mailbox_counts() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    let invite = async |address: &str| {
        let fields = json!({"email": address, "role": "member"});
        world.cli(&tenant.cookie, "organization/invite-member", fields).await.status
    };
    for (number, (status, days, expected)) in [
        ("5.1.1", [1, 3, 7], 409),
        ("5.1.10", [7, 1, 3], 409),
        ("5.2.1", [1, 1, 1], 409),
        ("5.4.4", [1, 2, 8], 200),
        ("5.2.2", [1, 2, 3], 200),
        ("5.7.1", [1, 2, 3], 200),
        ("4.1.1", [1, 2, 3], 200),
        ("", [1, 2, 3], 200),
    ]
    .into_iter()
    .enumerate()
    {
        let address = format!("al{number}@example.com");
        for (id, day) in (0..).zip(days) {
            // Lambda may repeat an invocation.
            for _ in 0..2 {
                let spelt = if id == 1 { address.to_uppercase() } else { address.clone() };
                report(&world, passing(&spelt, status, id, day)).await;
            }
        }
        assert_eq!(invite(&address).await, expected, "{status}");
    }
    assert_eq!(world.tokens("suppression").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_to_a_suppressed_address_is_refused() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    report(&world, bounce("new@example.com")).await;
    let invite = json!({"email": "new@example.com", "role": "member"});
    let answer = world.cli(&tenant.cookie, "organization/invite-member", invite).await;
    assert_eq!((answer.status, &answer.body["code"]), (409, &json!("EMAIL_SUPPRESSED")), "{}", answer.body);
    assert_eq!(world.items("invitations").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_without_an_objection_suppresses_nothing() {
    let world = World::start().await;
    let tenant = world.tenant("acme").await;
    for kind in ["not-spam", "auth-failure"] {
        let mut event = complaint(&tenant.email);
        event["detail"]["complaint"]["complaintFeedbackType"] = json!(kind);
        report(&world, event).await;
    }
    let before = world.mails().await.len();
    assert_eq!(world.cli(&tenant.cookie, "api-key/create", json!({"name": "build"})).await.status, 200);
    assert_eq!(subjects(&world, &tenant.email, before).await, ["Webhooks: An API key was created"]);
}

/// These addresses behave as in SES's mailbox simulator.
#[tokio::test(flavor = "multi_thread")]
async fn the_local_service_plays_bounces_and_complaints() {
    let world = World::live(&[]).await;
    let tenant = world.tenant("acme").await;
    for (address, status) in [
        ("bounce+1@simulator.amazonses.com", "bounced"),
        ("complaint@simulator.amazonses.com", "complained"),
        ("success@simulator.amazonses.com", "unconfirmed"),
    ] {
        let change = json!({"debug_notification_email": address});
        assert_eq!(world.rpc(&tenant.key, "tenant/settings", change).await.status, 200);
        let reported = async {
            while world.rpc(&tenant.key, "tenant/settings", json!({})).await.ok()["notification_email_status"] != status
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), reported).await.expect("the status changes");
    }
}
