//! The memory shared with the programs: headers, chunks, control.
#![allow(unsafe_code, reason = "maps of the kernel's memory, and views into them")]

use std::{
    io,
    os::fd::BorrowedFd,
    ptr::NonNull,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use transect_model::ids::CpuId;

use crate::{
    layout::{CHUNK_BYTES, Control, CpuLogs, Log, SIDE_LOGS},
    sink::LogSink,
};

/// A mapped map; unmapped when dropped.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is the kernel's and stays mapped as long as this value lives; everything that
// more than one side writes is reached through atomics only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of a map.
    pub(crate) fn of(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(4096);
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                fd,
                0,
            )
        }?;
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Self { start, bytes })
    }

    /// Where it begins: page-aligned.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by mmap with this length, and no view outlives self.
        // Nothing can be done about a failure, and the process's end does the same.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// All memory shared with the programs.
pub(crate) struct Memory {
    logs: Mapping,
    chunks: Mapping,
    control: Mapping,
    cpus: usize,
}

/// What a round takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Everything.
    All,
    /// Of logs that hold enough: a block of a file has a header of 64 bytes.
    Worthwhile,
}

/// Half a chunk: then the header is less than half a percent of its block.
const WORTH_BYTES: u64 = CHUNK_BYTES as u64 / 2;
/// Of small logs a part that leaves the writer its room.
const WORTH_SHARE: u64 = 64;

/// Which log of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Main,
    /// The first side log, or the second.
    Side(SideLog),
}

/// Which side log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SideLog {
    First,
    Second,
}

impl Which {
    pub(crate) const ALL: [Which; 1 + SIDE_LOGS] =
        [Which::Main, Which::Side(SideLog::First), Which::Side(SideLog::Second)];

    /// As sinks and files number them: 0 is the main log.
    pub(crate) fn number(self) -> u8 {
        match self {
            Which::Main => 0,
            Which::Side(SideLog::First) => 1,
            Which::Side(SideLog::Second) => 2,
        }
    }
}

