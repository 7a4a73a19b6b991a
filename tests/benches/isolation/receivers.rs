//! The receivers of healthy and bad tenants.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::scenario::Mode;

/// The time that an unread connection is kept, which is longer than any attempt.
const MUTE: Duration = Duration::from_secs(20);

/// The path of the slow receiver, and its response time.
pub(crate) const SLOW: &str = "/s";
const TAKES: Duration = Duration::from_millis(800);

/// All receivers in a run. Dropping them closes their ports.
pub(crate) struct Receivers {
    mode: Mode,
    good: u16,
    bad: u16,
    closed: (u16, TcpSocket),
    seen: Arc<Seen>,
    _tasks: JoinSet<()>,
}

/// The requests that the receivers got.
#[derive(Default)]
struct Seen {
    is_bad: AtomicBool,
    /// When each job first arrived at each path of the healthy receiver.
    arrivals: Mutex<HashMap<(String, String), Instant>>,
    /// The requests to each path of the bad receivers.
    bad: Mutex<HashMap<String, Endpoint>>,
}

/// The requests to a bad endpoint.
#[derive(Clone, Default)]
pub(crate) struct Endpoint {
    /// The number of requests.
    pub(crate) requests: usize,
    /// Their ids.
    pub(crate) ids: HashSet<String>,
    /// When each delivery was first answered with 200.
    pub(crate) done: HashMap<String, Instant>,
}

struct Request {
    path: String,
    id: String,
    event: Value,
}

impl Seen {
    /// Records a request to a bad endpoint, and returns the number of earlier requests.
    fn note(&self, path: &str, id: Option<&str>) -> usize {
        let mut endpoints = lock(&self.bad);
        let endpoint = endpoints.entry(path.to_owned()).or_default();
        let before = endpoint.requests;
        endpoint.requests += 1;
        endpoint.ids.insert(id.map_or_else(|| before.to_string(), str::to_owned));
        before
    }
}

impl Receivers {
    /// Starts the receivers. The bad receivers behave well until they are switched.
    pub(crate) async fn start(mode: Mode) -> Self {
        let seen = Arc::<Seen>::default();
        let mut tasks = JoinSet::new();
        // The bad receivers listen at every address of this machine, to represent many origins.
        let [good, bad] = [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(|address| (address, 0));
        let [good, bad] = [TcpListener::bind(good).await, TcpListener::bind(bad).await];
        let [good, bad] = [good, bad].map(|listener| listener.expect("a free port"));
        let ports = [&good, &bad].map(|listener| listener.local_addr().expect("an address").port());
        tasks.spawn(accept(good, Arc::clone(&seen), |stream, seen| async move { well(stream, &seen).await }));
        tasks.spawn(accept(
            bad,
            Arc::clone(&seen),
            move |stream, seen| async move { bad_one(stream, &seen, mode).await },
        ));
        // The port is bound without a listener, so no other process gets it.
        let closed = TcpSocket::new_v4().expect("a socket");
        closed.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let closed = (closed.local_addr().expect("an address").port(), closed);
        Self { mode, good: ports[0], bad: ports[1], closed, seen, _tasks: tasks }
    }

    /// Switches the bad receivers to bad or good behavior.
    pub(crate) fn be_bad(&self, bad: bool) {
        self.seen.is_bad.store(bad, Ordering::Relaxed);
    }

    /// The URL of a healthy receiver.
    pub(crate) fn good(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.good)
    }

    /// The URL of a bad endpoint.
    pub(crate) fn bad(&self, tenant: usize, number: usize) -> String {
        let origin = match self.mode {
            Mode::Refuse => format!("127.0.0.1:{}", self.closed.0),
            Mode::Nameless => "does-not-exist.invalid".to_owned(),
            _ => format!("127.0.0.1:{}", self.bad),
        };
        format!("http://{origin}/{tenant}/{number}")
    }

