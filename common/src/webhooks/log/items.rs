//! Deliveries and attempts as DynamoDB attributes.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::{
    aws::dynamo::{Attribute, Item, ItemReader, attributes, item, number, text},
    error::Result,
    id::TenantId,
    timestamp::Timestamp,
    webhooks::delivery::{Attempt, Delivery, DeliveryId, Detail, Lease, Pull, Status, Trigger},
};

attributes! { pub(super)
    DESTINATION = "destination", DELIVERY = "delivery", OPEN = "open", EXPIRES_AT = "expires_at",
    ERASED_AT = "erased_at", THIN = "thin", SHARED = "shared", SHARED_AT = "shared_at", LARGE = "large", BACKDATED = "late",
    EVENT = "event", JOB_ID = "job_id", WORKFLOW = "flow", STATUS = "status", TRIGGER = "trigger", FAILS_AT = "fails_at",
    NEXT_ATTEMPT_AT = "next_attempt_at", PARKED = "parked", ATTEMPTS = "attempts", TRIES = "tries", LAST = "last",
    // The attempts before the last.
    EARLIER = "earlier",
    KIND = "kind", DUE = "due", LEASE = "lease", LEASE_ENDS = "lease_ends",
    // An attempt's parts, other than its trigger.
    AT = "at", MS = "ms", OUTCOME = "outcome", CODE = "code", DETAIL = "detail",
    RESPONSE = "response",
    LAST_OUTCOME = "last.outcome", LAST_MS = "last.ms", LAST_AT = "last.at",
}

/// An attempt as a map. Its names are short, to keep the item small.
fn attempt_value(attempt: &Attempt) -> AttributeValue {
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

/// The attributes of attempts: the last one, and those before it, if there are any.
pub(super) fn attempts_attributes(
    earlier: &[Attempt],
    last: Option<&Attempt>,
) -> impl Iterator<Item = (Attribute, AttributeValue)> + use<> {
    let earlier: Vec<_> = earlier.iter().map(attempt_value).collect();
    let earlier = (!earlier.is_empty()).then_some((EARLIER, AttributeValue::L(earlier)));
    last.map(|last| (LAST, attempt_value(last))).into_iter().chain(earlier)
}

/// Reads the attempts before the last one, and the last one.
pub(super) fn read_attempts(item: &Item) -> Result<(Vec<Attempt>, Option<Attempt>)> {
    let earlier = item.get(EARLIER.name()).and_then(|value| value.as_l().ok()).into_iter().flatten();
    let last = item.get(LAST.name()).map(read_attempt);
    Ok((earlier.map(read_attempt).collect::<Result<_>>()?, last.transpose()?))
}

fn read_attempt(value: &AttributeValue) -> Result<Attempt> {
    let none = Item::new();
    let record = ItemReader::new("attempt", value.as_m().unwrap_or(&none));
    Ok(Attempt {
        at: record.time(AT)?,
        outcome: record.text(OUTCOME)?.to_owned().into(),
        status_code: record.optional_integer(CODE),
        detail: record.optional_text(DETAIL).map(|detail| Detail::new(detail.to_owned())),
        duration_ms: record.number(MS)?.try_into().unwrap_or(u32::MAX),
        response: record.optional_text(RESPONSE).map(str::to_owned),
        trigger: record.parsed(TRIGGER)?,
    })
}

pub(super) fn read_delivery(id: DeliveryId, item: &Item) -> Result<Delivery> {
    let record = ItemReader::new("delivery", item);
    let (status, pull) = (record.parsed(STATUS)?, read_pull(&record)?);
    let (earlier, last_attempt) = read_attempts(item)?;
    let next_attempt_at = match &pull {
        Some(pull) => pull.due.filter(|_| status == Status::Pending),
        None => record.optional_time(NEXT_ATTEMPT_AT),
    };
    let delivery = Delivery {
        status,
        attempts: record.optional_integer(ATTEMPTS).unwrap_or(0),
        is_parked: next_attempt_at.is_some() && record.optional_boolean(PARKED) == Some(true),
        next_attempt_at,
        last_attempt,
        earlier,
        tries: record.optional_integer(TRIES).unwrap_or(0),
        trigger: record.optional_text(TRIGGER).and_then(|name| name.parse().ok()).unwrap_or(Trigger::Event),
        fails_at: Timestamp::from_millisecond(record.optional_number(FAILS_AT).unwrap_or_default()),
        pull,
        is_shared: record.optional_boolean(SHARED) == Some(true),
        is_large: record.optional_boolean(LARGE) == Some(true),
        is_thin: record.optional_boolean(THIN) == Some(true),
        erased_at: record.optional_time(ERASED_AT),
        workflow: record.optional_text(WORKFLOW).map(str::to_owned),
        ..Delivery::new(id, record.parsed(EVENT)?, record.text(JOB_ID)?.to_owned())
    };
    debug_assert!(delivery.is_consistent(), "{delivery:?}");
    Ok(delivery)
}

/// Reads a delivery, and logs one that is unreadable.
pub(super) fn read_or_log(tenant: &TenantId, id: DeliveryId, item: &Item) -> Option<Delivery> {
    let log = |error: &_| crate::log!("delivery.unreadable", %tenant, delivery_id = %id, ?error);
    read_delivery(id, item).inspect_err(log).ok()
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

fn read_pull(record: &ItemReader<'_>) -> Result<Option<Pull>> {
    if record.optional_text(KIND) != Some(PULL) {
        return Ok(None);
    }
    let lease = record.optional_parsed(LEASE)?.map(|id| Lease { id, ends: record.optional_time(LEASE_ENDS) });
    Ok(Some(Pull { due: record.optional_time(DUE), lease }))
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
