//! The same load recorded by both collectors at once, and what each needed on disk for an event.
//!
//! In a process of its own because it also runs inside the nested host, where this program is all
//! there is.

use super::protocol;
use crate::{
    bed::{Bed, output},
    tracers::{Events, MIXED, Record, VM, Wish, traced},
};
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, BufReader, Write},
    path::Path,
};

/// `ratios role pair`.
#[derive(Debug, Args)]
pub struct Pair {
    /// Recorded events.
    #[arg(long, value_enum)]
    events: Set,
    /// Command that runs during the recording.
    #[arg(required = true, last = true)]
    load: Vec<String>,
}

/// Which events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Set {
    /// Scheduler, system calls, interrupts, disk.
    Mixed,
    /// Scheduler, KVM, interrupts.
    Vm,
}

impl Set {
    pub(super) fn tracepoints(self) -> Events {
        match self {
            Set::Mixed => MIXED,
            Set::Vm => VM,
        }
    }
}

/// Output sizes of both collectors.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Both {
    /// The compact file.
    pub ours: OnDisk,
    /// Pages of ftrace's ring buffers.
    pub peer: OnDisk,
}

/// Output of one collector.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OnDisk {
    /// Events written; folded pairs are two.
    pub events: u64,
    /// Events lost.
    pub lost: u64,
    /// As recorded.
    pub bytes: u64,
    /// After zstd.
    pub zstd_bytes: u64,
}

impl Pair {
    pub(super) fn play(&self) -> Result<()> {
        let bed = Bed::new(None, false)?;
        let out = bed.scratch()?;
        let dir = out.path().join("pair.transect");
        let events = self.events.tracepoints();
        let wish = Wish { events, buffer_kib: 32 << 10, consumer_alone: false };
        // Ftrace within the recorder's time, and not much shorter.
        let (set, pages) = (self.events.to_possible_value(), out.path().display().to_string());
        let set = set.as_ref().map_or("mixed", |value| value.get_name());
        let mut load = bed.role(&["spliced", "--events", set, "--out", &pages, "--"]);
        load.extend_from_slice(&self.load);
        output(&Record::Compact.command(&bed, &wish, &dir, &load))?;
        let spliced: crate::traced::Traced =
            serde_json::from_slice(&fs::read(out.path().join("traced.json"))?)?;
        let ours = traced(&dir)?;
        let compact = dir.join("host.compact");
        ensure!(compact.exists(), "{} was not recorded by the compact collector", dir.display());
        protocol::told(&Both {
            ours: OnDisk {
                events: ours.events.context("the recording has no event count")?,
                lost: ours.lost.unwrap_or(0),
                bytes: fs::metadata(&compact)?.len(),
                zstd_bytes: packed(&compact)?,
            },
            peer: OnDisk {
                events: spliced.events.context("ftrace has no event count")?,
                lost: spliced.lost.unwrap_or(0),
                bytes: spliced.bytes,
                zstd_bytes: zstd_of_pages(out.path())?,
            },
        })
    }
}

/// Size of the compact file when its blocks are compressed, which is a file just as readable.
fn packed(compact: &Path) -> Result<u64> {
    let bytes = transect_store::Mapping::open(compact)?;
    Ok(transect_compact::repack(&bytes, Counter(0))?.0)
}

/// `zstd -3` over all pages of a CPU, which is then one stream to be read from its beginning.
fn zstd_of_pages(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "raw") {
            let mut counter = Counter(0);
            zstd::stream::copy_encode(BufReader::new(File::open(&path)?), &mut counter, 3)?;
            bytes += counter.0;
        }
    }
    Ok(bytes)
}

/// Counts the bytes written to it.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
