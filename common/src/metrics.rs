//! CloudWatch metrics in embedded metric format: log lines that CloudWatch turns into metrics, so that counting
//! costs no call.
//!
//! <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html>

use serde_json::{Map, Value, json};

/// The namespace of all our metrics.
pub const NAMESPACE: &str = "Webhooks";
/// The target of the events that carry a metric. [`crate::log`] writes their message as it is.
pub const TARGET: &str = "emf";

/// One value of one metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its unit, as CloudWatch names it: `Count`, `Milliseconds`.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
}

/// Counts one of `name`.
pub fn count(name: &'static str) {
    emit(&[Metric { name, unit: "Count", value: 1.0 }], &[]);
}

/// Emits `metrics`, in total and, if there are `dimensions`, also by those.
pub fn emit(metrics: &[Metric], dimensions: &[(&'static str, &str)]) {
    let line = document(metrics, dimensions, jiff::Timestamp::now().as_millisecond());
    tracing::info!(target: TARGET, "{line}");
}

fn document(metrics: &[Metric], dimensions: &[(&'static str, &str)], now_ms: i64) -> Value {
    let names: Vec<&str> = dimensions.iter().map(|(name, _)| *name).collect();
    let sets = if names.is_empty() { json!([[]]) } else { json!([[], names]) };
    let definitions: Vec<Value> =
        metrics.iter().map(|metric| json!({"Name": metric.name, "Unit": metric.unit})).collect();
    let mut document = Map::new();
    document.insert(
        "_aws".to_owned(),
        json!({
            "Timestamp": now_ms,
            "CloudWatchMetrics": [{"Namespace": NAMESPACE, "Dimensions": sets, "Metrics": definitions}],
        }),
    );
    document.extend(dimensions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    document.extend(metrics.iter().map(|metric| (metric.name.to_owned(), json!(metric.value))));
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_counted_in_total_and_by_dimension() {
        let failed = Metric { name: "DeliveryFailed", unit: "Count", value: 1.0 };
        assert_eq!(
            document(&[failed], &[("Reason", "timeout")], 1_700_000_000_000),
            json!({
                "_aws": {
                    "Timestamp": 1_700_000_000_000_i64,
                    "CloudWatchMetrics": [{
                        "Namespace": "Webhooks",
                        "Dimensions": [[], ["Reason"]],
                        "Metrics": [{"Name": "DeliveryFailed", "Unit": "Count"}],
                    }],
                },
                "Reason": "timeout",
                "DeliveryFailed": 1.0,
            })
        );
    }
}
