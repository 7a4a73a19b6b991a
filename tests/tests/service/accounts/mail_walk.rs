//! A walk through every email that the service sends. To read them all, name a file in `MAIL_WALK`:
//!
//! ```sh
//! MAIL_WALK=/tmp/emails.txt cargo test --test service -- accounts::mail_walk
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use syn::visit::{self, Visit};
use tests::{
    Receiver, Tenant, World, event, text,
    world::{link, people::PASSWORD, set_cookie},
};

use super::mails::{check, targets, words};
use crate::{
    endpoints::failing::impatient,
    job_failures::{failed, later},
    notices::sweep,
};

/// The functions that build emails, by file, with a sentence of each of their emails.
const EMAILS: [(&str, &str, &[&str]); 18] = [
    (
        "common/src/accounts/verification.rs",
        "verification_mail",
        &["Confirm your email address to finish your sign-up."],
    ),
    ("common/src/accounts/verification.rs", "taken_mail", &["you already have an account with it."]),
    ("common/src/accounts/password_reset.rs", "reset_mail", &["Choose a new password for your account."]),
    ("common/src/accounts/alerts.rs", "password_changed", &["Your account's password was changed."]),
    (
        "common/src/accounts/alerts.rs",
        "password_reset",
        &[
            "A link from an email was used",
            "If someone else signed up with it,",
            "If you did not accept the invitation,",
            "also check your organization's members",
            "These API keys belong to",
        ],
    ),
    (
        "common/src/accounts/alerts.rs",
        "key_created",
        &["An API key was created in your account.", "You created an API key for your organization."],
    ),
    ("common/src/accounts/alerts.rs", "owner_invited", &["You invited a person to your organization as an owner."]),
    ("common/src/accounts/alerts.rs", "client_signed_in", &["A command-line client signed in to your account"]),
    (
        "common/src/accounts/alerts.rs",
        "two_factor_changed",
        &[
            "now also requires a code from your authenticator app.",
            "now requires only the password.",
            "New backup codes were created for your account.",
            "The setup key for your second factor was shown",
            "A sign-in to your account used a backup code",
            "A signed-in session used a backup code",
        ],
    ),
    ("common/src/accounts/alerts.rs", "moved", &["Your account accepted an invitation"]),
    ("common/src/accounts/alerts.rs", "removed", &["You were removed from the organization"]),
    ("common/src/accounts/email_change.rs", "change_mail", &["Confirm this address to use it for your account."]),
    ("common/src/accounts/email_change.rs", "changed_mail", &["Your account now has another email address"]),
    ("common/src/accounts/organizations/settings.rs", "moved_mail", &["instead of this address."]),
    (
        "common/src/accounts/organizations/settings.rs",
        "chosen_mail",
        &["now go to this address.", "Until you agree, notifications contain no details"],
    ),
    ("common/src/accounts/invitations.rs", "invitation_mail", &["invited you to join the organization"]),
    (
        "functions/deliveries-wake/src/mail.rs",
        "about",
        &["is failing: no attempt", "works again: its receiver", "has been disabled, because its receiver responded"],
    ),
    (
        "functions/deliveries-wake/src/job_failures/mail.rs",
        "about",
        &["A job of Doe & Co has failed.", "Jobs of Doe & Co have failed.", "You have not agreed to these emails yet"],
    ),
];

/// The functions of a file that build emails, and the sentences in each.
#[derive(Default)]
struct Builders {
    inside: Vec<String>,
    found: BTreeMap<String, BTreeSet<String>>,
    sentences: BTreeMap<String, BTreeSet<String>>,
}

impl Builders {
    fn within(&mut self, name: &syn::Ident, visit: impl FnOnce(&mut Self)) {
        self.inside.push(name.to_string());
        visit(self);
        self.inside.pop();
    }
}

impl<'a> Visit<'a> for Builders {
    /// Comments are attributes, too.
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.within(&function.sig.ident, |this| visit::visit_item_fn(this, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.within(&function.sig.ident, |this| visit::visit_impl_item_fn(this, function));
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            let names: Vec<_> = path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if let [.., kind, method] = &names[..]
                && kind == "EmailMessage"
                && ["new", "unrequested"].contains(&method.as_str())
                && let Some(name) = self.inside.last()
            {
                self.found.entry(name.clone()).or_default();
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_lit_str(&mut self, literal: &'a syn::LitStr) {
        if let Some(name) = self.inside.last() {
            let value = literal.value();
            let is_sentence = value.ends_with('.') && value.contains(' ') && !value.contains('{');
            self.sentences.entry(name.clone()).or_default().extend(is_sentence.then_some(value));
        }
    }
}

/// All functions in the sources that build emails, by file and name, with the sentences in each.
fn builders() -> BTreeMap<(String, String), BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut left, mut all) = (vec![root.join("common/src"), root.join("functions")], BTreeMap::new());
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("accounts/mail.rs") {
            continue;
        }
        let mut builders = Builders::default();
        builders.visit_file(&syn::parse_file(&fs::read_to_string(&path).expect("a source")).expect("Rust"));
        let file = path.strip_prefix(&root).expect("it is inside").to_str().expect("UTF-8").to_owned();
        for name in builders.found.into_keys() {
            let sentences = builders.sentences.remove(&name).unwrap_or_default();
            all.insert((file.clone(), name), sentences);
        }
    }
    all
}

