//! DynamoDB expressions, composed of attributes and values: conditions, updates and projections.
//!
//! Attributes and values have different types, and placeholders are inserted last. An expression therefore never
//! contains a reserved word or a value, and using an undeclared attribute is a compile-time error.

use std::{collections::HashMap, error::Error as StdError, fmt, mem};

use aws_sdk_dynamodb::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::{
        query::builders::QueryFluentBuilder,
        update_item::{UpdateItemError, builders::UpdateItemFluentBuilder},
    },
    types::{self, AttributeValue, BatchStatementRequest, ReturnValue, ReturnValuesOnConditionCheckFailure},
};

use crate::{
    aws::{
        dynamo::{Attribute, Item, number},
        failure,
    },
    error::Result,
};

impl Attribute {
    /// Returns the attribute as it appears in an expression: prefixed with `#` if it may be a reserved word. None of
    /// DynamoDB's 573 reserved words contains an underscore
    /// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html>).
    fn parts(self) -> impl Iterator<Item = &'static str> {
        let mark = |name: &str| if name.contains('_') { "" } else { "#" };
        let names = self.name().split('.').enumerate();
        names.flat_map(move |(index, name)| [if index == 0 { "" } else { "." }, mark(name), name])
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().try_for_each(|part| f.write_str(part))
    }
}

/// A part of an expression, with a `?` for each value.
#[derive(Clone, Default)]
pub(crate) struct Expression {
    text: String,
    values: Vec<AttributeValue>,
    is_choice: bool,
}

/// An expression such as `STATUS.equals(text("pending")).and(DELETED_AT.is_absent())`.
pub(crate) type Condition = Expression;

impl Attribute {
    pub(crate) fn exists(self) -> Condition {
        Expression::new(format!("attribute_exists({self})"), [])
    }

    pub(crate) fn is_absent(self) -> Condition {
        Expression::new(format!("attribute_not_exists({self})"), [])
    }

    pub(crate) fn equals(self, value: AttributeValue) -> Condition {
        Expression::new(format!("{self} = ?"), [value])
    }

    pub(crate) fn differs_from(self, value: AttributeValue) -> Condition {
        Expression::new(format!("{self} <> ?"), [value])
    }

    pub(crate) fn is_below(self, value: AttributeValue) -> Condition {
        Expression::new(format!("{self} < ?"), [value])
    }

    /// True if both attributes exist, and this one is below the other.
    pub(crate) fn is_below_that_of(self, other: Self) -> Condition {
        Expression::new(format!("{self} < {other}"), [])
    }

    pub(crate) fn is_at_most(self, value: AttributeValue) -> Condition {
        Expression::new(format!("{self} <= ?"), [value])
    }

    pub(crate) fn is_above(self, value: AttributeValue) -> Condition {
        Expression::new(format!("{self} > ?"), [value])
    }

    pub(crate) fn is_at_least(self, value: AttributeValue) -> Condition {
        Expression::new(format!("{self} >= ?"), [value])
    }

    /// True for values from `first` to `last`, inclusive.
    pub(crate) fn is_between(self, first: AttributeValue, last: AttributeValue) -> Condition {
        Expression::new(format!("{self} BETWEEN ? AND ?"), [first, last])
    }

    pub(crate) fn begins_with(self, prefix: AttributeValue) -> Condition {
        Expression::new(format!("begins_with({self}, ?)"), [prefix])
    }

    /// True if the attribute is a set with this element.
    pub(crate) fn contains(self, element: AttributeValue) -> Condition {
        Expression::new(format!("contains({self}, ?)"), [element])
    }

    /// True if the attribute is larger than `size`: bytes of a text or binary value, or elements of a set.
    pub(crate) fn is_larger_than(self, size: AttributeValue) -> Condition {
        Expression::new(format!("size({self}) > ?"), [size])
    }

    /// True if the attribute is smaller than `size`.
    pub(crate) fn is_smaller_than(self, size: AttributeValue) -> Condition {
        Expression::new(format!("size({self}) < ?"), [size])
    }
}

impl Expression {
    fn new<const N: usize>(text: String, values: [AttributeValue; N]) -> Self {
        Self { text, values: values.into(), is_choice: false }
    }

