//! What people see: tables, and texts that cannot do anything to a terminal.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use serde_json::Value;
use terminal_size::{Width, terminal_size};

/// The text without what a terminal obeys, or what turns the order of characters around. It is on one line.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|character| if is_inert(character) { character } else { '\u{FFFD}' }).collect()
}

fn is_inert(character: char) -> bool {
    let turns = matches!(character,
        '\u{61C}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}');
    !character.is_control() && !turns
}

/// What a member of an answer says, as one cell.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => shown(text),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => shown(&other.to_string()),
    }
}

/// Prints rows below their titles. The column `shrinks` gives way where the terminal is narrow.
pub(crate) fn table(titles: &[&str], rows: &[Vec<String>], shrinks: usize) -> io::Result<()> {
    let width = io::stdout().is_terminal().then(terminal_size).flatten().map(|(Width(width), _)| usize::from(width));
    say(laid_out(titles, rows, shrinks, width).trim_end())
}

fn laid_out(titles: &[&str], rows: &[Vec<String>], shrinks: usize, width: Option<usize>) -> String {
    let mut widths: Vec<usize> = titles.iter().map(|title| title.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let all: usize = widths.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2);
    if let (Some(column), Some(width)) = (widths.get_mut(shrinks), width) {
        *column = column.saturating_sub(all.saturating_sub(width)).max(8);
    }
    let mut text = String::new();
    let titles: Vec<_> = titles.iter().map(|title| (*title).to_owned()).collect();
    for row in [&titles].into_iter().chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _infallible = write!(line, "{:width$}  ", fit(cell, *width));
        }
        // A terminal would wrap what is longer.
        let line = fit(line.trim_end(), width.unwrap_or(usize::MAX));
        let _infallible = writeln!(text, "{line}");
    }
    text
}

/// The beginning of a text that is too long.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A line that fits into the terminal.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let width = io::stdout().is_terminal().then(terminal_size).flatten().map(|(Width(width), _)| usize::from(width));
    say(&fit(text, width.unwrap_or(usize::MAX)))
}

/// Prints lines. Whoever reads them may have gone.
pub(crate) fn say(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints a line for people, beside what a program reads.
pub(crate) fn note(text: &str) {
    let _gone = writeln!(io::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c\nd\u{9b}é"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}d\u{FFFD}é");
        assert_eq!(cell(&serde_json::json!(["x\r", 1, null])), "x\u{FFFD}, 1, ");
    }

    #[test]
    fn a_narrow_table_gives_way_in_one_column_and_never_wraps() {
        let rows = [vec!["1".to_owned(), "a long address of a receiver".to_owned(), "ok".to_owned()]];
        let wide = laid_out(&["id", "url", "state"], &rows, 1, None);
        assert!(wide.contains("a long address of a receiver  ok"), "{wide}");
        for width in [0, 1, 10, 20, 30, 80] {
            let narrow = laid_out(&["id", "url", "state"], &rows, 1, Some(width));
            assert!(narrow.lines().all(|line| line.chars().count() <= width.max(1)), "{width}: {narrow}");
        }
        assert!(laid_out(&["id", "url", "state"], &rows, 1, Some(30)).contains("ok"));
    }
}
