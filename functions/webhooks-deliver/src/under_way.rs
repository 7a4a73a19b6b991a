//! What this process is working on: two messages for the same attempt may well be in the same batch.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use common::webhooks::queue::Message;

/// The messages whose work is under way. Cloning is cheap, and shares them.
#[derive(Clone, Default)]
pub(crate) struct UnderWay(Arc<Mutex<HashSet<Message>>>);

/// A message whose work is under way, until this is dropped.
pub(crate) struct Mark {
    messages: UnderWay,
    message: Message,
}

impl UnderWay {
    /// Marks the work of a message as under way. `None` if it already is: then the other message answers for both.
    pub(crate) fn begin(&self, message: Message) -> Option<Mark> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(message.clone());
        is_new.then(|| Mark { messages: self.clone(), message })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.messages.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.message);
    }
}
