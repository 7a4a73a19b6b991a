//! Batched reads and writes of a table.
//!
//! If a partition is throttled, DynamoDB leaves its items unprocessed, or rejects the call if these are all its items.
//! This module retries these items with growing delays, and returns those that still fail, with the reason. A read also
//! leaves items unprocessed after 16 MB, or after a megabyte of a partition
//! (<https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html>), so it goes on while it gets
//! some.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, BatchStatementRequest, DeleteRequest, KeysAndAttributes, PutRequest, WriteRequest},
};
use futures::{Stream, StreamExt, TryStreamExt, stream};

use crate::{
    aws::{dynamo::Item, failure},
    error::{Error, Result},
    random,
};

/// The number of items that `BatchWriteItem` accepts.
pub(crate) const WRITES: usize = 25;
/// A batch with more than this is written in parts, so that each call ends in time even on a slow connection.
/// `BatchWriteItem` accepts 16 MB.
const WRITTEN_BYTES: usize = 1 << 20;
/// The number of items that `BatchGetItem` accepts.
pub(crate) const READS: usize = 100;
/// The maximum number of concurrent calls per caller.
pub(crate) const CONCURRENCY: usize = 16;
/// The maximum number of tries per batch while DynamoDB leaves items unprocessed. A read that gets some begins again.
pub(crate) const ROUNDS: u32 = 5;

/// The items of a batch that were not written or read.
pub(crate) struct Unprocessed<T> {
    /// The labels of writes, or the keys of reads.
    pub(crate) items: Vec<T>,
    /// The error of the call; `None` if DynamoDB did not process these items in any round.
    pub(crate) error: Option<Error>,
}

impl<T> Unprocessed<T> {
    fn into_error(self, doing: &'static str) -> Error {
        self.error.unwrap_or_else(|| {
            crate::log!("aws.throttled", doing);
            Error::Busy
        })
    }
}

/// Builds a write that replaces any item with the same key.
pub(crate) fn put_request(item: Item) -> WriteRequest {
    #[expect(clippy::expect_used, reason = "the item is set")]
    let put = PutRequest::builder().set_item(Some(item)).build().expect("a complete put");
    WriteRequest::builder().put_request(put).build()
}

/// Builds a statement that writes a new item, and fails if an item with this key exists
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html>).
pub(crate) fn insert_statement(table: &str, item: Item) -> BatchStatementRequest {
    let (names, values): (Vec<_>, Vec<_>) = item.into_iter().unzip();
    let fields: Vec<_> = names.iter().map(|name| format!("'{name}': ?")).collect();
    let statement = format!("INSERT INTO \"{table}\" VALUE {{{}}}", fields.join(", "));
    #[expect(clippy::expect_used, reason = "the statement is set")]
    BatchStatementRequest::builder()
        .statement(statement)
        .set_parameters(Some(values))
        .build()
        .expect("a complete statement")
}

/// Builds the deletion of the item with this key, if it exists.
pub(crate) fn delete_request(key: Item) -> WriteRequest {
    #[expect(clippy::expect_used, reason = "the key is set")]
    let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("a complete deletion");
    WriteRequest::builder().delete_request(delete).build()
}

/// Performs any number of repeatable writes, in any order. No two may write the same item.
pub(crate) async fn batch_write(
    dynamodb: &Client,
    table: &str,
    writes: impl IntoIterator<Item = WriteRequest>,
    doing: &'static str,
) -> Result<()> {
    let writes = writes.into_iter().map(|write| ((), write)).collect();
    let written = write_all(dynamodb, table, writes, doing, |(), _| true);
    written.map_err(|left| left.into_error(doing)).try_collect().await
}

