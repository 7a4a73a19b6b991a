//! Updates that read, decide, and write on condition that nothing has changed.

use std::ops::ControlFlow;

use crate::error::{Error, Result};

/// The number of times that a conditional write starts over because other writes preceded it.
const STARTS: u32 = 10;

/// Repeats a round, which reads and then writes on condition that nothing has changed, until one breaks. Each round
/// gets the state that the previous one returned, and the first one `state`. (An async closure could change its own
/// state, but its future is not known to be `Send`.)
///
/// # Errors A round failed; or other writes preceded it in every round: [`Error::Busy`].
pub async fn rounds<S, T, F>(mut state: S, mut round: impl FnMut(S) -> F) -> Result<T>
where
    F: Future<Output = Result<ControlFlow<T, S>>>,
{
    for _ in 0..STARTS {
        match round(state).await? {
            ControlFlow::Break(done) => return Ok(done),
            ControlFlow::Continue(next) => state = next,
        }
    }
    Err(Error::Busy)
}
