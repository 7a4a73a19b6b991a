//! A map of bounded size, for the state of receivers and tenants.

use std::{collections::HashMap, mem};

/// The maximum number of entries.
const MOST: usize = 10_000;

/// A map that forgets the entries that have not changed for the longest time. A tenant with any number of receivers
/// does not displace the active receivers of other tenants.
pub(crate) struct Recent<V> {
    /// The entries that have changed since this map was last full.
    new: HashMap<u64, V>,
    /// Older entries, which are forgotten when `new` is full again.
    old: HashMap<u64, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { new: HashMap::new(), old: HashMap::new() }
    }
}

impl<V: Default> Recent<V> {
    pub(crate) fn get(&self, key: u64) -> Option<&V> {
        self.new.get(&key).or_else(|| self.old.get(&key))
    }

    /// Returns the entry, to be changed. A new entry has the default value.
    pub(crate) fn of(&mut self, key: u64) -> &mut V {
        if !self.new.contains_key(&key) {
            let value = self.old.remove(&key).unwrap_or_default();
            if self.new.len() >= MOST / 2 {
                self.old = mem::take(&mut self.new);
            }
            self.new.insert(key, value);
        }
        self.new.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_in_use_are_kept_and_memory_is_bounded() {
        let mut recent = Recent::<u64>::default();
        *recent.of(0) = 7;
        for key in 1..100_000 {
            *recent.of(key) = key;
            assert_eq!(*recent.of(0), 7, "at {key}");
            assert!(recent.new.len() + recent.old.len() <= MOST);
        }
        assert_eq!([1, 99_999].map(|key| recent.get(key).copied()), [None, Some(99_999)]);
    }
}
