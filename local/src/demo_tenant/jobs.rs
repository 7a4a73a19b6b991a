//! The jobs of the demo tenant.

use common::timestamp::Timestamp;
use serde_json::{Value, json};

/// The number of jobs that ended in each of the last 24 hours, oldest first.
const JOBS_BY_HOUR: [u64; 24] = [1, 0, 1, 2, 1, 1, 2, 4, 6, 7, 5, 4, 3, 5, 6, 6, 5, 4, 3, 2, 2, 2, 2, 2];
/// The ages in minutes of the jobs whose deliveries to an endpoint failed on all ten attempts.
const DAYS_AGO: [u64; 4] = [89 * 60, 87 * 60 + 20, 84 * 60 + 5, 81 * 60 + 40];
/// One in this many jobs fails.
const ONE_FAILS_OF: u64 = 5;

/// A finished job.
pub(super) struct Job {
    number: u64,
    failed: bool,
}

/// The jobs of earlier days, with their times.
pub(super) fn of_days_ago(ago: impl Fn(u64) -> Timestamp) -> impl Iterator<Item = (Timestamp, Job)> {
    (0..).zip(DAYS_AGO).map(move |(number, minutes)| (ago(minutes), Job { number: 400 + number, failed: false }))
}

/// The jobs of the last day, with their times.
pub(super) fn of_the_last_day(ago: impl Fn(u64) -> Timestamp) -> impl Iterator<Item = (Timestamp, Job)> {
    let hours = (1..=24).rev().zip(JOBS_BY_HOUR);
    let minutes =
        hours.flat_map(|(hour, jobs)| (0..jobs).map(move |job| hour * 60 - (job * 60 + 7 * hour % 60) / jobs));
    (1..).zip(minutes).map(move |(number, minutes)| (ago(minutes), job(500 + number)))
}

/// Jobs that end just now.
pub(super) fn newest() -> impl Iterator<Item = Job> {
    (601..=605).map(job)
}

fn job(number: u64) -> Job {
    Job { number, failed: number % ONE_FAILS_OF == 3 }
}

impl Job {
    /// Returns the job's event.
    pub(super) fn of(&self, tenant: &str) -> Value {
        let Self { number, failed } = *self;
        let (workflow, result, error) = outcome(number);
        let (event, status) = if failed { ("job.failed", "failed") } else { ("job.completed", "completed") };
        json!({
            "event": event,
            "tenant_id": tenant,
            "job_id": format!("job-2026-{number}"),
            "workflow": workflow,
            "deployment_id": format!("dep-{}", 40 + number / 30),
            "status": status,
            "result": if failed { Value::Null } else { result },
            "error": if failed { error } else { Value::Null },
        })
    }
}

/// Returns a job's workflow, its result and its error.
fn outcome(number: u64) -> (&'static str, Value, Value) {
    let seconds = 4 + number * 17 % 90;
    match number % 4 {
        0 => (
            "invoice-run",
            json!({"invoices": 120 + number % 37, "total": {"amount": 18_250 + number * 13, "currency": "EUR"}}),
            json!({"code": "LEDGER_LOCKED", "message": "the ledger of the month is locked", "retryable": true}),
        ),
        1 => (
            "nightly-export",
            json!({"file": format!("exports/orders-{number}.parquet"), "rows": 48_000 + number * 7, "seconds": seconds}),
            json!({"code": "DISK_FULL", "message": "no space left on device", "host": format!("worker-{}", number % 6)}),
        ),
        2 => (
            "customer-import",
            json!({"created": number % 50, "updated": 300 + number % 90, "skipped": number % 3}),
            json!({"code": "BAD_ROW", "message": "row 1841: the country code \"XX\" is unknown", "row": 1841}),
        ),
        _ => (
            "image-pipeline",
            json!({"images": 12 + number % 9, "formats": ["avif", "webp"], "seconds": seconds}),
            json!({"code": "TIMEOUT", "message": format!("no result after {} s", 60 + seconds)}),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_of_the_last_day_are_in_it_with_failures() {
        let now = Timestamp::from_millisecond(1_800_000_000_000);
        let ago = |minutes: u64| now.before(std::time::Duration::from_mins(minutes));
        let jobs: Vec<_> = of_the_last_day(ago).collect();
        assert_eq!(jobs.len() as u64, JOBS_BY_HOUR.iter().sum::<u64>());
        assert!(jobs.iter().all(|(at, _)| *at >= ago(24 * 60) && *at < ago(0)));
        assert!(jobs.is_sorted_by_key(|(at, _)| *at));
        for workflow in 0..4 {
            assert!(jobs.iter().any(|(_, job)| job.failed && job.number % 4 == workflow));
        }
    }
}
