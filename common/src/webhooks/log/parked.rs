//! Parked events: their first attempts wait for their turn among the retries.
//!
//! A parked event has one row for all of its slow destinations, so that receivers that hang cost the queue of events, which
//! all tenants share, next to nothing. Its deliveries are in the log once their turn has come. If there is only one, the
//! row is the payload of that delivery. Otherwise it is never changed: it expires.

use std::time::Duration;

use serde::Deserialize;

use super::{
    payload,
    table::{Log, PAYLOAD, Row, details_key, key},
};
use crate::{
    aws::dynamo::{Item, Record, number, text},
    error::{Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, DueEvent, ParkedId, WebhookId},
        event::{Audience, EventName, JobEvent},
    },
};

/// A parked event.
pub struct Parked {
    /// The event.
    pub event: JobEvent,
    /// The endpoints that the event was parked for; none if it was parked for its callback.
    pub endpoints: Vec<EndpointId>,
}

/// How long a parked event is kept at least: longer than any message, which SQS keeps for 14 days at most.
const KEPT: Duration = Duration::from_secs(15 * 24 * 60 * 60);

/// The part of a body that says which event it is.
#[derive(Deserialize)]
struct Body {
    event: EventName,
    job_id: String,
}

impl Log {
    /// The message and the row of an event that is parked for some of its deliveries. The same event, parked for the same
    /// deliveries, has the same row.
    #[must_use]
    pub fn parked_row(&self, event: &JobEvent, deliveries: &[DeliveryId], now: Timestamp) -> (DueEvent, Row) {
        let endpoints: Vec<_> = deliveries.iter().filter_map(|id| id.destination.endpoint()).collect();
        let ids = endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let (parked, expires_at) = match deliveries {
            [id] => (ParkedId::Delivery(*id), now.after(KEPT).max(self.retention.end(now))),
            _ => {
                let destinations = format!("parked {} {ids}", event.at.as_millisecond());
                let id = WebhookId::of(&event.tenant, &event.job_id, event.name.as_str(), &destinations);
                (ParkedId::Event(id), now.after(KEPT))
            }
        };
        let mut item = parked_key(&event.tenant, parked);
        // Of a single delivery, its id says both. They are written for 0.1.0, which reads them.
        item.insert("at".to_owned(), number(event.at.as_millisecond()));
        item.insert("expires_at".to_owned(), number(expires_at.as_second()));
        if !endpoints.is_empty() {
            item.insert("endpoints".to_owned(), text(ids));
        }
        payload::Packed::new(&event.body).put(&mut item, event.audience.callback());
        (DueEvent { tenant: event.tenant.clone(), parked }, Row(item))
    }

    /// A parked event, read consistently; `None` if it has expired.
    ///
    /// # Errors
    /// The read failed, or what is stored cannot be read.
    pub async fn parked(&self, due: &DueEvent) -> Result<Option<Parked>> {
        let found = self.get(vec![parked_key(&due.tenant, due.parked)]).await?;
        found.values().next().map(|item| read(due, item)).transpose()
    }
}

fn read(DueEvent { tenant, parked }: &DueEvent, item: &Item) -> Result<Parked> {
    let broken = |what: &str| Error::Internal(format!("a parked event of {tenant} has no {what}"));
    let record = Record::new("parked event", item);
    let (at, endpoints) = match parked {
        // The row may also have been written as the payload of the delivery, which says no more.
        ParkedId::Delivery(id) => {
            (Timestamp::from_millisecond(id.at.get()), id.destination.endpoint().into_iter().collect())
        }
        ParkedId::Event(_) => {
            let endpoints = record.text("endpoints")?.split_whitespace();
            let endpoints = endpoints.map(|id| id.parse().map_err(|_not_an_id| broken("endpoint")));
            (record.time("at")?, endpoints.collect::<Result<Vec<EndpointId>>>()?)
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
