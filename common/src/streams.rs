//! Streams of the items that arrive in a channel.

use std::{collections::HashMap, hash::Hash, time::Duration};

use futures::{Stream, stream};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};

/// Collects up to `size` items that arrive within `linger` of the first. The last chunk ends with the channel.
pub fn chunks<T>(inbox: UnboundedReceiver<T>, size: usize, linger: Duration) -> impl Stream<Item = Vec<T>> {
    stream::unfold(inbox, move |mut inbox| async move {
        let mut chunk = vec![inbox.recv().await?];
        let fill = async {
            while let Some(room) = size.checked_sub(chunk.len()).filter(|room| *room > 0)
                && inbox.recv_many(&mut chunk, room).await > 0
            {}
        };
        // The items that have arrived by then are the chunk.
        timeout(linger, fill).await.ok();
        Some((chunk, inbox))
    })
}

/// Divides items by their keys, into a channel for each key.
pub fn divided<T, K: Eq + Hash>(
    inbox: UnboundedReceiver<T>,
    key: impl Fn(&T) -> K,
) -> impl Stream<Item = UnboundedReceiver<T>> {
    let known = HashMap::<K, UnboundedSender<T>>::new();
    stream::unfold((inbox, known, key), async |(mut inbox, mut known, key)| {
        loop {
            let item = inbox.recv().await?;
            match known.get(&key(&item)) {
                // The channel may have been dropped, and then the item is not needed.
                Some(known) => drop(known.send(item)),
                None => {
                    let (sender, new) = unbounded_channel();
                    known.insert(key(&item), sender.clone());
                    sender.send(item).ok();
                    return Some((new, (inbox, known, key)));
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::time::{Instant, sleep};

    use super::*;

    const LINGER: Duration = Duration::from_millis(50);

    #[tokio::test(start_paused = true)]
    async fn a_chunk_is_full_or_lingers_or_ends_with_the_channel() {
        let (sender, inbox) = unbounded_channel();
        let send = async {
            for number in 0..4 {
                sender.send(number).expect("it is received");
            }
            sleep(LINGER * 10).await;
            sender.send(4).expect("it is received");
            sleep(LINGER / 2).await;
            sender.send(5).expect("it is received");
            sleep(LINGER).await;
            sender.send(6).expect("it is received");
            drop(sender);
        };
        let began = Instant::now();
        let (chunks, ()) = tokio::join!(chunks(inbox, 3, LINGER).collect::<Vec<_>>(), send);
        assert_eq!(chunks, [vec![0, 1, 2], vec![3], vec![4, 5], vec![6]]);
        assert!(began.elapsed() < LINGER * 12);
    }

    #[tokio::test]
    async fn items_are_divided_by_their_keys() {
        let (sender, inbox) = unbounded_channel();
        for number in 0..6 {
            sender.send(number).expect("it is received");
        }
        drop(sender);
        let mut all = Vec::new();
        let channels: Vec<_> = divided(inbox, |number| number % 2).collect().await;
        for channel in channels {
            all.push(chunks(channel, 10, LINGER).concat().await);
        }
        assert_eq!(all, [vec![0, 2, 4], vec![1, 3, 5]]);
    }
}
