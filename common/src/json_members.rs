//! The members of a JSON object, before their values are read.
//!
//! JSON allows strings with unpaired surrogates, and numbers of any size. A parser that converts every value would
//! reject these without naming the member. This parser checks only the syntax, so unused members can have any value.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The members in order, including duplicates. Members whose names are not valid Unicode are omitted.
#[derive(Debug)]
pub(crate) struct JsonMembers<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = JsonMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<JsonMembers<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = object.next_entry::<&RawValue, &RawValue>()? {
            members.extend(serde_json::from_str(name.get()).ok().map(|name| (name, value)));
        }
        Ok(JsonMembers(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_kept_as_written_regardless_of_their_values() {
        let text = r#" { "a" : 1e400 , "b":"\ud800", "\u0061":[1, {"c":"\udfff"}],"\ud800":1,"":null } "#;
        let JsonMembers(members) = serde_json::from_str(text).expect("JSON");
        let members: Vec<_> = members.iter().map(|(name, value)| (name.as_str(), value.get())).collect();
        let expected = [("a", "1e400"), ("b", r#""\ud800""#), ("a", r#"[1, {"c":"\udfff"}]"#), ("", "null")];
        assert_eq!(members, expected);
    }

    #[test]
    fn only_the_syntax_of_an_object_is_checked() {
        for text in ["[]", "null", "1", "\"a\"", "{", r#"{"a"}"#, r#"{"a":}"#, r#"{"a":1,}"#, r#"{"a":"\x"}"#, "{} {}"]
        {
            assert!(serde_json::from_str::<JsonMembers<'_>>(text).is_err(), "{text}");
        }
    }
}
