//! Stored data is protected from accidental loss and from strangers, and expires.

use serde_json::{Value, json};

use super::{ALL, KEY, LEAST, functions, last, queues, resources, template, text};

/// The longest retention of a message in SQS, in seconds.
const FOURTEEN_DAYS: u64 = 14 * 24 * 60 * 60;

#[test]
fn tables_are_protected_from_deletion_and_encrypted() {
    for (template, key) in [(template(&LEAST), Value::Null), (template(&ALL), json!(KEY))] {
        for (name, table) in resources(&template, "AWS::DynamoDB::Table") {
            assert_eq!((&table["DeletionPolicy"], &table["UpdateReplacePolicy"]), (&json!("Retain"), &json!("Retain")));
            let table = &table["Properties"];
            assert_eq!(table["BillingMode"], "PAY_PER_REQUEST", "{name}");
            assert_eq!(table["DeletionProtectionEnabled"], true, "{name}");
            assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true, "{name}");
            assert_eq!(table["SSESpecification"]["SSEEnabled"], true, "{name}");
            assert_eq!(table["SSESpecification"]["KMSMasterKeyId"], key, "{name}");
        }
        // These items expire: entries of the audit log, deliveries, invitations, tokens, markers of deleted
        // endpoints, and addresses that users have given up. All others are kept until they are deleted.
        let expiring = resources(&template, "AWS::DynamoDB::Table").filter_map(|(name, table)| {
            let expiry = &table["Properties"]["TimeToLiveSpecification"];
            (expiry["Enabled"] == true).then(|| (name, text(&expiry["AttributeName"])))
        });
        let expected = [
            ("AuditTable", "expires_at"),
            ("DeliveriesTable", "expires_at"),
            ("InvitationsTable", "delete_at"),
            ("TokensTable", "expires_at"),
            ("UsersTable", "reserved_until"),
            ("WebhookEndpointsTable", "delete_at"),
        ];
        assert_eq!(expiring.collect::<Vec<_>>(), expected);
    }
}

/// An index that contained more attributes would make every change to a delivery or a session more expensive, and would
/// include password hashes.
#[test]
fn the_indexes_of_deliveries_and_of_people_have_only_keys() {
    let template = template(&LEAST);
    for (table, number) in [("DeliveriesTable", 2), ("UsersTable", 1), ("InvitationsTable", 1), ("TokensTable", 1)] {
        let indexes = &template["Resources"][table]["Properties"]["GlobalSecondaryIndexes"];
        let indexes = indexes.as_array().map(Vec::as_slice).unwrap_or_default();
        assert_eq!(indexes.len(), number);
        assert!(indexes.iter().all(|index| index["Projection"] == json!({"ProjectionType": "KEYS_ONLY"})));
    }
}

#[test]
fn queues_are_encrypted_and_survive_the_stack() {
    for (template, key) in [(template(&LEAST), Value::Null), (template(&ALL), json!(KEY))] {
        for (name, queue) in resources(&template, "AWS::SQS::Queue") {
            let queue = &queue["Properties"];
            assert_eq!(queue["SqsManagedSseEnabled"], key.is_null(), "{name}");
            assert_eq!(queue["KmsMasterKeyId"], key, "{name}");
            assert_eq!(queue["MessageRetentionPeriod"], FOURTEEN_DAYS, "{name}");
        }
    }
}

/// Lambda recommends this timeout: a message must not be redelivered while the function may still be processing it,
/// even if Lambda had to wait before invoking it.
#[test]
fn a_message_stays_hidden_for_six_timeouts_and_is_redriven() {
    let template = template(&LEAST);
    let mut mapped = Vec::new();
    for (_, function) in functions(&template) {
        for arn in queues(function) {
            // The local runner's `job-events` is the template's JobEventsQueue.
            let find = |arn: &str| {
                let name = format!("{}queue", last(arn, ':').replace('-', ""));
                let mut queues = resources(&template, "AWS::SQS::Queue");
                queues.find(|(logical, _)| logical.to_lowercase() == name).expect("a queue").1
            };
            let queue = &find(arn)["Properties"];
            let timeout = function["Timeout"].as_u64().expect("a timeout");
            assert!(queue["VisibilityTimeout"].as_u64().expect("a time") >= 6 * timeout, "{arn}");
            let dead = text(&queue["RedrivePolicy"]["deadLetterTargetArn"]);
            assert_eq!(dead, format!("{arn}-dead"));
            find(dead);
            mapped.push(last(arn, ':'));
        }
        for event in function["Events"].as_object().expect("events").values().filter(|event| event["Type"] == "SQS") {
            let mapping = &event["Properties"];
            assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
            assert!(mapping["ScalingConfig"]["MaximumConcurrency"].as_u64().is_some_and(|most| most >= 2));
        }
    }
    mapped.sort_unstable();
    assert_eq!(mapped, ["deliveries", "hanging-deliveries", "job-events", "slow-deliveries"]);
}

#[test]
fn every_log_group_has_a_retention() {
    let template = template(&LEAST);
    for (name, group) in resources(&template, "AWS::Logs::LogGroup") {
        assert_eq!(group["Properties"]["RetentionInDays"], "30", "{name}");
    }
}
