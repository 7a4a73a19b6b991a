//! The requests to the inbox and the settings of each path, in a bounded amount of memory.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::SystemTime,
};

use axum::{body::Bytes, http::HeaderMap};
use common::webhooks::destination::SigningSecret;

/// The maximum number of requests that are kept.
const MAX_KEPT: usize = 200;
/// The maximum total size of the request bodies, in bytes.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of paths with settings.
const MAX_PATHS: usize = 100;

/// The inbox's response for a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Responds with 204.
    #[default]
    Take,
    /// Responds with 500.
    Fail,
    /// Responds with 410.
    Gone,
    /// Responds with 204 after a delay.
    Slowly,
    /// Does not respond.
    Hang,
}

impl Manner {
    pub(crate) const ALL: [Self; 5] = [Self::Take, Self::Fail, Self::Gone, Self::Slowly, Self::Hang];

    /// Returns the name used in forms.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Take => "204",
            Self::Fail => "500",
            Self::Gone => "410",
            Self::Slowly => "slowly",
            Self::Hang => "hang",
        }
    }

    /// Returns the human-readable text.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Take => "HTTP 204",
            Self::Fail => "HTTP 500",
            Self::Gone => "HTTP 410",
            Self::Slowly => "HTTP 204 after 8 seconds",
            Self::Hang => "none",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|manner| manner.name() == name)
    }
}

/// A received request.
pub(crate) struct StoredRequest {
    pub(crate) at: SystemTime,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The response that the request got.
    pub(crate) manner: Manner,
}

impl StoredRequest {
    /// Returns the header `name`, or an empty string.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// The settings that a developer chose for a path.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) manner: Manner,
    pub(crate) secret: Option<SigningSecret>,
}

/// The requests, newest first, and the paths.
pub(crate) struct Shelf {
    requests: VecDeque<StoredRequest>,
    bytes: usize,
    paths: BTreeMap<String, Settings>,
    pub(crate) is_keeping: bool,
}

impl Default for Shelf {
    fn default() -> Self {
        Self { requests: VecDeque::new(), bytes: 0, paths: BTreeMap::new(), is_keeping: true }
    }
}

impl Shelf {
    /// Keeps a request, and drops the oldest ones if necessary.
    pub(crate) fn add(&mut self, kept: StoredRequest) {
        if !self.is_keeping {
            return;
        }
        self.bytes += kept.body.len();
        self.requests.push_front(kept);
        while self.requests.len() > MAX_KEPT || self.bytes > MAX_BYTES {
            let Some(oldest) = self.requests.pop_back() else { break };
            self.bytes -= oldest.body.len();
        }
    }

    /// Returns the requests, newest first.
    pub(crate) fn requests(&self) -> impl ExactSizeIterator<Item = &StoredRequest> {
        self.requests.iter()
    }

    /// Returns the paths that have settings or have received a request.
    pub(crate) fn paths(&self) -> BTreeSet<&str> {
        let seen = self.requests.iter().map(|kept| kept.path.as_str());
        self.paths.keys().map(String::as_str).chain(seen).collect()
    }

    pub(crate) fn manner(&self, path: &str) -> Manner {
        self.paths.get(path).map(|settings| settings.manner).unwrap_or_default()
    }

    pub(crate) fn secret(&self, path: &str) -> Option<&SigningSecret> {
        self.paths.get(path)?.secret.as_ref()
    }

    /// Whether `path` may have settings.
    pub(crate) fn has_room_for(&self, path: &str) -> bool {
        self.paths.len() < MAX_PATHS || self.paths.contains_key(path)
    }

    /// Returns the settings for a path, so they can be changed.
    pub(crate) fn path(&mut self, path: &str) -> &mut Settings {
        self.paths.entry(path.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(path: String, bytes: usize) -> StoredRequest {
        let body = Bytes::from(vec![b' '; bytes]);
        StoredRequest { at: SystemTime::now(), path, headers: HeaderMap::new(), body, manner: Manner::Take }
    }

    #[test]
    fn the_newest_are_kept() {
        let mut shelf = Shelf::default();
        (0..250).for_each(|number| shelf.add(kept(format!("/{number}"), 1)));
        let paths: Vec<_> = shelf.requests().map(|kept| kept.path.as_str()).collect();
        assert_eq!((paths.len(), paths[0], paths[199]), (200, "/249", "/50"));
    }

    #[test]
    fn large_bodies_push_out_others_sooner() {
        let mut shelf = Shelf::default();
        (0..250).for_each(|number| shelf.add(kept(format!("/{number}"), MAX_BYTES / 10)));
        assert_eq!(shelf.requests().len(), 10);
    }

    #[test]
    fn a_manner_is_found_by_its_name() {
        for manner in Manner::ALL {
            assert_eq!(Manner::parse(manner.name()), Some(manner));
        }
        assert_eq!(Manner::parse("200"), None);
    }
}
