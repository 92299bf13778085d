//! Bytes of an answer that its client has not taken yet, in a file without a name. So an answer is made at full speed, and
//! what its making needs is free for others while the client is fed.

use super::peer::Peer;
use super::quota::{Quota, Share};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Room for files is taken in such steps, bytes.
const STEP_BYTES: usize = 1 << 20;
/// Bytes that are read from the file at once.
const LOAD_BYTES: usize = 256 << 10;

/// Room for unsent answers of one client.
#[derive(Clone)]
pub struct Spool {
    /// The directory of the files.
    pub dir: Arc<Path>,
    /// Bytes of all clients.
    pub room: Quota,
    /// The client.
    pub peer: Peer,
}

/// The place among others that the making of an answer takes.
pub trait Making: Send {
    /// Gives the place to others, because the client has to be waited for. False: the answer must end.
    fn pause(&mut self) -> bool;

    /// Takes a place again. False: there is none, the answer must end.
    fn resume(&mut self) -> bool;
}

/// The unsent bytes of one answer.
pub(crate) struct Outbox {
    spool: Spool,
    /// Until the answer is made.
    making: Option<Box<dyn Making>>,
    file: Option<File>,
    shares: Vec<Share>,
    /// The part of the file that is unsent and not loaded.
    unread: std::ops::Range<u64>,
    /// The part that is loaded, and how much of it is sent.
    loaded: (Vec<u8>, usize),
}

impl Outbox {
    pub(crate) fn new(spool: Spool, making: Option<Box<dyn Making>>) -> Self {
        let (file, shares) = (None, Vec::new());
        Outbox { spool, making, file, shares, unread: 0..0, loaded: (Vec::new(), 0) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.loaded.1 == self.loaded.0.len() && self.unread.is_empty()
    }

    /// The answer is made.
    pub(crate) fn end_making(&mut self) {
        self.making = None;
    }

    /// Gives the place of the making to others.
    ///
    /// # Errors
    /// The answer must end.
    pub(crate) fn pause(&mut self) -> io::Result<()> {
        allow(self.making.as_mut().is_none_or(|making| making.pause()))
    }

    /// Takes a place again.
    ///
    /// # Errors
    /// The answer must end.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        allow(self.making.as_mut().is_none_or(|making| making.resume()))
    }

    /// Appends bytes. False: there is no room for them, and nothing is appended.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let end = self.unread.end.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let room = |shares: &Vec<Share>| u64::try_from(shares.len() * STEP_BYTES).unwrap_or(0);
        while room(&self.shares) < end {
            let share = self.spool.room.take(self.spool.peer, STEP_BYTES, Duration::ZERO);
            let Ok(share) = share else { return false };
            self.shares.push(share);
        }
        if self.file.is_none() {
            self.file = new_file(&self.spool.dir).ok();
        }
        // A full disk has no room either.
        let Some(file) = &self.file else { return false };
        let is_written = file.write_all_at(bytes, self.unread.end).is_ok();
        if is_written {
            self.unread.end = end;
        }
        is_written
    }

    /// The next unsent bytes; none: all are sent, and the file is empty again.
    pub(crate) fn next(&mut self) -> io::Result<&[u8]> {
        let (loaded, sent) = &mut self.loaded;
        if *sent < loaded.len() {
            return Ok(&loaded[*sent..]);
        }
        loaded.clear();
        *sent = 0;
        let left = self.unread.end - self.unread.start;
        if let Some(file) = self.file.as_ref().filter(|_| left > 0) {
            let len = usize::try_from(left).unwrap_or(LOAD_BYTES).min(LOAD_BYTES);
            loaded.resize(len, 0);
            file.read_exact_at(loaded, self.unread.start)?;
            self.unread.start += u64::try_from(len).unwrap_or(left);
        } else if !self.shares.is_empty() {
            self.unread = 0..0;
            self.shares.clear();
            if let Some(file) = &self.file {
                file.set_len(0)?;
            }
        }
        Ok(loaded)
    }

    /// So many of the next bytes are sent.
    pub(crate) fn advance(&mut self, sent: usize) {
        self.loaded.1 += sent;
    }

    /// Sends as much as the client takes at once.
    pub(crate) fn send_now(&mut self, to: &TcpStream) -> io::Result<()> {
        loop {
            let next = self.next()?;
            if next.is_empty() {
                return Ok(());
            }
            let Some(sent) = send_now(to, next)? else { return Ok(()) };
            self.advance(sent);
        }
    }
}

fn allow(is_allowed: bool) -> io::Result<()> {
    is_allowed.then_some(()).ok_or_else(|| io::ErrorKind::ResourceBusy.into())
}

/// Sends what fits into the socket's buffer; None: nothing.
pub(crate) fn send_now(to: &TcpStream, bytes: &[u8]) -> io::Result<Option<usize>> {
    loop {
        match send(to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => return Ok(Some(sent)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A file that only this process can reach, and that ends with it.
fn new_file(dir: &Path) -> io::Result<File> {
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(dir, flags | OFlags::TMPFILE, mode) {
        return Ok(file.into());
    }
    // A file system without O_TMPFILE.
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = dir.join(format!(".unsent-{}-{number}", std::process::id()));
    let file =
        rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode)?;
    std::fs::remove_file(&path)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;

    const PEER: Peer = Peer::User(7);

    fn spool(dir: &Path, room: &Quota) -> Spool {
        Spool { dir: dir.into(), room: room.clone(), peer: PEER }
    }

    fn take_all(outbox: &mut Outbox) -> Vec<u8> {
        let mut all = Vec::new();
        while !outbox.is_empty() {
            let next = outbox.next().unwrap();
            let len = next.len().min(100_000);
            all.extend_from_slice(&next[..len]);
            outbox.advance(len);
        }
        assert!(outbox.next().unwrap().is_empty());
        all
    }

    #[test]
    fn bytes_come_out_in_order_and_room_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let room = Quota::new(3 << 20, 3 << 20);
        let mut outbox = Outbox::new(spool(dir.path(), &room), None);
        for round in 0..3_u8 {
            let bytes: Vec<u8> = (0..2_900_000_u32).map(|n| n.to_le_bytes()[1] ^ round).collect();
            for part in bytes.chunks(70_000) {
                assert!(outbox.push(part));
            }
            // A directory has no name of it.
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            assert!(room.take(PEER, 1, Duration::ZERO).is_err());
            assert_eq!(take_all(&mut outbox), bytes);
            assert!(room.take(PEER, 3 << 20, Duration::ZERO).is_ok());
        }
    }

    #[test]
    fn bytes_without_room_are_not_appended() {
        let dir = tempfile::tempdir().unwrap();
        let room = Quota::new(2 << 20, 2 << 20);
        let mut outbox = Outbox::new(spool(dir.path(), &room), None);
        assert!(outbox.push(&[1; 2 << 20]));
        assert!(!outbox.push(&[2]));
        assert_eq!(take_all(&mut outbox), [1; 2 << 20]);
        assert!(outbox.push(&[3; 5]));
        assert_eq!(take_all(&mut outbox), [3; 5]);
        let mut nowhere = Outbox::new(spool(&dir.path().join("nothing"), &room), None);
        assert!(!nowhere.push(&[1]));
        drop((outbox, nowhere));
        assert!(room.take(PEER, 2 << 20, Duration::ZERO).is_ok());
    }
}
