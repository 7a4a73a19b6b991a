//! The requested part of a list, and its order.

use schemars::JsonSchema;

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The maximum number of entries.
    pub limit: usize,
    /// The number of entries to skip.
    pub offset: usize,
}

impl Paging {
    /// The first `limit` entries.
    pub fn first(limit: usize) -> Self {
        Self { limit, offset: 0 }
    }

    /// Returns this part of `entries`.
    pub fn of<T>(self, entries: Vec<T>) -> Vec<T> {
        entries.into_iter().skip(self.offset).take(self.limit).collect()
    }
}

/// Entries are sorted by creation time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(inline)]
pub enum Order {
    /// Oldest first.
    #[default]
    #[schemars(rename = "asc")]
    Ascending,
    /// Newest first.
    #[schemars(rename = "desc")]
    Descending,
}

impl Order {
    /// Puts `entries`, which are in ascending order, into this order.
    pub fn apply<T>(self, entries: &mut [T]) {
        if self == Self::Descending {
            entries.reverse();
        }
    }
}
