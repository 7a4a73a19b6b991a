//! DynamoDB transactions, retried on contention.

use std::time::Duration;

use aws_sdk_dynamodb::{
    Client,
    operation::transact_write_items::TransactWriteItemsError,
    types::{ConditionCheck, Delete, Put, TransactWriteItem},
};

use crate::{
    aws::{
        dynamo::{Attribute, Item},
        expression::{Condition, Update, conditional},
        failure,
    },
    error::{Error, Result},
    random, runtime_sources,
};

/// An item that a transaction writes on condition that it does not exist yet, so the transaction takes effect only
/// once. It has no `Debug`, because the item may contain a secret.
pub struct Marker {
    pub(crate) table: String,
    pub(crate) item: Item,
    pub(crate) is_new: Condition,
}

/// Writes that all succeed or all fail. Each write can specify the error to return if its condition fails.
#[must_use = "nothing is written before the commit"]
pub(crate) struct Transaction {
    doing: &'static str,
    writes: Vec<TransactWriteItem>,
    /// The error for each write; `None` if the write has no condition that can fail.
    refusals: Vec<Option<Error>>,
}

impl Transaction {
    /// Starts an empty transaction. `doing` describes its purpose ("creating an account").
    pub(crate) fn new(doing: &'static str) -> Self {
        Self { doing, writes: Vec::new(), refusals: Vec::new() }
    }

    /// Writes an item, replacing any item with the same key.
    pub(crate) fn put(self, table: &str, item: Item) -> Self {
        self.put_if(table, item, Condition::default())
    }

    /// Writes a new item, on condition that none with that key exists.
    pub(crate) fn put_new(self, table: &str, key: Attribute, item: Item) -> Self {
        self.put_if(table, item, key.is_absent())
    }

    pub(crate) fn put_if(self, table: &str, item: Item, condition: Condition) -> Self {
        let put = conditional!(Put::builder().table_name(table).set_item(Some(item)), condition);
        #[expect(clippy::expect_used, reason = "table and item are set")]
        self.write(TransactWriteItem::builder().put(put.build().expect("a complete put")).build())
    }

    pub(crate) fn update(self, update: Update) -> Self {
        self.write(TransactWriteItem::builder().update(update.into_write()).build())
    }

    /// Deletes the item with this key, if it exists.
    pub(crate) fn delete(self, table: &str, key: Item) -> Self {
        self.delete_if(table, key, Condition::default())
    }

    pub(crate) fn delete_if(self, table: &str, key: Item, condition: Condition) -> Self {
        let delete = conditional!(Delete::builder().table_name(table).set_key(Some(key)), condition);
        #[expect(clippy::expect_used, reason = "table and key are set")]
        self.write(TransactWriteItem::builder().delete(delete.build().expect("a complete deletion")).build())
    }

    /// Checks an item that the transaction does not write.
    pub(crate) fn check(self, table: &str, key: Item, condition: Condition) -> Self {
        let check = conditional!(ConditionCheck::builder().table_name(table).set_key(Some(key)), condition);
        #[expect(clippy::expect_used, reason = "table, key and condition are set")]
        self.write(TransactWriteItem::builder().condition_check(check.build().expect("a complete check")).build())
    }

    /// Makes the transaction take effect only once, by writing this marker. If the marker already exists, the error is
    /// [`Error::Busy`]: an earlier try may have succeeded.
    pub(crate) fn once(self, marker: Option<&Marker>) -> Self {
        match marker {
            Some(Marker { table, item, is_new }) => self.put_if(table, item.clone(), is_new.clone()).or(Error::Busy),
            None => self,
        }
    }

    fn write(mut self, write: TransactWriteItem) -> Self {
        self.writes.push(write);
        self.refusals.push(None);
        self
    }

