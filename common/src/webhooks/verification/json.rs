//! JSON as it was written: with the order of members, and the text of each string and number.

use std::{borrow::Cow, fmt::Write as _};

use serde_json::value::RawValue;

/// A JSON value with its original text.
#[derive(Debug, PartialEq)]
pub(super) enum WrittenJson<'a> {
    /// A number, `true`, `false` or `null`.
    Word(&'a str),
    /// A string, with its quotes.
    Text(&'a str),
    List(Vec<Self>),
    Object(Vec<(&'a str, Self)>),
}

/// The ways in which programs write JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) escapes: Escapes,
    pub(super) spaces: Spaces,
    pub(super) order: MemberOrder,
    /// Whether numbers are those of a double, as JavaScript writes them.
    pub(super) has_doubles: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    Kept,
    /// Only what must be escaped.
    Few,
    /// All characters beyond ASCII, as in Python.
    Ascii,
    /// Also slashes, as in PHP.
    AsciiAndSlashes,
    /// `<`, `>` and `&`, as in Go.
    Html,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spaces {
    None,
    /// One after each comma and colon, as in Python.
    Single,
    /// Lines, indented by this many spaces.
    Lines(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberOrder {
    Kept,
    Sorted,
    /// The order of a delivery's members.
    OfDeliveries,
}

/// The differences between two texts of the same value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JsonDifferences {
    pub(super) order: bool,
    pub(super) escapes: bool,
    pub(super) numbers: bool,
    pub(super) spaces: bool,
}

/// A text up to a maximum length.
struct BoundedText {
    text: String,
    most: usize,
}

impl BoundedText {
    /// Returns false if the text is too long.
    fn push(&mut self, part: &str) -> bool {
        self.text.push_str(part);
        self.text.len() <= self.most
    }

    fn begin_line(&mut self, spaces: Spaces, depth: usize) -> bool {
        if let Spaces::Lines(indentation) = spaces {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', indentation * depth));
        }
        self.text.len() <= self.most
    }
}

/// A written text may have this many times the length of the original one, and this many bytes more.
const MAX_LENGTH_FACTOR: usize = 4;
const EXTRA_BYTES: usize = 4096;
/// The members of a delivery, in their order.
const MEMBERS: [&str; 9] = [
    "\"event\"",
    "\"job_id\"",
    "\"nonce\"",
    "\"workflow\"",
    "\"deployment_id\"",
    "\"status\"",
    "\"result\"",
    "\"error\"",
    "\"mapped_stack\"",
];

impl<'a> WrittenJson<'a> {
    /// Parses a text, unless its nesting is too deep.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str::<&RawValue>(text).ok()?;
        value(&mut { text }, MAX_DEPTH)
    }

    /// Writes the value in this style, unless the text would get several times as long: an indentation can multiply it.
    pub(super) fn written(&self, style: Style, original: usize) -> Option<String> {
        let mut out = BoundedText {
            text: String::new(),
            most: original.saturating_mul(MAX_LENGTH_FACTOR).saturating_add(EXTRA_BYTES),
        };
        self.write(style, 0, &mut out).then_some(out.text)
    }

    /// Returns false once the text is too long.
    fn write(&self, style: Style, depth: usize, out: &mut BoundedText) -> bool {
        let (elements, brackets): (Vec<(Option<&str>, &Self)>, _) = match self {
            Self::Word(word) if style.has_doubles => return out.push(&double(word)),
            Self::Word(word) => return out.push(word),
            Self::Text(text) => return out.push(&string(text, style.escapes)),
            Self::List(elements) => (elements.iter().map(|element| (None, element)).collect(), ("[", "]")),
            Self::Object(members) => {
                let mut members: Vec<_> = members.iter().map(|(name, value)| (Some(*name), value)).collect();
                match style.order {
                    MemberOrder::Sorted => members.sort_by_key(|(name, _)| *name),
                    MemberOrder::OfDeliveries if depth == 0 => {
                        members.sort_by_key(|(name, _)| MEMBERS.iter().position(|own| Some(*own) == *name));
                    }
                    MemberOrder::Kept | MemberOrder::OfDeliveries => {}
                }
                (members, ("{", "}"))
            }
        };
        let (next, colon) = match style.spaces {
            Spaces::None => (",", ":"),
            Spaces::Single => (", ", ": "),
            Spaces::Lines(_) => (",", ": "),
        };
        let (mut is_short, is_empty) = (out.push(brackets.0), elements.is_empty());
        for (index, (name, value)) in elements.into_iter().enumerate() {
            is_short = is_short
                && (index == 0 || out.push(next))
                && out.begin_line(style.spaces, depth + 1)
                && name.is_none_or(|name| out.push(&string(name, style.escapes)) && out.push(colon))
                && value.write(style, depth + 1, out);
            if !is_short {
                return false;
            }
        }
        (is_empty || out.begin_line(style.spaces, depth)) && out.push(brackets.1)
    }

    /// Adds what differs from `other`. Returns false if the values differ.
    fn compare(&self, other: &Self, changes: &mut JsonDifferences) -> bool {
        match (self, other) {
            (Self::Word(one), Self::Word(two)) => {
                changes.numbers |= one != two;
                one == two || number(one).is_some_and(|one| Some(one) == number(two))
            }
            (Self::Text(one), Self::Text(two)) => same_text(one, two, changes),
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.compare(two, changes))
            }
            (Self::Object(one), Self::Object(two)) => {
                if one.len() != two.len() {
                    return false;
                }
                let mut in_order = JsonDifferences::default();
                let names = one.iter().zip(two).all(|((one, _), (two, _))| same_text(one, two, &mut in_order));
                if names {
                    changes.escapes |= in_order.escapes;
                    return one.iter().zip(two).all(|((_, one), (_, two))| one.compare(two, changes));
                }
                changes.order = true;
                let (one, two) = (sorted(one), sorted(two));
                one.iter().zip(&two).all(|((name, one), (other, two))| name == other && one.compare(two, changes))
            }
            _ => false,
        }
    }
}

/// The differences between two texts, if they are the same JSON value.
pub(super) fn changes(one: &str, two: &str) -> Option<JsonDifferences> {
    let (one_json, two_json) = (WrittenJson::parse(one)?, WrittenJson::parse(two)?);
    let mut changes = JsonDifferences::default();
    let is_same = one_json.compare(&two_json, &mut changes);
    changes.spaces = white_space(one) != white_space(two);
    is_same.then_some(changes)
}

/// The number of white space characters outside strings.
fn white_space(text: &str) -> usize {
    let (mut is_text, mut is_escaped, mut count) = (false, false, 0);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b' ' | b'\t' | b'\n' | b'\r' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

fn sorted<'a, 'b>(members: &'b [(&'a str, WrittenJson<'a>)]) -> Vec<(Cow<'a, str>, &'b WrittenJson<'a>)> {
    let mut members: Vec<_> = members.iter().map(|(name, value)| (decoded(name), value)).collect();
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    members
}

fn same_text(one: &str, two: &str, changes: &mut JsonDifferences) -> bool {
    if one == two {
        return true;
    }
    changes.escapes = true;
    decoded(one) == decoded(two)
}

/// The characters of a string with quotes. A string with half of a surrogate pair has no other form.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    match inside.contains('\\') {
        true => serde_json::from_str(text).map_or(Cow::Borrowed(text), Cow::Owned),
        false => Cow::Borrowed(inside),
    }
}

