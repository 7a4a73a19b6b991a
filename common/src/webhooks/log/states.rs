//! Reads and writes the states, payloads and attempts of deliveries.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    ops::ControlFlow::{Break, Continue},
};

use aws_sdk_dynamodb::types::{AttributeValue, BatchStatementErrorCodeEnum, BatchStatementRequest};
use futures::{StreamExt, stream};

use super::{
    due_rows::DueRow,
    endings::Ending,
    index::is_backdated,
    items::*,
    payload::{self, LZ4, PARTS, Packed, RAW, TRACE},
    table::{
        DeliveryLog, ItemKey, NOT_FOUND, PAYLOAD, Row, details_key, details_partition, index_key, key_of, keyed,
        shared_key, state_key, tests_key,
    },
};
use crate::{
    audit::{self, Action, Entry, Recorder, TargetKind, initial},
    aws::{
        batch::{CONCURRENCY, WRITES, batches, insert_statement},
        dynamo::{Attribute, Item, boolean, number, query_all, query_page, text},
        expression::{Update, delete_if, put_if, select, take_if},
        failure, retry_conflicts,
        transaction::{Marker, Transaction},
    },
    error::{Conflict, Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Attempt, AttemptResult, Body, Delivery, DeliveryId, Payload, Status, Trigger, kept_job_id},
        event::EventName,
    },
};

/// The largest body, in bytes, stored with the state of a delivery that is held immediately. One call writes many such
/// states.
pub const HELD_WITH_STATE: usize = 8 * 1024;
/// The largest body, in bytes, stored with a state that will still change. The item then takes about a kilobyte, the
/// minimum that DynamoDB charges for an update.
pub const CHANGED_WITH_STATE: usize = 512;
/// The sort key prefix of earlier attempts.
const ATTEMPT: &str = "attempt.";
/// The maximum number of earlier attempts in a response. A Lambda response has at most 6 MiB, and contains the API's
/// response as JSON inside a JSON string. In this form, a payload of 1 MiB takes up to 4 MiB, and an attempt up to 7.3
/// KiB.
const MAX_ATTEMPTS: usize = 200;

impl DeliveryLog {
    /// Builds the row of a delivery that succeeded immediately, with its payload unless it is not kept, or too large.
    #[must_use]
    pub fn delivered_row(&self, tenant: &TenantId, delivery: &Delivery, payload: &Payload, now: Timestamp) -> Row {
        let mut item = self.state(tenant, delivery, now);
        let trace = payload.trace.as_ref().map_or(0, |trace| TRACE.name().len() + trace.as_str().len());
        let workflow = delivery.workflow.as_ref().map_or(0, |name| WORKFLOW.name().len() + name.len());
        let packed = Packed::new(&payload.body, trace + workflow);
        if delivery.erased_at.is_none() && packed.len() <= self.kept_payload_bytes {
            packed.put(&mut item, payload);
        }
        Row(item)
    }

    /// Builds the rows of a delivery that succeeded immediately. The payload of a thin one is kept in any case, if it is
    /// too large for the state in rows of its own.
    #[must_use]
    pub fn delivered_rows(
        &self,
        tenant: &TenantId,
        delivery: &Delivery,
        payload: &Payload,
        now: Timestamp,
    ) -> Vec<Row> {
        let state = self.delivered_row(tenant, delivery, payload, now);
        let is_apart = delivery.is_thin && delivery.erased_at.is_none() && payload::stored_bytes(&state.0) == 0;
        let apart = if is_apart { self.payload_rows(tenant, &delivery.id, payload, now) } else { Vec::new() };
        apart.into_iter().chain([state]).collect()
    }

    /// Builds the row with the first state of a delivery that did not succeed immediately, and with its payload, unless
    /// the payload has a separate row. A delivery that is held immediately has only this row.
    #[must_use]
    pub fn first_row(&self, tenant: &TenantId, delivery: &Delivery, payload: Option<&Payload>, now: Timestamp) -> Row {
        let mut item = self.state(tenant, delivery, now);
        match payload {
            Some(payload) => Packed::new(&payload.body, 0).put(&mut item, payload),
            None => item.extend(delivery.is_shared.then(|| SHARED.with(boolean(true)))),
        }
        Row(item)
    }

