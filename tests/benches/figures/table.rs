//! The table of figures.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The bound of a figure.
#[derive(Clone, Copy)]
enum Judged {
    /// A ratio to this baseline.
    Against(f64),
    /// A difference from this baseline.
    Above(f64),
    /// The value itself.
    Alone,
}

impl Judged {
    fn baseline(self) -> Option<f64> {
        match self {
            Self::Against(baseline) | Self::Above(baseline) => Some(baseline),
            Self::Alone => None,
        }
    }
}

/// One figure, usually with its baseline.
pub(crate) struct Row {
    what: String,
    /// A group's rows are combined into one row on the page, with ranges.
    group: Option<&'static str>,
    unit: &'static str,
    own: f64,
    judged: Judged,
    must: f64,
    aim: f64,
    at_least: bool,
}

impl Row {
    /// A figure judged by its ratio to the baseline. Without a bound, it is only reported.
    pub(crate) fn ratio(what: &str, unit: &'static str, own: f64, baseline: f64) -> Self {
        Self { judged: Judged::Against(baseline), ..Self::alone(what, unit, own) }
    }

    /// A figure judged by its difference from the baseline.
    pub(crate) fn above(what: &str, unit: &'static str, own: f64, baseline: f64) -> Self {
        Self { judged: Judged::Above(baseline), ..Self::alone(what, unit, own) }
    }

    /// A figure without a baseline.
    pub(crate) fn alone(what: &str, unit: &'static str, own: f64) -> Self {
        let (must, aim) = (f64::INFINITY, f64::INFINITY);
        Self { what: what.to_owned(), group: None, unit, own, judged: Judged::Alone, must, aim, at_least: false }
    }

    /// Adds the figure to the ranges of this group on the page. All figures in a group have the same unit and bounds.
    pub(crate) fn within(self, group: &'static str) -> Self {
        Self { group: Some(group), ..self }
    }

    /// The figure must be at most `must`, and should be at most `aim`.
    pub(crate) fn at_most(self, must: f64, aim: f64) -> Self {
        Self { must, aim, ..self }
    }

    /// The figure must be at least `must`, and should be at least `aim`.
    pub(crate) fn at_least(self, must: f64, aim: f64) -> Self {
        Self { must, aim, at_least: true, ..self }
    }

    fn figure(&self) -> f64 {
        match self.judged {
            Judged::Against(baseline) => self.own / baseline,
            Judged::Above(baseline) => self.own - baseline,
            Judged::Alone => self.own,
        }
    }

    fn reaches(&self, bound: f64) -> bool {
        if self.at_least { self.figure() >= bound } else { self.figure() <= bound }
    }

    fn verdict(&self) -> &'static str {
        match (self.reaches(self.must), self.reaches(self.aim)) {
            _ if self.must.is_infinite() => "no bound",
            (false, _) => "falls short",
            (true, false) => "meets the bound",
            (true, true) => "reaches the aim",
        }
    }

    /// Whether the figure is more than twice as bad as its bound.
    fn is_far_off(&self) -> bool {
        !self.reaches(if self.at_least { self.must / 2.0 } else { self.must * 2.0 })
    }
}

/// All figures.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a figure and prints it.
    pub(crate) fn push(&mut self, row: Row) {
        let sign = if row.at_least { "≥ " } else { "≤ " };
        println!(
            "{:<62} {:>10.3} {:>10} {:<6} {:>8.2}  {:<6} {:<6} {}",
            row.what,
            row.own,
            row.judged.baseline().map(|baseline| format!("{baseline:.3}")).unwrap_or_default(),
            row.unit,
            row.figure(),
            bound(sign, row.must),
            bound(sign, row.aim),
            row.verdict()
        );
        self.rows.push(row);
    }

    /// The table for `docs/performance.md`. `bench.json` contains the individual rows of each group.
    pub(crate) fn markdown(&self) -> String {
        let mut text = "| figure | ours | baseline | result | must | aim |\n|---|---|---|---|---|---|\n".to_owned();
        let mut groups = BTreeSet::new();
        for row in &self.rows {
            let rows: Vec<&Row> = match row.group {
                Some(group) if !groups.insert(group) => continue,
                Some(group) => self.rows.iter().filter(|other| other.group == Some(group)).collect(),
                None => vec![row],
            };
            let what = row.group.map_or_else(|| row.what.clone(), |group| format!("{group} ({})", rows.len()));
            let sign = if row.at_least { "≥ " } else { "" };
            let sort = match row.judged {
                Judged::Against(_) => "x ",
                Judged::Above(_) => "+ ",
                Judged::Alone => "",
            };
            let result = range(rows.iter().map(|row| row.figure()), |figure| match row.judged {
                Judged::Alone => digits(figure),
                Judged::Against(_) | Judged::Above(_) => format!("{figure:.2}"),
            });
            let result = if rows.iter().all(|row| row.reaches(row.must)) { result } else { format!("**{result}**") };
            let unit = row.unit;
            let baselines: Vec<_> = rows.iter().filter_map(|row| row.judged.baseline()).collect();
            let baseline = if baselines.is_empty() {
                String::new()
            } else {
                format!("{} {unit}", range(baselines.into_iter(), digits))
            };
            text += &format!(
                "| {what} | {} {unit} | {baseline} | {sort}{result} | {} | {} |\n",
                range(rows.iter().map(|row| row.own), digits),
                bound(sign, row.must),
                bound(sign, row.aim)
            );
        }
        text
    }

    /// Prints a summary with the figures that miss their bounds.
    pub(crate) fn print(&self) {
        let short: Vec<_> =
            self.rows.iter().filter(|row| !row.reaches(row.must)).map(|row| row.what.as_str()).collect();
        let judged = self.rows.iter().filter(|row| row.must.is_finite());
        let aims = judged.clone().filter(|row| row.reaches(row.aim)).count();
        println!("\n{} figures, {aims} reach their aim, {} fall short: {short:?}", judged.count(), short.len());
    }

    /// Writes `target/bench.json`.
    pub(crate) fn save(&self) {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "what": row.what, "unit": row.unit, "own": row.own, "baseline": row.judged.baseline(),
                    "figure": row.figure(), "must": row.must, "aim": row.aim, "verdict": row.verdict(),
                })
            })
            .collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
        std::fs::create_dir_all(path).expect("a target folder");
        std::fs::write(format!("{path}/bench.json"), format!("{:#}\n", Value::Array(rows)))
            .expect("the write succeeds");
    }

    /// Whether a figure misses its bound by a wide margin.
    pub(crate) fn is_far_off(&self) -> bool {
        self.rows.iter().any(Row::is_far_off)
    }
}

/// The smallest and the largest value, or only one of them if both are formatted alike.
fn range(values: impl Iterator<Item = f64> + Clone, text: impl Fn(f64) -> String) -> String {
    let least = text(values.clone().fold(f64::INFINITY, f64::min));
    let greatest = text(values.fold(f64::NEG_INFINITY, f64::max));
    if least == greatest { least } else { format!("{least} to {greatest}") }
}

fn bound(sign: &str, value: f64) -> String {
    if value.is_finite() { format!("{sign}{value}") } else { String::new() }
}

/// Formats a value with three significant digits.
fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// The median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
