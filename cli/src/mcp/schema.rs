//! The schemas of the tools' inputs, in the keywords that every client understands.
//!
//! Some clients translate a schema to their model's own format, and fail at, or silently leave out, what they do not know:
//! Google's (google-genai 3.6.1) fails at `additionalProperties: false`, gives the model no values for a `oneOf` of
//! constants, and loses the description beside an `anyOf`. So a schema has no references and no alternatives. An argument
//! that a tool does not know is rejected anyway, with its name.

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

/// The keywords that describe a value, beside `type`, `properties`, `items` and `enum`.
const VALUE_KEYWORDS: [&str; 4] = ["description", "pattern", "minimum", "required"];

/// Rewrites the schema of an input.
pub(super) fn plain(schema: &JsonObject) -> JsonObject {
    let named = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    described(schema, &named)
}

/// Rewrites a schema. `named` are the schemas that it can refer to.
fn described(schema: &JsonObject, named: &JsonObject) -> JsonObject {
    let mut plain = Map::new();
    if let Some(other) = other(schema, named) {
        plain = described(other, named);
    }
    let constants: Vec<_> = list(schema, "oneOf").filter_map(|choice| choice.get("const").cloned()).collect();
    if !constants.is_empty() {
        plain.insert("type".to_owned(), json!("string"));
        plain.insert("enum".to_owned(), Value::Array(constants));
    }
    for (keyword, value) in schema {
        let value = match (keyword.as_str(), value) {
            // An optional value: left out rather than null.
            ("type", Value::Array(types)) => types.iter().find(|name| *name != "null").cloned(),
            ("type", name) => Some(name.clone()),
            ("enum", Value::Array(all)) => Some(all.iter().filter(|one| !one.is_null()).cloned().collect()),
            ("properties", Value::Object(all)) => {
                let all = all
                    .iter()
                    .filter_map(|(name, one)| Some((name.clone(), described(one.as_object()?, named).into())));
                Some(Value::Object(all.collect()))
            }
            ("items", Value::Object(item)) => Some(described(item, named).into()),
            ("description", Value::String(text)) => Some(text.replace('\n', " ").into()),
            (keyword, value) => VALUE_KEYWORDS.contains(&keyword).then(|| value.clone()),
        };
        plain.extend(value.map(|value| (keyword.clone(), value)));
    }
    plain
}

/// The schema that this one refers to, or that applies unless the value is null.
fn other<'a>(schema: &'a JsonObject, named: &'a JsonObject) -> Option<&'a JsonObject> {
    let name = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
    let alternative = || list(schema, "anyOf").find(|one| one.get("type").is_none_or(|name| name != "null"));
    name.and_then(|name| named.get(name)?.as_object()).or_else(alternative)
}

fn list<'a>(schema: &'a JsonObject, keyword: &str) -> impl Iterator<Item = &'a JsonObject> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_alternatives_are_resolved() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$defs": {
                "Status": { "description": "A status.", "oneOf": [{ "const": "held", "type": "string" }, { "const": "ended" }] },
                "State": { "type": "string", "enum": ["on", "off"] },
            },
            "type": "object", "additionalProperties": false, "required": ["state"],
            "properties": {
                "status": { "description": "Only\nthese.", "anyOf": [{ "$ref": "#/$defs/Status" }, { "type": "null" }] },
                "state": { "$ref": "#/$defs/State" },
                "limit": { "type": ["integer", "null"], "format": "uint", "minimum": 0 },
            },
        });
        let expected = json!({
            "type": "object", "required": ["state"],
            "properties": {
                "status": { "type": "string", "enum": ["held", "ended"], "description": "Only these." },
                "state": { "type": "string", "enum": ["on", "off"] },
                "limit": { "type": "integer", "minimum": 0 },
            },
        });
        assert_eq!(Value::Object(plain(schema.as_object().expect("an object"))), expected);
    }
}