/// The words of an email's part, without line breaks and punctuation that only one of the parts has.
fn plain(words: &str) -> String {
    words.split_whitespace().filter(|word| !["---", ">"].contains(word)).collect::<Vec<_>>().join(" ")
}

/// The links in the text part: the lines that are a URL.
fn listed(plain: &str) -> BTreeSet<&str> {
    plain.lines().filter(|line| line.starts_with("http")).collect()
}

#[test]
fn the_walk_covers_every_function_that_builds_an_email() {
    let covered: BTreeSet<_> = EMAILS.iter().map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned())).collect();
    assert_eq!(builders().into_keys().collect::<BTreeSet<_>>(), covered);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_through_every_email() {
    let (world, tenant) = impatient().await;
    the_account_changes(&world, &tenant).await;
    strangers_are_written_to(&world, &tenant).await;
    deliveries_and_jobs_fail(&world, &tenant).await;

    let mails = world.mails().await;
    let mut document = String::new();
    for mail in &mails {
        check(&world, mail);
        let (plain_part, html) = (text(&mail["text"]), text(&mail["html"]));
        let targets: BTreeSet<_> = targets(html).into_iter().map(|link| link.replace("&amp;", "&")).collect();
        assert_eq!(listed(plain_part), targets.iter().map(String::as_str).collect(), "the parts have the same links");
        assert!(html.contains(r#"<meta name="color-scheme" content="light dark">"#), "{html}");
        let shown = plain(&words(html));
        for line in plain_part.lines().filter(|line| !line.starts_with("http")) {
            let line = plain(line.trim_start_matches("> ").trim_end_matches(':'));
            assert!(shown.contains(&line), "{line} is missing from {shown}");
        }
        let ids = plain_part.lines().filter_map(|line| line.strip_prefix("Last failed delivery: "));
        assert!(ids.into_iter().all(|id| !id.contains(' ')), "an id can be copied: {plain_part}");
        let known = |(_, _, sentences): &&(&str, &str, &[&str])| sentences.iter().any(|says| plain_part.contains(says));
        assert!(EMAILS.iter().any(|email| known(&email)), "add the email to EMAILS: {mail:#}");
        let to = &mail["to"][0];
        write!(document, "To: {to}\nSubject: {}\n\n{plain_part}\n=====\n\n", text(&mail["subject"])).expect("text");
    }
    if let Some(file) = std::env::var_os("MAIL_WALK").map(PathBuf::from) {
        fs::write(file, &document).expect("it is written");
    }
    for (_, _, sentences) in EMAILS {
        for says in sentences {
            assert!(document.contains(says), "no email says: {says}");
        }
    }
    // The branches of the functions, too.
    let document = plain(&document);
    for ((file, name), sentences) in builders() {
        for says in sentences {
            assert!(document.contains(&plain(&says)), "no email of {name} in {file} says: {says}");
        }
    }
}

async fn the_account_changes(world: &World, tenant: &Tenant) {
    world.key(&tenant.cookie, json!({})).await;
    world.key(&tenant.cookie, json!({"kind": "organization", "scopes": ["deliveries:read"]})).await;
    let login = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    world.rpc_by_session(&tenant.cookie, "auth/cliLoginApprove", login.clone()).await.ok();
    world.rpc("", "auth/cliLoginPoll", login).await.ok();

    let guarded = world.tenant("guarded").await;
    let protected = world.protect(&guarded).await;
    let password = json!({"password": PASSWORD});
    let shown = world.cli(&protected.cookie, "two-factor/get-totp-uri", password.clone()).await;
    assert_eq!(shown.status, 200, "{shown:?}");
    assert_eq!(world.enter_backup_code(&protected.cookie, &protected.backup_codes[0]).await.status, 200);
    let pending = world.begin_sign_in(&guarded.email, PASSWORD).await;
    let signed_in = world.enter_backup_code(&pending, &protected.backup_codes[1]).await;
    let session = set_cookie(&signed_in, "session_token");
    for route in ["two-factor/generate-backup-codes", "two-factor/disable"] {
        let changed = world.cli(&session, route, password.clone()).await;
        assert_eq!(changed.status, 200, "{route}: {changed:?}");
    }

    let moving = world.tenant("moving").await;
    let change = json!({"newEmail": "moved@example.com"});
    assert_eq!(world.cli(&moving.cookie, "change-email", change).await.status, 200);
    assert_eq!(world.confirm(&link(&world.mail_to("moved@example.com").await)).await.status, 200);

    let change = json!({"currentPassword": PASSWORD, "newPassword": "another long password"});
    assert_eq!(world.cli(&tenant.cookie, "change-password", change).await.status, 200);
    reset(world, &tenant.email).await;
}

async fn reset(world: &World, email: &str) {
    world.rpc("", "auth/requestPasswordReset", json!({"email": email})).await.ok();
    let token = link(&world.mail_to(email).await).split_once("?token=").expect("a token").1.to_owned();
    let choose = json!({"token": token, "newPassword": PASSWORD});
    assert_eq!(world.cli("", "reset-password", choose).await.status, 200);
}

async fn strangers_are_written_to(world: &World, tenant: &Tenant) {
    // A stranger signed up with the address.
    world.sign_up("stranger").await;
    reset(world, "jo@stranger.example.com").await;
    let second = world.tenant("second").await;
    let taken = world.cli(&second.cookie, "change-email", json!({"newEmail": tenant.email})).await;
    assert_eq!(taken.status, 200, "{taken:?}");

    let owner = Tenant { cookie: world.signed_in(&tenant.email, PASSWORD).await, ..tenant.clone() };
    let member = world.member(&owner, "al@example.com", "member").await;
    // An inviter signed up with the address.
    let invitation = json!({"email": "ed@example.com", "role": "member"});
    let invited = world.cli(&owner.cookie, "organization/invite-member", invitation).await.body;
    let joining = json!({"invitationId": invited["id"], "tenantSlug": owner.slug, "name": "Ed", "password": PASSWORD});
    world.rpc("", "auth/acceptInviteAndSignup", joining).await.ok();
    reset(world, "ed@example.com").await;
    let invitation = json!({"email": "another-owner@example.com", "role": "owner"});
    assert_eq!(world.cli(&owner.cookie, "organization/invite-member", invitation).await.status, 200);
    let removal = json!({"memberIdOrEmail": member.email});
    assert_eq!(world.cli(&owner.cookie, "organization/remove-member", removal).await.status, 200);
    let mover = world.tenant("mover").await;
    let invitation = json!({"email": mover.email, "role": "member"});
    let invited = world.cli(&owner.cookie, "organization/invite-member", invitation).await.body;
    let accepting = json!({"invitationId": invited["id"], "tenantSlug": owner.slug, "deleteOrganization": true});
    world.rpc_by_session(&mover.cookie, "auth/acceptInviteForCurrentUser", accepting).await.ok();
}

async fn deliveries_and_jobs_fail(world: &World, tenant: &Tenant) {
    let cookie = world.signed_in(&tenant.email, PASSWORD).await;
    let key = world.key(&cookie, json!({})).await;
    for agrees in [true, false] {
        if !agrees {
            world.rpc(&key, "tenant/settings", json!({"debug_notification_email": "new@example.net"})).await.ok();
        }
        let minute = |number: i64| later(i64::from(!agrees) * 2 * 60 * 60 * 1000 + number * 60_000);
        let gone = Receiver::scripted(&[(410, &[])]).await;
        let answers: [(u16, &[(&str, &str)]); 4] = [(500, &[]), (500, &[]), (200, &[]), (200, &[])];
        let failing = Receiver::scripted(&answers).await;
        for (receiver, workflow) in [(&failing, "good"), (&gone, "bad")] {
            let fields = json!({"url": receiver.url("/orders"), "signing_secret": "hidden-horse-battery", "description": "Orders", "workflows": [workflow]});
            world.rpc(&key, "webhooks/create", fields).await.ok();
        }
        let deliver = async |workflow: &str, job: &str| {
            let mut finished = event(&tenant.id, format!("{job} {agrees}"));
            finished["workflow"] = json!(workflow);
            world.deliver(finished).await;
        };
        deliver("bad", "0").await;
        for job in ["1", "2"] {
            deliver("good", job).await;
        }
        for (workflow, jobs) in [("import", &["7"] as &[_]), ("export", &["8", "9"])] {
            for job in jobs {
                let mut job = failed(&tenant.id, workflow, format!("job-{job} {agrees}"));
                job["error"] = json!({"message": "The file is empty"});
                world.deliver(job).await;
            }
        }
        sweep(world, minute(0)).await;
        for workflow in ["a", "b", "c", "d", "e", "f"] {
            world.deliver(failed(&tenant.id, workflow, format!("job-{workflow} {agrees}"))).await;
        }
        for job in ["3", "4"] {
            deliver("good", job).await;
        }
        sweep(world, minute(1)).await;
    }
}
