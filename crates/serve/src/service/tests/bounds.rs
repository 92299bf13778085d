//! Limits of what one client's requests of timelines take at once.

use super::{Running, wait_for};
use crate::state::{Exported, Opened, Recording, Tell};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use transect_history::synthetic::Made;

/// Bytes of a long name: the answer with it takes 16 MiB, of which a client may have 48 in memory.
const LONG: usize = 10 << 20;

/// A recording that cannot be opened and whose name takes time or memory.
#[derive(Clone)]
struct Named {
    is_long: Arc<AtomicBool>,
    /// Locked: the name is not known yet.
    gate: Arc<Mutex<()>>,
    waiting: Arc<AtomicUsize>,
}

impl Named {
    fn new(is_long: bool) -> Self {
        let (gate, waiting) = (Arc::default(), Arc::default());
        Named { is_long: Arc::new(AtomicBool::new(is_long)), gate, waiting }
    }

    /// A daemon with a snapshot, and the path of a lookup of its timeline.
    fn start(&self) -> (Running, String) {
        let mut made = Made::new(3, 4);
        made.pace = Duration::from_millis(20);
        let named = self.clone();
        let open =
            Box::new(move |_: &std::path::Path| -> Box<dyn Recording> { Box::new(named.clone()) });
        let running = Running::opening(made, |_| {}, open);
        let path = format!("/view/{}/api/recording", take_snapshot(&running));
        (running, path)
    }
}

impl Recording for Named {
    fn name(&self) -> String {
        self.waiting.fetch_add(1, Relaxed);
        drop(self.gate.lock().unwrap());
        self.waiting.fetch_sub(1, Relaxed);
        "n".repeat(if self.is_long.load(Relaxed) { LONG } else { 1 })
    }

    fn open(&self, _: Tell<'_>) -> Result<Opened, String> {
        Err("made up".to_owned())
    }

    fn export(&self, _: i64, _: i64, _: &str) -> Result<Exported, String> {
        Err("made up".to_owned())
    }
}

fn take_snapshot(running: &Running) -> String {
    running.post("/api/v1/snapshots", "").json()["id"].as_str().unwrap().to_owned()
}

/// A connection that has sent a request and reads nothing.
fn send(running: &Running, path: &str) -> TcpStream {
    let mut stream = running.connect();
    let (host, token) = (running.address, running.control());
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn unread_answers_of_a_client_are_limited() {
    let named = Named::new(true);
    let (running, path) = named.start();
    // As if other unread answers had all of the spool.
    let service = &running.daemon.as_ref().unwrap().service;
    let peer = transect_http::Peer::User(rustix::process::geteuid().as_raw());
    let spool = crate::service::daemon::SPOOL_BYTES_PER_CLIENT;
    let spool = service.spool.take(peer, spool, Duration::ZERO).ok().unwrap();
    let mut unread = Vec::new();
    let small = || {
        named.is_long.store(false, Relaxed);
        let answer = running.read(&path);
        named.is_long.store(true, Relaxed);
        answer.status
    };
    wait_for("too many unread answers", || {
        unread.push(send(&running, &path));
        assert!(unread.len() < 12);
        std::thread::sleep(Duration::from_millis(500));
        let answer = running.read(&path);
        assert!(answer.status == 200 || answer.header("retry-after") == Some("1"));
        answer.status == 429
    });
    // Small answers have no share of it.
    assert_eq!(small(), 200);
    drop((unread, spool));
    wait_for("answers that are gone", || running.read(&path).status == 200);
}

#[test]
fn lookups_of_a_client_at_once_are_limited() {
    let named = Named::new(false);
    let (running, path) = named.start();
    let held = named.gate.lock().unwrap();
    let waiting: Vec<TcpStream> = (0..6).map(|_| send(&running, &path)).collect();
    wait_for("six lookups", || named.waiting.load(Relaxed) == 6);
    let refused = running.read(&path);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    drop(held);
    wait_for("the lookups' end", || named.waiting.load(Relaxed) == 0);
    assert_eq!(running.read(&path).status, 200);
    drop(waiting);
}

#[test]
fn what_is_not_there_opens_no_timeline() {
    let mut made = Made::new(3, 4);
    made.pace = Duration::from_millis(20);
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let open = Box::new(move |_: &std::path::Path| -> Box<dyn Recording> {
        count.fetch_add(1, Relaxed);
        Box::new(Named::new(false))
    });
    let running = Running::opening(made, |_| {}, open);
    let id = take_snapshot(&running);
    for path in ["nonsense", "api/nonsense", "api/", "assets/nothing.js", "api/tiles"] {
        assert_eq!(running.read(&format!("/view/{id}/{path}")).status, 404, "{path}");
    }
    assert_eq!(opened.load(Relaxed), 0);
    assert_eq!(running.read(&format!("/view/{id}/api/recording")).status, 200);
    assert_eq!(opened.load(Relaxed), 1);
}
