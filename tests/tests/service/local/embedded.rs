//! The functions' calls to the embedded services have the same results without a socket as over HTTP.

use std::{fmt::Debug, time::Duration};

use ::local::Options;
use aws_sdk_dynamodb::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    types::{
        AttributeValue, BatchStatementRequest, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
    },
};
use aws_sdk_sqs::types::MessageSystemAttributeName;
use common::aws::clients::Aws;
use futures::{FutureExt, future::join_all};
use serde_json::{Value, json};
use tests::World;
use tokio::time::timeout;

const TABLE: &str = "organizations";
const KEY: &str = "pk";

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// A result as its caller sees it, without the ids of requests.
fn seen<T: Debug, E: ProvideErrorMetadata + Debug>(result: Result<T, SdkError<E>>) -> String {
    match result {
        Ok(output) => format!("{output:?}").split("_request_id").next().unwrap_or_default().to_owned(),
        Err(error) => format!("{:?} {:?}", error.code(), error.message()),
    }
}

/// The results of the same calls, from an empty table on.
async fn results(client: &Client, table: &str) -> Vec<String> {
    let put = |id: &str| {
        client.put_item().table_name(table).item(KEY, text(id)).condition_expression("attribute_not_exists(pk)")
    };
    let statement = |statement: &str| {
        let statement = BatchStatementRequest::builder().statement(statement);
        let statement = statement.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        statement.build().expect("a statement")
    };
    let insert = format!("INSERT INTO \"{TABLE}\" VALUE {{'{KEY}': 'one'}}");
    let statements = client.batch_execute_statement().statements(statement(&insert));
    let taken = Put::builder().table_name(TABLE).item(KEY, text("one"));
    let taken = taken.condition_expression("attribute_not_exists(pk)").build().expect("a put");
    let transaction = client.transact_write_items().transact_items(TransactWriteItem::builder().put(taken).build());
    let get = |id: &str| client.get_item().table_name(table).key(KEY, text(id)).consistent_read(true);
    vec![
        seen(put("one").send().await),
        seen(
            put("one")
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .send()
                .await,
        ),
        seen(statements.send().await),
        seen(transaction.send().await),
        seen(get("one").send().await),
        seen(get("").send().await),
        seen(client.delete_item().table_name(table).key(KEY, text("one")).send().await),
        seen(client.get_item().table_name("missing").key(KEY, text("one")).send().await),
        // The server handles operations that no function uses.
        seen(client.describe_time_to_live().table_name(table).send().await),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_without_a_socket_have_the_results_of_http() {
    let world = World::start().await;
    let over_http = Aws::new(&world.delivering()).expect("settings").dynamodb();
    let expected = results(&over_http, TABLE).await;
    assert!(
        expected[1].contains("ConditionalCheckFailed") && expected[3].contains("TransactionCanceled"),
        "{expected:#?}"
    );
    assert_eq!(results(&world.stack.dynamodb_client(), TABLE).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_takes_effect_although_its_caller_stops_waiting() {
    let world = World::start().await;
    let client = world.stack.dynamodb_client();
    let put = client.put_item().table_name(TABLE).item(KEY, text("one")).send();
    // The first poll sends the request, and the caller does not wait for the response.
    drop(put.now_or_never());
    let get = || client.get_item().table_name(TABLE).key(KEY, text("one")).consistent_read(true).send();
    while get().await.expect("a response").item.is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_stops_waiting_gets_no_message() {
    let world = World::start().await;
    let (client, url) = (world.stack.sqs_client(), world.stack.queues()["job-events"].clone());
    let receive = client.receive_message().queue_url(&url).wait_time_seconds(20);
    assert!(timeout(Duration::from_millis(50), receive.clone().send()).await.is_err(), "the queue is empty");
    client.send_message().queue_url(&url).message_body("one").send().await.expect("the send succeeds");
    let count = MessageSystemAttributeName::ApproximateReceiveCount;
    let received = receive.message_system_attribute_names(count.clone()).send().await.expect("a response");
    let message = received.messages().first().expect("the message is visible");
    assert_eq!(message.attributes().expect("attributes")[&count], "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_lists_calls_in_the_order_of_their_effects() {
    let file = std::env::temp_dir().join(uuid::Uuid::now_v7().to_string());
    let world = World::started(&[], Options { poll: false, record: Some(file.clone()), ..Options::default() }).await;
    let client = world.stack.dynamodb_client();
    let increment = client.update_item().table_name(TABLE).key(KEY, text("one")).update_expression("ADD amount :one");
    let increment = increment.expression_attribute_values(":one", AttributeValue::N("1".to_owned()));
    let increment = increment.return_values(ReturnValue::UpdatedNew);
    let increments = (0..50).map(|_| tokio::spawn(increment.clone().send()));
    assert!(join_all(increments).await.into_iter().all(|call| call.expect("no panic").is_ok()));
    client.get_item().table_name("missing").key(KEY, text("one")).send().await.expect_err("there is no table");

    let lines = std::fs::read_to_string(&file).expect("the file");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (failed, increments) = lines.split_last().expect("calls");
    assert_eq!(increments.len(), 50);
    for (amount, line) in (1..).zip(increments) {
        assert_eq!((&line["operation"], &line["status"]), (&json!("UpdateItem"), &json!(200)));
        assert_eq!(line["request"]["Key"], json!({"pk": {"S": "one"}}));
        assert_eq!(line["response"]["Attributes"]["amount"]["N"], json!(amount.to_string()));
    }
    assert_eq!((&failed["operation"], &failed["status"]), (&json!("GetItem"), &json!(400)));
    assert!(failed["response"]["__type"].as_str().is_some_and(|kind| kind.ends_with("#ResourceNotFoundException")));
    std::fs::remove_file(file).expect("the removal succeeds");
}
