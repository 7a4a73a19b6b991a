//! `fanfare login`, `fanfare logout` and `fanfare whoami`.

use std::process::{Command, Stdio};

use api::{
    KeyId, Secret,
    account::{CreateKey, DeleteKey, IssuedKey},
};
use serde_json::json;

use crate::{
    approval::{LoginRequest, approved, end},
    args::Login,
    browser::{has_person, open},
    calls::{Api, Caller},
    config::{Config, PendingLogin},
    failure::Failure,
    identity::{Who, identity},
    input::hidden_line,
    terminal::{print_json, print_line, print_note, print_result, shown},
};

/// Signs in, and stores an API key.
pub(crate) async fn login(api: &Api, config: &mut Config, login: &Login, is_json: bool) -> Result<(), Failure> {
    if !login.key {
        // A key that is issued and then cannot be stored would stay valid.
        config.check()?;
    }
    let (key, id) = if login.key {
        (typed_key()?, None)
    } else if login.complete {
        let waiting = config.service(&api.origin()).waiting.ok_or_else(|| {
            Failure::local(format!("There is no pending login to {}.", api.origin()))
                .hint("Run `fanfare login --no-wait`.")
        })?;
        let issued = issued_key(api, waiting).await;
        // After a network failure, the login stays pending.
        if !issued.as_ref().is_err_and(Failure::is_passing) {
            config.change(&api.origin(), |service| service.waiting = None)?;
        }
        issued?
    } else {
        if !login.no_wait && !login.no_browser && !has_person() {
            let failure = Failure::usage("A person must approve this login, but standard input is not a terminal.");
            return Err(failure.hint(
                "Pipe an API key into `fanfare login --key`, or run `fanfare login --no-wait` and, once a person has \
                 approved it, `fanfare login --complete`.",
            ));
        }
        let request = LoginRequest::create(api).await?;
        let page = request.page(&api.base);
        if login.no_wait {
            let origin = api.origin();
            let meaning =
                format!("{}\nThen run `fanfare --api {origin} login --complete`.", request.instructions(&page));
            print_result(&request.shown(&page), is_json, &meaning)?;
            return config.change(&api.origin(), |service| service.waiting = Some(request.into()));
        }
        request.announce(&page, is_json);
        if !login.no_browser && has_person() {
            open(&page);
        }
        issued_key(api, request.into()).await?
    };
    let signed_in = api.by(Caller::Key(key.clone()));
    // A key from the user may be wrong, so it must pass this check. A newly issued key is stored even if the check
    // fails.
    let who = identity(&signed_in).await;
    let who = if login.key { Ok(who?) } else { who };
    let before = config.service(&api.origin());
    config.change(&api.origin(), |service| {
        service.key = Some(key.clone());
        service.key_id = id;
    })?;
    config.prefer(&api.origin(), true)?;
    // The previous key is deleted only after the new one is stored. It deletes itself, because the new one may belong to
    // another user or organization.
    if let (Some(old), Some(id)) = (before.key.filter(|old| *old != key), before.key_id) {
        let _may_be_gone = api.by(Caller::Key(old)).call(&DeleteKey::new(id)).await;
    }
    if !api.is_private() {
        print_note("Warning: this address uses plain http, so the API key is sent unencrypted. Use https.");
    }
    if api.has_key_of_environment() {
        print_note("Warning: FANFARE_API_KEY is set, and is used instead of this login. Unset it.");
    }
    show(&who?, is_json)
}

/// Deletes the key from this machine and, if `login` created it, from the service.
pub(crate) async fn logout(api: &Api, config: &mut Config, is_json: bool) -> Result<(), Failure> {
    let (service, origin) = (config.service(&api.origin()), api.origin());
    let Some(key) = service.key else {
        let nothing = json!({ "api": origin, "deleted_here": false, "deleted_at_service": false });
        return Ok(print_result(&nothing, is_json, &format!("Not signed in to {origin}."))?);
    };
    let deleted = match service.key_id {
        Some(id) => api.by(Caller::Key(key)).call(&DeleteKey::new(id)).await.map(|_done| true),
        None => Ok(false),
    };
    config.change(&origin, |service| {
        service.key = None;
        service.key_id = None;
    })?;
    config.prefer(&origin, false)?;
    let is_deleted = match deleted {
        // The key was already invalid.
        Err(error) if error.is_not_signed_in() || error.is_not_found() => true,
        Err(error) => {
            let message = format!("The API key was deleted from this machine, but not at the service: {error}");
            return Err(Failure::local(message).hint(format!("Delete it on {}.", api.page("/console/keys"))));
        }
        Ok(is_deleted) => is_deleted,
    };
    let done = json!({ "api": origin, "deleted_here": true, "deleted_at_service": is_deleted });
    let meaning = match is_deleted {
        true => format!("Signed out of {origin}. The API key was deleted on this machine and at the service."),
        false => format!(
            "Signed out of {origin}. The API key was deleted on this machine. It stays valid until you delete it on \
            {}.",
            api.page("/console/keys")
        ),
    };
    print_result(&done, is_json, &meaning)?;
    if api.has_key_of_environment() {
        print_note("Warning: FANFARE_API_KEY is set, and is still used. Unset it.");
    }
    Ok(())
}

pub(crate) async fn whoami(api: &Api, is_json: bool) -> Result<(), Failure> {
    show(&identity(api).await?, is_json)
}

fn show(who: &Who, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return Ok(print_json(who)?);
    }
    Ok(print_line(&format!("{} at {}", who.summary(), who.api))?)
}

fn typed_key() -> Result<Secret, Failure> {
    let text = hidden_line("API key: ")?;
    match text.trim().is_empty() {
        true => Err(Failure::local("Standard input is empty.").hint("Pipe an API key into `fanfare login --key`.")),
        false => key_of(&text, "Standard input"),
    }
}

/// Parses a key from standard input or the environment. Input from files and pipes often ends with a line break.
pub(crate) fn key_of(text: &str, origin: &str) -> Result<Secret, Failure> {
    let key = text.trim();
    match key.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(key.into()),
        false => Err(Failure::local(format!(
            "{origin} is not an API key: it contains a space or another character that keys never contain."
        ))),
    }
}

/// Issues a key for this machine, once a person has approved the login.
async fn issued_key(api: &Api, waiting: PendingLogin) -> Result<(Secret, Option<KeyId>), Failure> {
    let session = approved(api, waiting).await?;
    let issued = issue(&session).await;
    end(&session).await;
    let issued = issued?;
    Ok((issued.key, Some(issued.id)))
}

/// Issues a personal key for this machine.
pub(crate) async fn issue(session: &Api) -> Result<IssuedKey, Failure> {
    session.call(&CreateKey::new(format!("fanfare on {}", machine()))).await
}

/// This machine's name.
pub(crate) fn machine() -> String {
    let named = |name: Option<String>| name.filter(|name| !name.trim().is_empty());
    let name = named(std::env::var("HOSTNAME").ok()).or_else(|| named(std::env::var("COMPUTERNAME").ok()));
    let name =
        name.or_else(|| named(std::fs::read_to_string("/etc/hostname").ok())).or_else(hostname).unwrap_or_default();
    let name: String = shown(name.trim()).chars().take(60).collect();
    if name.is_empty() { "this machine".to_owned() } else { name }
}

/// Runs `hostname`, for systems without `/etc/hostname`, such as macOS.
fn hostname() -> Option<String> {
    let said = Command::new("hostname").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(said.stdout).ok()
}