    /// The URL of a bad callback.
    pub(crate) fn callback(&self, number: usize) -> String {
        let host = match self.mode {
            Mode::Callbacks | Mode::CallLinger | Mode::CallTurns => {
                Ipv4Addr::from_bits(0x7f01_0000 + u32::try_from(number).expect("a small number"))
            }
            _ => Ipv4Addr::LOCALHOST,
        };
        format!("http://{host}:{}/callback/{number}", self.bad)
    }

    /// When a job first arrived at a healthy receiver.
    pub(crate) fn arrival(&self, path: &str, job: &str) -> Option<Instant> {
        lock(&self.seen.arrivals).get(&(path.to_owned(), job.to_owned())).copied()
    }

    /// The requests to the bad endpoints, by their paths.
    pub(crate) fn seen(&self) -> HashMap<String, Endpoint> {
        lock(&self.seen.bad).clone()
    }

    /// The number of deliveries that the bad endpoints have answered with 200.
    pub(crate) fn done(&self) -> usize {
        lock(&self.seen.bad).values().map(|endpoint| endpoint.done.len()).sum()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic")
}

async fn accept<F>(listener: TcpListener, seen: Arc<Seen>, serve: impl Fn(TcpStream, Arc<Seen>) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        // The peer may close the connection first.
        tokio::select! {
            Ok((stream, _)) = listener.accept() => drop(connections.spawn(serve(stream, Arc::clone(&seen)))),
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn well(stream: TcpStream, seen: &Seen) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(Request { path, event, .. }) = read(&mut stream).await? {
        let job = event["job_id"].as_str().expect("a job").to_owned();
        let takes = if path == SLOW { TAKES } else { Duration::ZERO };
        lock(&seen.arrivals).entry((path, job)).or_insert_with(Instant::now);
        sleep(takes).await;
        answer(&mut stream, 200).await?;
    }
    Ok(())
}

async fn bad_one(stream: TcpStream, seen: &Seen, mode: Mode) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        if mode == Mode::Mute && seen.is_bad.load(Ordering::Relaxed) {
            // The delivery is unknown, so the request counts as a separate one.
            seen.note("", None);
            sleep(MUTE).await;
            return Ok(());
        }
        let Some(Request { path, id, .. }) = read(&mut stream).await? else { return Ok(()) };
        let request = seen.note(&path, Some(&id));
        let mode = if seen.is_bad.load(Ordering::Relaxed) { mode } else { Mode::Good };
        let Some((delay, status)) = mode.answer(request) else { return misbehave(stream, mode).await };
        if !delay.is_zero() && timeout(delay, gone(&mut stream)).await.is_ok() {
            return Ok(());
        }
        answer(&mut stream, status).await?;
        if status == 200 {
            lock(&seen.bad).entry(path).or_default().done.entry(id).or_insert_with(Instant::now);
        }
    }
}

/// Misbehaves without responding, until the peer stops waiting.
async fn misbehave(mut stream: BufReader<TcpStream>, mode: Mode) -> io::Result<()> {
    let start: &[u8] = match mode {
        Mode::Headers => b"HTTP/1.1 200 OK\r\nx-slow: ",
        Mode::Body => b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n",
        _ => return gone(&mut stream).await,
    };
    stream.write_all(start).await?;
    loop {
        sleep(Duration::from_secs(1)).await;
        stream.write_all(b".").await?;
    }
}

/// Waits until the peer closes the connection.
async fn gone(stream: &mut BufReader<TcpStream>) -> io::Result<()> {
    while stream.read(&mut [0]).await? > 0 {}
    Ok(())
}

async fn answer(stream: &mut BufReader<TcpStream>, status: u16) -> io::Result<()> {
    stream.write_all(format!("HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n").as_bytes()).await
}

/// Reads a request; `None` if there is none.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let (mut lines, mut body) = (Vec::new(), Vec::new());
    while lines.last().is_none_or(|line| line != "\r\n") {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        lines.push(line);
    }
    let header = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    body.resize(header("content-length:").parse().map_err(io::Error::other)?, 0);
    stream.read_exact(&mut body).await?;
    let path = lines[0].split(' ').nth(1).unwrap_or_default().to_owned();
    Ok(Some(Request { path, id: header("webhook-id:").to_owned(), event: serde_json::from_slice(&body)? }))
}
