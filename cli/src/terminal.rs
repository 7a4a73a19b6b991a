//! Output for people: tables, and texts without terminal control sequences.

use std::{
    fmt::{Display, Write as _},
    io::{self, IsTerminal, Write},
};

use anstyle::AnsiColor;
use serde::Serialize;
use terminal_size::{Width, terminal_size};
use text::Untrusted;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Untrusted text on one line.
pub(crate) fn shown(text: &str) -> String {
    Untrusted::new(text).terminal().into_owned()
}

/// A value of an answer as a cell.
pub(crate) fn cell(value: &impl Display) -> String {
    shown(&value.to_string())
}

/// A value of an answer that may be absent as a cell.
pub(crate) fn cell_of(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| cell(&value))
}

/// The number of columns of standard output; `usize::MAX` if it is not a terminal, or one of unknown width, which reports 0.
pub(crate) fn width() -> usize {
    let width = io::stdout().is_terminal().then(terminal_size).flatten().map(|(Width(width), _)| usize::from(width));
    width.filter(|width| *width > 0).unwrap_or(usize::MAX)
}

/// The text in a color. Streams remove it if they are not terminals, or the user wants no colors.
pub(crate) fn painted(text: &str, color: AnsiColor) -> String {
    let style = color.on_default();
    format!("{style}{text}{style:#}")
}

/// The text as a link to an address, likewise.
pub(crate) fn linked(text: &str, address: &str) -> String {
    match address.is_empty() {
        true => text.to_owned(),
        false => format!("\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\"),
    }
}

/// The color of a status.
fn color_of(state: &str) -> Option<AnsiColor> {
    match state.split(' ').next().unwrap_or_default() {
        "delivered" | "active" => Some(AnsiColor::Green),
        "failed" | "failing" | "disabled" => Some(AnsiColor::Red),
        "pending" | "held" | "inactive" => Some(AnsiColor::Yellow),
        _ => None,
    }
}

/// The columns of a table.
pub(crate) struct Columns {
    pub(crate) titles: &'static [&'static str],
    /// The column that shrinks on a narrow terminal.
    pub(crate) shrinks: usize,
    /// The column of the status, which is colored.
    pub(crate) state: Option<usize>,
    /// Whether the last column is dropped if it does not fit, because a part of it would be useless.
    pub(crate) can_drop: bool,
}

impl Columns {
    /// Prints rows below their titles. Returns whether all columns are complete, except the one that shrinks.
    pub(crate) fn print(&self, rows: &[Vec<String>]) -> io::Result<bool> {
        let (text, is_whole) = self.laid_out(rows, width());
        say(text.trim_end())?;
        Ok(is_whole)
    }

    fn laid_out(&self, rows: &[Vec<String>], screen: usize) -> (String, bool) {
        let mut widths: Vec<usize> = self.titles.iter().map(|title| width_of(title)).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(width_of(cell));
            }
        }
        let sum = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2);
        let is_dropped = self.can_drop && sum(&widths) > screen;
        if is_dropped {
            widths.pop();
        }
        let all = sum(&widths);
        if let Some(column) = widths.get_mut(self.shrinks) {
            *column = column.saturating_sub(all.saturating_sub(screen)).max(8.min(*column));
        }
        let titles: Vec<_> = self.titles.iter().map(|title| (*title).to_owned()).collect();
        let (mut text, mut is_whole) = (String::new(), !is_dropped);
        for row in [&titles].into_iter().chain(rows) {
            let (mut line, mut left) = (String::new(), screen);
            for (number, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let shown = fit(cell, (*width).min(left));
                is_whole &= shown == *cell || number == self.shrinks;
                let used = width_of(&shown);
                let color = color_of(cell).filter(|_| self.state == Some(number) && !shown.is_empty());
                line.push_str(&color.map_or_else(|| shown.clone(), |color| painted(&shown, color)));
                line.extend(std::iter::repeat_n(' ', (width + 2).saturating_sub(used)));
                left = left.saturating_sub(width + 2);
            }
            let _infallible = writeln!(text, "{}", line.trim_end());
        }
        (text, is_whole)
    }
}

/// The width of a text in columns.
pub(crate) fn width_of(text: &str) -> usize {
    text.width()
}

/// The text, cut to this width with an ellipsis if it is wider.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let begins = text.chars().take_while(|character| {
        let needed = character.width().unwrap_or_default();
        left.checked_sub(needed).map(|rest| left = rest).is_some()
    });
    let mut begins: String = begins.collect();
    if width > 0 {
        begins.push('…');
    }
    begins
}

