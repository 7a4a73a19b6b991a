//! The due attempts that this process is working on. Two messages for the same attempt are often in one batch.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use common::{lock::lock, webhooks::delivery::DueAttempt};

/// The attempts in progress. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct InProgress(Arc<Mutex<HashSet<DueAttempt>>>);

/// Keeps an attempt marked as in progress until dropped.
pub(crate) struct Mark(InProgress, DueAttempt);

impl InProgress {
    /// Marks an attempt as in progress. Returns `None` if it already is: another message then represents both.
    pub(crate) fn begin(&self, due: DueAttempt) -> Option<Mark> {
        let is_new = lock(&self.0).insert(due.clone());
        is_new.then(|| Mark(self.clone(), due))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let Self(InProgress(attempts), due) = self;
        lock(attempts).remove(due);
    }
}
