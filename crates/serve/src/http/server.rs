//! The listener and its connections.

use super::request::{self, NoRequest, Request};
use super::response::{Answer, Response, write_events};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Connections at once; a browser uses six.
const MAX_CONNECTIONS: usize = 64;
/// How long a client may say nothing, or read nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the listener waits after an error, and who is one too many for its answer.
const TURN: Duration = Duration::from_millis(100);

/// Answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// The answer. `client` is whoever asks, to see whether it is still there.
    fn answer(&self, request: &Request, client: &TcpStream) -> Answer;
}

/// A listener on this machine.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Listens; the address must be this machine's own.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let message = "only 127.0.0.1 and ::1 are listened on: who may reach the port may \
                           read the recording (ssh -L brings it to another machine)";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok(Server { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves for good: connections end with the process.
    pub(crate) fn run(&self, handler: &Arc<impl Handler>) -> ! {
        let open = Arc::new(AtomicUsize::new(0));
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => accept(stream, handler, &open),
                // The client went away again, or there are too many files open: others come.
                Err(_) => thread::sleep(TURN),
            }
        }
    }
}

fn accept(stream: TcpStream, handler: &Arc<impl Handler>, open: &Arc<AtomicUsize>) {
    if open.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
        open.fetch_sub(1, Ordering::Relaxed);
        let _ = stream.set_write_timeout(Some(TURN));
        let busy = Response::error(503, "too many connections at once");
        let _ = busy.write(&mut &stream, false);
        return;
    }
    let guard = Open(Arc::clone(open));
    let handler = Arc::clone(handler);
    // Without a thread the connection is closed, and the browser tries again.
    let _ = thread::Builder::new().name("view-connection".to_owned()).spawn(move || {
        let _guard = guard;
        let _ = connection(&stream, handler.as_ref());
    });
}

/// Counts a connection.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn connection(stream: &TcpStream, handler: &impl Handler) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut left = Vec::new();
    loop {
        match request::read(&mut &*stream, &mut left) {
            Ok(request) => match handler.answer(&request, stream) {
                Answer::Whole(response) => {
                    response.write(&mut &*stream, request.keep_alive)?;
                    if !request.keep_alive {
                        return Ok(());
                    }
                }
                Answer::Events(events) => return write_events(&mut &*stream, events),
            },
            Err(NoRequest::Gone) => return Ok(()),
            Err(NoRequest::Bad(response)) => return response.write(&mut &*stream, false),
        }
    }
}
