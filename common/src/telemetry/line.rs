//! The service's log lines. Each has fields and a stable dotted name, because operators' filters, queries and alarms
//! refer to the names. [`log!`](crate::log) writes a line, and accepts only names from this list. The table in
//! docs/operating.md is generated from the list: `UPDATE_DOCS=1 cargo test --test service -- docs::operating`.

use tracing::Level;

/// A kind of log line.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The subject and the event, such as `delivery.failed`. The name is the JSON line's `message`.
    pub name: &'static str,
    /// The level of all lines with this name.
    pub level: Level,
    /// The names of the line's fields. Fields without a value are omitted.
    pub fields: &'static [&'static str],
    /// An explanation for operators, with a remedy if there is one, as Markdown for docs/operating.md.
    pub about: &'static str,
}

/// Declares lines, each with its level, its name, its fields and its explanation.
macro_rules! lines {
    ($($level:ident $name:literal [$($field:ident),*] $about:literal)+) => {
        &[$(Line { name: $name, level: Level::$level, fields: &[$(stringify!($field)),*], about: $about }),+]
    };
}

/// All lines that the service writes, by subject.
pub const LINES: &[Line] = lines! {
    INFO "request.completed" [request_id, method, route, tenant, status, code, duration_ms]
        "The service responded to a request, possibly with HTTP 4xx, or with HTTP 503 after `aws.throttled` or \
         `transaction.contended`. `route` is the route as declared in the code, or `none`."
    ERROR "request.failed" [request_id, method, route, tenant, status, code, duration_ms, cause]
        "A request failed with HTTP 500. `cause` is the operation that failed, followed by its chain of errors."
    WARN "request.undetermined" [route, error]
        "A call with an `idempotency-key` failed, and so did the read that shows whether the call took effect. \
         The client can retry the call with the same key."
    ERROR "function.panicked" [panic]
        "The code panicked, which is a bug. The request or record fails, and the process continues. Report `panic`, \
         which includes the source line."
    ERROR "upkeep.failed" [with, error]
        "A secondary write failed, but the call itself, which is named in `with`, succeeded."
    WARN "aws.throttled" [doing]
        "An AWS service throttled a call and all of the SDK's retries. If this persists, look for a hot partition or \
         an account limit."
    WARN "transaction.contended" [doing]
        "Ten attempts at a transaction conflicted with other transactions on the same items. The caller can retry the \
         call."
    INFO "attempt.completed" [tenant, delivery_id, event, attempt, outcome, status, detail, duration_ms, traceparent]
        "An attempt ended. `outcome` is `delivered` or the reason for the failure. `detail` is the cause, such as an \
         expired certificate, and is absent if the receiver sent a status. `traceparent` comes from the job's event. \
         Attempts by clients of pull endpoints are not logged."
    WARN "attempt.delayed" [tenant, delivery_id, error]
        "The message for a resend or a test could not be sent. The sweep wakes the delivery."
    WARN "attempt.overdue" [tenant, delivery_id]
        "The sweep found an attempt whose message was lost, and sends another message. If this happens often, see \
         [overdue deliveries](#overdue-deliveries)."
    ERROR "descriptors.exhausted" [tenant, delivery_id]
        "No file descriptor was available for an attempt. The attempt is parked. [Lower \
         `MAX_CONCURRENT_ATTEMPTS`](#limits)."
    INFO "usage.recorded" [tenant, events, deliveries, attempts]
        "A batch of messages was handled. The counts are for one organization; see [usage](#usage)."
    WARN "delivery.failed" [tenant, delivery_id, attempts, reason]
        "A delivery failed permanently. If this happens often, see [failed deliveries](#failed-deliveries)."
    INFO "delivery.held" [tenant, delivery_id, attempts]
        "A delivery is held because its endpoint is inactive."
    INFO "delivery.ended" [tenant, delivery_id, attempts]
        "A delivery ended because its endpoint was deleted."
    ERROR "delivery.unlogged" [tenant, delivery_id]
        "The receiver got the delivery, but the delivery log could not record it. Look for throttling or errors on \
         the table."
    ERROR "delivery.unreadable" [tenant, delivery_id, error]
        "A delivery is unreadable. Lists and recoveries leave it out, and the sweep [checks it \
         again](#overdue-deliveries) every 15 minutes."
    ERROR "delivery.abandoned" [tenant, delivery_id]
        "The sweep could not read a delivery for a week and no longer checks it. A resend by its tenant wakes it."
    ERROR "delivery.resend_failed" [tenant, delivery_id, error]
        "A recovery could not resend a delivery. The recovery tries again in its next pass."
    WARN "deliveries.unread" [error, unread]
        "The sweep could not read deliveries because a partition was throttled. It will read them again. `unread` is \
         the number of deliveries."
    ERROR "deliveries.wake_failed" [tenant, error]
        "A tenant's overdue deliveries could not be woken. The sweep checks them again."
    ERROR "wake.incomplete" [messages]
        "SQS rejected messages from the sweep, which finds their deliveries again in 15 minutes. `messages` is the \
         number of messages."
    INFO "sweep.skipped" [sweeper]
        "Another invocation is already doing the work of this sweeper."
    ERROR "payload.missing" [tenant, delivery_id]
        "A delivery lacks its payload, so it cannot be sent. It fails when its next attempt is due or, at a pull \
         endpoint, three days after its event. Once its payload is restored, it can be resent."
    ERROR "payload.unreadable" [tenant, delivery_id, error]
        "A stored payload cannot be read. It counts as missing."
    WARN "receive.incomplete" [tenant, error]
        "A call to `deliveries/receive` returned fewer deliveries than were due. The next call returns the others."
    WARN "receive.unnoted" [tenant, error]
        "The time of a call to `deliveries/receive` could not be recorded on the endpoint. The call succeeded anyway."
    ERROR "message.malformed" [message_id, problem]
        "A message is not a valid job event and becomes a [dead letter](#dead-letters). `problem` gives the type and \
         position of the problem, never the content. Notify the producer."
    ERROR "message.refused" [code, cause]
        "SQS rejected a message in a batch. The message is resent immediately or by the sweep."
    ERROR "messages.unsent" [error]
        "A call to SQS failed, so a batch of messages was not sent. The batch is resent immediately or by the sweep."
    WARN "messages.delayed" [error]
        "SQS did not shorten the wait of messages that could not be processed. It redelivers them after three minutes."
    ERROR "record.failed" [message_id, cause]
        "A record could not be processed. SQS redelivers it; if it keeps failing, it becomes a [dead \
         letter](#dead-letters)."
    WARN "record.postponed" [message_id, error]
        "A record could not be processed because a table was throttled or busy. SQS redelivers it, as after \
         `record.failed`."
    ERROR "record.panicked" [message_id, panic]
        "The code panicked while processing a record, which is a bug. SQS redelivers the record, as after \
         `record.failed`."
    WARN "event.unchecked" [tenant, error]
        "A late event was delivered although the delivery log could not confirm that it was new."
    ERROR "log.state_refused" [code, cause]
        "DynamoDB rejected the state of a delivery. It is written again in a separate call, or SQS redelivers its record."
    ERROR "log.states_unwritten" [error]
        "The states of a batch of deliveries could not be written. They are written again, or SQS redelivers their records."
    WARN "drain.overdue" [tenant]
        "The sweep found a drain whose message was lost, and sends another message."
    WARN "drain.failed" [tenant, error]
        "A drain could not read or write the delivery log. It continues after five seconds, and the attempts stay \
         parked until then."
    WARN "log.parked_left" [error]
        "The rows of parked attempts could not be deleted after the attempts. The next round of the drain deletes them."
    ERROR "log.index_failed" [tenant, error]
        "Deliveries could not be added to the index of jobs. They are found anyway, but more slowly. The next sweep tries \
         again for `tenant`; without it, later deliveries request the index again."
    ERROR "log.index_unreadable" [tenant, item, error]
        "An item of the index of jobs cannot be read. Deliveries are found and counted without it, but more slowly. Repair \
         the item, whose sort key is `item`."
    ERROR "log.rows_unwritten" [error, rows]
        "Rows could not be written to the delivery log. The caller retries or reports its own failure. `rows` is the \
         number of rows."
    ERROR "log.unread" [error, unread]
        "Items of the delivery log could not be read. SQS redelivers their records. `unread` is the number of items."
    ERROR "log.spread_failed" [tenant, endpoint, error]
        "A busy endpoint's delivery log could not be spread over more partitions. The next batch tries again."
    WARN "endpoint.failing" [tenant, endpoint]
        "An endpoint started to fail. Its organization gets an email."
    INFO "endpoint.recovered" [tenant, endpoint]
        "A failing endpoint works again. Its organization had been notified of the failure and gets another email."
    WARN "endpoint.disabled" [tenant, endpoint, reason]
        "An endpoint kept failing or responded with HTTP 410, so the service disabled it. If this happens often, see \
         [failing endpoints](#failing-endpoints)."
    ERROR "endpoint.unreadable" [endpoint, error]
        "A stored endpoint cannot be read, so nothing is delivered to it, and its recoveries and emails wait. Repair its \
         item. Other endpoints are not affected."
    WARN "endpoint.health_unnoted" [tenant, endpoint, error]
        "An attempt's result could not be recorded on its endpoint. The next attempt will record its result."
    ERROR "endpoints.unread" [tenant, error]
        "A tenant's endpoints could not be read. SQS redelivers the records of its events."
    WARN "recovery.delayed" [tenant, recovery_id, error]
        "The message for a new recovery could not be sent. The next sweep begins the recovery."
    ERROR "endpoint.unended" [tenant, endpoint, error]
        "The deliveries of a deleted endpoint could not be ended. The next sweep tries again."
    ERROR "ending.unreadable" [partition, error]
        "The item of a deleted endpoint cannot be read, so its deliveries end later. Repair or delete the item."
    ERROR "recovery.failed" [tenant, recovery_id, error]
        "A recovery was interrupted. It resumes a minute later."
    ERROR "recovery.unreadable" [partition, error]
        "A stored recovery cannot be read and does not continue. Repair or delete its item."
    ERROR "purge.failed" [tenant, error]
        "The data of a [deleted organization](#a-deleted-organization) could not be deleted. The next pass tries again."
    WARN "purge.throttled" [tenant]
        "The purge of a long delivery log was throttled. The next pass continues it."
    INFO "organization.purged" [tenant]
        "All of a deleted organization's data has been removed."
    ERROR "email.failed" [about, error]
        "SES rejected an email or did not respond. `about` is the id of the user, organization or invitation. Check \
         the quota, the sandbox and the identity."
    WARN "email.withheld" [user]
        "An email about a sign-up, an account change or an invitation was not sent, because its address had reached the \
         limit. `user` is the account that it was about, or the inviter."
    INFO "email.stopped" [about]
        "An email of an organization was not sent, because the owner of the address stopped them. `about` is the id of the \
         organization."
    INFO "notifications.withheld" [tenant]
        "A notification was not sent, because the owner of its address has not agreed to notifications, and the address \
         had reached the limit."
    INFO "email.suppressed" [about, cause]
        "An unrequested email was not sent, because an earlier email to the address bounced (`bounce`) or was reported \
         as spam (`complaint`)."
    WARN "email.returned" [cause]
        "SES reported that an email bounced permanently or was reported as spam. For 30 days or a year, the address \
         gets only requested emails."
    ERROR "email.uncounted" [user, error]
        "An email about a sign-up or an account change was sent without being counted toward its address's limit."
    ERROR "notice.email_failed" [tenant, endpoint, error]
        "SES rejected an email about an endpoint or did not respond. The service retries for a day."
    ERROR "notice.failed" [tenant, endpoint, error]
        "A notice could not be read or written. The next sweep tries again."
    WARN "notice.quota_reached" [tenant, endpoint]
        "An organization has reached its daily limit of emails about endpoints. No more are sent until midnight UTC."
    ERROR "notice.abandoned" [tenant, endpoint]
        "An email about an endpoint could not be sent for a day. The organization's notification address may be wrong."
    ERROR "job_failures.unnoted" [tenant, error]
        "Failed jobs could not be recorded. SQS redelivers their records."
    INFO "job_failures.reported" [tenant, workflow, failures]
        "An organization got an email about failed jobs. `failures` is the number of failures, and `workflow` is a \
         hash of the workflow's name."
    INFO "job_failures.unreported" [tenant, workflow, reason]
        "An organization was not emailed about failed jobs. `reason` is [`disabled`, `unverified`, `suppressed`, \
         `stopped`, `limited` or `deleted`](#failed-jobs)."
    WARN "job_failures.quota_reached" [tenant]
        "An organization got its last email about failed jobs before midnight UTC."
    ERROR "job_failures.email_failed" [tenant, workflow, error]
        "An email about failed jobs could not be sent. The service retries for two days."
    ERROR "job_failures.failed" [tenant, workflow, error]
        "A workflow's failures could not be read or written. The next sweep tries again."
    ERROR "job_failures.abandoned" [tenant, workflow]
        "An email about failed jobs could not be sent for two days. The organization's notification address may be \
         wrong."
};

/// Returns the level of lines with this name. [`log!`](crate::log) evaluates this function at compile time, so a name
/// that is not in the list is a compile-time error.
#[expect(clippy::indexing_slicing, clippy::panic, reason = "it is evaluated at compile time")]
pub const fn level(name: &str) -> Level {
    let mut index = 0;
    while index < LINES.len() {
        if is_same(LINES[index].name.as_bytes(), name.as_bytes()) {
            return LINES[index].level;
        }
        index += 1;
    }
    panic!("common::telemetry::line::LINES has no line with this name")
}

/// Compares byte strings, because `==` is not `const`.
const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([first, left @ ..], [second, rest @ ..]) = (one, other) {
        if *first != *second {
            return false;
        }
        (one, other) = (left, rest);
    }
    one.is_empty() && other.is_empty()
}

/// Writes a line from the [list](crate::telemetry::line::LINES), with its fields in `tracing` syntax:
/// `log!("endpoint.failing", %tenant, %endpoint)`.
#[macro_export]
macro_rules! log {
    ($name:literal $(, $($fields:tt)+)?) => {
        $crate::telemetry::tracing::event!(
            name: $name,
            (const { $crate::telemetry::line::level($name) }),
            message = $name,
            $($($fields)+)?
        )
    };
}
