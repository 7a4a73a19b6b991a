//! SQS: standard queues with delays, visibility timeouts, receive counts and redrive, in virtual time. They keep no order
//! and may hand over a message twice, since standard queues promise neither.

use std::{collections::BTreeMap, time::Duration};

use fastrand::Rng;
use tokio::time::Instant;

/// The longest delay that SQS takes.
const MAX_DELAY: u64 = 900;
/// How much too early a delayed message may come.
const EARLY: u64 = 900;

/// A message as it is received.
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
    sent_ms: i64,
    receives: u32,
    visible_at: Instant,
}

pub(crate) struct Queue {
    pub(crate) visibility: Duration,
    pub(crate) max_receives: u32,
    messages: Vec<Message>,
    /// The bodies of messages that were received too often.
    pub(crate) dead: Vec<String>,
    sent: u64,
}

impl Queue {
    pub(crate) fn new(visibility: Duration, max_receives: u32) -> Self {
        Self { visibility, max_receives, messages: Vec::new(), dead: Vec::new(), sent: 0 }
    }

    /// Sends a message. `again` is how much later it comes once more, if it does.
    pub(crate) fn send(
        &mut self,
        (body, delay): (String, u64),
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
        let message = Message { id: id.clone(), receipt: 0, body, sent_ms: ms, receives: 0, visible_at };
        let late = again.map(|again| Message { visible_at: visible_at + again, ..message.clone() });
        self.messages.push(message);
        self.messages.extend(late);
        Ok(id)
    }

    /// Receives up to `most` messages, in any order.
    pub(crate) fn receive(&mut self, most: usize, now: Instant, rng: &mut Rng) -> Vec<Received> {
        let mut visible: Vec<usize> =
            (0..self.messages.len()).filter(|at| self.messages[*at].visible_at <= now).collect();
        rng.shuffle(&mut visible);
        visible.truncate(rng.usize(1..=most));
        let mut received = Vec::new();
        for at in &visible {
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

    /// Deletes messages that were received. A receipt that is out of date deletes nothing.
    pub(crate) fn delete(&mut self, receipts: &[u64]) {
        self.messages.retain(|message| message.receipt == 0 || !receipts.contains(&message.receipt));
    }

    /// When the next message can be received; `None` if there is none.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.messages.iter().map(|message| message.visible_at).min()
    }

    /// Its messages in words, for a failure.
    pub(crate) fn describe(&self) -> Vec<String> {
        self.messages
            .iter()
            .map(|message| format!("{} received {} times: {}", message.id, message.receives, message.body))
            .collect()
    }
}

pub(crate) type Queues = BTreeMap<String, Queue>;