fn number(word: &str) -> Option<f64> {
    word.parse().ok().filter(|_| word.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']))
}

/// A number as JavaScript writes it. Those with an exponent are left out.
fn double(word: &str) -> Cow<'_, str> {
    match number(word).filter(|number| number.abs() < 1e21 && (*number == 0.0 || number.abs() >= 1e-6)) {
        Some(number) => Cow::Owned(if number == 0.0 { "0".to_owned() } else { number.to_string() }),
        None => Cow::Borrowed(word),
    }
}

fn string(text: &str, escapes: Escapes) -> Cow<'_, str> {
    if escapes == Escapes::Kept {
        return Cow::Borrowed(text);
    }
    let Ok(characters) = serde_json::from_str::<String>(text) else { return Cow::Borrowed(text) };
    // Only a failing writer makes this fail.
    let Ok(few) = serde_json::to_string(&characters) else { return Cow::Borrowed(text) };
    let mut written = String::with_capacity(few.len());
    for character in few.chars() {
        let is_beyond = matches!(escapes, Escapes::Ascii | Escapes::AsciiAndSlashes) && !character.is_ascii();
        if is_beyond || escapes == Escapes::Html && matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string succeeds.
                let _written = write!(written, "\\u{unit:04x}");
            }
        } else if character == '/' && escapes == Escapes::AsciiAndSlashes {
            written.push_str("\\/");
        } else {
            written.push(character);
        }
    }
    Cow::Owned(written)
}

const WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// The maximum depth of nesting, so that a text cannot exhaust the stack.
const MAX_DEPTH: usize = 100;

/// Reads a value from the start of valid JSON.
fn value<'a>(rest: &mut &'a str, depth: usize) -> Option<WrittenJson<'a>> {
    let depth = depth.checked_sub(1)?;
    *rest = rest.trim_start_matches(WHITESPACE);
    match rest.chars().next()? {
        '"' => text(rest).map(WrittenJson::Text),
        '[' => {
            let mut elements = Vec::new();
            while more(rest, ']')? {
                elements.push(value(rest, depth)?);
            }
            Some(WrittenJson::List(elements))
        }
        '{' => {
            let mut members = Vec::new();
            while more(rest, '}')? {
                *rest = rest.trim_start_matches(WHITESPACE);
                let name = text(rest)?;
                *rest = rest.trim_start_matches(WHITESPACE).strip_prefix(':')?;
                members.push((name, value(rest, depth)?));
            }
            Some(WrittenJson::Object(members))
        }
        _ => {
            let end = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
            let (word, after) = rest.split_at_checked(end)?;
            *rest = after;
            Some(WrittenJson::Word(word))
        }
    }
}

/// Skips the bracket or comma before an element. Returns false at the end.
fn more(rest: &mut &str, end: char) -> Option<bool> {
    let before = rest.trim_start_matches(WHITESPACE);
    let is_first = before.starts_with(['[', '{']);
    if let Some(after) = before.strip_prefix(end) {
        *rest = after;
        return Some(false);
    }
    *rest = before.strip_prefix(['[', '{', ','])?.trim_start_matches(WHITESPACE);
    match rest.strip_prefix(end).filter(|_| is_first) {
        Some(after) => {
            *rest = after;
            Some(false)
        }
        None => Some(true),
    }
}