    pub(crate) fn and(self, other: Condition) -> Condition {
        self.operand().joined("", " AND ", other.operand())
    }

    pub(crate) fn or(self, other: Condition) -> Condition {
        Self { is_choice: true, ..self.joined("", " OR ", other) }
    }

    /// Returns the condition as an operand of AND, in parentheses if it contains an OR, which binds less tightly.
    /// DynamoDB rejects redundant parentheses.
    fn operand(self) -> Self {
        if self.is_choice { Self { text: format!("({})", self.text), is_choice: false, ..self } } else { self }
    }

    /// Appends another expression, after `first` if this one is empty, and otherwise after `separator`.
    fn joined(mut self, first: &str, separator: &str, other: Self) -> Self {
        self.text.push_str(if self.text.is_empty() { first } else { separator });
        self.text.push_str(&other.text);
        self.values.extend(other.values);
        self
    }
}

/// The names and values of a call's placeholders.
#[derive(Default)]
pub(crate) struct Placeholders {
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Placeholders {
    /// Returns the expression in its final form, with numbered values, and records its names and values. Returns `None`
    /// if the expression is empty.
    pub(crate) fn place(&mut self, Expression { text: template, values, .. }: Expression) -> Option<String> {
        let mut parts = template.split('?');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (value, part) in values.into_iter().zip(parts) {
            let placeholder = format!(":v{}", self.values.len());
            text.push_str(&placeholder);
            text.push_str(part);
            self.values.insert(placeholder, value);
        }
        for name in template.split('#').skip(1) {
            let name = name.split(|end: char| !end.is_ascii_alphanumeric()).next().unwrap_or_default();
            self.names.insert(format!("#{name}"), name.to_owned());
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// Takes the names. Returns `None` if there are none, because DynamoDB rejects an empty map.
    pub(crate) fn names(&mut self) -> Option<HashMap<String, String>> {
        Some(mem::take(&mut self.names)).filter(|names| !names.is_empty())
    }

    /// Takes the values, like [`Self::names`].
    pub(crate) fn values(&mut self) -> Option<HashMap<String, AttributeValue>> {
        Some(mem::take(&mut self.values)).filter(|values| !values.is_empty())
    }
}

/// Adds a condition, its names and its values to a call. This is a macro because the SDK's builders are unrelated
/// types.
macro_rules! conditional {
    ($builder:expr, $condition:expr) => {{
        let mut placeholders = $crate::aws::expression::Placeholders::default();
        $builder
            .set_condition_expression(placeholders.place($condition))
            .set_expression_attribute_names(placeholders.names())
            .set_expression_attribute_values(placeholders.values())
    }};
}

pub(crate) use conditional;

/// Returns a projection of these attributes, with its names.
pub(crate) fn projection(attributes: &[Attribute]) -> (Option<String>, Option<HashMap<String, String>>) {
    let mut placeholders = Placeholders::default();
    let mut text = String::new();
    for attribute in attributes {
        text.push_str(if text.is_empty() { "" } else { ", " });
        text.extend(attribute.parts());
    }
    (placeholders.place(Expression::new(text, [])), placeholders.names())
}

/// An update of one item. It has no effect if its condition is not met.
#[must_use = "nothing is written before the update is sent"]
pub(crate) struct Update {
    table: String,
    key: Item,
    set: Vec<Expression>,
    remove: Vec<Expression>,
    add: Expression,
    delete: Expression,
    condition: Condition,
}

impl Update {
    /// Starts an empty update of the item with this key.
    pub(crate) fn of(table: &str, key: Item) -> Self {
        let [add, delete, condition] = Default::default();
        Self { table: table.to_owned(), key, set: Vec::new(), remove: Vec::new(), add, delete, condition }
    }

    fn assign<const N: usize>(mut self, text: String, values: [AttributeValue; N]) -> Self {
        self.set.push(Expression::new(text, values));
        self
    }

    pub(crate) fn set(self, attribute: Attribute, value: AttributeValue) -> Self {
        self.assign(format!("{attribute} = ?"), [value])
    }

    pub(crate) fn set_all(self, values: impl IntoIterator<Item = (Attribute, AttributeValue)>) -> Self {
        values.into_iter().fold(self, |update, (attribute, value)| update.set(attribute, value))
    }

    /// Sets the attributes in `values`, and removes all others in `all`.
    pub(crate) fn replace(self, all: &[Attribute], values: Vec<(Attribute, AttributeValue)>) -> Self {
        let is_set = |attribute: &Attribute| values.iter().any(|(set, _)| set == attribute);
        let update = self.remove(all.iter().copied().filter(|attribute| !is_set(attribute)));
        update.set_all(values)
    }

    /// Sets an attribute unless it exists.
    pub(crate) fn set_once(self, attribute: Attribute, value: AttributeValue) -> Self {
        self.copy_or(attribute, attribute, value)
    }

    /// Sets `to` to the value that `from` had before the update.
    pub(crate) fn copy(self, to: Attribute, from: Attribute) -> Self {
        self.assign(format!("{to} = {from}"), [])
    }

    /// Like [`Self::copy`], but sets `to` to `value` if `from` does not exist.
    pub(crate) fn copy_or(self, to: Attribute, from: Attribute, value: AttributeValue) -> Self {
        self.assign(format!("{to} = if_not_exists({from}, ?)"), [value])
    }

    /// Changes a number, which must exist.
    pub(crate) fn change_by(self, attribute: Attribute, by: i64) -> Self {
        self.assign(format!("{attribute} = {attribute} + ?"), [number(by)])
    }

    pub(crate) fn remove(mut self, attributes: impl IntoIterator<Item = Attribute>) -> Self {
        self.remove.extend(attributes.into_iter().map(|attribute| Expression::new(attribute.to_string(), [])));
        self
    }

    /// Adds a number to a numeric attribute, or elements to a set. The attribute may be missing.
    pub(crate) fn add(self, attribute: Attribute, value: AttributeValue) -> Self {
        Self { add: self.add.joined("ADD ", ", ", Expression::new(format!("{attribute} ?"), [value])), ..self }
    }

    /// Removes elements from a set.
    pub(crate) fn delete(self, attribute: Attribute, elements: AttributeValue) -> Self {
        Self {
            delete: self.delete.joined("DELETE ", ", ", Expression::new(format!("{attribute} ?"), [elements])),
            ..self
        }
    }

    /// Adds a condition, which must be met in addition to all earlier ones.
    pub(crate) fn only_if(self, condition: Condition) -> Self {
        Self { condition: self.condition.joined("", " AND ", condition.operand()), ..self }
    }

    /// The update, as a write in a transaction.
    pub(crate) fn into_write(self) -> types::Update {
        let listed = |first: &str, parts: Vec<Expression>| {
            parts.into_iter().fold(Expression::default(), |all, part| all.joined(first, ", ", part))
        };
        let clauses = [listed("SET ", self.set), listed("REMOVE ", self.remove), self.add, self.delete];
        let clauses = clauses.into_iter().filter(|clause| !clause.text.is_empty());
        let clauses = clauses.fold(Expression::default(), |clauses, clause| clauses.joined("", " ", clause));
        let mut placeholders = Placeholders::default();
        let update = types::Update::builder()
            .table_name(self.table)
            .set_key(Some(self.key))
            .set_update_expression(placeholders.place(clauses))
            .set_condition_expression(placeholders.place(self.condition))
            .set_expression_attribute_names(placeholders.names())
            .set_expression_attribute_values(placeholders.values());
        #[expect(clippy::expect_used, reason = "table, key and expression are set")]
        update.build().expect("a complete update")
    }

    /// The update as a PartiQL statement, for a batch. Only values that are set, removed attributes and conditions that
    /// compare with a value have the same form in PartiQL
    /// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.update.html>).
    pub(crate) fn into_statement(self) -> BatchStatementRequest {
        let key = self.key.into_iter().map(|(name, value)| Expression::new(format!("\"{name}\" = ?"), [value]));
        let statement = Expression::new(format!("UPDATE \"{}\"", self.table), []);
        let statement = self.set.into_iter().fold(statement, |all, set| all.joined("", " SET ", set));
        let statement = self.remove.into_iter().fold(statement, |all, removed| all.joined("", " REMOVE ", removed));
        let only_if = key.fold(self.condition, |all, part| all.joined("", " AND ", part));
        let Expression { text, values, .. } = statement.joined("", " WHERE ", only_if);
        // The embedded tables accept `attribute_exists`, which is none of PartiQL's functions in DynamoDB
        // (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-functions.html>).
        debug_assert!(!text.contains("_exists("), "{text}");
        #[expect(clippy::expect_used, reason = "the statement is set")]
        BatchStatementRequest::builder()
            .statement(quoted(&text))
            .set_parameters(Some(values))
            .build()
            .expect("a complete statement")
    }

    pub(crate) fn call(self, dynamodb: &Client) -> UpdateItemFluentBuilder {
        let update = self.into_write();
        let call = dynamodb.update_item().table_name(update.table_name).set_key(Some(update.key));
        call.update_expression(update.update_expression)
            .set_condition_expression(update.condition_expression)
            .set_expression_attribute_names(update.expression_attribute_names)
            .set_expression_attribute_values(update.expression_attribute_values)
    }

    /// Performs the update, and returns whether its condition was met.
    pub(crate) async fn send(self, dynamodb: &Client, doing: &'static str) -> Result<bool> {
        Ok(unless_refused(Box::pin(self.call(dynamodb).send()).await, doing)?.is_some())
    }

    /// Performs the update, and returns attributes of the item, or `None` if the condition was not met.
    pub(crate) async fn send_for(
        self,
        dynamodb: &Client,
        of: ReturnValue,
        doing: &'static str,
    ) -> Result<Option<Item>> {
        let answer = Box::pin(self.call(dynamodb).return_values(of).send()).await;
        Ok(unless_refused(answer, doing)?.map(|answer| answer.attributes.unwrap_or_default()))
    }

    /// Performs the update, and returns whether its condition was met, and the item after the call. The item is empty if
    /// there is none.
    pub(crate) async fn send_and_read(self, dynamodb: &Client, doing: &'static str) -> Result<(bool, Item)> {
        let call = self.call(dynamodb).return_values(ReturnValue::AllNew);
        let call = call.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let error = match Box::pin(call.send()).await {
            Ok(answer) => return Ok((true, answer.attributes.unwrap_or_default())),
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refused)) => {
                Ok((false, refused.item.clone().unwrap_or_default()))
            }
            _ => Err(failure(doing)(error)),
        }
    }
}

/// Returns an expression with its names in the quotes of PartiQL, in which reserved words are allowed.
fn quoted(template: &str) -> String {
    let mut parts = template.split('#');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|end: char| !end.is_ascii_alphanumeric()).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        text.extend(["\"", name, "\"", rest]);
    }
    text
}

