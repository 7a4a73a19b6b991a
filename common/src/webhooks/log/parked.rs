//! Events parked by version 0.1.0, which stored the event of a slow receiver outside the deliveries' states. This
//! version still reads such items, so that an update of a running service loses none, but writes none.

use serde::Deserialize;

use super::{
    items::AT,
    payload,
    table::{Log, PAYLOAD, details_key, key},
};
use crate::{
    aws::dynamo::{Attribute, Item, Record},
    error::{Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, WebhookId},
        event::{Audience, EventName, JobEvent, of_a_job},
    },
};

/// The key of an event parked by version 0.1.0, as its message names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParkedEvent {
    /// The owner of the event.
    pub tenant: TenantId,
    /// The id of the event's item.
    pub parked: ParkedId,
}

/// The id of a parked event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParkedId {
    /// Its item is the payload of its only delivery.
    Delivery(DeliveryId),
    /// It has its own item.
    Event(WebhookId),
}

/// A parked event.
pub struct Parked {
    /// The event.
    pub event: JobEvent,
    /// The endpoints for which the event was parked; empty if it was parked for its callback.
    pub endpoints: Vec<EndpointId>,
}

const ENDPOINTS: Attribute = Attribute("endpoints");

/// The part of a body that identifies the event.
#[derive(Deserialize)]
struct Body {
    #[serde(deserialize_with = "of_a_job")]
    event: EventName,
    job_id: String,
}

impl Log {
    /// A parked event, read consistently; `None` if it has expired.
    ///
    /// # Errors
    /// The read failed, or the item cannot be read.
    pub async fn parked(&self, due: &ParkedEvent) -> Result<Option<Parked>> {
        let found = self.get(vec![parked_key(&due.tenant, due.parked)]).await?;
        found.values().next().map(|item| read(due, item)).transpose()
    }
}

fn read(ParkedEvent { tenant, parked }: &ParkedEvent, item: &Item) -> Result<Parked> {
    let broken = |what: &str| Error::Internal(format!("a parked event of {tenant} has no {what}"));
    let record = Record::new("parked event", item);
    let (at, endpoints) = match parked {
        // The item may also have been written as the payload of the delivery, which contains the same data.
        ParkedId::Delivery(id) => {
            (Timestamp::from_millisecond(id.at.get()), id.destination.endpoint().into_iter().collect())
        }
        ParkedId::Event(_) => {
            let endpoints = record.text(ENDPOINTS)?.split_whitespace();
            let endpoints = endpoints.map(|id| id.parse().map_err(|_not_an_id| broken("endpoint")));
            (record.time(AT)?, endpoints.collect::<Result<Vec<EndpointId>>>()?)
        }
    };
    let audience = if endpoints.is_empty() {
        let (url, secret) = payload::callback(item)?;
        Audience::Callback { url, secret }
    } else {
        Audience::Endpoints
    };
    let body = payload::body(item)?.ok_or_else(|| broken("body"))?;
    let Body { event: name, job_id } = serde_json::from_slice(&body).map_err(|_not_json| broken("event"))?;
    let event = JobEvent { name, tenant: tenant.clone(), job_id, at, audience, body };
    Ok(Parked { event, endpoints })
}

fn parked_key(tenant: &TenantId, parked: ParkedId) -> Item {
    match parked {
        ParkedId::Delivery(id) => details_key(tenant, &id, PAYLOAD),
        ParkedId::Event(id) => key(format!("{tenant}/parked/{id}"), PAYLOAD),
    }
}
