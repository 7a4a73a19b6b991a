//! Signing in and out.

use std::{
    io::{BufRead, IsTerminal, Read},
    process::{Command, Stdio},
    time::Duration,
};

use api::{
    KeyId, Open, Secret,
    account::{ActiveMember, CreateKey, DeleteKey, Organization, Organizations, Profile, Role, SignOut},
    auth::{CliLogin, CliLoginCreate, CliLoginPoll},
};
use serde::Serialize;
use url::Url;
use zeroize::Zeroizing;

use crate::{
    args::Login,
    calls::{Api, Caller},
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
        let _may_be_gone = signed_in.call(&DeleteKey::new(old)).await;
    }
    if !api.is_private() {
        note("Warning: this address is plain http, so the API key is sent unencrypted. Use https.");
    }
    show(&who?, is_json)
}

/// Deletes the key from this machine and, if `login` created it, from the service.
pub(crate) async fn logout(api: &Api, config: &mut Config) -> Result<(), Failure> {
    let service = config.service(&api.origin());
    if service.key.is_none() {
        note(&format!("Not signed in to {}.", api.origin()));
        return Ok(());
    }
    let deleted = match service.key_id {
        Some(id) => api.call(&DeleteKey::new(id)).await.map(drop),
        None => Ok(()),
    };
    config.change(&api.origin(), |service| {
        service.key = None;
        service.key_id = None;
    })?;
    config.prefer(&api.origin(), false)?;
    match deleted {
        // The key was no longer valid.
        Ok(()) => Ok(()),
        Err(error) if error.is_not_signed_in() || error.is_not_found() => Ok(()),
        Err(error) => {
            Err(Failure::local(format!("The API key was deleted from this machine, but not at the service: {error}")))
        }
    }
}

pub(crate) async fn whoami(api: &Api, is_json: bool) -> Result<(), Failure> {
    show(&identity(api).await?, is_json)
}

/// The signed-in user, as printed for programs.
#[derive(Serialize)]
struct Who {
    api: String,
    organization: Organization,
    user: Profile,
    role: Open<Role>,
}

async fn identity(api: &Api) -> Result<Who, Failure> {
    let [organization] = api.call(&Organizations::new()).await?;
    let member = api.call(&ActiveMember::new()).await?;
    Ok(Who { api: api.origin(), organization, user: member.user, role: member.role })
}

fn show(who: &Who, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return Ok(say_json(who)?);
    }
    let Who { api, organization, user, role } = who;
    let (email, name, id) = (cell(&user.email), cell(&organization.name), cell(&organization.id));
    Ok(say(&format!("{email}, {role} of {name} ({id}) at {api}"))?)
}

fn typed_key() -> Result<Secret, Failure> {
    let mut text = Zeroizing::new(String::new());
    if std::io::stdin().is_terminal() {
        note("Paste the API key:");
    }
    std::io::stdin().lock().take(1024).read_line(&mut text)?;
    let key = text.trim();
    if key.is_empty() {
        return Err(Failure::local("Standard input is empty. Pipe an API key into `fanfare login --key`."));
    }
    key_of(key, "Standard input")
}

/// A key from standard input or the environment. Files and pipes often add a line end to it.
pub(crate) fn key_of(text: &str, origin: &str) -> Result<Secret, Failure> {
    let key = text.trim();
    match key.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(key.into()),
        false => Err(Failure::local(format!(
            "{origin} is not an API key: it contains a space or another character that no key has."
        ))),
    }
}

/// Waits until the login is approved in a browser, issues a key with the resulting session, and ends the session.
async fn issued_key(api: &Api, is_without_browser: bool) -> Result<(Secret, Option<KeyId>), Failure> {
    let login = api.call(&CliLoginCreate::new()).await?;
    let mut page = api.base.clone();
    page.set_path("/signin");
    page.query_pairs_mut()
        .append_pair("cliLoginId", login.request_id.as_str())
        .append_pair("cliLoginSecret", login.secret.reveal())
        .append_pair("mode", "login");
    note(&format!("Open this address in a browser, and approve the login:\n\n  {page}\n"));
    if !is_without_browser {
        open(&page);
    }
    let poll = CliLoginPoll::new(login.request_id, login.secret);
    let session = loop {
        tokio::time::sleep(PAUSE).await;
        match api.call(&poll).await {
            Err(error) if error.is_passing() => {}
            Err(error) => return Err(error),
            Ok(CliLogin::Pending) => {}
            Ok(CliLogin::Approved { cookie_header, .. }) => break cookie_header,
            Ok(CliLogin::Expired) => {
                return Err(Failure::local("The login was not approved in time. Run `fanfare login` again."));
            }
        }
    };
    let session = api.by(Caller::Session(session));
    let issued = session.call(&CreateKey::new(format!("fanfare on {}", machine()))).await;
    let ended = session.call(&SignOut::new()).await;
    let issued = issued?;
    if let Err(error) = ended {
        note(&format!("The session of this login could not be ended: {error}"));
    }
    Ok((issued.key, Some(issued.id)))
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
