//! A function's log: one JSON object per line on standard output, which Lambda forwards to CloudWatch.

use std::{fmt, io, panic};

use serde::Serialize;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_serde::fields::{AsMap, SerializeFieldMap};
use tracing_subscriber::{
    filter::filter_fn,
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{config::Env, telemetry::metrics, timestamp::Timestamp};

/// Sets up logging, including for metrics and panics. The level comes from `AWS_LAMBDA_LOG_LEVEL`, which Lambda's logging
/// controls set, and defaults to `INFO`.
pub fn init(env: &Env) {
    metrics::init(env);
    let level = env.optional("AWS_LAMBDA_LOG_LEVEL").and_then(|level| level.parse().ok());
    subscriber(level.unwrap_or(LevelFilter::INFO), io::stdout).init();
    panic::set_hook(Box::new(|panic| crate::log!("function.panicked", %panic)));
}

/// A subscriber that writes the log to `writer`. A `level` below `INFO` counts as `INFO`: the service writes no lines
/// below that level, and libraries log entire requests there, including secrets.
pub fn subscriber<W>(level: LevelFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().event_format(Lines).with_writer(writer);
    tracing_subscriber::registry().with(level.min(LevelFilter::INFO)).with(filter_fn(is_event)).with(lines)
}

/// Spans are never written, so none are recorded: libraries open several for each AWS call.
fn is_event(metadata: &Metadata<'_>) -> bool {
    metadata.is_event()
}

/// Writes each event as one JSON object, serialized in one step. The subscriber's own JSON format writes piece by piece
/// and takes twice as long.
struct Lines;

#[derive(Serialize)]
struct JsonLine<'a> {
    timestamp: String,
    level: &'a str,
    #[serde(flatten)]
    fields: SerializeFieldMap<'a, Event<'a>>,
    target: &'a str,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        if metadata.target() == metrics::TARGET {
            // CloudWatch recognizes a metric only if the line consists of nothing but its JSON.
            let mut message = MessageVisitor(String::new());
            event.record(&mut message);
            return writeln!(writer, "{}", message.0);
        }
        let line = JsonLine {
            timestamp: Timestamp::now().to_string(),
            level: metadata.level().as_str(),
            fields: event.field_map(),
            target: metadata.target(),
        };
        writeln!(writer, "{}", serde_json::to_string(&line).map_err(|_not_a_value| fmt::Error)?)
    }
}

struct MessageVisitor(String);

impl Visit for MessageVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `log` writes at this level.
    fn written(level: LevelFilter, log: impl FnOnce()) -> Vec<Value> {
        let written = Written::default();
        let writer = written.clone();
        // With a second subscriber, `tracing` does not disable a line when the first thread that reaches it has no
        // subscriber.
        let _other = tracing::Dispatch::new(subscriber(LevelFilter::OFF, io::sink));
        tracing::subscriber::with_default(subscriber(level, move || writer.clone()), log);
        let bytes = written.0.lock().expect("no panic");
        str::from_utf8(&bytes).expect("UTF-8").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    #[test]
    fn every_crate_is_logged_from_info_at_any_lower_level() {
        let log = || {
            let _span = tracing::error_span!(target: "hyper", "a call").entered();
            tracing::info!(target: "hyper", "library");
            tracing::debug!(target: "hyper", "the whole request");
            tracing::info!(target: "deliveries_wake", "function");
            tracing::debug!(target: "deliveries_wake", "detail");
            tracing::warn!(target: "accounts_purge", "warning");
        };
        for (level, expected) in [
            (LevelFilter::TRACE, &["library", "function", "warning"][..]),
            (LevelFilter::INFO, &["library", "function", "warning"]),
            (LevelFilter::WARN, &["warning"]),
            (LevelFilter::OFF, &[]),
        ] {
            let lines = written(level, log);
            assert_eq!(lines.iter().map(|line| &line["message"]).collect::<Vec<_>>(), expected, "{level}");
        }
    }

    #[test]
    fn a_line_is_its_name_with_its_level_and_fields() {
        let mut lines = written(LevelFilter::INFO, || crate::log!("purge.failed", tenant = %"t", error = ?"e"));
        let timestamp = lines[0]["timestamp"].take();
        assert!(timestamp.as_str().is_some_and(|at| at.ends_with('Z')), "{timestamp}");
        let expected = serde_json::json!({
            "timestamp": null, "level": "ERROR", "message": "purge.failed", "tenant": "t", "error": "\"e\"",
            "target": "common::telemetry::log::tests",
        });
        assert_eq!(lines, [expected]);
    }
}
