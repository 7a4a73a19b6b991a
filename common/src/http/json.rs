//! Reading JSON from strangers, as far as the fields of an input need it.
//!
//! Not into `serde_json::Value`: with the feature `raw_value`, an object in it whose only key is serde_json's own marker
//! for raw values is parsed as JSON inside a string, and such strings can be nested until the stack overflows. What no
//! field can take is skipped here, which takes no stack.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A JSON value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Text(String),
    /// A whole number; one that is too large for this type is the largest or the smallest of it.
    Number(i64),
    /// Another number, an array or an object.
    Other,
}

/// The members of an object.
pub(super) type Object = HashMap<String, Json>;

/// What should be an object.
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
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

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

    fn visit_f64<E: Error>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Json::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Json::Other)
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
        JsonVisitor.visit_seq(items).map(|_| Document::Other)
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
        let object =
            object(r#"{"a":null,"b":true,"c":"x\n","d":1.5,"e":[{"f":[]}],"g":{"h":-7},"i":-7,"j":9e9,"c":"last"}"#);
        assert_eq!(object["a"], Json::Null);
        assert_eq!(object["b"], Json::Bool(true));
        assert_eq!(object["c"], Json::Text("last".to_owned()));
        assert_eq!(object["i"], Json::Number(-7));
        for other in ["d", "e", "g", "j"] {
            assert_eq!(object[other], Json::Other);
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_the_largest() {
        assert_eq!(object(r#"{"a":18446744073709551615}"#)["a"], Json::Number(i64::MAX));
    }

    /// Parsed into a `Value`, this overflows the stack of a thread: the marker makes serde_json parse a string's text as
    /// JSON again, each time with a new limit of nesting.
    #[test]
    fn a_bomb_of_nested_strings_is_only_a_string() {
        let mut bomb = "0".to_owned();
        for _ in 0..60 {
            let inside = bomb.replace('\\', r"\u005c").replace('"', r"\u0022");
            let (open, close) = ("[".repeat(122), "]".repeat(122));
            bomb = format!(r#"{open}{{"$serde_json::private::RawValue":"{inside}"}}{close}"#);
        }
        assert_eq!(object(&format!(r#"{{"a":{bomb}}}"#))["a"], Json::Other);
        let envelope: Envelope = serde_json::from_str(&format!(r#"{{"meta":{bomb},"json":{bomb}}}"#)).expect("JSON");
        assert_eq!(envelope, Envelope(Document::Other));
        let marker = object(r#"{"$serde_json::private::RawValue":"{\"name\":7}"}"#);
        assert_eq!(marker.len(), 1, "a name like any other");
    }

    #[test]
    fn deep_nesting_takes_no_stack() {
        let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
        assert_eq!(object(&format!(r#"{{"a":{deep}}}"#))["a"], Json::Other);
    }

    proptest! {
        #[test]
        fn no_text_panics_the_reader(text in any::<String>()) {
            let _read = (serde_json::from_str::<Document>(&text), serde_json::from_str::<Envelope>(&text));
        }
    }
}
