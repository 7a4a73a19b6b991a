//! Reads the list of deliveries page by page.

use api::deliveries::{Delivery, List as Call, Listed};

use crate::{args::List, calls::Api, clock, failure::Failure, terminal::cell};

/// The largest page of the API.
pub(super) const PAGE: usize = 100;

/// The fields of `deliveries/list` for these options.
pub(super) fn filter(list: &List) -> Call {
    let List { endpoint, status, event, job, since, .. } = list;
    Call {
        webhook_endpoint_id: endpoint.clone(),
        status: *status,
        event: event.clone(),
        job_id: job.clone(),
        since: since.clone(),
        ..Call::new()
    }
}

/// The newest deliveries, at most `limit`, and the cursor of the next page. A page may be empty although more follow.
pub(super) async fn listed(api: &Api, mut call: Call, limit: usize) -> Result<Listed, Failure> {
    let mut deliveries = Vec::new();
    loop {
        call.limit = Some(limit.saturating_sub(deliveries.len()).clamp(1, PAGE));
        let page = api.call(&call).await?;
        deliveries.extend(page.deliveries);
        if page.next_cursor.is_none() || deliveries.len() >= limit {
            return Ok(Listed { deliveries, next_cursor: page.next_cursor });
        }
        call.cursor = page.next_cursor;
    }
}

/// A delivery as a row of the table.
pub(super) fn row(delivery: &Delivery) -> Vec<String> {
    let attempt = delivery.last_attempt.as_ref().map(|last| match last.status_code {
        None => cell(&last.outcome),
        Some(status) => format!("{} ({status})", cell(&last.outcome)),
    });
    vec![
        clock::short(&delivery.created_at),
        cell(&delivery.status),
        cell(&delivery.event),
        cell(&delivery.job_id),
        attempt.unwrap_or_default(),
        cell(&delivery.delivery_id),
    ]
}
