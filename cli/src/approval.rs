//! Approvals in the browser: a person opens a page, checks the code and approves, and this machine gets a session.
//! `login` creates its key this way. Commands for which an API key is not enough get a session for one call: a leaked
//! key must not create keys, move its user or weaken the sign-in of members.

use std::time::{Duration, Instant};

use api::{
    CliLoginId, Secret, Timestamp,
    account::SignOut,
    auth::{CliLogin, CliLoginCreate, CliLoginPoll, comparison_code},
};
use serde_json::{Value, json};
use url::Url;

use crate::{
    browser::{has_person, open},
    calls::{Api, Caller},
    config::PendingLogin,
    failure::Failure,
    identity::identity,
    terminal::{print_note, print_note_json},
};

/// The interval between polls for the approval.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The time within which a request can be approved.
const APPROVAL_LIFETIME: Duration = Duration::from_mins(10);

/// A request that is waiting for a person's approval.
pub(crate) struct LoginRequest {
    id: CliLoginId,
    secret: Secret,
    expires_at: Timestamp,
}

impl LoginRequest {
    pub(crate) async fn create(api: &Api) -> Result<Self, Failure> {
        let created = api.call(&CliLoginCreate::new()).await?;
        Ok(Self { id: created.request_id, secret: created.secret, expires_at: created.expires_at })
    }

    /// Returns the page on which a person approves the request.
    pub(crate) fn page(&self, base: &Url) -> Url {
        let mut page = base.clone();
        page.set_path("/signin");
        page.query_pairs_mut()
            .append_pair("cliLoginId", self.id.as_str())
            .append_pair("cliLoginSecret", self.secret.reveal())
            .append_pair("mode", "login");
        page
    }

    /// The page, the code and the expiry, for programs.
    pub(crate) fn shown(&self, page: &Url) -> Value {
        json!({ "url": page.as_str(), "code": self.code(), "expires_at": self.expires_at })
    }

    /// Asks a person to approve the request.
    pub(crate) fn instructions(&self, page: &Url) -> String {
        let code = self.code();
        format!(
            "Open this address in a browser, check that it shows the code {code}, and approve the login:\n\n  {page}\n"
        )
    }

    /// Prints the request to standard error: standard output is reserved for the result.
    pub(crate) fn announce(&self, page: &Url, is_json: bool) {
        if is_json {
            print_note_json(&self.shown(page));
        } else {
            print_note(&self.instructions(page));
        }
    }

    fn code(&self) -> String {
        comparison_code(&self.id)
    }
}

impl From<LoginRequest> for PendingLogin {
    fn from(request: LoginRequest) -> Self {
        Self { request_id: request.id, secret: request.secret }
    }
}

/// Waits until the request is approved, and returns the API with the resulting session.
pub(crate) async fn approved(api: &Api, PendingLogin { request_id, secret }: PendingLogin) -> Result<Api, Failure> {
    let poll = CliLoginPoll::new(request_id, secret);
    let began = Instant::now();
    loop {
        match api.call(&poll).await {
            Err(error) if error.is_passing() && began.elapsed() < APPROVAL_LIFETIME => {}
            Err(error) => return Err(error),
            Ok(CliLogin::Pending) => {}
            Ok(CliLogin::Approved { cookie_header, .. }) => return Ok(api.by(Caller::Session(cookie_header))),
            Ok(CliLogin::Expired) => {
                return Err(Failure::local("The login was not approved in time.")
                    .hint("Start again: the address works for ten minutes."));
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Ends a session that is no longer needed.
pub(crate) async fn end(session: &Api) {
    if let Err(error) = session.call(&SignOut::new()).await {
        print_note(&format!("The session of this login could not be ended: {error}"));
    }
}

/// Runs `act` with a session that a person approves. The session must belong to the signed-in user or, with an
/// organization key, to a member: otherwise, the command would affect a different account than the person expects.
pub(crate) async fn with_session<T>(
    api: &Api,
    has_browser: bool,
    is_json: bool,
    act: impl AsyncFnOnce(&Api) -> Result<T, Failure>,
) -> Result<T, Failure> {
    if has_browser && !has_person() {
        let failure = Failure::usage("A person must approve this command, but standard input is not a terminal.");
        return Err(failure.hint("Add --no-browser, and open the printed address in a browser."));
    }
    let expected = if api.is_signed_in() { Some(identity(api).await?) } else { None };
    let request = LoginRequest::create(api).await?;
    let page = request.page(&api.base);
    request.announce(&page, is_json);
    if has_browser {
        open(&page);
    }
    let session = approved(api, request.into()).await?;
    let done = async {
        if let Some(expected) = expected {
            let approver = identity(&session).await?;
            if !expected.includes(&approver) {
                let (approver, expected) = (approver.summary(), expected.summary());
                let failure =
                    Failure::local(format!("{approver} approved the login, but this machine uses {expected}."));
                return Err(failure.hint("Sign in as the same user in the browser, or choose another --profile."));
            }
        }
        act(&session).await
    };
    let done = done.await;
    end(&session).await;
    done
}
