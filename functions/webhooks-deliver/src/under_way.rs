//! The messages that this process is working on: two messages for the same attempt are often in the same batch.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use common::webhooks::queue::Message;

/// The messages whose work is in progress. Cloning is cheap, and shares them.
#[derive(Clone, Default)]
pub(crate) struct UnderWay(Arc<Mutex<HashSet<Message>>>);

/// A message whose work is in progress, until this is dropped.
pub(crate) struct Mark {
    messages: UnderWay,
    message: Message,
}

impl UnderWay {
    /// Marks the work of a message as in progress. `None` if it already is: the other message then stands for both.
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
