//! Remarks about the URL of an endpoint: the URL that requests are sent to, and other endpoints with the same one.

use super::{
    item::{URL, WEBHOOK_ENDPOINT_ID},
    table::{Endpoints, record},
    view::EndpointView,
};
use crate::{
    error::Result,
    id::{EndpointId, TenantId},
    webhooks::destination::EndpointUrl,
};

/// The maximum length of a URL in its form as sent. Beside any other, the longest URLs would not fit into a list.
const MAX_URL_LENGTH: usize = 1_000;

/// The sentence about an endpoint whose URL another endpoint has.
pub const SAME_URL: &str =
    "Another endpoint has the same URL, so events that both select are sent twice, with different ids";

impl Endpoints {
    /// Whether another endpoint of `tenant` than `id` sends its requests to `url`. The read is strongly consistent.
    pub async fn has_other_at(&self, tenant: &TenantId, url: &EndpointUrl, id: EndpointId) -> Result<bool> {
        let items = self.query(tenant, &[WEBHOOK_ENDPOINT_ID, URL]).await?;
        let others = items.iter().map(record).filter(|one| one.parsed(WEBHOOK_ENDPOINT_ID).ok() != Some(id));
        let mut urls = others.filter_map(|one| EndpointUrl::parse(one.optional_text(URL)?).ok());
        Ok(urls.any(|other| other.url() == url.url()))
    }

    /// Adds the remarks about the new `url` of the endpoint `id` to the message about the change.
    pub async fn remark(&self, tenant: &TenantId, url: &EndpointUrl, id: EndpointId, done: String) -> Result<String> {
        let sent = shown(url).map(|sent| format!("Requests are sent to {sent}"));
        let same = self.has_other_at(tenant, url, id).await?.then(|| SAME_URL.to_owned());
        Ok([Some(done), sent, same].into_iter().flatten().collect::<Vec<_>>().join(". "))
    }
}

impl EndpointView {
    /// The URL that requests are sent to, if it differs from the endpoint's URL and has at most 1,000 characters.
    pub fn url_as_sent(&self) -> Option<String> {
        let url = EndpointUrl::parse(self.url.as_deref()?).ok()?;
        shown(&url).map(str::to_owned)
    }
}

fn shown(url: &EndpointUrl) -> Option<&str> {
    url.as_sent().filter(|sent| sent.len() <= MAX_URL_LENGTH)
}
