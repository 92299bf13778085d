//! The daemon as its clients see it, over real sockets, with a made-up host.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

mod access;
mod answers;
mod bounds;
mod damage;
mod fairness;
mod guesses;
mod host;
mod hostile;
mod reload;
mod slow;
mod soak;

use super::snapshots::{Recorded, Recorder};
use super::{Config, Daemon, Open, Parts};
use crate::state::{Exported, Opened, Recording, Tell};
use procfs::process::Process;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use transect_history::synthetic::Made;

/// Windows that the source may be ahead of the history.
const AHEAD: i64 = 14;

/// How often memory was given back.
static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

struct Fake;

impl Recorder for Fake {
    fn snapshot(&mut self, dir: &Path, last: Duration, why: &str) -> Result<Recorded, String> {
        std::fs::create_dir(dir).map_err(|error| error.to_string())?;
        std::fs::write(dir.join("host.compact"), format!("{why} {}", last.as_secs()))
            .map_err(|error| error.to_string())?;
        Ok(Recorded { events: 7, lost: 0, window_unix_ns: (Some(5), Some(9)) })
    }

    fn reaches_back(&mut self) -> Duration {
        Duration::from_secs(40)
    }
}

struct NoRecording;

impl Recording for NoRecording {
    fn name(&self) -> String {
        "a snapshot".to_owned()
    }

    fn open(&self, _: Tell<'_>) -> Result<Opened, String> {
        Err("this recording is made up".to_owned())
    }

    fn export(&self, _: i64, _: i64, _: &str) -> Result<Exported, String> {
        Err("this recording is made up".to_owned())
    }
}

/// A daemon on a port of its own.
struct Running {
    daemon: Option<Daemon>,
    address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    data: tempfile::TempDir,
}

/// Status, head and body.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn of(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = bytes[end + 4..].to_vec();
        if !body.is_empty() && head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            body = unchunked(&body);
        }
        Answer { status, head, body }
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| {
            panic!("{e}: {}\n{}", self.head, String::from_utf8_lossy(&self.body))
        })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|w| w == b"\r\n").expect("a chunk's length");
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return body;
        }
        body.extend_from_slice(&bytes[end + 2..end + 2 + len]);
        bytes = &bytes[end + 2 + len + 2..];
    }
}

impl Running {
    fn start(change: impl FnOnce(&mut Config)) -> Self {
        let mut made = Made::new(3, 4);
        made.pace = Duration::from_millis(20);
        Running::of(made, change)
    }

    fn of(made: Made, change: impl FnOnce(&mut Config)) -> Self {
        Running::opening(made, change, Box::new(|_| Box::new(NoRecording)))
    }

    /// A daemon that opens snapshots in this way.
    fn opening(mut made: Made, change: impl FnOnce(&mut Config), open: Open) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = Running::config(data.path());
        change(&mut config);
        // Not faster than they are written, so that nothing is lost: a frame has 10, and some may wait.
        let allowed = Arc::new(AtomicI64::new(AHEAD));
        made.allowed = config.history.then(|| Arc::clone(&allowed));
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        let parts = Parts {
            source: Box::new(made),
            recorder: Ok(Box::new(Fake)),
            open,
            tell: Arc::new(move |line| lines.lock().unwrap().push(line.to_owned())),
            host_name: "made-up".to_owned(),
            give_back: || {
                GIVEN_BACK.fetch_add(1, Relaxed);
            },
        };
        let daemon = Daemon::start(&config, parts).unwrap();
        let address = daemon.address;
        if let Some(index) = daemon.service.index.as_ref().map(Arc::clone) {
            // Until the source is gone.
            std::thread::spawn(move || {
                while Arc::strong_count(&allowed) > 1 {
                    let numbers = index.numbers();
                    let taken = i64::try_from(numbers.written + numbers.lost).unwrap();
                    allowed.store(taken + AHEAD, Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let running = Running { daemon: Some(daemon), address, log, data };
        let service = || running.daemon.as_ref().map(|daemon| &daemon.service);
        wait_for("a window", || service().is_some_and(|service| service.hub.newest().is_some()));
        running
    }

    fn config(data: &Path) -> Config {
        let listen = "127.0.0.1:0".parse().unwrap();
        Config { listen, data: data.to_owned(), ..Config::default() }
    }

    /// Served by TLS.
    fn tls(certificate: &Path, key: &Path) -> Self {
        Running::start(|config| {
            config.tls_certificate = Some(certificate.to_owned());
            config.tls_key = Some(key.to_owned());
        })
    }

    fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read(&mut stream)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.send(text.as_bytes())
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    fn control(&self) -> String {
        std::fs::read_to_string(self.data.path().join("control.token")).unwrap().trim().to_owned()
    }

    /// With a token that may read everything.
    fn read(&self, path: &str) -> Answer {
        let bearer = format!("Bearer {}", self.control());
        self.ask("GET", path, &[("Authorization", &bearer)], "")
    }

    fn delete(&self, path: &str) -> Answer {
        let bearer = format!("Bearer {}", self.control());
        self.ask("DELETE", path, &[("Authorization", &bearer)], "")
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.control());
        self.ask("POST", path, &[("Authorization", &bearer)], body)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.stop();
        }
    }
}

fn read(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    // A reset after the answer is the answer's end.
    let _ = stream.read_to_end(&mut bytes);
    Answer::of(&bytes)
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_there() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Resident memory of this process, bytes.
fn memory_bytes() -> u64 {
    let status = Process::myself().unwrap().status().unwrap();
    status.vmrss.unwrap() * 1024
}

/// Runs a test in a process of its own, so that memory can be measured.
fn alone(name: &str) {
    let mut test = std::process::Command::new(std::env::current_exe().unwrap());
    test.args(["--ignored", "--exact", name, "--nocapture", "--test-threads=1"]);
    let output = test.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}