/// Deletes an item, and returns whether the condition was met.
pub(crate) async fn delete_if(
    dynamodb: &Client,
    table: &str,
    key: Item,
    condition: Condition,
    doing: &'static str,
) -> Result<bool> {
    let delete = conditional!(dynamodb.delete_item().table_name(table).set_key(Some(key)), condition);
    Ok(unless_refused(Box::pin(delete.send()).await, doing)?.is_some())
}

/// Deletes an item, and returns it, or `None` if the condition was not met.
pub(crate) async fn take_if(
    dynamodb: &Client,
    table: &str,
    key: Item,
    condition: Condition,
    doing: &'static str,
) -> Result<Option<Item>> {
    let delete = dynamodb.delete_item().table_name(table).set_key(Some(key)).return_values(ReturnValue::AllOld);
    let taken = unless_refused(Box::pin(conditional!(delete, condition).send()).await, doing)?;
    Ok(taken.and_then(|taken| taken.attributes))
}

/// Writes an item, and returns whether the condition was met.
pub(crate) async fn put_if(
    dynamodb: &Client,
    table: &str,
    item: Item,
    condition: Condition,
    doing: &'static str,
) -> Result<bool> {
    let put = conditional!(dynamodb.put_item().table_name(table).set_item(Some(item)), condition);
    Ok(unless_refused(Box::pin(put.send()).await, doing)?.is_some())
}

