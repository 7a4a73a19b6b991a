//! `fanfare login`, `fanfare logout` and `fanfare whoami`.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use api::{
    CliLoginId, KeyId, Open, Secret, Timestamp,
    account::{ActiveMember, CreateKey, DeleteKey, Organization, Organizations, Profile, Role, SignOut},
    auth::{CliLogin, CliLoginCreate, CliLoginPoll, comparison_code},
};
use serde::Serialize;
use serde_json::json;
use url::Url;

use crate::{
    args::Login,
    browser::{has_person, open},
    calls::{Api, Caller},
    config::{Config, Waiting},
    failure::Failure,
    input::hidden_line,
    terminal::{cell, note, say, say_json, shown, tell},
};

/// The interval at which the approval is polled.
const PAUSE: Duration = Duration::from_secs(2);
/// A login can be approved within this time.
const LASTS: Duration = Duration::from_secs(10 * 60);

/// Signs in, and stores an API key.
pub(crate) async fn login(api: &Api, config: &mut Config, login: &Login, is_json: bool) -> Result<(), Failure> {
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
        let request = Request::create(api).await?;
        let page = request.page(&api.base);
        if login.no_wait || is_json {
            let code = comparison_code(&request.id);
            let shown = json!({ "url": page.as_str(), "code": code, "expires_at": request.expires_at });
            let meaning = format!(
                "Open this address in a browser, check that it shows the code {code}, and approve the login:\n\n  \
                 {page}\n\nThen run `fanfare login --complete`."
            );
            tell(&shown, is_json, &meaning)?;
        } else {
            request.announce(&page);
        }
        if login.no_wait {
            return config.change(&api.origin(), |service| service.waiting = Some(request.into()));
        }
        if !login.no_browser && has_person() {
            open(&page);
        }
        issued_key(api, request.into()).await?
    };
    let signed_in = api.by(Caller::Key(key.clone()));
    // A typed key may be wrong, so it must pass this check. A new key is stored even if the check fails.
    let who = identity(&signed_in).await;
    let who = if login.key { Ok(who?) } else { who };
    let before = config.service(&api.origin());
    config.change(&api.origin(), |service| {
        service.key = Some(key);
        service.key_id = id;
    })?;
    config.prefer(&api.origin(), true)?;
    // The previous key is deleted only after the new one is stored.
    if let Some(old) = before.key_id {
        let _may_be_gone = signed_in.call(&DeleteKey::new(old)).await;
    }
    if !api.is_private() {
        note("Warning: this address uses plain http, so the API key is sent unencrypted. Use https.");
    }
    if api.has_key_of_environment() {
        note("Warning: FANFARE_API_KEY is set, and is used instead of this login. Unset it.");
    }
    show(&who?, is_json)
}