    /// Builds the row for the attempts in `before` that do not fit into the state `after`. Returns `None` if they fit.
    #[must_use]
    pub fn attempts_row(&self, tenant: &TenantId, before: &Delivery, after: &Delivery, now: Timestamp) -> Option<Row> {
        let last = before.last_attempt.as_ref().filter(|_| after.earlier.is_empty())?;
        let key = details_key(tenant, &before.id, &attempt_key(before.attempts));
        Some(Row(self.item(key, attempts_attributes(&before.earlier, Some(last)), now)))
    }

    /// Stores the first states of deliveries. Returns the results in the same order. Another state that exists is an error:
    /// another process is handling the same event. [`Error::Busy`] means that the partition or the table was throttled.
    ///
    /// Several states are inserted by statements, because batched writes have no conditions. No delivery may occur
    /// twice, because the entire batch would fail. Moto 5.2.5 cannot execute such statements, so a single state is put.
    pub async fn begin(&self, states: Vec<Row>) -> Vec<Result<()>> {
        let mut begun = match &states[..] {
            [Row(state)] => vec![self.begin_one(state.clone()).await],
            _ => {
                let inserts = states.iter().map(|Row(state)| insert_statement(&self.table, state.clone()));
                self.execute(inserts.collect()).await
            }
        };
        self.recognize(&states, &mut begun).await;
        begun
    }

    /// Finds the states that an earlier try of this call has written, and whose response was lost.
    async fn recognize(&self, states: &[Row], begun: &mut [Result<()>]) {
        let mut refused: Vec<_> =
            begun.iter_mut().zip(states).filter(|(begun, _)| matches!(begun, Err(Error::Internal(_)))).collect();
        if refused.is_empty() {
            return;
        }
        match self.get_all(refused.iter().map(|(_, Row(state))| key_of(state)).collect()).await {
            Ok(found) => refused
                .iter_mut()
                .filter(|(_, Row(state))| found.get(&key_of(state)) == Some(state))
                .for_each(|(begun, _)| **begun = Ok(())),
            Err(error) => crate::log!("log.unread", ?error, unread = refused.len()),
        }
    }

    async fn begin_one(&self, state: Item) -> Result<()> {
        let put = put_if(&self.dynamodb, &self.table, state, DELIVERY.is_absent(), "writing a delivery");
        if put.await? { Ok(()) } else { Err(unwritten()) }
    }

    /// Executes statements, each for a different item, in batches. Returns the results in the same order.
    pub(super) async fn execute(&self, statements: Vec<BatchStatementRequest>) -> Vec<Result<()>> {
        let calls: Vec<_> = batches(statements, WRITES).map(|batch| self.execute_batch(batch)).collect();
        stream::iter(calls).buffered(CONCURRENCY).collect::<Vec<_>>().await.into_iter().flatten().collect()
    }

    async fn execute_batch(&self, batch: Vec<BatchStatementRequest>) -> Vec<Result<()>> {
        use BatchStatementErrorCodeEnum::{
            ConditionalCheckFailed, DuplicateItem, ProvisionedThroughputExceeded, ThrottlingError,
        };

        let states = batch.len();
        let call = self.dynamodb.batch_execute_statement().set_statements(Some(batch));
        let answers = match Box::pin(call.send()).await.map_err(failure("writing deliveries")) {
            Ok(answer) => answer.responses.unwrap_or_default(),
            Err(error) => {
                crate::log!("log.states_unwritten", ?error);
                Vec::new()
            }
        };
        let executed = answers.into_iter().map(|answer| match answer.error {
            None => Ok(()),
            Some(error) if matches!(error.code, Some(ConditionalCheckFailed | DuplicateItem)) => Err(unwritten()),
            Some(error) => {
                crate::log!("log.state_refused", code = ?error.code, cause = error.message);
                Err(match error.code {
                    Some(ThrottlingError | ProvisionedThroughputExceeded) => Error::Busy,
                    _ => unwritten(),
                })
            }
        });
        // Without a response, it is unknown which states were stored.
        executed.chain(iter::repeat_with(|| Err(unwritten()))).take(states).collect()
    }

