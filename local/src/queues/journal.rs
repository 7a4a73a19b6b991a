//! A journal of the messages in the queues, in a database file, so they outlive the process.
//!
//! `.local/sqs.sqlite` contains each message with its id, group, send time and receive count. A send succeeds only once
//! the message is written. When a queue is created again, its messages are restored: delayed messages keep their
//! remaining delay, and messages in flight become visible immediately, or become dead letters if that was their last
//! permitted receive. Receipt handles from an earlier process do not delete anything. Each start deletes messages that
//! are older than 14 days. Changes by `SetQueueAttributes` are not kept.
//!
//! A single thread writes. All changes that are waiting when it begins a transaction share that transaction, which
//! makes messages cheaper under load.

use std::{collections::HashMap, path::Path, sync::Arc, thread, time::Duration};

use anyhow::{Context, Result};
use rusqlite::{Connection, Row, Transaction, params};
use rustack_sqs_core::message::now_epoch_millis;
use rustack_sqs_model::{error::SqsError, types::MessageAttributeValue};
use tokio::sync::{mpsc, oneshot};

use super::{errors::QueueError, fair_order::Group};

/// The maximum retention of a message in SQS, in milliseconds.
const RETENTION: i64 = 14 * 24 * 60 * 60 * 1000;

/// The time that `open` waits for another process that is about to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of changes that share a transaction.
const GROUP_SIZE: usize = 1000;

/// `receives` changes often, so it comes before the body: after a long body, it would be on a different page of the
/// file.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS messages (
        key INTEGER PRIMARY KEY,
        receives INTEGER NOT NULL,
        queue TEXT NOT NULL,
        id TEXT NOT NULL,
        sent INTEGER NOT NULL,
        delay INTEGER,
        message_group TEXT,
        attributes TEXT NOT NULL,
        body TEXT NOT NULL
    ) STRICT";

/// A message in a queue.
pub(super) struct Message {
    /// The message's key in the file, which determines the order.
    pub(super) key: i64,
    /// The number of times that the message was received from its queue.
    pub(super) receives: u32,
    /// The queue's name.
    pub(super) queue: String,
    /// The id that the sender got.
    pub(super) id: String,
    /// When the message was sent, in Unix milliseconds.
    pub(super) sent: i64,
    /// The delay in seconds. `None` means the queue's delay.
    pub(super) delay: Option<i32>,
    pub(super) group: Group,
    pub(super) attributes: HashMap<String, MessageAttributeValue>,
    pub(super) body: String,
}

/// A change to messages, which are identified by their keys.
pub(super) enum Change {
    Accepted(Vec<Arc<Message>>),
    /// Messages were received. Contains the key of each, and the queue and receive count to restore in the next
    /// process.
    Received(Vec<(i64, String, u32)>),
    Deleted(Vec<i64>),
}

struct JournalEntry {
    change: Change,
    written: oneshot::Sender<Result<(), String>>,
}

/// The open journal. Dropping it closes the file once everything is written.
pub(crate) struct Journal(mpsc::UnboundedSender<JournalEntry>);

/// A change that is being written to the file. `None` if messages are not kept.
pub(super) struct Written(Option<oneshot::Receiver<Result<(), String>>>);

impl Journal {
    /// Opens or creates the file at `path`. Also returns its messages, in sending order.
    ///
    /// # Errors
    /// The file cannot be opened, or another process has it open: two processes would deliver each message twice.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Message>)> {
        let (connection, messages) = open(path)
            .with_context(|| format!("cannot open {}: only one process at a time can use it", path.display()))?;
        let (sender, entries) = mpsc::unbounded_channel();
        thread::Builder::new().name("queues".to_owned()).spawn(move || write(connection, entries))?;
        Ok((Self(sender), messages))
    }

    /// Writes a change, after the changes from all earlier calls.
    pub(super) fn write(&self, change: Change) -> Written {
        let (written, receiver) = oneshot::channel();
        // If the writer has ended, the entry is dropped, and a caller that is waiting for it gets an error.
        drop(self.0.send(JournalEntry { change, written }));
        Written(Some(receiver))
    }
}

impl Written {
    /// There is nothing to write.
    pub(super) fn nothing() -> Self {
        Self(None)
    }

    /// The journal is closed.
    pub(super) fn too_late() -> Self {
        Self(Some(oneshot::channel().1))
    }

    /// Waits until the change is written, so that it survives the process.
    ///
    /// # Errors
    /// The change could not be written.
    pub(super) async fn wait(self) -> Result<(), QueueError> {
        let Some(receiver) = self.0 else { return Ok(()) };
        let written = receiver.await.unwrap_or_else(|_| Err("the queues are closed".to_owned()));
        written.map_err(|error| SqsError::internal_error(format!("cannot write to the disk: {error}")).into())
    }
}

