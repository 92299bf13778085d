//! A server of one recording, and as much of a client as its page is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

pub(crate) mod state_sums;

use crate::processes::children;
use arrow::array::{Array, RecordBatch};
use arrow::ipc::reader::StreamReader;
use arrow::util::display::array_value_to_string;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use transect_engine::synthetic::Plan;

/// A copy of the program that has nothing beside it.
pub(crate) fn alone() -> (tempfile::TempDir, PathBuf) {
    let program = Path::new(env!("CARGO_BIN_EXE_transect"));
    let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let alone = dir.path().join("transect");
    fs::hard_link(program, &alone).unwrap();
    (dir, alone)
}

/// A file of `testdata/succeed`.
pub(crate) fn testdata(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed");
    root.join(name).to_str().unwrap().to_owned()
}

/// Runs the binary to its end, with a cache of its own.
pub(crate) fn transect(cache: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(words).env("XDG_CACHE_HOME", cache).stdin(Stdio::null()).output().unwrap()
}

/// The host and guest recorded together, as one recording.
pub(crate) fn pair(dir: &Path) -> String {
    imported(dir, "pair", ["tracedat/pair-host.dat", "tracedat/pair-guest.dat"])
}

/// A nested host and its guest, which makes 150 requests to a disk.
pub(crate) fn nested(dir: &Path) -> String {
    imported(dir, "nested", ["nested/host.dat", "nested/guest.dat"])
}

