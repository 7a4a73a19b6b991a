//! Reads the parts of untrusted JSON that an input's fields need.
//!
//! This module does not use `serde_json::Value`. With the feature `raw_value`, that type parses a string again if it is
//! in an object with serde_json's marker for raw values, and such strings can be nested until the stack overflows.
//! Values that a field may need are read up to three levels deep, and all others are skipped.

use std::collections::HashMap;

use api::MAX_ELEMENTS;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::value::RawValue;

use crate::json_members::JsonMembers;

/// A JSON value. Serialized only for hashing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Text(String),
    /// A string that is not valid Unicode, because it has an unpaired surrogate.
    Garbled,
    /// A whole number, including `2.0` and `2e0`. Numbers out of range become the minimum or maximum of `i64`.
    Number(i64),
    /// An array. Its objects are read, and nested arrays are [`Json::Other`]. At most [`MAX_ELEMENTS`] + 1 elements are
    /// kept, enough to detect an array that is too long.
    List(Vec<Json>),
    /// The members of an object, with duplicates, sorted by name. Nested arrays and objects are [`Json::Other`]. At
    /// most [`MAX_ELEMENTS`] + 1 members are kept, enough to detect an object that is too large.
    Members(Vec<(String, Json)>),
    /// A fraction, or an array or object that is nested too deeply to be read.
    Other,
}

/// The members of an object.
pub(super) type Object = HashMap<String, Json>;

/// A request body, which should be a JSON object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Document {
    Null,
    Object(Object),
    Other,
}

/// `{"json": ...}`. Other members are ignored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope(pub(super) Document);

/// The container of a value, which limits the recursion so that deep nesting cannot exhaust the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Array,
    Object,
}

impl Json {
    /// Reads a value whose syntax has been checked.
    fn read(value: &RawValue, inside: Inside) -> Self {
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't') => Self::Bool(true),
            Some(b'f') => Self::Bool(false),
            Some(b'"') => serde_json::from_str(text).map_or(Self::Garbled, Self::Text),
            Some(b'[') if inside == Inside::Nothing => {
                let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                let kept = elements.into_iter().take(MAX_ELEMENTS + 1);
                Self::List(kept.map(|element| Self::read(element, Inside::Array)).collect())
            }
            Some(b'{') if inside != Inside::Object => {
                let kept = members(value).into_iter().take(MAX_ELEMENTS + 1);
                let mut kept: Vec<_> = kept.map(|(name, value)| (name, Self::read(value, Inside::Object))).collect();
                kept.sort_by(|(one, _), (other, _)| one.cmp(other));
                Self::Members(kept)
            }
            Some(b'[' | b'{') | None => Self::Other,
            Some(_) => number(text),
        }
    }
}

/// Parses a number. Numbers out of range saturate.
fn number(text: &str) -> Json {
    match (text.parse(), text.parse::<f64>()) {
        (Ok(number), _) => Json::Number(number),
        (_, Ok(number)) if number.is_infinite() || number.fract() == 0.0 => Json::Number(number as i64),
        _ => Json::Other,
    }
}

fn members(object: &RawValue) -> Vec<(String, &RawValue)> {
    serde_json::from_str(object.get()).map_or_else(|_not_an_object| Vec::new(), |JsonMembers(members)| members)
}

