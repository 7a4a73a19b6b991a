//! Builds, reads and writes DynamoDB items.

use std::{collections::HashMap, fmt, str::FromStr, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::{query::builders::QueryFluentBuilder, update_item::builders::UpdateItemFluentBuilder},
    types::{AttributeValue, DeleteRequest, KeysAndAttributes, PutRequest, WriteRequest},
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    aws::failure,
    error::{Error, Result},
    issue::Problem,
    random,
    timestamp::Timestamp,
};

/// An item, as the SDK represents it.
pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn item<const N: usize>(attributes: [(&str, AttributeValue); N]) -> Item {
    attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn text(value: impl ToString) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

/// A set of texts, which must not be empty.
pub(crate) fn texts<'a>(values: impl Iterator<Item = &'a str>) -> AttributeValue {
    AttributeValue::Ss(values.map(str::to_owned).collect())
}

pub(crate) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn boolean(value: bool) -> AttributeValue {
    AttributeValue::Bool(value)
}

/// Reads the attributes of an item. Errors name the kind of item and the attribute.
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
        self.optional_boolean(name).ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn optional_boolean(&self, name: &str) -> Option<bool> {
        self.item.get(name)?.as_bool().ok().copied()
    }

    pub(crate) fn number(&self, name: &str) -> Result<i64> {
        self.optional_number(name).ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn optional_number(&self, name: &str) -> Option<i64> {
        self.item.get(name)?.as_n().ok()?.parse().ok()
    }

    /// A time, stored in milliseconds of Unix time.
    pub(crate) fn time(&self, name: &str) -> Result<Timestamp> {
        self.number(name).map(Timestamp::from_millisecond)
    }

    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<T> {
        self.text(name)?.parse().map_err(|error| self.broken(name, error))
    }

    /// As above, for an attribute that may be missing.
    pub(crate) fn optional_parsed<T: FromStr<Err: fmt::Display>>(&self, name: &str) -> Result<Option<T>> {
        if self.item.contains_key(name) { self.parsed(name).map(Some) } else { Ok(None) }
    }

    /// A text that `parse` validated before it was stored.
    pub(crate) fn checked<T>(&self, name: &str, parse: fn(&str) -> Result<T, Vec<Problem>>) -> Result<T> {
        parse(self.text(name)?).map_err(|_problems| self.broken(name, "no longer valid"))
    }

    /// As above, for an attribute that may be missing.
    pub(crate) fn optional_checked<T>(
        &self,
        name: &str,
        parse: fn(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<T>> {
        if self.item.contains_key(name) { self.checked(name, parse).map(Some) } else { Ok(None) }
    }

    /// A set of texts that `parse` validated before it was stored, and that may be missing.
    pub(crate) fn optional_set<T, S: FromIterator<T>>(
        &self,
        name: &str,
        parse: fn(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<S>> {
        let Some(set) = self.item.get(name) else { return Ok(None) };
        let texts = set.as_ss().map_err(|_other| self.broken(name, "not a set of texts"))?;
        let parsed = texts.iter().map(|text| parse(text)).collect::<Result<S, _>>();
        parsed.map(Some).map_err(|_problems| self.broken(name, "no longer valid"))
    }

    /// A map of texts by name, which may be missing.
    pub(crate) fn optional_map(&self, name: &str) -> Result<Option<Vec<(&'a str, &'a str)>>> {
        let Some(map) = self.item.get(name) else { return Ok(None) };
        let map = map.as_m().map_err(|_other| self.broken(name, "not a map"))?;
        let texts = map.iter().map(|(name, value)| Some((name.as_str(), value.as_s().ok()?.as_str())));
        texts.collect::<Option<_>>().map(Some).ok_or_else(|| self.broken(name, "not a map of texts"))
    }

    /// An error about the attribute `name`. It leaves out the value, which may be a secret.
    pub(crate) fn broken(&self, name: &str, problem: impl fmt::Display) -> Error {
        Error::Internal(format!("the stored {}'s {name}: {problem}", self.kind))
    }
}

/// Sets and removes attributes, whose names may be words that DynamoDB reserves.
pub(crate) fn change(
    update: UpdateItemFluentBuilder,
    set: Vec<(&'static str, AttributeValue)>,
    remove: &[&'static str],
) -> UpdateItemFluentBuilder {
    change_more(update, set, Vec::new(), &[], remove)
}

/// As [`change`], and also sets the attributes of `set_once` unless they exist. For each pair of `copy`, it sets the
/// first attribute to the value of the second before the update.
pub(crate) fn change_more(
    mut update: UpdateItemFluentBuilder,
    set: Vec<(&'static str, AttributeValue)>,
    set_once: Vec<(&'static str, AttributeValue)>,
    copy: &[(&'static str, &'static str)],
    remove: &[&'static str],
) -> UpdateItemFluentBuilder {
    let assigned = set.iter().map(|(name, _)| format!("#{name} = :{name}"));
    let copied = copy.iter().map(|(to, from)| format!("#{to} = #{from}"));
    let once = set_once.iter().map(|(name, _)| format!("#{name} = if_not_exists(#{name}, :{name})"));
    let assignments: Vec<_> = assigned.chain(once).chain(copied).collect();
    let removed: Vec<_> = remove.iter().map(|name| format!("#{name}")).collect();
    let remove_clause = if removed.is_empty() { String::new() } else { format!(" REMOVE {}", removed.join(", ")) };
    update = update.update_expression(format!("SET {}{remove_clause}", assignments.join(", ")));
    for name in copy.iter().flat_map(|(to, from)| [to, from]).chain(remove) {
        update = update.expression_attribute_names(format!("#{name}"), *name);
    }
    for (name, value) in set.into_iter().chain(set_once) {
        update = update
            .expression_attribute_names(format!("#{name}"), name)
            .expression_attribute_values(format!(":{name}"), value);
    }
    update
}

/// Reads one item from each of two tables, strongly consistently, in one call.
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
    let answer = request.send().await.map_err(failure(doing))?;
    // DynamoDB leaves two items this small unprocessed only if the table is throttled.
    if answer.unprocessed_keys().is_some_and(|keys| !keys.is_empty()) {
        return Err(Error::Busy);
    }
    let mut items = answer.responses.unwrap_or_default();
    Ok(wanted.map(|(table, _)| items.get_mut(table).and_then(Vec::pop)))
}

/// The maximum number of items that one call reads.
const BATCH: usize = 100;

/// Reads the items of a table that have these keys, strongly consistently, in any order.
pub(crate) async fn batch_get_all(
    dynamodb: &Client,
    table: &str,
    keys: Vec<Item>,
    doing: &'static str,
) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for keys in keys.chunks(BATCH) {
        let keys = KeysAndAttributes::builder().set_keys(Some(keys.to_vec())).consistent_read(true).build();
        let request = dynamodb.batch_get_item().request_items(table, keys.map_err(Error::internal(doing))?);
        let answer = request.send().await.map_err(failure(doing))?;
        // DynamoDB leaves small items unprocessed only if the table is throttled.
        if answer.unprocessed_keys().is_some_and(|keys| !keys.is_empty()) {
            return Err(Error::Busy);
        }
        items.extend(answer.responses.into_iter().flat_map(HashMap::into_values).flatten());
    }
    Ok(items)
}

/// The number of times that a conditional write starts over because other writes came first.
const STARTS: u32 = 10;

/// Repeats a round, which reads and writes conditionally, until one returns a value.
///
/// # Errors
/// A round failed; or other writes came first in every round: [`Error::Busy`].
pub async fn rounds<T>(mut round: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..STARTS {
        if let Some(done) = round().await? {
            return Ok(done);
        }
    }
    Err(Error::Busy)
}

/// The maximum number of items that one call writes.
const WRITES: usize = 25;
/// The number of such calls in progress at once.
const CONCURRENCY: usize = 16;
/// The number of rounds in which a batch sends the writes that a throttled partition left out.
const ROUNDS: u32 = 4;

/// The write of an item, which replaces any item with the same key.
pub(crate) fn put_request(item: Item) -> WriteRequest {
    #[expect(clippy::expect_used, reason = "the item is given")]
    let put = PutRequest::builder().set_item(Some(item)).build().expect("a complete put");
    WriteRequest::builder().put_request(put).build()
}

/// The deletion of the item with this key, if there is one.
pub(crate) fn delete_request(key: Item) -> WriteRequest {
    #[expect(clippy::expect_used, reason = "the key is given")]
    let delete = DeleteRequest::builder().set_key(Some(key)).build().expect("a complete deletion");
    WriteRequest::builder().delete_request(delete).build()
}

/// Makes any number of writes that can be repeated, in any order. Each must be of a different item.
pub(crate) async fn batch_write(
    dynamodb: &Client,
    table: &str,
    writes: impl IntoIterator<Item = WriteRequest>,
    doing: &'static str,
) -> Result<()> {
    let writes: Vec<_> = writes.into_iter().collect();
    let batches: Vec<_> = writes.chunks(WRITES).map(<[_]>::to_vec).collect();
    let written = batches.into_iter().map(async |mut left| {
        for round in 0..ROUNDS {
            let call = dynamodb.batch_write_item().request_items(table, left);
            let answer = Box::pin(call.send()).await.map_err(failure(doing))?;
            left = answer.unprocessed_items.unwrap_or_default().remove(table).unwrap_or_default();
            if left.is_empty() {
                return Ok(());
            }
            pause(round).await;
        }
        crate::log!("aws.throttled", doing);
        Err(Error::Busy)
    });
    stream::iter(written.collect::<Vec<_>>()).buffer_unordered(CONCURRENCY).try_collect().await
}

/// Waits for a throttled partition: 50 ms on average in the first round, twice as long in each further one.
pub(crate) async fn pause(round: u32) {
    tokio::time::sleep(Duration::from_millis(50 << round).mul_f64(0.5 + random::fraction())).await;
}

/// Reads all pages of `query`, without the SDK's paginator, whose two channels add 26,000 instructions to a call.
pub(crate) async fn query_all(query: QueryFluentBuilder, doing: &'static str) -> Result<Vec<Item>> {
    let (mut items, mut next) = (Vec::new(), None);
    loop {
        let page = query.clone().set_exclusive_start_key(next).send().await.map_err(failure(doing))?;
        items.extend(page.items.unwrap_or_default());
        next = page.last_evaluated_key;
        if next.is_none() {
            return Ok(items);
        }
    }
}

/// Makes an update, and returns whether its condition held.
pub(crate) async fn update_if(update: UpdateItemFluentBuilder, doing: &'static str) -> Result<bool> {
    match Box::pin(update.send()).await {
        Ok(_) => Ok(true),
        Err(error) if is_refused(&error) => Ok(false),
        Err(error) => Err(failure(doing)(error)),
    }
}

/// Whether a single write failed its condition.
pub(crate) fn is_refused<E: ProvideErrorMetadata, R>(error: &SdkError<E, R>) -> bool {
    error.code() == Some("ConditionalCheckFailedException")
}
