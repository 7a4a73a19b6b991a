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

/// A row of `template/alarms.yaml`, which describes the members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
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
    pub(super) name: &'a str,
    pub(super) about: &'a str,
    /// The property that names the metric, or the metrics and their sum.
    pub(super) metric: String,
    /// The number of periods that raise the alarm.
    pub(super) periods: u32,
    pub(super) comparison: &'a str,
    pub(super) threshold: Number,
    pub(super) missing: &'a str,
}

impl Alarm<'_> {
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

/// The properties that name one metric. `dimension` is a name and a value, if the metric has one.
pub(super) fn metric(
    namespace: &str,
    name: &str,
    dimension: Option<(&str, String)>,
    statistic: &str,
    period: u32,
) -> String {
    let dimensions = dimensions(dimension);
    format!("Namespace: {namespace}\nMetricName: {name}\n{dimensions}Statistic: {statistic}\nPeriod: {period}\n")
}

/// The alarms on metrics of the whole service.
pub(super) fn of_service() -> Result<String> {
    let rows: Vec<Row> = rows::read(ROWS, "alarms")?;
    let alarm = |row: &Row| {
        let resource = row.resource().with_context(|| format!("the alarm {} of template/alarms.yaml", row.alarm))?;
        Ok(rows::comment(ROWS, "alarm", &row.alarm) + &resource)
    };
    Ok(rows.iter().map(alarm).collect::<Result<Vec<_>>>()?.join("\n"))
}

impl Row {
    fn resource(&self) -> Result<String> {
        let (comparison, threshold) = match &self.least {
            Some(least) => ("GreaterThanOrEqualToThreshold", least.clone()),
            None => ("GreaterThanThreshold", self.above.clone().unwrap_or(0.into())),
        };
        let alarm = Alarm {
            name: &self.alarm,
            about: &self.about,
            metric: self.properties()?,
            periods: 1,
            comparison,
            threshold,
            missing: self.missing.as_deref().unwrap_or("notBreaching"),
        };
        Ok(alarm.resource())
    }

    /// The properties that name the metric, or the metrics and the expression of them.
    fn properties(&self) -> Result<String> {
        let namespace = self.namespace.as_deref().unwrap_or("Webhooks");
        let (statistic, period) = (self.statistic.as_deref().unwrap_or("Sum"), self.period.unwrap_or(300));
        let dimension =
            self.dimension.first_key_value().map(|(name, resource)| (name.as_str(), format!("!Ref {resource}")));
        if let Some(name) = &self.metric {
            return Ok(metric(namespace, name, dimension, statistic, period));
        }
        let expression = self.expression.as_ref().context("it has neither a metric nor an expression")?;
        let label = self.label.as_ref().context("it has no label")?;
        let mut text = format!("Metrics:\n  - {{Id: rate, Expression: \"{expression}\", Label: {label}}}\n");
        for (id, name) in self.metrics.iter().flatten() {
            text += &part(id, namespace, name, dimension.clone(), statistic, period);
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
            let alarm = Alarm {
                name: &format!("{alarm}{kind}"),
                about,
                metric: sum(kind, functions),
                periods,
                comparison: "GreaterThanThreshold",
                threshold: 0.into(),
                missing: "notBreaching",
            };
            alarms.push(alarm.resource());
        }
    }
    Ok(alarms.join("\n"))
}

/// The properties that name the sum of a metric of functions, or the metric of the only function.
fn sum(name: &str, functions: &[String]) -> String {
    let value = |function: &str| format!("!Ref {}Function", camel(function, '-'));
    if let [function] = functions {
        return metric("AWS/Lambda", name, Some(("FunctionName", value(function))), "Sum", 300);
    }
    let mut text = "Metrics:\n  - {Id: all, Expression: SUM(METRICS())}\n".to_owned();
    for (number, function) in (1..).zip(functions) {
        let function = ("FunctionName", value(function));
        text += &part(&format!("m{number}"), "AWS/Lambda", name, Some(function), "Sum", 300);
    }
    text
}

/// A metric in an expression.
fn part(
    id: &str,
    namespace: &str,
    name: &str,
    dimension: Option<(&str, String)>,
    statistic: &str,
    period: u32,
) -> String {
    let dimensions = dimensions(dimension);
    let dimensions = indented(&dimensions, 8);
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

fn dimensions(dimension: Option<(&str, String)>) -> String {
    dimension.map(|(name, value)| format!("Dimensions: [{{Name: {name}, Value: {value}}}]\n")).unwrap_or_default()
}
