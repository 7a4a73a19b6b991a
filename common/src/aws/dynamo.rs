//! Builds, reads and writes DynamoDB items.

use std::{collections::HashMap, fmt, str::FromStr};

use aws_sdk_dynamodb::{Client, operation::query::builders::QueryFluentBuilder, types::AttributeValue};
use futures::{FutureExt, Stream, TryStreamExt, stream};

use crate::{
    aws::failure,
    error::{Error, Result},
    issue::Problem,
    timestamp::Timestamp,
};

/// An item in the SDK's representation.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// The name of an attribute. Stores declare attributes with [`attributes!`] and use them in items, reads and
/// expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute(pub(crate) &'static str);

/// Declares attributes as constants.
macro_rules! attributes {
    ($visibility:vis $($name:ident = $text:literal,)+) => {
        $($visibility const $name: $crate::aws::dynamo::Attribute = $crate::aws::dynamo::Attribute($text);)+
    };
}

pub(crate) use attributes;

impl Attribute {
    pub(crate) fn name(self) -> &'static str {
        self.0
    }

    /// Pairs the attribute with a value, for an item.
    pub(crate) fn with(self, value: AttributeValue) -> (String, AttributeValue) {
        (self.0.to_owned(), value)
    }
}

pub(crate) fn item(attributes: impl IntoIterator<Item = (Attribute, AttributeValue)>) -> Item {
    attributes.into_iter().map(|(attribute, value)| attribute.with(value)).collect()
}

pub(crate) fn text(value: impl ToString) -> AttributeValue {
    AttributeValue::S(value.to_string())
}

/// A set of strings, which must not be empty.
pub(crate) fn texts<'a>(values: impl Iterator<Item = &'a str>) -> AttributeValue {
    AttributeValue::Ss(values.map(str::to_owned).collect())
}

pub(crate) fn number(value: i64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn boolean(value: bool) -> AttributeValue {
    AttributeValue::Bool(value)
}

/// Reads an item's attributes. Errors name the kind of item and the attribute.
pub(crate) struct ItemReader<'a> {
    kind: &'static str,
    item: &'a Item,
}

impl<'a> ItemReader<'a> {
    pub(crate) fn new(kind: &'static str, item: &'a Item) -> Self {
        Self { kind, item }
    }