    /// Adds the write of a new delivery's state to a transaction.
    pub(in crate::webhooks) fn begin_in(&self, transaction: Transaction, Row(state): Row) -> Transaction {
        transaction.put_new(&self.table, DELIVERY, state)
    }

    /// Changes the state from `before` to `after`. Returns `false` if another attempt or a resend has changed the state
    /// in the meantime. A success is always stored, unless the delivery was erased.
    pub async fn advance(&self, tenant: &TenantId, before: &Delivery, after: &Delivery) -> Result<bool> {
        let update = self.attempted(tenant, after);
        let update = if after.status == Status::Delivered {
            update.only_if(DELIVERY.exists().and(ERASED_AT.is_absent()))
        } else {
            only_if_still(before, update)
        };
        update.send(&self.dynamodb, "updating a delivery").await
    }

    /// Changes states like [`Self::advance`], in batches, if they are still the same as `before`. Returns whether each
    /// was changed; `false` includes failed calls, after which it is unknown. The caller uses [`Self::advance`] for
    /// those deliveries.
    pub async fn advance_all(&self, changes: Vec<(&TenantId, &Delivery, &Delivery)>) -> Vec<bool> {
        let statements = changes
            .into_iter()
            .map(|(tenant, before, after)| only_if_still(before, self.attempted(tenant, after)).into_statement());
        self.execute(statements.collect()).await.iter().map(Result::is_ok).collect()
    }

    /// Changes the state of a delivery that waits without being due for an attempt to `after`. Returns `false` if a client,
    /// a resend or an erasure has changed the state in the meantime.
    pub(super) async fn stop_waiting(&self, tenant: &TenantId, before: &Delivery, after: &Delivery) -> Result<bool> {
        let update = self.update(state_key(tenant, &after.id)).replace(&PASSING, standing(tenant, after));
        only_if_waiting(before, update).send(&self.dynamodb, "ending a delivery").await
    }

    /// Fails a delivery that is due and has no payload, so it cannot be sent. This is not the fault of its receiver.
    pub async fn give_up(&self, tenant: &TenantId, before: &Delivery, now: Timestamp) -> Result<()> {
        crate::log!("payload.missing", %tenant, delivery_id = %before.id);
        let failed = before.after(&AttemptResult::Expired, &[], || 0.0, now);
        if self.advance(tenant, before, &failed).await? {
            failed.report_failed(tenant);
        }
        Ok(())
    }

    /// Makes a delivery of any status pending again, with a new schedule that begins now. Returns its new state. Adds a
    /// due row; the caller sends the message.
    ///
    /// # Errors
    /// There is no such delivery, its payload was not kept, or the marker already exists.
    pub async fn resend(
        &self,
        recorder: &Recorder,
        tenant: &TenantId,
        id: &DeliveryId,
        once: Option<&Marker>,
        now: Timestamp,
    ) -> Result<Delivery> {
        self.resend_if(Some(recorder), tenant, id, now, once, |_| true, now).await
    }

    /// Like [`Self::resend`], but the first attempt is at `due`, and a delivery whose current state is not wanted
    /// counts as not found. Without a recorder, the resend is part of a recovery.
    pub(super) async fn resend_if(
        &self,
        recorder: Option<&Recorder>,
        tenant: &TenantId,
        id: &DeliveryId,
        due: Timestamp,
        once: Option<&Marker>,
        is_wanted: impl Fn(&Delivery) -> bool,
        now: Timestamp,
    ) -> Result<Delivery> {
        let is_wanted = &is_wanted;
        let trigger = recorder.map_or(Trigger::Recovery, |_| Trigger::Resend);
        retry_conflicts((), |()| async move {
            let (before, payload) = self.visible(tenant, id, now).await?;
            let is_done = before.next_attempt_at == Some(due) && before.trigger == trigger && before.tries == 0;
            if is_done && once.is_none() {
                // An earlier try made this write, but its response was lost.
                return Ok(Break(before));
            }
            if !is_wanted(&before) {
                return Err(NOT_FOUND);
            }
            let payload = payload.ok_or(Error::Conflict(Conflict::PayloadNotKept))?;
            // A large payload is moved out of the state, because it would make each update expensive.
            let is_apart = before.pull.is_some() || before.is_shared;
            let may_be_in_state = matches!(before.status, Status::Delivered | Status::Held) && !is_apart;
            let is_moved = may_be_in_state && payload.body.len() > CHANGED_WITH_STATE;
            let moved = if is_moved { self.payload_rows(tenant, id, &payload, now) } else { Vec::new() };
            let after = before.clone().reopened(trigger, due, now);
            let ending = Ending::of_resent(tenant, &after, now).map(Row);
            self.put_all([self.due_row(tenant, &after, now)].into_iter().chain(ending)).await?;
            let is_reopened = self.reopen(recorder, tenant, &before, &after, moved, once, now).await?;
            Ok(if is_reopened { Break(after) } else { Continue(()) })
        })
        .await
    }

