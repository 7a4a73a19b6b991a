//! Ctrl-C and the other signals that stop the process.

use std::time::Duration;

use tokio::{sync::watch, time::sleep};

use crate::{failure::SIGINT_EXIT_CODE, terminal::print_note};

/// The time in which a repeated signal is not a second one. Programs that start others, such as `timeout` and
/// `concurrently`, pass on a signal that the terminal has already sent.
const REPEAT_INTERVAL: Duration = Duration::from_millis(500);

/// Becomes true at the first signal. A second signal ends the process immediately.
#[derive(Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Starts handling signals.
    pub(super) fn watch() -> Self {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(async move {
            requested().await;
            let _ended = stop.send(true);
            // Signals in this time are lost, because nothing receives them.
            sleep(REPEAT_INTERVAL).await;
            requested().await;
            print_note("Stopped immediately. Unsettled events will be received again after a minute.");
            std::process::exit(SIGINT_EXIT_CODE.into());
        });
        Self(stopped)
    }

    pub(super) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the first signal.
    pub(super) async fn requested(&mut self) {
        if self.0.wait_for(|is_stopped| *is_stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
async fn requested() {
    use std::io::{IsTerminal, stderr, stdout};
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // The default handlers stay in place. They end the process immediately.
        return std::future::pending().await;
    };
    // The terminal sends SIGHUP when it closes. A handler would overrule `nohup`, which redirects the output and ignores
    // the signal.
    let has_terminal = stdout().is_terminal() || stderr().is_terminal();
    let mut hangup = has_terminal.then(|| signal(SignalKind::hangup())).and_then(Result::ok);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        Some(()) = async { hangup.as_mut()?.recv().await } => {}
    }
}

#[cfg(windows)]
async fn requested() {
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};
    // Windows sends Ctrl-Close when the terminal closes, and then waits a few seconds for the process.
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut close)) = (ctrl_c(), ctrl_break(), ctrl_close()) else {
        // The default handlers stay in place. They end the process immediately.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = close.recv() => {}
    }
}
