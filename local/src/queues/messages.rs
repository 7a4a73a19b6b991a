//! The standard queues with their messages, in memory and in the journal.
//!
//! One lock guards all queues, so a message moves to a dead-letter queue in one step, and the journal contains all
//! changes in the order in which they happened. No call holds the lock while it waits.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use common::lock::lock;
use rustack_sqs_core::queue::{QueueAttributes, extract_queue_name};
use rustack_sqs_model::{
    error::SqsError,
    input::ReceiveMessageInput,
    types::{self, MessageAttributeValue},
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{
    errors::QueueError,
    journal::{self, Change, Journal, Message, Written},
    limits,
    receipt::Receipt,
    received_message::RequestedAttributes,
    store::{Store, StoredMessage},
};

/// All standard queues.
pub(super) struct Messages {
    /// The account that all messages come from.
    account: String,
    state: Mutex<Contents>,
    next_key: AtomicI64,
    /// `None` if messages are not kept.
    journal: Option<Weak<Journal>>,
}

struct Contents {
    queues: HashMap<String, Queue>,
    /// The messages from an earlier process, by queue, until that queue is created.
    earlier: HashMap<String, Vec<Message>>,
}

struct Queue {
    settings: QueueAttributes,
    max_size: usize,
    arn: Arc<str>,
    store: Store,
    /// Wakes the receive calls that wait for a message.
    changed: Arc<Notify>,
}

/// A queue's dead-letter queue, and the number of receives after which a message moves there.
struct Redrive {
    target: String,
    after: u32,
}

/// A message that is about to be sent.
pub(super) struct Draft {
    pub(super) body: String,
    pub(super) attributes: HashMap<String, MessageAttributeValue>,
    /// The delay in seconds. `None` means the queue's delay.
    pub(super) delay: Option<i32>,
    pub(super) group: Option<String>,
}

/// The part of the response to a sender that describes one message.
pub(super) struct SendResult {
    pub(super) id: String,
    pub(super) md5_of_body: String,
    pub(super) md5_of_attributes: Option<String>,
}

impl Messages {
    pub(super) fn new(account: &str, journal: Option<Weak<Journal>>, earlier: Vec<Message>) -> Self {
        let next_key = earlier.last().map_or(0, |message| message.key + 1).into();
        let mut by_queue = HashMap::<_, Vec<_>>::new();
        for message in earlier {
            by_queue.entry(message.queue.clone()).or_default().push(message);
        }
        let state = Contents { queues: HashMap::new(), earlier: by_queue };
        Self { account: account.to_owned(), state: Mutex::new(state), next_key, journal }
    }

    /// Adds a queue, with its messages from an earlier process, or changes its settings.
    pub(super) fn set_up(&self, name: &str, arn: &str, settings: QueueAttributes, max_size: Option<usize>) {
        let mut state = self.state();
        if let Some(queue) = state.queues.get_mut(name) {
            queue.settings = settings;
            queue.max_size = max_size.unwrap_or(queue.max_size);
            return;
        }
        let (now, wall) = (Instant::now(), journal::now());
        let mut store = Store::default();
        let earlier = state.earlier.remove(name).unwrap_or_default();
        if !earlier.is_empty() {
            tracing::info!(queue = name, messages = earlier.len(), "queue.restored");
        }
        for message in earlier {
            let delay = remaining_delay(&message, settings.delay_seconds, wall);
            store.add(StoredMessage::new(Arc::new(message)), delay, now);
        }
        let (max_size, changed) = (max_size.unwrap_or(limits::MAX_SIZE), Arc::default());
        state.queues.insert(name.to_owned(), Queue { settings, max_size, arn: arn.into(), store, changed });
    }

    /// Removes a queue with its messages.
    pub(super) fn remove(&self, name: &str) -> Written {
        let mut state = self.state();
        let earlier = state.earlier.remove(name).unwrap_or_default();
        let mut keys: Vec<_> = earlier.iter().map(|message| message.key).collect();
        if let Some(queue) = state.queues.remove(name) {
            queue.changed.notify_waiters();
            keys.extend(queue.store.keys());
        }
        self.write(Change::Deleted(keys))
    }

    /// Deletes all of a queue's messages.
    pub(super) fn purge(&self, name: &str) -> Written {
        let mut state = self.state();
        let purged = state.queues.get_mut(name).map(|queue| mem::take(&mut queue.store));
        // By their keys: in the journal, a message that is received for the last time is already in the dead-letter queue.
        self.write(Change::Deleted(purged.iter().flat_map(Store::keys).collect()))
    }

    /// The maximum size of a queue's messages, in bytes.
    pub(super) fn max_size(&self, queue_url: &str) -> Result<usize, QueueError> {
        Ok(self.state().queue(queue_url)?.max_size)
    }

    /// The number of a queue's messages that are visible, in flight and delayed. `None` if there is no such queue.
    pub(super) fn counts(&self, queue_url: &str) -> Option<[usize; 3]> {
        self.state().queue(queue_url).ok().map(|queue| queue.store.counts(Instant::now()))
    }

    /// Sends messages. They are safe once they are written.
    pub(super) fn send(&self, queue_url: &str, drafts: Vec<Draft>) -> Result<(Vec<SendResult>, Written), QueueError> {
        let name = queue_name(queue_url);
        let drafts: Vec<_> = drafts
            .into_iter()
            .map(|draft| {
                let delay = draft.delay;
                (delay, StoredMessage::new(Arc::new(self.message(name, draft))))
            })
            .collect();
        let (mut accepted, mut sent) = (Vec::new(), Vec::new());
        let mut state = self.state();
        let (queue, now) = (state.queue(queue_url)?, Instant::now());
        for (delay, entry) in drafts {
            accepted.push(Arc::clone(&entry.message));
            sent.push(SendResult {
                id: entry.message.id.clone(),
                md5_of_body: entry.md5_of_body.clone(),
                md5_of_attributes: entry.md5_of_attributes.clone(),
            });
            queue.store.add(entry, seconds(delay.unwrap_or(queue.settings.delay_seconds)), now);
        }
        queue.changed.notify_waiters();
        let written = if accepted.is_empty() { Written::nothing() } else { self.write(Change::Accepted(accepted)) };
        Ok((sent, written))
    }

    fn message(&self, queue: &str, draft: Draft) -> Message {
        Message {
            key: self.next_key.fetch_add(1, Ordering::Relaxed),
            receives: 0,
            queue: queue.to_owned(),
            id: uuid::Uuid::new_v4().to_string(),
            sent: journal::now(),
            delay: draft.delay,
            group: draft.group.map(Into::into),
            attributes: draft.attributes,
            body: draft.body,
        }
    }

    /// Receives messages. If none is visible, waits for one.
    pub(super) async fn receive(&self, input: &ReceiveMessageInput) -> Result<Vec<types::Message>, QueueError> {
        let start = Instant::now();
        loop {
            let (changed, wait) = self.waiting(input)?;
            // Created before the messages are read, so no change in between is missed.
            let changed = changed.notified();
            let received = self.take(input)?;
            let end = start + wait;
            if !received.is_empty() || end <= Instant::now() {
                return Ok(received);
            }
            let next_visible = self.state().queue(&input.queue_url)?.store.next_visible();
            tokio::select! {
                () = changed => {}
                () = sleep_until(next_visible.map_or(end, |next| next.min(end))) => {}
            }
        }
    }

    /// Returns the signal that wakes a receive call, and the time for which it waits for a message.
    fn waiting(&self, input: &ReceiveMessageInput) -> Result<(Arc<Notify>, Duration), QueueError> {
        let mut state = self.state();
        let queue = state.queue(&input.queue_url)?;
        let wait = input.wait_time_seconds.unwrap_or(queue.settings.receive_message_wait_time_seconds);
        Ok((Arc::clone(&queue.changed), seconds(wait)))
    }

    /// Receives the messages that are visible now.
    fn take(&self, input: &ReceiveMessageInput) -> Result<Vec<types::Message>, QueueError> {
        let (name, wanted) = (queue_name(&input.queue_url), RequestedAttributes::by(input));
        let most = input.max_number_of_messages.and_then(|most| most.try_into().ok()).unwrap_or(1);
        let mut state = self.state();
        let redrive = state.redrive(name);
        let queue = state.queue(&input.queue_url)?;
        let timeout = seconds(input.visibility_timeout.unwrap_or(queue.settings.visibility_timeout));
        let limit = redrive.as_ref().map_or(u32::MAX, |redrive| redrive.after);
        let now = Instant::now();
        let received = queue.store.receive(most, timeout, limit, now);
        let (mut messages, mut changes) = (Vec::new(), Vec::new());
        for receipt in received.receipts {
            let Some(entry) = queue.store.get(receipt.key) else { continue };
            messages.push(wanted.show(entry, receipt, &self.account));
            // If the last permitted receive fails, the message becomes a dead letter in the next process, too. Queues
            // can be restored in any order, so the move is recorded in advance.
            let last = redrive.as_ref().filter(|redrive| entry.receives >= redrive.after);
            let (queue, receives) = last.map_or((name, entry.receives), |redrive| (redrive.target.as_str(), 0));
            changes.push((receipt.key, queue.to_owned(), receives));
        }
        if !messages.is_empty() {
            // Calls that wait also wait for these messages from now on.
            queue.changed.notify_waiters();
        }
        let source = Arc::clone(&queue.arn);
        if let Some(redrive) = redrive
            && let Some(target) = state.queues.get_mut(&redrive.target)
        {
            for entry in received.dead {
                changes.push((entry.message.key, redrive.target.clone(), 0));
                target.store.add(entry.into_letter(&source), Duration::ZERO, now);
                target.changed.notify_waiters();
            }
        }
        if !changes.is_empty() {
            // Callers do not wait for this: if the change is lost, the process has died, so the receive has failed
            // anyway.
            drop(self.write(Change::Received(changes)));
        }
        Ok(messages)
    }

    /// Deletes the messages with these receipts from a queue. An expired receipt does not delete anything.
    pub(super) fn delete(&self, queue_url: &str, receipts: &[Receipt]) -> Result<Written, QueueError> {
        let mut state = self.state();
        let (queue, now) = (state.queue(queue_url)?, Instant::now());
        let deleted = receipts.iter().filter(|receipt| queue.store.delete(**receipt, now));
        let keys: Vec<_> = deleted.map(|receipt| receipt.key).collect();
        Ok(if keys.is_empty() { Written::nothing() } else { self.write(Change::Deleted(keys)) })
    }

    /// Makes a received message visible after this number of seconds.
    pub(super) fn change_visibility(&self, queue_url: &str, receipt: Receipt, timeout: i32) -> Result<(), QueueError> {
        let mut state = self.state();
        let queue = state.queue(queue_url)?;
        if !queue.store.change_visibility(receipt, seconds(timeout), Instant::now()) {
            return Err(QueueError::new(
                "AWS.SimpleQueueService.MessageNotInflight",
                "Message does not exist or is not available for visibility timeout change.",
            ));
        }
        queue.changed.notify_waiters();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, Contents> {
        lock(&self.state)
    }

    fn write(&self, change: Change) -> Written {
        match &self.journal {
            None => Written::nothing(),
            Some(journal) => journal.upgrade().map_or_else(Written::too_late, |journal| journal.write(change)),
        }
    }
}

impl Contents {
    fn queue(&mut self, queue_url: &str) -> Result<&mut Queue, QueueError> {
        let missing = || SqsError::non_existent_queue("The specified queue does not exist for this wsdl version.");
        self.queues.get_mut(queue_name(queue_url)).ok_or_else(|| missing().into())
    }

    /// Returns a queue's redrive policy. Without its dead-letter queue, it does not apply.
    fn redrive(&self, name: &str) -> Option<Redrive> {
        let policy = self.queues.get(name)?.settings.redrive_policy.as_ref()?;
        let target = policy.dead_letter_target_arn.rsplit(':').next()?;
        let exists = target != name && self.queues.contains_key(target);
        exists.then(|| Redrive {
            target: target.to_owned(),
            after: policy.max_receive_count.try_into().unwrap_or(u32::MAX),
        })
    }
}

pub(super) fn queue_name(queue_url: &str) -> &str {
    extract_queue_name(queue_url).unwrap_or_default()
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(seconds.try_into().unwrap_or(0))
}

/// Returns the delay that a message from an earlier process still has. Messages that were in flight when the process
/// ended become visible immediately, because their consumers have ended, too.
fn remaining_delay(message: &Message, queue_delay: i32, wall: i64) -> Duration {
    if message.receives > 0 {
        return Duration::ZERO;
    }
    let gone = Duration::from_millis((wall - message.sent).try_into().unwrap_or(0));
    seconds(message.delay.unwrap_or(queue_delay)).saturating_sub(gone)
}
