//! Authentication: by API key, by session cookie, or none.

use crate::{
    accounts::{
        api_keys::{ApiKey, ApiKeys, KeyHolder},
        sessions::{Session as Stored, Sessions},
        users::{User, Users},
    },
    error::{Error, Result},
    http::Call,
    id::TenantId,
    timestamp::Timestamp,
};

/// Who may call a route of an app `A`.
pub trait Access<A>: Send + 'static {
    /// What the handler learns about the caller.
    type Caller: Send;

    /// The accepted credentials, for the description of the API.
    const CREDENTIALS: &'static [Credential];

    /// Identifies the caller, and refuses one who may not call.
    fn identify(app: &A, call: &Call<()>) -> impl Future<Output = Result<Self::Caller>> + Send;

    /// The tenant whose data the call concerns, for the log.
    fn tenant(caller: &Self::Caller) -> Option<&TenantId>;
}

/// A kind of credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The `x-api-key` header.
    Key,
    /// The session cookie.
    Session,
    /// None: the route can be called without a credential.
    None,
}

/// Open to everybody.
pub struct Public;

impl<A: Sync> Access<A> for Public {
    type Caller = ();
    const CREDENTIALS: &'static [Credential] = &[Credential::None];

    async fn identify(_: &A, _: &Call<()>) -> Result<()> {
        Ok(())
    }

    fn tenant((): &()) -> Option<&TenantId> {
        None
    }
}

/// Holders of an API key. A missing, malformed, unknown or revoked key all give the same answer.
pub struct Key;

impl<A: AsRef<ApiKeys> + Sync> Access<A> for Key {
    type Caller = KeyHolder;
    const CREDENTIALS: &'static [Credential] = &[Credential::Key];

    async fn identify(app: &A, call: &Call<()>) -> Result<KeyHolder> {
        let holder = match call.header("x-api-key").and_then(ApiKey::parse) {
            Some(key) => AsRef::<ApiKeys>::as_ref(app).holder(&key).await?,
            None => None,
        };
        holder.ok_or(Error::Unauthorized)
    }

    fn tenant(holder: &KeyHolder) -> Option<&TenantId> {
        Some(&holder.tenant)
    }
}

/// A user, and the credential they called with.
pub struct Caller {
    /// The user.
    pub user: User,
    /// The credential.
    pub by: By,
}

/// The credential a user called with.
pub enum By {
    /// A session cookie.
    Session(Stored),
    /// An API key, which acts for the user who issued it.
    Key(KeyHolder),
}

/// A user with a key or a session, or an anonymous caller.
pub struct AnyCaller;

impl<A: AsRef<ApiKeys> + AsRef<Sessions> + AsRef<Users> + Sync> Access<A> for AnyCaller {
    type Caller = Option<Caller>;
    const CREDENTIALS: &'static [Credential] = &[Credential::Key, Credential::Session, Credential::None];

    async fn identify(app: &A, call: &Call<()>) -> Result<Option<Caller>> {
        // A key takes precedence over a cookie: browsers add cookies by themselves, but a key is sent on purpose.
        let by = match call.header("x-api-key") {
            Some(key) => match ApiKey::parse(key) {
                Some(key) => AsRef::<ApiKeys>::as_ref(app).holder(&key).await?.map(By::Key),
                None => None,
            },
            None => match call.session() {
                Some(token) => AsRef::<Sessions>::as_ref(app).find(&token, Timestamp::now()).await?.map(By::Session),
                None => None,
            },
        };
        let Some(by) = by else { return Ok(None) };
        let id = match &by {
            By::Session(session) => session.user,
            By::Key(holder) => holder.user,
        };
        let user = AsRef::<Users>::as_ref(app).find(id).await?;
        Ok(user.map(|user| Caller { user, by }))
    }

    fn tenant(caller: &Option<Caller>) -> Option<&TenantId> {
        caller.as_ref().map(|caller| &caller.user.organization)
    }
}

/// A user with a key or a session.
pub struct KeyOrSession;

impl<A: AsRef<ApiKeys> + AsRef<Sessions> + AsRef<Users> + Sync> Access<A> for KeyOrSession {
    type Caller = Caller;
    const CREDENTIALS: &'static [Credential] = &[Credential::Key, Credential::Session];

    async fn identify(app: &A, call: &Call<()>) -> Result<Caller> {
        AnyCaller::identify(app, call).await?.ok_or(Error::Unauthorized)
    }

    fn tenant(caller: &Caller) -> Option<&TenantId> {
        Some(&caller.user.organization)
    }
}

/// A signed-in user. Keys are not accepted: a leaked key must not be able to issue others that outlive it.
pub struct Session;

impl<A: AsRef<ApiKeys> + AsRef<Sessions> + AsRef<Users> + Sync> Access<A> for Session {
    type Caller = User;
    const CREDENTIALS: &'static [Credential] = &[Credential::Session];

    async fn identify(app: &A, call: &Call<()>) -> Result<User> {
        match KeyOrSession::identify(app, call).await? {
            Caller { user, by: By::Session(_) } => Ok(user),
            Caller { by: By::Key(_), .. } => Err(Error::SessionRequired),
        }
    }

    fn tenant(user: &User) -> Option<&TenantId> {
        Some(&user.organization)
    }
}
