//! Clients that take their answers slowly, or send nothing, take no place from others.

use super::{Answer, Made, Running, read, wait_for};
use crate::service::shared::Service;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use transect_http::{Peer, Quota, Share};

/// All windows that a daemon of [`of_two_minutes`] has, in full: tens of MB.
const WHOLE: &str = "/api/v1/history?from=-2m&step=1s";
const SMALL: &str = "/api/v1/history?from=-10s&step=10s&tables=windows";

/// A daemon on a host with many VMs whose source has ended after so many seconds, so that the same request has the same
/// answer. More than two minutes are in the history on disk.
pub(super) fn of_seconds(seconds: i64) -> Running {
    let mut made = Made::new(100, 100);
    made.pace = Duration::from_millis(1);
    made.last = Some(seconds);
    let running = Running::of(made, |config| config.history = seconds > 121);
    wait_for("the last window", || running.daemon.as_ref().unwrap().ended().is_some());
    running
}

/// A connection that has sent a request and reads nothing.
fn send(running: &Running, path: &str) -> TcpStream {
    let mut stream = running.connect();
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", running.address);
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// Bytes of unsent answers, and answers of the history that are being made or paused.
fn unsent(running: &Running) -> (usize, usize, usize) {
    let service = &running.daemon.as_ref().unwrap().service;
    (service.spool.used(), service.readers.used(), service.paused.used())
}

/// Takes a part of a quota, as if this user's other requests had it.
fn take(running: &Running, of: impl FnOnce(&Service) -> &Quota, amount: usize) -> Share {
    let peer = Peer::User(rustix::process::geteuid().as_raw());
    let service = &running.daemon.as_ref().unwrap().service;
    of(service).take(peer, amount, Duration::ZERO).ok().unwrap()
}

/// D11: each of them held one of four places until it had taken its answer.
#[test]
fn slow_readers_of_the_history_hold_no_place() {
    let running = of_seconds(121);
    let whole = running.get(WHOLE);
    assert!(whole.body.len() > 15 << 20, "{}", whole.body.len());
    // Room for one of them and a part of another: the others are half made, and wait without a place.
    let most = crate::service::daemon::SPOOL_BYTES_PER_CLIENT;
    let taken = take(&running, |service| &service.spool, most - (whole.body.len() * 5 / 4));
    let mut slow: Vec<_> = (0..4).map(|_| send(&running, WHOLE)).collect();
    wait_for("places that are free", || {
        let (bytes, making, paused) = unsent(&running);
        bytes > most / 2 && making == 0 && paused > 0
    });
    for _ in 0..5 {
        assert_eq!(running.get(SMALL).status, 200);
    }
    assert!(unsent(&running).0 <= most);
    println!(
        "{} bytes an answer, {:?} unsent, made and paused",
        whole.body.len(),
        unsent(&running)
    );
    // No answer is lost, in whatever order they are taken; one that is given up is given up as a whole.
    drop(slow.remove(3));
    for mut stream in slow.into_iter().rev() {
        assert!(read(&mut stream).body == whole.body);
    }
    drop(taken);
    wait_for("an empty spool", || unsent(&running) == (0, 0, 0));
    // The files have no names.
    let names = std::fs::read_dir(running.data.path()).unwrap().flatten();
    let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("unsent")), "{names:?}");
}

#[test]
fn answers_that_find_no_place_while_they_wait_end() {
    let running = of_seconds(121);
    let room =
        take(&running, |service| &service.spool, crate::service::daemon::SPOOL_BYTES_PER_CLIENT);
    let paused =
        take(&running, |service| &service.paused, crate::service::daemon::PAUSED_PER_CLIENT);
    let mut stream = send(&running, WHOLE);
    let service = &running.daemon.as_ref().unwrap().service;
    wait_for("the request", || service.readers.used() == 1);
    wait_for("its end", || service.counts.open.load(Relaxed) == 0);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    // It cannot be taken for whole: the last chunk is missing.
    assert!(bytes.len() > 1000 && !bytes.ends_with(b"0\r\n\r\n"), "{}", bytes.len());
    drop((room, paused));
    assert!(running.get(WHOLE).body.ends_with(b"]}\n"));
}

