//! Clients that are slow, broken or mean get an error or nothing, and cost nothing.

use super::{Answer, Running, memory_bytes, read, wait_for};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

fn connections(running: &Running) -> usize {
    running.daemon.as_ref().unwrap().service.counts.open.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn paths_lead_nowhere() {
    let running = Running::start(|_| {});
    std::fs::write(running.data.path().join("secret"), "secret").unwrap();
    for path in [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/view/../control.token",
        "/view/..%2fcontrol.token/",
        "/view/%2e%2e/",
        "/api/v1/snapshots/../../control.token.tar",
        "/api/v1/snapshots/..%2f..%2fcontrol.token.tar",
        "/api/v1/snapshots/.tar",
        "/api/v1/snapshots/a%00b.tar",
        "//etc/passwd",
        "/assets/../../secret",
        "http://evil.example/api/v1/now",
        "*",
        "/api/v1/now/",
        "/API/V1/NOW",
    ] {
        for answer in [running.get(path), running.read(path)] {
            assert!([400, 401, 404].contains(&answer.status), "{path}: {}", answer.status);
            let said = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!said.contains("root:") && !said.contains("secret"), "{path}: {said}");
        }
    }
    let token = running.control();
    let long = format!("/view/{}/", "a".repeat(9000));
    let answer = running.read(&long);
    assert_eq!(answer.status, 404);
    assert!(!String::from_utf8_lossy(&answer.body).contains(&token));
}

