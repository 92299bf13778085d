//! A guest that is this machine itself, recorded over a TCP connection: the same agent, protocol and recorder as with a
//! real one.

#![allow(clippy::print_stdout, reason = "a skipped test names its reason in the log")]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_e2e::agent;

/// No wait takes longer.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A process that is killed with the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !holds() {
        ensure!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// An agent that listens, and its address.
pub(crate) fn start_agent() -> Result<(Running, String)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let address = format!("127.0.0.1:{port}");
    let child = Command::new(agent()?).args(["--tcp", &address]).stderr(Stdio::null()).spawn()?;
    let agent = Running(child);
    wait_for("the agent", || TcpStream::connect(&address).is_ok())?;
    Ok((agent, address))
}

pub(crate) fn can_record() -> bool {
    let is_root = fs::metadata("/sys/kernel/tracing/events").is_ok();
    if !is_root {
        println!("skipped: no access to tracefs");
    }
    is_root
}

/// A load of some thousand switches and system calls per second, so that events arrive soon.
pub(super) fn start_load() -> Result<Running> {
    let script =
        "import os, time\nwhile True:\n for _ in range(20): os.getppid()\n time.sleep(0.001)";
    Ok(Running(Command::new("python3").args(["-c", script]).spawn()?))
}

pub(super) fn manifest(dir: &Path) -> Result<Value> {
    let text = fs::read_to_string(dir.join("manifest.json"))?;
    serde_json::from_str(&text).context("manifest.json is not JSON")
}

pub(super) fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
