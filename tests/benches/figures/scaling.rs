//! Capacity planning for `docs/performance.md`: what each event rate requires, computed from the cost of one event and
//! compared with AWS's and the template's limits.

use std::fmt::Write;

use serde_json::Value;

use crate::{cost::Way, page};

/// Event rates, with their names.
const RATES: [(&str, f64); 5] = [
    ("1 a second", 1.0),
    ("100 a second", 100.0),
    ("1,000 a second", 1e3),
    ("100 million a day", 1e8 / DAY),
    ("10,000 a second", 1e4),
];
const DAY: f64 = 86_400.0;

/// The default concurrency of an account (<https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>).
const CONCURRENCY: f64 = 1_000.0;
/// The writes per second for a new on-demand table, and a table's default limit
/// (<https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html>).
const WRITES_OF_A_NEW_TABLE: f64 = 4_000.0;
const WRITES_OF_A_TABLE: f64 = 40_000.0;
/// A partition's writes and reads per second.
const WRITES_OF_A_PARTITION: f64 = 1_000.0;
/// A queue's messages in flight
/// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>).
const IN_FLIGHT: f64 = 120_000.0;

/// Writes the table. `well` describes an event that is delivered at once, in full batches and as a single message;
/// `failing` describes an event that fails every time, in full batches.
pub(crate) fn write([batched, single]: [&Way; 2], failing: &Way, template: &Value) {
    let events = &template["Resources"]["WebhooksDeliverFunction"]["Properties"]["Events"];
    let at_once = |event: &str| {
        let most = &events[event]["Properties"]["ScalingConfig"]["MaximumConcurrency"];
        most.as_f64().expect("a maximum")
    };
    let mapping = at_once("JobEvents");
    let mut text = "| events, each to one endpoint that takes 0.2 s |".to_owned();
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(f64) -> String| {
        rows.push((name.to_owned(), RATES.iter().map(|(_, rate)| of(*rate)).collect()));
    };
    row("invocations a second, full batches", &|rate| number(rate * batched.invocations()));
    row("concurrent invocations, full batches", &|rate| number(rate * batched.busy()));
    row("concurrent invocations, single messages", &|rate| number(rate * single.busy()));
    row("messages in flight in `job-events`", &|rate| number(rate * batched.in_flight()));
    row("read units a second", &|rate| number(rate * batched.reads()));
    row("write units a second", &|rate| number(rate * batched.writes()));
    row("partitions of the log, at least", &|rate| number((rate * batched.writes() / WRITES_OF_A_PARTITION).ceil()));
    row("concurrent invocations, if all receivers fail for days", &|rate| number(rate * failing.busy()));
    row("write units a second, if all receivers fail for days", &|rate| number(rate * failing.writes()));
    let dollars = |way: &Way, rate: f64, days: f64| rate * DAY * days / 1e6 * way.together();
    row("dollars a day", &|rate| number(dollars(batched, rate, 1.0)));
    row("dollars in 30 days", &|rate| number(dollars(batched, rate, 30.0)));
    row("dollars in 30 days, single messages", &|rate| number(dollars(single, rate, 30.0)));
    row("dollars in 30 days, if all receivers fail for days", &|rate| number(dollars(failing, rate, 30.0)));
    row("**first limit**", &|rate| {
        let limits = [
            (format!("`MaximumConcurrency` of the template, {mapping}"), rate * batched.busy() / mapping),
            ("concurrency of the account".to_owned(), rate * batched.busy() / CONCURRENCY),
            ("writes of a new table".to_owned(), rate * batched.writes() / WRITES_OF_A_NEW_TABLE),
            ("writes of a table".to_owned(), rate * batched.writes() / WRITES_OF_A_TABLE),
            ("messages in flight".to_owned(), rate * batched.in_flight() / IN_FLIGHT),
        ];
        let (name, used) = limits.into_iter().max_by(|one, other| one.1.total_cmp(&other.1)).expect("a limit");
        format!("{name}: {:.0}% used", used * 100.0)
    });
    for (name, _) in RATES {
        write!(text, " {name} |").expect("a write to a string succeeds");
    }
    text += "\n|---|---|---|---|---|---|\n";
    for (name, figures) in rows {
        writeln!(text, "| {name} | {} |", figures.join(" | ")).expect("a write to a string succeeds");
    }
    page::put("performance.md", "the rates", &text);
}

/// Formats a number with at most three significant digits.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
