#!/usr/bin/env python3
"""Shows that the simulation finds mistakes: makes them, one at a time, and runs the simulation on each.

Each mutation is a possible mistake in the delivery protocol. It is made in a copy of the sources, in
`target/mutations/`, never in the tree itself. The simulation then aims faults at its small worlds, runs the seeds from 0
on, and goes through an hour without receivers, until something violates an invariant. First of all, the sources as they are
must pass. With `AIMED=slow`, only worlds of that name are aimed at, and with `--seeds 0` no seeds are run.

    python3 tests/simulation/mutations.py                     all of them; prints a table
    python3 tests/simulation/mutations.py postponed notice     those with one of these words in their names
    python3 tests/simulation/mutations.py --seeds 20000       runs more seeds
    python3 tests/simulation/mutations.py --write             puts the table into tests/simulation/mutations.md
    python3 tests/simulation/mutations.py --check             only whether each can be made and compiles
    AIMED=none python3 tests/simulation/mutations.py --seeds 0 pull    those of pull endpoints, with takers and the hour
    python3 tests/simulation/mutations.py --quotes            only whether each quotes the code as it is; a test runs this
    python3 tests/simulation/mutations.py --list              only the names

It fails if a mutation is not found, cannot be made or does not compile. A mutation quotes the lines that it changes: if
they change, the quote has to follow.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPY = ROOT / "target" / "mutations"
DOCUMENT = ROOT / "tests" / "simulation" / "mutations.md"
BEGIN, END = "<!-- mutations -->", "<!-- /mutations -->"
# In seconds.
BUILD_TIME = 60 * 60
RUN_TIME = 60 * 60

DELIVER = "functions/webhooks-deliver/src/"
WAKE = "functions/deliveries-wake/src/"
WEBHOOKS = "common/src/webhooks/"


@dataclass
class Mutation:
    """A mistake: `old` becomes `new`. `shows` says what has to happen for the mistake to matter."""

    name: str
    file: str
    old: str
    new: str
    shows: str


MUTATIONS = [
    # Faults that the simulation found, made again.
    Mutation(
        "two copies of an event in one batch make its statements invalid",
        DELIVER + "ledger.rs",
        "!begun.insert((ended.due.tenant.clone(), after.id));",
        "!begun.insert((ended.due.tenant.clone(), after.id)) && false;",
        "an event comes twice in a batch, and its receiver fails",
    ),
    Mutation(
        "a copy of an event that comes minutes later is handled as a new event",
        DELIVER + "fresh.rs",
        "if record.is_repeated || now.since(event.at) > LATE {",
        "if record.is_repeated || now.since(event.at) > LATE * 1000 {",
        "SQS hands over a copy late",
    ),
    # Stored items, and their order.
    Mutation(
        "a record is acknowledged although its rows were not written",
        DELIVER + "ledger.rs",
        "(_, Err(_)) => return Err(Error::Busy),",
        "(_, Err(_)) => return Ok(None),",
        "the table is down when an attempt has failed",
    ),
    Mutation(
        "the state of a new delivery is written before its rows",
        DELIVER + "ledger.rs",
        "        self.write_rows(&mut entries, now).await;\n        self.begin(&mut entries, now).await;\n",
        "        self.begin(&mut entries, now).await;\n        self.write_rows(&mut entries, now).await;\n",
        "a process dies between the two writes",
    ),
    Mutation(
        "rows that DynamoDB leaves out of a batch count as written",
        "common/src/aws/batch.rs",
        "Ok(answer) => answer.unprocessed_items.unwrap_or_default().remove(table).unwrap_or_default(),",
        "Ok(_) => Vec::new(),",
        "a batched write is done in part",
    ),
    Mutation(
        "a new state that was refused counts as there already",
        WEBHOOKS + "log/states.rs",
        "Some(error) if error.code == Some(DuplicateItem) => Ok(false),",
        "Some(error) if error.code.is_some() => Ok(false),",
        "a statement of a batch is throttled",
    ),
    Mutation(
        "the lost answer to a change of state is taken for another process's change",
        DELIVER + "ledger.rs",
        """\
            if current.attempts == after.attempts && current.last_attempt == after.last_attempt {
                // The answer to this very write was lost.
                return Ok(Some(current));
            }
