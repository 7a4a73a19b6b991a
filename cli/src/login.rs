//! Signing in and out.

use std::{
    io::{BufRead, IsTerminal, Read},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use url::Url;
use zeroize::Zeroizing;

use crate::{
    api::{Api, Caller},
    args::Login,
    config::Config,
    failure::Failure,
    terminal::{cell, note, say, say_json, shown},
};

/// The time between two questions whether the login is approved.
const PAUSE: Duration = Duration::from_secs(2);

/// Signs in, and stores an API key.
pub(crate) async fn login(api: &Api, config: &mut Config, login: &Login, is_json: bool) -> Result<(), Failure> {
    let (key, id) = match login.key {
        true => (typed_key()?, None),
        false => issued_key(api, login.no_browser).await?,
    };
    let signed_in = api.by(Caller::Key(key.clone()));
    // A typed key may be wrong. An issued one must be stored even if its check fails.
    let who = identity(&signed_in).await;
    let who = if login.key { Ok(who?) } else { who };
    let before = config.service(&api.origin());
    config.change(&api.origin(), |service| {
        service.key = Some(key);
        service.key_id = id;
    })?;
    config.prefer(&api.origin(), true)?;
    // Only after the new key is stored.
    if let Some(old) = before.key_id {
        let _may_be_gone = signed_in.flow("api-key/delete", Some(json!({ "keyId": old }))).await;
    }
    if !api.is_private() {
        note("Warning: this address is plain http, so the API key is sent unencrypted. Use https.");
    }
    show(api, &who?, is_json)
}

/// Deletes the key from this machine and, if `login` created it, from the service.
pub(crate) async fn logout(api: &Api, config: &mut Config) -> Result<(), Failure> {
    let service = config.service(&api.origin());
    if service.key.is_none() {
        note(&format!("Not signed in to {}.", api.origin()));
        return Ok(());
    }
    let deleted = match service.key_id {
        Some(id) => api.flow("api-key/delete", Some(json!({ "keyId": id }))).await,
        None => Ok(Value::Null),
    };
    config.change(&api.origin(), |service| {
        service.key = None;
        service.key_id = None;
    })?;
    config.prefer(&api.origin(), false)?;
    match deleted {
        // The key was no longer valid.
        Ok(_) | Err(Failure::NotSignedIn(_) | Failure::Refused { status: 404, .. }) => Ok(()),
        Err(error) => {
            Err(Failure::Local(format!("The API key was deleted from this machine, but not at the service: {error}")))
        }
    }
}

pub(crate) async fn whoami(api: &Api, is_json: bool) -> Result<(), Failure> {
    let who = identity(api).await?;
    show(api, &who, is_json)
}

async fn identity(api: &Api) -> Result<Value, Failure> {
    let organizations = api.flow("organization/list", None).await?;
    let status = api.flow("organization/get-active-member", None).await?;
    Ok(json!({ "api": api.origin(), "organization": organizations[0], "user": status["user"], "role": status["role"] }))
}

fn show(api: &Api, who: &Value, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return Ok(say_json(who)?);
    }
    let organization = &who["organization"];
    say(&format!(
        "{}, {} of {} ({}) at {}",
        cell(&who["user"]["email"]),
        cell(&who["role"]),
        cell(&organization["name"]),
        cell(&organization["id"]),
        api.origin(),
    ))?;
    Ok(())
}

fn typed_key() -> Result<Zeroizing<String>, Failure> {
    let mut text = Zeroizing::new(String::new());
    if std::io::stdin().is_terminal() {
        note("Paste the API key:");
    }
    std::io::stdin().lock().take(1024).read_line(&mut text)?;
    let key = Zeroizing::new(text.trim().to_owned());
    if key.is_empty() {
        return Err(Failure::Local("Standard input is empty. Pipe an API key into `fanfare login --key`.".to_owned()));
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Local(
            "Standard input is not an API key: it contains a space or another invalid character.".to_owned(),
        ));
    }
    Ok(key)
}

/// Waits until the login is approved in a browser, issues a key with the resulting session, and ends the session.
async fn issued_key(api: &Api, is_without_browser: bool) -> Result<(Zeroizing<String>, Option<String>), Failure> {
    let asked = api.call("auth/cliLoginCreate", json!({})).await?;
    let request = json!({ "requestId": asked["requestId"], "secret": asked["secret"] });
    let mut page = api.base.clone();
    page.set_path("/signin");
    page.query_pairs_mut()
        .append_pair("cliLoginId", asked["requestId"].as_str().unwrap_or_default())
        .append_pair("cliLoginSecret", asked["secret"].as_str().unwrap_or_default())
        .append_pair("mode", "login");
    note(&format!("Open this address in a browser, and approve the login:\n\n  {page}\n"));
    if !is_without_browser {
        open(&page);
    }
    let session = loop {
        tokio::time::sleep(PAUSE).await;
        let polled = match api.call("auth/cliLoginPoll", request.clone()).await {
            Err(error) if error.is_passing() => continue,
            polled => polled?,
        };
        match polled["status"].as_str() {
            Some("pending") => {}
            Some("approved") => break Zeroizing::new(polled["cookieHeader"].as_str().unwrap_or_default().to_owned()),
            _ => {
                return Err(Failure::Local(
                    "The login was not approved in time. Run `fanfare login` again.".to_owned(),
                ));
            }
        }
    };
    let session = api.by(Caller::Session(session));
    let name = format!("fanfare on {}", machine());
    let issued = session.flow("api-key/create", Some(json!({ "name": name }))).await;
    let ended = session.flow("sign-out", Some(json!({}))).await;
    let issued = issued?;
    if let Err(error) = ended {
        note(&format!("The session of this login could not be ended: {error}"));
    }
    let key = issued["key"].as_str().map(|key| Zeroizing::new(key.to_owned()));
    let key = key.ok_or_else(|| {
        Failure::Unreachable(format!("{} did not answer like this service. Check --api.", api.origin()))
    })?;
    Ok((key, issued["id"].as_str().map(ToOwned::to_owned)))
}

/// Opens a page in the browser, if there is one. The caller prints the address, too.
fn open(page: &Url) {
    let (program, first) = match std::env::consts::OS {
        "macos" => ("open", None),
        "windows" => ("rundll32", Some("url.dll,FileProtocolHandler")),
        _ => ("xdg-open", None),
    };
    let mut command = Command::new(program);
    command.args(first).arg(page.as_str());
    let _started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}

/// The name of this machine.
pub(crate) fn machine() -> String {
    let named = std::env::var("HOSTNAME").or_else(|_unset| std::env::var("COMPUTERNAME"));
    let name = named.or_else(|_unset| std::fs::read_to_string("/etc/hostname"));
    let name = name.ok().filter(|name| !name.trim().is_empty()).or_else(hostname).unwrap_or_default();
    let name: String = shown(name.trim()).chars().take(60).collect();
    if name.is_empty() { "this machine".to_owned() } else { name }
}

/// The output of `hostname`, for systems without `/etc/hostname` such as macOS.
fn hostname() -> Option<String> {
    let said = Command::new("hostname").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(said.stdout).ok()
}
