//! SQS: standard queues with delays, visibility timeouts, receive counts and redrive, in virtual time. As on AWS,
//! messages arrive in random order or roughly oldest first, and may be delivered twice.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use tokio::time::Instant;

use crate::script::Order;

/// The longest delay that SQS accepts.
const MAX_DELAY: u64 = 900;
/// The maximum time by which a delayed message may be early.
const EARLY: u64 = 900;
/// The number of messages that a receive chooses from if the oldest come first.
const WINDOW: usize = 50;

/// A message to send.
pub(crate) struct Sent {
    pub(crate) body: String,
    /// In seconds.
    pub(crate) delay: u64,
    /// The `MessageGroupId`: the tenant.
    pub(crate) group: Option<String>,
}

/// A received message.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) id: String,
    pub(crate) receipt: u64,
    pub(crate) body: String,
    pub(crate) sent_ms: i64,
    pub(crate) receives: u32,
}

#[derive(Clone, Debug)]
struct Message {
    id: String,
    receipt: u64,
    body: String,
    group: Option<String>,
    sent_ms: i64,
    receives: u32,
    visible_at: Instant,
}

pub(crate) struct Queue {
    pub(crate) visibility: Duration,
    pub(crate) max_receives: u32,
    order: Order,
    messages: Vec<Message>,
    /// The bodies of messages that exceeded the receive limit.
    pub(crate) dead: Vec<String>,
    sent: u64,
}

impl Queue {
    pub(crate) fn new(visibility: Duration, max_receives: u32, order: Order) -> Self {
        Self { visibility, max_receives, order, messages: Vec::new(), dead: Vec::new(), sent: 0 }
    }

    /// Sends a message. `again` is the delay of a second delivery, if any.
    pub(crate) fn send(
        &mut self,
        Sent { body, delay, group }: Sent,
        again: Option<Duration>,
        (now, ms): (Instant, i64),
        rng: &mut Rng,
    ) -> Result<String, &'static str> {
        if delay > MAX_DELAY {
            return Err("InvalidParameterValue");
        }
        self.sent += 1;
        let id = format!("m{}", self.sent);
        let early = Duration::from_millis(if delay > 1 { rng.u64(0..EARLY) } else { 0 });
        let visible_at = now + Duration::from_secs(delay).saturating_sub(early);
        let message = Message { id: id.clone(), receipt: 0, body, group, sent_ms: ms, receives: 0, visible_at };
        let late = again.map(|again| Message { visible_at: visible_at + again, ..message.clone() });
        self.messages.push(message);
        self.messages.extend(late);
        Ok(id)
    }

    /// Receives up to `most` messages.
    pub(crate) fn receive(&mut self, most: usize, now: Instant, rng: &mut Rng) -> Vec<Received> {
        let chosen = self.choose(most, now, rng);
        let mut received = Vec::new();
        for at in &chosen {
            let message = &mut self.messages[*at];
            message.receives += 1;
            message.receipt = rng.u64(..);
            message.visible_at = now + self.visibility;
            if message.receives > self.max_receives {
                self.dead.push(message.body.clone());
                continue;
            }
            let Message { id, receipt, body, sent_ms, receives, .. } = message.clone();
            received.push(Received { id, receipt, body, sent_ms, receives });
        }
        let max_receives = self.max_receives;
        self.messages.retain(|message| message.receives <= max_receives);
        received
    }

    /// The indexes of the messages that are received next.
    fn choose(&self, most: usize, now: Instant, rng: &mut Rng) -> Vec<usize> {
        let mut visible: Vec<usize> =
            (0..self.messages.len()).filter(|at| self.messages[*at].visible_at <= now).collect();
        if self.order == Order::Any {
            rng.shuffle(&mut visible);
            visible.truncate(rng.usize(1..=most));
            return visible;
        }
        let in_flight = if self.order == Order::Fair { self.in_flight(now) } else { BTreeMap::new() };
        let rank = |at: &usize| in_flight.get(&self.messages[*at].group).copied().unwrap_or(0);
        visible.sort_by_key(|at| (rank(at), self.messages[*at].visible_at));
        visible.truncate(WINDOW);
        rng.shuffle(&mut visible);
        visible.sort_by_key(rank);
        visible.truncate(most);
        visible
    }

    /// The number of messages of each group that have been received but not deleted.
    fn in_flight(&self, now: Instant) -> BTreeMap<&Option<String>, usize> {
        let mut in_flight = BTreeMap::new();
        for message in self.messages.iter().filter(|message| message.receipt != 0 && message.visible_at > now) {
            *in_flight.entry(&message.group).or_default() += 1;
        }
        in_flight
    }

    /// Deletes received messages. An outdated receipt has no effect.
    pub(crate) fn delete(&mut self, receipts: &[u64]) {
        self.messages.retain(|message| message.receipt == 0 || !receipts.contains(&message.receipt));
    }

    /// Changes when a received message becomes visible again. An outdated receipt has no effect.
    pub(crate) fn change_visibility(&mut self, receipt: u64, visible_at: Instant) {
        let received = self.messages.iter_mut().filter(|message| message.receipt == receipt);
        received.for_each(|message| message.visible_at = visible_at);
    }

    /// When the next message can be received; `None` if there is none.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.messages.iter().map(|message| message.visible_at).min()
    }

    /// A description of the queue's messages, for failure reports.
    pub(crate) fn describe(&self) -> Vec<String> {
        self.messages
            .iter()
            .map(|message| format!("{} received {} times: {}", message.id, message.receives, message.body))
            .collect()
    }
}

pub(crate) type Queues = BTreeMap<String, Queue>;
