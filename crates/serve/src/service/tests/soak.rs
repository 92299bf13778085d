//! Hours of windows, and hundreds of clients: memory and disk stay what they are.

use super::{Made, Running, memory_bytes, wait_for};
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// An hour of a host with 10 VMs in some seconds.
#[test]
fn an_hour_of_windows_takes_no_more_memory_and_no_more_disk() {
    super::alone("service::tests::soak::an_hour");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn an_hour() {
    let mut made = Made::new(10, 20);
    made.last = Some(3600);
    let running = Running::of(made, |config| {
        config.history_limit_bytes = 16 << 20;
        config.history_flush = Duration::from_secs(10);
    });
    let service = &running.daemon.as_ref().unwrap().service;
    let (mut at_third, mut highest) = (0, 0);
    let begun = Instant::now();
    while service.hub.ended().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(280), "too slow");
        let answer = running.get("/api/v1/history?from=-10m&step=10s&tables=windows,exit_windows");
        assert_eq!(answer.status, 200);
        assert_eq!(running.get("/metrics").status, 200);
        let number = service.hub.newest().map_or(0, |taken| taken.snapshot().ts / 1_000_000_000);
        if number > 1200 {
            if at_third == 0 {
                at_third = memory_bytes();
            }
            highest = highest.max(memory_bytes());
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    let numbers = service.index.as_ref().unwrap().numbers();
    println!(
        "3600 windows in {:?}: {} MiB after a third, {} MiB at most since, {} kB on disk, {} lost",
        begun.elapsed(),
        at_third >> 20,
        highest >> 20,
        numbers.bytes >> 10,
        numbers.lost
    );
    assert!(at_third > 0 && highest < at_third + (24 << 20), "{at_third} then {highest}");
    assert!(numbers.bytes <= 17 << 20, "{numbers:?}");
    assert!(numbers.written >= 3500 && numbers.lost == 0, "{numbers:?}");
}

/// So many clients at once for so long: everybody is answered, nothing is missed, memory is bounded.
fn many_clients(clients: usize, lasting: Duration) {
    let mut made = Made::new(100, 50);
    made.pace = Duration::from_millis(100);
    let running = Running::of(made, |config| config.connections_per_client = 512);
    wait_for("some history", || {
        running.daemon.as_ref().unwrap().service.index.as_ref().unwrap().numbers().written > 20
    });
    let before = memory_bytes();
    let (answers, bytes, bad) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let highest = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..clients {
            let (running, over, answers, bytes, bad) = (&running, &over, &answers, &bytes, &bad);
            scope.spawn(move || {
                let paths = match number % 10 {
                    0 => "/metrics",
                    1 => "/api/v1/history?from=-20s&step=10s&tables=windows",
                    2 => "/api/v1/status",
                    3..6 => "/api/v1/now",
                    _ => "/api/v1/now?tables=windows,window_details,antagonists&after=TS",
                };
                let mut ts = 0_i64;
                while !over.load(Relaxed) {
                    let path = paths.replace("TS", &ts.to_string());
                    let answer = running.get(&path);
                    match answer.status {
                        200 => {
                            answers.fetch_add(1, Relaxed);
                            bytes.fetch_add(answer.body.len() as u64, Relaxed);
                            if paths.contains("TS") {
                                ts = answer.json()["ts"].as_i64().unwrap();
                            }
                        }
                        // A turn to read history, a place to wait: asked again, as told.
                        429 | 503 if answer.header("retry-after").is_some() => {}
                        _ => drop(bad.fetch_add(1, Relaxed)),
                    }
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        }
        let begun = Instant::now();
        while begun.elapsed() < lasting {
            highest.fetch_max(memory_bytes(), Relaxed);
            std::thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Relaxed);
    });
    let grown = highest.load(Relaxed).saturating_sub(before);
    println!(
        "{clients} clients, {lasting:?}: {} answers, {} MB, {} MiB more memory (the clients' own included)",
        answers.load(Relaxed),
        bytes.load(Relaxed) / 1_000_000,
        grown >> 20
    );
    assert_eq!(bad.load(Relaxed), 0);
    assert!(answers.load(Relaxed) > clients as u64, "all were answered");
    assert!(grown < 400 << 20, "{grown}");
    let numbers = running.daemon.as_ref().unwrap().service.index.as_ref().unwrap().numbers();
    assert!(numbers.written > 0, "{numbers:?}");
    assert_eq!(numbers.lost, 0, "the history went on");
}

#[test]
fn two_hundred_clients_at_once() {
    super::alone("service::tests::soak::two_hundred_clients_for_seconds");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn two_hundred_clients_for_seconds() {
    many_clients(200, Duration::from_secs(5));
}

#[test]
#[ignore = "a minute; the same as above for longer"]
fn two_hundred_clients_for_a_minute() {
    many_clients(200, Duration::from_secs(60));
}

/// A client that asks over one connection, again and again, and one that stops in the middle.
#[test]
fn connections_are_used_again() {
    let running = Running::start(|_| {});
    let mut stream = running.connect();
    let text =
        format!("GET /api/v1/history?from=-5s HTTP/1.1\r\nHost: {}\r\n\r\n", running.address);
    let mut buffer = Vec::new();
    for _ in 0..20 {
        stream.write_all(text.as_bytes()).unwrap();
        buffer.clear();
        let mut part = [0; 4096];
        while !buffer.ends_with(b"0\r\n\r\n") {
            let len = stream.read(&mut part).unwrap();
            assert!(len > 0, "closed");
            buffer.extend_from_slice(&part[..len]);
        }
        assert_eq!(super::Answer::of(&buffer).status, 200);
    }
}
