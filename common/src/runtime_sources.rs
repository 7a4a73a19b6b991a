//! A function's clock and random bytes. Both normally come from the machine. The simulation replaces them, and so does
//! the demo, which runs functions at past times.
//!
//! Both are task-local, so two functions on the same thread can have different clocks.

use std::{sync::Arc, time::SystemTime};

use uuid::{Builder, Uuid};

tokio::task_local! {
    static SOURCES: RuntimeSources;
}

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;
/// Fills a buffer with random bytes.
pub type Fill = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// A clock and a source of random bytes.
#[derive(Clone)]
pub struct RuntimeSources {
    /// The clock that [`Timestamp::now`](crate::timestamp::Timestamp::now) and new ids use.
    pub now: Clock,
    /// The source of secrets, ids and jitter.
    pub fill: Fill,
}

impl RuntimeSources {
    /// Combines this clock with the machine's randomness.
    pub fn at(now: Clock) -> Self {
        Self { now, fill: Arc::new(machine_fill) }
    }

    /// Returns this task's clock and random bytes, if it does not use the machine's.
    pub fn current() -> Option<Self> {
        SOURCES.try_with(Clone::clone).ok()
    }

    /// Runs `future` with this clock and these random bytes. `future` must not spawn tasks: they would get the
    /// machine's clock and randomness.
    pub async fn within<F: Future>(self, future: F) -> F::Output {
        SOURCES.scope(self, future).await
    }
}

/// Returns the current time of this task's clock.
pub(crate) fn now() -> SystemTime {
    SOURCES.try_with(|sources| (sources.now)()).unwrap_or_else(|_machine| SystemTime::now())
}

/// Fills `bytes` with random bytes.
///
/// # Panics
/// The operating system cannot provide random bytes. Secrets generated without them would be unsafe.
pub(crate) fn fill(bytes: &mut [u8]) {
    SOURCES.try_with(|sources| (sources.fill)(bytes)).unwrap_or_else(|_machine| machine_fill(bytes));
}

#[expect(clippy::expect_used, reason = "secrets must not be generated without randomness")]
fn machine_fill(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system provides random bytes");
}

/// Generates a version 7 UUID (RFC 9562). With the machine's clock, it sorts after all earlier UUIDs from this process.
pub(crate) fn uuid() -> Uuid {
    let other = SOURCES.try_with(|sources| {
        let time = (sources.now)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut random = [0; 10];
        (sources.fill)(&mut random);
        Builder::from_unix_timestamp_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), &random).into_uuid()
    });
    other.unwrap_or_else(|_machine| Uuid::now_v7())
}
