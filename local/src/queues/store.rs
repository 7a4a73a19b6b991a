//! The messages of one standard queue: visible, delayed or in flight.
//!
//! The crate that embeds SQS always returns the oldest message, so standard queues have this store instead. It is told
//! the time, and does not know about the journal or other queues.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use rustack_sqs_core::message::{md5_of_body, md5_of_message_attributes};
use tokio::time::Instant;

use super::{
    fair_order::Fair,
    journal::{self, Message},
    receipt::Receipt,
};

#[derive(Default)]
pub(super) struct Store {
    /// The messages by their keys.
    entries: HashMap<i64, StoredMessage>,
    /// The visible messages, in order.
    fair: Fair,
    /// When each of the other messages becomes visible, and its key.
    hidden: BTreeSet<(Instant, i64)>,
}

/// A message in a queue.
pub(super) struct StoredMessage {
    pub(super) message: Arc<Message>,
    pub(super) md5_of_body: String,
    pub(super) md5_of_attributes: Option<String>,
    /// The number of times that the message was received from this queue.
    pub(super) receives: u32,
    /// When it was first received from this queue, in Unix milliseconds.
    pub(super) first_received: Option<i64>,
    /// The ARN of the queue from which it came as a dead letter.
    pub(super) source: Option<Arc<str>>,
    state: MessageState,
}

enum MessageState {
    Visible,
    Delayed,
    InFlight { since: Instant, until: Instant, receipt: Receipt },
}

/// The result of a receive.
pub(super) struct Received {
    /// The messages that are now in flight.
    pub(super) receipts: Vec<Receipt>,
    /// The messages that have been received too often, and were removed from the queue.
    pub(super) dead: Vec<StoredMessage>,
}

impl StoredMessage {
    pub(super) fn new(message: Arc<Message>) -> Self {
        Self {
            md5_of_body: md5_of_body(&message.body),
            md5_of_attributes: md5_of_message_attributes(&message.attributes),
            receives: message.receives,
            first_received: None,
            source: None,
            state: MessageState::Visible,
            message,
        }
    }

    /// Makes this a message that is new to a dead-letter queue.
    pub(super) fn into_letter(self, source: &Arc<str>) -> Self {
        Self { receives: 0, first_received: None, source: Some(Arc::clone(source)), ..self }
    }
}

impl Store {
    /// Adds a message that becomes visible after `delay`.
    pub(super) fn add(&mut self, mut entry: StoredMessage, delay: Duration, now: Instant) {
        let key = entry.message.key;
        if delay.is_zero() {
            entry.state = MessageState::Visible;
            self.fair.arrived(key, &entry.message.group);
        } else {
            entry.state = MessageState::Delayed;
            self.hidden.insert((now + delay, key));
        }
        self.entries.insert(key, entry);
    }

    /// Receives up to `most` messages, which stay in flight for `timeout`. Messages that were received `limit` times
    /// before are removed instead.
    pub(super) fn receive(&mut self, most: usize, timeout: Duration, limit: u32, now: Instant) -> Received {
        self.advance(now);
        let mut received = Received { receipts: Vec::new(), dead: Vec::new() };
        while received.receipts.len() < most
            && let Some(key) = self.fair.next(now)
            && let Some(entry) = self.entries.get_mut(&key)
        {
            if entry.receives >= limit {
                received.dead.extend(self.entries.remove(&key));
                continue;
            }
            let (until, receipt) = (now + timeout, Receipt::new(key));
            entry.receives += 1;
            entry.first_received.get_or_insert_with(journal::now);
            entry.state = MessageState::InFlight { since: now, until, receipt };
            self.hidden.insert((until, key));
            self.fair.took_off(&entry.message.group);
            received.receipts.push(receipt);
        }
        received
    }

    /// The keys of all messages.
    pub(super) fn keys(&self) -> impl Iterator<Item = i64> {
        self.entries.keys().copied()
    }

    /// Returns a message.
    pub(super) fn get(&self, key: i64) -> Option<&StoredMessage> {
        self.entries.get(&key)
    }

    /// Deletes a message that is in flight. Returns whether the receipt was still valid.
    pub(super) fn delete(&mut self, receipt: Receipt, now: Instant) -> bool {
        let Some((since, until)) = self.flight(receipt) else { return false };
        if let Some(entry) = self.entries.remove(&receipt.key) {
            self.hidden.remove(&(until, receipt.key));
            self.fair.landed(&entry.message.group);
            self.fair.worked(&entry.message.group, now.saturating_duration_since(since), now);
        }
        true
    }

