//! The table of endpoints: its keys, and reads of its items.

use aws_sdk_dynamodb::{Client, operation::update_item::builders::UpdateItemFluentBuilder};

use crate::{
    aws::{
        clients::Aws,
        dynamo::{Item, Record, item, query_all, text},
        failure,
    },
    config::{ConfigError, Env},
    error::{Error, Result},
    id::{EndpointId, TenantId},
};

/// The table of endpoints. Each tenant also has an item that counts its endpoints: the limit must hold under concurrent
/// creates, and a DynamoDB condition can check an item, but not count items.
#[derive(Clone)]
pub struct Endpoints {
    pub(super) dynamodb: Client,
    pub(super) table: String,
}

pub(super) const NOT_FOUND: Error = Error::NotFound("Webhook endpoint not found");

impl Endpoints {
    /// Opens the table that `env` names.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self { dynamodb: aws.dynamodb(), table: env.required("WEBHOOK_ENDPOINTS_TABLE")? })
    }

    pub(super) async fn query(&self, tenant: &TenantId, projection: &str) -> Result<Vec<Item>> {
        let query = self
            .dynamodb
            .query()
            .table_name(&self.table)
            .consistent_read(true)
            .key_condition_expression("tenant_id = :tenant AND webhook_endpoint_id >= :first")
            .expression_attribute_values(":tenant", text(tenant))
            .expression_attribute_values(":first", text("0"))
            .projection_expression(projection)
            .expression_attribute_names("#url", "url");
        query_all(query, "listing endpoints").await
    }

    pub(super) async fn get(&self, tenant: &TenantId, id: EndpointId, projection: &str) -> Result<Option<Item>> {
        let found = self.dynamodb.get_item().table_name(&self.table).set_key(Some(key(tenant, id)));
        let found = found.consistent_read(true).projection_expression(projection);
        let found = found.expression_attribute_names("#url", "url");
        Ok(found.send().await.map_err(failure("reading an endpoint"))?.item)
    }

    /// An update of an endpoint's item, to be completed with an expression.
    pub(super) fn change(&self, tenant: &TenantId, id: EndpointId) -> UpdateItemFluentBuilder {
        self.dynamodb.update_item().table_name(&self.table).set_key(Some(key(tenant, id)))
    }
}

pub(super) fn record(item: &Item) -> Record<'_> {
    Record::new("webhook endpoint", item)
}

pub(super) fn key(tenant: &TenantId, id: impl ToString) -> Item {
    item([("tenant_id", text(tenant)), ("webhook_endpoint_id", text(id))])
}
