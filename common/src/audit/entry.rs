//! Audit log entries, as built by the stores.

use api::audit::{Action, Actor, Change, Target, TargetKind};

use crate::id::TenantId;

/// The maximum number of characters to keep from a value.
const VALUE_LENGTH: usize = 1000;

/// A change to record.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(super) action: Action,
    pub(super) organization: TenantId,
    pub(super) target: Target,
    pub(super) changes: Vec<Change>,
    pub(super) actor: Option<Actor>,
    pub(super) is_from_outside: bool,
}

impl Entry {
    pub(crate) fn new(action: Action, organization: &TenantId, target: Target) -> Self {
        Self {
            action,
            organization: organization.clone(),
            target,
            changes: Vec::new(),
            actor: None,
            is_from_outside: false,
        }
    }

    /// Names the actor, if `http` does not know the caller or the caller is not the actor.
    pub(crate) fn by(self, actor: Actor) -> Self {
        Self { actor: Some(actor), ..self }
    }

    /// Omits the actor's name and client: the actor is not a member, so the organization does not need them.
    pub(crate) fn of_outsider(self) -> Self {
        Self { is_from_outside: true, ..self }
    }

    /// Adds changed fields.
    pub(crate) fn with(mut self, changes: impl IntoIterator<Item = Change>) -> Self {
        self.changes.extend(changes);
        self
    }
}

/// The object of this kind with this id, and its human-readable name.
pub(crate) fn target(kind: TargetKind, id: impl ToString, name: impl Into<Option<String>>) -> Target {
    Target { kind: kind.into(), id: id.to_string(), name: name.into() }
}

/// A field whose value changed from `old` to `new`.
pub(crate) fn change(field: &'static str, old: Option<String>, new: Option<String>) -> Change {
    let cut = |value: String| match value.char_indices().nth(VALUE_LENGTH) {
        Some((end, _)) => value.get(..end).unwrap_or_default().to_owned(),
        None => value,
    };
    Change { field: field.to_owned(), old: old.map(cut), new: new.map(cut) }
}

/// A field of a new object.
pub(crate) fn initial(field: &'static str, value: impl ToString) -> Change {
    change(field, None, Some(value.to_string()))
}

/// A field whose values are secrets.
pub(crate) fn hidden(field: &'static str) -> Change {
    change(field, None, None)
}
