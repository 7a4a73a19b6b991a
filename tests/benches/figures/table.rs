//! The table of figures.

use serde_json::{Value, json};

/// One figure against its baseline.
pub(crate) struct Row {
    what: String,
    unit: &'static str,
    own: f64,
    baseline: f64,
    must: f64,
    aim: f64,
    at_least: bool,
    /// The figure is the difference to the baseline, not the ratio.
    difference: bool,
}

impl Row {
    /// A figure that is judged by its ratio to the baseline.
    pub(crate) fn ratio(what: &str, unit: &'static str, own: f64, baseline: f64) -> Self {
        let (must, aim) = (f64::MAX, f64::MAX);
        Self { what: what.to_owned(), unit, own, baseline, must, aim, at_least: false, difference: false }
    }

    /// A figure that is judged by how much it is above the baseline.
    pub(crate) fn above(what: &str, unit: &'static str, own: f64, baseline: f64) -> Self {
        Self { difference: true, ..Self::ratio(what, unit, own, baseline) }
    }

    /// It must be at most `must`, and aims for `aim`.
    pub(crate) fn at_most(self, must: f64, aim: f64) -> Self {
        Self { must, aim, ..self }
    }

    /// It must be at least `must`, and aims for `aim`.
    pub(crate) fn at_least(self, must: f64, aim: f64) -> Self {
        Self { must, aim, at_least: true, ..self }
    }

    fn figure(&self) -> f64 {
        if self.difference { self.own - self.baseline } else { self.own / self.baseline }
    }

    fn reaches(&self, bound: f64) -> bool {
        if self.at_least { self.figure() >= bound } else { self.figure() <= bound }
    }

    fn verdict(&self) -> &'static str {
        match (self.reaches(self.must), self.reaches(self.aim)) {
            (false, _) => "falls short",
            (true, false) => "holds",
            (true, true) => "reaches the aim",
        }
    }

    fn is_far_off(&self) -> bool {
        let bound = if self.at_least { self.must / 2.0 } else { self.must * 2.0 };
        !self.reaches(bound)
    }
}

/// All figures.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Takes a figure in, and shows it.
    pub(crate) fn push(&mut self, row: Row) {
        let sign = if row.at_least { "≥" } else { "≤" };
        println!(
            "{:<62} {:>10.3} {:>10.3} {:<6} {:>8.2}  {sign} {:<5} ({:<4}) {}",
            row.what,
            row.own,
            row.baseline,
            row.unit,
            row.figure(),
            row.must,
            row.aim,
            row.verdict()
        );
        self.rows.push(row);
    }

    /// Says what falls short.
    pub(crate) fn print(&self) {
        let short: Vec<_> =
            self.rows.iter().filter(|row| !row.reaches(row.must)).map(|row| row.what.as_str()).collect();
        let aims = self.rows.iter().filter(|row| row.reaches(row.aim)).count();
        println!("\n{} figures, {aims} reach their aim, {} fall short: {short:?}", self.rows.len(), short.len());
    }

    /// Writes `target/bench.json`.
    pub(crate) fn save(&self) {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "what": row.what, "unit": row.unit, "own": row.own, "baseline": row.baseline,
                    "figure": row.figure(), "must": row.must, "aim": row.aim, "verdict": row.verdict(),
                })
            })
            .collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
        std::fs::create_dir_all(path).expect("a target folder");
        std::fs::write(format!("{path}/bench.json"), format!("{:#}\n", Value::Array(rows))).expect("it is written");
    }

    /// Whether a figure is more than twice as bad as it may be.
    pub(crate) fn is_far_off(&self) -> bool {
        self.rows.iter().any(Row::is_far_off)
    }
}

/// The median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
