//! Endpoints whose newest delivery is a test that failed. Tests are not counted, so the numbers do not show them.

use std::collections::BTreeMap;

use common::{
    error::Result,
    id::{EndpointId, TenantId},
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Status},
        event::EventName,
        log::search::Filter,
    },
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{app::App, chart, numbers::EndpointNumbers};

/// The number of endpoints whose newest deliveries are read concurrently.
const CONCURRENCY: usize = 10;

/// Finds the failed tests of the last 24 hours. Reads only the deliveries since an endpoint's newest test.
pub(super) async fn failed_tests(
    app: &App,
    tenant: &TenantId,
    rows: &[EndpointNumbers],
    now: Timestamp,
) -> Result<BTreeMap<EndpointId, Delivery>> {
    let recent = rows.iter().filter_map(|EndpointNumbers { endpoint, .. }| {
        let tested_at = endpoint.tested_at.filter(|at| *at >= chart::since(now))?;
        Some((endpoint.id, endpoint.shards(), Filter { since: Some(tested_at), ..Filter::default() }))
    });
    let newest = recent.map(async |(id, shards, filter)| {
        let page = app.log.search(tenant, &shards, &filter, None, 1, now).await?;
        Ok(page.deliveries.into_iter().next().map(|delivery| (id, delivery)))
    });
    let newest: Vec<_> = newest.collect();
    let newest: Vec<Option<_>> = stream::iter(newest).buffer_unordered(CONCURRENCY).try_collect().await?;
    let is_failed_test = |delivery: &Delivery| delivery.event == EventName::Test && delivery.status == Status::Failed;
    Ok(newest.into_iter().flatten().filter(|(_, delivery)| is_failed_test(delivery)).collect())
}
