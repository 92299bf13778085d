use super::{answer::Wrong, *};
use crate::net::{
    bench_of::{Ran, job, run, run_crew, value},
    random::Random,
    undisturbed::undisturbed,
};
use files::File;
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Instant,
};

type Handler = Arc<dyn Fn(&mut TcpStream, File) -> std::io::Result<bool> + Send + Sync>;

/// A server of our own, one thread per connection; the handler says whether the connection is kept.
struct Own {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Own {
    fn start(handler: Handler) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !over.load(SeqCst)).flatten() {
                let handler = Arc::clone(&handler);
                thread::spawn(move || serve(stream, &handler));
            }
        });
        Self { address, is_over }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads requests until the client goes.
fn serve(stream: TcpStream, handler: &Handler) -> std::io::Result<()> {
    let mut to = stream.try_clone()?;
    to.set_nodelay(true)?;
    let mut lines = BufReader::new(stream).lines();
    while let Some(first) = lines.next() {
        let path = first?.split(' ').nth(1).unwrap_or_default().to_owned();
        for line in lines.by_ref() {
            if line?.is_empty() {
                break;
            }
        }
        let number = |text: &str| text.parse().unwrap();
        let (directory, class) = path["/dir".len()..].split_once("/class").unwrap();
        let (class, index) = class.split_once('_').unwrap();
        let file =
            File { directory: number(directory), class: number(class), index: number(index) };
        if !handler(&mut to, file)? {
            return Ok(());
        }
    }
    Ok(())
}

fn body(file: File) -> Vec<u8> {
    let mut body = file.mark().to_vec();
    body.resize(file.bytes().try_into().unwrap(), b'.');
    body
}

fn right(to: &mut TcpStream, file: File) -> std::io::Result<bool> {
    let mut all =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.bytes()).into_bytes();
    all.extend(body(file));
    to.write_all(&all)?;
    Ok(true)
}

fn load(params: &[(&str, Param)], servers: &[&Own]) -> Ran {
    let mut job = job(&Web, Role::Generator, params);
    job.peers = servers.iter().map(|server| server.address.to_string()).collect();
    run(&Web, &job, &tempfile::tempdir().unwrap())
}

fn text(word: &str) -> Param {
    Param::Text(word.into())
}

/// One step at a rate. The machine that tests run on is busy: its lateness is not what is tested, nor are time-outs.
fn at_rate(rate: f64, seconds: f64) -> Vec<(&'static str, Param)> {
    vec![
        ("mode", text("rate")),
        ("rate", Param::Float(rate)),
        ("seconds", Param::Float(seconds)),
        ("warm_s", Param::Float(0.0)),
        ("late_ms", Param::Float(900.0)),
        ("timeout_ms", Param::Float(10_000.0)),
        ("connections", Param::Int(16)),
    ]
}

#[test]
fn two_real_servers_answer_everything_right() {
    if find("nginx").is_none() {
        eprintln!("skipped: nginx is not installed");
        return;
    }
    let keep = tempfile::tempdir().unwrap();
    let mut params = at_rate(100.0, 1.0);
    params.extend([("directories", Param::Int(1)), ("warm_s", Param::Float(0.3))]);
    params.push(("generator_threads", Param::Int(2)));
    let ((metrics, notes), servers) = undisturbed(
        || {
            let (generated, servers) = run_crew(&Web, 2, &params, &keep);
            Ok((generated?, servers))
        },
        |((metrics, _), _)| assert!(value(metrics, "conforming_share") > 0.9, "{metrics:?}"),
    );
    assert_eq!(metrics[0].name, Web.about().metric.0);
    assert_eq!(value(&metrics, "failed_requests"), 0.0, "{notes:?}");
    let offered = value(&metrics, "offered_rate");
    assert!((120.0..300.0).contains(&offered), "{offered}");
    let latency = metrics.iter().find(|m| m.name == "latency").unwrap();
    let samples = latency.distribution.as_ref().unwrap().samples;
    assert_eq!(samples as f64, value(&metrics, "conforming_share_of"));
    assert!(value(&metrics, "received") > 100_000.0);
    for server in servers {
        assert_eq!(server.unwrap().0, Vec::new());
    }
}

/// What a server with a known mixture of delays did, and what was measured of it.
struct Mixture {
    fast: f64,
    slow: f64,
    metrics: Vec<Metric>,
    notes: Vec<String>,
}

impl Mixture {
    /// Three in ten take 450 ms, the others 30 ms; the server writes down how many it did so.
    fn load() -> Result<Self, Fault> {
        let (fast, slow) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (quick, late) = (Arc::clone(&fast), Arc::clone(&slow));
        let random = Mutex::new(Random::new(5, 5));
        let server = Own::start(Arc::new(move |to, file| {
            let is_slow = random.lock().unwrap().share() < 0.3;
            let (counter, delay) = if is_slow { (&late, 450) } else { (&quick, 30) };
            counter.fetch_add(1, SeqCst);
            thread::sleep(Duration::from_millis(delay));
            right(to, file)
        }));
        let mut params = at_rate(150.0, 2.0);
        params.push(("connections", Param::Int(128)));
        let (metrics, notes) = load(&params, &[&server])?;
        let (fast, slow) = (fast.load(SeqCst) as f64, slow.load(SeqCst) as f64);
        Ok(Self { fast, slow, metrics, notes })
    }

