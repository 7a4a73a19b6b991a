//! docs/operating.md names every alarm and every metric.

use std::{collections::BTreeSet, env, fs, process::Command};

use common::telemetry::line::LINES;

use super::{codes, page, root, rows};
use crate::template::{LEAST, METRICS, resources, template};

const PAGE: &str = "docs/operating.md";
/// The table of log lines is between these markers.
const LOG_LINES: &str = "<!-- log lines -->\n";
/// The table of changes that are repeated after a restore is between these markers.
const CHANGES: &str = "<!-- repeated changes -->\n";
const END: &str = "<!-- end -->";

/// With `UPDATE_DOCS`, the table is written instead of compared.
#[test]
fn the_table_of_log_lines_is_printed_from_their_list() {
    let mut source = page(PAGE);
    let row = |line: &common::telemetry::line::Line| {
        let fields = line.fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
        format!("| `{}` | {} | {fields} | {} |\n", line.name, line.level, line.about)
    };
    let rows = LINES.iter().map(row).collect::<String>();
    let table = format!("| log line | level | fields | meaning |\n|---|---|---|---|\n{rows}");
    let from = source.find(LOG_LINES).expect("a mark") + LOG_LINES.len();
    let to = from + source[from..].find(END).expect("an end");
    if env::var_os("UPDATE_DOCS").is_some() {
        source.replace_range(from..to, &table);
        fs::write(root().join(PAGE), source).expect("a page");
    } else {
        assert_eq!(&source[from..to], table, "run this test with UPDATE_DOCS=1");
    }
}

/// With `UPDATE_DOCS`, the table is written instead of compared.
#[test]
fn the_table_of_repeated_changes_is_printed_by_the_program() {
    let mut source = page(PAGE);
    let printed = Command::new("python3").arg(root().join("docs/operate.py")).arg("repeated").output().expect("Python");
    let table = String::from_utf8(printed.stdout).expect("UTF-8");
    let from = source.find(CHANGES).expect("a mark") + CHANGES.len();
    let to = from + source[from..].find(END).expect("an end");
    if env::var_os("UPDATE_DOCS").is_some() {
        source.replace_range(from..to, &table);
        fs::write(root().join(PAGE), source).expect("a page");
    } else {
        assert_eq!(&source[from..to], table, "run this test with UPDATE_DOCS=1");
    }
}

/// A code span with a dot that begins like the name of a log line must be the name of a log line, except for the names
/// of changes in the audit log.
#[test]
fn the_log_lines_that_the_page_names_exist() {
    let source = page(PAGE);
    let (before, after) = source.split_once(CHANGES).expect("a mark");
    let source = [before, after.split_once(END).expect("an end").1].concat();
    let names: BTreeSet<_> = LINES.iter().map(|line| line.name).collect();
    let subjects: BTreeSet<_> = names.iter().filter_map(|name| name.split('.').next()).collect();
    let named = source.split('`').skip(1).step_by(2).filter(|code| {
        let mut parts = code.split('.');
        let is_subject = parts.next().is_some_and(|subject| subjects.contains(subject));
        is_subject
            && parts.next().is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    });
    let unknown: BTreeSet<_> = named.filter(|name| !names.contains(name)).collect();
    assert_eq!(unknown, BTreeSet::new());
}

#[test]
fn the_alarms_are_those_of_the_template() {
    let page = page(PAGE);
    let listed: Vec<_> = rows(&page, &["alarm", "means", "what to do"])
        .into_iter()
        .flat_map(|row| codes(row[0]).into_iter().map(|(alarm, _)| format!("{alarm}Alarm")).collect::<Vec<_>>())
        .collect();
    let template = template(&LEAST);
    let alarms: BTreeSet<_> = resources(&template, "AWS::CloudWatch::Alarm").map(|(name, _)| name.to_owned()).collect();
    assert!(page.contains(&format!(" {} alarms", alarms.len())), "the cost is stated for {} alarms", alarms.len());
    assert_eq!(listed.len(), alarms.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), alarms);
}

/// CloudFormation does not notice that a restored table lacks a setting of the template.
#[test]
fn a_restored_table_gets_every_setting_of_the_template() {
    let page = page(PAGE);
    let (_, step) = page.split_once("2. Replace each damaged table").expect("a step");
    let (step, _) = step.split_once("\n3. ").expect("another step");
    for (name, table) in resources(&template(&LEAST), "AWS::DynamoDB::Table") {
        for setting in table["Properties"].as_object().expect("settings").keys() {
            let part = match setting.as_str() {
                // A restore keeps these.
                "AttributeDefinitions" | "BillingMode" | "GlobalSecondaryIndexes" | "KeySchema" => continue,
                "DeletionProtectionEnabled" => "deletion protection on again",
                "PointInTimeRecoverySpecification" => "Turn recovery",
                "SSESpecification" => "--sse-specification-override Enabled=true,SSEType=KMS",
                "TimeToLiveSpecification" => "TTL",
                other => panic!("{name}: does a restore keep {other}?"),
            };
            assert!(step.contains(part), "{name}: {part} is missing");
        }
    }
}

#[test]
fn the_metrics_are_those_of_the_functions() {
    let page = page(PAGE);
    let rows = rows(&page, &["metric", "counts"]);
    let listed: Vec<_> = rows.iter().flat_map(|row| codes(row[0])).map(|(name, _)| name).collect();
    assert_eq!(listed.len(), METRICS.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), METRICS.into());
}
