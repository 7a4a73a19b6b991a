//! The delivery log: what became of every delivery, and what the pending ones wait for.
//!
//! One table holds it all, by the partition key `destination` and the sort key `delivery`:
//!
//! - A delivery's state, an [`Entry`]: `<tenant>/<destination>.<shard>`, `<time>.<webhook-id>`. A destination's
//!   deliveries sort by time. Those that are not delivered are also in a sparse index, by status, so that they are
//!   found without reading the others. A delivery that succeeds at once is this one item, with its payload in it.
//! - The payload and the earlier attempts of a delivery that did not: a partition `<destination>/<delivery>` of its own.
//!   An update pays for the whole item, so the state is kept small.
//! - [Parked events](parked): `<tenant>/parked/<id>`.
//! - [Due rows](due): which attempt is due in which minute, and the cursor of whoever wakes them.
//! - [Recoveries](recovery): `recovery/<tenant>`.
//!
//! No key of one tenant can be that of another: all of it is derived from the tenant's id, and what follows that id has
//! a fixed form.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    iter,
    time::Duration,
};

use aws_sdk_dynamodb::{
    Client,
    types::{
        AttributeValue, BatchStatementErrorCodeEnum, BatchStatementRequest, KeysAndAttributes, PutRequest, WriteRequest,
    },
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

pub use self::entry::{Attempt, Entry, RESPONSE_BYTES, Status, Trigger};
use crate::{
    aws::{
        clients::Aws,
        dynamo::{Item, change, is_refused, item, number, pause, text},
        failure,
        transaction::Transaction,
    },
    config::{ConfigError, Env},
    error::{Conflict, Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::Destination,
        delivery_id::{DeliveryId, Millis},
        once::Remember,
        outcome::MAX_AGE,
    },
};

pub mod due;
mod entry;
mod forget;
pub mod parked;
mod payload;
pub mod recovery;
pub mod search;

/// The delivery log. Cloning is cheap.
#[derive(Clone)]
pub struct Log {
    dynamodb: Client,
    table: String,
    retention: Retention,
    kept_payload_bytes: usize,
}

/// How long deliveries can be seen.
#[derive(Clone, Copy, Debug)]
pub struct Retention(Duration);

/// An item to be written unconditionally. It may have a callback's secret, so it cannot be printed.
#[derive(Clone)]
pub struct Row(Item);

impl Retention {
    /// The time that `env` sets, in days.
    ///
    /// # Errors
    /// The variable is missing, does not parse or is out of range.
    pub fn from_env(env: &Env) -> Result<Self, ConfigError> {
        let days: u32 = env.number("DELIVERY_RETENTION", 1..=3650)?;
        Ok(Self(Duration::from_secs(u64::from(days) * 24 * 60 * 60)))
    }

    /// When an item that is written now may be deleted. DynamoDB may do that days later, so reading checks the age too.
    #[must_use]
    pub fn end(self, now: Timestamp) -> Timestamp {
        now.after(self.0 + GRACE)
    }
}

/// Partition key and sort key.
type Key = [String; 2];

impl Row {
    fn key(&self) -> Key {
        key_of(&self.0)
    }
}

fn key_of(item: &Item) -> Key {
    ["destination", "delivery"].map(|name| {
        let value = item.get(name).and_then(|value| value.as_s().ok());
        value.cloned().unwrap_or_default()
    })
}

/// What the rows were for that could not be written.
#[derive(Debug)]
pub struct Unwritten<T> {
    /// Those whose partition, or table, was throttled until the end.
    pub throttled: Vec<T>,
    /// Those whose call failed.
    pub failed: Vec<T>,
}

impl<T> Unwritten<T> {
    /// Whether all rows were written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.throttled.is_empty() && self.failed.is_empty()
    }
}

/// What an attempt needs besides the state.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Where the delivery goes.
    pub destination: Destination,
    /// The JSON to send, byte for byte.
    pub body: Bytes,
}

