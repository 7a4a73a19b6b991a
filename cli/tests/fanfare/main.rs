//! Tests the client as people and scripts use it, against the real service.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a missing value fails the test, and figures are for the person who runs it"
)]

mod account;
mod approved;
mod commands;
mod connections;
mod endpoints;
mod listening;
mod mcp;
mod network;
mod packages;
mod page;
mod replaying;
#[cfg(unix)]
mod terminal;
mod verify;
mod waiting;

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use tests::{Tenant, World};

/// A machine with the client and its own configuration folder.
struct Machine {
    home: PathBuf,
    api: String,
}

impl Machine {
    fn new(world: &World) -> Self {
        let home = std::env::temp_dir().join(format!("fanfare-{}", common_id()));
        Self { home, api: world.stack.api().to_owned() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fanfare"));
        command.args(arguments).env_clear().env("XDG_CONFIG_HOME", &self.home).env("FANFARE_API", &self.api);
        command.env("HOSTNAME", "laptop").stdin(Stdio::null());
        command
    }

    /// The `PATH` for a shell, with the client first.
    fn path() -> String {
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_fanfare")).parent().expect("a folder");
        format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default())
    }

    /// Signs in with the key of `tenant`.
    async fn signs_in(&self, tenant: &Tenant) {
        let answer = self.run_with(&["login", "--key"], &tenant.key).await;
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, "").await
    }

    async fn run_with(&self, arguments: &[&str], input: &str) -> Output {
        ended(self.command(arguments), input).await
    }

    /// Runs a command with these variables.
    async fn run_in(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        ended(command, "").await
    }
}

/// Runs a command to completion on a separate thread, because the service needs this process's threads.
async fn ended(mut command: Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let run = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("it starts");
        let written = std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input.as_bytes());
        assert!(written.is_ok() || input.is_empty());
        child.wait_with_output().expect("it ends")
    });
    let output = run.await.expect("it ends");
    Output {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _may_be_gone = std::fs::remove_dir_all(&self.home);
    }
}

#[derive(Debug)]
struct Output {
    code: i32,
    out: String,
    err: String,
}

/// Returns a name that is unique among the tests.
fn common_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
