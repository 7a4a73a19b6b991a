//! Each write that changes members, keys, sessions, settings or endpoints shares a transaction with its entry.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tests::{Call, World};

use super::records;

/// Attributes whose changes are not recorded, by table.
const SILENT: [(&str, &[&str]); 2] = [
    (
        "users",
        &[
            // The same password, with a different cost.
            "password_hash",
            // An enrollment has no effect before its first code, and the session's entry records the use of a code.
            "totp_secret",
            "totp_step",
            "two_factor_since",
            "backup_codes",
            // A copy of a setting. Changes to the setting itself are recorded.
            "must_have_two_factor",
        ],
    ),
    ("api-keys", &["last_request", "last_address", "keys"]),
];
/// The attributes of endpoints that users set. The service records the others, such as health and the last error.
const SET_BY_USERS: [&str; 9] = [
    "url",
    "active",
    "events",
    "workflows",
    "description",
    "headers",
    "header_names",
    "signing_secret",
    "previous_secret",
];

/// Starts a world. Each write that should be recorded but is not is added to the list.
pub(super) async fn observed() -> (World, Arc<Mutex<Vec<Value>>>) {
    let seen = Arc::<Mutex<Vec<Value>>>::default();
    let noted = Arc::clone(&seen);
    let world = World::answering(&[], move |call| {
        noted.lock().unwrap_or_else(PoisonError::into_inner).extend(unrecorded(call));
        None
    });
    (world.await, seen)
}

fn unrecorded(call: &Call) -> Vec<Value> {
    if records(call) || call.function == "accounts-purge" {
        return Vec::new();
    }
    let writes = match call.operation.as_str() {
        "PutItem" => vec![json!({"Put": call.body})],
        "UpdateItem" => vec![json!({"Update": call.body})],
        "DeleteItem" => vec![json!({"Delete": call.body})],
        "TransactWriteItems" => call["TransactItems"].as_array().cloned().unwrap_or_default(),
        // Batch writes only clean up after a recorded change, the deletion of an organization.
        _ => Vec::new(),
    };
    writes.into_iter().filter(is_to_record).collect()
}

fn is_to_record(write: &Value) -> bool {
    if let Some(update) = write.get("Update") {
        let table = update["TableName"].as_str().expect("a table");
        let touched = touched(update["UpdateExpression"].as_str().expect("an expression"));
        return match table {
            "webhook-endpoints" => touched.iter().any(|name| SET_BY_USERS.contains(&name.as_str())),
            // A new epoch keeps one session and ends the others.
            "tokens" => touched.iter().any(|name| name == "epoch"),
            "users" | "api-keys" => {
                let (_, silent) = SILENT.iter().find(|(name, _)| *name == table).expect("a table");
                !touched.iter().all(|name| silent.contains(&name.as_str()))
            }
            // The setting is copied to the members again, because an earlier call may have been interrupted.
            "organizations" if touched == ["require_two_factor"] => {
                let values = &update["ExpressionAttributeValues"];
                values[":v0"] != values[":v1"]
            }
            "organizations" | "invitations" => true,
            _ => false,
        };
    }
    if let Some(put) = write.get("Put") {
        return match put["TableName"].as_str().expect("a table") {
            "tokens" => put["Item"]["kind"]["S"] == "session",
            // Other items in the table are counters and stored idempotent calls.
            "webhook-endpoints" => !put["Item"]["webhook_endpoint_id"]["S"].as_str().expect("a key").starts_with('#'),
            "users" | "organizations" | "invitations" | "api-keys" => true,
            _ => false,
        };
    }
    // A personal key that no longer works is deleted later. The entry for the change that ended it names the key.
    let deleted = &write["Delete"];
    match deleted["TableName"].as_str().unwrap_or_default() {
        "users" | "organizations" | "invitations" => true,
        "webhook-endpoints" => !deleted["Key"]["webhook_endpoint_id"]["S"].as_str().expect("a key").starts_with('#'),
        _ => false,
    }
}

/// The attributes that an update expression names.
fn touched(expression: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:#".contains(c);
    let words = expression.split(|c| !is_part(c)).filter(|word| !word.is_empty() && !word.starts_with(':'));
    words.filter(|word| *word != "if_not_exists").map(|word| word.trim_start_matches('#').to_owned()).collect()
}

#[test]
fn an_unrecorded_write_is_noticed() {
    let call = |operation: &str, body: Value| Call { function: "f".to_owned(), operation: operation.to_owned(), body };
    let update = |table: &str, expression: &str| json!({"TableName": table, "UpdateExpression": expression});
    let found = |call: Call| unrecorded(&call).len();
    assert_eq!(found(call("UpdateItem", update("users", "SET #name = :v0"))), 1);
    assert_eq!(found(call("UpdateItem", update("users", "SET totp_step = :v0"))), 0);
    assert_eq!(
        found(call("UpdateItem", update("webhook-endpoints", "SET error = if_not_exists(error, :v0) REMOVE url"))),
        1
    );
    assert_eq!(found(call("PutItem", json!({"TableName": "tokens", "Item": {"kind": {"S": "session"}}}))), 1);
    let write = json!({"Update": update("users", "ADD session_epoch :v0")});
    let entry = json!({"Put": {"TableName": "audit", "Item": {}}});
    assert_eq!(found(call("TransactWriteItems", json!({"TransactItems": [write]}))), 1);
    assert_eq!(found(call("TransactWriteItems", json!({"TransactItems": [write, entry]}))), 0);
}
