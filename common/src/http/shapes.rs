//! The JSON Schemas of a route's input and output. Like `openapi`, this is built only for the local runner and tests.

use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

/// The schemas of a route's input and output.
pub(super) struct Shapes {
    pub(super) input: FieldDescriptions,
    /// `None` for a page.
    pub(super) output: Option<Schema>,
}

/// The generators of the schemas. The service accepts some values in more forms than it returns.
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

    /// The named schemas. Among those of inputs are only enumerations, which are the same in outputs.
    pub(super) fn named(mut self) -> Map<String, Value> {
        let mut schemas = self.inputs.take_definitions(true);
        schemas.append(&mut self.outputs.take_definitions(true));
        schemas.values_mut().for_each(join_names);
        schemas
    }
}

/// Joins names that are described one by one into one `enum`: in clients of openapi-generator, each of those
/// alternatives would match any text.
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

/// The fields of an input.
#[derive(Default)]
pub(super) struct FieldDescriptions {
    pub(super) generator: SchemaGenerator,
    /// Name, whether it is required, and schema.
    pub(super) fields: Vec<(&'static str, bool, Schema)>,
    /// Whether the input includes an idempotency key.
    pub(super) takes_key: bool,
}

impl FieldDescriptions {
    pub(super) fn new(generator: SchemaGenerator) -> Self {
        Self { generator, fields: Vec::new(), takes_key: false }
    }

    pub(super) fn note<T: JsonSchema>(&mut self, name: &'static str, is_required: bool) {
        let schema = self.generator.subschema_for::<T>();
        self.fields.push((name, is_required, schema));
    }

    pub(super) fn note_number(&mut self, name: &'static str, range: &RangeInclusive<u32>) {
        let schema = json_schema!({ "type": "integer", "minimum": range.start(), "maximum": range.end() });
        self.fields.push((name, false, schema));
    }

    pub(super) fn note_objects(&mut self, name: &'static str, element: &Self, most: usize) {
        let element = element.schema(false);
        let schema = json_schema!({ "type": "array", "minItems": 1, "maxItems": most, "items": element });
        self.fields.push((name, true, schema));
    }

    pub(super) fn required(&self) -> Vec<&'static str> {
        self.fields.iter().filter(|(_, is_required, _)| *is_required).map(|(name, ..)| *name).collect()
    }

    /// The schema of the input. Additional properties stay allowed, because unknown fields are ignored. A JSON body may
    /// be `null` if no field is required.
    pub(super) fn schema(&self, is_json: bool) -> Value {
        let properties: Map<String, Value> =
            self.fields.iter().map(|(name, _, schema)| ((*name).to_owned(), schema.clone().into())).collect();
        let required = self.required();
        let kind = if is_json && required.is_empty() { json!(["object", "null"]) } else { json!("object") };
        json!({ "type": kind, "properties": properties, "required": required })
    }
}