    /// Right answers in time.
    fn conforming(&self) -> f64 {
        value(&self.metrics, "conforming_throughput") * 2.0
    }

    fn mean(&self) -> f64 {
        (self.fast * 30e6 + self.slow * 450e6) / (self.fast + self.slow)
    }

    fn latency(&self) -> &Metric {
        self.metrics.iter().find(|metric| metric.name == "latency").unwrap()
    }

    /// Nothing but the server's delays is in what was measured.
    fn expect_no_more(&self) {
        let (conforming, fast) = (self.conforming(), self.fast);
        assert!(conforming >= 0.8 * fast, "{conforming} conform, {fast} were fast");
        let (mean, latency) = (self.mean(), self.latency());
        assert!(latency.value < mean + 100e6, "{} for {mean}", latency.value);
        assert!(latency.distribution.as_ref().unwrap().at(0.5).unwrap() < 300e6, "{latency:?}");
    }
}

#[test]
fn a_known_mixture_of_delays_is_measured_as_it_is() {
    let run = undisturbed(Mixture::load, Mixture::expect_no_more);
    let (fast, slow) = (run.fast, run.slow);
    assert_eq!(value(&run.metrics, "conforming_share_of"), fast + slow, "{:?}", run.notes);
    let conforming = run.conforming();
    assert!(conforming <= fast + 0.5, "{conforming} conform, {fast} were fast");
    let (mean, latency) = (run.mean(), run.latency());
    assert!(latency.value >= mean, "{} for {mean}", latency.value);
    let distribution = latency.distribution.as_ref().unwrap();
    assert!(distribution.min >= 30e6, "{distribution:?}");
    assert!(distribution.at(0.9).unwrap() >= 450e6, "{distribution:?}");
}

#[test]
fn a_stall_shows_in_every_request_that_was_due_in_it() {
    // Of 4 s the server stalls 1 s. What is due in it waits for its end: a quarter of all requests, uniformly 0 to 1 s.
    // So p99 = 0.96 s, p90 = 0.6 s, and 0.7 s of 4 s do not conform. A closed loop with 16 connections would have seen 16
    // slow answers of more than a thousand.
    let stalling = || {
        let start = Arc::new(Mutex::new(None::<Instant>));
        let server = Own::start(Arc::new(move |to, file| {
            let begun = *start.lock().unwrap().get_or_insert_with(Instant::now);
            let (from, until) = (Duration::from_millis(1500), Duration::from_millis(2500));
            if begun.elapsed() >= from {
                thread::sleep(until.saturating_sub(begun.elapsed()));
            }
            right(to, file)
        }));
        load(&at_rate(300.0, 4.0), &[&server])
    };
    undisturbed(stalling, |(metrics, _)| {
        let p99 = value(metrics, "latency_p99") / 1e9;
        assert!((0.85..1.5).contains(&p99), "p99 {p99} s");
        let latency = metrics.iter().find(|m| m.name == "latency").unwrap();
        let p90 = latency.distribution.as_ref().unwrap().at(0.9).unwrap() / 1e9;
        assert!((0.45..1.1).contains(&p90), "p90 {p90} s");
        let share = value(metrics, "conforming_share");
        assert!((0.60..0.88).contains(&share), "{share}");
    });
}

#[test]
fn a_search_ends_near_what_a_server_can_do() {
    // One request at a time, 10 ms each: 100 a second, and the queue may hold no more than the deadline.
    let turn = Mutex::new(());
    let server = Own::start(Arc::new(move |to, file| {
        let _turn = turn.lock().unwrap();
        thread::sleep(Duration::from_millis(10));
        right(to, file)
    }));
    let params = [
        ("rate", Param::Float(25.0)),
        ("seconds", Param::Float(1.0)),
        ("warm_s", Param::Float(0.2)),
        ("resolution", Param::Float(0.3)),
        ("late_ms", Param::Float(900.0)),
        ("timeout_ms", Param::Float(10_000.0)),
        ("share", Param::Float(0.9)),
        ("connections", Param::Int(32)),
    ];
    let search = || load(&params, &[&server]);
    let (metrics, notes) = undisturbed(search, |(metrics, notes)| {
        let held = value(metrics, "held_rate");
        assert!((20.0..200.0).contains(&held), "{held}: {notes:?}");
    });
    assert!(value(&metrics, "conforming_share") >= 0.9);
    assert!(notes.iter().any(|note| note.contains("did not")), "{notes:?}");
}

#[test]
fn a_generator_that_cannot_keep_up_refuses() {
    let server = Own::start(Arc::new(right));
    let fault = load(&at_rate(20e6, 3.0), &[&server]).unwrap_err();
    let Fault::Refused(refusal) = fault else { panic!("{fault}") };
    assert_eq!(refusal.kind, Kind::GeneratorLimited);
    assert!(refusal.why.contains("late by"), "{refusal}");
}

