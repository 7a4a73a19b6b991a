//! Events of jobs, as their producers send them.

mod audience;
mod messages;
