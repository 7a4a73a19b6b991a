//! Expressions of DynamoDB, made of attributes and values: conditions, updates and projections.
//!
//! An attribute and a value have different types, and their text is written last. So an expression contains neither a
//! reserved word nor a value, and an attribute that a store does not know does not compile.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::{query::builders::QueryFluentBuilder, update_item::builders::UpdateItemFluentBuilder},
    types::{self, AttributeValue, ReturnValue},
};

use self::Part::{Name, Text, Value};
use crate::{
    aws::{
        dynamo::{Attribute, Item, number},
        failure,
    },
    error::Result,
};

/// A piece of an expression.
#[derive(Clone)]
enum Part {
    Text(&'static str),
    Name(Attribute),
    Value(AttributeValue),
}

/// A condition on an item, such as `STATUS.equals(text("pending")).and(DELETED_AT.is_absent())`.
#[derive(Clone)]
pub(crate) struct Condition {
    parts: Vec<Part>,
    is_choice: bool,
}

impl Attribute {
    pub(crate) fn exists(self) -> Condition {
        Condition::of([Text("attribute_exists("), Name(self), Text(")")])
    }

    pub(crate) fn is_absent(self) -> Condition {
        Condition::of([Text("attribute_not_exists("), Name(self), Text(")")])
    }

    pub(crate) fn equals(self, value: AttributeValue) -> Condition {
        Condition::of([Name(self), Text(" = "), Value(value)])
    }

    pub(crate) fn differs_from(self, value: AttributeValue) -> Condition {
        Condition::of([Name(self), Text(" <> "), Value(value)])
    }

    pub(crate) fn is_below(self, value: AttributeValue) -> Condition {
        Condition::of([Name(self), Text(" < "), Value(value)])
    }

    pub(crate) fn is_at_most(self, value: AttributeValue) -> Condition {
        Condition::of([Name(self), Text(" <= "), Value(value)])
    }

    pub(crate) fn is_above(self, value: AttributeValue) -> Condition {
        Condition::of([Name(self), Text(" > "), Value(value)])
    }

    pub(crate) fn is_at_least(self, value: AttributeValue) -> Condition {
        Condition::of([Name(self), Text(" >= "), Value(value)])
    }

    /// Both ends are included.
    pub(crate) fn is_between(self, first: AttributeValue, last: AttributeValue) -> Condition {
        Condition::of([Name(self), Text(" BETWEEN "), Value(first), Text(" AND "), Value(last)])
    }

    pub(crate) fn begins_with(self, prefix: AttributeValue) -> Condition {
        Condition::of([Text("begins_with("), Name(self), Text(", "), Value(prefix), Text(")")])
    }

    /// The size is in bytes. An absent attribute has none.
    pub(crate) fn is_larger_than(self, size: AttributeValue) -> Condition {
        Condition::of([Text("size("), Name(self), Text(") > "), Value(size)])
    }
}

impl Condition {
    fn of<const N: usize>(parts: [Part; N]) -> Self {
        Self { parts: parts.into(), is_choice: false }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { parts: joined(self.operand(), " AND ", other.operand()), is_choice: false }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self { parts: joined(self.parts, " OR ", other.parts), is_choice: true }
    }

    /// The parts as an operand of AND, which binds more strongly than OR. DynamoDB refuses redundant parentheses.
    fn operand(mut self) -> Vec<Part> {
        if self.is_choice {
            self.parts.insert(0, Text("("));
            self.parts.push(Text(")"));
        }
        self.parts
    }
}

fn joined(mut parts: Vec<Part>, word: &'static str, others: Vec<Part>) -> Vec<Part> {
    parts.push(Text(word));
    parts.extend(others);
    parts
}

/// The placeholders of a call, for the attributes and values in its expressions.
#[derive(Default)]
pub(crate) struct Placeholders {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Placeholders {
    pub(crate) fn condition(&mut self, condition: Condition) -> String {
        let mut text = String::new();
        self.write(condition.parts, &mut text);
        text
    }

    fn write(&mut self, parts: Vec<Part>, text: &mut String) {
        for part in parts {
            match part {
                Text(part) => text.push_str(part),
                Name(attribute) => self.write_name(attribute, text),
                Value(value) => {
                    let placeholder = format!(":v{}", self.values.len());
                    text.push_str(&placeholder);
                    self.values.insert(placeholder, value);
                }
            }
        }
    }

    /// None of DynamoDB's 573 reserved words contains an underscore, so a name with one needs no placeholder
    /// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html>).
    fn write_name(&mut self, attribute: Attribute, text: &mut String) {
        let name = attribute.name();
        if !name.contains('_') {
            text.push('#');
            self.names.insert(format!("#{name}"), name.to_owned());
        }
        text.push_str(name);
    }

    /// The names, unless there are none: DynamoDB refuses an empty map.
    pub(crate) fn names(&mut self) -> Option<HashMap<String, String>> {
        Some(std::mem::take(&mut self.names)).filter(|names| !names.is_empty())
    }