    /// Makes a delivery pending again, unless an attempt, another resend or an erasure came first. One transaction
    /// moves the payload out of the state. If the payload were written to its own item earlier, it could survive an
    /// erasure.
    async fn reopen(
        &self,
        recorder: Option<&Recorder>,
        tenant: &TenantId,
        before: &Delivery,
        after: &Delivery,
        moved: Vec<Row>,
        once: Option<&Marker>,
        now: Timestamp,
    ) -> Result<bool> {
        let update = self
            .update(state_key(tenant, &after.id))
            .replace(&PASSING, standing(tenant, after))
            .set(EXPIRES_AT, self.expiry(now))
            .remove(payload::ATTRIBUTES.into_iter().filter(|_| !moved.is_empty()))
            .only_if(ATTEMPTS.equals(number(before.attempts.into())))
            .only_if(STATUS.equals(text(before.status)))
            .only_if(ERASED_AT.is_absent());
        let recorded = recorder.map(|recorder| {
            let target = audit::target(TargetKind::Delivery, after.id, after.job_id.clone());
            let endpoint = after.webhook_endpoint_id.map(|id| initial("webhook_endpoint_id", id));
            (recorder, Entry::new(Action::DeliveryResent, tenant, target).with(endpoint))
        });
        if recorded.is_some() || once.is_some() || !moved.is_empty() {
            let transaction = Transaction::new("resending a delivery").update(update);
            let transaction = moved.into_iter().fold(transaction, |all, Row(item)| all.put(&self.table, item));
            let transaction = match recorded {
                Some((recorder, entry)) => transaction.once(once).record(recorder, entry)?,
                None => transaction.once(once),
            };
            return match transaction.first_refused(&self.dynamodb).await? {
                None => Ok(true),
                Some(0) => Ok(false),
                Some(_) => Err(Error::Busy),
            };
        }
        update.send(&self.dynamodb, "resending a delivery").await
    }

    /// Deletes the payload of a successful delivery, if it is too large to be kept.
    pub async fn forget_large(&self, tenant: &TenantId, delivery: &Delivery, body: &Body) -> Result<()> {
        if delivery.is_thin || delivery.is_shared || !self.is_large(body) {
            return Ok(());
        }
        self.forget_large_apart(tenant, &delivery.id).await
    }

    /// Marks a pull delivery whose payload is too large to be kept after a success. A settlement does not read it.
    #[must_use]
    pub fn sized(&self, delivery: Delivery, body: &Body) -> Delivery {
        Delivery { is_large: delivery.pull.is_some() && self.is_large(body), ..delivery }
    }

    /// Whether a payload is too large to be kept after a success.
    fn is_large(&self, body: &Body) -> bool {
        body.len() > self.kept_payload_bytes && Packed::new(body, 0).len() > self.kept_payload_bytes
    }

    /// Deletes the payload of a successful delivery, if it is in a separate item and too large to be kept.
    pub(super) async fn forget_large_apart(&self, tenant: &TenantId, id: &DeliveryId) -> Result<()> {
        let key = keyed(details_key(tenant, id, PAYLOAD), []);
        let kept = number(self.kept_payload_bytes.try_into().unwrap_or(i64::MAX));
        let is_large = RAW.is_larger_than(kept.clone()).or(LZ4.is_larger_than(kept)).or(PARTS.exists());
        const DOING: &str = "deleting a payload";
        let parts = match take_if(&self.dynamodb, &self.table, key, is_large, DOING).await? {
            Some(first) => payload::other_parts(&first),
            // Perhaps an earlier try has deleted the first item, and its response was lost.
            None => self.left_parts(tenant, id).await?,
        };
        for part in parts {
            delete_if(&self.dynamodb, &self.table, keyed(part, []), DELIVERY.exists(), DOING).await?;
        }
        Ok(())
    }