#[test]
fn what_is_no_request_is_refused_and_the_connection_closed() {
    let running = Running::start(|_| {});
    let head = format!("Host: {}\r\n", running.address);
    let many = "A: b\r\n".repeat(200);
    let long = format!("A: {}\r\n", "a".repeat(20_000));
    let cases: [(String, u16); 11] = [
        ("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n".to_owned(), 400),
        ("GET\r\n\r\n".to_owned(), 400),
        (format!("PUT /api/v1/now HTTP/1.1\r\n{head}\r\n"), 405),
        (format!("OPTIONS * HTTP/1.1\r\n{head}\r\n"), 405),
        (format!("GET / HTTP/1.1\r\n{head}{many}\r\n"), 400),
        (format!("GET / HTTP/1.1\r\n{head}{long}\r\n"), 431),
        (format!("GET /{} HTTP/1.1\r\n{head}\r\n", "a".repeat(20_000)), 431),
        (format!("POST /login HTTP/1.1\r\n{head}Content-Length: 99999999\r\n\r\n"), 413),
        (format!("POST /login HTTP/1.1\r\n{head}Content-Length: -1\r\n\r\n"), 400),
        (
            format!(
                "POST /login HTTP/1.1\r\n{head}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"
            ),
            400,
        ),
        (format!("POST /login HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 411),
    ];
    for (text, status) in cases {
        let begun = Instant::now();
        assert_eq!(running.send(text.as_bytes()).status, status, "{:.60}", text);
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody waits for it");
    }
    // A body that is sent although it was refused does not hide the answer.
    let mut stream = running.connect();
    let text = format!("POST /login HTTP/1.1\r\n{head}Content-Length: 2000000\r\n\r\n");
    stream.write_all(text.as_bytes()).unwrap();
    let _ = stream.write_all(&vec![b'x'; 2_000_000]);
    assert_eq!(read(&mut stream).status, 413);
    wait_for("all closed", || connections(&running) == 0);
}

/// A hundred and fifty that send a letter a second, and as many that say nothing: others are served
/// meanwhile, the slow ones are told after 10 s.
#[test]
fn slow_clients_keep_nobody_waiting_and_are_ended() {
    super::alone("service::tests::hostile::slow_clients");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn slow_clients() {
    // All of them are one user's.
    let running = Running::start(|config| config.connections_per_client = 400);
    let before = memory_bytes();
    let begun = Instant::now();
    let mut slow: Vec<TcpStream> = (0..150).map(|_| running.connect()).collect();
    let silent: Vec<TcpStream> = (0..150).map(|_| running.connect()).collect();
    let mut letters = "GET /api/v1/now HTTP/1.1\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaa".bytes();
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(9) {
        let letter = letters.next().unwrap();
        for stream in &mut slow {
            stream.write_all(&[letter]).unwrap();
        }
        let asked = Instant::now();
        assert_eq!(running.get("/api/v1/now?tables=windows").status, 200);
        slowest = slowest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(600));
    }
    let grown = memory_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes for 300 clients that are slow");
    for stream in &mut slow {
        let answer = read(stream);
        assert_eq!(answer.status, 408);
    }
    let ended = begun.elapsed();
    assert!(ended < Duration::from_secs(30), "{ended:?}");
    println!("slowest other answer {slowest:?}, {grown} bytes more, all ended after {ended:?}");
    drop(silent);
    wait_for("all closed", || connections(&running) == 0);
}

#[test]
fn who_does_not_take_an_answer_or_hangs_up_holds_nothing() {
    let running = Running::start(|_| {});
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", running.address);
    // Half closed: the answer still comes.
    let mut half = running.connect();
    half.write_all(request("/api/v1/now?tables=health").as_bytes()).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let mut bytes = Vec::new();
    half.read_to_end(&mut bytes).unwrap();
    assert_eq!(Answer::of(&bytes).status, 200);
    // Half a request, and gone.
    for cut in [1, 20, 40] {
        let text = request("/api/v1/history?from=-1m");
        running.connect().write_all(&text.as_bytes()[..cut]).unwrap();
    }
    // Many requests at once, and gone before the answers.
    for _ in 0..20 {
        let text = request("/api/v1/history?from=-5m").repeat(20);
        let _ = running.connect().write_all(text.as_bytes());
    }
    wait_for("all closed", || connections(&running) == 0);
    assert_eq!(running.get("/api/v1/history?from=-1m").status, 200, "turns were given back");
    // One request behind the other, on one connection.
    let mut stream = running.connect();
    let last = request("/healthz").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    stream.write_all((request("/healthz").repeat(5) + &last).as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap().matches("HTTP/1.1 200 OK").count(), 6);
}

#[test]
fn too_many_are_told_so() {
    let running = Running::start(|config| {
        config.connections = 8;
        config.waiting = 2;
    });
    let wait = format!(
        "GET /api/v1/now?after=9000000000000000 HTTP/1.1\r\nHost: {}\r\n\r\n",
        running.address
    );
    let mut waiting: Vec<TcpStream> = (0..2).map(|_| running.connect()).collect();
    for stream in &mut waiting {
        stream.write_all(wait.as_bytes()).unwrap();
    }
    wait_for("two that wait", || running.daemon.as_ref().unwrap().service.hub.waiting() == 2);
    let third = running.get("/api/v1/now?after=9000000000000000");
    assert_eq!((third.status, third.header("retry-after")), (503, Some("1")));
    wait_for("one that is over", || connections(&running) == 2);
    let more: Vec<TcpStream> = (0..6).map(|_| running.connect()).collect();
    wait_for("all places taken", || connections(&running) == 8);
    let refused = read(&mut running.connect());
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    drop((more, waiting));
    wait_for("free places", || running.get("/healthz").status == 200);
    let metrics = String::from_utf8(running.get("/metrics").body).unwrap();
    assert!(!metrics.contains("transect_http_refused_total{why=\"connections\"} 0"), "{metrics}");
}

/// Whoever reads one byte a second gets no more than its time.
#[test]
fn an_answer_has_to_be_taken() {
    let mut made = super::Made::new(100, 100);
    made.pace = Duration::from_millis(20);
    let running = Running::of(made, |config| config.history = false);
    let windows = || running.get("/api/v1/now?tables=health").json()["ts"].as_i64();
    wait_for("two minutes", || windows() > Some(120_000_000_000));
    let mut stream = running.connect();
    let text = format!(
        "GET /api/v1/history?from=-2m&step=1s HTTP/1.1\r\nHost: {}\r\n\r\n",
        running.address
    );
    stream.write_all(text.as_bytes()).unwrap();
    wait_for("the request", || connections(&running) == 1);
    let begun = Instant::now();
    let mut byte = [0];
    while connections(&running) > 0 && begun.elapsed() < Duration::from_secs(200) {
        let _ = stream.read(&mut byte);
        std::thread::sleep(Duration::from_millis(500));
    }
    let ended = begun.elapsed();
    assert!(ended > Duration::from_secs(5) && ended < Duration::from_secs(180), "{ended:?}");
}
