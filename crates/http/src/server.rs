//! The listener and its connections.

use super::connections::{Connections, Full, Place, Places};
use super::outbox::Outbox;
use super::paced::{Connection, Phase, Plain, Secure, let_it_finish};
use super::peer::{self, Peer};
use super::request::{self, NoRequest, Request};
use super::response::{Answer, Made, Response};
use super::streaming::{write_events, write_events_head, write_stream, write_stream_head};
use super::tls::Tls;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Connections at once, if nobody says otherwise; a browser uses six. The last ones are for other clients than the one
/// that has the most.
const PLACES: Places = Places { all: 64, per_client: 48 };
/// Threads of connections that were closed to make room and have not ended yet, at most.
const ENDING: usize = 64;
/// How long the listener waits after an error, and who is one too many for its answer.
const TURN: Duration = Duration::from_millis(100);

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The answer.
    fn answer(&self, request: &Request, caller: &Caller) -> Answer;

    /// A client's connection is about to be closed; no request of it comes any more.
    fn gone(&self, _caller: &Caller) {}
}

/// A client's connection.
#[derive(Debug)]
pub struct Caller {
    /// Its connection.
    pub stream: Arc<TcpStream>,
    /// The client's address.
    pub address: SocketAddr,
    /// Who it is, for quotas.
    pub peer: Peer,
}

/// What the listener counts, from its start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections now.
    pub open: AtomicUsize,
    /// Connections that were one too many: refused, or closed to make room for another one.
    pub turned_away: AtomicU64,
    /// Requests that were none, or came too slowly.
    pub bad: AtomicU64,
}

/// A listener.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    places: Places,
    connections: Arc<Connections>,
    tls: Option<Tls>,
    counts: Arc<Counts>,
    /// What its threads are called.
    thread_name: &'static str,
    /// By how much they give way to others of this process.
    niceness: i32,
}

impl Server {
    /// Listens; the address must be this machine's own.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let message = "the address must be 127.0.0.1 or ::1, because every client of the port can \
                           read the recording (use ssh -L to reach it from another machine)";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Server::bind_to(address, PLACES, None, "view-connection")
    }

    /// Listens on any address.
    pub fn bind_to(
        address: SocketAddr,
        places: Places,
        tls: Option<Tls>,
        thread_name: &'static str,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (counts, niceness) = (Arc::default(), 0);
        let connections = Arc::new(Connections::new(places));
        Ok(Server { listener, address, places, connections, tls, counts, thread_name, niceness })
    }

    /// Has its threads give way to others of this process.
    pub fn giving_way(mut self, niceness: i32) -> Self {
        self.niceness = niceness;
        self
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has counted so far.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.counts)
    }

    /// Serves for good: connections end with the process.
    pub fn run(&self, handler: &Arc<impl Handler>) -> ! {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => self.accept(stream, peer, handler),
                // The client went away again, or there are too many files open: others come.
                Err(_) => thread::sleep(TURN),
            }
        }
    }

    fn accept(&self, stream: TcpStream, address: SocketAddr, handler: &Arc<impl Handler>) {
        let counts = &self.counts;
        // A client that has closed its socket reads no answer.
        let Ok(peer) = peer::identify(&stream) else { return };
        let stream = Arc::new(stream);
        let place = self.connections.add(peer, &stream);
        let place = match place {
            Ok((place, has_dropped)) => {
                counts.turned_away.fetch_add(u64::from(has_dropped), Ordering::Relaxed);
                // Those that were closed may still be at work.
                let is_room = counts.open.load(Ordering::Relaxed) < self.places.all + ENDING;
                is_room.then_some(place).ok_or(Full::All)
            }
            Err(full) => Err(full),
        };
        let place = match place {
            Ok(place) => place,
            Err(full) => {
                counts.turned_away.fetch_add(1, Ordering::Relaxed);
                self.turn_away(&stream, peer, full);
                return;
            }
        };
        counts.open.fetch_add(1, Ordering::Relaxed);
        let guard = Open(Arc::clone(counts));
        let handler = Arc::clone(handler);
        let (tls, niceness) = (self.tls.as_ref().map(Tls::now), self.niceness);
        let caller = Caller { stream, address, peer };
        // Without a thread the connection is closed, and the browser tries again.
        let thread = thread::Builder::new().name(self.thread_name.to_owned());
        let _ = thread.spawn(move || {
            give_way(niceness);
            let closing = Closing { handler: handler.as_ref(), caller: &caller };
            let _ = serve(&caller, &place, tls.as_ref(), handler.as_ref(), &guard.0);
            drop(closing);
        });
    }

    /// Answers a connection that is one too many.
    fn turn_away(&self, stream: &TcpStream, peer: Peer, full: Full) {
        if self.tls.is_some() {
            return;
        }
        let busy = match full {
            Full::Client => {
                let most = self.places.per_client;
                let what = format!("too many connections at once: the limit for {peer} is {most}");
                Response::refusal(429, &what, "close one of them, or use it again")
            }
            Full::All => Response::error(503, "too many connections at once"),
        };
        let _ = stream.set_write_timeout(Some(TURN));
        let mut to = stream;
        let _ = busy.with("Retry-After", "1").write(&mut to, false);
    }
}

