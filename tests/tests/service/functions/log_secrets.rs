//! Secrets are never logged. The test sends every kind of secret through every interface.

use serde_json::json;
use tests::{Receiver, World, event, world::link};

#[tokio::test(flavor = "multi_thread")]
async fn no_canary_reaches_the_log() {
    let world = World::with(&[("RETRY_SCHEDULE", "0")]).await;
    let password = "canary-password-5d1f";
    let mut fields = World::sign_up_fields("canary");
    fields["password"] = json!(password);
    let account = world.rpc("", "auth/signupAndCreateOrg", fields.clone()).await.ok().clone();
    world.rpc("", "auth/signupAndCreateOrg", fields).await;
    let session = account["sessionToken"].as_str().expect("a token").to_owned();
    let link = link(&world.mail_to("jo@canary.example.com").await);
    let verification = link.rsplit('=').next().expect("a token").to_owned();
    world.confirm(&link).await;
    world.confirm(&link).await;
    // An email program has mangled this link, so the token is in the path.
    world.send(world.http.get(link.replace("?token=", "/"))).await;
    world.send(world.http.get(link.replace("/verify-email?", "/%76erify-email;"))).await;
    // A complete reset, and invalid resets of each kind.
    let new_password = "canary-new-password-8a41";
    let email = "jo@canary.example.com";
    world.rpc("", "auth/requestPasswordReset", json!({"email": email})).await.ok();
    let reset_link = tests::world::link(&world.mail_to(email).await);
    let reset = reset_link.rsplit('=').next().expect("a token").to_owned();
    let resetting = json!({"token": reset, "newPassword": new_password});
    for _ in 0..2 {
        world.send(world.http.get(&reset_link)).await;
        world.cli("", "reset-password", resetting.clone()).await;
        world.send(world.http.post(world.url("/reset-password")).form(&resetting)).await;
    }
    world.send(world.http.get(reset_link.replace("?token=", "/"))).await;
    world.send(world.http.get(world.url(&format!("/api/auth/reset-password/{reset}")))).await;
    world.cli("", "reset-password", json!({"token": [reset], "newPassword": {"a": new_password}})).await;
    world.cli("", "request-password-reset", json!({"email": new_password})).await;
    let signed_in = world.cli("", "sign-in/email", json!({"email": email, "password": new_password})).await;
    let session = [session, signed_in.body["token"].as_str().expect("a token").to_owned()];
    let cookie = format!("session_token={}", session[1]);
    // A complete browser login, and invalid logins of each kind.
    let created = world.rpc("", "auth/cliLoginCreate", json!({})).await.ok().clone();
    let login = created["secret"].as_str().expect("a secret").to_owned();
    let naming = json!({"requestId": created["requestId"], "secret": login});
    world.rpc("", "auth/cliLoginPoll", naming.clone()).await.ok();
    world.rpc("", "auth/cliLoginApprove", naming.clone()).await;
    world.rpc_by_session(&cookie, "auth/cliLoginApprove", naming.clone()).await.ok();
    let fetched = world.rpc("", "auth/cliLoginPoll", naming.clone()).await.ok()["cookieHeader"].clone();
    let fetched = fetched.as_str().expect("a cookie").trim_start_matches("session_token=").to_owned();
    for wrong in [naming, json!({"requestId": login, "secret": [login]}), json!({"secret": {"a": login}})] {
        world.rpc("", "auth/cliLoginPoll", wrong.clone()).await;
        world.rpc_by_session(&cookie, "auth/cliLoginApprove", wrong).await;
    }
    world.send(world.http.get(world.url(&format!("/v1/auth/cliLoginPoll/{login}?cliLoginSecret={login}")))).await;
    world.rpc_by_session(&format!("session_token={fetched}"), "auth/status", json!({})).await.ok();
    let issued = world.cli(&cookie, "api-key/create", json!({"name": "test"})).await;
    let key = issued.body["key"].as_str().expect("a key").to_owned();

    let receiver = Receiver::scripted(&[(500, &[] as &[_]); 6]).await;
    let (secret, callback_secret) = ("canary-signing-7e2a", "canary-callback-91c4");
    let (rotated, once) = ("canary-rotated-0c35", "canary-once-a2f8");
    let query = "canary-query-3b8d";
    let fields = json!({"url": receiver.url(&format!("/?token={query}")), "signing_secret": secret});
    let created = world.rpc(&key, "webhooks/create", fields.clone()).await;
    let rotation = json!({"id": created.ok()["webhook_endpoint_id"], "signing_secret": rotated});
    world.rpc(&key, "webhooks/update", rotation).await.ok();
    world.rpc(&key, "webhooks/create", json!({"url": 7, "signing_secret": secret, "active": secret})).await;
    let fields = json!({"url": receiver.url("/")});
    let generated = world.rpc_once(&key, "webhooks/create", once, fields.clone()).await.ok()["signing_secret"].clone();
    let generated = generated.as_str().expect("a secret").trim_start_matches("whsec_");
    assert_eq!(world.rpc_once(&key, "webhooks/create", once, fields).await.status, 200);
    assert_eq!(world.rpc_once(&key, "webhooks/create", once, json!({"url": receiver.url("/2")})).await.status, 409);
    assert_eq!(world.rpc_once(&key, "webhooks/create", &format!("{once} {once}"), json!({})).await.status, 400);
    let tenant = account["organizationId"].as_str().expect("an id");
    let result = "canary-result-66f0";
    let mut event = event(tenant, "j");
    event["result"] = json!(result);
    let mut to_callback = event.clone();
    to_callback["callback_url"] = json!(receiver.url(&format!("/callback?token={query}")));
    to_callback["callback_secret"] = json!(callback_secret);
    let mut malformed = to_callback.clone();
    malformed["callback_url"] = json!(format!("not a url {query}"));
    for message in [event, to_callback, malformed] {
        world.enqueue("job-events", message).await;
    }
    for queue in world.due_queues() {
        world.enqueue(queue, json!({"tenant_id": callback_secret, "callback_secret": callback_secret})).await;
    }
    world.poll("job-events").await;
    world.drain_late().await;
    world.poll_due().await;
    assert_eq!(receiver.wait_for(6).await.len(), 6);

    let log = tests::log::collected();
    assert!(log.contains(tenant), "the log was collected");
    let signing = [secret, rotated, generated, callback_secret];
    let [first, second] = &session;
    let accounts = [password, new_password, first, second, &verification, &reset, &login, &fetched, &key];
    for canary in accounts.into_iter().chain([once, query, result]).chain(signing) {
        let found = log.lines().find(|line| line.contains(canary));
        assert_eq!(found, None, "{canary}");
    }
}
