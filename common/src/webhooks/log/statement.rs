//! Reads the keys of deliveries in up to 50 partitions by one PartiQL statement.
//!
//! DynamoDB may answer a list of partitions ten at a time, so a statement has several pages. It reads the partitions in
//! the order of their keys. If it stops early, the partition of the last key that it found may contain more, and those
//! after that one are unread.

use super::{
    items::{DESTINATION, OPEN},
    search::KeyRange,
    table::{DeliveryLog, INDEX},
};
use crate::{
    aws::{
        dynamo::{Attribute, Item, ItemReader, text},
        failure,
    },
    error::Result,
    webhooks::{delivery::Status, event::EventName},
};

/// The deliveries that a statement reads.
pub(super) struct StatementSource {
    /// The index, if it does not read the table.
    index: Option<&'static str>,
    partition: Attribute,
    /// A condition on other attributes, and its values.
    condition: (&'static str, &'static [&'static str]),
    /// The maximum number of deliveries to examine for a page.
    limit: i32,
}

/// The successful deliveries of events.
pub(super) const SUCCESSES: StatementSource = StatementSource {
    index: None,
    partition: DESTINATION,
    condition: (" AND \"status\" = ? AND \"event\" <> ?", &[Status::Delivered.as_str(), EventName::Test.as_str()]),
    limit: 2000,
};
/// The undelivered deliveries, which are in the index.
pub(super) const UNDELIVERED: StatementSource =
    StatementSource { index: Some(INDEX), partition: OPEN, condition: ("", &[]), limit: 300 };

/// The result of a statement.
pub(super) struct Selected<'a, P> {
    /// The partitions that were read completely, with the keys of their deliveries.
    pub(super) whole: Vec<(P, Vec<Item>)>,
    /// The other partitions. The first of them may have been read in part.
    pub(super) rest: &'a [(String, P)],
}

/// The maximum number of partitions in a statement
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-operators.html>).
pub(super) const PARTITIONS: usize = 50;
/// The maximum number of pages that a statement reads. Pages without keys, whose deliveries do not meet the condition,
/// also count.
const PAGES: usize = 20;

impl DeliveryLog {
    /// Reads `places`, which are partitions and must be sorted by key, until it has found `enough` keys.
    pub(super) async fn select<'a, P: Copy>(
        &self,
        source: &StatementSource,
        places: &'a [(String, P)],
        range: &KeyRange,
        enough: usize,
    ) -> Result<Selected<'a, P>> {
        let (condition, values) = source.condition;
        let (table, partition) = (&self.table, source.partition.name());
        let from = source.index.map_or_else(|| format!("\"{table}\""), |index| format!("\"{table}\".\"{index}\""));
        let marks = vec!["?"; places.len()].join(", ");
        let statement = format!(
            "SELECT \"{partition}\", \"delivery\" FROM {from} WHERE \"{partition}\" IN [{marks}] \
             AND \"delivery\" BETWEEN ? AND ?{condition} ORDER BY \"{partition}\""
        );
        let keys = places.iter().map(|(key, _)| key).chain([range.start(), range.end()]);
        let values = keys.map(text).chain(values.iter().map(text)).collect();
        let call = self.dynamodb.execute_statement().statement(statement).limit(source.limit);
        let call = call.set_parameters(Some(values));
        let (mut items, mut token, mut is_whole) = (Vec::new(), None, false);
        for _ in 0..PAGES {
            let answer =
                Box::pin(call.clone().set_next_token(token).send()).await.map_err(failure("selecting keys"))?;
            items.extend(answer.items.unwrap_or_default());
            token = answer.next_token;
            // Each of the two means that there is more, but only a token continues the statement.
            is_whole = token.is_none() && answer.last_evaluated_key.is_none();
            if token.is_none() || items.len() >= enough {
                break;
            }
        }
        let mut found = vec![Vec::new(); places.len()];
        for item in items {
            let partition = ItemReader::new("delivery", &item).text(source.partition)?;
            let place = places.binary_search_by(|(key, _)| key.as_str().cmp(partition)).ok();
            if let Some(found) = place.and_then(|place| found.get_mut(place)) {
                found.push(item);
            }
        }
        let stopped = found.iter().rposition(|items| !items.is_empty());
        let (whole, rest) = places.split_at(if is_whole { places.len() } else { stopped.unwrap_or_default() });
        let whole = whole.iter().zip(found).map(|((_, place), items)| (*place, items));
        Ok(Selected { whole: whole.collect(), rest })
    }
}
