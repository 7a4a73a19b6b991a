//! The delivery log and the endpoints, as stored by the functions.

use aws_sdk_dynamodb::types::AttributeValue;
use common::{
    aws::clients::Aws,
    config::Env,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status},
        endpoints::{Endpoints, News},
        job_failures::JobFailures,
        log::{Log, search::Filter},
    },
};
use serde_json::{Value, json};

use super::{Tenant, World, tables::Item};

impl World {
    /// The delivery log.
    #[must_use]
    pub fn delivery_log(&self) -> Log {
        let env = self.delivering();
        Log::from_env(&env, &Aws::new(&env).expect("settings")).expect("settings")
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
    fn delivering(&self) -> Env {
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

    /// Marks a receiver as slow in its endpoint's item.
    pub async fn make_slow(&self, tenant: &Tenant, endpoint: &str) {
        let (tenant, id) = (tenant.id.parse().expect("a tenant"), endpoint.parse().expect("an id"));
        self.stored_endpoints().note(&tenant, id, News::Slow, Timestamp::now()).await.expect("the write succeeds");
    }

    /// Marks a receiver as hanging in its endpoint's item, as if an attempt had been cut off.
    pub async fn make_hanging(&self, tenant: &Tenant, endpoint: &str) {
        let (tenant, id) = (tenant.id.parse().expect("a tenant"), endpoint.parse().expect("an id"));
        self.stored_endpoints().note(&tenant, id, News::Hangs, Timestamp::now()).await.expect("the write succeeds");
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
