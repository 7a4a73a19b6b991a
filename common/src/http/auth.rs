//! Authentication by API key or session cookie.

use super::{
    call::Call,
    info::{API_KEY, Credential},
};
use crate::{
    accounts::{
        api_keys::{ApiKey, KeyHolder},
        key_owners::KeyOwners,
        sessions::{Session as Stored, Sessions},
        users::{User, Users},
    },
    aws::clients::Aws,
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    telemetry::metrics,
    timestamp::Timestamp,
};

/// Decides whether a caller may call a route. `W` is the type of the stores that identify callers.
pub trait Access<W>: Send + 'static {
    /// The caller, as passed to the handler.
    type Caller: Send;

    /// The accepted credentials. If a call has several, the first of them acts.
    const CREDENTIALS: &'static [Credential];

    /// Identifies the caller, and refuses callers without access.
    fn identify(callers: &W, call: &Call<()>) -> impl Future<Output = Result<Self::Caller>> + Send;

    /// The organization whose data the call concerns, for the log.
    fn tenant(caller: &Self::Caller) -> Option<&TenantId>;
}

/// The stores that identify callers: [`Callers`], [`People`] or [`NoCallers`].
pub trait CallerStores: Sized + Send + Sync + 'static {
    /// Builds the stores with the settings in `env`.
    fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError>;
}

/// No stores, for a function that has only [`Public`] routes.
pub struct NoCallers;

impl CallerStores for NoCallers {
    fn from_env(_: &Env, _: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self)
    }
}

/// The stores that identify signed-in users.
pub struct People {
    sessions: Sessions,
    users: Users,
}

impl CallerStores for People {
    fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { sessions: Sessions::from_env(env, aws)?, users: Users::from_env(env, aws)? })
    }
}

impl AsRef<Self> for People {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl People {
    /// The session in the cookie of a call, unless there is none or it has ended.
    async fn session(&self, call: &Call<()>) -> Result<Option<Stored>> {
        match call.session() {
            Some(token) => self.sessions.find(&token, Timestamp::now()).await,
            None => Ok(None),
        }
    }

    /// The user with the session in the cookie of a call. Records the session's use on this day.
    async fn signed_in(&self, call: &Call<()>) -> Result<Option<SignedIn>> {
        let Some(session) = self.session(call).await? else { return Ok(None) };
        let user = self.users.find(session.user).await?.filter(|user| session.is_of(user));
        let Some(user) = user else { return Ok(None) };
        note(self.sessions.note_use(&session, Timestamp::now()).await);
        Ok(Some(SignedIn { user, session }))
    }
}

/// Logs a failure to record the use of a credential, which does not fail the call.
fn note(noted: Result<()>) {
    metrics::upkeep("identifying the caller", noted);
}

/// The stores that identify users by key or session.
pub struct Callers {
    keys: KeyOwners,
    people: People,
}

impl AsRef<People> for Callers {
    fn as_ref(&self) -> &People {
        &self.people
    }
}

impl CallerStores for Callers {
    fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { keys: KeyOwners::from_env(env, aws)?, people: People::from_env(env, aws)? })
    }
}

impl Callers {
    /// The caller with this key, unless the key is malformed or has ended.
    async fn of_key(&self, key: &str) -> Result<Option<Caller>> {
        let (Some(key), now) = (ApiKey::parse(key), Timestamp::now()) else { return Ok(None) };
        let Some((holder, user)) = self.keys.find(&key, now).await? else { return Ok(None) };
        note(self.keys.note_use(&holder, now).await);
        Ok(Some(Caller { user, by: By::Key(holder) }))
    }

    /// The caller with the session in the cookie.
    async fn of_session(&self, call: &Call<()>) -> Result<Option<Caller>> {
        let signed_in = self.people.signed_in(call).await?;
        Ok(signed_in.map(|SignedIn { user, session }| Caller { user, by: By::Session(session) }))
    }
}

/// Open to all callers, without a credential.
pub struct Public;

impl<W: Sync> Access<W> for Public {
    type Caller = ();
    const CREDENTIALS: &'static [Credential] = &[Credential::None];

    async fn identify(_: &W, _: &Call<()>) -> Result<()> {
        Ok(())
    }

    fn tenant((): &()) -> Option<&TenantId> {
        None
    }
}

/// A user whose email is verified, with a key or a session. Missing, malformed, unknown and ended credentials, and
/// those of deleted users, all get the same response.
///
/// A key takes precedence: browsers add cookies automatically, but a key is sent deliberately and names the
/// organization to act for. On these routes, it has the rights of a session.
pub struct Verified;

