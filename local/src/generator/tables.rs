//! The tables, and the outputs with their names.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;

use super::rows;

const ROWS: &str = include_str!("../../../template/tables.yaml");

/// A row of `template/tables.yaml`, which describes the members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableRow {
    table: String,
    about: String,
    key: Vec<String>,
    #[serde(default)]
    indexes: Vec<BTreeMap<String, Vec<String>>>,
    projection: Option<String>,
    #[serde(default)]
    numbers: Vec<String>,
    expires: Option<String>,
}

const BEGINNING: &str = "\
NAMETable:
  Type: AWS::DynamoDB::Table
  DeletionPolicy: Retain
  UpdateReplacePolicy: Retain
  Properties:
    BillingMode: PAY_PER_REQUEST
    DeletionProtectionEnabled: true
";

const END: &str = "    PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
    SSESpecification:
      SSEEnabled: true
      SSEType: KMS
      KMSMasterKeyId: !If [HasEncryptionKey, !Ref EncryptionKeyArn, !Ref AWS::NoValue]
";

fn rows() -> Result<Vec<TableRow>> {
    rows::read(ROWS, "tables")
}

/// The logical ids of the tables.
pub(super) fn names() -> Result<Vec<String>> {
    Ok(rows()?.iter().map(|row| format!("{}Table", row.table)).collect())
}

/// The outputs with the tables' names.
pub(super) fn outputs() -> Result<String> {
    let output = |TableRow { table, about, .. }: &TableRow| {
        format!("{table}TableName:\n  Description: {about}\n  Value: !Ref {table}Table\n")
    };
    Ok(rows()?.iter().map(output).collect())
}

/// The tables, as resources.
pub(super) fn resources() -> Result<String> {
    Ok(rows()?.iter().map(TableRow::resource).collect::<Vec<_>>().join("\n"))
}

impl TableRow {
    fn resource(&self) -> String {
        let mut text = rows::comment(ROWS, "table", &self.table) + &BEGINNING.replace("NAME", &self.table);
        text += "    AttributeDefinitions:\n";
        let mut attributes: Vec<&String> = Vec::new();
        for attribute in self.key.iter().chain(self.indexes.iter().flat_map(BTreeMap::values).flatten()) {
            if !attributes.contains(&attribute) {
                attributes.push(attribute);
                let kind = if self.numbers.contains(attribute) { "N" } else { "S" };
                text += &format!("      - {{AttributeName: {attribute}, AttributeType: {kind}}}\n");
            }
        }
        text += &format!("    KeySchema:\n{}", schema(&self.key, 6));
        if !self.indexes.is_empty() {
            text += "    GlobalSecondaryIndexes:\n";
        }
        let projection = self.projection.as_deref().unwrap_or("KEYS_ONLY");
        for (name, key) in self.indexes.iter().flatten() {
            text += &format!("      - IndexName: {name}\n        KeySchema:\n{}", schema(key, 10));
            text += &format!("        Projection: {{ProjectionType: {projection}}}\n");
        }
        if let Some(expires) = &self.expires {
            text += &format!("    TimeToLiveSpecification: {{AttributeName: {expires}, Enabled: true}}\n");
        }
        text + END
    }
}

/// The partition key and the sort key, if there is one.
fn schema(key: &[String], indent: usize) -> String {
    let kinds = ["HASH", "RANGE"].iter().zip(key);
    kinds.map(|(kind, name)| format!("{:indent$}- {{AttributeName: {name}, KeyType: {kind}}}\n", "")).collect()
}