impl Document {
    fn read(value: &RawValue) -> Self {
        match value.get().as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b'{') => Self::Object(
                members(value).into_iter().map(|(name, value)| (name, Json::read(value, Inside::Nothing))).collect(),
            ),
            _ => Self::Other,
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::read(<&RawValue>::deserialize(deserializer)?))
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let JsonMembers(members) = JsonMembers::deserialize(deserializer)?;
        match members.iter().rev().find(|(name, _)| name == "json") {
            Some((_, value)) => Ok(Self(Document::read(value))),
            // Ignoring fields outside of the envelope would hide the sender's mistake.
            None if members.iter().any(|(name, _)| name != "meta") => Err(D::Error::custom("the envelope is missing")),
            None => Ok(Self(Document::Null)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(text: &str) -> Object {
        match serde_json::from_str(text).expect(text) {
            Document::Object(object) => object,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn unknown_members_are_skipped() {
        let object = object(r#"{"a":null,"b":true,"c":"x\n","d":1.5,"e":[{"f":[]}],"g":{"h":-7},"i":-7,"c":"last"}"#);
        assert_eq!(object["a"], Json::Null);
        assert_eq!(object["b"], Json::Bool(true));
        assert_eq!(object["c"], Json::Text("last".to_owned()));
        assert_eq!(object["i"], Json::Number(-7));
        assert_eq!(object["e"], Json::List(vec![Json::Members(vec![("f".to_owned(), Json::Other)])]));
        assert_eq!(object["d"], Json::Other);
        assert_eq!(object["g"], Json::Members(vec![("h".to_owned(), Json::Number(-7))]));
    }

    #[test]
    fn members_of_an_object_are_read_and_nested_ones_skipped() {
        let text = r#"{"a":{"y":{"z":1},"x":[],"b":"last","b":null,"x":true},"c":{}}"#;
        let members = [
            ("b", Json::Text("last".to_owned())),
            ("b", Json::Null),
            ("x", Json::Other),
            ("x", Json::Bool(true)),
            ("y", Json::Other),
        ];
        assert_eq!(object(text)["a"], Json::Members(members.map(|(name, value)| (name.to_owned(), value)).into()));
        assert_eq!(object(text)["c"], Json::Members(vec![]));
        let many: Vec<_> = (0..5_000).map(|number| format!("\"{number}\":1")).collect();
        let many = format!(r#"{{"a":{{{}}},"b":true}}"#, many.join(","));
        let Json::Members(kept) = &object(&many)["a"] else { unreachable!("an object") };
        assert_eq!(kept.len(), MAX_ELEMENTS + 1);
        assert_eq!(object(&many)["b"], Json::Bool(true));
    }

    #[test]
    fn elements_of_an_array_and_members_of_its_objects_are_read() {
        let text = r#"{"a":["x",null,[["y"]],{"z":["x"],"u":{"v":1},"w":true},7],"b":[]}"#;
        let (x, seven) = (Json::Text("x".to_owned()), Json::Number(7));
        let members = [("u", Json::Other), ("w", Json::Bool(true)), ("z", Json::Other)];
        let members = Json::Members(members.map(|(name, value)| (name.to_owned(), value)).into());
        assert_eq!(object(text)["a"], Json::List(vec![x, Json::Null, Json::Other, members, seven]));
        assert_eq!(object(text)["b"], Json::List(vec![]));
        let many = format!(r#"{{"a":[{}1],"b":true}}"#, "1,".repeat(5_000));
        let Json::List(kept) = &object(&many)["a"] else { unreachable!("an array") };
        assert_eq!(kept.len(), MAX_ELEMENTS + 1);
        assert_eq!(object(&many)["b"], Json::Bool(true));
    }

    /// The same rule as in JSON Schema.
    #[test]
    fn a_whole_number_may_be_written_as_a_fraction() {
        for (text, number) in
            [("2.0", 2), ("1e1", 10), ("12.5e1", 125), ("-3.00", -3), ("-0.0", 0), ("9e9", 9_000_000_000)]
        {
            assert_eq!(object(&format!(r#"{{"a":{text}}}"#))["a"], Json::Number(number), "{text}");
        }
        for text in ["2.5", "1e-1", "-0.5"] {
            assert_eq!(object(&format!(r#"{{"a":{text}}}"#))["a"], Json::Other, "{text}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_the_largest() {
        for text in ["18446744073709551615", "18446744073709551616", "9223372036854775808.0", "1e300", "1e400"] {
            assert_eq!(object(&format!(r#"{{"a":{text}}}"#))["a"], Json::Number(i64::MAX), "{text}");
        }
        for text in ["-1e300", "-1e400", "-9223372036854775809"] {
            assert_eq!(object(&format!(r#"{{"a":{text}}}"#))["a"], Json::Number(i64::MIN), "{text}");
        }
    }

    /// Unknown members only need to be valid JSON.
    #[test]
    fn half_a_surrogate_pair_and_any_number_are_json() {
        for value in [r#""\ud800""#, r#"["\udc00\ud800"]"#, r#"{"\ud800":{"a":1e999}}"#, "-1e400", r#"[[1e400]]"#] {
            for text in [
                format!(r#"{{"json":{{"a":true,"unknown":{value}}}}}"#),
                format!(r#"{{"json":{{"a":true}},"meta":{value}}}"#),
                format!(r#"{{"\ud800":1,"json":{{"\udfff":{value},"a":true}}}}"#),
            ] {
                let Envelope(Document::Object(object)) = serde_json::from_str(&text).expect(&text) else {
                    unreachable!("an object: {text}")
                };
                assert_eq!(object["a"], Json::Bool(true), "{text}");
            }
            let envelope = serde_json::from_str::<Envelope>(&format!(r#"{{"json":{value}}}"#)).expect(value);
            assert_eq!(matches!(envelope, Envelope(Document::Other)), !value.starts_with('{'), "{value}");
        }
        assert_eq!(object(r#"{"a":"x\ud800"}"#)["a"], Json::Garbled);
        assert_eq!(object(r#"{"a":["\ud800","b"]}"#)["a"], Json::List(vec![Json::Garbled, Json::Text("b".to_owned())]));
    }

    /// Parsing this as a `Value` overflows the stack: each string after serde_json's marker is parsed as JSON again,
    /// with a new nesting limit.
    #[test]
    fn a_bomb_of_nested_strings_is_only_a_string() {
        let mut bomb = "0".to_owned();
        for _ in 0..60 {
            let inside = bomb.replace('\\', r"\u005c").replace('"', r"\u0022");
            let (open, close) = ("[".repeat(122), "]".repeat(122));
            bomb = format!(r#"{open}{{"$serde_json::private::RawValue":"{inside}"}}{close}"#);
        }
        assert_eq!(object(&format!(r#"{{"a":{bomb}}}"#))["a"], Json::List(vec![Json::Other]));
        let envelope: Envelope = serde_json::from_str(&format!(r#"{{"meta":{bomb},"json":{bomb}}}"#)).expect("JSON");
        assert_eq!(envelope, Envelope(Document::Other));
        let marker = object(r#"{"$serde_json::private::RawValue":"{\"name\":7}"}"#);
        assert_eq!(marker.len(), 1, "a name like any other");
    }

    #[test]
    fn deep_nesting_does_not_exhaust_the_stack() {
        let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
        assert_eq!(object(&format!(r#"{{"a":{deep}}}"#))["a"], Json::List(vec![Json::Other]));
        let deep = format!("{}1{}", r#"{"b":"#.repeat(100), "}".repeat(100));
        assert_eq!(object(&format!(r#"{{"a":{deep}}}"#))["a"], Json::Members(vec![("b".to_owned(), Json::Other)]));
    }

    proptest! {
        #[test]
        fn no_text_panics_the_reader(text in any::<String>()) {
            let _read = (serde_json::from_str::<Document>(&text), serde_json::from_str::<Envelope>(&text));
        }
    }
}