/// The index of what is not delivered.
const INDEX: &str = "by-status";
/// How long items outlive the retention: a delivery that is resent on its last day still has its whole schedule.
const GRACE: Duration = MAX_AGE.saturating_add(Duration::from_secs(24 * 60 * 60));
/// The most items that `BatchWriteItem` takes.
const WRITES: usize = 25;
/// The most items that `BatchGetItem` takes.
const READS: usize = 100;
/// How many calls one caller may have under way.
const CONCURRENCY: usize = 16;
/// How often a batch is sent again for what was left out, which happens where a partition is throttled.
const ROUNDS: u32 = 4;
/// How much of a job's id the log keeps, in bytes. Producers may send one of any length.
const JOB_ID_BYTES: usize = 1024;
const NOT_FOUND: Error = Error::NotFound("Delivery not found");

impl Log {
    /// The log over the table that `env` names.
    ///
    /// # Errors
    /// A variable is missing, does not parse or is out of range.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            dynamodb: aws.dynamodb(),
            table: env.required("DELIVERIES_TABLE")?,
            retention: Retention::from_env(env)?,
            // The largest item that DynamoDB takes has 400 KB.
            kept_payload_bytes: env.number("KEPT_PAYLOAD_BYTES", 0..=350_000)?,
        })
    }

    /// The row of a delivery that succeeded at once, with its payload unless that is too large to be kept.
    #[must_use]
    pub fn delivered(&self, tenant: &TenantId, entry: &Entry, payload: &Payload, now: Timestamp) -> Row {
        let mut item = self.state(tenant, entry, now);
        let packed = payload::Packed::new(&payload.body);
        if packed.len() <= self.kept_payload_bytes {
            packed.put(&mut item, payload.destination.callback());
        }
        Row(item)
    }

    /// The row with the payload of a delivery that did not succeed at once.
    #[must_use]
    pub fn payload(&self, tenant: &TenantId, id: &DeliveryId, payload: &Payload, now: Timestamp) -> Row {
        let mut item = details_key(tenant, id, PAYLOAD);
        item.insert("expires_at".to_owned(), self.expiry(now));
        payload::Packed::new(&payload.body).put(&mut item, payload.destination.callback());
        Row(item)
    }

    /// The row that keeps the last attempt of `entry`, before the next one takes its place in the state.
    #[must_use]
    pub fn attempt(&self, tenant: &TenantId, entry: &Entry, now: Timestamp) -> Option<Row> {
        let attempt = entry.last_attempt.as_ref()?;
        let mut item = details_key(tenant, &entry.id, &attempt_key(entry.attempts));
        item.insert("last".to_owned(), attempt.to_value());
        item.insert("expires_at".to_owned(), self.expiry(now));
        Some(Row(item))
    }

    /// Writes rows, in any order. Each comes with what it is for.
    pub async fn put<T: Copy>(&self, rows: Vec<(T, Row)>) -> Unwritten<T> {
        // A batch may not have the same key twice: of duplicates, the last one counts.
        let rows: BTreeMap<Key, (T, Row)> = rows.into_iter().map(|(what, row)| (row.key(), (what, row))).collect();
        let mut rows = rows.into_iter().peekable();
        let mut calls = Vec::new();
        while rows.peek().is_some() {
            calls.push(self.put_batch(rows.by_ref().take(WRITES).collect()));
        }
        let mut unwritten = Unwritten { throttled: Vec::new(), failed: Vec::new() };
        let mut written = stream::iter(calls).buffer_unordered(CONCURRENCY);
        while let Some((left, result)) = written.next().await {
            match result {
                Ok(()) | Err(Error::Busy) => unwritten.throttled.extend(left),
                Err(error) => {
                    tracing::error!(?error, rows = left.len(), "rows of the delivery log were not written");
                    unwritten.failed.extend(left);
                }
            }
        }
        unwritten
    }

    /// Writes up to 25 rows. Returns what those were for that are left.
    async fn put_batch<T: Copy>(&self, batch: Vec<(Key, (T, Row))>) -> (Vec<T>, Result<()>) {
        let (mut left, mut requests) = (BTreeMap::new(), Vec::with_capacity(batch.len()));
        for (key, (what, Row(item))) in batch {
            left.insert(key, what);
            #[expect(clippy::expect_used, reason = "the item is given")]
            let put = PutRequest::builder().set_item(Some(item)).build().expect("a complete put");
            requests.push(WriteRequest::builder().put_request(put).build());
        }
        for round in 0..ROUNDS {
            let call = self.dynamodb.batch_write_item().request_items(&self.table, requests);
            requests = match Box::pin(call.send()).await {
                Ok(answer) => answer.unprocessed_items.unwrap_or_default().remove(&self.table).unwrap_or_default(),
                Err(error) => return (left.into_values().collect(), Err(failure("writing the delivery log")(error))),
            };
            let puts = requests.iter().filter_map(|request| request.put_request.as_ref());
            let keys: HashSet<Key> = puts.map(|put| key_of(&put.item)).collect();
            left.retain(|key, _| keys.contains(key));
            if left.is_empty() {
                break;
            }
            pause(round).await;
        }
        (left.into_values().collect(), Ok(()))
    }

    /// Stores the states of deliveries that have none yet. For each, in the same order: `false` if it has one, because the
    /// same event was handled twice at the same time, and the other one goes on.
    ///
    /// These are statements and not a batched write, since that has no conditions: an `INSERT` fails where there is an
    /// item already (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html>). No
    /// delivery may be among them twice: all of its batch would fail.
    pub async fn begin(&self, states: &[(&TenantId, &Entry)], now: Timestamp) -> Vec<Result<bool>> {
        let calls: Vec<_> = states.chunks(WRITES).map(|batch| self.begin_batch(batch, now)).collect();
        stream::iter(calls).buffered(CONCURRENCY).collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    async fn begin_batch(&self, batch: &[(&TenantId, &Entry)], now: Timestamp) -> Vec<Result<bool>> {
        let statements = batch.iter().map(|(tenant, entry)| {
            let (names, values): (Vec<_>, Vec<_>) = self.state(tenant, entry, now).into_iter().unzip();
            let fields: Vec<_> = names.iter().map(|name| format!("'{name}': ?")).collect();
            let statement = format!("INSERT INTO \"{}\" VALUE {{{}}}", self.table, fields.join(", "));
            let statement = BatchStatementRequest::builder().statement(statement).set_parameters(Some(values)).build();
            #[expect(clippy::expect_used, reason = "the statement is given")]
            statement.expect("a complete statement")
        });
        let call = self.dynamodb.batch_execute_statement().set_statements(Some(statements.collect()));
        let answers = match Box::pin(call.send()).await {
            Ok(answer) => answer.responses.unwrap_or_default(),
            Err(error) => {
                let error = failure("writing deliveries")(error);
                tracing::error!(?error, "the states of new deliveries were not written");
                Vec::new()
            }
        };
        let begun = answers.into_iter().map(|answer| match answer.error {
            None => Ok(true),
            Some(error) if error.code == Some(BatchStatementErrorCodeEnum::DuplicateItem) => Ok(false),
            Some(error) => {
                tracing::error!(code = ?error.code, message = error.message, "the state of a delivery was not written");
                Err(Error::Busy)
            }
        });
        // Without an answer, nothing is known of any.
        begun.chain(iter::repeat_with(|| Err(Error::Busy))).take(batch.len()).collect()
    }

    /// Stores the state of a new delivery together with other writes.
    pub(super) fn begin_in(
        &self,
        transaction: Transaction,
        tenant: &TenantId,
        entry: &Entry,
        now: Timestamp,
    ) -> Transaction {
        transaction.put_new(&self.table, "delivery", self.state(tenant, entry, now))
    }

    /// Changes the state from `before` to `after`. Returns `false` if it is no longer as it was `before`: another attempt
    /// or a resend came first. A delivery that succeeded is `delivered`, whatever came first.
    ///
    /// # Errors
    /// The write failed.
    pub async fn advance(&self, tenant: &TenantId, before: &Entry, after: &Entry) -> Result<bool> {
        let mut set = standing(tenant, after);
        set.push(("attempts", number(after.attempts.into())));
        set.extend(after.last_attempt.as_ref().map(|attempt| ("last", attempt.to_value())));
        let remove = ["next_attempt_at", "open"].into_iter().filter(|name| set.iter().all(|(set, _)| set != name));
        let remove: Vec<_> = remove.collect();
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(state_key(tenant, &after.id)));
        let update = change(update, set, &remove);
        let update = if after.status == Status::Delivered {
            update.condition_expression("attribute_exists(delivery)")
        } else {
            update
                .condition_expression("attempts = :was AND tries = :tried AND give_up_at = :end AND #status = :pending")
                .expression_attribute_values(":was", number(before.attempts.into()))
                .expression_attribute_values(":tried", number(before.tries.into()))
                // A resend moves this, even if there has been no attempt.
                .expression_attribute_values(":end", number(before.give_up_at.get()))
                .expression_attribute_values(":pending", text(Status::Pending))
        };
        match Box::pin(update.send()).await {
            Ok(_) => Ok(true),
            Err(error) if is_refused(&error) => Ok(false),
            Err(error) => Err(failure("updating a delivery")(error)),
        }
    }

    /// Forgets the payload of a delivery that was delivered in the end, if it is too large to be kept.
    ///
    /// # Errors
    /// The write failed.
    pub async fn forget_large(&self, tenant: &TenantId, id: &DeliveryId, body: &Bytes) -> Result<()> {
        if body.len() <= self.kept_payload_bytes || payload::Packed::new(body).len() <= self.kept_payload_bytes {
            return Ok(());
        }
        let key = details_key(tenant, id, PAYLOAD);
        let delete = self.dynamodb.delete_item().table_name(&self.table).set_key(Some(key));
        delete.send().await.map(drop).map_err(failure("deleting a payload"))
    }

    /// The state of each of these deliveries that has one, read consistently.
    ///
    /// # Errors
    /// The read failed, or an entry cannot be read.
    pub async fn known(&self, tenant: &TenantId, ids: &[DeliveryId]) -> Result<BTreeMap<DeliveryId, Entry>> {
        let keys = ids.iter().map(|id| state_key(tenant, id)).collect();
        let found = self.get(keys).await?;
        let entries = ids.iter().filter_map(|id| {
            let item = found.get(&[destination_key(tenant, id), id.moment()])?;
            Some(Entry::from_item(*id, item).map(|entry| (*id, entry)))
        });
        entries.collect()
    }

    /// A delivery, with its payload if that is kept, read consistently.
    ///
    /// # Errors
    /// The read failed, or what is stored cannot be read.
    pub async fn find(&self, tenant: &TenantId, id: &DeliveryId) -> Result<Option<(Entry, Option<Payload>)>> {
        let found = self.get(vec![state_key(tenant, id), details_key(tenant, id, PAYLOAD)]).await?;
        let Some(state) = found.get(&[destination_key(tenant, id), id.moment()]) else { return Ok(None) };
        let entry = Entry::from_item(*id, state)?;
        let apart = found.get(&[details_partition(tenant, id), PAYLOAD.to_owned()]);
        // One that is too large is gone with the success, even if a crash came before its deletion.
        let is_kept =
            |item: &&Item| entry.status != Status::Delivered || payload::stored_bytes(item) <= self.kept_payload_bytes;
        let payload = match apart.or(Some(state)).filter(is_kept) {
            Some(item) => payload::read(id.destination, item)?,
            None => None,
        };
        Ok(Some((entry, payload)))
    }

    /// The same, for the tenant: what is older than the retention is gone, also if it has not been deleted yet.
    ///
    /// # Errors
    /// There is no such delivery; the read failed, or what is stored cannot be read.
    pub async fn visible(
        &self,
        tenant: &TenantId,
        id: &DeliveryId,
        now: Timestamp,
    ) -> Result<(Entry, Option<Payload>)> {
        let found = if id.at >= self.oldest(now) { self.find(tenant, id).await? } else { None };
        found.ok_or(NOT_FOUND)
    }

    /// The attempts of a delivery before the last one, oldest first: the newest of them, if there are very many.
    ///
    /// # Errors
    /// The read failed, or an attempt cannot be read.
    pub async fn earlier_attempts(&self, tenant: &TenantId, entry: &Entry) -> Result<Vec<Attempt>> {
        let query = self.dynamodb.query().table_name(&self.table).consistent_read(true);
        let query = query
            .key_condition_expression("destination = :delivery AND delivery BETWEEN :first AND :last")
            .expression_attribute_values(":delivery", text(details_partition(tenant, &entry.id)))
            .expression_attribute_values(":first", text(ATTEMPT))
            // A crash may have kept the last attempt here too.
            .expression_attribute_values(":last", text(attempt_key(entry.attempts.saturating_sub(1))))
            .scan_index_forward(false)
            .limit(MAX_ATTEMPTS);
        let items = query.send().await.map_err(failure("reading attempts"))?.items.unwrap_or_default();
        let attempts = items.iter().rev().filter_map(|item| item.get("last")).map(Attempt::from_value);
        attempts.collect()
    }

    /// Makes a delivery pending again, whatever its status, with the whole schedule ahead, and the first attempt due at
    /// `due`, and remembers the `call`. Returns its new state. It has a due row, but no message yet. A recovery resends
    /// only what has failed.
    ///
    /// # Errors
    /// There is no such delivery, or its payload was not kept; the `call` was remembered before; or a call failed.
    pub async fn resend(
        &self,
        tenant: &TenantId,
        id: &DeliveryId,
        trigger: Trigger,
        due: Timestamp,
        call: Option<&Remember>,
        now: Timestamp,
    ) -> Result<Entry> {
        for _ in 0..ROUNDS {
            let (before, payload) = self.visible(tenant, id, now).await?;
            let is_done = before.next_attempt_at == Some(due) && before.trigger == trigger && before.tries == 0;
            if is_done && call.is_none() {
                // The answer to this very write was lost.
                return Ok(before);
            }
            if trigger == Trigger::Recovery && before.status != Status::Failed {
                return Err(NOT_FOUND);
            }
            let payload = payload.ok_or(Error::Conflict(Conflict::PayloadNotKept))?;
            // The payload may still be in the state, which it would make expensive to change.
            let payload = (before.status == Status::Delivered).then(|| self.payload(tenant, id, &payload, now));
            let after = before.clone().reopened(trigger, due, now);
            let rows = payload.into_iter().chain([self.due(tenant, &after, now)]).map(|row| ((), row)).collect();
            if !self.put(rows).await.is_empty() {
                return Err(Error::Busy);
            }
            if self.reopen(tenant, &before, &after, call, now).await? {
                return Ok(after);
            }
        }
        Err(Error::Busy)
    }

    /// Makes a delivery pending again, unless an attempt or another resend came first.
    async fn reopen(
        &self,
        tenant: &TenantId,
        before: &Entry,
        after: &Entry,
        call: Option<&Remember>,
        now: Timestamp,
    ) -> Result<bool> {
        let mut set = standing(tenant, after);
        set.push(("expires_at", self.expiry(now)));
        let update = self.dynamodb.update_item().table_name(&self.table).set_key(Some(state_key(tenant, &after.id)));
        let update = change(update, set, &payload::ATTRIBUTES)
            .condition_expression("attempts = :was AND #status = :before")
            .expression_attribute_values(":was", number(before.attempts.into()))
            .expression_attribute_values(":before", text(before.status));
        if call.is_some() {
            let transaction = Transaction::new("resending a delivery").update_item(&update).remember(call);
            return match transaction.first_refused(&self.dynamodb).await? {
                None => Ok(true),
                Some(0) => Ok(false),
                Some(_) => Err(Error::Busy),
            };
        }
        match Box::pin(update.send()).await {
            Ok(_) => Ok(true),
            Err(error) if is_refused(&error) => Ok(false),
            Err(error) => Err(failure("resending a delivery")(error)),
        }
    }

    /// Reads items consistently, in any number, by their keys.
    async fn get(&self, keys: Vec<Item>) -> Result<HashMap<Key, Item>> {
        let calls: Vec<_> = keys.chunks(READS).map(|batch| self.get_batch(batch.to_vec())).collect();
        let items: Vec<Vec<Item>> = stream::iter(calls).buffer_unordered(CONCURRENCY).try_collect().await?;
        Ok(items.into_iter().flatten().map(|item| (key_of(&item), item)).collect())
    }

    async fn get_batch(&self, mut keys: Vec<Item>) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for round in 0..ROUNDS {
            let wanted = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
            let wanted = wanted.map_err(Error::internal("reading the delivery log"))?;
            let call = self.dynamodb.batch_get_item().request_items(&self.table, wanted);
            let answer = Box::pin(call.send()).await.map_err(failure("reading the delivery log"))?;
            items.extend(answer.responses.unwrap_or_default().remove(&self.table).unwrap_or_default());
            match answer.unprocessed_keys.unwrap_or_default().remove(&self.table) {
                None => return Ok(items),
                Some(left_out) => keys = left_out.keys,
            }
            pause(round).await;
        }
        Err(Error::Busy)
    }

    /// The item of a delivery's state.
    fn state(&self, tenant: &TenantId, entry: &Entry, now: Timestamp) -> Item {
        let mut item = state_key(tenant, &entry.id);
        let mut set = |name: &str, value: AttributeValue| item.insert(name.to_owned(), value);
        set("event", text(entry.event.as_str()));
        set("job_id", text(cut(&entry.job_id, JOB_ID_BYTES)));
        set("attempts", number(entry.attempts.into()));
        set("expires_at", self.expiry(now));
        if let Some(attempt) = &entry.last_attempt {
            set("last", attempt.to_value());
        }
        for (name, value) in standing(tenant, entry) {
            set(name, value);
        }
        item
    }

    fn expiry(&self, now: Timestamp) -> AttributeValue {
        number(self.retention.end(now).as_second())
    }

    /// The oldest deliveries that can be seen.
    fn oldest(&self, now: Timestamp) -> Millis {
        Millis::new(now.as_millisecond() - i64::try_from(self.retention.0.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Entry {
    /// The same delivery, pending again.
    fn reopened(self, trigger: Trigger, due: Timestamp, now: Timestamp) -> Self {
        let max_age = i64::try_from(MAX_AGE.as_millis()).unwrap_or(i64::MAX);
        Self {
            status: Status::Pending,
            next_attempt_at: Some(due),
            tries: 0,
            trigger,
            give_up_at: Millis::new(now.as_millisecond() + max_age),
            ..self
        }
    }
}

/// The sort key of a payload.
const PAYLOAD: &str = "payload";
/// What the sort keys of earlier attempts begin with.
const ATTEMPT: &str = "attempt.";

/// How many earlier attempts are shown. A Lambda response has at most 6 MiB, and contains the answer as JSON inside a
/// JSON string. There a payload of 1 MiB takes up to 4 MiB, and an attempt up to 7.3 KiB.
const MAX_ATTEMPTS: i32 = 200;

/// The sort key of an earlier attempt.
fn attempt_key(number: u32) -> String {
    format!("{ATTEMPT}{number:06}")
}

/// The attributes that say how a delivery stands. Where it is delivered, few are left.
fn standing(tenant: &TenantId, entry: &Entry) -> Vec<(&'static str, AttributeValue)> {
    let mut set = vec![("status", text(entry.status))];
    if entry.status != Status::Delivered {
        set.push(("open", text(index_key(&destination_key(tenant, &entry.id), entry.status))));
        set.push(("tries", number(entry.tries.into())));
    }
    if let Some(next) = entry.next_attempt_at {
        set.push(("next_attempt_at", number(next.as_millisecond())));
        set.push(("trigger", text(entry.trigger)));
        set.push(("give_up_at", number(entry.give_up_at.get())));
    }
    set
}

/// The partition of the deliveries of a destination's shard.
fn destination_key(tenant: &TenantId, id: &DeliveryId) -> String {
    format!("{tenant}/{}", id.place())
}

/// The partition of the index with those that have a status.
fn index_key(destination: &str, status: Status) -> String {
    format!("{destination}/{status}")
}

/// The partition of what a delivery has besides its state.
fn details_partition(tenant: &TenantId, id: &DeliveryId) -> String {
    format!("{tenant}/{}/{}", id.place(), id.moment())
}

fn state_key(tenant: &TenantId, id: &DeliveryId) -> Item {
    key(destination_key(tenant, id), id.moment())
}

fn details_key(tenant: &TenantId, id: &DeliveryId, part: &str) -> Item {
    key(details_partition(tenant, id), part)
}

fn key(destination: impl ToString, delivery: impl ToString) -> Item {
    item([("destination", text(destination)), ("delivery", text(delivery))])
}

/// The longest prefix of `text` with at most `bytes`.
fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}