/// Like [`batch_write`], but with a label for each write, and returns the result of each batch. `is_of` checks whether
/// a label belongs to a write that DynamoDB left unprocessed.
pub(crate) fn write_all<L>(
    dynamodb: &Client,
    table: &str,
    writes: Vec<(L, WriteRequest)>,
    doing: &'static str,
    is_of: impl Fn(&L, &WriteRequest) -> bool + Copy,
) -> impl Stream<Item = Result<(), Unprocessed<L>>> {
    let calls = by_size(writes).into_iter().map(move |batch| async move {
        let (mut left, mut requests): (Vec<L>, Vec<_>) = batch.into_iter().unzip();
        for round in 0..ROUNDS {
            pause(round).await;
            let call = dynamodb.batch_write_item().request_items(table, requests.clone());
            requests = match Box::pin(call.send()).await {
                Ok(answer) => answer.unprocessed_items.unwrap_or_default().remove(table).unwrap_or_default(),
                Err(error) => match failure(doing)(error) {
                    Error::Busy => requests,
                    error => return Err(Unprocessed { items: left, error: Some(error) }),
                },
            };
            if requests.is_empty() {
                return Ok(());
            }
            left.retain(|label| requests.iter().any(|request| is_of(label, request)));
        }
        Err(Unprocessed { items: left, error: None })
    });
    stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY)
}

/// Reads the items with these keys, with strong consistency and in any order.
pub(crate) async fn batch_get(
    dynamodb: &Client,
    table: &str,
    keys: Vec<Item>,
    doing: &'static str,
) -> Result<Vec<Item>> {
    let found = read_all(dynamodb, table, keys, true, doing).map(|(items, left)| match left {
        Some(left) => Err(left.into_error(doing)),
        None => Ok(items),
    });
    found.try_concat().await
}

/// Reads the items with these keys. Returns the result of each batch: the items, and the keys that were not read.
pub(crate) fn read_all(
    dynamodb: &Client,
    table: &str,
    keys: Vec<Item>,
    is_consistent: bool,
    doing: &'static str,
) -> impl Stream<Item = (Vec<Item>, Option<Unprocessed<Item>>)> {
    let calls = batches(keys, READS).map(move |mut keys| async move {
        let (mut items, mut round) = (Vec::new(), 0);
        while round < ROUNDS {
            pause(round).await;
            let wanted = keys_and_attributes(keys.clone(), is_consistent);
            let call = dynamodb.batch_get_item().request_items(table, wanted);
            let answer = match Box::pin(call.send()).await {
                Ok(answer) => answer,
                Err(error) => return (items, Some(Unprocessed { items: keys, error: Some(failure(doing)(error)) })),
            };
            items.extend(answer.responses.unwrap_or_default().remove(table).unwrap_or_default());
            let Some(left_out) = answer.unprocessed_keys.unwrap_or_default().remove(table) else {
                return (items, None);
            };
            round = if left_out.keys.len() < keys.len() { 1 } else { round + 1 };
            keys = left_out.keys;
        }
        (items, Some(Unprocessed { items: keys, error: None }))
    });
    stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY)
}

/// Reads two items from one or two tables in one call, with strong consistency.
pub(crate) async fn get_both(
    dynamodb: &Client,
    wanted: [(&String, Item); 2],
    doing: &'static str,
) -> Result<[Option<Item>; 2]> {
    let mut keys: HashMap<String, Vec<Item>> = HashMap::new();
    for (table, key) in &wanted {
        keys.entry(String::clone(table)).or_default().push(key.clone());
    }
    let keys = keys.into_iter().map(|(table, keys)| (table, keys_and_attributes(keys, true))).collect();
    let answer = dynamodb.batch_get_item().set_request_items(Some(keys)).send().await.map_err(failure(doing))?;
    // DynamoDB leaves items this small unprocessed only if the table is throttled.
    if answer.unprocessed_keys().is_some_and(|keys| !keys.is_empty()) {
        return Err(Error::Busy);
    }
    let mut items = answer.responses.unwrap_or_default();
    // The response is unordered.
    Ok(wanted.map(|(table, key)| {
        let found = items.get_mut(table)?;
        let is_wanted = |item: &Item| key.iter().all(|(name, value)| item.get(name) == Some(value));
        let index = found.iter().position(is_wanted)?;
        Some(found.swap_remove(index))
    }))
}

