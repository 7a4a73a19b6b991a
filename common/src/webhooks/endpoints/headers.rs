//! The custom headers in an endpoint's item. The names are stored in a separate attribute, so listing endpoints does
//! not read the values.

use aws_sdk_dynamodb::types::AttributeValue;

use super::item::{HEADER_NAMES, HEADERS};
use crate::{
    aws::dynamo::{Attribute, ItemReader, text, texts},
    error::Result,
    webhooks::destination::Headers,
};

/// The attributes that store `headers`, or none if there are no headers.
pub(super) fn attributes(headers: &Headers) -> Vec<(Attribute, AttributeValue)> {
    if headers.is_empty() {
        return Vec::new();
    }
    let values = headers.reveal().map(|(name, value)| (name.to_owned(), text(value))).collect();
    vec![(HEADERS, AttributeValue::M(values)), (HEADER_NAMES, texts(headers.names()))]
}

pub(super) fn read(record: &ItemReader<'_>) -> Result<Headers> {
    let Some(stored) = record.optional_map(HEADERS)? else { return Ok(Headers::default()) };
    Headers::stored(stored.into_iter()).ok_or_else(|| record.broken(HEADERS, "no longer valid"))
}

/// The names, sorted.
pub(super) fn read_names(record: &ItemReader<'_>) -> Result<Vec<String>> {
    let mut names: Vec<_> = record.optional_set(HEADER_NAMES, |name| Ok(name.to_owned()))?.unwrap_or_default();
    names.sort_unstable();
    Ok(names)
}
