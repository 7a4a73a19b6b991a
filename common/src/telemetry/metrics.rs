//! CloudWatch metrics in embedded metric format: CloudWatch turns log lines into metrics, without an API call.
//!
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::{config::Env, error::Result, timestamp::Timestamp};

/// The CloudWatch namespace of all metrics. Each stack has its own: its alarms must not count the metrics of another one.
static NAMESPACE: OnceLock<String> = OnceLock::new();

/// The target of events that carry a metric. [`crate::telemetry::log`] writes their message verbatim.
pub const TARGET: &str = "emf";

/// The maximum number of values for one metric in a document.
const MAX_VALUES: usize = 100;

/// The values of one metric.
#[derive(Clone, Debug)]
pub struct Metric {
    pub name: &'static str,
    /// CloudWatch's name for the unit: `Count`, `Milliseconds`.
    pub unit: &'static str,
    /// The values. A metric without values is omitted.
    pub values: Vec<f64>,
}

impl Metric {
    /// A number of things.
    pub fn count(name: &'static str, number: usize) -> Self {
        Self { name, unit: "Count", values: vec![u32::try_from(number).unwrap_or(u32::MAX).into()] }
    }
}

/// Sets the namespace of this process's metrics, from `METRICS_NAMESPACE`. It defaults to `Webhooks`.
pub(super) fn init(env: &Env) {
    if let Some(namespace) = env.optional("METRICS_NAMESPACE") {
        NAMESPACE.get_or_init(|| namespace);
    }
}

/// Adds one to the metric `name`.
pub fn count(name: &'static str) {
    emit(&[Metric::count(name, 1)], &[]);
}

/// Logs and counts the failure of a secondary write. The call itself, which is named in `with`, succeeds anyway.
pub fn upkeep(with: &'static str, outcome: Result<()>) {
    if let Err(error) = outcome {
        crate::log!("upkeep.failed", with, ?error);
        count("UpkeepFailed");
    }
}

/// Emits `metrics` as totals and, if `dimensions` are given, by dimension as well.
pub fn emit(metrics: &[Metric], dimensions: &[(&'static str, &str)]) {
    let now = Timestamp::now().as_millisecond();
    let namespace = NAMESPACE.get().map_or("Webhooks", String::as_str);
    for line in documents(namespace, metrics, dimensions, now) {
        tracing::info!(target: TARGET, "{line}");
    }
}

/// Splits the values into as many documents as the longest metric needs.
fn documents(namespace: &str, metrics: &[Metric], dimensions: &[(&'static str, &str)], now_ms: i64) -> Vec<Value> {
    let longest = metrics.iter().map(|metric| metric.values.len()).max().unwrap_or_default();
    (0..longest.div_ceil(MAX_VALUES)).map(|part| document(namespace, metrics, part, dimensions, now_ms)).collect()
}

fn document(
    namespace: &str,
    metrics: &[Metric],
    part: usize,
    dimensions: &[(&'static str, &str)],
    now_ms: i64,
) -> Value {
    let (mut document, mut definitions) = (Map::new(), Vec::new());
    for Metric { name, unit, values } in metrics {
        let Some(values) = values.chunks(MAX_VALUES).nth(part) else { continue };
        definitions.push(json!({ "Name": name, "Unit": unit }));
        document.insert((*name).to_owned(), if let [value] = values { json!(value) } else { json!(values) });
    }
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
    let sets = if names.is_empty() { json!([[]]) } else { json!([[], names]) };
    document.extend(dimensions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    document.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": now_ms,
            "CloudWatchMetrics": [{"Namespace": namespace, "Dimensions": sets, "Metrics": definitions}],
        }),
    );
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_counted_in_total_and_by_dimension() {
        let failed = Metric::count("Failed", 2);
        assert_eq!(
            documents("Webhooks/test", &[failed], &[("Reason", "timeout")], 1_700_000_000_000),
            [json!({
                "_aws": {
                    "Timestamp": 1_700_000_000_000_i64,
                    "CloudWatchMetrics": [{
                        "Namespace": "Webhooks/test",
                        "Dimensions": [[], ["Reason"]],
                        "Metrics": [{"Name": "Failed", "Unit": "Count"}],
                    }],
                },
                "Reason": "timeout",
                "Failed": 2.0,
            })]
        );
    }

    #[test]
    fn a_document_has_at_most_100_values_of_a_metric() {
        let counted = Metric::count("Attempts", 201);
        let measured = Metric { name: "Latency", unit: "Milliseconds", values: vec![1.0; 201] };
        let none = Metric { name: "Age", unit: "Milliseconds", values: Vec::new() };
        let documents = documents("Webhooks/test", &[counted, measured, none], &[], 0);
        let lengths =
            |name: &str| documents.iter().map(|document| document[name].as_array().map(Vec::len)).collect::<Vec<_>>();
        assert_eq!(lengths("Latency"), [Some(100), Some(100), None]);
        assert_eq!([&documents[0]["Attempts"], &documents[1]["Attempts"]], [&json!(201.0), &Value::Null]);
        assert_eq!(lengths("Age"), [None, None, None]);
        assert_eq!(
            documents[2]["_aws"]["CloudWatchMetrics"][0]["Metrics"],
            json!([{"Name": "Latency", "Unit": "Milliseconds"}])
        );
    }
}
