//! Gathered reads: one call reads the keys that several callers request at about the same time.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
    mem,
    sync::Mutex,
};

use futures::future::join_all;
use tokio::{
    sync::{self, oneshot},
    task::yield_now,
};

use crate::{
    error::{Error, Result},
    lock::lock,
};

/// The reads of a process. Only one is in progress at a time; the next one reads all keys requested in the meantime.
pub struct Gathered<K, V> {
    asked: Mutex<Vec<Asked<K, V>>>,
    turn: sync::Mutex<()>,
}

/// The result of reading several keys.
pub struct ReadResult<K, V> {
    pub values: HashMap<K, V>,
    /// The keys that could not be read.
    pub unread: HashSet<K>,
}

/// The keys that a caller has requested.
struct Asked<K, V> {
    keys: Vec<K>,
    answer: oneshot::Sender<Result<HashMap<K, V>>>,
}

impl<K, V> Default for Gathered<K, V> {
    fn default() -> Self {
        Self { asked: Mutex::default(), turn: sync::Mutex::default() }
    }
}

impl<K, V> Default for ReadResult<K, V> {
    fn default() -> Self {
        Self { values: HashMap::new(), unread: HashSet::new() }
    }
}

impl<K: Clone + Hash + Ord, V: Clone> Gathered<K, V> {
    /// Reads values by their keys, in a call to `read` that begins after this call. `read` gets each key only once.
    ///
    /// # Errors
    /// [`Error::Busy`]: a key of this caller could not be read.
    pub async fn get<R: Future<Output = ReadResult<K, V>>>(
        &self,
        keys: Vec<K>,
        read: impl Fn(Vec<K>) -> R,
    ) -> Result<HashMap<K, V>> {
        loop {
            let (sender, mut answer) = oneshot::channel();
            lock(&self.asked).push(Asked { keys: keys.clone(), answer: sender });
            // Yields so that concurrent callers can enqueue their keys before this read starts.
            yield_now().await;
            let turn = tokio::select! {
                biased;
                found = &mut answer => match found {
                    Ok(found) => return found,
                    // The task that was reading on behalf of this caller was stopped.
                    Err(_) => continue,
                },
                turn = self.turn.lock() => turn,
            };
            self.read_all(&read).await;
            drop(turn);
            if let Ok(found) = answer.await {
                return found;
            }
        }
    }

    /// Reads one key together with the other requested keys, in a call to `read` that begins after this call. Returns
    /// `None` if it has no value.
    ///
    /// # Errors
    /// [`Error::Busy`]: the key could not be read.
    pub async fn get_one<R: Future<Output = Result<Option<V>>>>(
        &self,
        key: K,
        read: impl Fn(K) -> R,
    ) -> Result<Option<V>> {
        let read_each = async |keys: Vec<K>| {
            let mut found = ReadResult::default();
            let values = join_all(keys.iter().cloned().map(&read)).await;
            for (key, value) in keys.into_iter().zip(values) {
                match value {
                    Ok(value) => found.values.extend(value.map(|value| (key, value))),
                    Err(_) => drop(found.unread.insert(key)),
                }
            }
            found
        };
        Ok(self.get(vec![key.clone()], read_each).await?.remove(&key))
    }

    /// Reads all keys that have been requested.
    async fn read_all<R: Future<Output = ReadResult<K, V>>>(&self, read: impl Fn(Vec<K>) -> R) {
        let asked = mem::take(&mut *lock(&self.asked));
        if asked.is_empty() {
            return;
        }
        let different: BTreeSet<&K> = asked.iter().flat_map(|asked| &asked.keys).collect();
        let ReadResult { values, unread } = read(different.into_iter().cloned().collect()).await;
        for Asked { keys, answer } in asked {
            let found = if keys.iter().any(|key| unread.contains(key)) {
                Err(Error::Busy)
            } else {
                Ok(keys.into_iter().filter_map(|key| Some((key.clone(), values.get(&key)?.clone()))).collect())
            };
            // The send fails if the caller was stopped and no longer waits.
            answer.send(found).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future::pending, rc::Rc};

    use futures::FutureExt;

    use super::*;

    /// Returns twice the value of each key, and records the requested keys.
    async fn read(calls: &RefCell<Vec<Vec<u8>>>, keys: Vec<u8>) -> ReadResult<u8, u8> {
        calls.borrow_mut().push(keys.clone());
        yield_now().await;
        ReadResult { values: keys.into_iter().map(|key| (key, key * 2)).collect(), unread: HashSet::new() }
    }

    #[tokio::test]
    async fn concurrent_callers_share_a_read_and_later_ones_the_next() {
        let (gathered, calls) = (Gathered::default(), RefCell::default());
        let get = async |keys: &[u8]| gathered.get(keys.to_vec(), |keys| read(&calls, keys)).await;
        let later = async {
            yield_now().await;
            yield_now().await;
            join_all([get(&[1]), get(&[9])]).await
        };
        let (first, later) = tokio::join!(join_all([get(&[1, 2]), get(&[2, 3]), get(&[])]), later);
        let first: Vec<_> = first.into_iter().map(|found| found.expect("no error")).collect();
        assert_eq!(first, [HashMap::from([(1, 2), (2, 4)]), HashMap::from([(2, 4), (3, 6)]), HashMap::new()]);
        assert_eq!(
            later.into_iter().map(Result::unwrap_or_default).collect::<Vec<_>>(),
            [[(1, 2)].into(), [(9, 18)].into()]
        );
        assert_eq!(*calls.borrow(), [vec![1, 2, 3], vec![1, 9]]);
    }

    #[tokio::test]
    async fn only_the_callers_of_an_unread_key_fail() {
        let gathered = Gathered::default();
        let get = |keys: Vec<u8>| {
            gathered.get(keys, |_| async { ReadResult { values: HashMap::from([(1, 2)]), unread: HashSet::from([3]) } })
        };
        let found = join_all([get(vec![1, 2]), get(vec![1, 3]), get(vec![2])]).await;
        let found: Vec<_> = found.into_iter().map(Result::ok).collect();
        assert_eq!(found, [Some(HashMap::from([(1, 2)])), None, Some(HashMap::new())]);
    }

    #[tokio::test]
    async fn a_caller_reads_itself_if_its_reader_is_stopped() {
        let (gathered, calls) = (Rc::new(Gathered::default()), RefCell::default());
        let mut stopped = Box::pin(gathered.get(vec![1], |_| pending()));
        let mut other = Box::pin(gathered.get(vec![2], |keys| read(&calls, keys)));
        for _ in 0..3 {
            assert!((&mut stopped).now_or_never().is_none() && (&mut other).now_or_never().is_none());
        }
        drop(stopped);
        assert_eq!(other.await.expect("no error"), HashMap::from([(2, 4)]));
    }
}