fn keys_and_attributes(keys: Vec<Item>, is_consistent: bool) -> KeysAndAttributes {
    #[expect(clippy::expect_used, reason = "the keys are set")]
    KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(is_consistent).build().expect("complete keys")
}

/// Waits before a round that retries a throttled partition: 50 ms on average before the second round, and twice as long
/// before each later one.
async fn pause(round: u32) {
    if let Some(earlier) = round.checked_sub(1) {
        tokio::time::sleep(Duration::from_millis(50 << earlier).mul_f64(0.5 + random::fraction())).await;
    }
}

/// Divides writes into batches of at most [`WRITES`] items and, with more than one item, [`WRITTEN_BYTES`].
fn by_size<L>(writes: Vec<(L, WriteRequest)>) -> Vec<Vec<(L, WriteRequest)>> {
    let (mut batches, mut left) = (Vec::new(), 0_usize);
    for (label, write) in writes {
        let bytes = write.put_request.as_ref().map_or(0, |put| put.item.values().map(value_bytes).sum());
        match batches.last_mut() {
            Some(batch) if Vec::len(batch) < WRITES && bytes <= left => {
                batch.push((label, write));
                left -= bytes;
            }
            _ => {
                batches.push(vec![(label, write)]);
                left = WRITTEN_BYTES.saturating_sub(bytes);
            }
        }
    }
    batches
}

/// The size of a text or of bytes. Other values are small.
fn value_bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        _ => 0,
    }
}

/// Divides items into batches of `size`.
pub(crate) fn batches<T>(items: Vec<T>, size: usize) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || Some(items.by_ref().take(size).collect()).filter(|batch: &Vec<T>| !batch.is_empty()))
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::primitives::Blob;
    use serde_json::json;

    use super::*;
    use crate::aws::clients::tests::{answer, serve};

    #[test]
    fn a_batch_is_bounded_by_its_items_and_its_bytes() {
        let write = |bytes: usize| {
            let body = AttributeValue::B(Blob::new(vec![0; bytes]));
            (bytes, put_request(Item::from([("body".to_owned(), body)])))
        };
        let sizes = |writes: Vec<usize>| -> Vec<Vec<usize>> {
            let batches = by_size(writes.into_iter().map(write).collect()).into_iter();
            batches.map(|batch| batch.into_iter().map(|(bytes, _)| bytes).collect()).collect()
        };
        assert_eq!(sizes(vec![1; 51]), [vec![1; 25], vec![1; 25], vec![1]]);
        let large = 400_000;
        assert_eq!(
            sizes(vec![large, large, large, 1, 1 << 21, 1]),
            [vec![large; 2], vec![large, 1], vec![1 << 21], vec![1],]
        );
        assert!(sizes(Vec::new()).is_empty());
    }

    #[tokio::test]
    async fn large_items_are_read_in_as_many_calls_as_they_need() {
        let items: Vec<_> = (0..8).map(|number| json!({"id": {"S": number.to_string()}})).collect();
        let calls = (1..=items.len()).map(|read| {
            let unread = (read < items.len()).then(|| json!({"t": {"Keys": items[read..]}}));
            json!({"Responses": {"t": [items[read - 1]]}, "UnprocessedKeys": unread.unwrap_or_else(|| json!({}))})
        });
        let answers = calls.map(|body| answer("200 OK", &body.to_string())).collect();
        let (aws, requests) = serve(answers, Duration::ZERO).await;
        let keys: Vec<_> =
            (0..8).map(|id| Item::from([("id".to_owned(), AttributeValue::S(id.to_string()))])).collect();
        assert_eq!(batch_get(&aws.dynamodb(), "t", keys.clone(), "reading").await.expect("all items"), keys);
        assert_eq!(requests.await.expect("no panic").len(), 8);
    }
}