/// Returns the current time in Unix milliseconds.
pub(super) fn now() -> i64 {
    i64::try_from(now_epoch_millis()).unwrap_or(i64::MAX)
}

fn open(path: &Path) -> rusqlite::Result<(Connection, Vec<Message>)> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(LOCK_TIMEOUT)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Committed data survives if the process dies, but a power failure may lose the most recent writes.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.execute_batch(SCHEMA)?;
    connection.execute("DELETE FROM messages WHERE sent < ?1", [now() - RETENTION])?;
    let messages = connection
        .prepare(
            "SELECT key, receives, queue, id, sent, delay, message_group, attributes, body FROM messages ORDER BY key",
        )?
        .query_map([], message)?
        .collect::<rusqlite::Result<_>>()?;
    Ok((connection, messages))
}

fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    let attributes: String = row.get(7)?;
    let invalid = |error| rusqlite::Error::FromSqlConversionFailure(7, rusqlite::types::Type::Text, Box::new(error));
    Ok(Message {
        key: row.get(0)?,
        receives: row.get(1)?,
        queue: row.get(2)?,
        id: row.get(3)?,
        sent: row.get(4)?,
        delay: row.get(5)?,
        group: row.get(6)?,
        attributes: serde_json::from_str(&attributes).map_err(invalid)?,
        body: row.get(8)?,
    })
}

/// Writes until the journal is dropped.
fn write(mut connection: Connection, mut entries: mpsc::UnboundedReceiver<JournalEntry>) {
    let mut group = Vec::new();
    while entries.blocking_recv_many(&mut group, GROUP_SIZE) > 0 {
        let result = commit(&mut connection, &group).map_err(|error| error.to_string());
        if let Err(error) = &result {
            tracing::error!(error, "journal.write_failed");
        }
        for entry in group.drain(..) {
            // Fails if the caller is not waiting.
            drop(entry.written.send(result.clone()));
        }
    }
}

fn commit(connection: &mut Connection, entries: &[JournalEntry]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for entry in entries {
        apply(&transaction, &entry.change)?;
    }
    transaction.commit()
}

fn apply(transaction: &Transaction<'_>, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Accepted(messages) => {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO messages (key, receives, queue, id, sent, delay, message_group, attributes, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            for message in messages {
                let Message { key, receives, queue, id, sent, delay, group, attributes, body } = &**message;
                let attributes = serde_json::to_string(attributes)
                    .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
                insert.execute(params![key, receives, queue, id, sent, delay, group, attributes, body])?;
            }
        }
        Change::Received(messages) => {
            let mut update =
                transaction.prepare_cached("UPDATE messages SET queue = ?2, receives = ?3 WHERE key = ?1")?;
            for (key, queue, receives) in messages {
                update.execute(params![key, queue, receives])?;
            }
        }
        Change::Deleted(keys) => {
            let mut delete = transaction.prepare_cached("DELETE FROM messages WHERE key = ?1")?;
            for key in keys {
                delete.execute([key])?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(key: i64) -> JournalEntry {
        let message = Message {
            key,
            receives: 0,
            queue: "job-events".to_owned(),
            id: key.to_string(),
            sent: now(),
            delay: None,
            group: None,
            attributes: HashMap::new(),
            body: "x".repeat(10_000),
        };
        JournalEntry { change: Change::Accepted(vec![Arc::new(message)]), written: oneshot::channel().0 }
    }

    /// The disk has space for 12 pages at first, and later for more.
    #[test]
    fn a_full_disk_does_not_lose_accepted_messages() {
        let path = std::env::temp_dir().join(format!("{}.sqlite", uuid::Uuid::new_v4()));
        let (mut connection, _) = open(&path).expect("a file");
        connection.pragma_update(None, "max_page_count", 12).expect("a limit");
        let before: Vec<_> = (0..20).filter(|key| commit(&mut connection, &[accepted(*key)]).is_ok()).collect();
        assert!((1..10).contains(&before.len()), "the disk fills up soon: {before:?}");
        // Changes that share a transaction succeed or fail together.
        assert!(commit(&mut connection, &[accepted(20), accepted(21)]).is_err());
        connection.pragma_update(None, "max_page_count", 1_000).expect("a limit");
        commit(&mut connection, &[accepted(22), accepted(23)]).expect("room");
        drop(connection);
        let (_, kept) = open(&path).expect("a file");
        let kept: Vec<_> = kept.into_iter().map(|message| message.key).collect();
        assert_eq!(kept, [before, vec![22, 23]].concat());
        std::fs::remove_file(path).expect("it is removed");
    }
}
