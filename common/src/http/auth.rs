//! Authentication by API key or session cookie.

use super::{
    call::Call,
    info::{API_KEY, Credential, ScopeRequirement},
};
use crate::{
    accounts::{
        api_keys::{ApiKey, KeyHolder},
        key_owners::KeyOwners,
        permissions::Scope,
        sessions::{Session as Stored, Sessions},
        users::{User, Users},
    },
    audit::Actor,
    aws::from_env::FromEnv,
    error::{Error, ForbiddenReason, Result},
    id::{TenantId, UserId},
    telemetry::metrics,
    timestamp::Timestamp,
};

/// Determines whether a caller may call a route. `W` is the type of the stores that identify callers.
pub trait Access<W>: Send + 'static {
    /// The caller, as passed to the handler.
    type Caller: Identity + Send;

    /// The accepted credentials, in order of precedence.
    const CREDENTIALS: &'static [Credential];

    /// Identifies the caller. Fails if they may not call the route.
    fn identify(callers: &W, call: &Call<()>) -> impl Future<Output = Result<Self::Caller>> + Send;
}

/// A caller's identity.
pub trait Identity {
    /// The organization whose data the call uses, for the log.
    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    /// The actor for the audit log, if the caller is known.
    fn actor(&self) -> Option<Actor> {
        None
    }
}

impl Identity for () {}

/// An organization does not identify the actor, so routes that record changes use [`Verified`] instead of [`Tenant`].
impl Identity for TenantId {
    fn tenant(&self) -> Option<&TenantId> {
        Some(self)
    }
}

impl Identity for User {
    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.organization)
    }

    fn actor(&self) -> Option<Actor> {
        Some(self.actor())
    }
}

impl Identity for SignedIn {
    fn tenant(&self) -> Option<&TenantId> {
        self.user.tenant()
    }

    fn actor(&self) -> Option<Actor> {
        Some(self.user.actor())
    }
}

impl Identity for Caller {
    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.organization)
    }

    fn actor(&self) -> Option<Actor> {
        Some(self.actor())
    }
}

impl<C: Identity> Identity for Option<C> {
    fn tenant(&self) -> Option<&TenantId> {
        self.as_ref().and_then(C::tenant)
    }

    fn actor(&self) -> Option<Actor> {
        self.as_ref().and_then(C::actor)
    }
}

/// The stores that identify callers: [`Callers`], [`People`] or [`NoCallers`].
pub trait CallerStores: FromEnv + Send + Sync + 'static {}

impl CallerStores for NoCallers {}
impl CallerStores for People {}
impl CallerStores for Callers {}

/// No stores, for a function that has only [`Public`] routes.
pub type NoCallers = ();

crate::from_env! {
    /// The stores that identify signed-in users.
    pub struct People {
        sessions: Sessions,
        users: Users,
    }
}

impl AsRef<Self> for People {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl People {
    /// Finds the session for a call's cookie. Returns `None` if there is no cookie or the session has ended.
    async fn session(&self, call: &Call<()>) -> Result<Option<Stored>> {
        match call.session() {
            Some(token) => self.sessions.find(&token, Timestamp::now()).await,
            None => Ok(None),
        }
    }

