//! Notices by webhook. When an endpoint starts to fail, is disabled or recovers, the other endpoints of its tenant that
//! subscribe to this event by name get a notice. An endpoint does not get notices about itself.
//!
//! The sweep that sends the email about a notice also announces the notice, within the same limits. Flapping endpoints,
//! or two endpoints that fail on notices about each other, therefore cause few notices. The deliveries are ordinary
//! ones, except that their ids are derived from the change, so a repeated call finds them in the log and does not add
//! them again.

use serde::Serialize;

use super::{
    notice::Notice,
    store::{Endpoint, HoldFor},
    table::Endpoints,
};
use crate::{
    aws::transaction::Transaction,
    error::{Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{
            Body, Delivery, DeliveryId, Destination, DestinationId, DueAttempt, Millis, Payload, SHARDS, Status,
            WebhookId,
        },
        event::EventName,
        log::DeliveryLog,
        queue::Queues,
    },
};

/// An endpoint's failed deliveries, for a notice.
#[derive(Clone, Copy, Debug)]
pub struct Failures<'a> {
    /// The number of counted deliveries that have failed since the endpoint began to fail.
    pub count: usize,
    /// The number of counted deliveries that wait for another attempt after a failed one.
    pub pending: usize,
    /// The reason for the latest failed attempt.
    pub reason: Option<&'a str>,
    /// The delivery whose attempt failed last, if it is known.
    pub newest: Option<&'a Delivery>,
}

/// The members of the body of a notice, which are always these, in this order.
#[derive(Serialize)]
struct NoticeBody<'a> {
    event: EventName,
    webhook_endpoint_id: EndpointId,
    url: Option<String>,
    since: Timestamp,
    reason: Option<&'a str>,
    failed: usize,
    at: Timestamp,
    /// The delivery whose attempt failed last; null if the endpoint works again.
    delivery_id: Option<String>,
    job_id: Option<&'a str>,
    workflow: Option<&'a str>,
    outcome: Option<&'a str>,
    pending: usize,
}

impl Notice {
    pub fn event(&self) -> EventName {
        match self.disabled {
            _ if self.is_recovery() => EventName::EndpointRecovered,
            Some(_) => EventName::EndpointDisabled,
            None => EventName::EndpointFailing,
        }
    }

    fn body(&self, failures: Failures<'_>, now: Timestamp) -> Result<Vec<u8>> {
        // The query may contain a credential.
        let url = self.method.url().map(|url| {
            let mut url = url.url().clone();
            url.set_query(None);
            url.into()
        });
        let event = self.event();
        let newest = failures.newest.filter(|_| !self.is_recovery());
        let body = NoticeBody {
            event,
            webhook_endpoint_id: self.endpoint,
            url,
            since: self.since(now),
            reason: match self.disabled {
                _ if event == EventName::EndpointRecovered => None,
                Some((_, reason)) => Some(reason.as_str()),
                None => failures.reason,
            },
            failed: failures.count,
            at: self.at,
            delivery_id: newest.map(|delivery| delivery.id.to_string()),
            job_id: newest.filter(|delivery| delivery.event.is_of_a_job()).map(|delivery| delivery.job_id.as_str()),
            workflow: newest.and_then(|delivery| delivery.workflow.as_deref()),
            outcome: newest.and_then(|delivery| delivery.last_attempt.as_ref()).map(|attempt| attempt.outcome.as_ref()),
            pending: failures.pending,
        };
        serde_json::to_vec(&body).map_err(Error::internal("writing a notice"))
    }

    /// Builds the delivery of the notice to an endpoint, due `now`. Every call returns the same id.
    fn delivery(&self, tenant: &TenantId, to: &Endpoint, now: Timestamp) -> Delivery {
        let (event, at) = (self.event(), Millis::new(self.at.as_millisecond()));
        let change = format!("{}.{at}", self.endpoint);
        let webhook_id = WebhookId::of(tenant, &change, event.as_str(), &to.id.to_string());
        let shard = webhook_id.shard(to.log_shards);
        let id = DeliveryId { destination: DestinationId::Endpoint(to.id), shard, at, webhook_id };
        Delivery { next_attempt_at: Some(now), ..Delivery::new(id, event, self.endpoint.to_string()) }
    }
}

impl Endpoints {
    /// Sends a notice to the endpoints of the tenant that subscribe to it. A repeated call does not add deliveries.
    ///
    /// # Errors
    /// A call to AWS failed. Some endpoints may not get the notice until the caller tries again.
    pub async fn announce(
        &self,
        log: &DeliveryLog,
        queues: &Queues,
        tenant: &TenantId,
        notice: &Notice,
        failures: Failures<'_>,
        hold_for: HoldFor,
        now: Timestamp,
    ) -> Result<()> {
        let takes = |to: &Endpoint| to.id != notice.endpoint && to.takes_notice(notice.event());
        let mut receivers = self.all(tenant).await?;
        receivers.retain(|to| takes(to) && to.takes_events(hold_for, now));
        if receivers.is_empty() {
            return Ok(());
        }
        let deliveries: Vec<_> = receivers.iter().map(|to| notice.delivery(tenant, to, now)).collect();
        // The endpoint's log may have been spread over more shards since an earlier call.
        let places = deliveries.iter().flat_map(|delivery| {
            let spread = DeliveryId { shard: delivery.webhook_id.shard(SHARDS), ..delivery.id };
            [DeliveryId { shard: 0, ..delivery.id }, spread]
        });
        let known = log.readable(tenant, &places.collect::<Vec<_>>()).await?;
        let is_known = |delivery: &Delivery| known.values().any(|known| known.webhook_id == delivery.webhook_id);
        let body = Body::from(notice.body(failures, now)?);
        let new: Vec<_> = deliveries.into_iter().filter(|delivery| !is_known(delivery)).collect();
        // `now` is when the sweep began, up to a minute ago.
        let entered = now.max(Timestamp::now());
        let rows = new.iter().flat_map(|delivery| {
            let destination = Destination::Endpoint(delivery.webhook_endpoint_id.unwrap_or(notice.endpoint));
            let payload = Payload { destination, body: body.clone(), trace: None };
            let payload = log.payload_rows(tenant, &delivery.id, &payload, now);
            let late = log.backdated_rows(tenant, delivery, entered);
            payload.into_iter().chain([log.due_row(tenant, delivery, now)]).chain(late)
        });
        log.put_all(rows).await?;
        let mut begun = Vec::new();
        for delivery in new {
            let state = log.first_row(tenant, &delivery, None, entered);
            // Otherwise, the state is unreadable, or another process has written it in the meantime.
            if log.begin_in(Transaction::new("announcing a notice"), state).try_commit(&self.dynamodb).await? {
                begun.push(delivery);
            }
        }
        let waiting = known.values().filter(|known| known.status == Status::Pending);
        let due = begun.iter().chain(waiting).filter_map(|delivery| DueAttempt::delayable(tenant, delivery, now));
        for error in queues.send(&due.collect::<Vec<_>>(), now).await.into_iter().filter_map(Result::err) {
            // The sweep finds the delivery's due row and wakes the delivery.
            crate::log!("attempt.delayed", %tenant, delivery_id = %notice.endpoint, ?error);
        }
        Ok(())
    }
}
