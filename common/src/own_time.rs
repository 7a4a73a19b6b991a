//! A process's own time: a wait that does not count the time in which the process got no CPU.

use std::time::Duration;

use tokio::time::timeout;

/// The number of parts in which a wait is measured. Each takes as long as the process needs for it.
const WAIT_PARTS: u32 = 10;

/// Waits for `time` of this process's own time. Returns `None` if the future has not ended by then.
pub async fn within<T>(time: Duration, mut future: impl Future<Output = T> + Unpin) -> Option<T> {
    for _ in 0..WAIT_PARTS {
        if let Ok(output) = timeout(time / WAIT_PARTS, &mut future).await {
            return Some(output);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures::FutureExt;
    use tokio::time::{Instant, advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn only_the_own_time_of_the_process_counts() {
        let began = Instant::now();
        assert_eq!(within(SECOND, Box::pin(sleep(SECOND - Duration::from_millis(1)))).await, Some(()));
        assert_eq!(within(SECOND, pending::<()>()).await, None);
        assert_eq!(began.elapsed(), SECOND * 2 - Duration::from_millis(1));
        // The process is busy for three seconds, so only one part has passed.
        let mut waiting = Box::pin(within(SECOND, pending::<()>()));
        assert!((&mut waiting).now_or_never().is_none());
        advance(SECOND * 3).await;
        let went_on = Instant::now();
        assert_eq!(waiting.await, None);
        assert_eq!(went_on.elapsed(), SECOND / WAIT_PARTS * (WAIT_PARTS - 1));
    }
}
