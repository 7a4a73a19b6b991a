//! The endpoints of the demo tenant, one in each state. They point to paths of the inbox.

use anyhow::{Context, Result, anyhow};
use common::webhooks::destination::SigningSecret;
use serde_json::{Value, json};

use super::api::{Api, Credential};
use crate::inbox::{Inbox, Manner};

/// An endpoint, with the current response of its receiver.
pub(super) struct Endpoint {
    pub(super) path: &'static str,
    description: &'static str,
    secret: &'static str,
    events: Option<&'static str>,
    headers: &'static [(&'static str, &'static str)],
    manner: Manner,
}

const PLAIN: Endpoint =
    Endpoint { path: "", description: "", secret: "", events: None, headers: &[], manner: Manner::Take };

/// Healthy, after an outage within the last day.
pub(super) const ORDERS: Endpoint =
    Endpoint { path: "/orders", description: "Order service", secret: "northwind-orders-secret", ..PLAIN };
/// Failing for days; before that, it received all events.
pub(super) const CRM: Endpoint = Endpoint {
    path: "/crm",
    description: "CRM sync (old)",
    secret: "northwind-crm-secret",
    manner: Manner::Fail,
    ..PLAIN
};
/// Disabled because its receiver responded with 410.
pub(super) const BILLING: Endpoint = Endpoint {
    path: "/billing",
    description: "Billing, until the move to the new ledger",
    secret: "northwind-billing-secret",
    manner: Manner::Gone,
    ..PLAIN
};
/// Disabled by its owner.
pub(super) const REPORTS: Endpoint = Endpoint {
    path: "/reports",
    description: "Reports, paused for maintenance",
    secret: "northwind-reports-secret",
    ..PLAIN
};
/// Gets only failures, with custom headers.
const ALERTS: Endpoint = Endpoint {
    path: "/alerts",
    description: "On-call alerts: failed jobs only",
    secret: "northwind-alerts-secret",
    events: Some("job.failed"),
    headers: &[("authorization", "Bearer northwind-gateway-token"), ("x-team", "platform")],
    ..PLAIN
};
/// The secret has just been rotated.
pub(super) const WAREHOUSE: Endpoint = Endpoint {
    path: "/warehouse",
    description: "Warehouse, secret being rotated",
    secret: "northwind-warehouse-secret",
    ..PLAIN
};
pub(super) const NEW_WAREHOUSE_SECRET: &str = "northwind-warehouse-secret-2";

pub(super) const ALL: [Endpoint; 6] = [ORDERS, CRM, BILLING, REPORTS, ALERTS, WAREHOUSE];

impl Endpoint {
    pub(super) async fn create(&self, api: &Api, key: &Credential, inbox: &Inbox) -> Result<()> {
        let headers = self.headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        let fields = json!({
            "url": inbox.url(self.path),
            "description": self.description,
            "signing_secret": self.secret,
            "events": self.events.map(|event| [event]),
            "headers": headers.collect::<serde_json::Map<_, _>>(),
        });
        api.call(key, "webhooks/create", &fields).await.map(drop)
    }

    /// Changes these fields.
    pub(super) async fn update(&self, api: &Api, key: &Credential, mut fields: Value) -> Result<()> {
        let listed = list(api, key).await?;
        let is_it =
            |listed: &&Value| listed.get("url").and_then(Value::as_str).is_some_and(|url| url.ends_with(self.path));
        let listed = listed.pointer("/webhook_endpoints").and_then(Value::as_array).into_iter().flatten().find(is_it);
        let id = listed.and_then(|listed| listed.get("webhook_endpoint_id"));
        let id = id.with_context(|| format!("no endpoint points to {}", self.path))?;
        fields.as_object_mut().context("fields")?.insert("id".to_owned(), id.clone());
        api.call(key, "webhooks/update", &fields).await.map(drop)
    }

    /// Configures the receiver's response and the secret in the inbox.
    pub(super) fn configure(&self, inbox: &Inbox) -> Result<()> {
        let secret = if self.path == WAREHOUSE.path { NEW_WAREHOUSE_SECRET } else { self.secret };
        let secret = SigningSecret::parse(secret).map_err(|problems| anyhow!("{problems:?}"))?;
        inbox.verify(self.path, secret);
        inbox.answer(self.path, self.manner);
        Ok(())
    }
}

pub(super) async fn list(api: &Api, key: &Credential) -> Result<Value> {
    api.call(key, "webhooks/list", &json!({})).await
}
