//! The log of a function: one JSON object per line on standard output, which Lambda forwards to CloudWatch.

use std::{fmt, io, panic};

use serde::Serialize;
use tracing::{
    Event, Level, Metadata, Subscriber,
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

/// Sets up logging, including of panics. The level comes from `AWS_LAMBDA_LOG_LEVEL`, which Lambda's logging controls
/// set, and defaults to `INFO`.
pub fn init(env: &Env) {
    let level = env.optional("AWS_LAMBDA_LOG_LEVEL").and_then(|level| level.parse().ok());
    subscriber(level.unwrap_or(LevelFilter::INFO), io::stdout).init();
    panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panic")));
}

/// A subscriber that writes the log to `writer`. A `level` below `INFO` applies only to the functions' own code: the
/// libraries' log lines below `INFO` contain whole requests, including secrets.
pub fn subscriber<W>(level: LevelFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().event_format(Lines).with_writer(writer);
    tracing_subscriber::registry().with(level).with(filter_fn(is_harmless)).with(lines)
}

/// Filters out library logs below `INFO`, and spans, which are never written: each AWS call opens several.
fn is_harmless(metadata: &Metadata<'_>) -> bool {
    let ours = ["common", "auth_", "webhooks_"].iter().any(|name| metadata.target().starts_with(name));
    metadata.is_event() && (ours || *metadata.level() <= Level::INFO)
}

/// Writes an event as one JSON object, serialized in one go: the subscriber's own format, which writes it piece by
/// piece, takes twice as long.
struct Lines;

#[derive(Serialize)]
struct Line<'a> {
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
            // CloudWatch recognizes a metric only in a line that contains only its JSON.
            let mut message = Message(String::new());
            event.record(&mut message);
            return writeln!(writer, "{}", message.0);
        }
        let line = Line {
            timestamp: Timestamp::now().to_string(),
            level: metadata.level().as_str(),
            fields: event.field_map(),
            target: metadata.target(),
        };
        writeln!(writer, "{}", serde_json::to_string(&line).map_err(|_not_a_value| fmt::Error)?)
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
