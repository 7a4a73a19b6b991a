//! Adds entries to transactions, with the actor and their client.

use std::sync::Arc;

use api::audit::{Action, Actor, ActorKind};

use super::{
    entry::Entry,
    table::{ACTION, ACTOR_ID, DETAILS, ENTRY, EXPIRES_AT, KEPT_SECONDS, Position, TENANT_ID},
};
use crate::{
    aws::{
        dynamo::{item, number, text},
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    timestamp::Timestamp,
};

/// The audit log table, and the origin of the changes to record there.
#[derive(Clone, Debug)]
pub struct Recorder {
    table: Arc<str>,
    origin: ChangeOrigin,
    /// The actions that the route declares; `None` outside of routes.
    declared: Option<&'static [Action]>,
}

/// The actor of a change, and the actor's client.
#[derive(Clone, Debug, Default)]
pub struct ChangeOrigin {
    /// The actor, if known before the change.
    pub actor: Option<Actor>,
    /// The address of the actor's client.
    pub ip: Option<String>,
    /// The client's `User-Agent`, which is untrusted.
    pub user_agent: Option<String>,
}

/// The type of a route's recorder: [`Recorder`], or `()` if the audit log records no changes of the route.
pub trait RouteRecorder: Clone + Send + Sync + 'static {
    /// The recorder for the changes that a route declares.
    fn of_route(env: &Env, declared: &'static [Action]) -> Result<Self, ConfigError>;

    /// Returns a recorder like this one, but with a different origin of changes.
    fn with(&self, origin: impl FnOnce() -> ChangeOrigin) -> Self;
}

impl RouteRecorder for () {
    fn of_route(_: &Env, _: &'static [Action]) -> Result<Self, ConfigError> {
        Ok(())
    }

    fn with(&self, _: impl FnOnce() -> ChangeOrigin) -> Self {}
}

impl RouteRecorder for Recorder {
    fn of_route(env: &Env, declared: &'static [Action]) -> Result<Self, ConfigError> {
        Ok(Self { declared: Some(declared), ..Self::system(env)? })
    }

    fn with(&self, origin: impl FnOnce() -> ChangeOrigin) -> Self {
        Self { origin: origin(), ..self.clone() }
    }
}

impl Recorder {
    /// The recorder for changes by the service itself.
    pub fn system(env: &Env) -> Result<Self, ConfigError> {
        Ok(Self { table: env.required("AUDIT_TABLE")?.into(), origin: ChangeOrigin::default(), declared: None })
    }
}

impl Transaction {
    /// Adds an audit log entry, which is stored with the other writes or not at all.
    ///
    /// # Errors
    /// The actor is unknown.
    pub(crate) fn record(self, recorder: &Recorder, entry: Entry) -> Result<Self> {
        let Entry { action, organization, target, changes, actor, is_from_outside } = entry;
        let Recorder { table, origin, declared } = recorder;
        debug_assert!(
            declared.is_none_or(|declared| declared.contains(&action)),
            "the route does not declare {action}"
        );
        let own = declared.is_none().then(Actor::system);
        let actor = actor.or_else(|| origin.actor.clone()).or(own);
        let unknown = || Error::Internal(format!("recording {action}: the actor is unknown"));
        let mut actor = actor.ok_or_else(unknown)?;
        if is_from_outside {
            actor.name = None;
        }
        // A change by the service must not be attributed to the caller's client.
        let has_client = !is_from_outside && actor.kind != ActorKind::System;
        let client = if has_client { origin.clone() } else { ChangeOrigin::default() };
        let now = Timestamp::now();
        let actor_id = actor.id.clone();
        let entry = api::audit::Entry {
            at: now.to_string().into(),
            action: action.into(),
            actor,
            ip: client.ip,
            user_agent: client.user_agent,
            target,
            changes,
        };
        let details = serde_json::to_string(&entry).map_err(Error::internal("writing an audit entry"))?;
        let item = item([
            (TENANT_ID, text(organization)),
            (ENTRY, text(Position::new(now))),
            (ACTION, text(action)),
            (ACTOR_ID, text(actor_id)),
            (DETAILS, text(details)),
            (EXPIRES_AT, number(now.as_second() + KEPT_SECONDS)),
        ]);
        Ok(self.put_new(table, ENTRY, item))
    }

    /// Adds several audit log entries.
    ///
    /// # Errors
    /// Same as [`Self::record`].
    pub(crate) fn record_all(self, recorder: &Recorder, entries: impl IntoIterator<Item = Entry>) -> Result<Self> {
        entries.into_iter().try_fold(self, |writes, entry| writes.record(recorder, entry))
    }
}
