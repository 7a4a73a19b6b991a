//! What people see: tables, and texts that cannot do anything to a terminal.

use std::{
    env,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
};

use serde_json::Value;
use terminal_size::{Width, terminal_size};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The text without what a terminal obeys, or what turns the order of characters around. It is on one line.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|character| if is_inert(character) { character } else { '\u{FFFD}' }).collect()
}

fn is_inert(character: char) -> bool {
    let turns_or_hides = matches!(character,
        '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}');
    !character.is_control() && !turns_or_hides
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

/// Where something is shown, and what that understands.
pub(crate) struct Screen {
    /// How many columns it has: no end of them, unless it is a terminal.
    pub(crate) width: usize,
    has_colours: bool,
    has_links: bool,
}

impl Screen {
    /// That of standard output.
    pub(crate) fn of_output() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let width = is_terminal.then(terminal_size).flatten().map(|(Width(width), _)| usize::from(width));
        let is_dumb = env::var_os("TERM").is_some_and(|name| name == "dumb");
        let has_links = is_terminal && !is_dumb;
        let has_colours = has_links && env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        // A terminal that does not say how wide it is says 0.
        Self { width: width.filter(|width| *width > 0).unwrap_or(usize::MAX), has_colours, has_links }
    }

    #[cfg(test)]
    pub(crate) fn plain(width: usize) -> Self {
        Self { width, has_colours: false, has_links: false }
    }

    #[cfg(test)]
    pub(crate) fn styled(width: usize) -> Self {
        Self { width, has_colours: true, has_links: true }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Colour {
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// The text in a colour, where there are colours.
pub(crate) fn painted(text: &str, colour: Colour, screen: &Screen) -> String {
    match screen.has_colours {
        true => format!("\u{1b}[{}m{text}\u{1b}[0m", colour as u8),
        false => text.to_owned(),
    }
}

/// The text as a link to an address, where there are links.
pub(crate) fn linked(text: &str, address: &str, screen: &Screen) -> String {
    match screen.has_links && !address.is_empty() {
        true => format!("\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\"),
        false => text.to_owned(),
    }
}

/// The colour of a word that says how something is.
fn colour_of(state: &str) -> Option<Colour> {
    match state.split(' ').next().unwrap_or_default() {
        "delivered" | "active" => Some(Colour::Green),
        "failed" | "failing" | "disabled" => Some(Colour::Red),
        "pending" | "held" | "inactive" => Some(Colour::Yellow),
        _ => None,
    }
}

/// The columns of a table.
pub(crate) struct Columns {
    pub(crate) titles: &'static [&'static str],
    /// The column that gives way where the terminal is narrow.
    pub(crate) shrinks: usize,
    /// The column that says how something is, in colour.
    pub(crate) state: Option<usize>,
    /// Whether the last column is left out where it has no room: a part of it is of no use.
    pub(crate) can_drop: bool,
}

impl Columns {
    /// Prints rows below their titles. Returns whether all columns are there, as a whole but for the one that gives way.
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
                let colour = colour_of(cell).filter(|_| self.state == Some(number));
                line.push_str(&colour.map_or_else(|| shown.clone(), |colour| painted(&shown, colour, screen)));
                line.extend(std::iter::repeat_n(' ', (width + 2).saturating_sub(used)));
                left = left.saturating_sub(width + 2);
            }
            let _infallible = writeln!(text, "{}", line.trim_end());
        }
        (text, is_whole)
    }
}

/// How many columns a text takes.
pub(crate) fn width_of(text: &str) -> usize {
    text.width()
}

/// The beginning of a text that is too wide.
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

/// A line that fits into the terminal.
pub(crate) fn line(text: &str) -> io::Result<()> {
    say(&fit(text, Screen::of_output().width))
}

/// Prints lines. Whoever reads them may have gone.
pub(crate) fn say(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints a document for a program, on one line. If a person sees it, it does nothing to their terminal, either.
pub(crate) fn say_json(value: &Value) -> io::Result<()> {
    say(&escaped(&value.to_string()))
}

/// Prints an answer: whole for a program, and what it means for people.
pub(crate) fn tell(answer: &Value, is_json: bool, meaning: &str) -> io::Result<()> {
    if is_json { say_json(answer) } else { say(meaning) }
}

/// The same JSON, with escapes for what is not inert: only inside of strings is there any.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if is_inert(character) {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _infallible = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

/// Prints a line for people, beside what a program reads.
pub(crate) fn note(text: &str) {
    let _gone = writeln!(io::stderr().lock(), "{text}");
}

/// Prints how far something is: on a terminal, in the place of what it was before.
pub(crate) fn progress(text: &str) {
    let mut errors = io::stderr().lock();
    let _gone = match errors.is_terminal() {
        true => write!(errors, "\r\u{1b}[K{text}").and_then(|()| errors.flush()),
        false => writeln!(errors, "{text}"),
    };
}

/// Ends the line of the progress.
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
    fn what_a_terminal_would_obey_is_not_shown() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c\nd\u{9b}é"), "a\u{FFFD}[2Jb\u{FFFD}c\u{FFFD}d\u{FFFD}é");
        assert_eq!(cell(&json!(["x\r", 1, null])), "x\u{FFFD}, 1, ");
    }

    #[test]
    fn json_for_programs_is_inert_and_the_same() {
        let value = json!({"\u{202e}a": "\u{1b}[2J \u{9b}31m \u{7f} \u{e0041} é 日 \n\"\\"});
        let text = escaped(&value.to_string());
        assert!(text.chars().all(is_inert), "{text}");
        assert!(text.contains('é') && text.contains('日'));
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }

    #[test]
    fn a_narrow_table_gives_way_in_one_column_and_never_wraps() {
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
    fn colours_are_for_states_and_take_no_room() {
        let rows = [vec!["active".to_owned(), "x".to_owned(), "failing since 12:00".to_owned()]];
        let (text, _) = COLUMNS.laid_out(&rows, &Screen::styled(80));
        assert!(text.ends_with("active  x    \u{1b}[31mfailing since 12:00\u{1b}[0m\n"), "{text:?}");
    }

    #[test]
    fn a_text_that_is_too_wide_ends_with_a_mark() {
        for (text, width, fits) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本", 3, "日…"), ("日本", 2, "…"), ("a", 0, "")]
        {
            assert_eq!(fit(text, width), fits);
        }
    }
}
