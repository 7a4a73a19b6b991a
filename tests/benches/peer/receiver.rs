//! The receiver of both services.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, body::Bytes, extract::State, http::StatusCode};
use tokio::{net::TcpListener, sync::Notify, time::timeout};

/// The time limit for all events of a part of a round.
const PATIENCE: Duration = Duration::from_mins(2);

/// A receiver that answers 204, and records the jobs and the times of their arrival.
pub(crate) struct Receiver {
    /// Its address.
    pub(crate) url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    arrivals: Mutex<Vec<(usize, Instant)>>,
    arrived: Notify,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let app = Router::new().fallback(receive).with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, app).await.expect("a running server") });
        Self { url, shared }
    }

    /// Waits for `count` requests since the last call, and returns them.
    pub(crate) async fn wait(&self, count: usize) -> Vec<(usize, Instant)> {
        let all = async {
            while self.shared.arrivals.lock().expect("no panic").len() < count {
                self.shared.arrived.notified().await;
            }
        };
        timeout(PATIENCE, all).await.expect("all arrive");
        let arrivals = std::mem::take(&mut *self.shared.arrivals.lock().expect("no panic"));
        assert_eq!(arrivals.len(), count, "each arrives once");
        arrivals
    }
}

async fn receive(State(shared): State<Arc<Shared>>, body: Bytes) -> StatusCode {
    let now = Instant::now();
    let body = std::str::from_utf8(&body).expect("JSON");
    let number = body.split_once(r#""job_id":"job-"#).and_then(|(_, rest)| rest.split_once('"')).expect("a job").0;
    shared.arrivals.lock().expect("no panic").push((number.parse().expect("a number"), now));
    shared.arrived.notify_one();
    StatusCode::NO_CONTENT
}
