//! Updates that read, decide, and write on condition that nothing has changed (compare-and-swap).

use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// The maximum number of rounds for an update that conflicts with other writes.
const MAX_ROUNDS: u32 = 10;

/// Runs `round`, which reads and then writes conditionally, until it breaks. The first round gets `state`, and each
/// later round the state that the previous one returned. (An async closure could keep the state itself, but the
/// compiler cannot prove that its future is `Send`.)
///
/// # Errors
/// A round failed, or other writes came first in every round ([`Error::Busy`]).
pub async fn retry_conflicts<S, T, F>(mut state: S, mut round: impl FnMut(S) -> F) -> Result<T>
where
    F: Future<Output = Result<ControlFlow<T, S>>>,
{
    for _ in 0..MAX_ROUNDS {
        match round(state).await? {
            ControlFlow::Break(done) => return Ok(done),
            ControlFlow::Continue(next) => state = next,
        }
    }
    Err(Error::Busy)
}
