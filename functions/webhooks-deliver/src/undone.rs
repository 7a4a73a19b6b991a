//! Why a record is not done.

use std::any::Any;

use common::{error::Error, webhooks::event::Malformed};

/// Why a record stays in its queue.
pub(crate) enum Undone {
    /// It can never succeed; the queue's redrive policy moves it to the dead-letter queue.
    Malformed(Malformed),
    /// It failed on our side, and can be tried again.
    Failed(Error),
    /// Handling it panicked. The other records of the batch are not affected.
    Panicked(Box<dyn Any + Send>),
}

impl From<Malformed> for Undone {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
