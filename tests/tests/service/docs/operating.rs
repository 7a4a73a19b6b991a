//! docs/operating.md names every alarm and every metric.

use std::collections::BTreeSet;

use super::{code, codes, page, rows};
use crate::template::{LEAST, METRICS, resources, template};

#[test]
fn the_alarms_are_those_of_the_template() {
    let page = page("docs/operating.md");
    let listed: Vec<_> = rows(&page, &["alarm", "means", "what to do"])
        .into_iter()
        .map(|row| format!("{}Alarm", code(row[0])))
        .collect();
    let template = template(&LEAST);
    let alarms: BTreeSet<_> = resources(&template, "AWS::CloudWatch::Alarm").map(|(name, _)| name.to_owned()).collect();
    assert!(page.contains(&format!(" {} alarms", alarms.len())), "their cost is that of {} alarms", alarms.len());
    assert_eq!(listed.len(), alarms.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), alarms);
}

#[test]
fn the_metrics_are_those_of_the_functions() {
    let page = page("docs/operating.md");
    let rows = rows(&page, &["metric", "counts"]);
    let listed: Vec<_> = rows.iter().flat_map(|row| codes(row[0])).map(|(name, _)| name).collect();
    assert_eq!(listed.len(), METRICS.len());
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), METRICS.into());
}
