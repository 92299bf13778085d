//! Limits on the host resources of one guest: one policy for every channel, in every phase of a session.
//!
//! A guest is not trusted. Every frame passes [`Account::admit`] before the session keeps any of it. A frame that
//! exceeds a bound ends the recording of that guest with an [`Excess`]; the host and the other guests go on. The
//! account lives as long as the session, so a new connection does not restore a bound.

use crate::{
    describe::{LogTotals, MAX_LOGS_PER_CPU},
    proto::{CpuStats, Frame, MachineFacts, Started},
};
use std::time::{Duration, Instant};
use thiserror::Error;
use transect_model::untrusted::Untrusted;

/// The bounds of one guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// CPUs: the most that a kernel can be built for (x86-64 and arm64: `NR_CPUS`, 8,192).
    pub cpus: u32,
    /// Descriptive files of a beginning or an end, held in memory, bytes. With kallsyms about 15 MB.
    pub meta_bytes: usize,
    /// Descriptive files of a beginning or an end.
    pub meta_files: usize,
    /// Data held in memory until the source is known, bytes.
    pub early_bytes: usize,
    /// Files in the recording: sources, spools of CPUs, descriptive files.
    pub files: u64,
    /// Bytes in the recording.
    pub disk_bytes: u64,
    /// Connections that recorded.
    pub links: u32,
    /// Connections that ended with a protocol error.
    pub broken_links: u32,
    /// Frames that carry no events, per second of a connection on average.
    pub control_per_s: u64,
    /// Readings of the guest's clock, per second of a connection on average.
    pub readings_per_s: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            cpus: 8192,
            meta_bytes: 32 << 20,
            meta_files: 8192,
            early_bytes: 4 << 20,
            files: 1 << 15,
            disk_bytes: 4 << 30,
            links: 1000,
            broken_links: 8,
            control_per_s: 1000,
            readings_per_s: 100,
        }
    }
}

impl Bounds {
    /// The bounds with a part of the free disk space: all guests together may use half of it, each an equal part. If the
    /// free space is not known, the default stays.
    pub fn with_share_of_disk(self, free_bytes: Option<u64>, guests: usize) -> Self {
        let guests = u64::try_from(guests).unwrap_or(u64::MAX).max(1);
        let disk_bytes = free_bytes.map_or(self.disk_bytes, |free| free / 2 / guests);
        Bounds { disk_bytes, ..self }
    }
}

/// Frames and readings that a connection may send at its start, in seconds of its rate.
const ALLOWANCE_S: u64 = 10;
/// Memory of an entry beside its content, bytes.
const ENTRY_BYTES: usize = 256;
/// Disk space of a small file.
const BLOCK_BYTES: u64 = 4096;
/// A reading as a line of `clocks.jsonl`, bytes.
const READING_BYTES: u64 = 160;
/// Upper limit of a slice's header in a compact file, bytes.
const SLICE_BYTES: u64 = 64;
/// Sizes of a ring buffer's sub-buffer: a memory page, or the largest that fits a frame.
const SUB_BUFFER_BYTES: std::ops::RangeInclusive<u32> = 4096..=65536;
/// A CPU cannot lose more events than one per nanosecond.
const LOST_PER_S: u64 = 1_000_000_000;

/// A violation of a bound by a guest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Excess {
    /// More of something than the bound.
    #[error("it sent more than {limit} {what}")]
    TooMany {
        /// The resource, with its unit.
        what: &'static str,
        /// The bound.
        limit: u64,
    },
    /// A frame that does not belong to the recording.
    #[error("it sent {0}")]
    Unexpected(&'static str),
    /// A text longer than its limit.
    #[error("it sent {what} of {len} bytes; the limit is {limit}")]
    TooLong {
        /// Which.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The bound.
        limit: usize,
    },
    /// A number outside the possible range.
    #[error("it sent {what} {value}; {expected}")]
    Impossible {
        /// Which.
        what: &'static str,
        /// The value in the frame.
        value: u64,
        /// The possible values.
        expected: String,
    },
}

fn too_many(what: &'static str, limit: impl TryInto<u64>) -> Excess {
    Excess::TooMany { what, limit: limit.try_into().unwrap_or(u64::MAX) }
}

