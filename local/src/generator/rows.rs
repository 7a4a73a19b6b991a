//! Reads the rows in `template/`, with the comments above them.

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::template::parse;

/// Reads the rows in the list `section` of `source`, a YAML file.
pub(super) fn read<T: DeserializeOwned>(source: &str, section: &str) -> Result<Vec<T>> {
    let mut sections = parse(source)?;
    let rows = sections.get_mut(section).map(Value::take).with_context(|| section.to_owned())?;
    let rows = rows.as_array().with_context(|| section.to_owned())?;
    rows.iter().map(|row| serde_json::from_value(row.clone()).with_context(|| row.to_string())).collect()
}

/// Returns the comment directly above the row that begins with `- KIND: NAME`.
pub(super) fn comment(source: &str, kind: &str, name: &str) -> String {
    let first = format!("- {kind}: {name}");
    let lines: Vec<_> = source.lines().map(str::trim).take_while(|line| **line != first).collect();
    let above = lines.rsplit(|line| !line.starts_with('#')).next().unwrap_or_default();
    above.iter().flat_map(|line| [*line, "\n"]).collect()
}
