//! Finds endpoints by a text in their URL, description or id.

use std::collections::HashMap;

use common::webhooks::endpoints::EndpointView;

/// A text to find, in any case.
pub(crate) struct SearchText(String);

impl SearchText {
    /// Reads the text from a link. White space around it is ignored.
    pub(crate) fn new(typed: &str) -> Self {
        Self(typed.trim().to_lowercase())
    }

    /// Whether the endpoint's URL, description or id contains the text. Every endpoint contains an empty one.
    pub(crate) fn is_in(&self, endpoint: &EndpointView) -> bool {
        texts(endpoint).any(|text| text.contains(&self.0))
    }

    /// Whether the endpoint's URL, description or id is exactly the text.
    pub(crate) fn is_all_of(&self, endpoint: &EndpointView) -> bool {
        texts(endpoint).any(|text| text == self.0)
    }
}

/// The texts by which endpoints are found, with the number of their uses.
pub(crate) struct Texts(HashMap<String, usize>);

impl Texts {
    pub(crate) fn of(endpoints: &[EndpointView]) -> Self {
        let mut uses = HashMap::new();
        endpoints.iter().flat_map(texts).for_each(|text| *uses.entry(text).or_default() += 1);
        Self(uses)
    }

    /// Whether only one endpoint has exactly this text.
    pub(crate) fn is_unique(&self, text: &str) -> bool {
        self.0.get(&text.to_lowercase()) == Some(&1)
    }
}

fn texts(endpoint: &EndpointView) -> impl Iterator<Item = String> {
    let description = endpoint.options.description.as_ref().map(|text| text.as_str().to_lowercase());
    let url = endpoint.url.as_deref().map(str::to_lowercase);
    [url, description, Some(endpoint.id.to_string())].into_iter().flatten()
}