/// Every other request goes to a server that misbehaves: those fail, the others do not, and there is an end.
fn hostile(name: &str, wanted: Option<&str>, handler: Handler) {
    let (good, bad) = (Own::start(Arc::new(right)), Own::start(handler));
    let mut params = at_rate(40.0, 0.5);
    if wanted == Some(Wrong::Late.text()) {
        // Longer than a virtual machine is stopped: the good ones are in time.
        params.push(("timeout_ms", Param::Float(2000.0)));
    }
    let run = || {
        let begun = Instant::now();
        let ran = load(&params, &[&good, &bad]);
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
        ran
    };
    let (metrics, notes) = undisturbed(run, |_| {});
    let failed = value(&metrics, "failed_requests");
    let offered = value(&metrics, "conforming_share_of");
    match wanted {
        None => assert_eq!(failed, 0.0, "{name}: {notes:?}"),
        Some(wanted) => {
            assert!(failed > 0.0 && failed < offered, "{name}: {failed} of {offered}");
            assert!(notes.iter().any(|note| note.contains(wanted)), "{name}: {notes:?}");
            assert!(value(&metrics, "conforming_share") <= 1.0 - failed / offered + 1e-9, "{name}");
        }
    }
}

#[test]
fn servers_that_close_early_are_counted() {
    hostile("at once", Some(Wrong::Closed.text()), Arc::new(|_, _| Ok(false)));
    hostile(
        "within the answer",
        Some(Wrong::Closed.text()),
        Arc::new(|to, file| {
            to.write_all(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\nab", file.bytes()).as_bytes(),
            )?;
            Ok(false)
        }),
    );
}

#[test]
fn servers_that_talk_nonsense_are_counted() {
    hostile(
        "garbage",
        Some(Wrong::Garbage.text()),
        Arc::new(|to, _| {
            to.write_all(&[0xff; 3000])?;
            Ok(true)
        }),
    );
    hostile(
        "status",
        Some(Wrong::Status.text()),
        Arc::new(|to, _| {
            to.write_all(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")?;
            Ok(true)
        }),
    );
    hostile(
        "length",
        Some(Wrong::Length.text()),
        Arc::new(|to, file| {
            to.write_all(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", file.bytes() + 1)
                    .as_bytes(),
            )?;
            to.write_all(&body(file))?;
            Ok(true)
        }),
    );
    hostile(
        "content",
        Some(Wrong::Content.text()),
        Arc::new(|to, file| {
            let other = File { directory: file.directory + 1, ..file };
            right(to, other)
        }),
    );
}

#[test]
fn servers_that_are_slow_or_silent_time_out() {
    hostile("silent", Some(Wrong::Late.text()), Arc::new(|_, _| Ok(true)));
    hostile(
        "slow heads",
        Some(Wrong::Late.text()),
        Arc::new(|to, _| {
            for byte in b"HTTP/1.1 200 OK\r\nX: 1\r\n" {
                to.write_all(&[*byte])?;
                thread::sleep(Duration::from_millis(100));
            }
            Ok(true)
        }),
    );
}

#[test]
fn chunks_and_closed_connections_are_right_answers() {
    hostile(
        "chunked",
        None,
        Arc::new(|to, file| {
            to.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for part in body(file).chunks(1000) {
                to.write_all(format!("{:x}\r\n", part.len()).as_bytes())?;
                to.write_all(part)?;
                to.write_all(b"\r\n")?;
            }
            to.write_all(b"0\r\n\r\n")?;
            Ok(true)
        }),
    );
    hostile(
        "closing",
        None,
        Arc::new(|to, file| {
            to.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            to.write_all(&body(file))?;
            Ok(false)
        }),
    );
}

#[test]
fn nobody_there_is_a_failure_that_says_so() {
    let port = crate::net::daemon::free_port().unwrap();
    let mut job = job(&Web, Role::Generator, &at_rate(50.0, 0.3));
    job.peers = vec![format!("127.0.0.1:{port}")];
    undisturbed(
        || Ok(run(&Web, &job, &tempfile::tempdir().unwrap()).unwrap_err()),
        |fault| assert!(fault.to_string().contains(Wrong::Connect.text()), "{fault}"),
    );
}

#[test]
fn wrong_parameters_are_refused_before_anything_runs() {
    for (name, param) in [
        ("mode", text("fast")),
        ("rate", Param::Float(-1.0)),
        ("rate", text("many")),
        ("connections", Param::Int(0)),
        ("timeout_ms", Param::Float(100.0)),
        ("generator_threads", Param::Int(100)),
    ] {
        let mut job = job(&Web, Role::Generator, &[(name, param)]);
        job.peers = vec!["127.0.0.1:1".into()];
        let fault = run(&Web, &job, &tempfile::tempdir().unwrap()).unwrap_err();
        assert!(matches!(&fault, Fault::Refused(refusal) if refusal.kind == Kind::Plan), "{fault}");
    }
    let whole = job(&Web, Role::Whole, &[]);
    assert_eq!(Web.can_run(&whole).unwrap_err().kind, Kind::Senseless);
}
