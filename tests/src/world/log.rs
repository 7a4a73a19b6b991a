//! The delivery log and the endpoints, as stored by the functions.

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    aws::clients::Aws,
    config::Env,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Origin, Status},
        destination::EndpointUrl,
        endpoints::{Endpoints, Evidence, Gate, GateOwner},
        job_failures::JobFailures,
        log::{DeliveryLog, search::Filter},
    },
};
use serde_json::{Value, json};

use super::{Tenant, World, tables::Item};

impl World {
    /// The delivery log.
    #[must_use]
    pub fn delivery_log(&self) -> DeliveryLog {
        let env = self.delivering();
        DeliveryLog::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings")
    }

    /// The failing workflows of all tenants.
    #[must_use]
    pub fn job_failures(&self) -> JobFailures {
        let env = self.delivering();
        JobFailures::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings")
    }

    /// The endpoints of all tenants.
    #[must_use]
    pub fn stored_endpoints(&self) -> Endpoints {
        let env = self.delivering();
        Endpoints::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings")
    }

    /// The settings of the delivery function, with direct access to the tables.
    #[must_use]
    pub fn delivering(&self) -> Env {
        let mut settings = self.stack.environment("webhooks-deliver").expect("a function of the template").clone();
        settings.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), self.stack.dynamodb().to_owned());
        Env::new(move |name| settings.get(name).cloned())
    }

    /// A tenant's deliveries in the log, newest first.
    pub async fn log(&self, tenant: &str) -> Vec<Delivery> {
        self.search(tenant, Filter::default()).await
    }

    /// A tenant's deliveries with this status, newest first.
    pub async fn log_of(&self, tenant: &str, status: Status) -> Vec<Delivery> {
        self.search(tenant, Filter { status: Some(status), ..Filter::default() }).await
    }

    /// A tenant's only delivery in the log.
    pub async fn only_logged(&self, tenant: &str) -> Delivery {
        let mut logged = self.log(tenant).await;
        assert_eq!(logged.len(), 1, "{logged:?}");
        logged.remove(0)
    }

    async fn search(&self, tenant: &str, filter: Filter) -> Vec<Delivery> {
        let tenant = tenant.parse::<TenantId>().expect("a tenant");
        let shards = self.stored_endpoints().shards(&tenant, None).await.expect("the endpoints are read");
        let (log, now, mut found, mut cursor) = (self.delivery_log(), Timestamp::now(), Vec::new(), None);
        loop {
            let page = log.search(&tenant, &shards, &filter, cursor.as_ref(), 1000, now).await;
            let page = page.expect("the log is read");
            found.extend(page.deliveries);
            cursor = page.next;
            if cursor.is_none() {
                return found;
            }
        }
    }

    /// Opens an endpoint's gate, as if its receiver had answered quickly.
    pub async fn make_quick(&self, tenant: &Tenant, endpoint: &str) {
        self.shift_gate(tenant, endpoint, Evidence::Quick, Timestamp::now()).await;
    }

    /// Opens the gate of a callback origin, as if its receiver had answered quickly.
    pub async fn make_origin_quick(&self, tenant: &str, url: &str) {
        let (tenant, now) = (tenant.parse().expect("a tenant"), Timestamp::now());
        let origin = GateOwner::Origin(Origin::of(&EndpointUrl::parse(url).expect("a URL")));
        let shifted = self.stored_endpoints().shift_gate(&tenant, origin, Gate::New, Evidence::Quick, now, now).await;
        shifted.expect("the write succeeds");
    }

    /// Closes an endpoint's gate, as if its receiver had just answered late.
    pub async fn make_late(&self, tenant: &Tenant, endpoint: &str) {
        self.shift_gate(tenant, endpoint, Evidence::Late, Timestamp::now()).await;
    }

    /// Closes an endpoint's gate, as if its receiver had not answered since `since`.
    pub async fn make_silent(&self, tenant: &Tenant, endpoint: &str, since: Timestamp) {
        self.shift_gate(tenant, endpoint, Evidence::Nothing, since).await;
    }

    async fn shift_gate(&self, tenant: &Tenant, endpoint: &str, shown: Evidence, now: Timestamp) {
        let gate = self.gate(tenant, endpoint).await;
        let (tenant, id) = (tenant.id.parse().expect("a tenant"), endpoint.parse().expect("an id"));
        let endpoints = self.stored_endpoints();
        // The attempt began after all earlier ones.
        let shifted = endpoints.shift_gate(&tenant, GateOwner::Endpoint(id), gate, shown, Timestamp::now(), now);
        shifted.await.expect("the write succeeds");
    }

    /// An endpoint's gate.
    pub async fn gate(&self, tenant: &Tenant, endpoint: &str) -> Gate {
        let (tenant, id) = (tenant.id.parse().expect("a tenant"), endpoint.parse().expect("an id"));
        let found = self.stored_endpoints().find(&tenant, id).await.expect("the item is read");
        found.expect("it exists").health.gate
    }

    /// Changes the state of a tenant's drains.
    pub async fn set_drains(&self, tenant: &Tenant, fields: Value) {
        let is_drain = |item: &Item| {
            let is = |name: &str, is_it: fn(&str, &str) -> bool, text: &str| {
                item.get(name).and_then(|found| found.as_s().ok()).is_some_and(|found| is_it(found, text))
            };
            is("tenant_id", |found, text| found == text, &tenant.id)
                && is("webhook_endpoint_id", |found, text| found.starts_with(text), "#drain#")
        };
        assert!(self.set_where("webhook-endpoints", is_drain, &fields).await > 0, "there is a drain");
    }

    /// Changes the time at which a pending delivery's next attempt is due.
    pub async fn make_due(&self, tenant: &str, delivery: &Delivery, at: Timestamp) {
        let id = delivery.id.to_string();
        let (moment, shard) = id.match_indices('.').nth(1).map(|(dot, _)| (&id[dot + 1..], &id[..dot])).expect("an id");
        let destination = AttributeValue::S(format!("{tenant}/{shard}"));
        let is_it = |item: &Item| {
            item["destination"] == destination
                && item["delivery"].as_s().is_ok_and(|found| found == moment)
                && item.contains_key("next_attempt_at")
        };
        let due = json!({"next_attempt_at": at.as_millisecond()});
        assert_eq!(self.set_where("deliveries", is_it, &due).await, 1, "it is pending");
    }
}

/// The message for a delivery's next attempt.
#[must_use]
pub fn due_message(tenant: &str, delivery: &Delivery) -> Value {
    json!({"tenant_id": tenant, "delivery_id": delivery.id, "attempt": delivery.attempts + 1})
}