    /// The values, unless there are none.
    pub(crate) fn values(&mut self) -> Option<HashMap<String, AttributeValue>> {
        Some(std::mem::take(&mut self.values)).filter(|values| !values.is_empty())
    }
}

/// An update of one item, made only if its condition holds.
pub(crate) struct Update {
    table: String,
    key: Item,
    set: Vec<Part>,
    remove: Vec<Part>,
    add: Vec<Part>,
    delete: Vec<Part>,
    condition: Option<Condition>,
}

impl Update {
    /// An update of the item with this key, still without a change.
    pub(crate) fn of(table: &str, key: Item) -> Self {
        let [set, remove, add, delete] = [const { Vec::new() }; 4];
        Self { table: table.to_owned(), key, set, remove, add, delete, condition: None }
    }

    pub(crate) fn set(mut self, attribute: Attribute, value: AttributeValue) -> Self {
        list(&mut self.set, [Name(attribute), Text(" = "), Value(value)]);
        self
    }

    pub(crate) fn set_all(self, values: impl IntoIterator<Item = (Attribute, AttributeValue)>) -> Self {
        values.into_iter().fold(self, |update, (attribute, value)| update.set(attribute, value))
    }

    /// Sets the attributes of `values`, and removes the others of `all`.
    pub(crate) fn replace(self, all: &[Attribute], values: Vec<(Attribute, AttributeValue)>) -> Self {
        let removed = all.iter().copied().filter(|name| values.iter().all(|(set, _)| set != name));
        let removed: Vec<_> = removed.collect();
        self.set_all(values).remove_all(removed)
    }

    /// Sets an attribute unless it exists.
    pub(crate) fn set_once(self, attribute: Attribute, value: AttributeValue) -> Self {
        self.copy_or(attribute, attribute, value)
    }

    /// Sets `to` to the value that `from` has before the update.
    pub(crate) fn copy(mut self, to: Attribute, from: Attribute) -> Self {
        list(&mut self.set, [Name(to), Text(" = "), Name(from)]);
        self
    }

    /// As [`Self::copy`], and sets `to` to `value` if there is no `from`.
    pub(crate) fn copy_or(mut self, to: Attribute, from: Attribute, value: AttributeValue) -> Self {
        let parts = [Name(to), Text(" = if_not_exists("), Name(from), Text(", "), Value(value), Text(")")];
        list(&mut self.set, parts);
        self
    }

    /// Changes a number, which must exist.
    pub(crate) fn change_by(mut self, attribute: Attribute, by: i64) -> Self {
        list(&mut self.set, [Name(attribute), Text(" = "), Name(attribute), Text(" + "), Value(number(by))]);
        self
    }

    pub(crate) fn remove(mut self, attribute: Attribute) -> Self {
        list(&mut self.remove, [Name(attribute)]);
        self
    }

    pub(crate) fn remove_all(self, attributes: impl IntoIterator<Item = Attribute>) -> Self {
        attributes.into_iter().fold(self, Self::remove)
    }

    /// Adds a number to a number, or elements to a set, either of which may be missing.
    pub(crate) fn add(mut self, attribute: Attribute, value: AttributeValue) -> Self {
        list(&mut self.add, [Name(attribute), Text(" "), Value(value)]);
        self
    }

    /// Removes elements from a set.
    pub(crate) fn delete(mut self, attribute: Attribute, elements: AttributeValue) -> Self {
        list(&mut self.delete, [Name(attribute), Text(" "), Value(elements)]);
        self
    }

    /// Makes the update only if this condition holds, too.
    pub(crate) fn only_if(mut self, condition: Condition) -> Self {
        self.condition = Some(match self.condition {
            Some(earlier) => earlier.and(condition),
            None => condition,
        });
        self
    }

    /// The update as a write of a transaction.
    pub(crate) fn into_write(self) -> types::Update {
        let mut placeholders = Placeholders::default();
        let mut text = String::new();
        let clauses = [("SET ", self.set), ("REMOVE ", self.remove), ("ADD ", self.add), ("DELETE ", self.delete)];
        for (word, parts) in clauses.into_iter().filter(|(_, parts)| !parts.is_empty()) {
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(word);
            placeholders.write(parts, &mut text);
        }
        let update = types::Update::builder()
            .table_name(self.table)
            .set_key(Some(self.key))
            .update_expression(text)
            .set_condition_expression(self.condition.map(|condition| placeholders.condition(condition)))
            .set_expression_attribute_names(placeholders.names())
            .set_expression_attribute_values(placeholders.values());
        #[expect(clippy::expect_used, reason = "table, key and expression are given")]
        update.build().expect("a complete update")
    }

    /// The update as a call.
    pub(crate) fn call(self, dynamodb: &Client) -> UpdateItemFluentBuilder {
        let update = self.into_write();
        let call = dynamodb.update_item().table_name(update.table_name).set_key(Some(update.key));
        call.update_expression(update.update_expression)
            .set_condition_expression(update.condition_expression)
            .set_expression_attribute_names(update.expression_attribute_names)
            .set_expression_attribute_values(update.expression_attribute_values)
    }

