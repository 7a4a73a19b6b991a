//! Commands that a person approves in the browser, and the audit log.

use std::process::Stdio;

use serde_json::{Value, json};
use tests::{World, event, sample_event, text};

use super::{Machine, Output};

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&output.out).unwrap_or_else(|error| unreachable!("{error}: {output:?}"))
}

/// Runs a command without a browser, and approves it with the session in `cookie`.
async fn approved(world: &World, machine: &Machine, cookie: &str, arguments: &[&str]) -> Output {
    let mut command = machine.command(&[arguments, &["--no-browser"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut notes = std::io::BufReader::new(child.stderr.take().expect("a pipe"));
    let page = tokio::task::spawn_blocking(move || {
        let mut told = String::new();
        while !told.contains("mode=login") {
            let count = std::io::BufRead::read_line(&mut notes, &mut told).expect("a line");
            assert_ne!(count, 0, "{told}");
        }
        (told, notes)
    });
    let (told, mut notes) = page.await.expect("a page");
    let address = told.split([' ', '\n', '"']).find(|word| word.contains("/signin?")).expect("an address");
    let page: reqwest::Url = address.parse().expect("a URL");
    let of = |name: &str| page.query_pairs().find(|(key, _)| key == name).expect("a value").1.into_owned();
    let request = json!({"requestId": of("cliLoginId"), "secret": of("cliLoginSecret")});
    world.rpc_by_session(cookie, "auth/cliLoginApprove", request).await.ok();
    let run = tokio::task::spawn_blocking(move || {
        let mut err = String::new();
        std::io::Read::read_to_string(&mut notes, &mut err).expect("text");
        let output = child.wait_with_output().expect("it ends");
        let out = String::from_utf8(output.stdout).expect("text");
        Output { code: output.status.code().unwrap_or(-1), out, err }
    });
    run.await.expect("it ends")
}

async fn sessions(world: &World, cookie: &str) -> usize {
    world.cli_get(cookie, "list-sessions").await.body.as_array().expect("a list").len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_key_has_its_kind_scopes_and_expiry() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let before = sessions(&world, &tenant.cookie).await;
    let create = ["--json", "keys", "create", "ci", "--organization", "--scope", "webhooks:read,audit:read"];
    let created = approved(&world, &machine, &tenant.cookie, &create).await;
    let key = json_of(&created);
    assert_eq!(
        (&key["kind"], &key["scopes"], &key["expiresAt"]),
        (&json!("organization"), &json!(["webhooks:read", "audit:read"]), &Value::Null),
        "{created:?}"
    );
    let secret = text(&key["key"]);
    assert_eq!(world.rpc(secret, "webhooks/list", json!({})).await.status, 200);
    assert_eq!(world.rpc(secret, "tenant/settings", json!({})).await.error(), (403, "FORBIDDEN", "scope_missing"));
    let personal = approved(&world, &machine, &tenant.cookie, &["keys", "create", "mine", "--expires", "90d"]).await;
    assert!(personal.out.starts_with("Created the personal key mine. It expires at "), "{personal:?}");
    assert!(personal.out.lines().nth(1).is_some_and(|line| line.starts_with("Key, shown once: ak_")), "{personal:?}");
    assert_eq!(sessions(&world, &tenant.cookie).await, before, "the sessions of the approvals have ended");
    let listed = machine.run(&["keys", "list"]).await;
    assert!(listed.out.lines().any(|line| line.starts_with("ci ") && line.contains("audit:read")), "{listed:?}");

    for (arguments, code, says) in [
        (&["keys", "create", "ci"][..], 2, "Add --no-browser"),
        (&["keys", "create", "ci", "--scope", "webhooks"], 2, "webhooks:read"),
        (&["keys", "create", "ci", "--expires", "soon"], 2, "90d"),
    ] {
        let refused = machine.run(arguments).await;
        assert!(refused.code == code && refused.err.contains(says), "{arguments:?}: {refused:?}");
    }
    let create = ["keys", "create", "ci", "--organization", "--scope", "members:write"];
    let refused = approved(&world, &machine, &tenant.cookie, &create).await;
    assert!(refused.code == 1 && refused.err.contains("error: scopes"), "{refused:?}");
    assert_eq!(sessions(&world, &tenant.cookie).await, before, "a rejected call does not leave a session, either");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_prints_only_its_result_as_json() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let login = approved(&world, &machine, &tenant.cookie, &["--json", "login"]).await;
    assert_eq!((login.code, &json_of(&login)["user"]["email"]), (0, &json!(tenant.email)), "{login:?}");
    assert_eq!(machine.run(&["whoami"]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_by_another_user_has_no_effect() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let member = world.member(&tenant, "bo@example.com", "owner").await;
    let count = async || world.cli_get(&tenant.cookie, "api-key/list").await.body.as_array().map(Vec::len);
    let before = count().await;
    let refused = approved(&world, &machine, &member.cookie, &["keys", "create", "ci", "--organization"]).await;
    assert!(refused.code == 1 && refused.err.contains("bo@example.com, owner of"), "{refused:?}");
    assert_eq!(count().await, before);
    assert_eq!(sessions(&world, &member.cookie).await, 1);
    // An organization key does not identify a user.
    let ours = world.key(&tenant.cookie, json!({"kind": "organization", "scopes": ["webhooks:read"]})).await;
    machine.run_with(&["login", "--key"], &ours).await;
    let created = approved(&world, &machine, &member.cookie, &["keys", "create", "ci", "--organization"]).await;
    assert_eq!(created.code, 0, "{created:?}");
    let stranger = world.tenant("other").await;
    let refused = approved(&world, &machine, &stranger.cookie, &["keys", "create", "ci"]).await;
    assert!(refused.code == 1 && refused.err.contains("approved the login"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invited_user_moves_with_a_new_key() {
    let world = World::start().await;
    let (acme, other, machine) = (world.tenant("acme").await, world.tenant("other").await, Machine::new(&world));
    machine.signs_in(&other).await;
    let invite = json!({"email": other.email, "role": "member"});
    world.cli(&acme.cookie, "organization/invite-member", invite).await;
    let cookie = &other.cookie;
    let listed = approved(&world, &machine, cookie, &["team", "invitations"]).await;
    assert!(
        listed.out.lines().nth(1).is_some_and(|line| line.starts_with("Doe & Co      acme  member  in ")),
        "{listed:?}"
    );
    let unconfirmed = machine.run(&["team", "accept", "--no-browser"]).await;
    assert!(unconfirmed.code == 2 && unconfirmed.err.contains("hint: Add --yes."), "{unconfirmed:?}");
    let unknown = approved(&world, &machine, cookie, &["team", "accept", "third", "--yes"]).await;
    assert_eq!(unknown.code, 4, "{unknown:?}");
    let last = approved(&world, &machine, cookie, &["team", "accept", "acme", "--yes"]).await;
    assert!(last.code == 1 && last.err.contains("hint: Add --delete-organization to delete Doe & Co"), "{last:?}");
    assert!(world.key_works(&other.key).await, "nothing has changed");
    let accept = ["team", "accept", "--delete-organization", "--yes"];
    let moved = approved(&world, &machine, cookie, &accept).await;
    assert_eq!((moved.code, moved.out.as_str()), (0, "jo@other.example.com is now member of Doe & Co.\n"), "{moved:?}");
    assert!(!world.key_works(&other.key).await);
    let who = machine.run(&["--json", "whoami"]).await;
    assert_eq!(json_of(&who)["organization"]["id"], json!(acme.id), "{who:?}");
    assert_eq!(sessions(&world, cookie).await, 1);
}

/// A key of an organization, or of another user, does not end when the account moves.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_keeps_a_key_that_still_works() {
    let world = World::start().await;
    let (acme, other, machine) = (world.tenant("acme").await, world.tenant("other").await, Machine::new(&world));
    let member = world.member(&other, "bo@example.com", "member").await;
    let ours = world.key(&other.cookie, json!({"kind": "organization", "scopes": ["webhooks:read"]})).await;
    machine.run_with(&["login", "--key"], &ours).await;
    world.cli(&acme.cookie, "organization/invite-member", json!({"email": member.email, "role": "member"})).await;
    let moved = approved(&world, &machine, &member.cookie, &["team", "accept", "acme", "--yes"]).await;
    assert_eq!(moved.code, 0, "{moved:?}");
    assert!(moved.err.contains("API key still works and was kept: organization key of "), "{moved:?}");
    let who = machine.run(&["--json", "whoami"]).await;
    assert_eq!(json_of(&who)["organization"]["id"], json!(other.id), "{who:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_whose_key_cannot_be_stored_is_reported() {
    let world = World::start().await;
    let (acme, other, machine) = (world.tenant("acme").await, world.tenant("other").await, Machine::new(&world));
    machine.signs_in(&other).await;
    let invite = json!({"email": other.email, "role": "member"});
    world.cli(&acme.cookie, "organization/invite-member", invite).await;
    // Even root cannot replace a folder with the file.
    std::fs::create_dir_all(machine.home.join("fanfare/credentials.new")).expect("a folder");
    let accept = ["team", "accept", "--delete-organization", "--yes"];
    let moved = approved(&world, &machine, &other.cookie, &accept).await;
    assert_eq!((moved.code, moved.out.as_str()), (0, "jo@other.example.com is now member of Doe & Co.\n"), "{moved:?}");
    assert!(moved.err.contains("This machine's API key may no longer work, and was not replaced: "), "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invitation_is_declined() {
    let world = World::start().await;
    let (acme, other, machine) = (world.tenant("acme").await, world.tenant("other").await, Machine::new(&world));
    machine.signs_in(&other).await;
    world.cli(&acme.cookie, "organization/invite-member", json!({"email": other.email, "role": "member"})).await;
    let declined = approved(&world, &machine, &other.cookie, &["--json", "team", "decline", "acme"]).await;
    assert_eq!(json_of(&declined)["invitation"]["status"], "rejected", "{declined:?}");
    let listed = approved(&world, &machine, &other.cookie, &["team", "invitations"]).await;
    assert_eq!(listed.out, "No invitations found.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_security_settings_are_changed_and_shown() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let renamed = machine.run(&["settings", "--name", "Engines"]).await;
    assert!(
        renamed.out.starts_with("Name: Engines\nEmails about endpoints and jobs: ops@example.com\n"),
        "{renamed:?}"
    );
    assert!(machine.run(&["whoami"]).await.out.contains("Engines ("));
    let renamed = json_of(&machine.run(&["--json", "settings", "--name", "Acme"]).await);
    assert_eq!((&renamed["name"], &renamed["require_two_factor"]), (&json!("Acme"), &json!(false)), "{renamed}");
    let require = ["settings", "--require-two-factor", "true"];
    let unprotected = approved(&world, &machine, &tenant.cookie, &require).await;
    assert_eq!(unprotected.code, 1, "{unprotected:?}");
    let cookie = world.protect(&tenant).await.cookie;
    let required = approved(&world, &machine, &cookie, &require).await;
    assert!(required.out.ends_with("Second factor: required of all members\n"), "{required:?}");
    let mut bounce = sample_event("accounts-bounces");
    bounce["detail"]["mail"]["destination"] = json!(["ops@example.com"]);
    world.stack.invoke("accounts-bounces", bounce).await.expect("it is stored");
    let shown = machine.run(&["settings"]).await;
    assert!(shown.out.contains("ops@example.com (bounced: choose another address)\n"), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_lists_changes_by_filter_and_page() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let member = world.member(&tenant, "bo@example.com", "member").await;
    world.endpoint(&tenant, "https://example.com/hook", "s").await;
    world.cli(&member.cookie, "update-user", json!({"name": "Ada"})).await;
    world.deliver(event(&tenant.id, "job")).await;
    let all = json_of(&machine.run(&["--json", "audit", "--limit", "1000"]).await);
    let count = all["entries"].as_array().expect("entries").len();
    assert!(count > 6 && all["next_cursor"].is_null(), "{all}");
    let created = machine.run(&["audit", "--action", "webhook.created"]).await;
    assert_eq!(created.out.lines().count(), 2, "{created:?}");
    let row = created.out.lines().nth(1).expect("a row");
    assert!(
        row.contains("webhook.created  key test  https://example.com/hook  ") && row.contains("127.0.0.1"),
        "{row}"
    );
    let by_member = machine.run(&["audit", "--actor", "BO@example.com", "--action", "user.renamed"]).await;
    assert_eq!(by_member.out.lines().count(), 2, "{by_member:?}");
    assert!(by_member.out.contains("name: Al → Ada"), "{by_member:?}");
    let mut cursor: Option<String> = None;
    let mut found = Vec::new();
    loop {
        let mut arguments = vec!["--json", "audit", "--limit", "3"];
        arguments.extend(cursor.iter().flat_map(|cursor| ["--cursor", cursor.as_str()]));
        let page = json_of(&machine.run(&arguments).await);
        found.extend(page["entries"].as_array().expect("entries").clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = Some(next.to_owned());
    }
    assert_eq!(json!(found), all["entries"]);
    let none = machine.run(&["audit", "--until", "1h"]).await;
    assert_eq!((none.code, none.out.as_str()), (0, "No changes found.\n"));
    for (arguments, code, says) in [
        (&["audit", "--actor", "di@example.com"][..], 4, "No member di@example.com found."),
        (&["audit", "--action", "key.made"], 2, "--action"),
        (&["audit", "--since", "soon"], 2, "15m"),
    ] {
        let refused = machine.run(arguments).await;
        assert!(refused.code == code && refused.err.contains(says), "{arguments:?}: {refused:?}");
    }
    machine.run_with(&["login", "--key"], &member.key).await;
    let refused = machine.run(&["audit"]).await;
    assert!(refused.code == 1 && refused.err.contains("owner"), "{refused:?}");
}
