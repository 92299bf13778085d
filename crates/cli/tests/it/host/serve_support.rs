//! A daemon on this host, and as much of a client as tests need.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::processes::status;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// `transect serve`, killed if the test fails.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) host: String,
    data: PathBuf,
    lines: Mutex<Receiver<String>>,
    said: Vec<String>,
}

/// Status, head and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| {
            panic!("{e}: {}\n{}", self.head, String::from_utf8_lossy(&self.body))
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

impl Serving {
    /// Starts it in a directory with these settings, and waits until it has windows.
    pub(crate) fn start(dir: &Path, settings: &str) -> Self {
        let serving = Self::by(Command::new(env!("CARGO_BIN_EXE_transect")), dir, settings);
        serving.wait_until_ready();
        serving
    }

    /// Starts it by a command that is given its arguments.
    pub(crate) fn by(mut command: Command, dir: &Path, settings: &str) -> Self {
        let config = dir.join("serve.toml");
        fs::write(&config, settings).unwrap();
        let data = dir.join("data");
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        command.arg("--data").arg(&data).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut serving = Serving {
            child,
            host: String::new(),
            data,
            lines: Mutex::new(lines),
            said: Vec::new(),
        };
        let line = serving.line_with("serving http");
        let url = line.split("http://").nth(1).expect("an address");
        serving.host = url.trim_end_matches('/').to_owned();
        serving
    }

    /// Waits for a line of its log.
    pub(crate) fn line_with(&mut self, wanted: &str) -> String {
        let begun = Instant::now();
        loop {
            if let Some(line) = self.said.iter().find(|line| line.contains(wanted)) {
                return line.clone();
            }
            let left = Duration::from_secs(60).saturating_sub(begun.elapsed());
            match self.lines.get_mut().unwrap().recv_timeout(left) {
                Ok(line) => self.said.push(line),
                Err(_) => panic!("no {wanted:?} in its log: {:#?}", self.said),
            }
        }
    }

    pub(crate) fn wait_until_ready(&self) {
        let begun = Instant::now();
        while self.get("/readyz").status != 200 {
            assert!(begun.elapsed() < Duration::from_secs(60), "never ready");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn token(&self) -> String {
        fs::read_to_string(self.data.join("control.token")).unwrap().trim().to_owned()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "", "")
    }

    /// With the control token, which may read everything.
    pub(crate) fn read(&self, path: &str) -> Answer {
        self.ask("GET", path, &self.bearer(), "")
    }

    /// The header of a request with the control token.
    pub(crate) fn bearer(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token())
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &self.bearer(), body)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        ask(&self.host, method, path, headers, body)
    }

    /// Ends it in order.
    pub(crate) fn stop(mut self) -> (Option<i32>, Vec<String>) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let code = self.child.wait().unwrap().code();
        let said = std::mem::take(&mut self.said);
        (code, said.into_iter().chain(self.lines.get_mut().unwrap().iter()).collect())
    }

    /// As the machine's end does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Resident memory, bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        status(self.child.id()).vmrss.unwrap() * 1024
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks a server on this machine.
pub(crate) fn ask(host: &str, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {host}\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body: bytes[end + 4..].to_vec() }
}