    /// Makes a message in flight visible after `timeout`. Returns whether the receipt was still valid.
    pub(super) fn change_visibility(&mut self, receipt: Receipt, timeout: Duration, now: Instant) -> bool {
        let Some((since, until)) = self.flight(receipt) else { return false };
        // A receive with a timeout of zero is never in flight by its time.
        if since < until && until <= now {
            self.advance(now);
            return false;
        }
        self.hidden.remove(&(until, receipt.key));
        let until = now + timeout;
        self.hidden.insert((until, receipt.key));
        if let Some(entry) = self.entries.get_mut(&receipt.key) {
            entry.state = MessageState::InFlight { since, until, receipt };
        }
        self.advance(now);
        true
    }

    /// The number of messages that are visible, in flight and delayed.
    pub(super) fn counts(&mut self, now: Instant) -> [usize; 3] {
        self.advance(now);
        let (hidden, in_flight) = (self.hidden.len(), self.fair.in_flight());
        [self.entries.len().saturating_sub(hidden), in_flight, hidden.saturating_sub(in_flight)]
    }

    /// When the next message becomes visible by itself.
    pub(super) fn next_visible(&self) -> Option<Instant> {
        self.hidden.first().map(|(until, _)| *until)
    }

    /// Makes messages visible whose time has come.
    fn advance(&mut self, now: Instant) {
        while let Some(&(until, key)) = self.hidden.first()
            && until <= now
        {
            self.hidden.pop_first();
            if let Some(entry) = self.entries.get_mut(&key) {
                if matches!(entry.state, MessageState::InFlight { .. }) {
                    self.fair.landed(&entry.message.group);
                }
                entry.state = MessageState::Visible;
                self.fair.arrived(key, &entry.message.group);
            }
        }
    }

