//! The properties of messages that the embedded SQS does not store: groups, and ids and times from an earlier process.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Mutex, MutexGuard, Weak,
        atomic::{AtomicI64, Ordering},
    },
};

use common::lock::lock;
use rustack_sqs_core::queue::extract_queue_name;
use rustack_sqs_model::types::{self, MessageAttributeValue};

use super::journal::{self, Change, Journal, Message, Written};

/// All messages of standard queues.
///
/// A message may be received before its sender gets the response with the id. A send therefore holds a shared lock
/// until the message is recorded, and a receive or a purge takes an exclusive one.
pub(super) struct Messages {
    /// Keyed by the inner id, which the embedded SQS assigned to the message and includes in receipt handles.
    notes: Mutex<HashMap<String, Note>>,
    next_key: AtomicI64,
    /// `None` if messages are not kept.
    journal: Option<Weak<Journal>>,
    /// The messages from an earlier process, by queue, until that queue is created.
    earlier: HashMap<String, Vec<Message>>,
}

/// The properties of a message. The embedded SQS rejects groups on standard queues. The real SQS uses such groups to
/// share the queue fairly, and returns them with received messages. (The order in which it serves groups is
/// unspecified.)
struct Note {
    key: i64,
    id: String,
    sent: i64,
    group: Option<String>,
}

impl Messages {
    pub(super) fn new(journal: Option<Weak<Journal>>, earlier: Vec<Message>) -> Self {
        let next_key = earlier.last().map_or(0, |message| message.key + 1).into();
        let mut by_queue = HashMap::<_, Vec<_>>::new();
        for message in earlier {
            by_queue.entry(message.queue.clone()).or_default().push(message);
        }
        Self { notes: Mutex::default(), next_key, journal, earlier: by_queue }
    }

    /// Whether messages outlive the process.
    pub(super) fn are_kept(&self) -> bool {
        self.journal.is_some()
    }

    /// Builds the record of a message that is about to be sent to a standard queue.
    pub(super) fn prepare(
        &self,
        queue_url: &str,
        body: &str,
        attributes: &HashMap<String, MessageAttributeValue>,
        delay: Option<i32>,
        group: Option<String>,
    ) -> Message {
        Message {
            key: self.next_key.fetch_add(1, Ordering::Relaxed),
            receives: 0,
            queue: queue_name(queue_url).to_owned(),
            id: uuid::Uuid::new_v4().to_string(),
            sent: journal::now(),
            delay,
            group,
            attributes: attributes.clone(),
            body: body.to_owned(),
        }
    }

    /// Writes messages that the embedded SQS has accepted to the journal.
    pub(super) fn accepted(&self, messages: Vec<Message>) -> Written {
        if messages.is_empty() { Written::nothing() } else { self.write(Change::Accepted(messages)) }
    }

    /// Records a message to which the embedded SQS assigned `answered_id`, and replaces that id with the message's own.
    pub(super) fn note(&self, answered_id: &mut String, message: &Message) {
        let Message { key, sent, .. } = *message;
        let inner_id = mem::replace(answered_id, message.id.clone());
        self.notes().insert(inner_id, Note { key, sent, id: message.id.clone(), group: message.group.clone() });
    }

    /// Restores the properties of a received message. Returns its key.
    pub(super) fn complete(&self, message: &mut types::Message, wants_group: bool) -> Option<i64> {
        let notes = self.notes();
        let note = notes.get(message.message_id.as_ref()?)?;
        message.message_id = Some(note.id.clone());
        if let Some(sent) = message.attributes.get_mut("SentTimestamp") {
            *sent = note.sent.to_string();
        }
        let group = note.group.clone().filter(|_| wants_group);
        message.attributes.extend(group.map(|group| ("MessageGroupId".to_owned(), group)));
        Some(note.key)
    }

    /// Writes a [`Change::Received`] to the journal. Callers do not wait for this: if the change is lost, the process
    /// has died, so the receive has failed anyway.
    pub(super) fn received(&self, messages: Vec<(i64, String, u32)>) {
        drop(self.write(Change::Received(messages)));
    }

    /// Deletes messages from the journal.
    pub(super) fn deleted(&self, inner_ids: &[String]) -> Written {
        let notes = self.notes();
        let keys: Vec<_> = inner_ids.iter().filter_map(|id| Some(notes.get(id)?.key)).collect();
        if keys.is_empty() { Written::nothing() } else { self.write(Change::Deleted(keys)) }
    }

    /// Removes messages that were deleted.
    pub(super) fn forget(&self, inner_ids: &[String]) {
        let mut notes = self.notes();
        for id in inner_ids {
            notes.remove(id);
        }
    }

    /// Deletes all of a queue's messages from the journal.
    pub(super) fn purged(&mut self, queue: &str) -> Written {
        self.earlier.remove(queue);
        self.write(Change::Purged(queue.to_owned()))
    }

    /// Returns the messages that a queue contained in an earlier process. Later calls return none.
    pub(super) fn take_earlier(&mut self, queue: &str) -> Vec<Message> {
        self.earlier.remove(queue).unwrap_or_default()
    }

    fn notes(&self) -> MutexGuard<'_, HashMap<String, Note>> {
        lock(&self.notes)
    }

    fn write(&self, change: Change) -> Written {
        match &self.journal {
            None => Written::nothing(),
            Some(journal) => journal.upgrade().map_or_else(Written::too_late, |journal| journal.write(change)),
        }
    }
}

pub(super) fn queue_name(queue_url: &str) -> &str {
    extract_queue_name(queue_url).unwrap_or_default()
}
