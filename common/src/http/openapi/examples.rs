//! The examples in the OpenAPI description.

use serde_json::{Map, Value, json};

/// Adds an example to every JSON body, composed of the examples of its parts.
pub(super) fn add(document: &mut Value) {
    let schemas = document.pointer("/components/schemas").cloned().unwrap_or_default();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for operation in paths.values_mut().filter_map(Value::as_object_mut).flat_map(|path| path.values_mut()) {
        if let Some(content) = operation.pointer_mut("/requestBody/content") {
            add_example(content, &schemas);
        }
        let responses = operation["responses"].as_object_mut().into_iter().flat_map(|responses| responses.values_mut());
        for content in responses.filter_map(|response| response.get_mut("content")) {
            add_example(content, &schemas);
        }
    }
}

fn add_example(content: &mut Value, schemas: &Value) {
    let media = content.as_object_mut().into_iter().flat_map(|media| media.iter_mut());
    for (_, media) in media.filter(|(name, _)| *name != "text/html") {
        let example = example(&media["schema"], schemas);
        media["example"] = example;
    }
}

/// An example of `schema`: the first alternative that has a meaningful value.
fn example(schema: &Value, schemas: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return example(&schemas[name], schemas);
    }
    let mut given =
        [schema.get("const"), schema.pointer("/examples/0"), schema.pointer("/enum/0")].into_iter().flatten();
    if let Some(given) = given.next() {
        return given.clone();
    }
    if let Some(either) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
        return either.first().map(|first| example(first, schemas)).unwrap_or_default();
    }
    let kind = schema["type"].as_str().or_else(|| schema.pointer("/type/0").and_then(Value::as_str));
    match kind {
        Some("object") => {
            // Of fields that exclude each other, the first.
            let excluded = schema.pointer("/not/required/1").and_then(Value::as_str);
            let properties = schema["properties"].as_object().into_iter().flatten();
            let properties = properties.filter(|(name, _)| Some(name.as_str()) != excluded);
            properties.map(|(name, property)| (name.clone(), example(property, schemas))).collect::<Map<_, _>>().into()
        }
        Some("array") => json!([example(&schema["items"], schemas)]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(schema["minimum"].as_u64().unwrap_or_default().max(1)),
        Some("string") => json!("text"),
        _ => Value::Null,
    }
}
