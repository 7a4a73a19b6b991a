//! Ctrl-C, and the other ways to ask a program to end.

use tokio::sync::watch;

use crate::terminal::note;

/// The exit code of a shell's program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// Becomes true when somebody asks for the end. Whoever asks twice gets it at once.
#[derive(Clone)]
pub(super) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens for it from now on.
    pub(super) fn watch() -> Self {
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(async move {
            asked().await;
            let _ended = stop.send(true);
            asked().await;
            note("Ended at once: what was under way comes again after a minute.");
            std::process::exit(INTERRUPTED);
        });
        Self(stopped)
    }

    pub(super) fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for it.
    pub(super) async fn asked(&mut self) {
        if self.0.wait_for(|is_stopped| *is_stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
async fn asked() {
    use tokio::signal::unix::{SignalKind, signal};
    // A closed terminal is one, too.
    let all = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let mut all: Vec<_> = all.into_iter().flatten().collect();
    if all.is_empty() {
        std::future::pending::<()>().await;
    }
    futures::future::select_all(all.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
}

#[cfg(not(unix))]
async fn asked() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
