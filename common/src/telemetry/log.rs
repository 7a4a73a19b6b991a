//! The log of a function: one JSON object a line on standard output, where Lambda takes it to CloudWatch.

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

/// Starts logging, panics too. The level is in `AWS_LAMBDA_LOG_LEVEL`, as Lambda's own logging controls set it; without it,
/// `INFO`.
pub fn init(env: &Env) {
    let level = env.optional("AWS_LAMBDA_LOG_LEVEL").and_then(|level| level.parse().ok());
    subscriber(level.unwrap_or(LevelFilter::INFO), io::stdout).init();
    panic::set_hook(Box::new(|panic| tracing::error!(%panic, "panic")));
}

/// What writes the log to `writer`. A `level` below `INFO` is for our own code: what the libraries tell there
/// has whole requests in it, secrets included.
pub fn subscriber<W>(level: LevelFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().event_format(Lines).with_writer(writer);
    tracing_subscriber::registry().with(level).with(filter_fn(is_harmless)).with(lines)
}

/// No span is written, so none is recorded: the libraries open several in each call of AWS.
fn is_harmless(metadata: &Metadata<'_>) -> bool {
    let ours = ["common", "auth_", "webhooks_"].iter().any(|name| metadata.target().starts_with(name));
    metadata.is_event() && (ours || *metadata.level() <= Level::INFO)
}

/// Writes an event as one object. It is serialised at once: piece by piece, as the subscriber's own format does it, it
/// takes twice as long.
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
            // CloudWatch takes a metric from a line that is its JSON alone.
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