/// Prints a line, cut to the width of the terminal.
pub(crate) fn line(text: &str) -> io::Result<()> {
    say(&fit(text, width()))
}

/// Prints lines to standard output. Fails if its reader has closed the pipe.
pub(crate) fn say(text: &str) -> io::Result<()> {
    writeln!(anstream::stdout().lock(), "{text}")
}

/// Prints JSON on one line, with terminal control characters escaped.
pub(crate) fn say_json(value: &impl Serialize) -> io::Result<()> {
    say(&Untrusted::new(&serde_json::to_string(value)?).terminal_json())
}

/// The same on standard error.
pub(crate) fn note_json(value: &impl Serialize) {
    note(&Untrusted::new(&serde_json::to_string(value).unwrap_or_default()).terminal_json());
}

/// Prints an answer: as JSON for programs, and as a sentence for people.
pub(crate) fn tell(answer: &impl Serialize, is_json: bool, meaning: &str) -> io::Result<()> {
    if is_json { say_json(answer) } else { say(meaning) }
}

/// Prints a line for people to standard error.
pub(crate) fn note(text: &str) {
    let _gone = writeln!(io::stderr().lock(), "{text}");
}

/// Prints progress. On a terminal, it replaces the previous progress.
pub(crate) fn progress(text: &str) {
    let mut errors = io::stderr().lock();
    let _gone = match errors.is_terminal() {
        true => write!(errors, "\r\u{1b}[K{text}").and_then(|()| errors.flush()),
        false => writeln!(errors, "{text}"),
    };
}

/// Clears the progress.
pub(crate) fn end_progress() {
    let mut errors = io::stderr().lock();
    if errors.is_terminal() {
        let _gone = write!(errors, "\r\u{1b}[K");
    }
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use serde_json::{Value, json};

    use super::*;

    const COLUMNS: Columns = Columns { titles: &["id", "url", "state"], shrinks: 1, state: Some(2), can_drop: false };

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c\nd\u{9b}é"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}d\u{FFFD}é");
        assert_eq!(
            (cell(&"x\r"), cell_of(Some(1)), cell_of(None::<u8>)),
            ("x\u{FFFD}".to_owned(), "1".to_owned(), String::new())
        );
    }

    #[test]
    fn escaped_json_is_inert_and_equal() {
        let value = json!({"\u{202e}a": "\u{1b}[2J \u{9b}31m \u{7f} \u{e0041} é 日 \n\"\\"});
        let json = value.to_string();
        let text = Untrusted::new(&json).terminal_json();
        assert_eq!(shown(&text), text);
        assert!(text.contains('é') && text.contains('日'));
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn a_narrow_table_shrinks_one_column_and_never_wraps() {
        for address in
            ["a long address of a receiver", "日本語の受信者の長い住所です", "e\u{301}e\u{301}e\u{301} short"]
        {
            let rows = [vec!["1".to_owned(), address.to_owned(), "active".to_owned()]];
            let laid_out = |columns: &Columns, width| {
                let (text, is_whole) = columns.laid_out(&rows, width);
                (strip_str(&text).to_string(), is_whole)
            };
            let (wide, is_whole) = laid_out(&COLUMNS, usize::MAX);
            assert!(wide.contains(&format!("{address}  active")) && is_whole, "{wide}");
            for width in 1..80 {
                let (narrow, _) = laid_out(&COLUMNS, width);
                assert!(narrow.lines().all(|line| width_of(line) <= width), "{width}: {narrow}");
            }
            let (narrow, is_whole) = laid_out(&COLUMNS, 25);
            assert!(narrow.contains("active") && is_whole, "{narrow}");
            assert!(!laid_out(&COLUMNS, 15).1);
            let (dropped, is_whole) = laid_out(&Columns { can_drop: true, ..COLUMNS }, 15);
            assert!(!dropped.contains("act") && !is_whole, "{dropped}");
        }
    }

    #[test]
    fn only_states_are_colored_and_colors_have_no_width() {
        let rows = [vec!["active".to_owned(), "x".to_owned(), "failing since 12:00".to_owned()]];
        let (text, _) = COLUMNS.laid_out(&rows, 80);
        assert!(text.ends_with("active  x    \u{1b}[31mfailing since 12:00\u{1b}[0m\n"), "{text:?}");
    }

    #[test]
    fn a_text_that_is_too_wide_ends_with_an_ellipsis() {
        for (text, width, fits) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本", 3, "日…"), ("日本", 2, "…"), ("a", 0, "")]
        {
            assert_eq!(fit(text, width), fits);
        }
    }
}