    /// Finds the user whose session the call's cookie contains, and records that the session was used today.
    ///
    /// # Errors
    /// Their organization requires a second factor, they have none, and the route is not for setting one up
    /// ([`ForbiddenReason::TwoFactorRequired`]); or a call fails. Keys are not affected: programs have no second factor, and
    /// deleting keys is a separate decision.
    async fn signed_in(&self, call: &Call<()>) -> Result<Option<SignedIn>> {
        let Some(session) = self.session(call).await? else { return Ok(None) };
        let user = self.users.find(session.user).await?.filter(|user| session.is_of(user));
        let Some(user) = user else { return Ok(None) };
        if !call.before_two_factor {
            user.check_two_factor()?;
        }
        log_failure(self.sessions.note_use(&session, Timestamp::now()).await);
        Ok(Some(SignedIn { user, session }))
    }
}

/// Logs a failure to record the use of a credential. The call succeeds anyway.
fn log_failure(result: Result<()>) {
    metrics::upkeep("identifying the caller", result);
}

crate::from_env! {
    /// The stores that identify users by key or session.
    pub struct Callers {
        keys: KeyOwners,
        people: People,
    }
}

impl AsRef<People> for Callers {
    fn as_ref(&self) -> &People {
        &self.people
    }
}

impl Callers {
    /// Identifies the caller by the key in the header. Returns `None` if there is no key, or if it is malformed or has
    /// ended.
    ///
    /// # Errors
    /// The key lacks the scope that the route requires.
    async fn of_key(&self, call: &Call<()>) -> Result<Option<Caller>> {
        let (Some(key), now) = (call.header(API_KEY).and_then(ApiKey::parse), Timestamp::now()) else {
            return Ok(None);
        };
        let Some((key, user)) = self.keys.find(&key, now).await? else { return Ok(None) };
        log_failure(self.keys.note_use(&key, call.client, now).await);
        if call.needed == ScopeRequirement::Undeclared && key.permissions.scopes().is_some() {
            return Err(Error::SessionRequired);
        }
        call.needed.always().map_or(Ok(()), |scope| key.permissions.check(scope))?;
        let organization = key.tenant.clone();
        let by = match user {
            Some(user) => By::Key { user, key },
            None => By::OrganizationKey(key),
        };
        Ok(Some(Caller { organization, by }))
    }

    /// Identifies the caller by the session in the cookie.
    async fn of_session(&self, call: &Call<()>) -> Result<Option<Caller>> {
        let signed_in = self.people.signed_in(call).await?;
        Ok(signed_in.map(|SignedIn { user, session }| Caller {
            organization: user.organization.clone(),
            by: By::Session { user, session },
        }))
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
}

/// An organization key, or a user with a verified email who calls with a key or a session. Missing, malformed, unknown
/// and ended credentials, and those of deleted users, all cause the same response.
///
/// A key takes precedence over a session: browsers add cookies automatically, but clients send a key on purpose, and
/// the key determines the organization. Within its scopes, a key may do everything that a session may on these routes.
pub struct Verified;

impl Access<Callers> for Verified {
    type Caller = Caller;
    const CREDENTIALS: &'static [Credential] = &[Credential::Key, Credential::Session];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<Caller> {
        let caller = match call.header(API_KEY) {
            Some(_) => callers.of_key(call).await,
            None => callers.of_session(call).await,
        };
        let caller = caller?.ok_or(Error::Unauthorized)?;
        caller.any_user().map_or(Ok(()), User::check_verified)?;
        Ok(caller)
    }
}

/// A [`Verified`] caller with any role, who acts for their organization.
pub struct Tenant;

impl Access<Callers> for Tenant {
    type Caller = TenantId;
    const CREDENTIALS: &'static [Credential] = Verified::CREDENTIALS;

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<TenantId> {
        Ok(Verified::identify(callers, call).await?.organization)
    }
}

/// The caller's organization, and the call's credential.
pub struct Caller {
    pub organization: TenantId,
    pub by: By,
}

/// A call's credential, with the user that it acts for.
pub enum By {
    /// A session cookie.
    Session { user: User, session: Stored },
    /// A personal API key, which acts for the user who issued it.
    Key { user: User, key: KeyHolder },
    /// An API key that acts for the organization.
    OrganizationKey(KeyHolder),
}

impl Caller {
    /// Whether the credential is a session rather than a key.
    pub fn is_session(&self) -> bool {
        matches!(self.by, By::Session { .. })
    }

    /// The call's key; `None` for a session.
    pub fn key(&self) -> Option<&KeyHolder> {
        match &self.by {
            By::Session { .. } => None,
            By::Key { key, .. } | By::OrganizationKey(key) => Some(key),
        }
    }