    pub(crate) fn text(&self, name: Attribute) -> Result<&'a str> {
        self.optional_text(name).ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn optional_text(&self, name: Attribute) -> Option<&'a str> {
        Some(self.item.get(name.0)?.as_s().ok()?.as_str())
    }

    pub(crate) fn boolean(&self, name: Attribute) -> Result<bool> {
        self.optional_boolean(name).ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn optional_boolean(&self, name: Attribute) -> Option<bool> {
        self.item.get(name.0)?.as_bool().ok().copied()
    }

    pub(crate) fn number(&self, name: Attribute) -> Result<i64> {
        self.optional_number(name).ok_or_else(|| self.broken(name, "missing"))
    }

    pub(crate) fn optional_number(&self, name: Attribute) -> Option<i64> {
        self.item.get(name.0)?.as_n().ok()?.parse().ok()
    }

    /// An integer of a smaller type. A number outside its range counts as missing.
    pub(crate) fn optional_integer<T: TryFrom<i64>>(&self, name: Attribute) -> Option<T> {
        self.optional_number(name)?.try_into().ok()
    }

    /// A time, stored in Unix milliseconds.
    pub(crate) fn time(&self, name: Attribute) -> Result<Timestamp> {
        self.number(name).map(Timestamp::from_millisecond)
    }

    /// Like [`Self::time`], for an attribute that may be missing.
    pub(crate) fn optional_time(&self, name: Attribute) -> Option<Timestamp> {
        self.optional_number(name).map(Timestamp::from_millisecond)
    }

    pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: Attribute) -> Result<T> {
        self.text(name)?.parse().map_err(|error| self.broken(name, error))
    }

    /// Like [`Self::parsed`], for an attribute that may be missing.
    pub(crate) fn optional_parsed<T: FromStr<Err: fmt::Display>>(&self, name: Attribute) -> Result<Option<T>> {
        if self.item.contains_key(name.0) { self.parsed(name).map(Some) } else { Ok(None) }
    }

    /// A string that `parse` validated before it was stored.
    pub(crate) fn checked<T>(&self, name: Attribute, parse: fn(&str) -> Result<T, Vec<Problem>>) -> Result<T> {
        parse(self.text(name)?).map_err(|_problems| self.broken(name, "no longer valid"))
    }

    /// Like [`Self::checked`], for an attribute that may be missing.
    pub(crate) fn optional_checked<T>(
        &self,
        name: Attribute,
        parse: fn(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<T>> {
        if self.item.contains_key(name.0) { self.checked(name, parse).map(Some) } else { Ok(None) }
    }

    /// Like [`Self::checked`], for a set of strings that may be missing.
    pub(crate) fn optional_set<T, S: FromIterator<T>>(
        &self,
        name: Attribute,
        parse: fn(&str) -> Result<T, Vec<Problem>>,
    ) -> Result<Option<S>> {
        let Some(set) = self.item.get(name.0) else { return Ok(None) };
        let texts = set.as_ss().map_err(|_other| self.broken(name, "not a set of strings"))?;
        let parsed = texts.iter().map(|text| parse(text)).collect::<Result<S, _>>();
        parsed.map(Some).map_err(|_problems| self.broken(name, "no longer valid"))
    }

    /// A map of strings by name, which may be missing.
    pub(crate) fn optional_map(&self, name: Attribute) -> Result<Option<Vec<(&'a str, &'a str)>>> {
        let Some(map) = self.item.get(name.0) else { return Ok(None) };
        let map = map.as_m().map_err(|_other| self.broken(name, "not a map"))?;
        let texts = map.iter().map(|(name, value)| Some((name.as_str(), value.as_s().ok()?.as_str())));
        texts.collect::<Option<_>>().map(Some).ok_or_else(|| self.broken(name, "not a map of strings"))
    }

    /// Builds an error about the attribute `name`. The message omits the value, which may be a secret.
    pub(crate) fn broken(&self, name: Attribute, problem: impl fmt::Display) -> Error {
        Error::Internal(format!("the stored {}'s {}: {problem}", self.kind, name.0))
    }
}

/// Reads the item with this key, with strong consistency.
pub(crate) async fn get(dynamodb: &Client, table: &str, key: Item, doing: &'static str) -> Result<Option<Item>> {
    let get = dynamodb.get_item().table_name(table).set_key(Some(key)).consistent_read(true);
    Ok(Box::pin(get.send()).await.map_err(failure(doing))?.item)
}

/// Writes an item, replacing any item with the same key.
pub(crate) async fn put(dynamodb: &Client, table: &str, item: Item, doing: &'static str) -> Result<()> {
    let put = dynamodb.put_item().table_name(table).set_item(Some(item));
    Box::pin(put.send()).await.map(drop).map_err(failure(doing))
}

/// The result of reading a page of a query.
pub(crate) struct QueryPage {
    pub(crate) items: Vec<Item>,
    /// The number of items that were read, including those that the query's filter excluded.
    pub(crate) read: usize,
    /// The last key that was read; `None` if the page is the last.
    pub(crate) last: Option<Item>,
}

/// Reads a page of `query`: at most `most` items, or a megabyte.
pub(crate) async fn query_page(query: QueryFluentBuilder, most: usize, doing: &'static str) -> Result<QueryPage> {
    let query = query.limit(i32::try_from(most).unwrap_or(i32::MAX));
    // Boxed, because the compiler would otherwise reach its recursion limit in callers.
    let page = query.send().boxed().await.map_err(failure(doing))?;
    Ok(QueryPage {
        read: usize::try_from(page.scanned_count).unwrap_or_default(),
        items: page.items.unwrap_or_default(),
        last: page.last_evaluated_key,
    })
}

/// Reads the pages of `query`, without the SDK's paginator, whose two channels cost 26,000 instructions per call.
pub(crate) fn query_pages(query: QueryFluentBuilder, doing: &'static str) -> impl Stream<Item = Result<Vec<Item>>> {
    stream::try_unfold((query, true), move |(query, is_more)| async move {
        if !is_more {
            return Ok(None);
        }
        let page = query.clone().send().boxed().await.map_err(failure(doing))?;
        let is_more = page.last_evaluated_key.is_some();
        let next = (query.set_exclusive_start_key(page.last_evaluated_key), is_more);
        Ok(Some((page.items.unwrap_or_default(), next)))
    })
}

/// Reads all pages of `query`.
pub(crate) async fn query_all(query: QueryFluentBuilder, doing: &'static str) -> Result<Vec<Item>> {
    query_pages(query, doing).try_concat().await
}
