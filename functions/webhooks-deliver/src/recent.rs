//! A map of bounded size, for the state of receivers and tenants.

use std::{collections::HashMap, hash::Hash, mem};

/// The maximum number of entries.
const MOST: usize = 10_000;

/// A map that forgets the entries that have not been used for the longest time. A tenant with any number of receivers
/// does not displace the active receivers of other tenants.
pub(crate) struct Recent<K, V> {
    /// The entries that were used since this map was last full.
    new: HashMap<K, V>,
    /// Older entries, which are forgotten when `new` is full again.
    old: HashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { new: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Eq + Hash, V: Default> Recent<K, V> {
    /// Returns the entry. A new one has the default value.
    pub(crate) fn of(&mut self, key: K) -> &mut V {
        let value = self.old.remove(&key);
        if self.new.len() >= MOST / 2 && !self.new.contains_key(&key) {
            self.old = mem::take(&mut self.new);
        }
        self.new.entry(key).or_insert_with(|| value.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_in_use_are_kept_and_memory_is_bounded() {
        let mut recent = Recent::<u64, u64>::default();
        *recent.of(0) = 7;
        for key in 1..100_000 {
            *recent.of(key) = key;
            assert_eq!(*recent.of(0), 7, "at {key}");
            assert!(recent.new.len() + recent.old.len() <= MOST);
        }
        assert_eq!([1, 99_999].map(|key| *recent.of(key)), [0, 99_999]);
    }
}