""",
        "",
        "the answer to the write after a last attempt is lost, so its endpoint does not become failing",
    ),
    Mutation(
        "an attempt that failed late overwrites a newer state",
        WEBHOOKS + "log/states.rs",
        "if after.status == Status::Delivered {",
        "if after.status != Status::Failed {",
        "a write takes effect long after it was made again, or two make the same attempt",
    ),
    Mutation(
        "a success is not stored if another attempt came first",
        WEBHOOKS + "log/states.rs",
        """\
        if after.status == Status::Delivered {
            update = update.only_if(DELIVERY.exists());
        } else {
""",
        """\
        {
""",
        "of two that make the same attempt, the one that fails is first, and all later ones fail",
    ),
    Mutation(
        "the time of an event is when it was received",
        DELIVER + "record.rs",
        'let sent_at = attribute(record, "SentTimestamp").map_or_else(Timestamp::now, Timestamp::from_millisecond);',
        'let sent_at = attribute(record, "SentTimestamp").map_or_else(Timestamp::now, |_: i64| Timestamp::now());',
        "an event comes twice",
    ),
    Mutation(
        "a record that comes for the second time is handled as a new one",
        DELIVER + "record.rs",
        "is_some_and(|receives| receives > 1)",
        "is_some_and(|receives| receives > 2)",
        "a process dies between a last attempt and the note about its endpoint",
    ),
    Mutation(
        "a last attempt that comes back does not note what follows for the endpoint",
        WEBHOOKS + "delivery/state.rs",
        "(self.attempts..=self.attempts.saturating_add(1)).contains(&attempt)",
        "attempt == self.attempts.saturating_add(1)",
        "a process dies between a last attempt and the note about its endpoint",
    ),
    Mutation(
        "a message stays marked as in progress",
        DELIVER + "under_way.rs",
        "PoisonError::into_inner).remove(&self.message);",
        "PoisonError::into_inner).contains(&self.message);",
        "a process gets a parked event for the second time",
    ),
    Mutation(
        "an event whose endpoints cannot be read has none",
        DELIVER + "batch.rs",
        "cell.get_or_init(async || self.reads.endpoints(tenant, stores).await).await.clone().ok_or(Error::Busy)",
        "Ok(cell.get_or_init(async || self.reads.endpoints(tenant, stores).await).await.clone().unwrap_or_default())",
        "the table of endpoints is down when an event comes",
    ),
    # Slow receivers.
    Mutation(
        "a first attempt that is postponed has no payload",
        DELIVER + "ledger.rs",
        "payload: is_in_state.then_some(&due.payload) }",
        "payload: is_in_state.then_some(&due.payload).filter(|_| after.status == Status::Held) }",
        "a receiver does not answer soon",
    ),
    Mutation(
        "a delivery that waits loses its payload when it is resent",
        WEBHOOKS + "log/resend.rs",
        ".filter(|_| is_moved)",
        ".filter(|_| before.pull.is_none())",
        "a delivery is resent before its first attempt",
    ),
    Mutation(
        "an attempt in the shared queues is never cut off",
        DELIVER + "standing.rs",
        "Queue::Shared => Some(SOON),",
        "Queue::Shared => None,",
        "a receiver does not answer",
    ),
    Mutation(
        "an attempt that is postponed for long has no due row",
        DELIVER + "plan.rs",
        "const UNNOTED: Duration = Duration::from_secs(5 * 60);",
        "const UNNOTED: Duration = Duration::from_secs(500 * 60);",
        "a receiver hangs for so long that an attempt waits for longer than a message can",
    ),
    Mutation(
        "the messages of deliveries that wait are not sent again",
        DELIVER + "fresh.rs",
        "ledger.stores.queues.send(Queue::Shared, &waiting, now)",
        "ledger.stores.queues.send(Queue::Shared, waiting.get(..0).unwrap_or_default(), now)",
        "a process dies between the state of a delivery that waits and its message",
    ),
    Mutation(
        "a delivery that the log has already counts as begun",
        DELIVER + "ledger.rs",
        "            entry.written = begun;",
        "            entry.written = begun.map(|_| true);",
        "an event comes twice, and its receiver does not answer soon",
    ),
    Mutation(
        "a postponed attempt counts as the last one",
        DELIVER + "ledger.rs",
        "            // The delivery has been resent meanwhile",
        "            if matches!(ended.result, AttemptResult::Postponed(_)) {\n                return Ok(None);\n            }\n            // The delivery has been resent meanwhile",
        "a delivery is resent while its attempt is postponed",
    ),
    Mutation(
        "an attempt that is postponed waits in the shared queue",
        DELIVER + "sender.rs",
        "                return outgoing.ended(AttemptResult::Postponed(until), queue);",
        "                return outgoing.ended(AttemptResult::Postponed(until.after(Duration::from_secs(400))), queue);",
        "a receiver is slow",
    ),
    Mutation(
        "a retry is cut off and taken for delivered",
        DELIVER + "sender.rs",
        "            Err(NotPosted::Cut) => {",
        "            Err(NotPosted::Cut) if outgoing.due.is_stored => return outgoing.ended(AttemptResult::Inactive, queue),\n            Err(NotPosted::Cut) => {",
        "a receiver answers soon at first, and takes its time for the next attempt",
    ),
    Mutation(
        "an attempt that is cut off ends its delivery",
        DELIVER + "sender.rs",
        "return outgoing.ended(AttemptResult::Postponed(Timestamp::now()), Queue::Hanging);",
        "return outgoing.ended(AttemptResult::NoEndpoint, Queue::Hanging);",
        "a receiver does not answer soon",
    ),
    Mutation(
        "a retry that is cut off forgets that it is due",
        DELIVER + "ledger.rs",
        "(Plan::Requeue, _) | (Plan::Begin { .. }, Ok(true)) => after.clone(),",
        "(Plan::Requeue, _) => return Ok(None),\n            (Plan::Begin { .. }, Ok(true)) => after.clone(),",
        "a receiver answers soon at first, and takes its time for the next attempt",
    ),
    Mutation(
        "the sweep wakes no slow receiver's long waits",
        WAKE + "sweep.rs",
        "for queue in Queue::ALL {",
        "for queue in [Queue::Shared] {",
        "a receiver is slow, and a delay of the schedule is longer than a message can wait",
    ),
    Mutation(
        "the sweep finds no lost message of a slow receiver",
        WAKE + "sweep.rs",
        "filter(|(_, state)| is_overdue(state, now));",
        "filter(|(row, state)| !row.is_slow && is_overdue(state, now));",
        "the message for a slow receiver cannot be sent",
    ),
    # Parked events.
    Mutation(
        "a record is acknowledged although its message was not sent",
        DELIVER + "ledger.rs",
        "undone.extend(sent.filter_map(",
        "undone.extend(sent.take(0).filter_map(",
        "the queue is down when an attempt is postponed",
    ),
    Mutation(
        "messages that SQS refuses count as sent",
        WEBHOOKS + "queue.rs",
        "        if let Some(sent) = refused {\n            *sent = Err(Error::Busy);\n",
        "        if let Some(sent) = refused {\n            *sent = Ok(());\n",
        "a batch of messages is done in part",
    ),
    # The schedule.
    Mutation(
        "an attempt that would be too late is not made earlier",
        WEBHOOKS + "delivery/outcome.rs",
        "_ if left <= LAST_HOURS => Step::Failed,",
        "_ if left <= MAX_AGE => Step::Failed,",
        "the schedule ends in the last hours of three days",
    ),
    Mutation(
        "retries have no jitter",
        WEBHOOKS + "delivery/outcome.rs",
        "let delay = scheduled.max(asked).mul_f64(1.0 + JITTER * jitter);",
        "let delay = scheduled.max(asked);",
        "deliveries that failed together",
    ),
    Mutation(
        "the first delay of the schedule counts twice",
        WEBHOOKS + "delivery/outcome.rs",
        "match (failure, schedule.get(index)) {",
        "match (failure, schedule.get(index.saturating_sub(1))) {",
        "a delivery fails to the end",
    ),
    Mutation(
        "a delivery fails one attempt too soon",
        WEBHOOKS + "delivery/outcome.rs",
        "usize::try_from(attempt.saturating_sub(1))",
        "usize::try_from(attempt)",
        "a delivery fails to the end",
    ),
    Mutation(
        "a delay counts from the beginning of an attempt and not from its end",
        WEBHOOKS + "delivery/state.rs",
        "Step::RetryAfter(delay) => (Status::Pending, Some(now.after(delay))),",
        "Step::RetryAfter(delay) => (Status::Pending, Some(attempt.at.after(delay))),",
        "an attempt takes long to fail",
    ),
    Mutation(
        "Retry-After is ignored with a 503",
        WEBHOOKS + "delivery/outcome.rs",
        "Failure::Status(429 | 503, Some(asked)) => asked.min(MAX_RETRY_AFTER),",
        "Failure::Status(429, Some(asked)) => asked.min(MAX_RETRY_AFTER),",
        "a receiver asks for more time than the schedule gives it",
    ),
    Mutation(
        "a resend goes on with the schedule that had ended",
        WEBHOOKS + "delivery/state.rs",
        """\
            tries: 0,
            trigger,
""",
        """\
            trigger,
""",
        "a failed delivery is resent, and fails again",
    ),
    # Resends, and the sweep.
    Mutation(
        "the message of a resend is taken for a stale one",
        DELIVER + "retry.rs",
        "let is_next = DueAttempt::next(&due.tenant, delivery) == *due;",
        "let is_next = delivery.tries.saturating_add(1) == due.attempt;",
        "a delivery is resent",
    ),
    Mutation(
        "a resend writes no due row",
        WEBHOOKS + "log/resend.rs",
        ".chain([self.due_row(tenant, &after, Queue::Shared, now)])\n",
        "\n",
        "the message of a resend cannot be sent",
    ),
    Mutation(
        "a delivered delivery loses its payload when it is resent",
        WEBHOOKS + "log/resend.rs",
        "let payload = is_moved.then(|| self.payload_row(tenant, id, &payload, now));",
        "let payload = None;",
        "a delivery that succeeded at once, or was held, is resent",
    ),
    Mutation(
        "the sweep checks only the long waits",
        WAKE + "sweep.rs",
        "self.log.all_due(minute, partition, next).await?",
        "self.log.waits(minute, partition, next).await?",
        "the message of a resend or a test cannot be sent",
    ),
    Mutation(
        "an attempt counts as overdue only after its minute was checked",
        WAKE + "sweep.rs",
        "const OVERDUE: Duration = Duration::from_secs(10 * 60);",
        "const OVERDUE: Duration = Duration::from_secs(20 * 60);",
        "the message of a resend or a test cannot be sent",
    ),
    Mutation(
        "due rows go to one partition more than the sweep reads",
        WEBHOOKS + "log/due.rs",
        "id.webhook_id.shard(PARTITIONS)",
        "id.webhook_id.shard(PARTITIONS + 1)",
        "one delivery in 17 waits for longer than a message can",
    ),
    Mutation(
        "a sweeper sweeps half of its partitions",
        WEBHOOKS + "log/due.rs",
        "(self.0..PARTITIONS).step_by(SWEEPERS.into())",
        "(self.0..PARTITIONS).step_by(2 * usize::from(SWEEPERS))",
        "one delivery in two waits for longer than a message can",
    ),
    Mutation(
        "the sweep does not wake the long waits",
        WAKE + "sweep.rs",
        "refused += self.send(&due, queue, now, end).await;",
        "let _asleep = (due, queue);",
        "a delay of the schedule is longer than a message can wait, and its attempt comes a quarter of an hour late",
    ),
    # Endpoints, and what their tenants are told.
    Mutation(
        "an endpoint that is inactive still gets retries",
        DELIVER + "outgoing.rs",
        "endpoint.is_active() || self.is_test()",
        "endpoint.is_active() || self.due.delivery.trigger != Trigger::Event",
        "an endpoint is made inactive while a delivery to it waits",
    ),
    # Held deliveries.
    Mutation(
        "an event for an inactive endpoint is not held",
        DELIVER + "fresh.rs",
        "endpoint.takes_events(ledger.stores.hold_for, now)",
        "endpoint.is_active()",
        "an event comes while an endpoint is inactive",
    ),
    Mutation(
        "held deliveries go out by themselves once their endpoint is active",
        DELIVER + "outgoing.rs",
        "(None, Some(_)) => Some(AttemptResult::Inactive),",
        "(None, Some(_)) => Some(AttemptResult::Postponed(common::timestamp::Timestamp::now().after(std::time::Duration::from_secs(600)))),",
        "an event comes while an endpoint is inactive, and the endpoint is made active again",
    ),
    Mutation(
        "a delivery that is pending when its endpoint becomes inactive ends",
        DELIVER + "retry.rs",
        "batch.endpoint(&due.tenant, id, record.queue, &ledger.stores).await?,",
        "batch.endpoint(&due.tenant, id, record.queue, &ledger.stores).await?.filter(|it| it.is_active()),",
        "an endpoint is made inactive while a delivery to it waits",
    ),
    Mutation(
        "a delivery that is held at once has no payload",
        DELIVER + "ledger.rs",
        "payload: is_in_state.then_some(&due.payload) }",
        "payload: is_in_state.then_some(&due.payload).filter(|_| after.status != Status::Held) }",
        "deliveries held at once are recovered",
    ),
    Mutation(
        "a recovery leaves out held deliveries",
        WEBHOOKS + "log/recovery.rs",
        "Missed::Both => &[Status::Failed, Status::Held],",
        "Missed::Both => &[Status::Failed],",
        "held deliveries are recovered",
    ),
    Mutation(
        "410 disables only an endpoint that was failing before",
        WEBHOOKS + "endpoints/health.rs",
        """\
        _ if attempt.status_code == Some(410) => Some(Consequence::Disabled(DisabledReason::Gone)),
        None => Some(Consequence::Failing),
""",
        """\
        None => Some(Consequence::Failing),
        Some(_) if attempt.status_code == Some(410) => Some(Consequence::Disabled(DisabledReason::Gone)),
""",
        "a receiver answers 410",
    ),
    Mutation(
        "an endpoint is disabled at once where it should never be",
        WEBHOOKS + "endpoints/health.rs",
        "let is_over = !disable_after.is_zero() && attempt.at.since(since) >= disable_after;",
        "let is_over = attempt.at.since(since) >= disable_after;",
        "DISABLE_AFTER is 0",
    ),
    Mutation(
        "a test that fails counts against its endpoint",
        WEBHOOKS + "endpoints/health.rs",
        "delivery.last_attempt.as_ref().filter(|_| delivery.event.is_of_a_job());",
        "delivery.last_attempt.as_ref();",
        "a test fails before any delivery has failed",
    ),
    Mutation(
        "a success ends the failing of an endpoint only if it had not answered",
        DELIVER + "news.rs",
        "Shown::Success if health.is_impaired() => Some(News::Answered),",
        "Shown::Success if health.unanswered_since.is_some() => Some(News::Answered),",
        "a receiver answers with errors to the end of a schedule, and then takes a delivery",
    ),
    Mutation(
        "an endpoint that is activated again is still called disabled",
        WEBHOOKS + "endpoints/records.rs",
        """\
            update = update.set(HEALTHY_AT, number(now.as_millisecond())).remove(DISABLED);
            update = update.remove([FAILING_SINCE, INACTIVE_SINCE]);
""",
        """\
            update = update.set(HEALTHY_AT, number(now.as_millisecond())).remove([FAILING_SINCE]);
""",
        "an endpoint that was disabled is activated again",
    ),
    Mutation(
        "a notice that could not be sent is dropped",
        WAKE + "notices.rs",
        """\
                        common::log!("notice.email_failed", %tenant, %endpoint, ?error);
                        Ok(())
""",
        """\
                        common::log!("notice.email_failed", %tenant, %endpoint, ?error);
                        self.endpoints.settle_notice(tenant, &notice, None).await
""",
        "no mail can be sent when an endpoint begins to fail",
    ),
    Mutation(
        "a notice that was sent stays pending",
        WEBHOOKS + "endpoints/notice.rs",
        ".remove([NOTICE, NOTICE_AT, NOTICE_TRIES])",
        ".remove([NOTICE, NOTICE_AT, NOTICE_TRIES].into_iter().filter(|_| mailed_at.is_none()))",
        "an endpoint is disabled",
    ),
    Mutation(
        "a mail soon after another one is dropped, whatever it says",
        WEBHOOKS + "endpoints/notice.rs",
        "(_, None) if self.mailed_at.is_some_and(is_soon) => Step::Wait,",
        "_ if self.mailed_at.is_some_and(is_soon) => Step::Drop,",
        "an endpoint is disabled soon after it began to fail",
    ),
    # Faults that only an outage of all receivers shows.
    Mutation(
        "a slow receiver is never good again",
        DELIVER + "standing.rs",
        "now.since(since) < PROBATION || recorded >= Some(since) {",
        "now.since(since) < PROBATION || recorded.is_some() {",
        "a receiver comes back after it was slow, and new events come for it",
    ),
    Mutation(
        "a receiver that refuses counts as one that hangs",
        DELIVER + "standing.rs",
        "let hangs = now.since(began) > ANSWERS || outcome == Outcome::Failed(Failure::Timeout);",
        "let hangs = outcome != Outcome::Delivered(200);",
        "a receiver refuses for long, and comes back",
    ),
    Mutation(
        "attempts that failed are not counted",
        DELIVER + "observe.rs",
        "for (reason, number) in failed {",
        "for (reason, number) in failed.into_iter().take(0) {",
        "most attempts fail",
    ),
    Mutation(
        "a delivery that is not due yet counts as overdue",
        WAKE + "sweep.rs",
        "delivery.wakes_at().is_some_and(|at| now.since(at) > OVERDUE)",
        "delivery.wakes_at().is_some_and(|at| now.since(at) > OVERDUE || now < at)",
        "a delivery waits for its next attempt when the row of the one before is checked",
    ),
    Mutation(
        "a sweep does not ask whether another one is in progress",
        WEBHOOKS + "log/due.rs",
        ".only_if(is_free.or(LEASE.equals(lease)));",
        ".only_if(is_free.or(LEASE.equals(lease)).or(TAKEN_UNTIL.exists()));",
        "two sweeps run at the same time",
    ),
    Mutation(
        "the deliveries that a sweep wakes come all at once",
        WAKE + "sweep.rs",
        "if at < now { at.after(MINUTE) } else { at }",
        "if at < now { at } else { at }",
        "most of a minute's long waits have ended when its sweep comes",
    ),
    # Secrets and ids.
    Mutation(
        "the previous secret signs for ever",
        WEBHOOKS + "destination/signing.rs",
        "let previous = self.previous.filter(|previous| now < previous.expires_at);",
        "let previous = self.previous;",
        "an attempt is made after the overlap",
    ),
    Mutation(
        "the previous secret is not read",
        WEBHOOKS + "endpoints/records.rs",
        "SIGNING_SECRET, PREVIOUS_SECRET, PREVIOUS_SECRET_EXPIRES_AT, HEADERS,",
        "SIGNING_SECRET, CREATED_AT, DESCRIPTION, HEADERS,",
        "an attempt is made within the overlap",
    ),
    Mutation(
        "a rotation that is made twice forgets the secret before it",
        WEBHOOKS + "endpoints/records.rs",
        "Rotation::To => update.only_if(SIGNING_SECRET.differs_from(secret)),",
        "Rotation::To => update,",
        "the answer to a rotation is lost",
    ),
    Mutation(
        "a resend has a webhook-id of its own",
        DELIVER + "sender.rs",
        "            id: due.delivery.webhook_id,\n",
        "            id: if due.delivery.trigger == common::webhooks::delivery::Trigger::Resend {\n                common::webhooks::delivery::WebhookId::unique()\n            } else {\n                due.delivery.webhook_id\n            },\n",
        "a delivery is resent",
    ),
    # Destinations, and their entries in the log.
    Mutation(
        "the endpoints of one tenant get the events of all tenants of a batch",
        DELIVER + "batch.rs",
        "PoisonError::into_inner).entry(tenant.clone()).or_default(),",
        'PoisonError::into_inner).entry("all".parse().unwrap_or_else(|_| tenant.clone())).or_default(),',
        "events of two tenants come together",
    ),
    Mutation(
        "an endpoint gets events that it does not want",
        DELIVER + "fresh.rs",
        "let interested = endpoints.iter().filter(|endpoint| endpoint.wants(event.name));",
        "let interested = endpoints.iter();",
        "an endpoint wants only some events",
    ),
    Mutation(
        "a job that skips its callbacks still calls back",
        WEBHOOKS + "event/job_event.rs",
        'Some("true") => return Ok(Audience::Nobody),',
        'Some("true") if self.last("callback_url").is_none() => return Ok(Audience::Nobody),\n'
        '            Some("true") => {}',
        "an event has a callback and skips it",
    ),
    Mutation(
        "a redirect counts as a success",
        WEBHOOKS + "post/answer.rs",
        "if !status.is_success() {",
        "if status.is_client_error() || status.is_server_error() {",
        "a receiver answers 302",
    ),
    Mutation(
        "a 2xx that breaks off counts as a success",
        WEBHOOKS + "post/answer.rs",
        "Err(error) => return Err(error),",
        "Err(_) => break,",
        "a receiver closes the connection in the middle of its answer",
    ),
    Mutation(
        "the numbers of one shard overwrite those of another",
        WEBHOOKS + "log/count.rs",
        "sum.total += part.total;",
        "sum.total = part.total;",
        "a tenant has deliveries to two endpoints",
    ),
    Mutation(
        "a page of a list leaves out the delivery where it ends",
        WEBHOOKS + "log/search.rs",
        "end.as_ref().is_none_or(|end| at >= end)",
        "end.as_ref().is_none_or(|end| at > end)",
        "a list has more than one page",
    ),

    # Pull endpoints.
    Mutation(
        "pull: a lease does not ask whether another client was faster",
        WEBHOOKS + "log/pull.rs",
        "let update = update.only_if(DUE.equals(number(due.as_millisecond())));",
        "let update = update.only_if(DUE.exists());",
        "two takers ask at the same time",
    ),
    Mutation(
        "pull: a settlement does not look at the lease",
        "functions/deliveries-settle/src/lib.rs",
        "Claim::Over => return Ok(verdict(Verdict::LeaseExpired, None)),",
        "Claim::Over => self.after(&was, settlement, endpoint, now),",
        "a taker settles late",
    ),
    Mutation(
        "pull: a leased delivery does not come back",
        WEBHOOKS + "log/pull.rs",
        "let pull = Pull { due: Some(ends), lease:",
        "let pull = Pull { due: Some(ends.after(Duration::from_secs(1_000_000))), lease:",
        "a taker dies",
    ),
    Mutation(
        "pull: a failed delivery cannot be received again",
        WEBHOOKS + "delivery/state.rs",
        "pull: self.pull.as_ref().map(|pull| pull.settled(next_attempt_at)),",
        "pull: self.pull.as_ref().map(|pull| pull.settled(None)),",
        "a receiver fails",
    ),
    Mutation(
        "pull: a settlement whose answer was lost is refused when it is repeated",
        WEBHOOKS + "delivery/state.rs",
        "Some(Lease { ends: None, .. }) => Claim::Settled,",
        "Some(Lease { ends: None, .. }) => Claim::Over,",
        "a taker settles twice",
    ),
    Mutation(
        "pull: a resent delivery cannot be taken",
        WEBHOOKS + "delivery/state.rs",
        "pull: self.pull.map(|_| Pull { due: Some(due), lease: None }),",
        "pull: self.pull.map(|_| Pull { due: None, lease: None }),",
        "a delivery is resent",
    ),
]


class Broken(Exception):
    """The mutation is at fault, and not the code."""


def listed():
    """The files of the tree, also those that are not committed yet."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {Path(file) for file in files.split("\0") if file and (ROOT / file).is_file()}


def copy():
    """Brings the copy up to date. A file that has not changed is left alone, so that it need not be built again."""
    files = listed()
    for file in files:
        here, there = ROOT / file, COPY / file
        if not there.is_file() or there.read_bytes() != here.read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, there)
    for folder, folders, names in os.walk(COPY):
        if Path(folder) == COPY and "target" in folders:
            folders.remove("target")
        for file in (Path(folder, name) for name in names):
            if file.relative_to(COPY) not in files:
                remove(file)


def remove(file):
    """Removes a file, and folders that are then empty: Cargo takes a folder for a crate."""
    file.unlink()
    for folder in file.parents:
        if folder == COPY or any(folder.iterdir()):
            return
        folder.rmdir()


def cargo(arguments, timeout, **variables):
    """Runs cargo in the copy. Returns whether it succeeded, and what it printed: `None` if it took too long."""
    variables = os.environ | {"CARGO_TARGET_DIR": str(COPY / "target"), "CARGO_TERM_COLOR": "never"} | variables
    process = subprocess.Popen(
        ["cargo", *arguments],
        cwd=COPY,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        return process.returncode == 0, output
    except subprocess.TimeoutExpired:
        return False, None
    finally:
        if process.poll() is None:
            # Cargo, and the processes that it has started.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def errors(output):
    """The compiler's errors, without its warnings."""
    found = re.findall(r"^error.*?(?=\n\n|\Z)", output or "error: it took too long", re.MULTILINE | re.DOTALL)
    return "\n".join(found) or output


def mutated(text, mutation):
    """The text of a file with the mutation in it."""
    times = text.count(mutation.old)
    if times != 1:
        raise Broken(f"its quote is {times} times in {mutation.file}, and not once:\n{mutation.old}")
    return text.replace(mutation.old, mutation.new)


def quotes(mutation):
    """Fails unless the quote of the mutation is in the tree, once."""
    file = ROOT / mutation.file
    if not file.is_file():
        sys.exit(f"{mutation.name}: there is no {mutation.file}")
    try:
        mutated(file.read_text(encoding="utf-8"), mutation)
    except Broken as reason:
        sys.exit(f"{mutation.name}: {reason}")


def within(mutation, act):
    """Returns what `act` returns while the copy has the mutation."""
    file = COPY / mutation.file
    if not file.is_file():
        raise Broken(f"there is no {mutation.file}")
    text = file.read_text(encoding="utf-8")
    other = mutated(text, mutation)
    try:
        file.write_text(other, encoding="utf-8")
        return act()
    finally:
        file.write_text(text, encoding="utf-8")


def check(mutation):
    """Compiles the crate of the mutation."""
    parts = Path(mutation.file).parts
    crate = parts[1] if parts[0] == "functions" else parts[0]
    is_good, output = cargo(["check", "--locked", "--package", crate], BUILD_TIME)
    if not is_good:
        raise Broken(f"it does not compile:\n{errors(output)}")


SIMULATION = ["test", "--locked", "--package", "tests", "--test", "simulation"]


def simulate(seeds):
    """Builds and runs the simulation. Returns the seed and the invariant that fail, or `None` if it passes."""
    is_good, output = cargo([*SIMULATION, "--no-run"], BUILD_TIME)
    if not is_good:
        raise Broken(f"it does not compile:\n{errors(output)}")
    is_good, output = cargo([*SIMULATION, "--", "--ignored", "mutated"], RUN_TIME, SEEDS=str(seeds))
    if output is None:
        raise Broken(f"the simulation takes longer than {RUN_TIME} s")
    if is_good and "1 passed" not in output:
        raise Broken(f"there is no simulation to run:\n{output}")
    if is_good:
        return None
    found = re.search(r"\b(pull: seed \d+|seed \d+|aimed: .+|hour)\n+violated: (.+)", output)
    if not found:
        raise Broken(f"the simulation fails, and does not say why:\n{output}")
    return found[1].removeprefix("seed "), found[2].strip()


def find(mutation, seeds):
    """Looks for a mutation."""
    return within(mutation, lambda: simulate(seeds))


def table(rows):
    """The found mutations as a table in Markdown."""
    lines = ["| mutation | found at seed | by the invariant |", "| --- | --- | --- |"]
    lines += [f"| {mutation.name} | {seed} | {invariant} |" for mutation, seed, invariant in rows]
    return "\n".join(lines)


def write(text):
    """Puts the table into the document."""
    document = DOCUMENT.read_text(encoding="utf-8")
    if document.count(BEGIN) != 1 or document.count(END) != 1 or document.index(BEGIN) > document.index(END):
        sys.exit(f"{DOCUMENT.relative_to(ROOT)} needs {BEGIN} and, behind it, {END}, once each")
    before, rest = document.split(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="parts of names; without any, all mutations")
    parser.add_argument("--seeds", type=int, default=2000, help="how many seeds are run for each (2000)")
    parser.add_argument("--write", action="store_true", help="put the table into tests/simulation/mutations.md")
    parser.add_argument("--check", action="store_true", help="only compile each")
    parser.add_argument("--quotes", action="store_true", help="only look for the quote of each")
    parser.add_argument("--list", action="store_true", help="only list them")
    options = parser.parse_args()

    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names), "two mutations have the same name"
    wanted = [it for it in MUTATIONS if not options.names or any(name in it.name for name in options.names)]
    if not wanted:
        sys.exit("no mutation has such a name")
    if options.write and (options.names or options.check):
        sys.exit("--write needs all mutations, and the simulation")
    if options.list:
        for number, mutation in enumerate(wanted, 1):
            print(f"{number}. {mutation.name}\n   {mutation.file}; {mutation.shows}")
        return
    if options.quotes:
        for mutation in wanted:
            quotes(mutation)
        return

    copy()
    rows, missed, broken = [], [], []
    if not options.check:
        print("the sources as they are", end=": ", flush=True)
        try:
            found = simulate(options.seeds)
        except Broken as reason:
            sys.exit(str(reason))
        if found:
            sys.exit(f"{found[0]} violates: {found[1]}. Nothing can be said of mutations before that is mended.")
        print("nothing is violated")
    for number, mutation in enumerate(wanted, 1):
        print(f"{number}/{len(wanted)} {mutation.name}", end=": ", flush=True)
        try:
            if options.check:
                within(mutation, lambda: check(mutation))
                print("compiles")
                continue
            found = find(mutation, options.seeds)
        except Broken as reason:
            broken.append(mutation)
            print(reason)
            continue
        if found:
            rows.append((mutation, *found))
            print(f"{found[0]} violates: {found[1]}")
        else:
            missed.append(mutation)
            print(f"NOT FOUND in {options.seeds} runs. It matters only if {mutation.shows}")
    if rows:
        print(f"\n{table(rows)}")
    if missed or broken:
        sys.exit(f"\n{len(missed)} of {len(wanted)} mutations were not found, and {len(broken)} could not be tried")
    if options.write:
        write(table(rows))


if __name__ == "__main__":
    main()
