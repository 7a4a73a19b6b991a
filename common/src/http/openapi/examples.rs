//! The examples in the OpenAPI description.

use serde_json::{Map, Value, json};

/// Example numbers by member name. They are more realistic than the minimum.
const NUMBERS: [(&str, u64); 6] = [
    ("duration_ms", 85),
    ("expiresIn", 2_592_000),
    ("limit", 20),
    ("poll_after_ms", 1000),
    ("resent", 12),
    ("status_code", 503),
];

/// The messages of responses that share a schema, by route.
const MESSAGES: [(&str, &str); 3] = [
    ("/v1/deliveries/resend", "Delivery will be resent"),
    ("/v1/webhooks/delete", "Webhook endpoint deleted"),
    ("/v1/webhooks/update", "Webhook endpoint updated"),
];

/// Optional fields that are omitted from a request's example, by route. This one is omitted because the example
/// response shows a generated secret.
const OMITTED: [(&str, &str); 1] = [("/v1/webhooks/create", "signing_secret")];

/// Adds an example to every JSON body, composed of the examples of its parts. Forms do not get examples, because people
/// fill them in.
pub(super) fn add(document: &mut Value) {
    let schemas = document.pointer("/components/schemas").cloned().unwrap_or_default();
    let Some(paths) = document["paths"].as_object_mut() else { return };
    let operations =
        paths.iter_mut().filter_map(|(path, operations)| Some((path.as_str(), operations.as_object_mut()?)));
    for (path, operation) in operations.flat_map(|(path, all)| all.values_mut().map(move |operation| (path, operation)))
    {
        if let Some(content) = operation.pointer_mut("/requestBody/content") {
            add_example(content, &schemas);
            let fields = content.pointer_mut("/application~1json/example/json").and_then(Value::as_object_mut);
            let omitted = OMITTED.iter().find(|(route, _)| *route == path);
            if let (Some(fields), Some((_, name))) = (fields, omitted) {
                fields.remove(*name);
            }
        }
        let responses = operation["responses"].as_object_mut().into_iter().flat_map(|responses| responses.values_mut());
        for content in responses.filter_map(|response| response.get_mut("content")) {
            add_example(content, &schemas);
        }
        let message = operation.pointer_mut("/responses/200/content/application~1json/example/json/message");
        let own = MESSAGES.iter().find(|(route, _)| *route == path);
        if let (Some(message), Some((_, own))) = (message, own) {
            *message = json!(own);
        }
    }
}

fn add_example(content: &mut Value, schemas: &Value) {
    if let Some(media) = content.get_mut("application/json") {
        media["example"] = example(&media["schema"], schemas);
    }
}

/// Builds an example for `schema`, from the first alternative with a meaningful value.
fn example(schema: &Value, schemas: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return example(&schemas[name], schemas);
    }
    let mut given =
        [schema.get("const"), schema.pointer("/examples/0"), schema.pointer("/enum/0")].into_iter().flatten();
    if let Some(given) = given.next() {
        return given.clone();
    }
    let either = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
    // Beside a type, the alternatives only restrict it.
    if let Some(either) = either.filter(|_| schema.get("type").is_none()) {
        return either.first().map(|first| example(first, schemas)).unwrap_or_default();
    }
    let kind = schema["type"].as_str().or_else(|| schema.pointer("/type/0").and_then(Value::as_str));
    match kind {
        Some("object") => {
            // Only the first of several mutually exclusive fields is included.
            let not = &schema["not"];
            let pairs = not["anyOf"].as_array().map_or_else(|| std::slice::from_ref(not), Vec::as_slice);
            let excluded: Vec<_> = pairs.iter().filter_map(|pair| pair.pointer("/required/1")?.as_str()).collect();
            let properties = schema["properties"].as_object().into_iter().flatten();
            let properties = properties.filter(|(name, _)| !excluded.contains(&name.as_str()));
            let one = |name: &str, property: &Value| match NUMBERS.iter().find(|(number, _)| *number == name) {
                Some((_, number)) if property.get("examples").is_none() => json!(number),
                _ => example(property, schemas),
            };
            properties.map(|(name, property)| (name.clone(), one(name, property))).collect::<Map<_, _>>().into()
        }
        Some("array") => json!([example(&schema["items"], schemas)]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(schema["minimum"].as_u64().unwrap_or_default().max(1)),
        Some("string") => json!("text"),
        _ => Value::Null,
    }
}
