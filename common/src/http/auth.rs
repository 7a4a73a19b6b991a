//! Who calls: by an API key, by a session's cookie, or anybody.

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

/// Who may call a route of an app `A`, and who does.
pub trait Access<A>: Send + 'static {
    /// What the handler gets to know of the caller.
    type Caller: Send;

    /// What the credentials are called in descriptions.
    const CREDENTIALS: &'static [Credential];

    /// The caller, if there is one who may call.
    fn identify(app: &A, call: &Call<()>) -> impl Future<Output = Result<Self::Caller>> + Send;

    /// Whose data the call is about, for the log.
    fn tenant(caller: &Self::Caller) -> Option<&TenantId>;
}

/// What a caller shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// The `x-api-key` header.
    Key,
    /// The session cookie.
    Session,
    /// Nothing: the route can be called without any credential.
    None,
}

/// Anybody.
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

/// Who holds an API key. A missing, malformed, unknown and revoked key get the same answer.
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

/// A user, and how they called.
pub struct Caller {
    /// Who.
    pub user: User,
    /// How.
    pub by: By,
}

/// What a user called with.
pub enum By {
    /// The cookie of this session.
    Session(Stored),
    /// A key, which acts for the user who issued it.
    Key(KeyHolder),
}

/// A user by a key or a session, or nobody that we know.
pub struct AnyCaller;

impl<A: AsRef<ApiKeys> + AsRef<Sessions> + AsRef<Users> + Sync> Access<A> for AnyCaller {
    type Caller = Option<Caller>;
    const CREDENTIALS: &'static [Credential] = &[Credential::Key, Credential::Session, Credential::None];

    async fn identify(app: &A, call: &Call<()>) -> Result<Option<Caller>> {
        // A key goes before a cookie: who sends one means it.
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

/// A user by a key or a session.
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

/// A user who is signed in. A key will not do: one that leaked must not be able to issue others that outlive it.
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
