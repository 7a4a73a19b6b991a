//! `fanfare doctor`: checks the connection from this machine to the service.

use std::{
    env,
    fs::File,
    time::{Duration, Instant, SystemTime},
};

use serde::Serialize;
use serde_json::json;

use crate::{
    calls::{Api, OPEN},
    config::Config,
    failure::Failure,
    http::{HttpResponse, proxy_for, user_agent},
    identity::identity,
    terminal::{cell, print_json, print_line, shown},
};

/// The minimum clock difference to report. Receivers reject signatures that are five minutes old.
const MIN_REPORTED_SKEW: Duration = Duration::from_mins(1);

#[derive(Serialize)]
struct Check {
    name: &'static str,
    state: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: "ok", detail: detail.into(), hint: None }
    }

    fn warning(name: &'static str, detail: impl Into<String>, hint: &str) -> Self {
        Self { name, state: "warning", detail: detail.into(), hint: Some(hint.to_owned()) }
    }

    fn failed(name: &'static str, failure: &Failure) -> Self {
        Self { name, state: "failed", detail: failure.to_string(), hint: failure.remedy().map(ToOwned::to_owned) }
    }
}

/// Runs all checks and prints the results. Returns the first failure, if any.
pub(crate) async fn run(api: &Api, config: &Config, is_json: bool) -> Result<(), Failure> {
    let mut checks = vec![Check::ok("client", user_agent()), credentials(config), certificates(), proxy(api)];
    let began = Instant::now();
    let mut failure = None;
    match api.ask(OPEN).await {
        Ok(answer) => {
            let took = began.elapsed().as_millis();
            checks.push(Check::ok("service", format!("{} answered in {took} ms", api.origin())));
            checks.push(clock(&answer));
            match identity(api).await {
                Ok(who) => checks.push(Check::ok("API key", format!("{}, {}", api.key_source(), who.summary()))),
                Err(error) => {
                    checks.push(Check::failed("API key", &error));
                    failure = Some(error);
                }
            }
        }
        Err(error) => {
            checks.push(Check::failed("service", &error));
            failure = Some(error);
        }
    }
    if is_json {
        print_json(&json!({ "checks": checks }))?;
    } else {
        for Check { name, state, detail, hint } in &checks {
            print_line(&format!("{state:<7}  {name}: {detail}"))?;
            hint.iter().try_for_each(|hint| print_line(&format!("{:9}hint: {hint}", "")))?;
        }
    }
    match failure {
        // The failure was printed above.
        Some(failure) => Err(failure.reported()),
        None => Ok(()),
    }
}

fn credentials(config: &Config) -> Check {
    const NAME: &str = "credentials";
    match config.path() {
        None => Check::warning(
            NAME,
            "there is no configuration folder that can be opened",
            "Set HOME, or FANFARE_API and FANFARE_API_KEY.",
        ),
        Some(path) => {
            let detail = shown(&path.display().to_string());
            match config.is_open_to_others() {
                true => {
                    Check::warning(NAME, format!("{detail} can be read by other users"), "Run `fanfare login` again.")
                }
                false if path.exists() => Check::ok(NAME, detail),
                false => Check::ok(NAME, format!("{detail} does not exist yet")),
            }
        }
    }
}

fn certificates() -> Check {
    const NAME: &str = "certificates";
    // On Linux, an empty variable also replaces the system's certificates.
    match env::var_os("SSL_CERT_FILE").filter(|file| !file.is_empty() || cfg!(target_os = "linux")) {
        None => Check::ok(NAME, "the system's certificates"),
        Some(file) => {
            let name = if file.is_empty() { "empty".to_owned() } else { shown(&file.to_string_lossy()) };
            match File::open(&file) {
                Ok(_) => Check::ok(NAME, format!("the certificates in SSL_CERT_FILE, {name}")),
                Err(error) => Check::warning(
                    NAME,
                    format!("SSL_CERT_FILE is {name}, which cannot be read: {error}"),
                    "Correct it, or unset it.",
                ),
            }
        }
    }
}

fn proxy(api: &Api) -> Check {
    Check::ok("proxy", proxy_for(&api.base).unwrap_or_else(|| "none".to_owned()))
}

/// Compares this machine's clock with the service's.
fn clock(answer: &HttpResponse) -> Check {
    const NAME: &str = "clock";
    let Some(theirs) = answer.date else { return Check::ok(NAME, "the service did not send its time") };
    let ours = SystemTime::now();
    let (difference, is_ahead) = match ours.duration_since(theirs) {
        Ok(ahead) => (ahead, true),
        Err(behind) => (behind.duration(), false),
    };
    let difference = Duration::from_secs(difference.as_secs());
    if difference < MIN_REPORTED_SKEW {
        return Check::ok(NAME, "agrees with the service");
    }
    let direction = if is_ahead { "ahead of" } else { "behind" };
    let detail = format!("{} {direction} the service", cell(&humantime::format_duration(difference)));
    Check::warning(NAME, detail, "Set this machine's clock: signatures are valid for five minutes.")
}
