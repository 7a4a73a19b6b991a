//! Signing a command-line client in by the browser.

mod approve;
