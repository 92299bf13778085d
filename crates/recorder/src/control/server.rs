//! The recorder's end: its state file and its socket, both gone when it ends.

use super::{
    place,
    state::{RecorderState, Request},
};
use anyhow::Context;
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    time::Duration,
};

/// The longest request. Everything longer is not one.
const MAX_REQUEST_BYTES: u64 = 64;
/// A client sends its line at once; one that does not must not hold up the recorder.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(200);

/// A recorder's state file and listening socket.
pub struct ControlServer {
    listener: UnixListener,
    socket: PathBuf,
    state: PathBuf,
}

/// A request whose reply is still owed.
pub struct Pending {
    /// What was asked.
    pub request: Request,
    stream: UnixStream,
}

impl Pending {
    /// Replies that the request is refused. The client's wait ends when this value is dropped.
    pub fn refuse(&self, why: &str) {
        let line = format!("error {}\n", why.replace('\n', " "));
        let _ = (&self.stream).write_all(line.as_bytes());
    }

    /// Replies, and hangs up. A client that went away loses nothing but the reply.
    pub fn reply(mut self, result: &Result<PathBuf, String>) {
        let line = match result {
            Ok(path) => format!("ok {}\n", path.display()),
            Err(why) => format!("error {}\n", why.replace('\n', " ")),
        };
        let _ = self.stream.write_all(line.as_bytes());
    }
}

impl ControlServer {
    /// Makes the recorder known.
    ///
    /// # Errors
    /// There is no directory for its state, or the socket cannot be made.
    pub fn start(state: &RecorderState) -> anyhow::Result<Self> {
        let dir = place::create()?;
        let socket = dir.join(format!("{}.sock", state.pid));
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .with_context(|| format!("{}: cannot listen", socket.display()))?;
        let path = dir.join(format!("{}.json", state.pid));
        let text = serde_json::to_string(state)?;
        fs::write(&path, text).with_context(|| format!("{}: cannot write", path.display()))?;
        Ok(ControlServer { listener, socket, state: path })
    }

    /// The next request, if one is waiting.
    pub fn next(&self) -> Option<Pending> {
        let (stream, _) = self.listener.accept().ok()?;
        match read_request(&stream) {
            Ok(request) => Some(Pending { request, stream }),
            Err(why) => {
                let mut stream = stream;
                let _ = stream.write_all(format!("error {why}\n").as_bytes());
                None
            }
        }
    }
}

impl AsFd for ControlServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.state);
        let _ = fs::remove_file(&self.socket);
    }
}

fn read_request(stream: &UnixStream) -> Result<Request, String> {
    let failed = |e: io::Error| format!("cannot read the request: {e}");
    stream.set_nonblocking(false).map_err(failed)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT)).map_err(failed)?;
    let mut line = Vec::new();
    let mut bounded = BufReader::new(stream.take(MAX_REQUEST_BYTES));
    bounded.read_until(b'\n', &mut line).map_err(failed)?;
    let line = String::from_utf8_lossy(&line);
    Request::from_line(line.trim()).ok_or_else(|| format!("unknown request {line:?}"))
}