impl Memory {
    /// Maps the three maps. `chunks` is how many chunks there are, for the logs of `cpus` CPUs.
    pub(crate) fn map(
        logs: BorrowedFd<'_>,
        chunks: (BorrowedFd<'_>, usize),
        control: BorrowedFd<'_>,
        cpus: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            logs: Mapping::of(logs, size_of::<CpuLogs>() * crate::layout::MAX_CPUS)?,
            chunks: Mapping::of(chunks.0, chunks.1 * CHUNK_BYTES)?,
            control: Mapping::of(control, size_of::<Control>())?,
            cpus,
        })
    }

    pub(crate) fn cpus(&self) -> usize {
        self.cpus
    }

    pub(crate) fn control(&self) -> &Control {
        // SAFETY: the mapping is at least a page, page-aligned, of a repr(C) structure of atomics.
        unsafe { self.control.start.cast().as_ref() }
    }

    fn cpu(&self, cpu: usize) -> &CpuLogs {
        let cpu = cpu.min(crate::layout::MAX_CPUS - 1);
        // SAFETY: the mapping holds MAX_CPUS of them, page-aligned, repr(C) structures of atomics.
        unsafe { self.logs.start.cast::<CpuLogs>().add(cpu).as_ref() }
    }

    pub(crate) fn log(&self, cpu: usize, which: Which) -> &Log {
        let CpuLogs { main, side: [first, second] } = self.cpu(cpu);
        match which {
            Which::Main => main,
            Which::Side(SideLog::First) => first,
            Which::Side(SideLog::Second) => second,
        }
    }

    /// Gives a log its chunks. Before anything is attached.
    pub(crate) fn grant(&self, cpu: usize, which: Which, first_chunk: u32, chunks: u32) {
        let log = self.log(cpu, which);
        log.first_chunk.store(first_chunk, Relaxed);
        log.chunks.store(chunks, Relaxed);
        log.side.store(u16::from(which.number()), Release);
    }

    /// Bytes of a log between two positions of one chunk. Positions below `head` are complete, and
    /// are not overwritten while the consumer has not moved `tail` past them (or writers are paused).
    fn bytes(&self, log: &Log, from: u64, to: u64) -> io::Result<&[u8]> {
        let chunk = CHUNK_BYTES as u64;
        let index = u64::from(log.first_chunk.load(Relaxed))
            + ((from / chunk) & (u64::from(log.chunks.load(Relaxed)) - 1));
        let start = index * chunk + from % chunk;
        let end = start + (to - from);
        let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else {
            return Err(io::Error::other("position of a log is beyond its memory"));
        };
        if end > self.chunks.bytes || from / chunk != (to - 1) / chunk {
            return Err(io::Error::other("position of a log is beyond its memory"));
        }
        // SAFETY: in bounds as just checked; nobody writes between tail and head (see above).
        Ok(unsafe {
            std::slice::from_raw_parts(self.chunks.start.as_ptr().add(start), end - start)
        })
    }

    /// Gives the sink what a log holds from `from` on, slice by slice; `done` hears how far.
    fn give(
        &self,
        cpu: usize,
        which: Which,
        range: (u64, u64),
        sink: &mut dyn LogSink,
        mut done: impl FnMut(u64),
    ) -> io::Result<u64> {
        let log = self.log(cpu, which);
        let cpu = CpuId(u32::try_from(cpu).unwrap_or(u32::MAX));
        let (mut position, head) = range;
        while position < head {
            let chunk_start = position & !(CHUNK_BYTES as u64 - 1);
            let end = head.min(chunk_start + CHUNK_BYTES as u64);
            // A chunk begins with SYNC, whose second word is its stamp.
            let stamp = self.bytes(log, chunk_start + 8, chunk_start + 16)?;
            let sync_ns = u64::from_le_bytes(stamp.try_into().unwrap_or_default());
            let words = self.bytes(log, position, end)?;
            let lost = log.lost.load(Relaxed);
            sink.slice(cpu, which.number(), position, sync_ns, lost, words)?;
            position = end;
            done(end);
        }
        Ok(range.1 - range.0)
    }

    /// Takes what is new in a log. Returns bytes taken.
    pub(crate) fn drain(
        &self,
        cpu: usize,
        which: Which,
        sink: &mut dyn LogSink,
    ) -> io::Result<u64> {
        let log = self.log(cpu, which);
        let (tail, head) = (log.tail.load(Relaxed), log.head.load(Acquire));
        self.give(cpu, which, (tail, head), sink, |position| log.tail.store(position, Release))
    }

    /// Gives all that a log of a flight recorder holds; writers must be paused.
    pub(crate) fn copy(&self, cpu: usize, which: Which, sink: &mut dyn LogSink) -> io::Result<u64> {
        let log = self.log(cpu, which);
        let head = log.head.load(Acquire);
        let chunk = CHUNK_BYTES as u64;
        let held = u64::from(log.chunks.load(Relaxed)) * chunk;
        // The newest chunk may be partly written: the oldest is then the one after it in the ring.
        let first = head.next_multiple_of(chunk).saturating_sub(held);
        self.give(cpu, which, (first.min(head), head), sink, |_| {})
    }

    /// Since when a log of a flight recorder holds everything, while it is written: ns of its clock; none: since it
    /// began. The oldest chunk may be taken by the writer at any moment: then the next one is.
    fn held_since_ns(&self, log: &Log) -> Option<u64> {
        let chunk = CHUNK_BYTES as u64;
        let chunks = u64::from(log.chunks.load(Relaxed));
        for _ in 0..4 {
            let head = log.head.load(Acquire);
            let first = head.next_multiple_of(chunk).saturating_sub(chunks * chunk);
            if first == 0 {
                return None;
            }
            let index = u64::from(log.first_chunk.load(Relaxed)) + ((first / chunk) & (chunks - 1));
            let at = usize::try_from(index * chunk + 8).ok()?;
            if at + 8 > self.chunks.bytes {
                return None;
            }
            // SAFETY: in bounds as just checked, and aligned: chunks and the mapping are. Whatever the programs
            // write meanwhile, it is one word.
            let stamp = unsafe { self.chunks.start.as_ptr().add(at).cast::<AtomicU64>().as_ref() };
            let sync_ns = stamp.map(|stamp| stamp.load(Acquire));
            if log.head.load(Acquire).next_multiple_of(chunk) == head.next_multiple_of(chunk) {
                return sync_ns;
            }
        }
        None
    }

    fn all_logs(&self) -> impl Iterator<Item = &Log> {
        (0..self.cpus).flat_map(|cpu| Which::ALL.map(|which| self.log(cpu, which)))
    }

    /// Since when all logs hold everything; none: since they began.
    pub(crate) fn all_held_since_ns(&self) -> Option<u64> {
        self.all_logs().filter_map(|log| self.held_since_ns(log)).max()
    }

    /// Before this no main log holds anything; none: one holds everything since it began.
    pub(crate) fn nothing_held_before_ns(&self) -> Option<u64> {
        let main = (0..self.cpus).map(|cpu| self.log(cpu, Which::Main));
        let since: Option<Vec<u64>> = main.map(|log| self.held_since_ns(log)).collect();
        since?.into_iter().min()
    }

    /// The newest stamp in any log; writers must be paused.
    pub(crate) fn newest_ns(&self) -> u64 {
        self.all_logs().map(|log| log.last_ns.load(Acquire)).max().unwrap_or(0)
    }

    /// Takes what is new in all logs of all CPUs, or where that is worth a block. Returns the largest
    /// share of a log that had been filled, in percent.
    pub(crate) fn drain_all(&self, take: Take, sink: &mut dyn LogSink) -> io::Result<u64> {
        let mut fill = 0;
        for cpu in 0..self.cpus {
            for which in Which::ALL {
                let log = self.log(cpu, which);
                let size = u64::from(log.chunks.load(Relaxed)) * CHUNK_BYTES as u64;
                let waiting = log.head.load(Acquire) - log.tail.load(Relaxed);
                fill = fill.max(waiting * 100 / size.max(1));
                if take == Take::All || waiting >= WORTH_BYTES.min(size / WORTH_SHARE) {
                    self.drain(cpu, which, sink)?;
                }
            }
        }
        Ok(fill)
    }
}
