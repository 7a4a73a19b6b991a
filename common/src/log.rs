//! The log of a function: one JSON object a line on standard output, where Lambda takes it to CloudWatch.

use std::{fmt, io};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    filter::filter_fn,
    fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter, format::Writer},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{config::Env, metrics};

/// Starts logging. The level is in `AWS_LAMBDA_LOG_LEVEL`, as Lambda's own logging controls set it; without it,
/// `INFO`.
pub fn init(env: &Env) {
    let level = env.optional("AWS_LAMBDA_LOG_LEVEL").and_then(|level| level.parse().ok());
    subscriber(level.unwrap_or(LevelFilter::INFO), io::stdout).init();
}

/// What writes the log to `writer`. A `level` below `INFO` is for our own code: what the libraries tell there
/// has whole requests in it, secrets included.
pub fn subscriber<W>(level: LevelFilter, writer: W) -> impl Subscriber + Send + Sync
where
    W: for<'a> MakeWriter<'a> + Clone + Send + Sync + 'static,
{
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_current_span(false);
    let lines = lines.with_span_list(false).with_writer(writer.clone());
    let metrics = tracing_subscriber::fmt::layer().event_format(MessageOnly).with_writer(writer);
    tracing_subscriber::registry()
        .with(level)
        .with(lines.with_filter(filter_fn(|metadata| !is_metric(metadata) && is_harmless(metadata))))
        .with(metrics.with_filter(filter_fn(is_metric)))
}

/// No span is written, so none is recorded: the libraries open several in each call of AWS.
fn is_harmless(metadata: &Metadata<'_>) -> bool {
    let ours = ["common", "auth_", "webhooks_"].iter().any(|name| metadata.target().starts_with(name));
    metadata.is_event() && (ours || *metadata.level() <= Level::INFO)
}

fn is_metric(metadata: &Metadata<'_>) -> bool {
    metadata.target() == metrics::TARGET
}

/// Writes an event's message and nothing else: CloudWatch takes a metric from a line that is its JSON alone.
struct MessageOnly;

impl<S, N> FormatEvent<S, N> for MessageOnly
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut message = Message(String::new());
        event.record(&mut message);
        writeln!(writer, "{}", message.0)
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
