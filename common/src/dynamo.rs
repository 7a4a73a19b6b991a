//! Items, and transactions that say which condition failed.

use std::{collections::HashMap, fmt, str::FromStr, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    operation::{query::builders::QueryFluentBuilder, transact_write_items::TransactWriteItemsError},
    types::{AttributeValue, Delete, KeysAndAttributes, Put, TransactWriteItem, builders::PutBuilder},
};

use crate::{
    error::{Error, Result},
    issue::Problem,
    random,
};

/// One item, as the SDK has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// An item of these attributes.
pub(crate) fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn text(value: impl ToString) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

pub(crate) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn boolean(value: bool) -> AttributeValue {
    AttributeValue::Bool(value)
}

/// An item that was read, with errors that say what it should have been.
pub(crate) struct Record<'a> {
    kind: &'static str,
    item: &'a Item,
}

impl<'a> Record<'a> {
    pub(crate) fn new(kind: &'static str, item: &'a Item) -> Self {
        Self { kind, item }
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str> {
        self.optional_text(name).ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn optional_text(&self, name: &str) -> Option<&'a str> {
        Some(self.item.get(name)?.as_s().ok()?.as_str())
    }

    pub(crate) fn boolean(&self, name: &str) -> Result<bool> {
        let value = self.item.get(name).and_then(|value| value.as_bool().ok());
        value.copied().ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<i64> {
        let value = self.item.get(name).and_then(|value| value.as_n().ok());
        value.and_then(|digits| digits.parse().ok()).ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<T> {
        self.text(name)?.parse().map_err(|error| self.broken(name, error))
    }

    /// A text that was checked by `parse` before it was stored.
    pub(crate) fn checked<T>(&self, name: &str, parse: fn(&str) -> Result<T, Vec<Problem>>) -> Result<T> {
        parse(self.text(name)?).map_err(|_problems| self.broken(name, "not what it was when it was stored"))
    }

    /// The same, where the text may be missing.
    pub(crate) fn optional_checked<T>(
        &self,
        name: &str,
        parse: fn(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<T>> {
        if self.item.contains_key(name) { self.checked(name, parse).map(Some) } else { Ok(None) }
    }

    /// The value is left out: it may be a secret.
    fn broken(&self, name: &str, problem: impl fmt::Display) -> Error {
        Error::Internal(format!("the stored {}'s {name}: {problem}", self.kind))
    }
}

/// Reads one item from each of two tables, strongly consistent, in one call.
pub(crate) async fn batch_get(
    dynamodb: &Client,
    wanted: [(&String, Item); 2],
    doing: &'static str,
) -> Result<[Option<Item>; 2]> {
    let mut request = dynamodb.batch_get_item();
    for (table, key) in &wanted {
        let keys = KeysAndAttributes::builder().keys(key.clone()).consistent_read(true).build();
        request = request.request_items(*table, keys.map_err(Error::internal(doing))?);
    }
    let answer = request.send().await.map_err(Error::aws(doing))?;
    // Two small items are left unread only where the table is throttled.
    if answer.unprocessed_keys().is_some_and(|keys| !keys.is_empty()) {
        return Err(Error::Busy);
    }
    let mut items = answer.responses.unwrap_or_default();
    Ok(wanted.map(|(table, _)| items.get_mut(table).and_then(Vec::pop)))
}

/// All that `query` finds, page after page. The SDK's paginator hands each item through two channels, and brings 26,000
/// instructions to a call.
pub(crate) async fn query_all(query: QueryFluentBuilder, doing: &'static str) -> Result<Vec<Item>> {
    let (mut items, mut next) = (Vec::new(), None);
    loop {
        let page = query.clone().set_exclusive_start_key(next).send().await.map_err(Error::aws(doing))?;
        items.extend(page.items.unwrap_or_default());
        next = page.last_evaluated_key;
        if next.is_none() {
            return Ok(items);
        }
    }
}

/// What became of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// All of it is written.
    Committed,
    /// Nothing is written: the conditions of the writes at these places failed.
    Refused(Vec<usize>),
}

impl Transaction {
    /// Whether the condition of the write at `place` failed.
    pub(crate) fn refused(&self, place: usize) -> bool {
        matches!(self, Self::Refused(places) if places.contains(&place))
    }
}

/// How often a transaction is tried against others that touch the same items. With the waits below, 24 clients
/// that write one counter all get through.
const TRANSACTION_ATTEMPTS: u32 = 10;

/// Writes all of `writes` or nothing. Another transaction on the same items is waited for.
pub(crate) async fn transact(
    dynamodb: &Client,
    writes: Vec<TransactWriteItem>,
    doing: &'static str,
) -> Result<Transaction> {
    for attempt in 0..TRANSACTION_ATTEMPTS {
        // Each call makes its own idempotency token and keeps it over the SDK's retries, so that an answer that
        // got lost does not turn a success into a conflict with itself.
        let sent = dynamodb.transact_write_items().set_transact_items(Some(writes.clone())).send().await;
        let Err(error) = sent else { return Ok(Transaction::Committed) };
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
            return Err(Error::aws(doing)(error));
        };
        let codes = cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap_or_default());
        match read_reasons(codes) {
            Cancelled::Refused(places) => return Ok(Transaction::Refused(places)),
            Cancelled::Contended => {}
            Cancelled::Broken => return Err(Error::aws(doing)(error)),
        }
        tokio::time::sleep(backoff(attempt, random::fraction())).await;
    }
    tracing::warn!(doing, "other transactions on the same items did not end");
    Err(Error::Busy)
}

/// Why DynamoDB cancelled a transaction.
#[derive(Debug, PartialEq, Eq)]
enum Cancelled {
    /// The conditions of the writes at these places failed.
    Refused(Vec<usize>),
    /// Other calls were in the way: the same transaction may commit later.
    Contended,
    /// Anything else.
    Broken,
}

/// Reads the codes of the reasons, one for each write. As long as any write was in another's way, the conditions
/// that failed are not all there are: the transaction is tried again before anyone is told which it was.
fn read_reasons<'a>(codes: impl Iterator<Item = &'a str> + Clone) -> Cancelled {
    let contended = |code| matches!(code, "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded");
    let refused = |(place, code)| (code == "ConditionalCheckFailed").then_some(place);
    let places: Vec<usize> = codes.clone().enumerate().filter_map(refused).collect();
    if codes.clone().any(contended) {
        Cancelled::Contended
    } else if places.is_empty() {
        Cancelled::Broken
    } else {
        Cancelled::Refused(places)
    }
}

/// "Full jitter": anywhere between nothing and twice as long as the last time, at most 640 ms.
fn backoff(attempt: u32, jitter: f64) -> Duration {
    Duration::from_millis(20 << attempt.min(5)).mul_f64(jitter)
}

/// A `Put` of a new item: it fails where an item with that key exists.
pub(crate) fn put_new(table: &str, key: &str, item: Item) -> TransactWriteItem {
    let put = Put::builder().table_name(table).set_item(Some(item));
    let put = put.condition_expression("attribute_not_exists(#key)").expression_attribute_names("#key", key);
    TransactWriteItem::builder().put(built(put)).build()
}

fn built(put: PutBuilder) -> Put {
    #[expect(clippy::expect_used, reason = "table and item are always given")]
    put.build().expect("a complete Put")
}

/// A `Delete` of an item that must exist.
pub(crate) fn delete_existing(table: &str, key: &str, item_key: Item) -> TransactWriteItem {
    let delete = Delete::builder().table_name(table).set_key(Some(item_key));
    let delete = delete.condition_expression("attribute_exists(#key)").expression_attribute_names("#key", key);
    #[expect(clippy::expect_used, reason = "table and key are always given")]
    let delete = delete.build().expect("a complete Delete");
    TransactWriteItem::builder().delete(delete).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_is_waited_for_before_a_refusal_is_told() {
        let read = |codes: &[&str]| read_reasons(codes.iter().copied());
        assert_eq!(read(&["None", "ConditionalCheckFailed", "ConditionalCheckFailed"]), Cancelled::Refused(vec![1, 2]));
        assert_eq!(read(&["TransactionConflict", "ConditionalCheckFailed"]), Cancelled::Contended);
        assert_eq!(read(&["None", "ThrottlingError"]), Cancelled::Contended);
        assert_eq!(read(&["ProvisionedThroughputExceeded"]), Cancelled::Contended);
        assert_eq!(read(&["ValidationError", "None"]), Cancelled::Broken);
        assert_eq!(read(&[]), Cancelled::Broken);
    }

    #[test]
    fn the_backoff_grows_to_a_limit() {
        assert_eq!(backoff(0, 0.5), Duration::from_millis(10));
        assert_eq!(backoff(5, 1.0), Duration::from_millis(640));
        assert_eq!(backoff(9, 1.0), Duration::from_millis(640));
    }
}