impl Access<Callers> for Verified {
    type Caller = User;
    const CREDENTIALS: &'static [Credential] = &[Credential::Key, Credential::Session];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<User> {
        let caller = match call.header(API_KEY) {
            Some(key) => callers.of_key(key).await,
            None => callers.of_session(call).await,
        };
        let Caller { user, .. } = caller?.ok_or(Error::Unauthorized)?;
        user.check_verified().map(|()| user)
    }

    fn tenant(user: &User) -> Option<&TenantId> {
        Some(&user.organization)
    }
}

/// A [`Verified`] user of any role, who acts for their organization.
pub struct Tenant;

impl Access<Callers> for Tenant {
    type Caller = TenantId;
    const CREDENTIALS: &'static [Credential] = Verified::CREDENTIALS;

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<TenantId> {
        Ok(Verified::identify(callers, call).await?.organization)
    }

    fn tenant(tenant: &TenantId) -> Option<&TenantId> {
        Some(tenant)
    }
}

/// A user, and the credential of the call.
pub struct Caller {
    pub user: User,
    /// The credential.
    pub by: By,
}

/// The credential of a call.
pub enum By {
    /// A session cookie.
    Session(Stored),
    /// An API key, which acts for the user who issued it.
    Key(KeyHolder),
}

impl Caller {
    /// Whether the caller has signed in with a session, instead of a key.
    #[must_use]
    pub fn is_session(&self) -> bool {
        matches!(self.by, By::Session(_))
    }
}

/// A user with a session or a key, or an anonymous caller.
///
/// A session takes precedence: it may do more than a key on these routes, and a client with a key in its environment
/// sends that key with every call, even after its user has signed in.
pub struct AnyCaller;

impl Access<Callers> for AnyCaller {
    type Caller = Option<Caller>;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session, Credential::Key, Credential::None];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<Option<Caller>> {
        if let Some(caller) = callers.of_session(call).await? {
            return Ok(Some(caller));
        }
        match call.header(API_KEY) {
            Some(key) => callers.of_key(key).await,
            None => Ok(None),
        }
    }

    fn tenant(caller: &Option<Caller>) -> Option<&TenantId> {
        caller.as_ref().map(|caller| &caller.user.organization)
    }
}

/// A user with a key or a session. As with [`AnyCaller`], a session takes precedence.
pub struct KeyOrSession;

impl Access<Callers> for KeyOrSession {
    type Caller = Caller;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session, Credential::Key];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<Caller> {
        AnyCaller::identify(callers, call).await?.ok_or(Error::Unauthorized)
    }

    fn tenant(caller: &Caller) -> Option<&TenantId> {
        Some(&caller.user.organization)
    }
}

/// A user, and the session they are signed in with.
pub struct SignedIn {
    pub user: User,
    pub session: Stored,
}

/// A signed-in user. Keys are not accepted: a leaked key must not be able to issue other keys that outlive it, or to
/// sign its owner out. Next to a session, a key is ignored.
pub struct Session;

impl Access<Callers> for Session {
    type Caller = SignedIn;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<SignedIn> {
        match KeyOrSession::identify(callers, call).await? {
            Caller { user, by: By::Session(session) } => Ok(SignedIn { user, session }),
            Caller { by: By::Key(_), .. } => Err(Error::SessionRequired),
        }
    }

    fn tenant(caller: &SignedIn) -> Option<&TenantId> {
        Some(&caller.user.organization)
    }
}

/// A visitor of a page for signed-in users. A browser without a session is redirected to the sign-in page, and returns here after signing in.
/// Keys are ignored.
pub struct Person;

impl<W: AsRef<People> + Sync> Access<W> for Person {
    type Caller = SignedIn;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session];

    async fn identify(stores: &W, call: &Call<()>) -> Result<SignedIn> {
        stores.as_ref().signed_in(call).await?.ok_or(Error::Unauthorized)
    }

    fn tenant(person: &SignedIn) -> Option<&TenantId> {
        Some(&person.user.organization)
    }
}

/// A [`Person`] whose email is verified.
pub struct VerifiedPerson;

impl<W: AsRef<People> + Sync> Access<W> for VerifiedPerson {
    type Caller = User;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session];

    async fn identify(stores: &W, call: &Call<()>) -> Result<User> {
        let SignedIn { user, .. } = Person::identify(stores, call).await?;
        user.check_verified().map(|()| user)
    }

    fn tenant(user: &User) -> Option<&TenantId> {
        Some(&user.organization)
    }
}

/// A visitor of a page, signed in or not. Keys are ignored.
pub struct Visitor;

impl Access<Callers> for Visitor {
    type Caller = Option<SignedIn>;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session, Credential::None];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<Option<SignedIn>> {
        callers.people.signed_in(call).await
    }

    fn tenant(visitor: &Option<SignedIn>) -> Option<&TenantId> {
        visitor.as_ref().map(|visitor| &visitor.user.organization)
    }
}
