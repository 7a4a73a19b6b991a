//! Human-readable JSON: the original with line breaks and indentation. Numbers keep their digits, and strings keep
//! their escapes.

/// The maximum depth of indentation, so nested brackets cannot inflate the output.
const MAX_INDENTATION: usize = 24;

/// Puts each member and element of `text` on a separate line. Stops after about `most` bytes, and returns whether the
/// result is complete. Input that is not JSON gets misplaced line breaks, but loses only white space.
pub fn pretty(text: &str, most: usize) -> (String, bool) {
    let mut pretty = String::with_capacity(text.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if pretty.len() >= most {
            return (pretty, false);
        }
        if in_string {
            in_string = is_escaped || character != '"';
            is_escaped = !is_escaped && character == '\\';
            pretty.push(character);
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                pretty.push(character);
            }
            '{' | '[' => {
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                pretty.push(character);
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    pretty.push(end);
                } else {
                    depth = depth.saturating_add(1);
                    new_line(&mut pretty, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut pretty, depth);
                pretty.push(character);
            }
            ',' => {
                pretty.push(character);
                new_line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => pretty.push(other),
        }
    }
    (pretty, true)
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENTATION)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_changes() {
        let text = "{\"a\":[1.10 ,\"x, \\\"y\\\" {\",\n\"\\\\\"],\"b\":{ },\"c\":[],\"d\": 12345678901234567890}";
        let expected = "{\n  \"a\": [\n    1.10,\n    \"x, \\\"y\\\" {\",\n    \"\\\\\"\n  ],\n  \"b\": {},\n  \"c\": [],\n  \
                        \"d\": 12345678901234567890\n}";
        assert_eq!(pretty(text, 1000), (expected.to_owned(), true));
    }

    #[test]
    fn deep_nesting_does_not_inflate_it() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let (text, is_whole) = pretty(&deep, 10_000);
        assert!(!is_whole && text.len() < 11_000, "{}", text.len());
    }
}