    /// Returns the start and end of the receive with this receipt, if the receipt is valid. A receipt expires when a
    /// receive or a count finds the message visible, so with a timeout of zero, a message can be received and deleted.
    fn flight(&self, receipt: Receipt) -> Option<(Instant, Instant)> {
        match self.entries.get(&receipt.key)?.state {
            MessageState::InFlight { since, until, receipt: valid } if valid == receipt => Some((since, until)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Duration = Duration::ZERO;
    const MINUTE: Duration = Duration::from_mins(1);

    fn entry(key: i64, group: &str) -> StoredMessage {
        StoredMessage::new(Arc::new(Message {
            key,
            receives: 0,
            queue: "job-events".to_owned(),
            id: key.to_string(),
            sent: 0,
            delay: None,
            group: Some(group.into()),
            attributes: HashMap::new(),
            body: "{}".to_owned(),
        }))
    }

    /// Receives one message for `timeout`.
    fn receive(store: &mut Store, timeout: Duration, now: Instant) -> Option<Receipt> {
        store.receive(1, timeout, u32::MAX, now).receipts.pop()
    }

    fn keys(receipts: &[Receipt]) -> Vec<i64> {
        receipts.iter().map(|receipt| receipt.key).collect()
    }

    #[test]
    fn a_delayed_message_becomes_visible_on_time() {
        let (mut store, now) = (Store::default(), Instant::now());
        store.add(entry(0, "a"), MINUTE, now);
        store.add(entry(1, "a"), NOTHING, now);
        assert_eq!((store.counts(now), store.next_visible()), ([1, 0, 1], Some(now + MINUTE)));
        assert_eq!(receive(&mut store, MINUTE, now).map(|receipt| receipt.key), Some(1));
        let early = now + MINUTE - Duration::from_millis(1);
        assert_eq!((store.counts(early), store.counts(now + MINUTE)), ([0, 1, 1], [2, 0, 0]));
    }

    #[test]
    fn a_receipt_is_valid_until_the_timeout() {
        let (mut store, now) = (Store::default(), Instant::now());
        store.add(entry(0, "a"), NOTHING, now);
        let first = receive(&mut store, MINUTE, now).expect("a message");
        assert!(receive(&mut store, MINUTE, now).is_none(), "it is in flight");
        let second = receive(&mut store, MINUTE, now + MINUTE).expect("the same message");
        assert_eq!((second.key, store.get(0).map(|entry| entry.receives)), (0, Some(2)));
        assert!(!store.delete(first, now + MINUTE) && !store.change_visibility(first, NOTHING, now + MINUTE));
        assert!(store.change_visibility(second, MINUTE, now + MINUTE + MINUTE / 2));
        assert_eq!(store.counts(now + 2 * MINUTE), [0, 1, 0], "it stays in flight for longer");
        assert!(store.delete(second, now + 2 * MINUTE) && !store.delete(second, now + 2 * MINUTE));
        assert_eq!((store.counts(now + 9 * MINUTE), store.next_visible()), ([0, 0, 0], None));
    }

    #[test]
    fn a_timeout_that_has_ended_cannot_be_changed() {
        let (mut store, now) = (Store::default(), Instant::now());
        store.add(entry(0, "a"), NOTHING, now);
        let receipt = receive(&mut store, MINUTE, now).expect("a message");
        let early = now + MINUTE - Duration::from_millis(1);
        assert!(store.change_visibility(receipt, Duration::from_millis(1), early));
        assert!(!store.change_visibility(receipt, MINUTE, now + MINUTE), "as in SQS: MessageNotInflight");
        assert_eq!(store.counts(now + MINUTE), [1, 0, 0]);
        let again = receive(&mut store, NOTHING, now + MINUTE).expect("the same message");
        assert!(store.change_visibility(again, MINUTE, now + MINUTE), "without a timeout, it has not ended");
        assert_eq!(store.counts(now + MINUTE), [0, 1, 0]);
    }

    #[test]
    fn a_message_without_a_timeout_can_be_deleted() {
        let (mut store, now) = (Store::default(), Instant::now());
        store.add(entry(0, "a"), NOTHING, now);
        let first = receive(&mut store, NOTHING, now).expect("a message");
        let second = receive(&mut store, NOTHING, now).expect("the same message");
        assert!(!store.delete(first, now) && store.delete(second, now));
        assert_eq!(store.counts(now), [0, 0, 0]);
    }

    #[test]
    fn a_message_that_is_given_back_is_the_last_in_order() {
        let (mut store, now) = (Store::default(), Instant::now());
        (0..3).for_each(|key| store.add(entry(key, "a"), NOTHING, now));
        let receipt = receive(&mut store, MINUTE, now).expect("a message");
        assert!(store.change_visibility(receipt, NOTHING, now));
        assert_eq!(keys(&store.receive(10, MINUTE, u32::MAX, now).receipts), [1, 2, 0]);
    }

    #[test]
    fn a_message_that_was_received_too_often_is_removed() {
        let (mut store, now) = (Store::default(), Instant::now());
        (0..2).for_each(|key| store.add(entry(key, "a"), NOTHING, now));
        for _ in 0..2 {
            assert_eq!(store.receive(1, NOTHING, 2, now).receipts.len(), 1);
            assert_eq!(store.receive(1, NOTHING, 2, now).receipts.len(), 1);
        }
        store.add(entry(2, "a"), NOTHING, now);
        let received = store.receive(10, MINUTE, 2, now);
        assert_eq!(keys(&received.receipts), [2]);
        assert_eq!(received.dead.iter().map(|entry| entry.message.key).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(store.counts(now), [0, 1, 0]);
    }

    #[test]
    fn the_processing_time_is_that_of_the_last_receive() {
        let (mut store, now) = (Store::default(), Instant::now());
        for (key, group) in [(0, "a"), (1, "b")] {
            store.add(entry(key, group), NOTHING, now);
        }
        // A message of `a` times out after a minute, and is then processed as fast as that of `b` is.
        let _lost = receive(&mut store, MINUTE, now);
        let mut later = now + MINUTE;
        for _ in 0..2 {
            let receipt = receive(&mut store, MINUTE, later).expect("a message");
            later += Duration::from_secs(1);
            assert!(store.delete(receipt, later));
        }
        (2..20).for_each(|key| store.add(entry(key, &format!("group {key}")), NOTHING, later));
        while let Some(receipt) = receive(&mut store, MINUTE, later) {
            later += Duration::from_secs(1);
            assert!(store.delete(receipt, later));
        }
        store.add(entry(20, "a"), NOTHING, later);
        store.add(entry(21, "c"), NOTHING, later);
        assert_eq!(keys(&store.receive(2, MINUTE, u32::MAX, later).receipts), [20, 21]);
    }

    #[test]
    fn a_group_that_was_slow_waits_for_the_others() {
        let (mut store, now) = (Store::default(), Instant::now());
        store.add(entry(0, "slow"), NOTHING, now);
        let receipt = receive(&mut store, MINUTE, now).expect("a message");
        let later = now + Duration::from_secs(2);
        assert!(store.delete(receipt, later));
        store.add(entry(1, "slow"), NOTHING, later);
        store.add(entry(2, "quiet"), NOTHING, later);
        assert_eq!(keys(&store.receive(2, MINUTE, u32::MAX, later).receipts), [2, 1]);
    }

    /// The number of steps does not depend on the number of messages: this test would take minutes otherwise.
    #[test]
    fn fifty_thousand_messages_of_one_group_are_received_quickly() {
        let (mut store, now) = (Store::default(), Instant::now());
        (0..50_000).for_each(|key| store.add(entry(key, "a"), NOTHING, now));
        for batch in 0..5_000 {
            let receipts = store.receive(10, MINUTE, u32::MAX, now).receipts;
            assert_eq!(keys(&receipts), (batch * 10..batch * 10 + 10).collect::<Vec<_>>());
        }
        store.add(entry(50_000, "b"), NOTHING, now + MINUTE);
        assert_eq!(store.counts(now + MINUTE), [50_001, 0, 0]);
    }
}
