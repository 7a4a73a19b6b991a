//! Reads the list of deliveries page by page, and formats the rows.

use std::collections::HashMap;

use api::{
    EndpointId,
    deliveries::{Attempt, Delivery, List as Call, Listed},
    webhooks::List as ListEndpoints,
};

use crate::{
    args::List,
    calls::{Api, MAX_PAGE_SIZE},
    clock,
    failure::Failure,
    ids::{self, Shortener},
    table::Column,
    terminal::{cell, is_for_people},
};

/// The label for the endpoint of a delivery to a job's callback.
const CALLBACK: &str = "(callback)";

/// Returns the columns of the list. `when` is the title of the last one.
pub(super) fn columns(when: &'static str) -> [Column; 7] {
    [
        Column::new("ID"),
        Column::new("STATUS").of_statuses(),
        Column::new("EVENT").left_out(0),
        Column::new("JOB").of_ids().shrinks_to(10),
        Column::new("ENDPOINT").of_urls().shrinks_to(20),
        Column::new("RESULT").left_out(1),
        Column::new(when).left_out(2),
    ]
}

/// Returns the `deliveries/list` fields for these options.
pub(super) async fn filter(api: &Api, list: &List) -> Result<Call, Failure> {
    let List { endpoint, status, event, job, workflow, outcome, since, until, cursor, .. } = list;
    Ok(Call {
        webhook_endpoint_id: ids::optional_endpoint(api, endpoint.as_deref()).await?,
        status: *status,
        event: event.clone(),
        job_id: job.clone(),
        outcome: outcome.clone(),
        workflow: workflow.clone(),
        since: since.clone(),
        until: until.clone(),
        cursor: cursor.clone(),
        ..Call::new()
    })
}

/// Reads up to `limit` of the newest deliveries, and the cursor for the next page. Skips empty pages.
pub(crate) async fn listed(api: &Api, mut call: Call, limit: usize) -> Result<Listed, Failure> {
    let mut deliveries = Vec::new();
    loop {
        call.limit = Some(limit.saturating_sub(deliveries.len()).clamp(1, MAX_PAGE_SIZE));
        let page = api.call(&call).await?;
        deliveries.extend(page.deliveries);
        if page.next_cursor.is_none() || deliveries.len() >= limit {
            return Ok(Listed { deliveries, next_cursor: page.next_cursor });
        }
        call.cursor = page.next_cursor;
    }
}

/// The display names of the endpoints; `None` if they could not be read.
#[derive(Default)]
pub(super) struct Labels(Option<HashMap<EndpointId, String>>);

impl Labels {
    /// Reads the labels of all endpoints. If they cannot be read, returns no labels, because the list of deliveries is
    /// useful without them: the key may lack the scope `webhooks:read`.
    pub(super) async fn load(api: &Api) -> Self {
        let Ok(listed) = api.call(&ListEndpoints::new()).await else { return Self::default() };
        let label = |endpoint: &api::webhooks::Endpoint| (endpoint.webhook_endpoint_id.clone(), ids::label(endpoint));
        Self(Some(listed.webhook_endpoints.iter().map(label).collect()))
    }

    /// Whether the delivery's endpoint has no label, for instance because it is new.
    pub(super) fn lack(&self, delivery: &Delivery) -> bool {
        delivery.webhook_endpoint_id.as_ref().is_some_and(|id| self.find(id).is_none())
    }

    /// Returns the label of a delivery's endpoint. Without labels, returns its id.
    pub(super) fn of(&self, delivery: &Delivery) -> String {
        match &delivery.webhook_endpoint_id {
            None => CALLBACK.to_owned(),
            Some(id) if self.0.is_none() => cell(id),
            Some(id) => self.find(id).cloned().unwrap_or_else(|| "(deleted)".to_owned()),
        }
    }

    /// Returns the label of a delivery's endpoint with its id, but not the id twice.
    pub(super) fn with_id(&self, delivery: &Delivery) -> String {
        match &delivery.webhook_endpoint_id {
            Some(id) if self.0.is_some() => format!("{} ({})", self.of(delivery), cell(id)),
            _ => self.of(delivery),
        }
    }

    fn find(&self, id: &EndpointId) -> Option<&String> {
        self.0.as_ref().and_then(|labels| labels.get(id))
    }
}

/// The outcome of a successful attempt.
const DELIVERED: &str = "delivered";

/// Whether the receiver accepted the delivery.
pub(crate) fn is_delivered(attempt: &Attempt) -> bool {
    attempt.outcome == DELIVERED
}

/// Formats the result of an attempt: its HTTP status, or the reason for the failure if the status was not the cause.
pub(crate) fn result(attempt: &Attempt) -> String {
    match attempt.status_code {
        Some(status) if is_delivered(attempt) || !(200..300).contains(&status) => format!("HTTP {status}"),
        _ => cell(&attempt.outcome),
    }
}

/// The rows of the list.
pub(super) struct Rows {
    labels: Labels,
    shortener: Shortener,
}

impl Rows {
    pub(super) fn new(labels: Labels, shortener: Shortener) -> Self {
        Self { labels, shortener }
    }

    pub(super) fn of(&self, deliveries: &[Delivery]) -> Vec<Vec<String>> {
        let age = |delivery: &Delivery| match is_for_people() {
            true => clock::age(&delivery.created_at),
            false => clock::short(&delivery.created_at),
        };
        deliveries.iter().map(|delivery| self.row(delivery, age(delivery))).collect()
    }

    /// Returns the row of a delivery, with `last` in the last column.
    pub(super) fn row(&self, delivery: &Delivery, last: String) -> Vec<String> {
        let result = delivery.last_attempt.as_ref().map(result);
        vec![
            self.shortener.delivery(&delivery.delivery_id),
            cell(&delivery.status),
            cell(&delivery.event),
            cell(&delivery.job_id),
            self.labels.of(delivery),
            result.unwrap_or_default(),
            last,
        ]
    }

    pub(super) fn lack(&self, deliveries: &[&Delivery]) -> bool {
        deliveries.iter().any(|delivery| self.labels.lack(delivery))
    }

    pub(super) fn relabel(&mut self, labels: Labels) {
        self.labels = labels;
    }
}
