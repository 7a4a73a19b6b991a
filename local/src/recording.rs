//! The functions' calls to the embedded tables, in a file, for a replay on another implementation of DynamoDB.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result};
use dynoxide::DynoxideError;
use serde::Serialize;
use serde_json::value::RawValue;

pub(crate) struct Recording(Mutex<File>);

/// A line of the file. The bodies are as they were sent.
#[derive(Serialize)]
struct Line<'a> {
    operation: &'a str,
    request: &'a RawValue,
    status: u16,
    response: &'a RawValue,
}

impl Recording {
    /// Creates the file at `path`. It contains stored secrets, so only its owner can read it, and an existing file, which
    /// may have other permissions, is not replaced.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(Mutex::new(file)))
    }

    /// Makes a call, and writes it with its response. Calls wait for each other, so the lines are in the order in which
    /// the calls took effect.
    pub(crate) fn record(
        &self,
        operation: &str,
        request: &[u8],
        call: impl FnOnce() -> Result<String, DynoxideError>,
    ) -> Result<String, DynoxideError> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = call();
        let written = match &answer {
            Ok(body) => write(&mut file, operation, request, 200, body),
            Err(error) => write(&mut file, operation, request, error.status_code(), &error.to_json()),
        };
        if let Err(error) = written {
            tracing::error!(operation, error = format!("{error:#}"), "recording.failed");
        }
        answer
    }
}

/// Writes the line at once, because the file must be complete however the process ends.
fn write(file: &mut File, operation: &str, request: &[u8], status: u16, response: &str) -> Result<()> {
    let (request, response) = (serde_json::from_slice(request)?, serde_json::from_str(response)?);
    let line = serde_json::to_string(&Line { operation, request, status, response })?;
    Ok(file.write_all(format!("{line}\n").as_bytes())?)
}
