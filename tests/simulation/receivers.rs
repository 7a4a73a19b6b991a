//! Receivers in this process. The functions connect to them over in-memory streams.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use common::webhooks::post::{Network, Stream};
use futures::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::sleep,
};

use crate::{
    script::{Manner, Receiver, Time},
    world::World,
};

/// A tenant's receiver: for one of its endpoints, or for its callbacks.
pub(crate) type To = (usize, Option<usize>);

/// A request that a receiver got.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) at: Time,
    pub(crate) to: To,
    pub(crate) id: String,
    pub(crate) timestamp: i64,
    pub(crate) event_time: String,
    pub(crate) signatures: String,
    pub(crate) body_signature: String,
    pub(crate) body: String,
    /// The response's status; 0 if there was none.
    pub(crate) status: u16,
    /// Whether the receiver closed the connection without a response.
    pub(crate) is_cut: bool,
    /// When the receiver answered, or the connection ended without an answer. `None` while the request is open.
    pub(crate) ended: Option<Time>,
    /// Whether the response was a complete 2xx.
    pub(crate) taken: bool,
}

/// A receiver's URL.
pub(crate) fn url((tenant, endpoint): To) -> String {
    match endpoint {
        Some(endpoint) => format!("http://t{tenant}e{endpoint}.example/hook"),
        None => format!("http://t{tenant}c.example/callback"),
    }
}

/// A URL for a tenant's callbacks at a different origin.
pub(crate) fn callback_url(tenant: usize, origin: usize) -> String {
    format!("http://t{tenant}c{origin}.example/callback")
}

/// The receiver with this name.
fn named(name: &str) -> Option<To> {
    let (name, _) = name.strip_prefix('t')?.split_once('.')?;
    match name.split_once('e') {
        Some((tenant, endpoint)) => Some((tenant.parse().ok()?, Some(endpoint.parse().ok()?))),
        None => Some((name.split_once('c')?.0.parse().ok()?, None)),
    }
}

/// The last part of an address without a listener.
const NOBODY: u8 = 250;
/// The last part of the address of a callback receiver. For an endpoint, the last part is its index.
const CALLBACKS: u8 = 100;

/// The address of a tenant's receiver, by its last part.
fn address(tenant: usize, last: u8) -> IpAddr {
    let [high, low] = u16::try_from(tenant).expect("few tenants").to_be_bytes();
    IpAddr::from([127, high, low, last])
}

/// The network from the functions to the receivers.
pub(crate) fn network(world: &Arc<World>) -> Network {
    let (names, addresses) = (Arc::clone(world), Arc::clone(world));
    let lookup = move |name: String| -> BoxFuture<'static, _> {
        let found = names.look_up(&name);
        Box::pin(async move { found })
    };
    let connect = move |address: SocketAddr| -> BoxFuture<'static, _> {
        let world = Arc::clone(&addresses);
        Box::pin(async move { connect(&world, address).await })
    };
    Network { lookup: Arc::new(lookup), connect: Arc::new(connect) }
}

async fn connect(world: &Arc<World>, address: SocketAddr) -> io::Result<Box<dyn Stream>> {
    let IpAddr::V4(v4) = address.ip() else { return Err(io::ErrorKind::ConnectionRefused.into()) };
    let [_, high, low, number] = v4.octets();
    let to: To = (u16::from_be_bytes([high, low]).into(), (number != CALLBACKS).then_some(number.into()));
    sleep(Duration::from_millis(world.draw(4))).await;
    if number == NOBODY || world.manner(to) == Manner::Swallows {
        sleep(Duration::from_hours(1)).await;
    }
    if world.manner(to) == Manner::Refuses {
        world.state().refused += 1;
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    let (ours, theirs) = duplex(64 * 1024);
    let world = Arc::clone(world);
    tokio::spawn(async move {
        // A connection ends when one side closes it.
        drop(serve(&world, to, theirs).await);
    });
    Ok(Box::new(ours))
}

impl World {
    pub(crate) fn receiver(&self, (tenant, endpoint): To) -> &Receiver {
        let tenant = &self.script.tenants[tenant];
        endpoint.map_or(&tenant.callbacks, |endpoint| &tenant.endpoints[endpoint])
    }

    /// A receiver's current behavior.
    pub(crate) fn manner(&self, to: To) -> Manner {
        let now = self.now();
        let phases = &self.receiver(to).phases;
        phases.iter().find(|(until, _)| now < *until).map_or(Manner::Closes, |(_, manner)| *manner)
    }

    fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let to = named(name).ok_or(io::ErrorKind::NotFound)?;
        if self.manner(to) == Manner::Nameless {
            return Err(io::ErrorKind::NotFound.into());
        }
        let last = to.1.map_or(CALLBACKS, |endpoint| u8::try_from(endpoint).expect("few endpoints"));
        let nobody = self.receiver(to).has_dead_address.then(|| address(to.0, NOBODY));
        Ok(nobody.into_iter().chain([address(to.0, last)]).collect())
    }

    /// The number of earlier requests to this receiver.
    fn requests_before(&self, to: To) -> usize {
        let mut state = self.state();
        let requests = state.requests_of.entry(to).or_default();
        *requests += 1;
        *requests - 1
    }
}

