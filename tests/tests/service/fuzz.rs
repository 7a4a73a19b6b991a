//! Fuzzing: no input causes a panic or a 5xx response, or kills a process.
//!
//! `cargo test` always sends the same few thousand inputs. `FUZZ_CASES=100000` sends 100,000 inputs of each kind, and
//! `FUZZ_SEED=123` starts from a different seed. The seeds of the cases are consecutive, and a failure prints its seed.

mod events;
mod records;
mod requests;

use std::{
    collections::BTreeSet,
    env,
    ops::Range,
    panic,
    sync::{
        LazyLock, Mutex, Once, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use fastrand::Rng;
use serde_json::{Value, json};

const CASES: u64 = 1_000;
const AT_A_TIME: u16 = 1_000;

/// Strings that are known to make parsers fail.
const TEXTS: [&str; 44] = [
    "",
    " ",
    "a b",
    "\"",
    "'",
    "\\",
    "%",
    "%zz",
    "%00",
    "%ff%fe",
    "%2e%2e%2f",
    "\0",
    "\r\n\r\n",
    "a\nb",
    "\t",
    "\u{7f}",
    "\u{85}",
    "\u{ad}",
    "\u{202e}",
    "\u{d7ff}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{1f980}",
    "e\u{301}",
    "[",
    "[::1",
    "]",
    "x:99999",
    "x:",
    ":1",
    "@",
    "a@b@c",
    "http://",
    "//",
    "/../..",
    "?",
    "#",
    "{",
    "null",
    "-1",
    "1e999",
    "18446744073709551616",
    "=",
    ";,&",
];

/// A function, and the method, the path and a valid body of one of its routes. In the body, `someone` is replaced with a
/// different name each time.
type Route = (&'static str, &'static str, &'static str, &'static str);

/// Every route without a sample event, and routes that need another body than their sample event has.
const ROUTES: &[Route] = &[
    (
        "auth-signup-and-create-org",
        "POST",
        "/v1/auth/signupAndCreateOrg",
        r#"{"json": {"name": "Jo", "email": "someone@example.com", "password": "correct horse", "organizationName": "Doe",
            "organizationSlug": "doe", "debugNotificationEmail": "ops@example.com"}}"#,
    ),
    (
        "auth-accept-invite-for-current-user",
        "POST",
        "/v1/auth/acceptInviteForCurrentUser",
        r#"{"json": {"invitationId": "01890f3e-7b5a-7cc0-8000-000000000000", "tenantSlug": "acme",
            "deleteOrganization": true}}"#,
    ),
    (
        "auth-request-password-reset",
        "POST",
        "/v1/auth/requestPasswordReset",
        r#"{"json": {"email": "someone@example.com"}}"#,
    ),
    (
        "webhooks-create",
        "POST",
        "/v1/webhooks/create",
        r#"{"json": {"url": "https://example.com/", "signing_secret": "a secret of some length", "description": "d", "active": true, "events": ["job.failed"],
            "headers": {"authorization": "Bearer x", "x-tenant": "a"}}}"#,
    ),
    (
        "webhooks-update",
        "POST",
        "/v1/webhooks/update",
        r#"{"json": {"id": "01890f3e-7b5a-7cc0-8000-000000000000", "url": "https://example.com/", "active": false,
            "headers": {"authorization": "Bearer x"}}}"#,
    ),
    (
        "webhooks-verify",
        "POST",
        "/v1/webhooks/verify",
        r#"{"json": {"id": "01890f3e-7b5a-7cc0-8000-000000000000", "headers": "webhook-id: a\nwebhook-timestamp: 7", "body": "e30=",
            "computed": "v1,AAAA", "received_at": "2026-01-31T12:00:00Z"}}"#,
    ),
    (
        "tenant-settings",
        "POST",
        "/v1/tenant/settings",
        r#"{"json": {"debug_notification_email": "someone@example.com", "disable_job_failure_notifications": true}}"#,
    ),
    ("docs", "GET", "/docs", ""),
    ("docs", "GET", "/docs/{page}", ""),
    ("console", "GET", "/signin", ""),
    (
        "console",
        "POST",
        "/signin",
        "action=sign-in&email=someone%40example.com&password=correct+horse+battery&cliLoginId=x&cliLoginSecret=x",
    ),
    (
        "console",
        "POST",
        "/signin",
        "action=sign-up&mode=signup&name=Jo&email=someone%40example.com&password=correct+horse&organizationName=Doe\
         &organizationSlug=someone&debugNotificationEmail=",
    ),
    (
        "console",
        "POST",
        "/signin",
        "action=approve&cliLoginId=01890f3e-7b5a-7cc0-8000-000000000000\
         &cliLoginSecret=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA&userId=01890f3e-7b5a-7cc0-8000-000000000000",
    ),
    ("console", "GET", "/verify-email", ""),
    ("console", "POST", "/verify-email", "token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA&callbackURL=x"),
    ("console", "GET", "/invite", ""),
    (
        "console",
        "POST",
        "/invite",
        "tenantSlug=acme&invitationId=01890f3e-7b5a-7cc0-8000-000000000000&name=Jo&password=correct+horse",
    ),
    ("console", "GET", "/api/auth/verify-email", ""),
    ("auth-cli", "POST", "/api/auth/send-verification-email", r#"{"email": "someone@example.com"}"#),
    (
        "auth-cli",
        "POST",
        "/api/auth/sign-in/email",
        r#"{"email": "someone@example.com", "password": "correct horse battery"}"#,
    ),
    ("auth-cli", "GET", "/api/auth/get-session", ""),
    ("auth-cli", "POST", "/api/auth/sign-out", "{}"),
    (
        "auth-account",
        "POST",
        "/api/auth/change-password",
        r#"{"currentPassword": "correct horse battery", "newPassword": "correct horse battery"}"#,
    ),
    // The password is wrong, because a successful deletion would make all later calls fail.
    ("auth-delete-user", "POST", "/api/auth/delete-user", r#"{"password": "somebody else's"}"#),
    ("auth-cli", "POST", "/api/auth/request-password-reset", r#"{"email": "someone@example.com"}"#),
    (
        "auth-cli",
        "POST",
        "/api/auth/reset-password",
        r#"{"token": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "newPassword": "correct horse battery"}"#,
    ),
    ("console", "GET", "/reset-password", ""),
    (
        "console",
        "POST",
        "/reset-password",
        "token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA&newPassword=correct+horse+battery",
    ),
    ("auth-cli", "GET", "/api/auth/list-sessions", ""),
    ("auth-cli", "POST", "/api/auth/revoke-session", r#"{"token": "01890f3e-7b5a-7cc0-8000-000000000000"}"#),
    ("auth-cli", "POST", "/api/auth/revoke-other-sessions", "{}"),
    ("auth-cli", "POST", "/api/auth/revoke-sessions", "{}"),
    ("auth-account", "POST", "/api/auth/update-user", r#"{"name": "Jo"}"#),
    ("auth-account", "POST", "/api/auth/change-email", r#"{"newEmail": "someone@example.com"}"#),
    ("auth-organization", "GET", "/api/auth/organization/list", ""),
    (
        "auth-organization",
        "POST",
        "/api/auth/organization/invite-member",
        r#"{"email": "someone@example.com", "role": "member", "organizationId": "01890f3e-7b5a-7cc0-8000-000000000000"}"#,
    ),
    ("auth-organization", "GET", "/api/auth/organization/list-invitations", ""),
    (
        "auth-organization",
        "POST",
        "/api/auth/organization/cancel-invitation",
        r#"{"invitationId": "01890f3e-7b5a-7cc0-8000-000000000000"}"#,
    ),
    ("auth-organization", "GET", "/api/auth/organization/get-invitation", ""),
    ("auth-organization", "GET", "/api/auth/organization/list-user-invitations", ""),
    (
        "auth-organization",
        "POST",
        "/api/auth/organization/accept-invitation",
        r#"{"invitationId": "01890f3e-7b5a-7cc0-8000-000000000000", "deleteOrganization": true}"#,
    ),
    (
        "auth-organization",
        "POST",
        "/api/auth/organization/reject-invitation",
        r#"{"invitationId": "01890f3e-7b5a-7cc0-8000-000000000000"}"#,
    ),
    ("auth-organization", "GET", "/api/auth/organization/list-members", ""),
    (
        "auth-organization",
        "POST",
        "/api/auth/organization/update-member-role",
        r#"{"memberId": "01890f3e-7b5a-7cc0-8000-000000000000", "role": "owner"}"#,
    ),
    (
        "auth-organization",
        "POST",
        "/api/auth/organization/remove-member",
        r#"{"memberIdOrEmail": "someone@example.com"}"#,
    ),
    (
        "auth-organization",
        "POST",
        "/api/auth/organization/leave",
        r#"{"organizationId": "01890f3e-7b5a-7cc0-8000-000000000000"}"#,
    ),
    ("auth-account", "POST", "/api/auth/two-factor/enable", r#"{"password": "correct horse battery"}"#),
    ("auth-account", "POST", "/api/auth/two-factor/verify-totp", r#"{"code": "123456"}"#),
    ("auth-account", "POST", "/api/auth/two-factor/verify-backup-code", r#"{"code": "abcd-efgh-jkmn-pqrs"}"#),
    ("auth-account", "POST", "/api/auth/two-factor/get-totp-uri", r#"{"password": "correct horse battery"}"#),
    ("auth-account", "POST", "/api/auth/two-factor/generate-backup-codes", r#"{"password": "correct horse battery"}"#),
    ("auth-account", "POST", "/api/auth/two-factor/disable", r#"{"password": "correct horse battery"}"#),
    ("auth-account", "POST", "/api/auth/api-key/create", r#"{"name": "test", "expiresIn": 3600}"#),
    ("auth-account", "GET", "/api/auth/api-key/list", ""),
    ("auth-account", "POST", "/api/auth/api-key/delete", r#"{"keyId": "01890f3e-7b5a-7cc0-8000-000000000000"}"#),
    ("console", "GET", "/", ""),
    ("console", "GET", "/health", ""),
    ("console", "POST", "/api/auth/verify-email", "token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA&callbackURL=x"),
    ("console", "GET", "/email-preferences/{token}", ""),
    ("console", "POST", "/email-preferences/{token}", "action=agree"),
    ("console", "GET", "/console/welcome", ""),
    ("console", "POST", "/console/welcome", "action=verify"),
    ("console", "GET", "/console/keys", ""),
    ("console", "POST", "/console/keys", "action=issue&form=x&name=ci&expires=30&access=all"),
    ("console", "GET", "/console/team", ""),
    ("console", "POST", "/console/team", "action=invite&email=someone%40example.com&role=member"),
    ("console", "GET", "/console/settings", ""),
    ("console", "POST", "/console/settings", "debugNotificationEmail=someone%40example.com&jobFailureMails=off"),
    (
        "console",
        "GET",
        "/console/audit",
        "action=member.removed&actor=x&cursor=1769860800999.0123456789abcdef0123456789abcdef&newer=-",
    ),
    ("console", "GET", "/console/account", ""),
    ("console", "POST", "/console/account", "action=password&currentPassword=x&newPassword=correct+horse+battery"),
    ("console", "GET", "/console/two-factor", ""),
    ("console", "POST", "/console/two-factor", "action=enable&password=x&code=123456&sure=yes"),
    ("console-webhooks", "GET", "/console", ""),
    ("console-webhooks", "GET", "/console/endpoints/new", ""),
    (
        "console-webhooks",
        "POST",
        "/console/endpoints/new",
        "once=1&url=https%3A%2F%2Fexample.com%2Fhook&description=x&completed=yes&headers=x-key%3A+y",
    ),
    ("console-webhooks", "GET", "/console/endpoints/{id}", ""),
    ("console-webhooks", "POST", "/console/endpoints/{id}", "action=recover&since=2026-01-31T12%3A00&status=both"),
    ("console-webhooks", "GET", "/console/recovery", ""),
    ("console-webhooks", "POST", "/console/recovery", "since=2026-01-31T12%3A00"),
    ("console-webhooks", "GET", "/console/verify/{id}", ""),
    (
        "console-webhooks",
        "POST",
        "/console/verify/{id}",
        "seen_headers=webhook-id%3A+a%0D%0Awebhook-timestamp%3A+7&body=%7B%7D&computed=v1%2CAAAA&received_at=2026-01-31T12%3A00",
    ),
    ("console-webhooks", "GET", "/console/deliveries", ""),
    ("console-webhooks", "POST", "/console/deliveries", "action=resend&ids=x+y"),
    ("console-webhooks", "GET", "/console/deliveries/{id}", ""),
    ("console-webhooks", "POST", "/console/deliveries/{id}", "action=resend"),
    ("auth-organization", "GET", "/api/auth/organization/get-full-organization", ""),
    ("auth-organization", "GET", "/api/auth/organization/get-active-member", ""),
    ("auth-organization", "POST", "/api/auth/organization/update", r#"{"data": {"name": "Doe"}}"#),
    ("auth-organization", "GET", "/api/auth/organization/get-active-member-role", ""),
    ("auth-organization", "POST", "/api/auth/organization/set-active", r#"{"organizationSlug": "acme"}"#),
    (
        "audit-list",
        "POST",
        "/v1/audit/list",
        r#"{"json": {"actor": "system", "action": "member.removed", "since": "2026-01-31T12:00:00Z",
            "until": "2026-02-01T12:00:00Z", "limit": 10, "cursor": "1769860800999.0123456789abcdef0123456789abcdef"}}"#,
    ),
    (
        "deliveries-list",
        "POST",
        "/v1/deliveries/list",
        r#"{"json": {"webhook_endpoint_id": "01890f3e-7b5a-7cc0-8000-000000000000", "status": "failed", "event": "job.failed",
            "job_id": "job-1", "since": "2026-01-31T12:00:00Z", "until": "2026-02-01T12:00:00Z", "limit": 10}}"#,
    ),
    (
        "deliveries-settle",
        "POST",
        "/v1/deliveries/settle",
        r#"{"json": {"settlements": [{"delivery_id":
            "019c1422-7c00-7b4c-8e6f-3a5b7d9f1c24.0.1769860800000.1854d20f452c5b4c1e350d7c7a00518b",
            "lease": "01890f3e-7b5a-7cc0-8000-000000000000", "status_code": 500, "duration_ms": 12, "response": "no"}]}}"#,
    ),
];

/// All panics, including caught ones, with the names of their threads.
static PANICS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Runs `test` with seeds, a thousand at a time, so their data does not accumulate. Each run uses separate threads, and
/// fails if a thread panics.
fn run(test: impl AsyncFn(Range<u64>)) {
    static HOOK: Once = Once::new();
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let thread = thread::current().name().unwrap_or_default().to_owned();
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push((thread, panic.to_string()));
            usual(panic);
        }));
    });
    let name = format!("fuzz {}", RUNS.fetch_add(1, Ordering::Relaxed));
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_name(&name).enable_all().build();
    let (runtime, seeds) = (runtime.expect("a runtime"), seeds());
    for first in seeds.clone().step_by(AT_A_TIME.into()) {
        runtime.block_on(test(first..seeds.end.min(first + u64::from(AT_A_TIME))));
    }
    let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    let ours: Vec<_> = panics.iter().filter(|(thread, _)| *thread == name).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

/// The seeds of the cases.
fn seeds() -> Range<u64> {
    let number = |name, default| env::var(name).map_or(default, |value| value.parse().expect(name));
    let first = number("FUZZ_SEED", 1);
    first..first + number("FUZZ_CASES", CASES)
}

/// Every route: those in the list, and those of the sample events.
fn routes() -> &'static [Route] {
    static ALL: LazyLock<Vec<Route>> = LazyLock::new(|| {
        let is_listed = |function: &str| ROUTES.iter().any(|(listed, ..)| *listed == function);
        let samples = local::generated_events().expect("the code matches events/fields.json");
        let samples = samples.into_keys().filter(|function| !is_listed(function)).map(|function| {
            let event = tests::sample_event(&function);
            let [path, body] = [&event["rawPath"], &event["body"]].map(|value| tests::text(value).to_owned().leak());
            (&*function.leak(), "POST", &*path, &*body)
        });
        ROUTES.iter().copied().chain(samples).collect()
    });
    &ALL
}

/// A route with a unique body. If many concurrent calls used the same address, some would be correctly rejected as
/// contended.
fn route(rng: &mut Rng) -> (&'static str, &'static str, &'static str, String) {
    let (function, method, path, body) = rng.choice(routes()).expect("a route");
    (function, method, path, body.replace("someone", &format!("someone{}", rng.u32(..))))
}

#[test]
fn every_route_is_in_the_list() {
    let called: BTreeSet<_> = routes().iter().map(|(_, method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(called, tests::description::routes().into_iter().map(|(name, _)| name).collect());
}

/// A string from the list, alone or inside another string; a single random character; or a string that is too long.
fn text(rng: &mut Rng) -> String {
    match rng.u8(..20) {
        0 => "a".repeat(rng.usize(..100_000)),
        1 | 2 => rng.char(..).to_string(),
        3 | 4 => format!("a{}b", rng.choice(TEXTS).unwrap_or_default()),
        _ => rng.choice(TEXTS).unwrap_or_default().to_owned(),
    }
}

/// The query of a link, with or without escapes.
fn query(rng: &mut Rng) -> String {
    let mut value = || {
        let text = text(rng);
        if rng.bool() { text } else { text.bytes().map(|byte| format!("%{byte:02X}")).collect() }
    };
    format!("token={}&callbackURL={}", value(), value())
}

/// A value of an unusual type or size.
fn value(rng: &mut Rng) -> Value {
    let values = [
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(1e308),
        json!(i64::MIN),
        json!(i64::MAX),
        json!(u64::MAX),
        json!([]),
        json!({}),
        json!([null, [], {"a": "b"}]),
        json!({"": {"a": [1]}}),
        (0..50).fold(json!({}), |inner, _| json!([{ "a": inner }])),
    ];
    if rng.bool() { json!(text(rng)) } else { rng.choice(values).unwrap_or_default() }
}

/// Replaces, removes or adds a few members somewhere in `json`.
fn spoil(rng: &mut Rng, json: &mut Value) {
    for _ in 0..rng.u8(1..4) {
        let mut places = Vec::new();
        collect(json, String::new(), &mut places);
        let Some(place) = rng.choice(places) else { return };
        let (parent, name) = place.rsplit_once('/').unwrap_or_default();
        match (rng.u8(..6), json.pointer_mut(parent)) {
            (0, Some(Value::Object(members))) => drop(members.remove(name)),
            (1, Some(Value::Object(members))) => drop(members.insert(text(rng), value(rng))),
            (2, Some(Value::Array(items))) => items.push(value(rng)),
            _ => {
                let new = value(rng);
                json.pointer_mut(&place).into_iter().for_each(|old| old.clone_from(&new));
            }
        }
    }
}

/// The JSON pointers to all values inside `json`.
fn collect(json: &Value, at: String, places: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match json {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        let place = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        collect(value, place.clone(), places);
        places.push(place);
    }
}
