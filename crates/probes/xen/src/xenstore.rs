//! A small client of xenstored: which domains there are, and a notice when one comes or goes.
//!
//! The protocol is xen/include/public/io/xs_wire.h of 4.17: a header of four words (type, request, transaction, bytes)
//! and so many bytes. xenstored is reached over its socket or, where it runs in a domain of its own, over the kernel's
//! device, which speaks the same.

use crate::XenError;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType},
    time::Timespec,
};
use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, Instant},
};

const DIRECTORY: u32 = 1;
const READ: u32 = 2;
const WATCH: u32 = 4;
const WATCH_EVENT: u32 = 15;
const ERROR: u32 = 16;
const HEADER_BYTES: usize = 16;
/// `XENSTORE_PAYLOAD_MAX`.
const MAX_PAYLOAD_BYTES: usize = 4096;
/// xenstored answers in a fraction of a millisecond; one that is busy with a hundred domains' boot, later.
const PATIENCE: Duration = Duration::from_secs(5);
const SOCKETS: [&str; 2] = ["/run/xenstored/socket", "/var/run/xenstored/socket"];
const DEVICES: [&str; 2] = ["/dev/xen/xenbus", "/proc/xen/xenbus"];
/// Domains come and go: what xenstored itself announces.
const ANNOUNCED: [&str; 2] = ["@introduceDomain", "@releaseDomain"];

/// A connection.
#[derive(Debug)]
pub struct XenStore {
    channel: OwnedFd,
    /// Read, but not a whole message yet.
    bytes: Vec<u8>,
    request: u32,
    /// Announcements that were not asked for yet.
    announced: bool,
}

/// What xenstore says of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Its name; empty while it is being made.
    pub name: String,
    /// Its UUID, lower case; empty if it has none there.
    pub uuid: String,
    /// How many vCPUs it was given; 0 if that is not there.
    pub vcpus: u32,
}

fn failed(action: impl Into<String>) -> impl FnOnce(io::Error) -> XenError {
    let action = action.into();
    move |source| XenError::Store { action, source }
}

impl XenStore {
    /// Connects, and asks to be told of domains that come and go.
    ///
    /// # Errors
    /// No xenstored, or no permission.
    pub fn connect() -> Result<Self, XenError> {
        let mut store = Self::over(open().map_err(failed("connect"))?);
        for path in ANNOUNCED {
            store.request(WATCH, &[path, "transect"]).map_err(failed(format!("watch {path}")))?;
        }
        // A watch fires once when it is made.
        store.announced = false;
        Ok(store)
    }

    fn over(channel: OwnedFd) -> Self {
        XenStore { channel, bytes: Vec::new(), request: 0, announced: false }
    }

    /// Have domains come or gone since the last call? Does not wait.
    ///
    /// # Errors
    /// xenstored is gone.
    pub fn has_news(&mut self) -> Result<bool, XenError> {
        while self.message(Duration::ZERO).map_err(failed("read"))?.is_some() {}
        Ok(std::mem::take(&mut self.announced))
    }

    /// The domains there are now. One that goes meanwhile is left out.
    ///
    /// # Errors
    /// xenstored is gone, or does not answer.
    pub fn domains(&mut self) -> Result<BTreeMap<u32, Named>, XenError> {
        let ids = self.list("/local/domain")?.unwrap_or_default();
        let mut domains = BTreeMap::new();
        for id in ids.iter().filter_map(|id| id.parse::<u32>().ok()) {
            let home = format!("/local/domain/{id}");
            let name = self.read(&format!("{home}/name"))?;
            let vm = self.read(&format!("{home}/vm"))?.unwrap_or_default();
            let vcpus = self.list(&format!("{home}/cpu"))?.map_or(0, |vcpus| vcpus.len());
            let named = Named {
                name: name.unwrap_or_default(),
                uuid: vm.rsplit('/').next().unwrap_or_default().to_lowercase(),
                vcpus: u32::try_from(vcpus).unwrap_or(0),
            };
            domains.insert(id, named);
        }
        Ok(domains)
    }

    /// A value; none if there is no such path.
    fn read(&mut self, path: &str) -> Result<Option<String>, XenError> {
        let read = unless_absent(self.request(READ, &[path]));
        let bytes = read.map_err(failed(format!("read {path}")))?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The names below a path; none if there is no such path.
    fn list(&mut self, path: &str) -> Result<Option<Vec<String>>, XenError> {
        let listed = unless_absent(self.request(DIRECTORY, &[path]));
        let bytes = listed.map_err(failed(format!("list {path}")))?;
        let names = |bytes: Vec<u8>| {
            let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        };
        Ok(bytes.map(names))
    }

    /// Asks, and waits for the answer.
    fn request(&mut self, kind: u32, words: &[&str]) -> io::Result<Vec<u8>> {
        self.request = self.request.wrapping_add(1);
        let payload: Vec<u8> =
            words.iter().flat_map(|word| word.bytes().chain(std::iter::once(0))).collect();
        let bytes = u32::try_from(payload.len()).map_err(io::Error::other)?;
        let header = [kind, self.request, 0, bytes].map(u32::to_le_bytes).concat();
        self.write(&[header, payload].concat())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(answer) = self.message(left)? else {
                return Err(io::ErrorKind::TimedOut.into());
            };
            if answer.request != self.request {
                continue;
            }
            return if answer.kind == ERROR {
                Err(refusal(&answer.payload))
            } else {
                Ok(answer.payload)
            };
        }
    }