#[test]
fn one_client_has_not_all_places_of_the_history() {
    let running = of_seconds(121);
    let own =
        take(&running, |service| &service.readers, crate::service::daemon::READERS_PER_CLIENT);
    let refused = running.get(SMALL);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let service = &running.daemon.as_ref().unwrap().service;
    assert!(service.readers.take(Peer::User(u32::MAX), 1, Duration::ZERO).is_ok());
    drop(own);
    assert_eq!(running.get(SMALL).status, 200);
}

/// HEAD is GET without the body, with the same head.
#[test]
fn head_is_answered_on_every_route_of_get() {
    let running = Running::start(|_| {});
    let taken = running.post("/api/v1/snapshots", "").json();
    let bearer = format!("Bearer {}", running.control());
    let id = taken["id"].as_str().unwrap();
    let of_table = crate::service::routes::ROUTES.iter();
    let of_table = of_table.filter(|route| route.method == transect_http::Method::Get);
    let mut paths: Vec<String> = of_table.map(|route| route.path.replace("{id}", id)).collect();
    let view = |name: &str| format!("/view/{id}/{name}");
    paths.extend(["/".to_owned(), "/nothing".to_owned(), view(""), view("api/recording")]);
    paths.push(view("api/progress"));
    for path in paths {
        let headers = [("Authorization", bearer.as_str())];
        let head = running.ask("HEAD", &path, &headers, "");
        assert!(head.body.is_empty(), "{path}");
        if path.ends_with("progress") {
            assert_eq!(head.status, 200);
            continue;
        }
        let get = running.read(&path);
        assert_eq!(head.status, get.status, "{path}");
        for name in ["content-type", "content-length", "transfer-encoding"] {
            let (found, wanted) = (head.header(name), get.header(name));
            // Lengths change with the windows.
            assert_eq!(found.is_some(), wanted.is_some(), "{path}: {name}");
            assert!(name == "content-length" || found == wanted, "{path}: {name}");
        }
    }
    assert_eq!(running.ask("HEAD", "/api/v1/snapshots", &[], "").status, 401);
    assert_eq!(running.ask("HEAD", "/login", &[], "").status, 405);
    // The connection goes on behind it.
    let mut stream = running.connect();
    let one = |method: &str, end: &str| {
        format!(
            "{method} /api/v1/history?from=-5s HTTP/1.1\r\nHost: {}\r\n{end}\r\n",
            running.address
        )
    };
    let both = one("HEAD", "") + &one("GET", "Connection: close\r\n");
    stream.write_all(both.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let first = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    assert!(Answer::of(&bytes[first..]).json()["windows"].is_array());
}

/// Of 40 places one client has a quarter; of connections it has its own number.
#[test]
fn one_client_has_not_all_places_that_wait_for_a_window() {
    let running = Running::start(|config| {
        config.waiting = 40;
        config.connections_per_client = 12;
    });
    let path = "/api/v1/now?after=9000000000000000";
    let waiting: Vec<_> = (0..10).map(|_| send(&running, path)).collect();
    let hub = &running.daemon.as_ref().unwrap().service.hub;
    wait_for("ten that wait", || hub.waiting() == 10);
    let refused = running.get(path);
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    // Two more, which have asked nothing: the first of them makes room for the next.
    let idle: Vec<_> = (0..2).map(|_| running.connect()).collect();
    assert_eq!(running.get("/healthz").status, 200);
    let mut first = &idle[0];
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "it was closed");
    drop((idle, waiting));
}

#[test]
fn memory_is_given_back_when_many_clients_have_gone() {
    let running = Running::start(|_| {});
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = running.connect();
            let head = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", running.address);
            stream.write_all(head.as_bytes()).unwrap();
            assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
            stream
        })
        .collect();
    let given_back = || super::GIVEN_BACK.load(Relaxed);
    assert_eq!(given_back(), 0);
    drop(clients);
    wait_for("memory that is given back", || given_back() > 0);
}