/// Returns the response to a write, or `None` if its condition was not met.
fn unless_refused<T, E, R>(answer: Result<T, SdkError<E, R>>, doing: &'static str) -> Result<Option<T>>
where
    E: StdError + ProvideErrorMetadata + 'static,
    R: fmt::Debug + 'static,
{
    match answer {
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(None),
        answer => answer.map(Some).map_err(failure(doing)),
    }
}

/// Builds a query for the items whose keys meet a condition.
pub(crate) fn query(dynamodb: &Client, table: &str, keys: Condition) -> QueryFluentBuilder {
    let mut placeholders = Placeholders::default();
    let query = dynamodb.query().table_name(table).set_key_condition_expression(placeholders.place(keys));
    query.set_expression_attribute_names(placeholders.names()).set_expression_attribute_values(placeholders.values())
}

/// Restricts a query to the items that meet a condition. DynamoDB still reads all of them.
pub(crate) fn filter(query: QueryFluentBuilder, condition: Condition) -> QueryFluentBuilder {
    let mut placeholders = Placeholders {
        names: query.get_expression_attribute_names().clone().unwrap_or_default(),
        values: query.get_expression_attribute_values().clone().unwrap_or_default(),
    };
    query
        .set_filter_expression(placeholders.place(condition))
        .set_expression_attribute_names(placeholders.names())
        .set_expression_attribute_values(placeholders.values())
}

/// Restricts a query to some of the items' attributes.
pub(crate) fn select(query: QueryFluentBuilder, attributes: &[Attribute]) -> QueryFluentBuilder {
    let (projection, names) = projection(attributes);
    let query = query.set_projection_expression(projection);
    names.into_iter().flatten().fold(query, |query, (name, of)| query.expression_attribute_names(name, of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::dynamo::{attributes, item, text, texts};

    attributes! { A = "an_a", B = "a_b", STATUS = "status", LAST_CODE = "last.status_code", }

    /// The final expression, with its names and its values in numeric order.
    fn placed(expression: Expression) -> (String, Vec<String>, Vec<AttributeValue>) {
        let mut placeholders = Placeholders::default();
        let text = placeholders.place(expression).unwrap_or_default();
        let names = placeholders.names().unwrap_or_default();
        assert!(names.iter().all(|(placeholder, name)| *placeholder == format!("#{name}")), "{names:?}");
        let values = placeholders.values().unwrap_or_default();
        let values = (0..values.len()).map(|number| values[&format!(":v{number}")].clone()).collect();
        (text, names.into_values().collect(), values)
    }

    #[test]
    fn each_condition_has_its_text_names_and_values() {
        let (one, two) = (number(1), number(2));
        for (condition, expected, names, values) in [
            (A.exists(), "attribute_exists(an_a)", vec![], vec![]),
            (STATUS.is_absent(), "attribute_not_exists(#status)", vec!["status"], vec![]),
            (A.equals(one.clone()), "an_a = :v0", vec![], vec![&one]),
            (STATUS.differs_from(one.clone()), "#status <> :v0", vec!["status"], vec![&one]),
            (A.is_below(one.clone()), "an_a < :v0", vec![], vec![&one]),
            (A.is_at_most(one.clone()), "an_a <= :v0", vec![], vec![&one]),
            (A.is_above(one.clone()), "an_a > :v0", vec![], vec![&one]),
            (A.is_at_least(one.clone()), "an_a >= :v0", vec![], vec![&one]),
            (A.is_between(one.clone(), two.clone()), "an_a BETWEEN :v0 AND :v1", vec![], vec![&one, &two]),
            (A.begins_with(one.clone()), "begins_with(an_a, :v0)", vec![], vec![&one]),
            (STATUS.is_larger_than(one.clone()), "size(#status) > :v0", vec!["status"], vec![&one]),
        ] {
            let (text, noted, placed) = placed(condition);
            assert_eq!((text.as_str(), placed.iter().collect::<Vec<_>>()), (expected, values));
            assert_eq!(noted, names, "{expected}");
        }
    }

    /// DynamoDB rejects an expression with redundant parentheses.
    #[test]
    fn alternatives_have_parentheses_only_next_to_an_and() {
        let [a, b, c] = [A, B, STATUS].map(|attribute| move || attribute.exists());
        let [x, y, z] = ["attribute_exists(an_a)", "attribute_exists(a_b)", "attribute_exists(#status)"];
        for (condition, expected) in [
            (a().and(b()).and(c()), format!("{x} AND {y} AND {z}")),
            (a().or(b()).or(c()), format!("{x} OR {y} OR {z}")),
            (a().and(b()).or(c()), format!("{x} AND {y} OR {z}")),
            (a().or(b()).and(c()), format!("({x} OR {y}) AND {z}")),
            (c().and(a().or(b())).and(a()), format!("{z} AND ({x} OR {y}) AND {x}")),
            (a().or(b()).and(c()).or(a()), format!("({x} OR {y}) AND {z} OR {x}")),
        ] {
            assert_eq!(placed(condition).0, expected);
        }
    }

    #[test]
    fn an_update_has_its_clauses_and_one_numbering() {
        let update = Update::of("table", item([(A, text("key"))]))
            .remove([STATUS])
            .set(A, text("a?#"))
            .set_once(B, number(1))
            .copy(B, A)
            .copy_or(A, B, number(2))
            .change_by(STATUS, -3)
            .add(A, number(4))
            .delete(B, texts(["x"].into_iter()))
            .only_if(A.equals(text("b")).or(B.exists()))
            .only_if(STATUS.is_absent())
            .into_write();
        assert_eq!(
            update.update_expression,
            "SET an_a = :v0, a_b = if_not_exists(a_b, :v1), a_b = an_a, an_a = if_not_exists(a_b, :v2), #status = #status + \
             :v3 REMOVE #status ADD an_a :v4 DELETE a_b :v5"
        );
        let condition = "(an_a = :v6 OR attribute_exists(a_b)) AND attribute_not_exists(#status)";
        assert_eq!(update.condition_expression.as_deref(), Some(condition));
        let values = update.expression_attribute_values.expect("values");
        let values: Vec<_> = (0..7).map(|number| values[&format!(":v{number}")].clone()).collect();
        let [a, x, b] = [text("a?#"), texts(["x"].into_iter()), text("b")];
        assert_eq!(values, [a, number(1), number(2), number(-3), number(4), x, b]);
        assert_eq!(update.expression_attribute_names, Some([("#status".to_owned(), "status".to_owned())].into()));
    }

    #[test]
    fn an_update_sends_no_empty_condition_names_or_values() {
        let update = Update::of("table", item([(A, text("key"))])).replace(&[A, B], Vec::new()).into_write();
        assert_eq!(update.update_expression, "REMOVE an_a, a_b");
        assert_eq!((update.condition_expression, update.expression_attribute_names), (None, None));
        assert_eq!(update.expression_attribute_values, None);
        let update = Update::of("table", item([(A, text("key"))])).replace(&[A, B], vec![(B, number(1))]).into_write();
        assert_eq!(update.update_expression, "SET a_b = :v0 REMOVE an_a");
    }

    #[test]
    fn a_statement_quotes_names_and_numbers_its_values_in_order() {
        let update = Update::of("table", item([(B, text("key"))]))
            .set(STATUS, text("a?#"))
            .set(A, number(1))
            .remove([B, STATUS])
            .only_if(STATUS.equals(text("b")))
            .only_if(A.equals(number(2)));
        let statement = update.into_statement();
        assert_eq!(
            statement.statement(),
            "UPDATE \"table\" SET \"status\" = ? SET an_a = ? REMOVE a_b REMOVE \"status\" \
             WHERE \"status\" = ? AND an_a = ? AND \"a_b\" = ?"
        );
        assert_eq!(statement.parameters(), [text("a?#"), number(1), text("b"), number(2), text("key")]);
    }

    #[test]
    fn a_projection_names_parts_of_maps() {
        let (text, names) = projection(&[A, STATUS, LAST_CODE]);
        assert_eq!(text.as_deref(), Some("an_a, #status, #last.status_code"));
        let named = ["status", "last"].map(|name| (format!("#{name}"), name.to_owned()));
        assert_eq!(names, Some(named.into()));
    }
}