/// Changes the calling thread's niceness (setpriority(2): on Linux it is a thread's). One that may not
/// goes on as it is.
pub fn give_way(niceness: i32) {
    if niceness != 0
        && let Ok(now) = rustix::process::getpriority_process(None)
    {
        let _ = rustix::process::setpriority_process(None, (now + niceness).clamp(-20, 19));
    }
}

/// Has the handler forget a connection before its descriptor is closed, also when an answer panicked.
struct Closing<'c, H: Handler> {
    handler: &'c H,
    caller: &'c Caller,
}

impl<H: Handler> Drop for Closing<'_, H> {
    fn drop(&mut self) {
        self.handler.gone(self.caller);
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
    caller: &Caller,
    place: &Place,
    tls: Option<&Arc<rustls::ServerConfig>>,
    handler: &impl Handler,
    counts: &Counts,
) -> io::Result<()> {
    let stream = &*caller.stream;
    stream.set_nodelay(true)?;
    match tls {
        None => exchange(caller, place, &mut Plain::new(stream), handler, counts),
        Some(config) => {
            let mut secure = Secure::new(stream, config).map_err(io::Error::other)?;
            exchange(caller, place, &mut secure, handler, counts)
        }
    }
}

fn exchange(
    caller: &Caller,
    place: &Place,
    connection: &mut impl Connection,
    handler: &impl Handler,
    counts: &Counts,
) -> io::Result<()> {
    let mut left = Vec::new();
    loop {
        match request::read(connection, &mut left) {
            Ok(request) => {
                place.begin_answer();
                let answer = handler.answer(&request, caller);
                connection.begin(Phase::Answer);
                if let Answer::Events(events) = answer {
                    return match request.is_head {
                        true => write_events_head(connection),
                        false => write_events(connection, events),
                    };
                }
                send(answer, &request, connection)?;
                if !request.keep_alive {
                    connection.close();
                    return Ok(());
                }
                place.end_answer();
            }
            Err(NoRequest::Gone) => return Ok(()),
            Err(NoRequest::Bad(response)) => {
                counts.bad.fetch_add(1, Ordering::Relaxed);
                connection.begin(Phase::Answer);
                response.write(connection, false)?;
                connection.close();
                let_it_finish(&caller.stream);
                return Ok(());
            }
        }
    }
}

/// Sends an answer that is no events. One that has a spool is dropped, with all that it keeps, once it is made: its client is
/// fed from the spool.
fn send(answer: Answer, request: &Request, connection: &mut impl Connection) -> io::Result<()> {
    match answer {
        Answer::Whole(response) if request.is_head => {
            response.write_head(connection, request.keep_alive)
        }
        Answer::Whole(response) => {
            if let Some(spool) = response.spool() {
                connection.hold(Outbox::new(spool.clone(), None));
            }
            response.write(connection, request.keep_alive)?;
            drop(response);
            connection.let_go()
        }
        Answer::Stream(Made { head, .. }) if request.is_head => {
            write_stream_head(connection, &head, request)?;
            connection.flush()
        }
        Answer::Stream(Made { head, body, making }) => {
            if let Some(spool) = head.spool() {
                connection.hold(Outbox::new(spool.clone(), making));
            }
            write_stream(connection, &head, body, request)?;
            drop(head);
            connection.let_go()
        }
        Answer::Events(_) => Ok(()),
    }
}
