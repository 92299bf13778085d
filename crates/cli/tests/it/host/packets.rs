//! Packets between this host and a network of its own, as a container has: through a pair of veth devices.

use crate::record_support::{Scratch, can_record_compact};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader},
    net::UdpSocket,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

const QUESTIONS: usize = 200;
/// Of a range for measurements between networks (RFC 2544), and so of no network here.
const HERE: &str = "198.18.77.1";
const THERE: &str = "198.18.77.2";
const ECHO: &str = "use IO::Socket::INET; $| = 1; \
    my $s = IO::Socket::INET->new(Proto => 'udp', LocalPort => 7777) or die; print qq(ready\\n); \
    my $d; while (defined $s->recv($d, 100)) { $s->send($d); }";

/// A process with a network of its own, which answers.
pub(crate) struct Server {
    child: Child,
    pub(crate) device: String,
}

impl Server {
    fn start() -> Result<Self, String> {
        let mut perl = Command::new("unshare");
        perl.args(["-n", "perl", "-e", ECHO]).stdout(Stdio::piped());
        let mut child = perl.spawn().map_err(|err| format!("unshare: {err}"))?;
        let mut line = String::new();
        let is_ready = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).is_ok();
        let device = format!("tsct{}", std::process::id() % 100_000);
        let server = Server { child, device };
        if !is_ready || line != "ready\n" {
            return Err("no server in a network of its own".into());
        }
        server.connect().map(|()| server)
    }

    fn connect(&self) -> Result<(), String> {
        let (here, there, pid) =
            (&self.device, format!("{}p", self.device), self.child.id().to_string());
        let inside = ["nsenter", "-t", &pid, "-n"];
        run(&["ip", "link", "add", here, "type", "veth", "peer", "name", &there, "netns", &pid])?;
        run(&["ip", "addr", "add", &format!("{HERE}/30"), "dev", here])?;
        run(&["ip", "link", "set", here, "up"])?;
        let address = format!("{THERE}/30");
        run(&[&inside[..], &["ip", "addr", "add", &address, "dev", &there]].concat())?;
        run(&[&inside[..], &["ip", "link", "set", &there, "up"]].concat())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = run(&["ip", "link", "del", &self.device]);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(|err| format!("{}: {err}", words[0]))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or(format!("{words:?}: {errors}"))
}

/// A socket that asks the server.
fn client() -> UdpSocket {
    let socket = UdpSocket::bind((HERE, 0)).unwrap();
    socket.connect((THERE, 7777)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The first one has to find out where the address is.
    ask(&socket, 1);
    socket
}

/// Asks so often, and waits for each answer, and then for the server to sleep.
fn ask(socket: &UdpSocket, questions: usize) {
    for question in 0..questions {
        let text = format!("{question:08}");
        socket.send(text.as_bytes()).unwrap();
        let mut answer = [0; 100];
        let length = socket.recv(&mut answer).unwrap();
        assert_eq!(&answer[..length], text.as_bytes());
        thread::sleep(Duration::from_millis(2));
    }
}

/// Records so many questions to a server with these words, which name the recording `r`.
pub(crate) fn recorded(words: &[&str], questions: usize) -> Option<(Server, Scratch)> {
    if !can_record_compact() {
        return None;
    }
    let server = match Server::start() {
        Ok(server) => server,
        Err(reason) => {
            println!("skipped: {reason}");
            return None;
        }
    };
    let socket = client();
    let scratch = Scratch::new();
    let recorder = scratch.start_compact(words);
    ask(&socket, questions);
    recorder.signal(Signal::INT);
    let (code, errors) = recorder.wait();
    assert_eq!(code, Some(0), "{errors}");
    Some((server, scratch))
}

#[test]
fn packets_of_a_container_are_told_by_stage() {
    let recorded = recorded(&["record", "--profile", "explain", "-o", "r"], QUESTIONS);
    let Some((server, scratch)) = recorded else { return };
    let output = scratch.run(&["export", "r", "--to", "jsonl", "-o", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let rows: Vec<Value> = rows.filter(|row: &Value| row["table"] == "packets").collect();
    let peer = format!("{}p", server.device);
    for (from, to) in [(&server.device, &peer), (&peer, &server.device)] {
        let is_it = |row: &&Value| row["device"] == **from && row["bytes"] == 8 + 8 + 20 + 14;
        let mine: Vec<&Value> = rows.iter().filter(is_it).collect();
        assert_eq!(mine.len(), QUESTIONS, "{from}");
        let is_whole = |row: &&&Value| row["missing"] == "" && row["to_device"] == **to;
        let whole = mine.iter().filter(is_whole).count();
        println!("{whole} of {} packets from {from} woke a thread that ran", mine.len());
        assert!(whole * 2 >= QUESTIONS, "{whole}: {mine:?}");
        for row in mine {
            // One that is awake is not woken.
            assert!(["", "wake"].iter().any(|missing| row["missing"] == *missing), "{row}");
            assert_eq!(row["evidence"], Value::Null, "within one machine: {row}");
            assert!(row["send_ts"].as_i64() < row["receive_ts"].as_i64(), "{row}");
        }
    }
}
