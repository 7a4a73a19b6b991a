//! The endpoints table: its keys, and reads of its items.

use aws_sdk_dynamodb::Client;

use super::item::{TENANT_ID, WEBHOOK_ENDPOINT_ID};
use crate::{
    aws::{
        dynamo::{Attribute, Item, ItemReader, item, number, query_all, text},
        expression::{Condition, Update, projection, query, select},
        failure,
    },
    error::{Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
};

crate::from_env! {
    /// The endpoints table. Each tenant also has an item that counts its endpoints, because the limit must hold for
    /// concurrent calls, and a DynamoDB condition can check an item but cannot count items.
    #[derive(Clone)]
    pub struct Endpoints {
        pub(super) dynamodb: Client,
        pub(super) table: String = "WEBHOOK_ENDPOINTS_TABLE",
    }
}

pub(super) const NOT_FOUND: Error = Error::NotFound("Webhook endpoint not found");

impl Endpoints {
    pub(super) async fn query(&self, tenant: &TenantId, attributes: &[Attribute]) -> Result<Vec<Item>> {
        let keys = TENANT_ID.equals(text(tenant)).and(WEBHOOK_ENDPOINT_ID.is_at_least(text("0")));
        let query = query(&self.dynamodb, &self.table, keys).consistent_read(true);
        query_all(select(query, attributes), "listing endpoints").await
    }

    pub(super) async fn get(
        &self,
        tenant: &TenantId,
        id: EndpointId,
        attributes: &[Attribute],
    ) -> Result<Option<Item>> {
        let (projection, names) = projection(attributes);
        let found = self.dynamodb.get_item().table_name(&self.table).set_key(Some(key(tenant, id)));
        let found =
            found.consistent_read(true).set_projection_expression(projection).set_expression_attribute_names(names);
        Ok(found.send().await.map_err(failure("reading an endpoint"))?.item)
    }

    /// An update of an endpoint's item.
    pub(super) fn change(&self, tenant: &TenantId, id: EndpointId) -> Update {
        Update::of(&self.table, key(tenant, id))
    }
}

/// True if the attribute is absent or a time before `time`.
pub(super) fn is_absent_or_before(attribute: Attribute, time: Timestamp) -> Condition {
    attribute.is_absent().or(attribute.is_below(number(time.as_millisecond())))
}

pub(super) fn record(item: &Item) -> ItemReader<'_> {
    ItemReader::new("webhook endpoint", item)
}

pub(super) fn key(tenant: &TenantId, id: impl ToString) -> Item {
    item([(TENANT_ID, text(tenant)), (WEBHOOK_ENDPOINT_ID, text(id))])
}
