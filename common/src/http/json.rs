//! Reads untrusted JSON, as far as the fields of an input need it.
//!
//! Does not use `serde_json::Value`: with the feature `raw_value`, an object whose only key is serde_json's own marker
//! for raw values is parsed as JSON inside a string, and such strings can be nested until the stack overflows. Values
//! that no field accepts are skipped here, which takes no stack.

use std::{collections::HashMap, fmt};

use api::MAX_ELEMENTS;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A JSON value. It is serialized only for hashing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Text(String),
    /// A whole number; `2.0` and `2e0` are accepted. Numbers that are out of range become this type's maximum or minimum.
    Number(i64),
    /// An array. Its objects are read, nested arrays are [`Json::Other`]. At most [`MAX_ELEMENTS`] + 1 elements are
    /// kept, which shows that there are too many.
    List(Vec<Json>),
    /// An object: its members with duplicates, sorted by name. Arrays and objects in it are [`Json::Other`]. At most
    /// [`MAX_ELEMENTS`] + 1 members are kept, which shows that there are too many.
    Members(Vec<(String, Json)>),
    /// A fraction, or an array or object that is nested too deep to be read.
    Other,
}

/// The members of an object.
pub(super) type Object = HashMap<String, Json>;

/// A JSON document that should be an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Document {
    Null,
    Object(Object),
    Other,
}

/// `{"json": ...}`; other members are ignored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Envelope(pub(super) Document);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor { inside: Inside::Nothing })
    }
}

struct JsonVisitor {
    inside: Inside,
}

/// The container of a value. It bounds the recursion, so that nesting of any depth takes no stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Nothing,
    Array,
    Object,
}

impl<'de> DeserializeSeed<'de> for JsonVisitor {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    /// The conversion saturates numbers that are out of range.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        Ok(if value.fract() == 0.0 { Json::Number(value as i64) } else { Json::Other })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let (mut list, is_read) = (Vec::new(), self.inside == Inside::Nothing);
        while is_read && list.len() <= MAX_ELEMENTS {
            let Some(element) = items.next_element_seed(Self { inside: Inside::Array })? else {
                return Ok(Json::List(list));
            };
            list.push(element);
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(if is_read { Json::List(list) } else { Json::Other })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let (mut kept, is_read) = (Vec::new(), self.inside != Inside::Object);
        while is_read && kept.len() <= MAX_ELEMENTS {
            let Some(name) = members.next_key::<String>()? else { break };
            kept.push((name, members.next_value_seed(Self { inside: Inside::Object })?));
        }
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        kept.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(if is_read { Json::Members(kept) } else { Json::Other })
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Document, E> {
        Ok(Document::Null)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Document, E> {
        Ok(Document::Other)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Document, E> {
        Ok(Document::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Document, E> {
        Ok(Document::Other)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Document, E> {
        Ok(Document::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Document, E> {
        Ok(Document::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Document, A::Error> {
        JsonVisitor { inside: Inside::Object }.visit_seq(items).map(|_| Document::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Document, A::Error> {
        let mut object = Object::new();
        while let Some((name, value)) = members.next_entry()? {
            object.insert(name, value);
        }
        Ok(Document::Object(object))
    }
}

impl<'de> Deserialize<'de> for Envelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the member \"json\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Envelope, A::Error> {
        let mut document = Document::Null;
        while let Some(name) = members.next_key::<String>()? {
            if name == "json" {
                document = members.next_value()?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Envelope(document))
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
    fn what_no_field_takes_is_skipped() {
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
    fn of_an_object_the_members_are_read_and_not_what_is_in_them() {
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
    fn of_an_array_the_elements_are_read_and_the_members_of_objects() {
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

    /// As in JSON Schema.
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
        for text in ["18446744073709551615", "18446744073709551616", "9223372036854775808.0", "1e300"] {
            assert_eq!(object(&format!(r#"{{"a":{text}}}"#))["a"], Json::Number(i64::MAX), "{text}");
        }
        assert_eq!(object(r#"{"a":-1e300}"#)["a"], Json::Number(i64::MIN));
    }

    /// Parsed into a `Value`, this overflows the stack of a thread: the marker makes serde_json parse the string's text
    /// as JSON again, each time with a new nesting limit.
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
    fn deep_nesting_takes_no_stack() {
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