/// Deletes the key from this machine and, if `login` created it, from the service.
pub(crate) async fn logout(api: &Api, config: &mut Config, is_json: bool) -> Result<(), Failure> {
    let (service, origin) = (config.service(&api.origin()), api.origin());
    let Some(key) = service.key else {
        let nothing = json!({ "api": origin, "deleted_here": false, "deleted_at_service": false });
        return Ok(tell(&nothing, is_json, &format!("Not signed in to {origin}."))?);
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
        // The key was no longer valid.
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
    tell(&done, is_json, &meaning)?;
    if api.has_key_of_environment() {
        note("Warning: FANFARE_API_KEY is set, and is still used. Unset it.");
    }
    Ok(())
}

pub(crate) async fn whoami(api: &Api, is_json: bool) -> Result<(), Failure> {
    show(&identity(api).await?, is_json)
}

/// The signed-in user, as printed for programs.
#[derive(Serialize)]
pub(crate) struct Who {
    api: String,
    organization: Organization,
    /// The user and their role. `None` for an organization key.
    user: Option<Profile>,
    role: Option<Open<Role>>,
}

impl Who {
    pub(crate) fn summary(&self) -> String {
        let organization = format!("{} ({})", cell(&self.organization.name), cell(&self.organization.id));
        match (&self.user, &self.role) {
            (Some(user), Some(role)) => format!("{}, {} of {organization}", cell(&user.email), cell(role)),
            _ => format!("organization key of {organization}"),
        }
    }
}

pub(crate) async fn identity(api: &Api) -> Result<Who, Failure> {
    let [organization] = api.call(&Organizations::new()).await?;
    let (user, role) = match api.call(&ActiveMember::new()).await {
        Ok(member) => (Some(member.user), Some(member.role)),
        // An organization key is not a member.
        Err(failure) if failure.is_not_found() => (None, None),
        Err(failure) => return Err(failure),
    };
    Ok(Who { api: api.origin(), organization, user, role })
}

fn show(who: &Who, is_json: bool) -> Result<(), Failure> {
    if is_json {
        return Ok(say_json(who)?);
    }
    Ok(say(&format!("{} at {}", who.summary(), who.api))?)
}

fn typed_key() -> Result<Secret, Failure> {
    let text = hidden_line("API key: ")?;
    match text.trim().is_empty() {
        true => Err(Failure::local("Standard input is empty.").hint("Pipe an API key into `fanfare login --key`.")),
        false => key_of(&text, "Standard input"),
    }
}

/// Parses a key from standard input or the environment. Files and pipes often end with a line break.
pub(crate) fn key_of(text: &str, origin: &str) -> Result<Secret, Failure> {
    let key = text.trim();
    match key.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(key.into()),
        false => Err(Failure::local(format!(
            "{origin} is not an API key: it contains a space or another character that keys never contain."
        ))),
    }
}

/// A login that is waiting for a person's approval.
struct Request {
    id: CliLoginId,
    secret: Secret,
    expires_at: Timestamp,
}

impl Request {
    async fn create(api: &Api) -> Result<Self, Failure> {
        let created = api.call(&CliLoginCreate::new()).await?;
        Ok(Self { id: created.request_id, secret: created.secret, expires_at: created.expires_at })
    }

    /// Returns the page where a person approves the login.
    fn page(&self, base: &Url) -> Url {
        let mut page = base.clone();
        page.set_path("/signin");
        page.query_pairs_mut()
            .append_pair("cliLoginId", self.id.as_str())
            .append_pair("cliLoginSecret", self.secret.reveal())
            .append_pair("mode", "login");
        page
    }

    fn announce(&self, page: &Url) {
        let code = comparison_code(&self.id);
        note(&format!(
            "Open this address in a browser, check that it shows the code {code}, and approve the login:\n\n  {page}\n"
        ));
    }
}

impl From<Request> for Waiting {
    fn from(request: Request) -> Self {
        Self { request_id: request.id, secret: request.secret }
    }
}

/// Waits until the login is approved in a browser, issues a key with the resulting session, and ends the session.
async fn issued_key(api: &Api, Waiting { request_id, secret }: Waiting) -> Result<(Secret, Option<KeyId>), Failure> {
    let poll = CliLoginPoll::new(request_id, secret);
    let began = Instant::now();
    let session = loop {
        match api.call(&poll).await {
            Err(error) if error.is_passing() && began.elapsed() < LASTS => {}
            Err(error) => return Err(error),
            Ok(CliLogin::Pending) => {}
            Ok(CliLogin::Approved { cookie_header, .. }) => break cookie_header,
            Ok(CliLogin::Expired) => {
                return Err(Failure::local("The login was not approved in time.").hint("Run `fanfare login` again."));
            }
        }
        tokio::time::sleep(PAUSE).await;
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

/// This machine's name.
pub(crate) fn machine() -> String {
    let named = std::env::var("HOSTNAME").or_else(|_unset| std::env::var("COMPUTERNAME"));
    let name = named.or_else(|_unset| std::fs::read_to_string("/etc/hostname"));
    let name = name.ok().filter(|name| !name.trim().is_empty()).or_else(hostname).unwrap_or_default();
    let name: String = shown(name.trim()).chars().take(60).collect();
    if name.is_empty() { "this machine".to_owned() } else { name }
}

/// Runs `hostname`, for systems without `/etc/hostname`, such as macOS.
fn hostname() -> Option<String> {
    let said = Command::new("hostname").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    String::from_utf8(said.stdout).ok()
}