fn imported(dir: &Path, name: &str, files: [&str; 2]) -> String {
    let recording = dir.join(format!("{name}.transect")).to_str().unwrap().to_owned();
    let [host, guest] = files.map(testdata);
    let output = transect(dir, &["import", &host, &guest, "-o", &recording]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    recording
}

/// What a compact recorder leaves: its file, and a manifest that was not finished.
pub(crate) fn compact(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let host = json!({ "id": 0, "parent": null, "kind": "host", "name": "host", "vmm_pid": null,
        "cgroup": null, "uname": null, "cpu_count": null, "clock": "mono", "vcpus": [] });
    recording(dir, name, bytes, &json!([host]))
}

/// A recording that never happened, of a host with two VMs.
pub(crate) fn made_up(dir: &Path, events: u64) -> String {
    let plan = Plan { events, vms: 2, cpus: 2, vcpus: 2, ..Plan::default() };
    let topology = plan.topology();
    let machines = topology.machines.iter().map(|machine| {
        let own = topology.vcpus.iter().filter(|vcpu| vcpu.machine == machine.id);
        let vcpus = own.map(|v| json!({ "vcpu": v.vcpu, "vmm_tid": v.vmm_tid }));
        json!({ "id": machine.id, "parent": machine.parent, "kind": machine.kind,
            "name": machine.name, "vmm_pid": machine.vmm_pid, "cgroup": null, "uname": null,
            "cpu_count": null, "clock": machine.clock, "vcpus": vcpus.collect::<Value>() })
    });
    let bytes = plan.write_compact(Vec::new()).unwrap();
    recording(dir, "made-up.transect", &bytes, &machines.collect())
}

fn recording(dir: &Path, name: &str, bytes: &[u8], machines: &Value) -> String {
    let recording = dir.join(name);
    fs::create_dir(&recording).unwrap();
    fs::write(recording.join("host.compact"), bytes).unwrap();
    let reference = "{\"evidence\":\"reference\",\"machine\":0,\"clock\":\"mono\"}\n";
    fs::write(recording.join("clocks.jsonl"), reference).unwrap();
    let manifest = json!({
        "format": 1, "transect": "0.1.0", "created_unix_ns": 0, "command_line": ["test"],
        "recorder_pid": 1, "finished": false, "ended_by": null,
        "machines": machines,
        "sources": [{ "machine_id": 0, "file": "host.compact", "format": "compact",
            "spooled": false, "clock": "mono", "tsc_to_ns": null, "sub_buffer_bytes": 32768,
            "cpu_count": 4, "long_bytes": 8, "big_endian": false, "trace_id": 0, "uname": "" }],
        "gaps": [], "lost": [], "threads": [], "events": [], "cost": null, "notes": []
    });
    fs::write(recording.join("manifest.json"), manifest.to_string()).unwrap();
    recording.to_str().unwrap().to_owned()
}

/// `transect view`, until it is dropped.
pub(crate) struct Served {
    child: Child,
    host: String,
    token: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    pub(crate) fn start(cache: &Path, words: &[&str]) -> Self {
        Self::by(Path::new(env!("CARGO_BIN_EXE_transect")), cache, words)
    }

    /// By this copy of the program.
    pub(crate) fn by(program: &Path, cache: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.arg("view").arg("--api-only").args(words).env("XDG_CACHE_HOME", cache);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (site, token) = url.trim().split_once("/?token=").expect("an address with a token");
        let (host, token) = (site.strip_prefix("http://").unwrap().to_owned(), token.to_owned());
        assert_eq!(token.len(), 32);
        Served { child, host, token }
    }

    /// The engine's processes that it has, by their numbers.
    pub(crate) fn engines(&self) -> Vec<u32> {
        children(self.child.id())
    }

    /// Stops the program for a moment.
    pub(crate) fn stop_and_go_on(&self) {
        for signal in [Signal::STOP, Signal::CONT] {
            kill_process(Pid::from_child(&self.child), signal).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    pub(crate) fn host(&self) -> String {
        self.host.clone()
    }

    /// The header that lets in.
    pub(crate) fn token(&self) -> Vec<(String, String)> {
        vec![("Authorization".to_owned(), format!("Bearer {}", self.token))]
    }

    fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(String, String)],
    ) -> (u16, String, Vec<u8>) {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name == "Host") {
            head.push_str(&format!("Host: {}\r\n", self.host));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }

    /// Status and body.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(String, String)],
    ) -> (u16, Vec<u8>) {
        let (status, _, body) = self.exchange(method, path, body, headers);
        (status, body)
    }

    fn good(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        let (status, answer) = self.ask(method, path, body, &self.token());
        assert_eq!(status, 200, "{path}: {}", String::from_utf8_lossy(&answer));
        answer
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Vec<u8> {
        self.good("POST", path, Some(body))
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.good("GET", path, None)).unwrap()
    }

    /// What the page's address sets.
    pub(crate) fn cookie(&self) -> String {
        let path = format!("/?token={}", self.token);
        let (_, head, _) = self.exchange("GET", &path, None, &[]);
        let line = head.lines().find_map(|line| line.strip_prefix("Set-Cookie: "));
        line.expect("a cookie").to_owned()
    }

    /// Waits until nothing more is being made, as the page does; how that ended.
    pub(crate) fn wait_until_over(&self) -> Value {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(300) {
            let events = String::from_utf8(self.good("GET", "/api/progress", None)).unwrap();
            let last = events.lines().rev().find_map(|line| line.strip_prefix("data: "));
            let last: Value = serde_json::from_str(last.expect("an event")).unwrap();
            if last["state"] != "building" {
                return last;
            }
        }
        panic!("it is still being made");
    }

    /// All that is told of how far it is, until it is over.
    pub(crate) fn progress(&self) -> Vec<Value> {
        let events = String::from_utf8(self.good("GET", "/api/progress", None)).unwrap();
        let lines = events.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn ready(&self) {
        let building = self.wait_until_over();
        assert_eq!(building["state"], "ready", "{building}");
    }

    pub(crate) fn tracks(&self) -> Vec<Value> {
        rows(&self.good("GET", "/api/tracks", None))
    }

    pub(crate) fn keys(&self) -> Vec<Value> {
        rows(&self.good("GET", "/api/keys", None))
    }

    pub(crate) fn sql(&self, sql: &str) -> Vec<Value> {
        rows(&self.post("/api/sql", &json!({ "sql": sql })))
    }

    /// Rows of a question that has many.
    pub(crate) fn many(&self, sql: &str, limit: u32) -> Vec<Value> {
        let rows = rows(&self.post("/api/sql", &json!({ "sql": sql, "limit": limit })));
        assert!(rows.len() < limit as usize, "there are more rows than {limit}");
        rows
    }

    /// Status, head and body.
    pub(crate) fn whole(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> (u16, String, Vec<u8>) {
        self.exchange(method, path, body, &self.token())
    }

    /// Exact rows and sums.
    pub(crate) fn tiles(
        &self,
        level: u8,
        first: i64,
        count: u32,
        tracks: &[u64],
    ) -> (Vec<Value>, Vec<Value>) {
        let wish = json!({ "level": level, "first": first, "count": count, "tracks": tracks });
        let body = self.post("/api/tiles", &wish);
        let len = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().unwrap()) as usize;
        let exact = len(0);
        let sums = len(4 + exact);
        assert_eq!(body.len(), 8 + exact + sums);
        (rows(&body[4..4 + exact]), rows(&body[8 + exact..]))
    }
}

fn batches(stream: &[u8]) -> Vec<RecordBatch> {
    StreamReader::try_new(stream, None).unwrap().map(Result::unwrap).collect()
}

/// Rows of a stream, as JSON.
fn rows(stream: &[u8]) -> Vec<Value> {
    let mut rows = Vec::new();
    for batch in batches(stream) {
        for row in 0..batch.num_rows() {
            let schema = batch.schema();
            let cells = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
                let cell = match column.is_null(row) {
                    true => Value::Null,
                    false => cell(
                        &array_value_to_string(column, row).unwrap(),
                        field.data_type().is_numeric(),
                    ),
                };
                (field.name().clone(), cell)
            });
            rows.push(Value::Object(cells.collect()));
        }
    }
    rows
}

fn cell(text: &str, is_number: bool) -> Value {
    let number = || serde_json::from_str(text).ok().filter(|_| is_number);
    number().unwrap_or_else(|| Value::String(text.to_owned()))
}

/// A column of words; empty ones for nulls.
pub(crate) fn column(stream: &[u8], name: &str) -> Vec<String> {
    rows(stream).iter().map(|row| row[name].as_str().unwrap_or_default().to_owned()).collect()
}
