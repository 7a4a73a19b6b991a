//! Access logs, alarms and the dashboard.

use std::collections::BTreeSet;

use common::webhooks::log::due_rows::SWEEPERS;
use serde_json::{Value, json};

use super::{ALL, LEAST, resources, template, text};

/// All the functions' metrics, as found by `grep -rE 'count\("|counted\("|milliseconds\("|Metric \{ name'`.
pub(crate) const METRICS: [&str; 25] = [
    "AgeAtDelivery",
    "AttemptLatency",
    "Attempts",
    "Delivered",
    "DeliveryFailed",
    "EndpointDisabled",
    "Failed",
    "FailingRecord",
    "FailureMailsUsedUp",
    "FailureUnnoted",
    "FailuresTold",
    "LogWriteFailed",
    "MailBounced",
    "MailComplained",
    "MailFailed",
    "MailSent",
    "MailSuppressed",
    "Malformed",
    "NoticeGivenUp",
    "Overdue",
    "Parked",
    "SignedUp",
    "SweepLag",
    "UnreadableEndpoint",
    "UpkeepFailed",
];

/// The namespace of the functions' metrics in a stack named `local`.
const NAMESPACE: &str = "Webhooks/local";

/// The query of `verify-email` contains a token, the query of an invitation contains its id, and headers contain
/// cookies and keys.
#[test]
fn access_logs_contain_no_secrets() {
    let template = template(&LEAST);
    let format = text(&template["Resources"]["HttpApi"]["Properties"]["AccessLogSettings"]["Format"]);
    let format: Value = serde_json::from_str(format).expect("JSON");
    let logged: BTreeSet<_> = format.as_object().expect("an object").values().map(text).collect();
    let harmless = [
        "$context.error.responseType",
        "$context.identity.sourceIp",
        "$context.integration.requestId",
        "$context.integrationLatency",
        "$context.requestId",
        "$context.requestTimeEpoch",
        "$context.responseLatency",
        "$context.responseLength",
        "$context.routeKey",
        "$context.status",
    ];
    assert_eq!(logged, harmless.into());
}

#[test]
fn every_alarm_notifies_the_topic() {
    for (template, actions) in
        [(template(&LEAST), Value::Null), (template(&ALL), json!(["arn:aws:sns:eu-central-1:123456789012:alarms"]))]
    {
        for (name, alarm) in resources(&template, "AWS::CloudWatch::Alarm") {
            let alarm = &alarm["Properties"];
            assert_eq!((&alarm["AlarmActions"], &alarm["OKActions"]), (&actions, &actions), "{name}");
            let silence = match name {
                // The sweep reports every minute, so missing data must trigger the alarm.
                "SweepLagAlarm" => "breaching",
                // AWS recommends that alarms about these rates keep their state.
                "MailBouncedAlarm" | "MailComplainedAlarm" => "ignore",
                _ => "notBreaching",
            };
            assert_eq!(alarm["TreatMissingData"], silence, "{name}");
            if alarm["Namespace"] == NAMESPACE {
                assert!(METRICS.contains(&text(&alarm["MetricName"])), "{name}");
            }
        }
    }
}

/// Each costs money, even if nothing calls the service.
#[test]
fn routes_report_detailed_metrics_only_if_chosen() {
    for (parameters, is_detailed) in
        [(&LEAST[..], false), (&[&LEAST[..], &[("DetailedMetrics", "true")]].concat(), true)]
    {
        let template = template(parameters);
        let api = &template["Resources"]["HttpApi"]["Properties"];
        let routes = api["RouteSettings"].as_object().expect("settings").values();
        for settings in routes.chain([&api["DefaultRouteSettings"]]) {
            assert_eq!(settings["DetailedMetricsEnabled"], is_detailed, "{settings}");
        }
    }
}

