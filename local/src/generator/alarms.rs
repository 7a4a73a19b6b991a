//! The alarms on metrics of the whole service, and those on the errors and the throttling of functions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Number;

use super::{
    rows,
    text::{camel, indented},
};

const ROWS: &str = include_str!("../../../template/alarms.yaml");

/// The number of metrics that CloudWatch accepts in an alarm.
const METRICS: usize = 10;

/// The namespace of the functions' own metrics.
const OWN_NAMESPACE: &str = "!Sub Webhooks/${AWS::StackName}";

// The comparison of most alarms, and the meaning of missing data.
const ABOVE: &str = "GreaterThanThreshold";
const NOT_BREACHING: &str = "notBreaching";

/// A row of `template/alarms.yaml`, which describes the members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlarmRow {
    alarm: String,
    about: String,
    namespace: Option<String>,
    metric: Option<String>,
    #[serde(default)]
    dimension: BTreeMap<String, String>,
    #[serde(default)]
    metrics: Vec<BTreeMap<String, String>>,
    expression: Option<String>,
    label: Option<String>,
    statistic: Option<String>,
    period: Option<u32>,
    above: Option<Number>,
    least: Option<Number>,
    missing: Option<String>,
}

/// The alarms about a few functions: a row of `template/functions.yaml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Watch {
    alarm: String,
    errors: String,
    throttles: String,
    throttle_periods: Option<u32>,
    functions: Vec<String>,
}

/// The parts of an alarm that differ.
pub(super) struct Alarm<'a> {
    name: &'a str,
    about: &'a str,
    /// The properties that name the metric, or the metrics and their sum.
    metric: String,
    /// The number of periods that raise the alarm.
    periods: u32,
    comparison: &'a str,
    threshold: Number,
    missing: &'a str,
}

/// A metric, over periods of this many seconds.
pub(super) struct Metric<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// The name and the value of its dimension, if it has one.
    pub(super) dimension: Option<(&'a str, String)>,
    pub(super) statistic: &'a str,
    pub(super) period: u32,
}

impl<'a> Alarm<'a> {
    /// An alarm that is raised if the metric exceeds `above`, and not by missing data.
    pub(super) fn above(above: u32, name: &'a str, about: &'a str, metric: String, periods: u32) -> Self {
        let (comparison, missing) = (ABOVE, NOT_BREACHING);
        Self { name, about, metric, periods, comparison, threshold: above.into(), missing }
    }

    /// The alarm as a resource.
    pub(super) fn resource(&self) -> String {
        let Self { name, about, metric, periods, comparison, threshold, missing } = self;
        let metric = indented(metric, 4);
        format!(
            "\
{name}Alarm:
  Type: AWS::CloudWatch::Alarm
  Properties:
    AlarmDescription: {about}
{metric}    EvaluationPeriods: {periods}
    ComparisonOperator: {comparison}
    Threshold: {threshold}
    TreatMissingData: {missing}
    AlarmActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]
    OKActions: !If [HasAlarmTopic, [!Ref AlarmTopicArn], !Ref AWS::NoValue]
"
        )
    }
}

impl Metric<'_> {
    /// The properties of an alarm on this metric.
    pub(super) fn properties(&self) -> String {
        let Self { namespace, name, statistic, period, .. } = self;
        let dimensions = self.dimensions();
        format!("Namespace: {namespace}\nMetricName: {name}\n{dimensions}Statistic: {statistic}\nPeriod: {period}\n")
    }

    /// The metric `id` in an expression.
    fn part(&self, id: &str) -> String {
        let Self { namespace, name, statistic, period, .. } = self;
        let dimensions = indented(&self.dimensions(), 8);
        format!(
            "  - Id: {id}
    ReturnData: false
    MetricStat:
      Metric:
        Namespace: {namespace}
        MetricName: {name}
{dimensions}      Stat: {statistic}
      Period: {period}
"
        )
    }

    fn dimensions(&self) -> String {
        let dimension = self.dimension.as_ref();
        dimension.map(|(name, value)| format!("Dimensions: [{{Name: {name}, Value: {value}}}]\n")).unwrap_or_default()
    }
}