    /// Finds the parts of a payload other than its first item.
    async fn left_parts(&self, tenant: &TenantId, id: &DeliveryId) -> Result<Vec<ItemKey>> {
        let is_part = DELIVERY.begins_with(text(payload::OTHER_PARTS));
        let parts = self.query(DESTINATION.equals(text(details_partition(tenant, id))).and(is_part));
        let parts = select(parts, &[DESTINATION, DELIVERY]).consistent_read(true);
        Ok(query_all(parts, "looking for parts of a payload").await?.iter().map(key_of).collect())
    }

    /// Reads the states of the deliveries in `ids` that are in the log. The read is strongly consistent.
    pub async fn known(&self, tenant: &TenantId, ids: &[DeliveryId]) -> Result<BTreeMap<DeliveryId, Delivery>> {
        let states = self.stored_states(tenant, ids).await?;
        states.into_iter().map(|(id, state)| Ok((id, read_delivery(id, &state)?))).collect()
    }

    /// Reads states like [`Self::known`], but leaves out those that are unreadable: one must not hide the others.
    pub async fn readable(&self, tenant: &TenantId, ids: &[DeliveryId]) -> Result<BTreeMap<DeliveryId, Delivery>> {
        let states = self.stored_states(tenant, ids).await?;
        Ok(states.into_iter().filter_map(|(id, state)| Some((id, read_or_log(tenant, id, &state)?))).collect())
    }

    async fn stored_states(&self, tenant: &TenantId, ids: &[DeliveryId]) -> Result<Vec<(DeliveryId, Item)>> {
        // DynamoDB rejects a batch that contains a key twice.
        let different: BTreeSet<_> = ids.iter().collect();
        let mut found = self.get_all(different.iter().map(|id| state_key(tenant, id)).collect()).await?;
        Ok(different.into_iter().filter_map(|id| Some((*id, found.remove(&state_key(tenant, id))?))).collect())
    }

    /// Reads the states of these attempts' deliveries, which may belong to different tenants, without duplicates.
    /// Deliveries that the log does not contain are omitted. Each delivery has its own result; [`Error::Busy`] means
    /// that another try may succeed.
    ///
    /// The reads are eventually consistent, at half the cost. States may be a second old, which is recent enough for
    /// the sweep, because it checks deliveries from 15 minutes ago.
    pub async fn states(&self, due: Vec<DueRow>) -> Vec<(DueRow, Result<Delivery>)> {
        let keyed = due.into_iter().map(|row| (state_key(&row.attempt.tenant, &row.attempt.id), row));
        let different: BTreeMap<_, _> = keyed.collect();
        let (found, error) = self.get_some(different.keys().cloned().collect(), false).await;
        if let Some(error) = error {
            crate::log!("deliveries.unread", ?error, unread = found.unread.len());
        }
        let states = different.into_iter().filter_map(|(key, row)| {
            let state = match found.values.get(&key) {
                Some(item) => read_delivery(row.attempt.id, item),
                None if found.unread.contains(&key) => Err(Error::Busy),
                None => return None,
            };
            Some((row, state))
        });
        states.collect()
    }

    /// Reads a delivery, with its payload if it was kept. The read is strongly consistent.
    pub async fn find(&self, tenant: &TenantId, id: &DeliveryId) -> Result<Option<(Delivery, Option<Payload>)>> {
        match self.find_once(tenant, id).await? {
            // A resend may have moved the payload between the reads of the two items.
            Some((delivery, None)) if delivery.needs_payload() => self.find_once(tenant, id).await,
            found => Ok(found),
        }
    }