/// Two stacks in one region have different names, so the alarms of one do not count the metrics of the other.
#[test]
fn alarms_and_dashboard_read_the_namespace_that_functions_write() {
    let template = template(&LEAST);
    assert_eq!(
        template["Globals"]["Function"]["Environment"]["Variables"]["METRICS_NAMESPACE"],
        json!({"Fn::Sub": "Webhooks/${AWS::StackName}"})
    );
    for (name, alarm) in resources(&template, "AWS::CloudWatch::Alarm") {
        let alarm = &alarm["Properties"];
        let parts = alarm["Metrics"].as_array().into_iter().flatten().map(|part| &part["MetricStat"]["Metric"]);
        for metric in parts.filter(|metric| metric.is_object()).chain(alarm["MetricName"].is_string().then_some(alarm))
        {
            let namespace = text(&metric["Namespace"]);
            assert!(namespace == NAMESPACE || namespace.starts_with("AWS/"), "{name}: {namespace}");
        }
    }
    let dashboard = text(&template["Resources"]["Dashboard"]["Properties"]["DashboardBody"]);
    assert!(!dashboard.contains("\"Webhooks\""));
    // Names with other characters than letters and digits need quotes in a search:
    // https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html
    assert!(dashboard.contains(r#"SEARCH('{\"Webhooks/local\",Reason} MetricName"#), "{dashboard}");
}

#[test]
fn the_metrics_of_failures_have_alarms() {
    let template = template(&LEAST);
    let alarms: Vec<_> =
        resources(&template, "AWS::CloudWatch::Alarm").map(|(_, alarm)| &alarm["Properties"]).collect();
    let own = [
        "DeliveryFailed",
        "EndpointDisabled",
        "FailingRecord",
        "LogWriteFailed",
        "MailFailed",
        "Malformed",
        "Overdue",
        "SweepLag",
        "UnreadableEndpoint",
    ];
    for metric in own {
        assert!(alarms.iter().any(|alarm| alarm["MetricName"] == metric), "{metric}");
    }
}

/// The alarm's period is long enough for several sweeps, and one sweep ends before the next begins.
#[test]
fn deliveries_are_swept_every_minute() {
    let template = template(&LEAST);
    let (_, function) = super::functions(&template).find(|(name, _)| *name == "deliveries-wake").expect("a function");
    let schedules: Vec<_> = function["Events"].as_object().expect("events").values().collect();
    let schedule = |sweeper: u8| {
        let input = json!({"sweeper": sweeper}).to_string().replace(':', ": ");
        json!({"Type": "Schedule", "Properties": {"Schedule": "rate(1 minute)", "Input": input}})
    };
    assert_eq!(schedules, (0..SWEEPERS).map(schedule).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    assert!(function["Timeout"].as_u64().is_some_and(|timeout| timeout <= 60));
    let alarm = &template["Resources"]["SweepLagAlarm"]["Properties"];
    assert!(alarm["Period"].as_u64().is_some_and(|period| period >= 5 * 60), "{alarm}");
}

#[test]
fn the_dashboard_shows_every_metric() {
    let template = template(&LEAST);
    let body = text(&template["Resources"]["Dashboard"]["Properties"]["DashboardBody"]);
    let body: Value = serde_json::from_str(body).expect("JSON");
    let mut shown = BTreeSet::new();
    for widget in body["widgets"].as_array().expect("widgets") {
        let mut last: Vec<String> = Vec::new();
        for metric in widget["properties"]["metrics"].as_array().expect("metrics") {
            // A dot stands for the value at the same position in the line above.
            let line: Vec<String> = (metric.as_array().expect("a list").iter().filter_map(Value::as_str).enumerate())
                .map(|(place, part)| if part == "." { last[place].clone() } else { part.to_owned() })
                .collect();
            if let [namespace, name, ..] = &line[..]
                && namespace == NAMESPACE
            {
                shown.insert(name.clone());
            }
            last = line;
        }
    }
    assert_eq!(shown, METRICS.map(str::to_owned).into());
}
