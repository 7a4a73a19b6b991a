//! The JSON Schemas of a route's input and output. Like `openapi`, this module is built only for the local runner and
//! tests.

use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use super::info::Case;

/// The schemas of a route's input and output.
pub(super) struct Shapes {
    pub(super) input: FieldDescriptions,
    /// `None` for a page.
    pub(super) output: Option<Schema>,
}

/// The schema generators. Inputs have a separate one, because the service accepts some values in more forms than it
/// returns.
pub(super) struct Generators {
    pub(super) inputs: SchemaGenerator,
    pub(super) outputs: SchemaGenerator,
}

impl Generators {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let (inputs, outputs) = (settings.clone().for_deserialize(), settings.for_serialize());
        Self { inputs: inputs.into_generator(), outputs: outputs.into_generator() }
    }

    /// Returns the named schemas. The only named schemas of inputs are enumerations, which are the same in outputs.
    pub(super) fn named(mut self) -> Map<String, Value> {
        let mut schemas = self.inputs.take_definitions(true);
        schemas.append(&mut self.outputs.take_definitions(true));
        schemas.values_mut().for_each(join_names);
        schemas
    }
}

/// Joins individually described names into a single `enum`. Otherwise, in clients of openapi-generator, each
/// alternative would match any text.
fn join_names(schema: &mut Value) {
    let variants = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named: Option<Vec<_>> = variants.iter().map(|one| one["const"].as_str().map(|name| (name, one))).collect();
    let Some(named) = named.filter(|named| !named.is_empty()) else { return };
    let mut description = schema["description"].as_str().unwrap_or_default().to_owned();
    for (name, one) in &named {
        description.push_str(&format!(" `{name}`: {}", one["description"].as_str().unwrap_or_default()));
    }
    let names: Vec<_> = named.iter().map(|(name, _)| *name).collect();
    *schema = json!({ "description": description, "type": "string", "enum": names });
}

/// An input's fields.
#[derive(Default)]
pub(super) struct FieldDescriptions {
    pub(super) generator: SchemaGenerator,
    /// The description of the next field to be recorded, and an example.
    pub(super) about: &'static str,
    pub(super) example: &'static str,
    /// Each field's name, whether it is required, and its schema.
    pub(super) fields: Vec<(&'static str, bool, Schema)>,
    /// Whether the input includes an idempotency key.
    pub(super) takes_key: bool,
    /// The field that determines which other fields are required, and its values.
    pub(super) cases: Option<(&'static str, &'static [Case])>,
    /// Mutually exclusive fields.
    pub(super) either: Option<[&'static str; 2]>,
}

impl FieldDescriptions {
    pub(super) fn new(generator: SchemaGenerator) -> Self {
        Self { generator, ..Self::default() }
    }

    pub(super) fn note<T: JsonSchema>(&mut self, name: &'static str, is_required: bool) {
        let schema = self.generator.subschema_for::<T>();
        self.push(name, is_required, schema);
    }

    /// Adds a field with its description and the schema of its type.
    fn push(&mut self, name: &'static str, is_required: bool, mut schema: Schema) {
        let (about, example) = (std::mem::take(&mut self.about), std::mem::take(&mut self.example));
        let form = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let description = format!("{about} {form}").trim().to_owned();
        schema.insert("description".to_owned(), description.into());
        if !example.is_empty() {
            schema.insert("examples".to_owned(), json!([example]));
        }
        self.fields.push((name, is_required, schema));
    }

    pub(super) fn note_number(&mut self, name: &'static str, range: &RangeInclusive<u32>) {
        let schema = json_schema!({ "type": "integer", "minimum": range.start(), "maximum": range.end() });
        self.push(name, false, schema);
    }

    /// Marks the last recorded field as nullable.
    pub(super) fn allow_null(&mut self, name: &'static str) {
        if let Some((_, _, schema)) = self.fields.iter_mut().rfind(|(noted, ..)| *noted == name) {
            schema.insert("type".to_owned(), json!(["integer", "null"]));
        }
    }

    pub(super) fn note_object(&mut self, name: &'static str, fields: &Self) {
        self.push(name, true, Schema::try_from(fields.schema(false)).unwrap_or_default());
    }

    pub(super) fn note_objects(&mut self, name: &'static str, element: &Self, most: usize) {
        let element = element.schema(false);
        let schema = json_schema!({ "type": "array", "minItems": 1, "maxItems": most, "items": element });
        self.push(name, true, schema);
    }

    pub(super) fn required(&self) -> Vec<&'static str> {
        self.fields.iter().filter(|(_, is_required, _)| *is_required).map(|(name, ..)| *name).collect()
    }

    /// Builds the input's schema. Additional properties are allowed, because unknown fields are ignored. A JSON body
    /// may be `null` if no field is required.
    pub(super) fn schema(&self, is_json: bool) -> Value {
        let properties: Map<String, Value> =
            self.fields.iter().map(|(name, _, schema)| ((*name).to_owned(), schema.clone().into())).collect();
        let required = self.required();
        if let Some((by, cases)) = self.cases {
            return json!({ "oneOf": cases.iter().map(|case| self.case(by, cases, case, &properties)).collect::<Value>() });
        }
        let kind = if is_json && required.is_empty() { json!(["object", "null"]) } else { json!("object") };
        let mut schema = json!({ "type": kind, "properties": properties, "required": required });
        if let (Some(either), Some(members)) = (self.either, schema.as_object_mut()) {
            members.insert("not".to_owned(), with_all(&either));
        }
        schema
    }

    /// Builds the schema of the input with one of the values of the field `by`. Each such schema is complete, so code
    /// generators create a type for it.
    fn case(&self, by: &str, cases: &[Case], (value, title, needs): &Case, fields: &Map<String, Value>) -> Value {
        let is_default = cases.first().is_some_and(|(first, ..)| first == value);
        let refused: Vec<_> =
            cases.iter().flat_map(|(.., needs)| *needs).filter(|name| !needs.contains(name)).collect();
        let mut properties = fields.clone();
        properties.retain(|name, _| !refused.contains(&&name.as_str()));
        let about = fields.get(by).and_then(|field| field.get("description"));
        properties.insert(by.to_owned(), json!({ "description": about, "type": "string", "enum": [value] }));
        let kind = (!is_default).then_some(by);
        let required: Vec<_> = self.required().into_iter().chain(needs.iter().copied()).chain(kind).collect();
        let mut schema = json!({ "title": title, "type": "object", "properties": properties, "required": required });
        let each: Vec<_> = refused.iter().map(|name| with_all(&[name])).collect();
        let not = if let [one] = &each[..] { one.clone() } else { json!({ "anyOf": each }) };
        if let (false, Some(members)) = (each.is_empty(), schema.as_object_mut()) {
            members.insert("not".to_owned(), not);
        }
        schema
    }
}

/// The schema of an object that has all of these properties. Each property is declared, as OpenAPI linters require.
fn with_all(names: &[&str]) -> Value {
    let declared: Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), json!({ "description": "Any value." }))).collect();
    json!({ "properties": declared, "required": names })
}