fn text<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let mut is_escaped = false;
    let end = rest.bytes().enumerate().skip(1).find(|(_, byte)| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })?;
    let (text, after) = rest.split_at_checked(end.0 + 1)?;
    *rest = after;
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const AS_IS: Style =
        Style { escapes: Escapes::Kept, spaces: Spaces::None, order: MemberOrder::Kept, has_doubles: false };

    fn written(text: &str, style: Style) -> String {
        WrittenJson::parse(text).expect(text).written(style, text.len()).expect("it is short")
    }

    #[test]
    fn a_style_is_that_of_a_language() {
        let text = r#"{"b":1.0,"a":["é/<",{},[],"\u00e9"],"c":12345678901234567890,"d":1.50e1}"#;
        // Node.js 20: JSON.stringify(JSON.parse(text)).
        let node = r#"{"b":1,"a":["é/<",{},[],"é"],"c":12345678901234567000,"d":15}"#;
        let few = Style { escapes: Escapes::Few, has_doubles: true, ..AS_IS };
        assert_eq!(written(text, few), node);
        // Python 3.11: json.dumps(json.loads(text)), but with the digits of the numbers.
        let python = r#"{"b": 1.0, "a": ["\u00e9/<", {}, [], "\u00e9"], "c": 12345678901234567890, "d": 1.50e1}"#;
        let single = Style { escapes: Escapes::Ascii, spaces: Spaces::Single, ..AS_IS };
        assert_eq!(written(text, single), python);
        let php = Style { escapes: Escapes::AsciiAndSlashes, ..AS_IS };
        assert_eq!(written(r#"["é/"]"#, php), r#"["\u00e9\/"]"#);
        let go = Style { escapes: Escapes::Html, order: MemberOrder::Sorted, ..AS_IS };
        assert_eq!(written(r#"{"b":"<&","a":1}"#, go), r#"{"a":1,"b":"\u003c\u0026"}"#);
        let lines = Style { spaces: Spaces::Lines(2), ..AS_IS };
        assert_eq!(written(r#"{"a":[1,{}]}"#, lines), "{\n  \"a\": [\n    1,\n    {}\n  ]\n}");
        let own = Style { order: MemberOrder::OfDeliveries, ..AS_IS };
        let event = r#"{"status":1,"job_id":{"status":1,"event":2},"event":3}"#;
        assert_eq!(written(event, own), r#"{"event":3,"job_id":{"status":1,"event":2},"status":1}"#);
    }

    #[test]
    fn changes_are_named() {
        let all = |one: &str, two: &str| changes(one, two);
        let none = JsonDifferences::default();
        for (one, two, expected) in [
            (r#"{"a":1}"#, r#"{"a": 1}"#, Some(JsonDifferences { spaces: true, ..none })),
            (r#"["é"]"#, r#"["\u00e9"]"#, Some(JsonDifferences { escapes: true, ..none })),
            ("[1.0]", "[1]", Some(JsonDifferences { numbers: true, ..none })),
            ("[12345678901234567890]", "[12345678901234567000]", Some(JsonDifferences { numbers: true, ..none })),
            (r#"{"a":1,"b":[2]}"#, r#"{"b":[2],"a":1}"#, Some(JsonDifferences { order: true, ..none })),
            (r#"{"\u0061":1,"b":2}"#, r#"{"b":2,"a":1}"#, Some(JsonDifferences { order: true, ..none })),
            ("[1]", "[2]", None),
            ("[true]", "[false]", None),
            ("[1]", r#"["1"]"#, None),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#, None),
            ("[1]", "[1", None),
        ] {
            assert_eq!(all(one, two), expected, "{one} {two}");
        }
    }

    #[test]
    fn an_indentation_cannot_multiply_a_text() {
        let text = format!("{}1{}{}", "[".repeat(90), ",1".repeat(10_000), "]".repeat(90));
        let lines = Style { spaces: Spaces::Lines(2), ..AS_IS };
        assert_eq!(WrittenJson::parse(&text).expect("JSON").written(lines, text.len()), None);
        assert_eq!(written(&text, AS_IS), text);
    }

    #[test]
    fn deep_nesting_is_not_parsed() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(WrittenJson::parse(&deep(MAX_DEPTH)).is_some());
        assert_eq!(WrittenJson::parse(&deep(100_000)), None);
    }

    proptest! {
        #[test]
        fn every_json_is_written_as_it_was(numbers: Vec<i64>, texts in prop::collection::vec(".*", 0..4), pretty: bool) {
            let value = serde_json::json!({"n": numbers, "t": texts, "o": {"": null, "x": [[], {}, true]}});
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            prop_assert_eq!(written(&text, AS_IS), value.to_string());
            let same: Value = serde_json::from_str(&written(&text, Style { escapes: Escapes::AsciiAndSlashes, ..AS_IS })).expect("JSON");
            prop_assert_eq!(same, value);
        }

        #[test]
        fn no_text_panics(text in r#"[\[\]{}",:\\ae1 ]{0,30}"#) {
            let _parsed = WrittenJson::parse(&text);
        }
    }
}
