//! Endpoint tests, at most ten a minute per endpoint. An endpoint's item stores the times of the last ten tests.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    audit_trail,
    item::{TESTED_AT, URL, WEBHOOK_ENDPOINT_ID},
    table::{Endpoints, NOT_FOUND, record},
};
use crate::{
    audit::{Action, Entry, Recorder, initial},
    aws::{
        dynamo::{Item, number},
        transaction::{Marker, Transaction},
    },
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Payload},
        event::EventName,
        log::DeliveryLog,
    },
};

/// The maximum number of tests per endpoint in any [`WINDOW_MILLISECONDS`].
const TESTS: usize = 10;
/// One minute, in milliseconds.
const WINDOW_MILLISECONDS: i64 = 60_000;

impl Endpoints {
    /// Stores an endpoint test with a sample event, and counts it. Adds a due row for the test; the caller sends its
    /// message.
    ///
    /// # Errors
    /// The tenant has no such endpoint, or it was tested ten times in the last minute.
    pub async fn begin_test(
        &self,
        recorder: &Recorder,
        log: &DeliveryLog,
        tenant: &TenantId,
        test: &Delivery,
        sample: EventName,
        once: Option<&Marker>,
        now: Timestamp,
    ) -> Result<()> {
        let id = test.webhook_endpoint_id.ok_or(NOT_FOUND)?;
        // A round fails only if a concurrent test was counted first, so the limit on tests also limits the rounds.
        for round in 0..=TESTS {
            let item = self.get(tenant, id, &[WEBHOOK_ENDPOINT_ID, URL, TESTED_AT]).await?.ok_or(NOT_FOUND)?;
            let times = with(&times(&item), now)?;
            if round == 0 {
                let payload = log.payload_rows(tenant, &test.id, &Payload::test(id, sample), now);
                log.put_all(payload.into_iter().chain([log.due_row(tenant, test, now)])).await?;
            }
            let is_unchanged = match item.get(TESTED_AT.name()) {
                Some(before) => TESTED_AT.equals(before.clone()),
                None => WEBHOOK_ENDPOINT_ID.exists().and(TESTED_AT.is_absent()),
            };
            let count = self
                .change(tenant, id)
                .set(TESTED_AT, AttributeValue::L(times.into_iter().map(number).collect()))
                .only_if(is_unchanged);
            let transaction = Transaction::new("testing an endpoint").update(count);
            let transaction = log.begin_in(transaction, log.first_row(tenant, test, None, now)).once(once);
            let target = audit_trail::target(id, record(&item).optional_text(URL));
            let sample = [initial("event", sample.as_str())];
            let transaction =
                transaction.record(recorder, Entry::new(Action::WebhookTested, tenant, target).with(sample))?;
            match transaction.first_refused(&self.dynamodb).await? {
                None => return Ok(()),
                Some(0) => {}
                Some(_) => break,
            }
        }
        Err(Error::Busy)
    }
}

/// The times of the endpoint's tests, oldest first.
pub(super) fn times(record: &Item) -> Vec<i64> {
    let times = record.get(TESTED_AT.name()).and_then(|times| times.as_l().ok()).into_iter().flatten();
    times.filter_map(|time| time.as_n().ok()?.parse().ok()).collect()
}

/// The times of the last tests, including a test at `now`.
fn with(times: &[i64], now: Timestamp) -> Result<Vec<i64>> {
    let now = now.as_millisecond();
    let recent: Vec<i64> =
        times.iter().copied().filter(|time| *time > now.saturating_sub(WINDOW_MILLISECONDS)).collect();
    match recent.first() {
        Some(oldest) if recent.len() >= TESTS => {
            // A concurrent call may have counted a later time first.
            let wait = oldest.saturating_add(WINDOW_MILLISECONDS).saturating_sub(now).min(WINDOW_MILLISECONDS);
            Err(Error::TooMany { retry_after_seconds: wait.saturating_add(999) / 1000, limit: None })
        }
        _ => Ok(recent.into_iter().chain([now]).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_tested_ten_times_in_any_minute() {
        let at = Timestamp::from_millisecond;
        let mut times = Vec::new();
        for test in 0..10 {
            times = with(&times, at(test * 1_000)).expect("within the limit");
        }
        for (now, wait) in [(-1, 60), (9_000, 51), (59_000, 1), (59_999, 1)] {
            let refused = with(&times, at(now));
            assert!(matches!(refused, Err(Error::TooMany { retry_after_seconds, .. }) if retry_after_seconds == wait));
        }
        let next = with(&times, at(60_000)).expect("the first is a minute ago");
        assert_eq!((next.len(), next.first(), next.last()), (10, Some(&1_000), Some(&60_000)));
        assert!(with(&next, at(60_999)).is_err());
        assert_eq!(with(&next, at(200_000)).expect("all are long ago"), [200_000]);
    }
}
