//! The due attempts that this process is working on: two messages for the same attempt are often in the same batch.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use common::webhooks::delivery::DueAttempt;

/// The attempts in progress. Cloning is cheap, and shares them.
#[derive(Clone, Default)]
pub(crate) struct InProgress(Arc<Mutex<HashSet<DueAttempt>>>);

/// An attempt in progress, until this is dropped.
pub(crate) struct Mark(InProgress, DueAttempt);

impl InProgress {
    /// Marks an attempt as in progress. `None` if it already is: the other message then represents both.
    pub(crate) fn begin(&self, due: DueAttempt) -> Option<Mark> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(due.clone());
        is_new.then(|| Mark(self.clone(), due))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let Self(InProgress(attempts), due) = self;
        attempts.lock().unwrap_or_else(PoisonError::into_inner).remove(due);
    }
}
