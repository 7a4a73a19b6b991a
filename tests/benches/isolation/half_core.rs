//! Limits a process to half a core without privileges. Like Linux for a Lambda function with part of a CPU, it stops the
//! process whenever it has used its share, and lets it go on when it has a share again.

use std::{
    io::Write,
    process::{Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use crate::service::cpu_of;

/// The share of a core.
const SHARE: f64 = 0.5;
/// The time between two measurements.
const TICK: Duration = Duration::from_millis(5);
/// The unused CPU time in seconds that a process keeps: its share of 20 milliseconds.
const KEPT: f64 = SHARE * 0.02;

/// Limits the process until dropped.
pub(crate) struct HalfCore {
    _end: Sender<()>,
}

impl HalfCore {
    pub(crate) fn of(process: u32) -> Self {
        let (end, ended) = channel();
        thread::spawn(move || limit(process, &ended));
        Self { _end: end }
    }
}

fn limit(process: u32, ended: &Receiver<()>) {
    // A builtin of bash sends the signals, because a new process for each would use more CPU time than the service.
    let script = format!("while read -r signal; do kill -s \"$signal\" {process}; done; kill -s CONT {process}");
    let bash = Command::new("bash").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut bash = bash.expect("bash starts");
    let mut signals = bash.stdin.take().expect("a pipe");
    let (mut at, mut used, mut left, mut is_stopped) = (Instant::now(), cpu_of(process), 0.0, false);
    while matches!(ended.recv_timeout(TICK), Err(RecvTimeoutError::Timeout)) {
        let (now, cpu) = (Instant::now(), cpu_of(process));
        left = f64::min(left + SHARE * (now - at).as_secs_f64(), KEPT) - (cpu - used);
        (at, used) = (now, cpu);
        if is_stopped != (left < 0.0) {
            is_stopped = left < 0.0;
            let signal = if is_stopped { "STOP" } else { "CONT" };
            writeln!(signals, "{signal}").expect("bash reads");
        }
    }
    drop(signals);
    bash.wait().expect("bash ends");
}
