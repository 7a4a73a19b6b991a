//! The logs of this process and others.

use std::{
    fs::File,
    io::{self, Read, Seek},
    sync::{Mutex, OnceLock, PoisonError},
};

use serde_json::Value;
use tokio::runtime::{Handle, Id};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{fmt::MakeWriter, util::SubscriberInitExt};

/// The lines, each with the runtime that logged it.
static LINES: Mutex<Vec<(Option<Id>, Vec<u8>)>> = Mutex::new(Vec::new());

/// Starts collecting the log, in the format of the functions on Lambda, once for all tests in the process.
pub fn collect() {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        common::telemetry::log::subscriber(LevelFilter::TRACE, Collector).init();
    });
}

/// Everything logged so far.
#[must_use]
pub fn collected() -> String {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let lines: Vec<&[u8]> = lines.iter().map(|(_, line)| &line[..]).collect();
    String::from_utf8_lossy(&lines.concat()).into_owned()
}

/// The lines that the functions in this test have logged. Metrics do not identify a test, but each test has a separate
/// runtime.
#[must_use]
pub fn of_this_test() -> Own {
    let own = Some(Handle::current().id());
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = lines.iter().filter(|(runtime, _)| *runtime == own);
    Own(lines.map(|(_, line)| serde_json::from_slice(line).expect("JSON")).collect())
}

/// The lines that belong to a test.
pub struct Own(pub Vec<Value>);

impl Own {
    /// The values of a metric, each with its `Reason`, if any.
    #[must_use]
    pub fn metric(&self, name: &str) -> Vec<(f64, String)> {
        let documents = self.0.iter().filter(|line| line.get("_aws").is_some());
        let values = documents.filter_map(|document| {
            let reason = document["Reason"].as_str().unwrap_or_default().to_owned();
            Some((document[name].as_f64()?, reason))
        });
        values.collect()
    }
}

/// A file for another process's output. The file is removed when its handles are closed.
#[must_use]
pub fn file() -> File {
    let path = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let file = File::options().read(true).append(true).create_new(true).open(&path).expect("a new file");
    std::fs::remove_file(path).expect("the removal succeeds");
    file
}

/// The lines of a file from [`file()`].
#[must_use]
pub fn read(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().and_then(|()| file.read_to_string(&mut text)).expect("UTF-8");
    text
}

struct Collector;

impl MakeWriter<'_> for Collector {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line(Vec::new())
    }
}

/// A line that is being written.
struct Line(Vec<u8>);

impl io::Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let runtime = Handle::try_current().ok().map(|handle| handle.id());
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push((runtime, std::mem::take(&mut self.0)));
    }
}
