//! The log of this process, for checking what it must and must not contain.

use std::{
    io,
    sync::{Mutex, OnceLock, PoisonError},
};

use tracing_subscriber::{fmt::MakeWriter, util::SubscriberInitExt};

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Starts collecting the log, in the format that the functions use in Lambda, once for all tests of the process.
pub fn collect() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        common::telemetry::log::subscriber(tracing::level_filters::LevelFilter::TRACE, Collector).init();
    });
}

/// Everything logged so far.
#[must_use]
pub fn collected() -> String {
    String::from_utf8_lossy(&LINES.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

#[derive(Clone)]
struct Collector;

impl<'a> MakeWriter<'a> for Collector {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl io::Write for Collector {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LINES.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