    /// Makes the update, and returns whether its condition held.
    pub(crate) async fn send(self, dynamodb: &Client, doing: &'static str) -> Result<bool> {
        Ok(unless_refused(Box::pin(self.call(dynamodb).send()).await, doing)?.is_some())
    }

    /// Makes the update, and returns attributes of the item, or `None` if the condition did not hold.
    pub(crate) async fn send_for(
        self,
        dynamodb: &Client,
        wanted: ReturnValue,
        doing: &'static str,
    ) -> Result<Option<Item>> {
        let answer = Box::pin(self.call(dynamodb).return_values(wanted).send()).await;
        Ok(unless_refused(answer, doing)?.map(|answer| answer.attributes.unwrap_or_default()))
    }
}

/// Adds an action to a clause of an update.
fn list<const N: usize>(clause: &mut Vec<Part>, action: [Part; N]) {
    if !clause.is_empty() {
        clause.push(Text(", "));
    }
    clause.extend(action);
}

/// Deletes an item, and returns whether the condition held.
pub(crate) async fn delete_if(
    dynamodb: &Client,
    table: &str,
    key: Item,
    condition: Condition,
    doing: &'static str,
) -> Result<bool> {
    let mut placeholders = Placeholders::default();
    let delete = dynamodb
        .delete_item()
        .table_name(table)
        .set_key(Some(key))
        .condition_expression(placeholders.condition(condition))
        .set_expression_attribute_names(placeholders.names())
        .set_expression_attribute_values(placeholders.values());
    Ok(unless_refused(Box::pin(delete.send()).await, doing)?.is_some())
}

/// Writes an item, and returns whether the condition held.
pub(crate) async fn put_if(
    dynamodb: &Client,
    table: &str,
    item: Item,
    condition: Condition,
    doing: &'static str,
) -> Result<bool> {
    let mut placeholders = Placeholders::default();
    let put = dynamodb
        .put_item()
        .table_name(table)
        .set_item(Some(item))
        .condition_expression(placeholders.condition(condition))
        .set_expression_attribute_names(placeholders.names())
        .set_expression_attribute_values(placeholders.values());
    Ok(unless_refused(Box::pin(put.send()).await, doing)?.is_some())
}

/// The answer to a write, or `None` if its condition did not hold.
pub(crate) fn unless_refused<T, E, R>(answer: Result<T, SdkError<E, R>>, doing: &'static str) -> Result<Option<T>>
where
    E: std::error::Error + ProvideErrorMetadata + 'static,
    R: std::fmt::Debug + 'static,
{
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
        Err(error) => Err(failure(doing)(error)),
    }
}

/// A query of the items whose keys meet `keys`.
pub(crate) fn query(dynamodb: &Client, table: &str, keys: Condition) -> QueryFluentBuilder {
    let mut placeholders = Placeholders::default();
    let query = dynamodb.query().table_name(table).key_condition_expression(placeholders.condition(keys));
    query.set_expression_attribute_names(placeholders.names()).set_expression_attribute_values(placeholders.values())
}

/// Restricts a query to the items that meet `condition`. DynamoDB reads the others, too.
pub(crate) fn filter(query: QueryFluentBuilder, condition: Condition) -> QueryFluentBuilder {
    let mut placeholders = Placeholders {
        names: query.get_expression_attribute_names().clone().unwrap_or_default(),
        values: query.get_expression_attribute_values().clone().unwrap_or_default(),
    };
    let query = query.filter_expression(placeholders.condition(condition));
    query.set_expression_attribute_names(placeholders.names()).set_expression_attribute_values(placeholders.values())
}

/// An attribute to read, or a part of one that is a map.
pub(crate) struct Path(Attribute, Option<Attribute>);

impl Attribute {
    pub(crate) fn part(self, part: Attribute) -> Path {
        Path(self, Some(part))
    }
}

impl From<Attribute> for Path {
    fn from(attribute: Attribute) -> Self {
        Self(attribute, None)
    }
}

/// Restricts a query to these attributes of the items.
pub(crate) fn select(
    query: QueryFluentBuilder,
    paths: impl IntoIterator<Item = impl Into<Path>>,
) -> QueryFluentBuilder {
    let (projection, names) = projection(paths);
    let query = query.projection_expression(projection);
    names.into_iter().flatten().fold(query, |query, (name, of)| query.expression_attribute_names(name, of))
}

/// A projection of attributes, with its names.
pub(crate) fn projection(
    paths: impl IntoIterator<Item = impl Into<Path>>,
) -> (String, Option<HashMap<String, String>>) {
    let (mut placeholders, mut text) = (Placeholders::default(), String::new());
    for path in paths {
        let Path(attribute, part) = path.into();
        text.push_str(if text.is_empty() { "" } else { ", " });
        placeholders.write_name(attribute, &mut text);
        if let Some(part) = part {
            text.push('.');
            placeholders.write_name(part, &mut text);
        }
    }
    (text, placeholders.names())
}
