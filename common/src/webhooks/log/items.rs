//! Deliveries and attempts as DynamoDB attributes.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    aws::dynamo::{Attribute, Item, Record, attributes, item, number, text},
    error::Result,
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Delivery, DeliveryId, Detail, Lease, Pull, Status, Trigger},
};

attributes! { pub(super)
    DESTINATION = "destination", DELIVERY = "delivery", OPEN = "open", EXPIRES_AT = "expires_at",
    ERASED_AT = "erased_at",
    EVENT = "event", JOB_ID = "job_id", WORKFLOW = "flow", STATUS = "status", TRIGGER = "trigger", FAILS_AT = "fails_at",
    NEXT_ATTEMPT_AT = "next_attempt_at", ATTEMPTS = "attempts", TRIES = "tries", LAST = "last",
    // The attempts before the last.
    EARLIER = "earlier",
    KIND = "kind", DUE = "due", LEASE = "lease", LEASE_ENDS = "lease_ends",
    // An attempt's parts, other than its trigger.
    AT = "at", MS = "ms", OUTCOME = "outcome", CODE = "code", DETAIL = "detail",
    RESPONSE = "response",
    LAST_OUTCOME = "last.outcome", LAST_MS = "last.ms", LAST_AT = "last.at",
}

/// An attempt as a map. Its names are short, to keep the item small.
pub(super) fn attempt_value(attempt: &Attempt) -> AttributeValue {
    let mut value = item([
        (AT, number(attempt.at.as_millisecond())),
        (MS, number(attempt.duration_ms.into())),
        (OUTCOME, text(&attempt.outcome)),
        (TRIGGER, text(attempt.trigger)),
    ]);
    value.extend(attempt.status_code.map(|status| CODE.with(number(status.into()))));
    value.extend(attempt.detail.as_ref().map(|detail| DETAIL.with(text(detail.as_str()))));
    value.extend(attempt.response.as_ref().map(|response| RESPONSE.with(text(response))));
    AttributeValue::M(value)
}

/// The attempts before the last one, if there are any.
pub(super) fn earlier_value(earlier: &[Attempt]) -> Option<(Attribute, AttributeValue)> {
    let values = earlier.iter().map(attempt_value).collect();
    (!earlier.is_empty()).then_some((EARLIER, AttributeValue::L(values)))
}

/// Reads the attempts before the last one from `item`.
pub(super) fn read_earlier(item: &Item) -> Result<Vec<Attempt>> {
    let values = item.get(EARLIER.name()).and_then(|value| value.as_l().ok()).map_or(&[][..], Vec::as_slice);
    values.iter().map(read_attempt).collect()
}

pub(super) fn read_attempt(value: &AttributeValue) -> Result<Attempt> {
    let none = Item::new();
    let record = Record::new("attempt", value.as_m().unwrap_or(&none));
    Ok(Attempt {
        at: record.time(AT)?,
        outcome: record.text(OUTCOME)?.to_owned().into(),
        status_code: record.optional_number(CODE).and_then(|code| u16::try_from(code).ok()),
        detail: record.optional_text(DETAIL).map(|detail| Detail::new(detail.to_owned())),
        duration_ms: u32::try_from(record.number(MS)?).unwrap_or(u32::MAX),
        response: record.optional_text(RESPONSE).map(str::to_owned),
        trigger: record.parsed(TRIGGER)?,
    })
}

pub(super) fn read_delivery(id: DeliveryId, item: &Item) -> Result<Delivery> {
    let record = Record::new("delivery", item);
    let count = |name: Attribute| record.optional_number(name).and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let time = |name| record.optional_number(name).map(Timestamp::from_millisecond);
    let (status, pull) = (record.parsed(STATUS)?, pull(&record)?);
    let next_attempt_at = match &pull {
        Some(pull) => pull.due.filter(|_| status == Status::Pending),
        None => time(NEXT_ATTEMPT_AT),
    };
    Ok(Delivery {
        status,
        attempts: count(ATTEMPTS),
        next_attempt_at,
        last_attempt: item.get(LAST.name()).map(read_attempt).transpose()?,
        earlier: read_earlier(item)?,
        tries: count(TRIES),
        trigger: record.optional_text(TRIGGER).and_then(|name| name.parse().ok()).unwrap_or(Trigger::Event),
        fails_at: Timestamp::from_millisecond(record.optional_number(FAILS_AT).unwrap_or_default()),
        pull,
        erased_at: time(ERASED_AT),
        workflow: record.optional_text(WORKFLOW).map(str::to_owned),
        ..Delivery::new(id, record.parsed(EVENT)?, record.text(JOB_ID)?.to_owned())
    })
}

/// The attributes of a delivery to a pull endpoint. Deliveries with `due` are in the index of pull deliveries.
pub(super) fn pull_attributes(pull: &Pull) -> Vec<(Attribute, AttributeValue)> {
    let mut set = vec![(KIND, text(PULL))];
    set.extend(pull.due.map(|due| (DUE, number(due.as_millisecond()))));
    set.extend(pull.lease.map(|lease| (LEASE, text(lease.id))));
    let ends = pull.lease.and_then(|lease| lease.ends);
    set.extend(ends.map(|ends| (LEASE_ENDS, number(ends.as_millisecond()))));
    set
}

fn pull(record: &Record<'_>) -> Result<Option<Pull>> {
    if record.optional_text(KIND) != Some(PULL) {
        return Ok(None);
    }
    let time = |name| record.optional_number(name).map(Timestamp::from_millisecond);
    let lease = match record.optional_text(LEASE) {
        Some(_) => Some(Lease { id: record.parsed(LEASE)?, ends: time(LEASE_ENDS) }),
        None => None,
    };
    Ok(Some(Pull { due: time(DUE), lease }))
}

/// The kind of deliveries to pull endpoints. Other deliveries have no kind.
const PULL: &str = "pull";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::delivery::{Failure, Outcome};

    /// A process relies on this to recognize its own write after the response was lost.
    #[test]
    fn an_attempt_survives_storage() {
        let answer = Some("no".to_owned());
        let failed = Outcome::Failed(Failure::Status(500, None));
        let detail = Some(Detail::new("why"));
        let attempt = Attempt { detail, ..Attempt::new(Timestamp::now(), 12, failed, answer, Trigger::Schedule) };
        assert_eq!(read_attempt(&attempt_value(&attempt)).expect("an attempt"), attempt);
    }
}