    /// Sets the error to return if the condition of the latest write fails.
    pub(crate) fn or(mut self, refusal: Error) -> Self {
        if let Some(last) = self.refusals.last_mut() {
            *last = Some(refusal);
        }
        self
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// The error for the first write whose condition failed, or a failure of the call.
    pub(crate) async fn commit(self, dynamodb: &Client) -> Result<()> {
        let Self { doing, writes, mut refusals } = self;
        let refused = commit(dynamodb, &writes, doing).await?;
        let Some(first) = refused.first() else { return Ok(()) };
        let refusal = refusals.get_mut(*first).and_then(Option::take);
        Err(refusal.unwrap_or_else(|| Error::Internal(format!("{doing}: the writes {refused:?} failed"))))
    }

    /// Commits the transaction. Returns the index of the first write whose condition failed.
    pub(crate) async fn first_refused(self, dynamodb: &Client) -> Result<Option<usize>> {
        Ok(commit(dynamodb, &self.writes, self.doing).await?.first().copied())
    }

    /// Commits the transaction. Returns `false` if any condition failed.
    pub(crate) async fn try_commit(self, dynamodb: &Client) -> Result<bool> {
        Ok(commit(dynamodb, &self.writes, self.doing).await?.is_empty())
    }
}

/// The number of tries under contention. With the delays below, 24 clients can all write the same counter at once.
const MAX_TRIES: u32 = 10;

/// Commits, and retries under contention. Returns the indexes of the writes whose conditions failed, if any.
async fn commit(dynamodb: &Client, writes: &[TransactWriteItem], doing: &'static str) -> Result<Vec<usize>> {
    let mut token = runtime_sources::uuid();
    for attempt in 0..MAX_TRIES {
        // The SDK's own retries have the same token, so a retry after a lost response does not conflict with the
        // committed transaction.
        let call = dynamodb.transact_write_items().client_request_token(token);
        let Err(error) = call.set_transact_items(Some(writes.to_vec())).send().await else { return Ok(Vec::new()) };
        let jitter = match error.as_service_error() {
            // An attempt of the SDK has timed out, and the transaction may still be committed. A call with the same token
            // gets its result.
            Some(TransactWriteItemsError::TransactionInProgressException(_)) => 1.0,
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                let codes = cancelled.cancellation_reasons().iter().map(|reason| reason.code().unwrap_or_default());
                match read_reasons(codes) {
                    Cancelled::Refused(indexes) => return Ok(indexes),
                    Cancelled::Contended => {}
                    Cancelled::Broken => return Err(failure(doing)(error)),
                }
                token = runtime_sources::uuid();
                random::fraction()
            }
            _ => return Err(failure(doing)(error)),
        };
        tokio::time::sleep(backoff(attempt, jitter)).await;
    }
    crate::log!("transaction.contended", doing);
    Err(Error::Busy)
}

/// Why DynamoDB canceled a transaction.
#[derive(Debug, PartialEq, Eq)]
enum Cancelled {
    /// The conditions of the writes with these indexes failed.
    Refused(Vec<usize>),
    /// Other calls touched the same items: the same transaction may succeed later.
    Contended,
    /// Any other reason.
    Broken,
}

/// Reads the codes of the cancellation reasons, one for each write. If any write was rejected because of contention,
/// the list of failed conditions may be incomplete, so contention takes precedence.
fn read_reasons<'a>(codes: impl Iterator<Item = &'a str> + Clone) -> Cancelled {
    let contended = |code| matches!(code, "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded");
    let refused = |(index, code)| (code == "ConditionalCheckFailed").then_some(index);
    let indexes: Vec<usize> = codes.clone().enumerate().filter_map(refused).collect();
    if codes.clone().any(contended) {
        Cancelled::Contended
    } else if indexes.is_empty() {
        Cancelled::Broken
    } else {
        Cancelled::Refused(indexes)
    }
}

/// "Full jitter": a random delay up to a limit that doubles each time, at most 640 ms.
fn backoff(attempt: u32, jitter: f64) -> Duration {
    Duration::from_millis(20 << attempt.min(5)).mul_f64(jitter)
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::AttributeValue;

    use super::*;
    use crate::aws::clients::tests::{answer, serve};

    #[test]
    fn contention_is_retried_before_a_refusal_is_reported() {
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

    /// After an attempt that has timed out, the SDK's next one may find the transaction in progress.
    #[tokio::test]
    async fn a_transaction_in_progress_is_repeated_with_its_token() {
        let in_progress = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionInProgressException"}"#;
        let mut answers = vec![answer("400 Bad Request", in_progress); 5];
        answers.push(answer("200 OK", "{}"));
        let (aws, requests) = serve(answers, Duration::ZERO).await;
        let item = Item::from([("id".to_owned(), AttributeValue::S("1".to_owned()))]);
        Transaction::new("testing").put("t", item).commit(&aws.dynamodb()).await.expect("it is committed");
        let requests = requests.await.expect("no panic");
        let tokens = requests.iter().filter_map(|request| request.split("\"ClientRequestToken\":\"").nth(1)?.get(..36));
        let tokens: Vec<_> = tokens.collect();
        assert_eq!(tokens, [tokens[0]; 6]);
    }
}
