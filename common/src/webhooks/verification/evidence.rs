//! Reads what is known about a request: the secrets of the organization's endpoints, and the delivery in the log.

use std::time::Duration;

use api::verification::Verification;
use futures::{StreamExt, TryStreamExt, stream};

use super::{
    diagnosis::{diagnose, is_unexplained},
    facts::{Facts, Logged, Secrets, SentDelivery},
    received_request::ReceivedRequest,
    search::search,
    values::Values,
};
use crate::{
    error::{Error, Result},
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{DeliveryId, DestinationId, SHARDS, Shard, WebhookId},
        destination::SigningSecret,
        endpoints::{Endpoint, Endpoints},
        event::PayloadForm,
        log::{DeliveryLog, search::Filter},
        request::form,
    },
};

/// The number of deliveries around the time of a request that it is compared with, and the time after the request.
const MAX_NEARBY_DELIVERIES: usize = 10;
const TIME_AFTER: Duration = Duration::from_mins(1);
/// The number of deliveries that are read concurrently.
const CONCURRENCY: usize = 5;

/// The tables that a verification reads.
#[derive(Clone, Copy)]
pub struct Verifying<'a> {
    pub endpoints: &'a Endpoints,
    pub log: &'a DeliveryLog,
    pub tenant: &'a TenantId,
    /// This service's time.
    pub now: Timestamp,
}

impl Verifying<'_> {
    /// Diagnoses a request to the endpoint `id`. Other deliveries are read only if nothing else explains the request.
    ///
    /// # Errors
    /// The tenant has no such endpoint.
    pub async fn verify(self, id: EndpointId, seen: &ReceivedRequest) -> Result<Verification> {
        let endpoints = self.endpoints.all(self.tenant).await?;
        let own = endpoints.iter().find(|endpoint| endpoint.id == id).ok_or(Error::NotFound("Endpoint not found"))?;
        let values = Values::read(&seen.headers, seen.received_at.unwrap_or(self.now));
        let webhook_id = values.id.as_deref().and_then(|id| WebhookId::parse(id).ok());
        let logged = match webhook_id {
            Some(webhook_id) => self.logged(webhook_id, own, &endpoints).await?,
            None => Logged::NotSought,
        };
        let others = endpoints.iter().filter(|other| other.id != id);
        let others = others.map(|other| (other.id, secrets(other))).collect();
        let mut facts = Facts { own: secrets(own), others, logged, nearby: Vec::new() };
        let mut search = search(seen, &facts, &values);
        let found = diagnose(seen, &facts, &values, &search, self.now);
        if !is_unexplained(&found) {
            return Ok(found);
        }
        facts.nearby = self.nearby(own, webhook_id, values.at).await?;
        // Without its id, the request's own delivery would look like another one.
        if facts.nearby.is_empty() || values.id.is_none() {
            return Ok(found);
        }
        search.try_others(&facts, &values);
        Ok(diagnose(seen, &facts, &values, &search, self.now))
    }

    /// Finds the delivery with this `webhook-id`: to the endpoint or, if there is none, to another destination.
    async fn logged(self, webhook_id: WebhookId, own: &Endpoint, all: &[Endpoint]) -> Result<Logged> {
        let filter = Filter { webhook_id: Some(webhook_id), ..Filter::default() };
        let others = all.iter().filter(|other| other.id != own.id).flat_map(shards);
        let others: Vec<_> = others.chain(Shard::first(DestinationId::Callback, SHARDS)).collect();
        for shards in [shards(own), others] {
            let page = self.log.search(self.tenant, &shards, &filter, None, 1, self.now).await?;
            if let Some(delivery) = page.deliveries.first() {
                return Ok(self.sent(&delivery.id, all).await?.map_or(Logged::Absent, Logged::Found));
            }
        }
        Ok(Logged::Absent)
    }

    /// Reads the latest deliveries to the endpoint before the time of the request.
    async fn nearby(self, own: &Endpoint, webhook_id: Option<WebhookId>, at: i64) -> Result<Vec<SentDelivery>> {
        let time = Timestamp::from_second(at).unwrap_or(self.now);
        let filter = Filter { until: Some(time.after(TIME_AFTER)), ..Filter::default() };
        let page = self.log.search(self.tenant, &shards(own), &filter, None, MAX_NEARBY_DELIVERIES, self.now).await?;
        let ids = page.deliveries.into_iter().map(|delivery| delivery.id);
        let ids = ids.filter(|id| Some(id.webhook_id) != webhook_id);
        let reads: Vec<_> = ids.map(|id| async move { self.sent(&id, std::slice::from_ref(own)).await }).collect();
        let sent: Vec<_> = stream::iter(reads).buffered(CONCURRENCY).try_collect().await?;
        Ok(sent.into_iter().flatten().collect())
    }

    /// Reads a delivery with its bodies. Returns `None` if it has expired meanwhile.
    async fn sent(self, id: &DeliveryId, endpoints: &[Endpoint]) -> Result<Option<SentDelivery>> {
        let Some((delivery, payload)) = self.log.find(self.tenant, id).await? else { return Ok(None) };
        let endpoint = endpoints.iter().find(|endpoint| DestinationId::Endpoint(endpoint.id) == id.destination);
        let forms = match form(&delivery, endpoint) {
            PayloadForm::Full => [PayloadForm::Full, PayloadForm::Thin],
            PayloadForm::Thin => [PayloadForm::Thin, PayloadForm::Full],
        };
        let bodies = payload.as_ref().map(|payload| forms.map(|form| payload.body.in_form(form).0.clone()));
        let mut bodies: Vec<_> = bodies.into_iter().flatten().collect();
        bodies.dedup();
        let callback = payload.as_ref().and_then(|payload| payload.destination.callback());
        let callback: Option<SigningSecret> = callback.map(|(_, secret)| secret.clone());
        let at = delivery.attempts_so_far().map(|attempt| attempt.at).collect();
        Ok(Some(SentDelivery { id: *id, bodies, at, callback }))
    }
}

fn secrets(endpoint: &Endpoint) -> Secrets {
    Secrets { current: endpoint.signing_secret.clone(), previous: endpoint.previous_secret.clone() }
}

fn shards(endpoint: &Endpoint) -> Vec<Shard> {
    Shard::first(DestinationId::Endpoint(endpoint.id), endpoint.log_shards).collect()
}
