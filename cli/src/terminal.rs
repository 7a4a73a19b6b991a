//! Human-readable output that fits the terminal and contains no untrusted control sequences.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
};

use anstyle::AnsiColor;
use serde::Serialize;
use terminal_size::{Width, terminal_size};
use text::Untrusted;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Formats untrusted text on one line.
pub(crate) fn shown(text: &str) -> String {
    Untrusted::new(text).terminal().into_owned()
}

/// Formats a value from a response as a cell.
pub(crate) fn cell(value: &impl Display) -> String {
    shown(&value.to_string())
}

/// Formats an optional value from a response as a cell.
pub(crate) fn cell_of(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| cell(&value))
}

/// Returns the number of columns of standard output, or `usize::MAX` if it is not a terminal or its width is unknown.
pub(crate) fn width() -> usize {
    let width = io::stdout().is_terminal().then(terminal_size).flatten().map(|(Width(width), _)| usize::from(width));
    width.filter(|width| *width > 0).unwrap_or(usize::MAX)
}

/// Whether standard output is read by a person rather than a program.
pub(crate) fn is_for_people() -> bool {
    io::stdout().is_terminal()
}

/// Colors text. Output streams remove the color if they are not terminals or the user has disabled colors.
pub(crate) fn painted(text: &str, color: AnsiColor) -> String {
    let style = color.on_default();
    format!("{style}{text}{style:#}")
}

/// Turns text into a link. Output streams remove links in the same way as colors.
pub(crate) fn linked(text: &str, address: &str) -> String {
    match address.is_empty() {
        true => text.to_owned(),
        false => format!("\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\"),
    }
}

/// The width of text in columns.
pub(crate) fn width_of(text: &str) -> usize {
    text.width()
}

/// Truncates text to this width, with an ellipsis, if it is wider.
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

/// Shortens an id to this width, with an ellipsis in the middle, because ids often differ only at their ends.
pub(crate) fn fit_ends(id: &str, width: usize) -> String {
    if width_of(id) <= width {
        return id.to_owned();
    }
    let (mut end, mut left) = (Vec::new(), width.saturating_sub(1) / 2);
    for character in id.chars().rev() {
        let Some(rest) = left.checked_sub(character.width().unwrap_or_default()) else { break };
        left = rest;
        end.push(character);
    }
    let end: String = end.into_iter().rev().collect();
    format!("{}{end}", fit(id, width - width_of(&end)))
}

/// The maximum number of levels of indentation. JSON of a megabyte can have half a million levels.
const MAX_INDENTATION: usize = 40;

/// Indents untrusted JSON. Its tokens stay as they are, so a number keeps all its digits.
pub(crate) fn indented(json: &str) -> String {
    let (mut text, mut depth, mut is_string, mut is_escaped) = (String::new(), 0_usize, false, false);
    let mut before = ' ';
    let is_opening = |character| matches!(character, '{' | '[');
    for character in shown(json).chars() {
        if !is_string {
            if character.is_ascii_whitespace() {
                continue;
            }
            let is_closing = matches!(character, '}' | ']');
            depth = depth.saturating_sub(usize::from(is_closing));
            // An empty object or list stays on one line.
            if before == ',' || is_opening(before) != is_closing {
                text.push('\n');
                text.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENTATION)));
            }
            depth += usize::from(is_opening(character));
        }
        text.push(character);
        if !is_string && character == ':' {
            text.push(' ');
        }
        let is_quote = character == '"' && !is_escaped;
        is_escaped = is_string && character == '\\' && !is_escaped;
        is_string ^= is_quote;
        before = if is_string { '"' } else { character };
    }
    text
}

/// Prints lines to standard output. Fails if its reader has closed the pipe.
pub(crate) fn print_line(text: &str) -> io::Result<()> {
    writeln!(anstream::stdout().lock(), "{text}")
}

/// Prints JSON on one line, with terminal control characters escaped.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    print_line(&Untrusted::new(&serde_json::to_string(value)?).terminal_json())
}

/// Prints JSON like [`print_json`], to standard error.
pub(crate) fn print_note_json(value: &impl Serialize) {
    print_note(&Untrusted::new(&serde_json::to_string(value).unwrap_or_default()).terminal_json());
}

/// Prints a response: as JSON for programs, or as a sentence.
pub(crate) fn print_result(answer: &impl Serialize, is_json: bool, meaning: &str) -> io::Result<()> {
    if is_json { print_json(answer) } else { print_line(meaning) }
}

/// Prints a human-readable line to standard error.
pub(crate) fn print_note(text: &str) {
    let _gone = writeln!(io::stderr().lock(), "{text}");
}

/// Prints progress. On a terminal, this replaces the previously printed progress.
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
    use serde_json::{Value, json};

    use super::*;

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
    fn json_is_indented_without_changing_its_tokens() {
        let json = r#"{"a": 1.10e400,"b":[], "c":[{},"{\"x: \\",[ null ]],"d":{"e":true}}"#;
        let lines = [
            "{",
            "  \"a\": 1.10e400,",
            "  \"b\": [],",
            "  \"c\": [",
            "    {},",
            r#"    "{\"x: \\","#,
            "    [",
            "      null",
            "    ]",
            "  ],",
            "  \"d\": {",
            "    \"e\": true",
            "  }",
            "}",
        ];
        assert_eq!(indented(json), lines.join("\n"));
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(
            indented(&deep).len() < 3 * deep.len() * MAX_INDENTATION,
            "the text grows with the JSON, not with its square"
        );
        assert_eq!((indented("7").as_str(), indented("\u{1b}").as_str()), ("7", "\u{FFFD}"));
    }

    #[test]
    fn a_text_that_is_too_wide_ends_with_an_ellipsis() {
        for (text, width, fits) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本", 3, "日…"), ("日本", 2, "…"), ("a", 0, "")]
        {
            assert_eq!(fit(text, width), fits);
        }
    }

    #[test]
    fn an_id_that_is_too_wide_keeps_its_ends() {
        for (id, width, fits) in [
            ("job-2026-11-29-0412", 19, "job-2026-11-29-0412"),
            ("job-2026-11-29-0412", 10, "job-2…0412"),
            ("job-2026-11-29-0412", 9, "job-…0412"),
            ("abc", 2, "a…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
            ("日本語の長い", 5, "日…い"),
            ("日本語の長い", 4, "日…"),
        ] {
            assert_eq!(fit_ends(id, width), fits, "{width}");
        }
    }
}
