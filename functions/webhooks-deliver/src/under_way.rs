//! The attempts that this process is making: two messages for the same one may well be in the same batch.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use common::webhooks::queue::DueAttempt;

/// The attempts under way. Cloning is cheap, and shares them.
#[derive(Clone, Default)]
pub(crate) struct UnderWay(Arc<Mutex<HashSet<DueAttempt>>>);

/// An attempt under way, until this is dropped.
pub(crate) struct Mark {
    attempts: UnderWay,
    attempt: DueAttempt,
}

impl UnderWay {
    /// Marks an attempt as under way. `None` if it is already: then its other message answers for it.
    pub(crate) fn begin(&self, attempt: DueAttempt) -> Option<Mark> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(attempt.clone());
        is_new.then(|| Mark { attempts: self.clone(), attempt })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.attempts.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.attempt);
    }
}