    async fn find_once(&self, tenant: &TenantId, id: &DeliveryId) -> Result<Option<(Delivery, Option<Payload>)>> {
        let [state, apart] = [state_key(tenant, id), details_key(tenant, id, PAYLOAD)];
        let mut found = self.get_all(vec![state.clone(), apart.clone()]).await?;
        let Some(state) = found.remove(&state) else { return Ok(None) };
        let delivery = read_delivery(*id, &state)?;
        if delivery.erased_at.is_some() {
            return Ok(Some((delivery, None)));
        }
        let shared = if delivery.is_shared { self.apart(tenant, &delivery).await? } else { None };
        let item = shared.or_else(|| found.remove(&apart)).unwrap_or(state);
        // After a success, a payload that is too large counts as deleted, even if a crash prevented its deletion.
        let is_kept = delivery.status != Status::Delivered
            || delivery.is_thin
            || payload::stored_bytes(&item) <= self.kept_payload_bytes;
        let payload = if is_kept { payload::read(tenant, id, &self.whole(item).await?) } else { None };
        Ok(Some((delivery, payload)))
    }

    /// Reads the payload that is stored apart from a delivery's state.
    pub(super) async fn apart(&self, tenant: &TenantId, delivery: &Delivery) -> Result<Option<Item>> {
        let key = apart_key(tenant, delivery);
        Ok(self.get_all(vec![key.clone()]).await?.remove(&key))
    }

    /// [Finds](Self::find) a delivery for its tenant. After the retention period, it counts as deleted.
    ///
    /// # Errors
    /// There is no such delivery.
    pub async fn visible(
        &self,
        tenant: &TenantId,
        id: &DeliveryId,
        now: Timestamp,
    ) -> Result<(Delivery, Option<Payload>)> {
        let found = if id.at >= self.oldest(now) { self.find(tenant, id).await? } else { None };
        found.ok_or(NOT_FOUND)
    }

    /// Reads a delivery's attempts before the last one, oldest first. If there are too many, returns only the newest.
    pub async fn earlier_attempts(&self, tenant: &TenantId, delivery: &Delivery) -> Result<Vec<Attempt>> {
        let in_state = u32::try_from(delivery.attempts_so_far().count()).unwrap_or(u32::MAX);
        let apart = delivery.attempts.saturating_sub(in_state);
        // Rows are written before the state, so after a crash both may contain the same attempt. The number of attempts
        // in the state decides which rows count.
        let keys = DESTINATION
            .equals(text(details_partition(tenant, &delivery.id)))
            .and(DELIVERY.is_between(text(ATTEMPT), text(attempt_key(apart))));
        let newest = self.query(keys).consistent_read(true).scan_index_forward(false);
        let mut attempts = Vec::new();
        for item in query_page(newest, MAX_ATTEMPTS, "reading attempts").await?.items.iter().rev() {
            let (earlier, last) = read_attempts(item)?;
            attempts.extend(earlier.into_iter().chain(last));
        }
        attempts.extend(delivery.earlier.iter().cloned());
        // A success is always stored, so there may be items for attempts that the state does not include.
        attempts.sort_by_key(|attempt| attempt.at);
        attempts.dedup();
        attempts.drain(..attempts.len().saturating_sub(MAX_ATTEMPTS));
        if delivery.erased_at.is_some() {
            attempts = attempts.into_iter().map(Attempt::bare).collect();
        }
        Ok(attempts)
    }

    /// Builds the item of the state of a delivery that enters the log `now`.
    fn state(&self, tenant: &TenantId, delivery: &Delivery, now: Timestamp) -> Item {
        let mut set = standing(tenant, delivery);
        set.extend([
            (EVENT, text(delivery.event.as_str())),
            (JOB_ID, text(kept_job_id(&delivery.job_id))),
            (ATTEMPTS, number(delivery.attempts.into())),
        ]);
        set.extend(delivery.workflow.as_ref().map(|name| (WORKFLOW, text(name))));
        set.extend(marks(delivery));
        set.extend(is_backdated(&delivery.id, now).then(|| (BACKDATED, boolean(true))));
        set.extend(delivery.erased_at.map(|at| (ERASED_AT, number(at.as_millisecond()))));
        set.extend(attempts_attributes(&delivery.earlier, delivery.last_attempt.as_ref()));
        self.item(state_key(tenant, &delivery.id), set, now)
    }

