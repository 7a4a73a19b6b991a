//! The queues, each with the queue of its dead letters and its alarms.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    alarms::{Alarm, Metric},
    rows,
};
use crate::template::local_name;

const ROWS: &str = include_str!("../../../template/queues.yaml");

/// A row of `template/queues.yaml`, which describes the members.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueRow {
    queue: String,
    bytes: Option<u32>,
    receives: u32,
    dead: String,
    age: u32,
    aged: String,
}

const QUEUE: &str = "\
NAMEQueue:
  Type: AWS::SQS::Queue
  DeletionPolicy: Retain
  UpdateReplacePolicy: Retain
  Properties:
OWN    MessageRetentionPeriod: 1209600
    SqsManagedSseEnabled: !If [HasEncryptionKey, false, true]
    KmsMasterKeyId: !If [HasEncryptionKey, !Ref EncryptionKeyArn, !Ref AWS::NoValue]
";

/// The logical ids of the queues that functions use.
pub(super) fn names() -> Result<Vec<String>> {
    let rows: Vec<QueueRow> = rows::read(ROWS, "queues")?;
    Ok(rows.into_iter().map(|row| format!("{}Queue", row.queue)).collect())
}

/// The queues, as resources. `written` is the template without its generated parts.
pub(super) fn resources(written: &Value) -> Result<String> {
    let rows: Vec<QueueRow> = rows::read(ROWS, "queues")?;
    let resources = rows.iter().map(|row| {
        let timeout = timeout(written, &row.queue)
            .with_context(|| format!("no function in template.yaml with a timeout reads {}Queue", row.queue))?;
        Ok([row.queue(timeout), row.dead_queue(), row.dead_alarm(), row.age_alarm()].join("\n"))
    });
    Ok(resources.collect::<Result<Vec<_>>>()?.join("\n"))
}

/// The timeout of the function that reads a queue, in seconds.
fn timeout(written: &Value, queue: &str) -> Option<u64> {
    let arn = json!({"Fn::GetAtt": [format!("{queue}Queue"), "Arn"]});
    let reads = |function: &&Value| {
        let events = function.get("Events").and_then(Value::as_object).into_iter().flatten();
        events.filter_map(|(_, event)| event.pointer("/Properties/Queue")).any(|read| *read == arn)
    };
    let resources = written.get("Resources")?.as_object()?.values();
    resources.filter_map(|resource| resource.get("Properties")).find(reads)?.get("Timeout")?.as_u64()
}

impl QueueRow {
    fn queue(&self, timeout: u64) -> String {
        let name = &self.queue;
        let own = format!(
            "    # Six times the timeout of the function that reads the queue, as AWS recommends.\n    \
             VisibilityTimeout: {}\n{}",
            6 * timeout,
            self.size_line()
        );
        let redrive = format!(
            "    RedrivePolicy:\n      deadLetterTargetArn: !GetAtt {name}DeadQueue.Arn\n      maxReceiveCount: {}\n",
            self.receives
        );
        rows::comment(ROWS, "queue", name) + &QUEUE.replace("NAME", name).replace("OWN", &own) + &redrive
    }

    fn dead_queue(&self) -> String {
        let comment = format!("# Messages of {} that could not be processed.\n", local_name(&self.queue));
        comment + &QUEUE.replace("NAME", &format!("{}Dead", self.queue)).replace("OWN", &self.size_line())
    }

    fn size_line(&self) -> String {
        self.bytes.map(|bytes| format!("    MaximumMessageSize: {bytes}\n")).unwrap_or_default()
    }

    fn dead_alarm(&self) -> String {
        let dead = format!("{}Dead", self.queue);
        let about = format!("{} that could not be processed are in {}.", self.dead, local_name(&dead));
        let metric = of_queue(&dead, "ApproximateNumberOfMessagesVisible", 300);
        Alarm::above(0, &dead, &about, metric, 1).resource()
    }

    fn age_alarm(&self) -> String {
        let name = format!("{}Age", self.queue);
        let metric = of_queue(&self.queue, "ApproximateAgeOfOldestMessage", 60);
        Alarm::above(self.age, &name, &self.aged, metric, 5).resource()
    }
}

/// The properties that name the maximum of a queue's metric in a period of this many seconds.
fn of_queue(queue: &str, name: &str, period: u32) -> String {
    let dimension = Some(("QueueName", format!("!GetAtt {queue}Queue.QueueName")));
    Metric { namespace: "AWS/SQS", name, dimension, statistic: "Maximum", period }.properties()
}
