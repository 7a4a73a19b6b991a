//! Logins, profiles, keys, members and settings.

use std::time::Duration;

use api::{CliLoginId, auth::comparison_code};
use serde_json::{Value, json};
use tests::{Receiver, World, event};
use tokio::time::timeout;

use super::{Machine, Output};

fn json_of(output: &Output) -> Value {
    serde_json::from_str(output.out.lines().next().unwrap_or_default())
        .unwrap_or_else(|error| unreachable!("{error}: {output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_in_two_steps_needs_no_person_at_the_machine() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let begun = machine.run(&["--json", "login", "--no-wait"]).await;
    let (code, shown) = (begun.code, json_of(&begun));
    let page: reqwest::Url = shown["url"].as_str().expect("a URL").parse().expect("a URL");
    let of = |name: &str| page.query_pairs().find(|(key, _)| key == name).expect("a value").1.into_owned();
    let id = of("cliLoginId");
    assert_eq!((code, &shown["code"]), (0, &json!(comparison_code(&CliLoginId::from(id.as_str())))));
    let request = world.http.get(page.clone()).header("cookie", &tenant.cookie).header("accept", "text/html");
    let approval = world.send(request).await;
    let page = approval.page();
    assert!(page.contains(shown["code"].as_str().expect("a code")), "{page}");
    let agent = format!("fanfare/{} ({} {})", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
    assert!(page.contains(&agent), "{page}");
    let request = json!({"requestId": id, "secret": of("cliLoginSecret")});
    world.rpc_by_session(&tenant.cookie, "auth/cliLoginApprove", request).await.ok();
    let completed = machine.run(&["--json", "login", "--complete"]).await;
    assert_eq!((completed.code, &json_of(&completed)["user"]["email"]), (0, &json!(tenant.email)));
    assert_eq!(machine.run(&["whoami"]).await.code, 0);
    let again = machine.run(&["login", "--complete"]).await;
    assert!(again.code == 1 && again.err.contains("hint: Run `fanfare login --no-wait`."), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_without_a_terminal_does_not_wait() {
    let world = World::start().await;
    let machine = Machine::new(&world);
    let login = timeout(Duration::from_secs(20), machine.run(&["login"])).await.expect("the command does not wait");
    assert!(login.code == 2 && login.err.contains("fanfare login --no-wait"), "{login:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_whose_key_cannot_be_stored_does_not_begin() {
    let world = World::start().await;
    let machine = Machine::new(&world);
    // Even root cannot replace a folder with the file.
    std::fs::create_dir_all(machine.home.join("fanfare/credentials.new")).expect("a folder");
    let login = machine.run(&["login", "--no-wait"]).await;
    assert!(login.code == 1 && login.err.contains("Could not use "), "{login:?}");
    assert_eq!(login.out, "", "there is nothing to approve");
}

#[tokio::test(flavor = "multi_thread")]
async fn logout_names_the_keys_that_it_deleted() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let nothing = machine.run(&["logout"]).await;
    assert_eq!((nothing.code, nothing.out), (0, format!("Not signed in to {}.\n", machine.api)));
    machine.signs_in(&tenant).await;
    let given = machine.run(&["logout"]).await;
    assert!(given.out.contains("The API key was deleted on this machine. It stays valid until"), "{given:?}");
    assert!(world.key_works(&tenant.key).await);
    let key = world.cli(&tenant.cookie, "api-key/create", json!({"name": "x"})).await.body;
    let stored = json!({"services": {&machine.api: {"key": key["key"], "key_id": key["id"]}}});
    std::fs::write(machine.home.join("fanfare/credentials.json"), stored.to_string()).expect("a file");
    let issued = machine.run(&["--json", "logout"]).await;
    assert_eq!(json_of(&issued)["deleted_at_service"], true);
    assert!(!world.key_works(key["key"].as_str().expect("a key")).await);
}

/// The new credentials may belong to another organization, or lack the scope for deleting keys.
#[tokio::test(flavor = "multi_thread")]
async fn another_login_deletes_the_key_of_the_previous_one() {
    let world = World::start().await;
    let (tenant, other, machine) = (world.tenant("acme").await, world.tenant("other").await, Machine::new(&world));
    let limited = world.key(&tenant.cookie, json!({"kind": "organization", "scopes": ["webhooks:read"]})).await;
    machine.signs_in(&tenant).await;
    for next in [&limited, &other.key] {
        let issued = world.cli(&tenant.cookie, "api-key/create", json!({"name": "laptop"})).await.body;
        let previous = issued["key"].as_str().expect("a key");
        let stored = json!({"services": {&machine.api: {"key": previous, "key_id": issued["id"]}}});
        // The key of the previous login is also accepted as a new one, and then stays valid.
        for (key, is_kept) in [(previous, true), (next, false)] {
            std::fs::write(machine.home.join("fanfare/credentials.json"), stored.to_string()).expect("a file");
            let login = machine.run_with(&["login", "--key"], key).await;
            assert_eq!((login.code, world.key_works(previous).await), (0, is_kept), "{login:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_keep_logins_apart() {
    let world = World::start().await;
    let (acme, other, machine) = (world.tenant("acme").await, world.tenant("other").await, Machine::new(&world));
    let missing = machine.run(&["--profile", "acme", "whoami"]).await;
    assert!(missing.code == 1 && missing.err.contains("The profile acme does not exist"), "{missing:?}");
    for (profile, tenant) in [("acme", &acme), ("other", &other)] {
        let login = machine.run_with(&["--profile", profile, "login", "--key"], &tenant.key).await;
        assert_eq!(login.code, 0, "{login:?}");
    }
    for (profile, tenant) in [("acme", &acme), ("other", &other)] {
        let mut command = machine.command(&["--json", "whoami"]);
        command.env_remove("FANFARE_API").env("FANFARE_PROFILE", profile);
        let who = super::ended(command, "").await;
        assert_eq!(json_of(&who)["organization"]["id"], json!(tenant.id));
    }
    assert_eq!(machine.run(&["whoami"]).await.code, 3, "neither a profile nor a login");
    let elsewhere = machine.run(&["--profile", "acme", "--api", "127.0.0.1:1", "whoami"]).await;
    assert_eq!(elsewhere.code, 3, "a profile's key is only for its own service: {elsewhere:?}");
    let listed = machine.run(&["profiles"]).await;
    assert!(listed.out.contains(&format!("acme     {}  signed in", machine.api)), "{listed:?}");
    machine.run(&["--profile", "acme", "logout"]).await;
    let profiles = json_of(&machine.run(&["--json", "profiles"]).await);
    assert_eq!(
        (&profiles["profiles"][0]["signed_in"], &profiles["profiles"][1]["signed_in"]),
        (&json!(false), &json!(true))
    );
    #[cfg(unix)]
    {
        let file = std::fs::metadata(machine.home.join("fanfare/credentials.json")).expect("a file");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&file) & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_headers_are_set_per_endpoint_and_hidden() {
    let world = World::live(&[]).await;
    let (tenant, machine, receiver) = (world.tenant("acme").await, Machine::new(&world), Receiver::start().await);
    machine.signs_in(&tenant).await;
    let (secret, other) = ("a secret of some length", "another secret of length");
    let url = receiver.url("/hook");
    let create = ["endpoints", "create", &url, "--secret", "--header", "authorization: Bearer hidden words"];
    let created = machine.run_with(&create, &format!("{secret}\n")).await;
    assert!(created.code == 0 && !created.out.contains("Signing secret"), "{created:?}");
    world.enqueue("job-events", event(&tenant.id, "one")).await;
    let first = receiver.wait_for(1).await.remove(0);
    first.verify(secret);
    assert_eq!(first.header("authorization"), "Bearer hidden words");
    let endpoint = world.only_endpoint(&tenant).await["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    let got = machine.run(&["endpoints", "get", &endpoint[..13]]).await;
    assert!(got.out.contains("Headers: authorization\n") && !got.out.contains("hidden"), "{got:?}");
    let moved = machine.run(&["endpoints", "update", &endpoint, "--url", &receiver.url("/new")]).await;
    assert!(moved.code == 1 && moved.err.contains("hint: Add --header for each header, or --no-headers."), "{moved:?}");
    let moved = machine.run(&["endpoints", "update", &endpoint, "--url", &receiver.url("/new"), "--no-headers"]).await;
    assert_eq!(moved.code, 0, "{moved:?}");
    let rotated =
        machine.run_in(&[("FANFARE_SIGNING_SECRET", other)], &["endpoints", "rotate", &endpoint, "--secret"]).await;
    assert!(rotated.code == 0 && !rotated.out.contains(other), "{rotated:?}");
    world.enqueue("job-events", event(&tenant.id, "two")).await;
    let second = receiver.wait_for(2).await.remove(1);
    second.verify(other);
    assert_eq!((second.path.as_str(), second.header("authorization")), ("/new", ""));
    let missing = machine.run(&["endpoints", "create", &url, "--secret"]).await;
    assert!(missing.code == 1 && missing.err.contains("The signing secret is missing."), "{missing:?}");
    for weak in ["fifteen-letters", "whsec_123456789012345", " correct-horse-battery"] {
        let refused =
            machine.run_in(&[("FANFARE_SIGNING_SECRET", weak)], &["endpoints", "create", &url, "--secret"]).await;
        assert!(refused.code == 1 && refused.err.contains("needs 16 visible characters"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoints_options_are_set_shown_and_removed() {
    let world = World::live(&[]).await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let create = ["endpoints", "create", "http://127.0.0.1:9/", "--payload", "thin", "--keep-payload", "false"];
    let created = machine.run(&[&create[..], &["--max-concurrent", "3"]].concat()).await;
    assert_eq!(created.code, 0, "{created:?}");
    let id = world.only_endpoint(&tenant).await["webhook_endpoint_id"].as_str().expect("an id").to_owned();
    let shown = machine.run(&["endpoints", "get", &id]).await.out;
    for line in ["Payload: thin\n", "Payloads kept: no\n", "Requests at a time: 3\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    let update =
        ["endpoints", "update", &id, "--payload", "full", "--max-concurrent", "none", "--workflow", "nightly-*"];
    assert_eq!(machine.run(&update).await.code, 0);
    let endpoint = world.only_endpoint(&tenant).await;
    assert_eq!((&endpoint["payload"], endpoint.get("max_concurrent")), (&json!("full"), None));
    assert_eq!(endpoint["workflows"], json!(["nightly-*"]));
    for (overlap, rotates) in [("week", true), ("now", false)] {
        let rotated = machine.run(&["endpoints", "rotate", &id, "--overlap", overlap]).await;
        assert_eq!(rotated.code, 0, "{rotated:?}");
        let endpoint = world.only_endpoint(&tenant).await;
        assert_eq!(endpoint.get("previous_secret_expires_at").is_some(), rotates, "{overlap}");
    }
    for (option, value) in [("--payload", "small"), ("--max-concurrent", "many"), ("--keep-payload", "maybe")] {
        assert_eq!(machine.run(&["endpoints", "update", &id, option, value]).await.code, 2, "{option}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ended_deliveries_of_a_period_are_erased() {
    let world = World::start().await;
    let (tenant, machine, receiver) = (world.tenant("acme").await, Machine::new(&world), Receiver::start().await);
    machine.signs_in(&tenant).await;
    let id = world.endpoint(&tenant, &receiver.url("/"), "s").await;
    for job in ["one", "two"] {
        world.deliver(event(&tenant.id, job)).await;
    }
    let nothing = machine.run(&["deliveries", "erase", "--until", "1d", "--endpoint", &id, "--yes"]).await;
    assert_eq!((nothing.code, nothing.out.as_str()), (0, "Erased: 0\n"));
    let erased = machine.run(&["deliveries", "erase", "--since", "1h", "--endpoint", &id[..13], "--yes"]).await;
    assert_eq!((erased.code, erased.out.as_str()), (0, "Erased: 2\n"), "{erased:?}");
    for wrong in [&["deliveries", "erase", "--yes"][..], &["deliveries", "erase", "x", "--since", "1h", "--yes"]] {
        assert_eq!(machine.run(wrong).await.code, 2, "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn destructive_commands_need_confirmation() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let endpoint = world.endpoint(&tenant, "https://example.com/hook", "s").await;
    let member = world.member(&tenant, "bo@example.com", "member").await;
    let keys = world.cli_get(&tenant.cookie, "api-key/list").await.body;
    let key = keys
        .as_array()
        .expect("a list")
        .iter()
        .find(|key| tenant.key.starts_with(key["start"].as_str().expect("text")));
    let key = key.expect("a key")["id"].as_str().expect("an id").to_owned();
    let unchanged = machine.run(&["endpoints", "update", &endpoint]).await;
    assert!(unchanged.code == 2 && unchanged.err.contains("--description"), "{unchanged:?}");
    for arguments in [["endpoints", "delete", &endpoint], ["team", "remove", &member.email], ["keys", "delete", &key]] {
        let refused = machine.run(&arguments).await;
        assert!(refused.code == 2 && refused.err.contains("hint: Add --yes."), "{refused:?}");
    }
    assert_eq!(world.endpoints(&tenant).await.len(), 1);
    for arguments in [["endpoints", "delete", &endpoint], ["team", "remove", &member.email], ["keys", "delete", &key]] {
        let done = machine.run(&[&arguments[..], &["--yes"]].concat()).await;
        assert_eq!(done.code, 0, "{done:?}");
    }
    assert_eq!(machine.run(&["whoami"]).await.code, 3, "the key is deleted");
}

/// A response contains a hundred members or invitations.
#[tokio::test(flavor = "multi_thread")]
async fn all_members_and_invitations_of_a_large_team_are_found() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    world.crowd(&tenant).await;
    world.many_invitations(&tenant.id, "cy@example.com").await;
    let listed = json_of(&machine.run(&["--json", "team", "list"]).await);
    let number = |list: &str| listed[list].as_array().map(Vec::len);
    assert_eq!((number("members"), &listed["total"], number("invitations")), (Some(101), &json!(101), Some(1)));
    for arguments in [
        &["team", "role", "m99@example.com", "member"][..],
        &["audit", "--actor", "m99@example.com"],
        &["team", "cancel", "cy@example.com"],
        &["team", "remove", "m99@example.com", "--yes"],
    ] {
        let done = machine.run(arguments).await;
        assert_eq!(done.code, 0, "{done:?}");
    }
}

/// Scripts pass the value of a variable that may not be set.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_id_does_not_select_the_only_object() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    for arguments in [
        &["keys", "delete", "", "--yes"][..],
        &["team", "accept", "", "--yes", "--no-browser"],
        &["team", "decline", "", "--no-browser"],
    ] {
        let refused = timeout(Duration::from_secs(20), machine.run(arguments)).await.expect("nothing to approve");
        assert!(refused.code == 2 && refused.err.contains("a value is required for"), "{refused:?}");
    }
    assert!(world.key_works(&tenant.key).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_valid_cannot_remove_its_own_user() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let refused = machine.run(&["team", "remove", &tenant.email, "--yes"]).await;
    assert!(refused.code == 1 && refused.err.contains("hint: Delete your account on the page"), "{refused:?}");
    assert_eq!(machine.run(&["whoami"]).await.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_and_its_settings_are_managed() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    world.member(&tenant, "bo@example.com", "member").await;
    assert!(
        machine.run(&["team", "invite", "cy@example.com"]).await.out.starts_with("Invited cy@example.com as member.")
    );
    let listed = machine.run(&["team", "list"]).await;
    for line in [&format!("{}  ", tenant.email), "bo@example.com  ", "cy@example.com  "] {
        assert!(listed.out.lines().any(|shown| shown.starts_with(line)), "{listed:?}");
    }
    assert!(listed.out.contains("invited, expires in"), "{listed:?}");
    assert_eq!(machine.run(&["team", "cancel", "cy@example.com"]).await.code, 0);
    assert!(!machine.run(&["team", "list"]).await.out.contains("cy@example.com"));
    assert_eq!(machine.run(&["team", "cancel", "cy@example.com"]).await.code, 4);
    let role = machine.run(&["team", "role", "bo@example.com", "member"]).await;
    assert_eq!((role.code, role.out.as_str()), (0, "bo@example.com is now member.\n"));
    assert_eq!(machine.run(&["team", "remove", "di@example.com", "--yes"]).await.code, 4);
    let settings = machine.run(&["settings", "--email", "ops@example.com", "--job-failures", "false"]).await;
    assert_eq!(
        settings.out,
        "Emails about endpoints and jobs: ops@example.com\nEmails about failed jobs: off\nSecond factor: optional\n"
    );
    assert_eq!(json_of(&machine.run(&["--json", "settings"]).await)["debug_notification_email"], "ops@example.com");
    world.key(&tenant.cookie, json!({"kind": "organization", "scopes": ["webhooks:read"]})).await;
    let keys = machine.run(&["keys", "list"]).await;
    assert!(keys.out.contains("organization") && keys.out.contains("webhooks:read"), "{keys:?}");
    assert!(keys.out.lines().count() >= 2 && keys.out.contains("ak_"), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn short_ids_name_one_object_or_list_the_candidates() {
    let world = World::start().await;
    let (tenant, machine, receiver) = (world.tenant("acme").await, Machine::new(&world), Receiver::start().await);
    machine.signs_in(&tenant).await;
    let endpoint = world.endpoint(&tenant, &receiver.url("/one"), "s").await;
    world.endpoint(&tenant, &receiver.url("/two"), "s").await;
    let ambiguous = machine.run(&["endpoints", "get", "0"]).await;
    assert_eq!(ambiguous.code, 1, "{ambiguous:?}");
    for path in ["/one", "/two"] {
        assert!(ambiguous.err.contains(&receiver.url(path)), "{ambiguous:?}");
    }
    assert_eq!(machine.run(&["endpoints", "get", &endpoint.to_uppercase()]).await.code, 0);
    world.deliver(event(&tenant.id, "job")).await;
    let deliveries = world.log(&tenant.id).await;
    let hash = |number: usize| deliveries[number].id.to_string().rsplit('.').next().expect("a part").to_owned();
    let shared = hash(0).chars().zip(hash(1).chars()).take_while(|(one, other)| one == other).count();
    let short = &hash(0)[..=shared];
    for id in [short.to_owned(), format!("msg_{}", hash(0)), short.to_uppercase()] {
        let got = machine.run(&["deliveries", "get", &id]).await;
        assert!(got.code == 0 && got.out.contains(&deliveries[0].id.to_string()), "{got:?}");
    }
    for arguments in [
        ["deliveries", "get", "nope"],
        ["deliveries", "get", "0123456789ab"],
        ["endpoints", "get", "nope"],
        ["open", "nope", "--no-browser"],
    ] {
        let unknown = machine.run(&arguments).await;
        assert_eq!(unknown.code, 4, "{arguments:?}: {unknown:?}");
    }
    let opened = machine.run(&["open", &endpoint, "--no-browser"]).await;
    assert_eq!(opened.out, format!("{}/console/endpoints/{endpoint}\n", machine.api));
    assert_eq!(
        json_of(&machine.run(&["--json", "open", "keys"]).await)["url"],
        format!("{}/console/keys", machine.api)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_names_the_first_fault() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    let signed_out = machine.run(&["doctor"]).await;
    assert!(signed_out.code == 3 && signed_out.out.contains("failed   API key: Not signed in"), "{signed_out:?}");
    machine.signs_in(&tenant).await;
    let well = machine.run(&["doctor"]).await;
    assert!(well.code == 0 && well.out.contains("ok       clock: agrees with the service"), "{well:?}");
    assert!(well.out.contains("owner of") && well.err.is_empty(), "{well:?}");
    let checks = json_of(&machine.run(&["--json", "doctor"]).await);
    assert_eq!(checks["checks"].as_array().map(Vec::len), Some(7));
    let (closed, proxy) =
        ([("FANFARE_API", "127.0.0.1:1")], [("FANFARE_API", "http://x.invalid"), ("ALL_PROXY", "http://127.0.0.1:1")]);
    let unreachable = machine.run_in(&closed, &["doctor"]).await;
    assert!(unreachable.code == 5 && unreachable.out.contains("connection refused"), "{unreachable:?}");
    let proxied = machine.run_in(&proxy, &["doctor"]).await;
    assert!(proxied.code == 5 && proxied.out.contains("ok       proxy: http://127.0.0.1:1"), "{proxied:?}");
    let broken = machine.run_in(&[("SSL_CERT_FILE", "/nowhere.pem")], &["doctor"]).await;
    assert!(
        broken.code == 0 && broken.out.contains("warning  certificates: SSL_CERT_FILE is /nowhere.pem"),
        "{broken:?}"
    );
    #[cfg(target_os = "linux")]
    {
        let empty = machine.run_in(&[("SSL_CERT_FILE", "")], &["doctor"]).await;
        assert!(empty.out.contains("warning  certificates: SSL_CERT_FILE is empty, which cannot be read"), "{empty:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_variable_counts_as_unset() {
    let world = World::start().await;
    let (tenant, machine) = (world.tenant("acme").await, Machine::new(&world));
    machine.signs_in(&tenant).await;
    let unset = [("FANFARE_API", ""), ("FANFARE_PROFILE", ""), ("FANFARE_API_KEY", "")];
    let who = machine.run_in(&unset, &["whoami"]).await;
    assert!(who.code == 0 && who.out.contains(&tenant.id), "{who:?}");
    let send = ["--api", "https://example.com", "send", "--tenant", "t", "--job", "j"];
    let sent = machine.run_in(&[("FANFARE_QUEUE_URL", "")], &send).await;
    assert!(sent.code == 1 && sent.err.contains("hint: Add --queue-url"), "{sent:?}");
    let wrong = machine.run_in(&[("FANFARE_API", "http://3000")], &["whoami"]).await;
    assert!(wrong.code == 2 && wrong.err.contains("0.0.11.184") && wrong.err.contains("--api"), "{wrong:?}");
}
