//! The compact collector, with the plainest sink there is: every slice to a file as it comes.
//!
//! `transect record` does more besides (names, clocks, a manifest); the rows that compare with other
//! tracers use that. This one is for what the recorder does not offer: programs that do nothing,
//! pairs that are not folded.

use super::protocol;
use crate::traced::Traced;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use std::{
    fs::File,
    io::{self, IoSlice, Write},
    path::PathBuf,
};
use transect_bpf::{Compact as Collector, LogSink, Plan, SyscallMode};
use transect_compact::{FileHeader, LogId, Slice, count_events, slice_header};
use transect_model::{exit::Isa, ids::CpuId};

/// `ratios role compact`.
#[derive(Debug, Args)]
pub struct Compact {
    /// How pairs are recorded.
    #[arg(long, value_enum, default_value_t = Pairs::Folded)]
    pairs: Pairs,
    /// Log of each CPU.
    #[arg(long)]
    buffer_kib: usize,
    /// The file.
    #[arg(long)]
    out: PathBuf,
    /// SYSTEM:EVENT.
    #[arg(required = true)]
    events: Vec<String>,
}

/// The records of a system call's entry and exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pairs {
    /// One record with its duration.
    Folded,
    /// A record each.
    Two,
    /// The exit alone.
    ExitOnly,
    /// No record: programs that do nothing.
    Empty,
    /// No record: programs that read the clock, as any tracer must.
    Stamp,
}

struct Sink {
    file: File,
    bytes: u64,
    events: u64,
}

impl LogSink for Sink {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        let log = LogId { cpu, side };
        let header = slice_header(&Slice { log, position, sync_ns, lost, words });
        write_both(&mut self.file, &header, words)?;
        self.bytes += (header.len() + words.len()) as u64;
        self.events += count_events(words);
        Ok(())
    }
}

/// One system call, unless the file system takes less.
fn write_both(file: &mut File, header: &[u8], words: &[u8]) -> io::Result<()> {
    let written = file.write_vectored(&[IoSlice::new(header), IoSlice::new(words)])?;
    match written.checked_sub(header.len()) {
        Some(of_words) => file.write_all(words.get(of_words..).unwrap_or_default()),
        None => {
            file.write_all(header.get(written..).unwrap_or_default())?;
            file.write_all(words)
        }
    }
}

impl Compact {
    pub(super) fn play(&self) -> Result<()> {
        let mut collector = Collector::load(&self.plan()).context("the compact collector")?;
        if let Some(absent) = collector.absent().first() {
            bail!("missing on this kernel: {absent}");
        }
        let mut file = File::create(&self.out)?;
        let cpus = u32::try_from(collector.cpus())?;
        file.write_all(&FileHeader::new(cpus, Isa::Svm, "").to_bytes())?;
        let consumer = collector.consume(Sink { file, bytes: 0, events: 0 })?;
        collector.attach()?;
        let begun = protocol::cpu_seconds();
        protocol::ready()?;
        protocol::wait_for_the_end()?;
        let cpu_s = protocol::cpu_seconds() - begun;
        let ended = collector.stop(consumer)?;
        if let Some(failure) = ended.failure {
            return Err(failure.into());
        }
        protocol::told(&Traced {
            events: Some(ended.sink.events),
            lost: Some(ended.stats.lost()),
            bytes: ended.sink.bytes,
            cpu_s: Some(cpu_s),
        })
    }

    fn plan(&self) -> Plan {
        Plan {
            with: self.events.clone(),
            log_bytes_per_cpu: self.buffer_kib << 10,
            fold: self.pairs != Pairs::Two,
            empty_programs: self.pairs == Pairs::Empty,
            empty_stamps: self.pairs == Pairs::Stamp,
            syscalls: match self.pairs {
                Pairs::Two => SyscallMode::Both,
                Pairs::ExitOnly => SyscallMode::ExitOnly,
                Pairs::Folded | Pairs::Empty | Pairs::Stamp => SyscallMode::Folded,
            },
            ..Plan::of(&[])
        }
    }
}
