//! Changes in the state of the service and the endpoint. Each is printed as one line.

use std::{mem, time::Duration};

use api::{
    Timestamp,
    deliveries::{LeasedDelivery, Received},
    error::Reason,
};

use crate::{clock, failure::Failure};

/// The first and the maximum pause after a failed call.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(8);
/// The pause while the endpoint is disabled.
const INACTIVE_PAUSE: Duration = Duration::from_secs(3);
/// The maximum pause that the service can request, with `Retry-After` or in a response.
const MAX_REQUESTED_PAUSE: Duration = Duration::from_mins(1);

/// The last printed state.
#[derive(Default)]
pub(super) struct News {
    /// The number of consecutive calls without a response.
    failures: u32,
    is_inactive: bool,
    /// The expiry of the previous signing secret in the latest response. `None` before the first response.
    rotated: Option<Option<Timestamp>>,
}

/// The effects of a response on the listener.
pub(super) struct Heard {
    /// The lines to print.
    pub(super) lines: Vec<String>,
    pub(super) next: Next,
}

pub(super) enum Next {
    /// Deliveries were received. The next call follows after the pause.
    Taken(Vec<LeasedDelivery>, Duration),
    /// The same call may succeed after the pause.
    Wait(Duration),
    /// Further calls would also fail.
    End(Failure),
}

impl News {
    /// Processes the response to a call.
    pub(super) fn hear(&mut self, answer: Result<Received, Failure>) -> Heard {
        let mut lines = Vec::new();
        let next = match answer {
            Ok(answer) => {
                self.answered(&mut lines);
                if mem::take(&mut self.is_inactive) {
                    lines.push("The endpoint is enabled again.".to_owned());
                }
                lines.extend(self.rotation(answer.previous_secret_expires_at));
                let pause = Duration::from_millis(answer.poll_after_ms.into());
                Next::Taken(answer.deliveries, pause.min(MAX_REQUESTED_PAUSE))
            }
            Err(error) if error.reason() == Some(Reason::EndpointInactive) => {
                self.answered(&mut lines);
                if !mem::replace(&mut self.is_inactive, true) {
                    let text = "The endpoint is disabled. Events are held until it is enabled.";
                    lines.push(text.to_owned());
                }
                Next::Wait(jittered(INACTIVE_PAUSE))
            }
            Err(error) if error.is_passing() => {
                if self.failures == 0 {
                    lines.push(format!("{error} Retrying."));
                }
                let pause = pause(self.failures, &error);
                self.failures = self.failures.saturating_add(1);
                Next::Wait(pause)
            }
            Err(error) if error.is_not_found() => Next::End(Failure::not_found("The endpoint was deleted.")),
            Err(error) => Next::End(error),
        };
        Heard { lines, next }
    }

    fn answered(&mut self, lines: &mut Vec<String>) {
        if mem::take(&mut self.failures) > 0 {
            lines.push("The service is reachable again.".to_owned());
        }
    }

    fn rotation(&mut self, until: Option<Timestamp>) -> Option<String> {
        let before = self.rotated.replace(until.clone())?;
        let until = until.filter(|until| before.as_ref() != Some(until))?;
        let until = clock::short(&until);
        Some(format!("The signing secret was rotated. The previous secret stays valid until {until} UTC."))
    }
}

/// Returns the pause after a failed call. It doubles with each consecutive failure, up to a limit.
pub(super) fn pause(failures: u32, error: &Failure) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures.min(8))).min(MAX_PAUSE);
    jittered(longest).max(error.retry_after().unwrap_or_default().min(MAX_REQUESTED_PAUSE))
}

/// Returns a random pause between half of `pause` and all of it, so that clients do not call at the same time.
fn jittered(pause: Duration) -> Duration {
    let mut random = [0; 1];
    let share = getrandom::fill(&mut random).map_or(1.0, |()| f64::from(random[0]) / 255.0);
    pause.mul_f64(0.5 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::ErrorResponse;

    fn received(previous_secret_expires_at: Option<&str>) -> Result<Received, Failure> {
        let previous_secret_expires_at = previous_secret_expires_at.map(Into::into);
        Ok(Received { deliveries: Vec::new(), poll_after_ms: 0, previous_secret_expires_at })
    }

    fn refused(status: u16, reason: Option<Reason>, seconds: Option<u64>) -> Result<Received, Failure> {
        let retry_after = seconds.map(Duration::from_secs);
        Err(Failure::refused(ErrorResponse { status, code: None, reason, retry_after }, "No."))
    }

    fn down() -> Result<Received, Failure> {
        Err(Failure::unreachable("It is down."))
    }

    #[test]
    fn each_change_is_one_line() {
        let (mut news, fine) = (News::default(), || received(None));
        let inactive = || refused(409, Some(Reason::EndpointInactive), None);
        let rotated = |until| received(Some(until));
        let (broke, back) = ("It is down. Retrying.", "The service is reachable again.");
        let off = "The endpoint is disabled. Events are held until it is enabled.";
        for (answer, lines) in [
            (fine(), &[][..]),
            (down(), &[broke]),
            (refused(503, None, None), &[]),
            (refused(429, None, None), &[]),
            (fine(), &[back]),
            (inactive(), &[off]),
            (inactive(), &[]),
            // Both at once, to show that neither hides the other.
            (down(), &[broke]),
            (down(), &[]),
            (inactive(), &[back]),
            (down(), &[broke]),
            (fine(), &[back, "The endpoint is enabled again."]),
            (
                rotated("tomorrow"),
                &["The signing secret was rotated. The previous secret stays valid until tomorrow UTC."],
            ),
            (rotated("tomorrow"), &[]),
            (fine(), &[]),
        ] {
            assert_eq!(news.hear(answer).lines, lines);
        }
    }

    #[test]
    fn a_rotation_before_the_start_is_not_printed() {
        let mut news = News::default();
        assert!(news.hear(received(Some("later"))).lines.is_empty());
    }

    #[test]
    fn pauses_grow_up_to_a_bound_and_respect_retry_after() {
        let mut news = News::default();
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let Next::Wait(pause) = news.hear(down()).next else { unreachable!("the call may succeed later") };
            assert!((FIRST_PAUSE / 2..=MAX_PAUSE).contains(&pause));
            longest = longest.max(pause);
        }
        assert!(longest > MAX_PAUSE / 2);
        for (wish, least) in [(20, 20), (9_999, 60)] {
            let Next::Wait(pause) = news.hear(refused(429, None, Some(wish))).next else { unreachable!("a pause") };
            assert_eq!(pause, Duration::from_secs(least));
        }
    }

    #[test]
    fn only_permanent_failures_end_it() {
        let codes =
            [refused(404, None, None), refused(409, Some(Reason::NotAPullEndpoint), None), refused(403, None, None)]
                .into_iter()
                .chain([Err(Failure::not_signed_in("No."))])
                .map(|answer| match News::default().hear(answer).next {
                    Next::End(failure) => failure.exit_code(),
                    Next::Taken(..) | Next::Wait(_) => unreachable!("it ends"),
                });
        assert_eq!(codes.collect::<Vec<_>>(), [4, 1, 1, 3]);
    }
}
