//! Loads that wait for a CPU, and the kernel's own account of them.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use crate::record_support::pinned;
use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
};

/// A process that is killed when the test ends.
pub(crate) struct Load(Child);

impl Load {
    pub(crate) fn start(cpu: u32, command: &[&str]) -> Self {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let command = pinned(cpu, &command);
        let mut start = Command::new(&command[0]);
        Load(start.args(&command[1..]).stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn spinning(cpu: u32) -> Self {
        Self::start(cpu, &["sh", "-c", "while :; do :; done"])
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Time on a CPU and waited for one, ns, by the kernel.
    pub(crate) fn accounts(&self) -> (u64, u64) {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.id())).unwrap();
        let mut words = text.split_whitespace().map(|word| word.parse().unwrap());
        (words.next().unwrap(), words.next().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keeps every CPU but the first busy.
pub(crate) fn others() -> Vec<Load> {
    let cpus = thread::available_parallelism().unwrap().get();
    (1..u32::try_from(cpus).unwrap()).map(Load::spinning).collect()
}
