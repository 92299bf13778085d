//! The listener and its connections.

use super::paced::{Connection, Phase, Plain, Secure, let_it_finish};
use super::request::{self, NoRequest, Request};
use super::response::{Answer, Response, write_events, write_stream};
use super::tls::Tls;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Connections at once, if nobody says otherwise; a browser uses six.
const MAX_CONNECTIONS: usize = 64;
/// How long the listener waits after an error, and who is one too many for its answer.
const TURN: Duration = Duration::from_millis(100);

/// Answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// The answer. `client` is whoever asks, to see whether it is still there.
    fn answer(&self, request: &Request, client: &TcpStream) -> Answer;

    /// A client's connection is about to be closed; no request of it comes any more.
    fn gone(&self, _peer: SocketAddr, _client: &TcpStream) {}
}

/// What the listener counts, from its start.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Connections now.
    pub(crate) open: AtomicUsize,
    /// Connections that were one too many.
    pub(crate) turned_away: AtomicU64,
    /// Requests that were none, or came too slowly.
    pub(crate) bad: AtomicU64,
}

/// A listener.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    max_connections: usize,
    tls: Option<Tls>,
    counts: Arc<Counts>,
    /// What its threads are called.
    thread_name: &'static str,
    /// By how much they give way to others of this process.
    niceness: i32,
}

impl Server {
    /// Listens; the address must be this machine's own.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let message = "the address must be 127.0.0.1 or ::1, because every client of the port can \
                           read the recording (use ssh -L to reach it from another machine)";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Server::bind_to(address, MAX_CONNECTIONS, None, "view-connection")
    }

    /// Listens on any address.
    pub(crate) fn bind_to(
        address: SocketAddr,
        max_connections: usize,
        tls: Option<Tls>,
        thread_name: &'static str,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let counts = Arc::default();
        Ok(Server { listener, address, max_connections, tls, counts, thread_name, niceness: 0 })
    }

    /// Has its threads give way to others of this process.
    pub(crate) fn giving_way(mut self, niceness: i32) -> Self {
        self.niceness = niceness;
        self
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Serves for good: connections end with the process.
    pub(crate) fn run(&self, handler: &Arc<impl Handler>) -> ! {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => self.accept(stream, peer, handler),
                // The client went away again, or there are too many files open: others come.
                Err(_) => thread::sleep(TURN),
            }
        }
    }

    fn accept(&self, stream: TcpStream, peer: SocketAddr, handler: &Arc<impl Handler>) {
        let counts = &self.counts;
        if counts.open.fetch_add(1, Ordering::Relaxed) >= self.max_connections {
            counts.open.fetch_sub(1, Ordering::Relaxed);
            counts.turned_away.fetch_add(1, Ordering::Relaxed);
            if self.tls.is_none() {
                let _ = stream.set_write_timeout(Some(TURN));
                let busy = Response::error(503, "too many connections at once");
                let _ = busy.with("Retry-After", "1").write(&mut &stream, false);
            }
            return;
        }
        let guard = Open(Arc::clone(counts));
        let handler = Arc::clone(handler);
        let (tls, niceness) = (self.tls.as_ref().map(Tls::now), self.niceness);
        // Without a thread the connection is closed, and the browser tries again.
        let _ = thread::Builder::new().name(self.thread_name.to_owned()).spawn(move || {
            give_way(niceness);
            let closing = Closing { handler: handler.as_ref(), peer, stream: &stream };
            let _ = serve(&stream, tls.as_ref(), handler.as_ref(), &guard.0);
            drop(closing);
        });
    }
}

/// Changes the calling thread's niceness (setpriority(2): on Linux it is a thread's). One that may not
/// goes on as it is.
pub(crate) fn give_way(niceness: i32) {
    if niceness != 0
        && let Ok(now) = rustix::process::getpriority_process(None)
    {
        let _ = rustix::process::setpriority_process(None, (now + niceness).clamp(-20, 19));
    }
}

/// Has the handler forget a connection before its descriptor is closed, also when an answer panicked.
struct Closing<'c, H: Handler> {
    handler: &'c H,
    peer: SocketAddr,
    stream: &'c TcpStream,
}

impl<H: Handler> Drop for Closing<'_, H> {
    fn drop(&mut self) {
        self.handler.gone(self.peer, self.stream);
    }
}

/// Counts a connection.
struct Open(Arc<Counts>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(
    stream: &TcpStream,
    tls: Option<&Arc<rustls::ServerConfig>>,
    handler: &impl Handler,
    counts: &Counts,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        None => exchange(stream, &mut Plain::new(stream), handler, counts),
        Some(config) => {
            let mut secure = Secure::new(stream, config).map_err(io::Error::other)?;
            exchange(stream, &mut secure, handler, counts)
        }
    }
}

fn exchange(
    stream: &TcpStream,
    connection: &mut impl Connection,
    handler: &impl Handler,
    counts: &Counts,
) -> io::Result<()> {
    let mut left = Vec::new();
    loop {
        match request::read(connection, &mut left) {
            Ok(request) => {
                let answer = handler.answer(&request, stream);
                connection.begin(Phase::Answer);
                match answer {
                    Answer::Whole(response) => response.write(connection, request.keep_alive)?,
                    Answer::Stream(head, body) => write_stream(connection, &head, body, &request)?,
                    Answer::Events(events) => return write_events(connection, events),
                }
                if !request.keep_alive {
                    connection.close();
                    return Ok(());
                }
            }
            Err(NoRequest::Gone) => return Ok(()),
            Err(NoRequest::Bad(response)) => {
                counts.bad.fetch_add(1, Ordering::Relaxed);
                connection.begin(Phase::Answer);
                response.write(connection, false)?;
                connection.close();
                let_it_finish(stream);
                return Ok(());
            }
        }
    }
}
