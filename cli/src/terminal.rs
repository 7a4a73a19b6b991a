//! Output for people: tables, and texts without terminal control sequences.

use std::{
    env,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use serde_json::Value;
use terminal_size::{Width, terminal_size};
use text::Untrusted;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Untrusted text on one line.
pub(crate) fn shown(text: &str) -> String {
    Untrusted::new(text).terminal().into_owned()
}

/// A value of an answer as a cell.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => shown(text),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => shown(&other.to_string()),
    }
}

/// The width and the abilities of the terminal.
pub(crate) struct Screen {
    /// The number of columns; `usize::MAX` if the output is not a terminal.
    pub(crate) width: usize,
    has_colors: bool,
    has_links: bool,
}

impl Screen {
    /// The screen of standard output.
    pub(crate) fn of_output() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let width = is_terminal.then(terminal_size).flatten().map(|(Width(width), _)| usize::from(width));
        let is_dumb = env::var_os("TERM").is_some_and(|name| name == "dumb");
        let has_links = is_terminal && !is_dumb;
        let has_colors = has_links && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        // A terminal of unknown width reports 0.
        Self { width: width.filter(|width| *width > 0).unwrap_or(usize::MAX), has_colors, has_links }
    }

    #[cfg(test)]
    pub(crate) fn plain(width: usize) -> Self {
        Self { width, has_colors: false, has_links: false }
    }

    #[cfg(test)]
    pub(crate) fn styled(width: usize) -> Self {
        Self { width, has_colors: true, has_links: true }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Color {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// The text in a color, if the terminal has colors.
pub(crate) fn painted(text: &str, color: Color, screen: &Screen) -> String {
    match screen.has_colors {
        true => format!("\u{1b}[{}m{text}\u{1b}[0m", color as u8),
        false => text.to_owned(),
    }
}

/// The text as a link to an address, if the terminal has links.
pub(crate) fn linked(text: &str, address: &str, screen: &Screen) -> String {
    match screen.has_links && !address.is_empty() {
        true => format!("\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\"),
        false => text.to_owned(),
    }
}

/// The color of a status.
fn color_of(state: &str) -> Option<Color> {
    match state.split(' ').next().unwrap_or_default() {
        "delivered" | "active" => Some(Color::Green),
        "failed" | "failing" | "disabled" => Some(Color::Red),
        "pending" | "held" | "inactive" => Some(Color::Yellow),
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
        let (text, is_whole) = self.laid_out(rows, &Screen::of_output());
        say(text.trim_end())?;
        Ok(is_whole)
    }

    fn laid_out(&self, rows: &[Vec<String>], screen: &Screen) -> (String, bool) {
        let mut widths: Vec<usize> = self.titles.iter().map(|title| width_of(title)).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(width_of(cell));
            }
        }
        let sum = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>().saturating_sub(2);
        let is_dropped = self.can_drop && sum(&widths) > screen.width;
        if is_dropped {
            widths.pop();
        }
        let all = sum(&widths);
        if let Some(column) = widths.get_mut(self.shrinks) {
            *column = column.saturating_sub(all.saturating_sub(screen.width)).max(8.min(*column));
        }
        let titles: Vec<_> = self.titles.iter().map(|title| (*title).to_owned()).collect();
        let (mut text, mut is_whole) = (String::new(), !is_dropped);
        for row in [&titles].into_iter().chain(rows) {
            let (mut line, mut left) = (String::new(), screen.width);
            for (number, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let shown = fit(cell, (*width).min(left));
                is_whole &= shown == *cell || number == self.shrinks;
                let used = width_of(&shown);
                let color = color_of(cell).filter(|_| self.state == Some(number));
                line.push_str(&color.map_or_else(|| shown.clone(), |color| painted(&shown, color, screen)));
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
    say(&fit(text, Screen::of_output().width))
}

/// Prints lines to standard output. Fails if its reader has closed the pipe.
pub(crate) fn say(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints JSON on one line, with terminal control characters escaped.
pub(crate) fn say_json(value: &Value) -> io::Result<()> {
    say(&Untrusted::new(&value.to_string()).terminal_json())
}

/// Prints an answer: as JSON for programs, and as a sentence for people.
pub(crate) fn tell(answer: &Value, is_json: bool, meaning: &str) -> io::Result<()> {
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
    use serde_json::json;

    use super::*;

    const COLUMNS: Columns = Columns { titles: &["id", "url", "state"], shrinks: 1, state: Some(2), can_drop: false };

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c\nd\u{9b}é"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}d\u{FFFD}é");
        assert_eq!(cell(&json!(["x\r", 1, null])), "x\u{FFFD}, 1, ");
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
            let (wide, is_whole) = COLUMNS.laid_out(&rows, &Screen::plain(usize::MAX));
            assert!(wide.contains(&format!("{address}  active")) && is_whole, "{wide}");
            for width in 1..80 {
                let (narrow, _) = COLUMNS.laid_out(&rows, &Screen::plain(width));
                assert!(narrow.lines().all(|line| width_of(line) <= width), "{width}: {narrow}");
            }
            let (narrow, is_whole) = COLUMNS.laid_out(&rows, &Screen::plain(25));
            assert!(narrow.contains("active") && is_whole, "{narrow}");
            assert!(!COLUMNS.laid_out(&rows, &Screen::plain(15)).1);
            let (dropped, is_whole) = Columns { can_drop: true, ..COLUMNS }.laid_out(&rows, &Screen::plain(15));
            assert!(!dropped.contains("act") && !is_whole, "{dropped}");
        }
    }

    #[test]
    fn only_states_are_colored_and_colors_have_no_width() {
        let rows = [vec!["active".to_owned(), "x".to_owned(), "failing since 12:00".to_owned()]];
        let (text, _) = COLUMNS.laid_out(&rows, &Screen::styled(80));
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
