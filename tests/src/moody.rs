//! A receiver whose responses the test chooses.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use tokio::{net::TcpListener, task::JoinHandle};

/// The time until a response, and its status.
pub type Answer = (Duration, u16);
/// A quick success.
pub const AT_ONCE: Answer = (Duration::from_millis(20), 200);
/// A success that takes longer than a second.
pub const LATE: Answer = (Duration::from_millis(1200), 200);
/// A success that comes after every timeout.
pub const FOREVER: Answer = (Duration::from_mins(10), 200);

/// A receiver on a loopback port that responds to each request as the test chooses, and counts concurrent requests.
pub struct Moody {
    url: String,
    mood: Arc<Mutex<Mood>>,
    server: JoinHandle<()>,
}

struct Mood {
    answer: Box<dyn Fn(usize) -> Answer + Send>,
    arrivals: Vec<(String, Instant)>,
    at_once: usize,
    taken: usize,
    seen: Vec<(usize, usize)>,
}

impl Moody {
    /// Starts a receiver. `answer` gets the number of earlier requests.
    pub async fn start(answer: impl Fn(usize) -> Answer + Send + 'static) -> Self {
        let (answer, arrivals, seen) = (Box::new(answer), Vec::new(), Vec::new());
        let mood = Arc::new(Mutex::new(Mood { answer, arrivals, at_once: 0, taken: 0, seen }));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let app = Router::new().fallback(receive).with_state(Arc::clone(&mood));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap_or_default() });
        Self { url, mood, server }
    }

    /// The receiver's URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The number of requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.mood().arrivals.len()
    }

    /// The `webhook-id` of each request.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.arrivals().into_iter().map(|(id, _)| id).collect()
    }

    /// The `webhook-id` of each request, and when it arrived.
    #[must_use]
    pub fn arrivals(&self) -> Vec<(String, Instant)> {
        self.mood().arrivals.clone()
    }

    /// For each request: the number of requests in flight when it arrived, and the number accepted by then.
    #[must_use]
    pub fn seen(&self) -> Vec<(usize, usize)> {
        self.mood().seen.clone()
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().expect("no panic")
    }
}

impl Drop for Moody {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn receive(State(state): State<Arc<Mutex<Mood>>>, headers: HeaderMap) -> StatusCode {
    let mood = || state.lock().expect("no panic");
    let (takes, status) = {
        let mut mood = mood();
        let before = mood.arrivals.len();
        mood.arrivals.push((headers["webhook-id"].to_str().expect("an id").to_owned(), Instant::now()));
        mood.at_once += 1;
        let seen = (mood.at_once, mood.taken);
        mood.seen.push(seen);
        (mood.answer)(before)
    };
    tokio::time::sleep(takes).await;
    let mut mood = mood();
    mood.at_once -= 1;
    mood.taken += usize::from(status == 200);
    StatusCode::from_u16(status).expect("a status")
}