    /// A request is small: the socket takes it at once.
    fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.channel, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.wait(PollFlags::OUT, PATIENCE)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next message that is an answer; announcements are noted on the way. None if there is none in time.
    fn message(&mut self, limit: Duration) -> io::Result<Option<Answer>> {
        let deadline = Instant::now() + limit;
        loop {
            while let Some(answer) = self.buffered()? {
                if answer.kind != WATCH_EVENT {
                    return Ok(Some(answer));
                }
                self.announced = true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut piece = [0; HEADER_BYTES + MAX_PAYLOAD_BYTES];
            match rustix::io::read(&self.channel, &mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.bytes.extend_from_slice(&piece[..read]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if left.is_zero() => return Ok(None),
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, left)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A whole message of those bytes that were read.
    fn buffered(&mut self) -> io::Result<Option<Answer>> {
        let Some(header) = self.bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let word = |at: usize| {
            let word = header.get(at..).and_then(|rest| rest.first_chunk()).copied();
            word.map_or(0, u32::from_le_bytes)
        };
        let (kind, request) = (word(0), word(4));
        // On every target usize has at least 32 bits.
        let bytes = word(12) as usize;
        if bytes > MAX_PAYLOAD_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of invalid length"));
        }
        let Some(payload) = self.bytes.get(HEADER_BYTES..HEADER_BYTES + bytes) else {
            return Ok(None);
        };
        let answer = Answer { kind, request, payload: payload.to_vec() };
        self.bytes.drain(..HEADER_BYTES + bytes);
        Ok(Some(answer))
    }

    fn wait(&self, what: PollFlags, limit: Duration) -> io::Result<()> {
        let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.channel, what)], Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

struct Answer {
    kind: u32,
    request: u32,
    payload: Vec<u8>,
}

fn open() -> io::Result<OwnedFd> {
    for path in SOCKETS.iter().filter(|path| Path::new(path).exists()) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // A socket that nobody serves any more: xenstored may run elsewhere.
        if rustix::net::connect(&socket, &SocketAddrUnix::new(*path)?).is_ok() {
            return Ok(socket);
        }
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut last = Errno::NOENT;
    for path in DEVICES {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(device) => return Ok(device),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

/// xenstored names errors as C does.
fn refusal(payload: &[u8]) -> io::Error {
    let name = String::from_utf8_lossy(payload).trim_end_matches('\0').to_owned();
    let kind = match name.as_str() {
        "ENOENT" => io::ErrorKind::NotFound,
        "EACCES" => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, name)
}

fn unless_absent(answer: io::Result<Vec<u8>>) -> io::Result<Option<Vec<u8>>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Read, Write},
        os::unix::net::UnixStream,
        thread,
    };

    fn message(kind: u32, request: u32, payload: &[u8]) -> Vec<u8> {
        let bytes = u32::try_from(payload.len()).unwrap();
        let header = [kind, request, 0, bytes].map(u32::to_le_bytes).concat();
        [header, payload.to_vec()].concat()
    }

    /// Answers from a table; every answer comes in two pieces, with an announcement before it.
    fn serve(mut stream: UnixStream, table: BTreeMap<String, Vec<u8>>) {
        let mut header = [0; HEADER_BYTES];
        while stream.read_exact(&mut header).is_ok() {
            let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
            let mut payload = vec![0; word(12) as usize];
            stream.read_exact(&mut payload).unwrap();
            let path = String::from_utf8(payload).unwrap().trim_end_matches('\0').to_owned();
            let answer = match table.get(&format!("{} {path}", word(0))) {
                Some(answer) => message(word(0), word(4), answer),
                None => message(ERROR, word(4), b"ENOENT\0"),
            };
            stream.write_all(&message(WATCH_EVENT, 0, b"@introduceDomain\0transect\0")).unwrap();
            let (first, second) = answer.split_at(answer.len() / 2);
            stream.write_all(first).unwrap();
            thread::sleep(Duration::from_millis(1));
            if stream.write_all(second).is_err() {
                return;
            }
        }
    }

    fn store(table: &[(&str, &[u8])]) -> XenStore {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let table =
            table.iter().map(|(path, answer)| ((*path).to_owned(), answer.to_vec())).collect();
        thread::spawn(move || serve(theirs, table));
        XenStore::over(ours.into())
    }

    #[test]
    fn domains_have_names() {
        let mut store = store(&[
            ("1 /local/domain", b"0\x002\x007\0"),
            ("2 /local/domain/0/name", b"Domain-0"),
            ("2 /local/domain/2/name", b"web"),
            ("2 /local/domain/2/vm", b"/vm/2C8E2D0A-0000-4000-8000-000000000001"),
            ("1 /local/domain/2/cpu", b"0\x001\0"),
        ]);
        let domains = store.domains().unwrap();
        let name = |id: u32| domains[&id].name.as_str();
        assert_eq!((name(0), name(2), name(7)), ("Domain-0", "web", ""));
        assert_eq!(domains[&2].uuid, "2c8e2d0a-0000-4000-8000-000000000001");
        assert_eq!((domains[&2].vcpus, domains[&0].vcpus), (2, 0));
        assert!(store.has_news().unwrap(), "announced between the answers");
        assert!(!store.has_news().unwrap());
    }

    #[test]
    fn a_xenstored_that_ends_or_talks_nonsense_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        drop(theirs);
        let mut store = XenStore::over(ours.into());
        assert!(store.has_news().is_err());

        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.write_all(&[0xff; 64]).unwrap();
        let error = XenStore::over(ours.into()).has_news().unwrap_err().to_string();
        assert!(error.contains("invalid length"), "{error}");
    }
}