async fn serve(world: &Arc<World>, to: To, mut stream: DuplexStream) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some((head, body)) = request(&mut stream, &mut buffer).await? else { return Ok(()) };
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines
                .find(|(found, _)| found.eq_ignore_ascii_case(name))
                .map_or_else(String::new, |(_, value)| value.to_owned())
        };
        let manner = match world.manner(to) {
            Manner::Alternates(hangs, answers) => {
                let is_silent = world.requests_before(to) % (hangs + answers) < hangs;
                if is_silent { Manner::Hangs } else { Manner::Prompt }
            }
            manner => manner,
        };
        let index = {
            let mut state = world.state();
            state.posts.push(Post {
                at: world.now(),
                to,
                id: header("webhook-id"),
                timestamp: header("webhook-timestamp").parse().unwrap_or_default(),
                event_time: header("x-event-time"),
                signatures: header("webhook-signature"),
                body_signature: header("x-webhook-signature"),
                body,
                status: 0,
                is_cut: matches!(
                    manner,
                    Manner::Cuts | Manner::Refuses | Manner::Swallows | Manner::Nameless | Manner::Alternates(..)
                ),
                ended: None,
                taken: false,
            });
            state.posts.len() - 1
        };
        let id = header("webhook-id");
        world.note(format_args!("receiver {to:?}"), format_args!("gets {id}, {manner:?}"));
        let (status, after, wait) = match manner {
            Manner::Answers(status, after, wait) => (status, after, wait),
            Manner::Prompt => (200, 20 + world.draw(60), None),
            Manner::Flaps => (if index % 2 == 0 { 200 } else { 500 }, 3, None),
            Manner::Closes => (200, 3, None),
            Manner::Hangs => {
                closed(&mut stream, &mut buffer).await;
                return end(world, index);
            }
            Manner::CutsShort => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nha").await?;
                return end(world, index);
            }
            Manner::Cuts | Manner::Refuses | Manner::Swallows | Manner::Nameless | Manner::Alternates(..) => {
                return end(world, index);
            }
        };
        tokio::select! {
            biased;
            () = sleep(Duration::from_millis(after)) => {}
            () = closed(&mut stream, &mut buffer) => {
                return end(world, index);
            }
        }
        end(world, index)?;
        stream.write_all(answer(to, status, wait).as_bytes()).await?;
        stream.flush().await?;
        let mut state = world.state();
        state.posts[index].status = status;
        state.posts[index].taken = (200..300).contains(&status);
        drop(state);
        if manner == Manner::Closes {
            return Ok(());
        }
    }
}

/// Records that a request is no longer open.
fn end(world: &World, index: usize) -> io::Result<()> {
    let now = world.now();
    world.state().posts[index].ended = Some(now);
    Ok(())
}

/// Waits until the peer closes the connection.
async fn closed(stream: &mut DuplexStream, buffer: &mut Vec<u8>) {
    while stream.read_buf(buffer).await.is_ok_and(|read| read > 0) {}
}

fn answer(to: To, status: u16, wait: Option<u64>) -> String {
    let wait = wait.map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
    let location = if status == 302 { format!("location: {}\r\n", url(to)) } else { String::new() };
    let (length, body) = if status == 204 { ("", "") } else { ("content-length: 2\r\n", "ok") };
    format!("HTTP/1.1 {status} X\r\n{wait}{location}{length}\r\n{body}")
}

/// Reads the head and the body of a request.
async fn request(stream: &mut DuplexStream, buffer: &mut Vec<u8>) -> io::Result<Option<(String, String)>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let whole = end + 4 + length.unwrap_or(0_usize);
            if buffer.len() >= whole {
                let body = String::from_utf8_lossy(&buffer[end + 4..whole]).into_owned();
                buffer.drain(..whole);
                return Ok(Some((head, body)));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}