/// The alarms on metrics of the whole service.
pub(super) fn of_service() -> Result<String> {
    let rows: Vec<AlarmRow> = rows::read(ROWS, "alarms")?;
    let alarm = |row: &AlarmRow| {
        let resource = row.resource().with_context(|| format!("the alarm {} of template/alarms.yaml", row.alarm))?;
        Ok(rows::comment(ROWS, "alarm", &row.alarm) + &resource)
    };
    Ok(rows.iter().map(alarm).collect::<Result<Vec<_>>>()?.join("\n"))
}

impl AlarmRow {
    fn resource(&self) -> Result<String> {
        let (comparison, threshold) = match &self.least {
            Some(least) => ("GreaterThanOrEqualToThreshold", least.clone()),
            None => (ABOVE, self.above.clone().unwrap_or(0.into())),
        };
        let alarm = Alarm {
            name: &self.alarm,
            about: &self.about,
            metric: self.properties()?,
            periods: 1,
            comparison,
            threshold,
            missing: self.missing.as_deref().unwrap_or(NOT_BREACHING),
        };
        Ok(alarm.resource())
    }

    /// The properties that name the metric, or the metrics and the expression of them.
    fn properties(&self) -> Result<String> {
        let dimension = self.dimension.first_key_value();
        let dimension = || dimension.map(|(name, resource)| (name.as_str(), format!("!Ref {resource}")));
        let metric = |name| Metric {
            namespace: self.namespace.as_deref().unwrap_or(OWN_NAMESPACE),
            name,
            dimension: dimension(),
            statistic: self.statistic.as_deref().unwrap_or("Sum"),
            period: self.period.unwrap_or(300),
        };
        if let Some(name) = &self.metric {
            return Ok(metric(name).properties());
        }
        let expression = self.expression.as_ref().context("it has neither a metric nor an expression")?;
        let label = self.label.as_ref().context("it has no label")?;
        let mut text = format!("Metrics:\n  - {{Id: rate, Expression: \"{expression}\", Label: {label}}}\n");
        for (id, name) in self.metrics.iter().flatten() {
            text += &metric(name).part(id);
        }
        Ok(text)
    }
}

/// The alarms about functions. Each of `functions` must be watched once.
pub(super) fn of_functions(watches: &[Watch], functions: &[&str]) -> Result<String> {
    let mut unwatched: BTreeSet<_> = functions.iter().copied().collect();
    for function in watches.iter().flat_map(|watch| &watch.functions) {
        ensure!(
            unwatched.remove(function.as_str()),
            "an alarm in template/functions.yaml watches {function}, which does not exist or is watched already"
        );
    }
    ensure!(
        unwatched.is_empty(),
        "no alarm in template/functions.yaml watches {unwatched:?}: add them to the functions of one that has fewer \
         than {METRICS}, or add an alarm"
    );
    let mut alarms = Vec::new();
    for Watch { alarm, errors, throttles, throttle_periods, functions } in watches {
        ensure!(
            functions.len() <= METRICS,
            "the alarm {alarm} in template/functions.yaml has over {METRICS} functions"
        );
        for (kind, about, periods) in [("Errors", errors, 1), ("Throttles", throttles, throttle_periods.unwrap_or(2))] {
            let name = format!("{alarm}{kind}");
            alarms.push(Alarm::above(0, &name, about, sum(kind, functions), periods).resource());
        }
    }
    Ok(alarms.join("\n"))
}

/// The properties that name the sum of a metric of functions, or the metric of the only function.
fn sum(name: &str, functions: &[String]) -> String {
    let metric = |function: &str| Metric {
        namespace: "AWS/Lambda",
        name,
        dimension: Some(("FunctionName", format!("!Ref {}Function", camel(function, '-')))),
        statistic: "Sum",
        period: 300,
    };
    if let [function] = functions {
        return metric(function).properties();
    }
    let mut text = "Metrics:\n  - {Id: all, Expression: SUM(METRICS())}\n".to_owned();
    for (number, function) in (1..).zip(functions) {
        text += &metric(function).part(&format!("m{number}"));
    }
    text
}