    /// Builds the update of the state after another attempt.
    pub(super) fn attempted(&self, tenant: &TenantId, after: &Delivery) -> Update {
        let attempts = attempts_attributes(&after.earlier, after.last_attempt.as_ref()).collect();
        let update = self
            .update(state_key(tenant, &after.id))
            .replace(&PASSING, standing(tenant, after))
            .set(ATTEMPTS, number(after.attempts.into()))
            .replace(&[LAST, EARLIER], attempts);
        let update = update.set_all(marks(after));
        match after.erased_at {
            None => update,
            Some(at) => update.set(ERASED_AT, number(at.as_millisecond())).remove(payload::ATTRIBUTES),
        }
    }
}

/// The key of the payload that is stored apart from a delivery's state: its own, or one that it shares with others.
pub(super) fn apart_key(tenant: &TenantId, delivery: &Delivery) -> ItemKey {
    match delivery.is_shared {
        true => shared_key(tenant, delivery),
        false => details_key(tenant, &delivery.id, PAYLOAD),
    }
}

/// The attributes that say how the payload is sent and stored.
fn marks(delivery: &Delivery) -> impl Iterator<Item = (Attribute, AttributeValue)> + use<> {
    let marks = [(THIN, delivery.is_thin), (LARGE, delivery.is_large)];
    marks.into_iter().filter(|(_, is_set)| *is_set).map(|(mark, is_set)| (mark, boolean(is_set)))
}

/// Restricts an update to a state that is the same as `before`.
fn only_if_still(before: &Delivery, update: Update) -> Update {
    let update = update
        .only_if(ATTEMPTS.equals(number(before.attempts.into())))
        .only_if(TRIES.equals(number(before.tries.into())))
        // A resend changes this time even if there has been no attempt.
        .only_if(FAILS_AT.equals(number(before.fails_at.as_millisecond())))
        .only_if(STATUS.equals(text(before.status)));
    only_if_not_taken(before, update)
}

/// Restricts an update to a state that no attempt, client or resend has changed. A held delivery may have no deadline, so
/// its status and attempts decide.
pub(super) fn only_if_waiting(before: &Delivery, update: Update) -> Update {
    let update =
        update.only_if(ATTEMPTS.equals(number(before.attempts.into()))).only_if(STATUS.equals(text(before.status)));
    only_if_not_taken(before, update)
}

/// Restricts an update to a state that no client has received in the meantime.
fn only_if_not_taken(before: &Delivery, update: Update) -> Update {
    match before.pull.as_ref().and_then(|pull| pull.due) {
        Some(due) => update.only_if(DUE.equals(number(due.as_millisecond()))),
        None => update,
    }
}

fn unwritten() -> Error {
    Error::Internal("the state of a delivery was not written".to_owned())
}

/// The attributes of [`standing`] that some statuses lack. They are removed if they are not set.
pub(super) const PASSING: [Attribute; 6] = [NEXT_ATTEMPT_AT, PARKED, OPEN, DUE, LEASE, LEASE_ENDS];

/// The sort key of an earlier attempt.
fn attempt_key(number: u32) -> String {
    format!("{ATTEMPT}{number:06}")
}

/// The attributes that depend on the status. `delivered` needs only a few.
pub(super) fn standing(tenant: &TenantId, delivery: &Delivery) -> Vec<(Attribute, AttributeValue)> {
    debug_assert!(delivery.is_consistent(), "{delivery:?}");
    let mut set = vec![(STATUS, text(delivery.status))];
    if delivery.status != Status::Delivered {
        let (shard, status) = (delivery.id.shard(), delivery.status);
        let key = if delivery.event == EventName::Test { tests_key } else { index_key };
        set.push((OPEN, text(key(tenant, shard, status))));
        set.push((TRIES, number(delivery.tries.into())));
    }
    match (&delivery.pull, delivery.next_attempt_at) {
        (Some(pull), _) => set.extend(pull_attributes(pull)),
        (None, Some(next)) => set.push((NEXT_ATTEMPT_AT, number(next.as_millisecond()))),
        (None, None) => {}
    }
    set.extend(delivery.is_parked.then(|| (PARKED, boolean(true))));
    if delivery.wakes_at().is_some() {
        set.push((TRIGGER, text(delivery.trigger)));
        set.push((FAILS_AT, number(delivery.fails_at.as_millisecond())));
    }
    set
}
