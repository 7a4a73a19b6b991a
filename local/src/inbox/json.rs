//! Lays JSON out for people. Numbers and strings stay as they came, which a parser would not promise.

/// `text` with a line for each member, indented, up to some `limit` of bytes; `None` if it is not JSON.
pub(crate) fn laid_out(text: &str, limit: usize) -> Option<String> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let (mut out, mut depth, mut is_string, mut is_escape) = (String::new(), 0_usize, false, false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if out.len() >= limit {
            out.push('…');
            break;
        }
        if is_string {
            out.push(character);
            is_string = is_escape || character != '"';
            is_escape = !is_escape && character == '\\';
            continue;
        }
        match character {
            '{' | '[' => {
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                out.push(character);
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ if character.is_ascii_whitespace() => {}
            _ => {
                is_string = character == '"';
                out.push(character);
            }
        }
    }
    Some(out)
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_a_line_and_values_stay_as_they_came() {
        let text = r#"{"a":[1.0,12345678901234567890],"b":{"c":"x, \"y\": {\\"},"d":[],"e":{ }, "f" : null}"#;
        let expected = r#"{
  "a": [
    1.0,
    12345678901234567890
  ],
  "b": {
    "c": "x, \"y\": {\\"
  },
  "d": [],
  "e": {},
  "f": null
}"#;
        assert_eq!(laid_out(text, usize::MAX).as_deref(), Some(expected));
    }

    #[test]
    fn what_is_not_json_is_left_alone_and_what_is_long_is_cut() {
        assert_eq!(laid_out("{", usize::MAX), None);
        assert_eq!(laid_out("[1,2]", 4).as_deref(), Some("[\n  …"));
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(laid_out(&deep, 1000).is_some_and(|text| text.len() < 1300));
    }
}