    /// The user that the call acts for; `None` for an organization key.
    pub fn any_user(&self) -> Option<&User> {
        match &self.by {
            By::Session { user, .. } | By::Key { user, .. } => Some(user),
            By::OrganizationKey(_) => None,
        }
    }

    /// The user that the call acts for.
    ///
    /// # Errors
    /// The call was made with an organization key ([`ForbiddenReason::NotAUser`]).
    pub fn user(&self) -> Result<&User> {
        self.any_user().ok_or(Error::Forbidden(ForbiddenReason::NotAUser))
    }

    /// Whether a call with this credential may use `scope`. A session may use all scopes.
    pub fn has_scope(&self, scope: Scope) -> bool {
        self.check_scope(scope).is_ok()
    }

    /// Checks that a call with this credential may use `scope`.
    ///
    /// # Errors
    /// The call was made with a key that lacks this scope ([`ForbiddenReason::ScopeMissing`]).
    pub fn check_scope(&self, scope: Scope) -> Result<()> {
        self.key().map_or(Ok(()), |key| key.permissions.check(scope))
    }

    /// Checks that the caller is an owner, or uses an organization key, which only owners can issue.
    ///
    /// # Errors
    /// The caller is a member ([`ForbiddenReason::OwnersOnly`]).
    pub fn check_owner(&self) -> Result<()> {
        self.any_user().map_or(Ok(()), User::check_owner)
    }

    /// The caller as an audit log actor: the call's key or, without a key, the user.
    pub fn actor(&self) -> Actor {
        match &self.by {
            By::Session { user, .. } => user.actor(),
            By::Key { user, key } => key.actor(Some(user)),
            By::OrganizationKey(key) => key.actor(None),
        }
    }

    /// The member whose keys the caller manages; `None` for owners and organization keys, which manage all.
    pub fn manages_keys_of(&self) -> Option<UserId> {
        self.any_user().and_then(User::manages_keys_of)
    }
}

/// A user with a session or a key, or an anonymous caller.
///
/// A session takes precedence over a key. On these routes, a session has more permissions, and a client with a key in
/// its environment sends that key with every call, even after its user has signed in.
pub struct AnyCaller;

impl Access<Callers> for AnyCaller {
    type Caller = Option<Caller>;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session, Credential::Key, Credential::None];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<Option<Caller>> {
        if let Some(caller) = callers.of_session(call).await? {
            return Ok(Some(caller));
        }
        callers.of_key(call).await
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
}

/// A user, and the session they are signed in with.
pub struct SignedIn {
    pub user: User,
    pub session: Stored,
}

/// A signed-in user. Keys are not accepted, because a leaked key must not be able to issue keys that outlive it or to
/// sign out its owner. A key sent with a session is ignored.
pub struct Session;

impl Access<Callers> for Session {
    type Caller = SignedIn;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<SignedIn> {
        match KeyOrSession::identify(callers, call).await?.by {
            By::Session { user, session } => Ok(SignedIn { user, session }),
            By::Key { .. } | By::OrganizationKey(_) => Err(Error::SessionRequired),
        }
    }
}

/// A visitor to a page for signed-in users. A browser without a session is redirected to the sign-in page, and sent
/// back after the sign-in. Keys are ignored.
pub struct Person;

impl<W: AsRef<People> + Sync> Access<W> for Person {
    type Caller = SignedIn;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session];

    async fn identify(stores: &W, call: &Call<()>) -> Result<SignedIn> {
        stores.as_ref().signed_in(call).await?.ok_or(Error::Unauthorized)
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
}

/// A visitor to a page, signed in or not. Keys are ignored.
pub struct Visitor;

impl Access<Callers> for Visitor {
    type Caller = Option<SignedIn>;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session, Credential::None];

    async fn identify(callers: &Callers, call: &Call<()>) -> Result<Option<SignedIn>> {
        callers.people.signed_in(call).await
    }
}
