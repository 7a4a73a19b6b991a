//! The logs of this process and of others, for checking what they must and must not contain.

use std::{
    fs::File,
    io::{self, Read, Seek},
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

/// A file for what another process says. It is gone with its handles.
#[must_use]
pub fn file() -> File {
    let path = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let file = File::options().read(true).append(true).create_new(true).open(&path).expect("a new file");
    std::fs::remove_file(path).expect("it is removed");
    file
}

/// What such a file has.
#[must_use]
pub fn read(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("UTF-8");
    text
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
