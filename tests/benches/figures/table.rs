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
    /// What it is known to be where that falls short.
    known: Option<f64>,
    /// The figure is the difference to the baseline, not the ratio.
    difference: bool,
}

impl Row {
    /// A figure that is judged by its ratio to the baseline. Without a bound it is only told.
    pub(crate) fn ratio(what: &str, unit: &'static str, own: f64, baseline: f64) -> Self {
        let (must, aim) = (f64::INFINITY, f64::INFINITY);
        Self { what: what.to_owned(), unit, own, baseline, must, aim, at_least: false, known: None, difference: false }
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

    /// It falls short, and was this much when somebody last looked.
    pub(crate) fn known(self, figure: f64) -> Self {
        Self { known: Some(figure), ..self }
    }

    fn figure(&self) -> f64 {
        if self.difference { self.own - self.baseline } else { self.own / self.baseline }
    }

    fn reaches(&self, bound: f64) -> bool {
        if self.at_least { self.figure() >= bound } else { self.figure() <= bound }
    }

    fn verdict(&self) -> &'static str {
        match (self.reaches(self.must), self.reaches(self.aim)) {
            _ if self.must.is_infinite() => "told",
            (false, _) => "falls short",
            (true, false) => "holds",
            (true, true) => "reaches the aim",
        }
    }

    /// Whether it is more than twice as bad as it must be, or is known to be.
    fn is_far_off(&self) -> bool {
        let expected = self.known.unwrap_or(self.must);
        !self.reaches(if self.at_least { expected / 2.0 } else { expected * 2.0 })
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
        let sign = if row.at_least { "≥ " } else { "≤ " };
        println!(
            "{:<62} {:>10.3} {:>10.3} {:<6} {:>8.2}  {:<6} {:<6} {}",
            row.what,
            row.own,
            row.baseline,
            row.unit,
            row.figure(),
            bound(sign, row.must),
            bound(sign, row.aim),
            row.verdict()
        );
        self.rows.push(row);
    }

    /// For `docs/benchmarks.md`: what was measured, against its baseline.
    pub(crate) fn markdown(&self) -> String {
        let mut text = "| what | ours | baseline | figure | must | aim |\n|---|---|---|---|---|---|\n".to_owned();
        for row in &self.rows {
            let sign = if row.at_least { "≥ " } else { "" };
            let times = if row.difference { "+ " } else { "x " };
            let (what, unit, figure) = (&row.what, row.unit, row.figure());
            let figure = if row.reaches(row.must) { format!("{figure:.2}") } else { format!("**{figure:.2}**") };
            text += &format!(
                "| {what} | {} {unit} | {} {unit} | {times}{figure} | {} | {} |\n",
                digits(row.own),
                digits(row.baseline),
                bound(sign, row.must),
                bound(sign, row.aim)
            );
        }
        text
    }

    /// Says what falls short.
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
                    "what": row.what, "unit": row.unit, "own": row.own, "baseline": row.baseline,
                    "figure": row.figure(), "must": row.must, "aim": row.aim, "verdict": row.verdict(),
                })
            })
            .collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../target");
        std::fs::create_dir_all(path).expect("a target folder");
        std::fs::write(format!("{path}/bench.json"), format!("{:#}\n", Value::Array(rows))).expect("it is written");
    }

    /// Whether a figure is far off.
    pub(crate) fn is_far_off(&self) -> bool {
        self.rows.iter().any(Row::is_far_off)
    }
}

fn bound(sign: &str, value: f64) -> String {
    if value.is_finite() { format!("{sign}{value}") } else { String::new() }
}

/// Three digits that count.
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
