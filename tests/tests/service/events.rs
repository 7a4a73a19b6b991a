//! Job events, as their producers send them.

mod audience;
mod messages;
