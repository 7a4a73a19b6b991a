//! API keys, from creation to deletion.

mod delete;