/// A phase of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Handshake, first exchanges, start: data waits in memory.
    #[default]
    Starting,
    /// Events are stored as they come.
    Recording,
    /// Stop has been sent: the rest of the events, and the last descriptive files.
    Ending,
}

/// The resources that one guest has used.
#[derive(Debug)]
pub(crate) struct Account {
    bounds: Bounds,
    phase: Phase,
    // For the whole session.
    files: u64,
    disk_bytes: u64,
    links: u32,
    broken_links: u32,
    // For the connection.
    connected: Instant,
    cpus: Option<u32>,
    /// Of a sub-buffer; 0: logs are recorded. None until recording runs.
    page_bytes: Option<u32>,
    control: u64,
    readings: u64,
    // For the beginning or the end of the source.
    meta_bytes: usize,
    meta_files: usize,
    /// The file that goes on in the next piece.
    open_file: Option<String>,
    early_bytes: usize,
    /// CPUs of which the source has a spool.
    spools: Vec<bool>,
}

impl Account {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Account {
            bounds,
            phase: Phase::Starting,
            files: 0,
            disk_bytes: 0,
            links: 0,
            broken_links: 0,
            connected: Instant::now(),
            cpus: None,
            page_bytes: None,
            control: 0,
            readings: 0,
            meta_bytes: 0,
            meta_files: 0,
            open_file: None,
            early_bytes: 0,
            spools: Vec::new(),
        }
    }

    /// Begins a connection.
    pub(crate) fn connect(&mut self) {
        self.connected = Instant::now();
        (self.control, self.readings) = (0, 0);
        (self.cpus, self.page_bytes) = (None, None);
        self.enter(Phase::Starting);
    }

    /// Begins a phase.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        (self.meta_bytes, self.meta_files, self.early_bytes) = (0, 0, 0);
        self.open_file = None;
    }

    /// Begins a source, whose files are new.
    pub(crate) fn begin_source(&mut self) -> Result<(), Excess> {
        self.spools.clear();
        self.file(1)
    }

    /// Counts a connection that records.
    pub(crate) fn count_link(&mut self) -> Result<(), Excess> {
        self.links += 1;
        let limit = self.bounds.links;
        if self.links > limit { Err(too_many("connections", limit)) } else { Ok(()) }
    }

    /// Counts a connection that ended with a protocol error.
    ///
    /// # Errors
    /// The bound is reached.
    pub(crate) fn may_break_again(&mut self) -> Result<(), Excess> {
        self.broken_links += 1;
        let limit = self.bounds.broken_links;
        if self.broken_links < limit {
            return Ok(());
        }
        Err(too_many("streams with protocol errors", limit - 1))
    }

    /// Checks the description of a machine.
    fn facts(&mut self, agent: &Untrusted<String>, facts: &MachineFacts) -> Result<(), Excess> {
        for (what, text, limit) in [
            ("agent version", agent, 64),
            ("host name", &facts.nodename, 255),
            ("kernel release", &facts.release, 255),
            ("kernel version", &facts.version, 1024),
            ("architecture", &facts.arch, 64),
            ("boot id", &facts.boot_id, 64),
            ("hardware UUID", &facts.uuid, 64),
            ("clock source", &facts.clocksource, 64),
            ("problem", &facts.problem, 4096),
        ] {
            fits(what, text, limit)?;
        }
        if facts.clocks.len() > 64 || facts.stamp_clocks.len() > 64 {
            return Err(too_many("trace clocks", 64_u64));
        }
        facts.clocks.iter().try_for_each(|clock| fits("trace clock", clock, 64))?;
        let limit = self.bounds.cpus;
        if facts.cpu_count == 0 || facts.cpu_count > limit {
            let expected = format!("1 to {limit} are possible");
            let value = facts.cpu_count.into();
            return Err(Excess::Impossible { what: "the number of CPUs", value, expected });
        }
        self.cpus = Some(facts.cpu_count);
        Ok(())
    }

    /// Checks the description of a recording.
    fn started(&mut self, started: &Started) -> Result<(), Excess> {
        fits("trace clock", &started.clock, 64)?;
        fits("reason for the full collector", &started.why_full, 4096)?;
        started.missing.iter().try_for_each(|text| fits("event", text, 1024))?;
        let mut events = started.compact.iter().flat_map(|run| &run.events);
        if let Some(event) = events.find(|event| event.len() > 1024) {
            return Err(Excess::TooLong { what: "event", len: event.len(), limit: 1024 });
        }
        let bytes = started.page_bytes;
        let is_possible = match started.compact {
            Some(_) => true,
            None => bytes.is_power_of_two() && SUB_BUFFER_BYTES.contains(&bytes),
        };
        if !is_possible {
            let expected = format!(
                "a power of two from {} to {} is possible",
                SUB_BUFFER_BYTES.start(),
                SUB_BUFFER_BYTES.end()
            );
            return Err(Excess::Impossible {
                what: "the sub-buffer size",
                value: bytes.into(),
                expected,
            });
        }
        self.page_bytes = Some(if started.compact.is_some() { 0 } else { bytes });
        Ok(())
    }

    /// Counts a frame, before the session keeps any of it.
    ///
    /// # Errors
    /// The frame exceeds a bound: the recording of this guest ends.
    pub(crate) fn admit(&mut self, frame: &Frame<'_>) -> Result<(), Excess> {
        match frame {
            Frame::Data { cpu, pages } if !pages.is_empty() => self.data(*cpu, pages.len()),
            Frame::Words(slice) => {
                if self.has_started()? > 0 {
                    return Err(Excess::Unexpected("compact records from a full collector"));
                }
                self.cpu(slice.cpu)?;
                self.lost(slice.lost)?;
                self.events(slice.words.len(), SLICE_BYTES)
            }
            Frame::Meta { name, more, bytes } if self.phase != Phase::Recording => {
                self.meta(name, *more, bytes.len())
            }
            Frame::Reading(_) => {
                self.readings += 1;
                self.rate(self.readings, self.bounds.readings_per_s, "clock readings per second")?;
                self.keep(ENTRY_BYTES)?;
                self.disk(READING_BYTES)
            }
            Frame::Stats(stats) => {
                self.control()?;
                self.keep(ENTRY_BYTES + stats.cpus.len() * size_of::<CpuStats>())?;
                for cpu in &stats.cpus {
                    self.cpu(cpu.cpu)?;
                    self.lost(cpu.overrun.saturating_add(cpu.dropped))?;
                    self.counted(cpu.events)?;
                }
                Ok(())
            }
            // Only the first counts, for the session too.
            Frame::Welcome(welcome) if self.cpus.is_none() => {
                self.control()?;
                self.facts(&welcome.agent, &welcome.facts)
            }
            Frame::Started(started) if self.page_bytes.is_none() => {
                self.control()?;
                self.started(started)
            }
            _ => self.control(),
        }
    }

    /// Checks the totals of logs from a descriptive file.
    pub(crate) fn totals(&self, logs: &[LogTotals]) -> Result<(), Excess> {
        let limit = u64::from(self.cpus.unwrap_or(0)) * MAX_LOGS_PER_CPU;
        if u64::try_from(logs.len()).unwrap_or(u64::MAX) > limit {
            return Err(too_many("logs", limit));
        }
        for log in logs {
            self.cpu(log.cpu)?;
            self.lost(log.lost)?;
            self.counted(log.saturated)?;
        }
        Ok(())
    }

    fn has_started(&self) -> Result<u32, Excess> {
        self.page_bytes.ok_or(Excess::Unexpected("events before the start of the recording"))
    }

    fn data(&mut self, cpu: u32, bytes: usize) -> Result<(), Excess> {
        let page_bytes = self.has_started()?;
        self.cpu(cpu)?;
        let length = u64::try_from(bytes).unwrap_or(u64::MAX);
        if page_bytes == 0 {
            return Err(Excess::Unexpected("pages from a compact collector"));
        }
        if !length.is_multiple_of(page_bytes.into()) {
            let expected = format!("whole sub-buffers of {page_bytes} bytes are possible");
            return Err(Excess::Impossible {
                what: "the length of the pages",
                value: length,
                expected,
            });
        }
        let index = usize::try_from(cpu).unwrap_or(usize::MAX);
        if self.spools.get(index) != Some(&true) {
            self.file(1)?;
            self.spools.resize(self.spools.len().max(index + 1), false);
            self.spools[index] = true;
        }
        self.events(bytes, 0)
    }

    /// Counts events: on disk, or in memory until the source is known.
    fn events(&mut self, bytes: usize, more: u64) -> Result<(), Excess> {
        self.keep(bytes + ENTRY_BYTES)?;
        self.disk(u64::try_from(bytes).unwrap_or(u64::MAX).saturating_add(more))
    }

    fn meta(&mut self, name: &str, more: bool, bytes: usize) -> Result<(), Excess> {
        if self.open_file.as_deref() != Some(name) {
            self.meta_files += 1;
            let limit = self.bounds.meta_files;
            if self.meta_files > limit {
                return Err(too_many("descriptive files", limit));
            }
            self.file(1)?;
            self.disk(BLOCK_BYTES)?;
        }
        self.open_file = more.then(|| name.to_owned());
        // An empty piece also takes memory.
        self.meta_bytes =
            self.meta_bytes.saturating_add(bytes).saturating_add(name.len() + ENTRY_BYTES);
        let limit = self.bounds.meta_bytes;
        if self.meta_bytes > limit {
            return Err(too_many("bytes of descriptive files", limit));
        }
        self.disk(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// Counts data held in memory until the source is known.
    fn keep(&mut self, bytes: usize) -> Result<(), Excess> {
        if self.phase != Phase::Starting {
            return Ok(());
        }
        self.early_bytes = self.early_bytes.saturating_add(bytes);
        let limit = self.bounds.early_bytes;
        if self.early_bytes > limit {
            return Err(too_many("bytes before the start of the recording", limit));
        }
        Ok(())
    }

    fn disk(&mut self, bytes: u64) -> Result<(), Excess> {
        self.disk_bytes = self.disk_bytes.saturating_add(bytes);
        let limit = self.bounds.disk_bytes;
        if self.disk_bytes > limit {
            return Err(too_many(
                "bytes, its part of the disk (half of the free space, for all guests)",
                limit,
            ));
        }
        Ok(())
    }

    fn file(&mut self, count: u64) -> Result<(), Excess> {
        self.files += count;
        let limit = self.bounds.files;
        if self.files > limit { Err(too_many("files", limit)) } else { Ok(()) }
    }

    fn control(&mut self) -> Result<(), Excess> {
        self.control += 1;
        self.rate(self.control, self.bounds.control_per_s, "frames without events per second")
    }

    fn rate(&self, count: u64, per_s: u64, what: &'static str) -> Result<(), Excess> {
        let seconds = self.connected.elapsed().as_secs() + ALLOWANCE_S;
        if count > per_s.saturating_mul(seconds) { Err(too_many(what, per_s)) } else { Ok(()) }
    }

    fn cpu(&self, cpu: u32) -> Result<(), Excess> {
        // Before Welcome no CPU is possible.
        let count = self.cpus.unwrap_or(0);
        if cpu < count {
            return Ok(());
        }
        let expected = format!("the guest has {count} CPUs");
        Err(Excess::Impossible { what: "the CPU number", value: cpu.into(), expected })
    }

    /// Checks the lost events of one CPU or log.
    fn lost(&self, count: u64) -> Result<(), Excess> {
        self.possible("the count of lost events", count)
    }

    fn counted(&self, count: u64) -> Result<(), Excess> {
        self.possible("the count of events", count)
    }

    fn possible(&self, what: &'static str, count: u64) -> Result<(), Excess> {
        let since = self.connected.elapsed() + Duration::from_secs(ALLOWANCE_S);
        let limit = since.as_secs().saturating_mul(LOST_PER_S);
        if count <= limit {
            return Ok(());
        }
        let expected = "a CPU has at most one event per nanosecond".to_owned();
        Err(Excess::Impossible { what, value: count, expected })
    }
}

fn fits(what: &'static str, text: &Untrusted<String>, limit: usize) -> Result<(), Excess> {
    let len = text.len();
    if len > limit { Err(Excess::TooLong { what, len, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
