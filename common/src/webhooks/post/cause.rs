//! The causes of errors, and messages that several modules share.

use std::{error::Error, io, iter::successors};

pub(super) const HTTP_2: &str = "The receiver supports only HTTP/2, but deliveries need HTTP/1.1";
pub(super) const INCOMPLETE: &str = "The receiver closed the connection before the end of the response";

pub(super) fn is_caused_by<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    cause_of::<E>(error).is_some()
}

/// Finds the first cause of this type, which may be the error itself.
pub(super) fn cause_of<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    successors(Some(error), |error| cause(*error)).find_map(<dyn Error>::downcast_ref)
}

/// Returns an error's next cause. `source` of an `io::Error` skips the wrapped error, so this function returns the
/// wrapped error first.
fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source())
}
