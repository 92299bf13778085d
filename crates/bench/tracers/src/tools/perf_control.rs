//! `perf … --control fifo:…`: events go on when we say so, and perf says when they are on
//! (tools/perf/Documentation/perf-record.txt, since 5.10).

use super::{START_PATIENCE, child::Running};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use transect_bench_core::Fault;

/// Two pipes with names.
#[derive(Debug)]
pub(crate) struct Control {
    to: File,
    from: File,
    words: String,
}

impl Control {
    /// Makes the pipes.
    pub(crate) fn make(folder: &Path) -> Result<Self, Fault> {
        let fifo = |name: &str| -> Result<(File, PathBuf), Fault> {
            let path = folder.join(name);
            let failed = |error: String| Fault::failed(format!("{}: {error}", path.display()));
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
                .map_err(|error| failed(error.to_string()))?;
            // Both ends, so that opening waits for nobody.
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            Ok((options.open(&path).map_err(|error| failed(error.to_string()))?, path))
        };
        let (to, to_path) = fifo("perf.control")?;
        let (from, from_path) = fifo("perf.answers")?;
        let words = format!("fifo:{},{}", to_path.display(), from_path.display());
        Ok(Self { to, from, words })
    }

    /// Makes perf start with its events off, and listen.
    pub(crate) fn add_to(&self, command: &mut Command) {
        command.args(["-D", "-1", "--control", &self.words]);
    }

    /// Has perf switch its events on, and waits until it has.
    pub(crate) fn enable(&mut self, perf: &mut Running) -> Result<(), Fault> {
        self.to
            .write_all(b"enable\n")
            .map_err(|error| perf.fault(&format!("cannot be enabled: {error}")))?;
        let mut answer = Vec::new();
        let from = &mut self.from;
        perf.wait_until("acknowledgement that its events are enabled", START_PATIENCE, |_| {
            let mut chunk = [0; 16];
            if let Ok(read) = from.read(&mut chunk) {
                answer.extend_from_slice(&chunk[..read]);
            }
            answer.starts_with(b"ack")
        })
    }
}
