//! Adds entries to transactions, with the actor and the client of the current task.

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

tokio::task_local! {
    static CURRENT: Option<Recorder>;
}

/// The audit log table, and the origin of a task's changes.
#[derive(Clone, Debug)]
pub struct Recorder {
    table: Arc<str>,
    origin: Origin,
    /// The actions that the route declares; `None` outside of routes.
    declared: Option<&'static [Action]>,
}

/// The actor of a change, and the actor's client.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The actor, if known before the change.
    pub actor: Option<Actor>,
    /// The address of the actor's client.
    pub ip: Option<String>,
    /// The client's `User-Agent`, which is untrusted.
    pub user_agent: Option<String>,
}

impl Recorder {
    /// The recorder for the changes that a route declares.
    pub(crate) fn of_route(env: &Env, declared: &'static [Action]) -> Result<Self, ConfigError> {
        Ok(Self { declared: Some(declared), ..Self::system(env)? })
    }

    /// The recorder for changes by the service itself.
    pub fn system(env: &Env) -> Result<Self, ConfigError> {
        Ok(Self { table: env.required("AUDIT_TABLE")?.into(), origin: Origin::default(), declared: None })
    }

    /// Returns a recorder like this one, but with a different origin of changes.
    pub(crate) fn with(&self, origin: Origin) -> Self {
        Self { origin, ..self.clone() }
    }

    /// Runs `future` and records its changes. `future` must not spawn tasks that make changes.
    pub async fn within<F: Future>(self, future: F) -> F::Output {
        within(Some(self), future).await
    }
}

/// Runs `future`. Without a recorder, changes that have to be recorded fail.
pub(crate) async fn within<F: Future>(recorder: Option<Recorder>, future: F) -> F::Output {
    CURRENT.scope(recorder, future).await
}

impl Transaction {
    /// Adds an audit log entry, which is stored with the other writes or not at all.
    ///
    /// # Errors
    /// The task has no recorder, or the actor is unknown.
    pub(crate) fn record(self, entry: Entry) -> Result<Self> {
        let Entry { action, organization, target, changes, actor, is_from_outside } = entry;
        let recorder = CURRENT.try_with(Option::clone).ok().flatten();
        let broken = |problem| Error::Internal(format!("recording {action}: {problem}"));
        let Recorder { table, origin, declared } = recorder.ok_or_else(|| broken("there is no recorder"))?;
        debug_assert!(
            declared.is_none_or(|declared| declared.contains(&action)),
            "the route does not declare {action}"
        );
        let own = declared.is_none().then(Actor::system);
        let mut actor = actor.or(origin.actor).or(own).ok_or_else(|| broken("the actor is unknown"))?;
        if is_from_outside {
            actor.name = None;
        }
        // A change by the service must not be attributed to the caller's client.
        let has_client = !is_from_outside && actor.kind != ActorKind::System;
        let (ip, user_agent) = if has_client { (origin.ip, origin.user_agent) } else { (None, None) };
        let now = Timestamp::now();
        let actor_id = actor.id.clone();
        let entry = api::audit::Entry {
            at: now.to_string().into(),
            action: action.into(),
            actor,
            ip,
            user_agent,
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
        Ok(self.put_new(&table, ENTRY, item))
    }
}
