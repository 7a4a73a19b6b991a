//! Direct access to the tables, bypassing the functions.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};

use super::{Tenant, World};

/// An item of a table.
pub type Item = HashMap<String, AttributeValue>;

/// An item with these attributes, which are strings, numbers, booleans or sets of strings.
#[must_use]
pub fn item(attributes: &Value) -> Item {
    let attributes = attributes.as_object().expect("attributes").iter();
    attributes.map(|(name, value)| (name.clone(), attribute(value))).collect()
}

fn attribute(value: &Value) -> AttributeValue {
    match value {
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Bool(is_true) => AttributeValue::Bool(*is_true),
        Value::Array(texts) => {
            AttributeValue::Ss(texts.iter().map(|text| text.as_str().expect("a string").to_owned()).collect())
        }
        value => AttributeValue::S(value.as_str().expect("a string").to_owned()),
    }
}

impl World {
    /// All items in a table.
    pub async fn items(&self, table: &str) -> Vec<Item> {
        let pages = self.stack.dynamodb_client().scan().table_name(table).into_paginator().items().send();
        pages.collect::<Result<_, _>>().await.expect("the table is read")
    }

    /// The tokens of one kind.
    pub async fn tokens(&self, kind: &str) -> Vec<Item> {
        let mut tokens = self.items("tokens").await;
        tokens.retain(|item| item["kind"].as_s().is_ok_and(|found| found == kind));
        tokens
    }

    /// Stores an item, and replaces an item with the same key.
    pub async fn put(&self, table: &str, item: Item) {
        let put = self.stack.dynamodb_client().put_item().table_name(table).set_item(Some(item));
        put.send().await.expect("the write succeeds");
    }

    /// Sets attributes of the items whose attribute `name` equals `text`. `null` removes an attribute.
    pub async fn set(&self, table: &str, (name, text): (&str, &str), attributes: Value) {
        let is_one = |item: &Item| item.get(name).is_some_and(|found| found.as_s().is_ok_and(|found| found == text));
        assert!(self.set_where(table, is_one, &attributes).await > 0, "no item of {table} has the {name} {text}");
    }

    /// Sets attributes of the items that `is_one` accepts. Returns the number of these items.
    pub async fn set_where(&self, table: &str, is_one: impl Fn(&Item) -> bool, attributes: &Value) -> usize {
        let items: Vec<_> = self.items(table).await.into_iter().filter(is_one).collect();
        let changed = items.len();
        for mut item in items {
            for (name, value) in attributes.as_object().expect("attributes") {
                match value {
                    Value::Null => item.remove(name),
                    value => item.insert(name.clone(), attribute(value)),
                };
            }
            self.put(table, item).await;
        }
        changed
    }

    /// Stores a secret without applying the rules for secrets that tenants choose.
    pub(super) async fn store_secret(&self, tenant: &Tenant, endpoint: &str, secret: &str) {
        let update = self.stack.dynamodb_client().update_item().table_name("webhook-endpoints");
        let update = update
            .key("tenant_id", attribute(&json!(tenant.id)))
            .key("webhook_endpoint_id", attribute(&json!(endpoint)));
        let update = update.update_expression("SET signing_secret = :secret");
        update
            .expression_attribute_values(":secret", attribute(&json!(secret)))
            .send()
            .await
            .expect("the write succeeds");
    }

    /// Moves the last use of all sessions and keys to the distant past.
    pub async fn forget_uses(&self) {
        for (table, is_one, day) in [("tokens", "session_id", "seen_on"), ("api-keys", "key_id", "last_request")] {
            self.set_where(table, |item| item.contains_key(is_one), &json!({day: "2026-01-31T00:00:00.000Z"})).await;
        }
    }
}
