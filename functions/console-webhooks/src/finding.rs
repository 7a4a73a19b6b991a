//! Finds endpoints by a text in their URL, description or id.

use common::webhooks::endpoints::EndpointView;

/// A text to find, in any case.
pub(crate) struct Sought(String);

impl Sought {
    /// Reads the text from a link. White space around it is ignored.
    pub(crate) fn new(typed: &str) -> Self {
        Self(typed.trim().to_lowercase())
    }

    /// Whether the endpoint's URL, description or id contains the text. Every endpoint contains an empty one.
    pub(crate) fn is_in(&self, endpoint: &EndpointView) -> bool {
        texts(endpoint).any(|text| text.contains(&self.0))
    }
}

fn texts(endpoint: &EndpointView) -> impl Iterator<Item = String> {
    let description = endpoint.options.description.as_ref().map(|text| text.as_str().to_lowercase());
    let url = endpoint.url.as_deref().map(str::to_lowercase);
    [url, description, Some(endpoint.id.to_string())].into_iter().flatten()
}
