//! Reads every CPU's ring buffer, partly filled sub-buffers included.
//!
//! The host's collector splices full sub-buffers only; here each round takes the partial one too.
//! That costs a few more bytes and buys a promise: after a round everything older than its start
//! has been handed on, so a guest that dies costs the time since its last round and not since its
//! idlest CPU last filled a page.

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags, open},
    io::Errno,
    time::Timespec,
};
use std::{
    fs::File,
    io::{self, Read},
    time::{Duration, Instant},
};
use transect_guest::serve::PageOut;
use transect_model::ids::CpuId;
use transect_tracefs::{Instance, cpus};

/// Longest round: Stats and a wish to stop must not wait for a buffer that fills as fast as it
/// is read.
const ROUND_LIMIT: Duration = Duration::from_millis(500);
/// Pages of one CPU before the next one's turn.
const TURN_PAGES: u32 = 64;
/// How often new CPUs are looked for.
const HOTPLUG_EVERY: Duration = Duration::from_secs(1);
/// `timestamp` and `commit` of a sub-buffer (kernel/trace/ring_buffer.c, struct buffer_data_page).
const PAGE_HEADER_BYTES: usize = 16;
/// The length in `commit`; the bits above are flags about lost events.
const COMMIT_LENGTH_MASK: u32 = 0x0fff_ffff;

/// The open ring buffers of an instance.
pub(crate) struct Drain {
    cpus: Vec<CpuBuffer>,
    page: Vec<u8>,
    looked_at: Instant,
}

struct CpuBuffer {
    cpu: CpuId,
    raw: File,
    bytes: u64,
}

/// How one CPU's turn ended.
#[derive(PartialEq, Eq)]
enum Turn {
    CaughtUp,
    More,
}

impl Drain {
    /// Opens the buffers of all online CPUs.
    pub(crate) fn open(instance: &Instance) -> io::Result<Self> {
        let page_bytes = usize::try_from(instance.sub_buffer_bytes()).unwrap_or(4096);
        let mut drain =
            Drain { cpus: Vec::new(), page: vec![0; page_bytes], looked_at: Instant::now() };
        drain.open_new(instance)?;
        Ok(drain)
    }

    /// CPUs being read.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.cpus.iter().map(|buffer| buffer.cpu)
    }

    /// Bytes of pages handed on, per CPU.
    pub(crate) fn bytes(&self, cpu: CpuId) -> u64 {
        self.cpus.iter().find(|buffer| buffer.cpu == cpu).map_or(0, |buffer| buffer.bytes)
    }

    /// Opens CPUs that came online. Those that went offline stay: their buffers do, too.
    fn open_new(&mut self, instance: &Instance) -> io::Result<()> {
        self.looked_at = Instant::now();
        for cpu in cpus::online().map_err(io::Error::other)? {
            if self.cpus.iter().any(|buffer| buffer.cpu == cpu) {
                continue;
            }
            let path = instance.path().join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let raw = open(&path, flags, Mode::empty()).map_err(|error| {
                let error = io::Error::from(error);
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?;
            self.cpus.push(CpuBuffer { cpu, raw: raw.into(), bytes: 0 });
        }
        Ok(())
    }

    /// Waits up to `wait` until a buffer fills, then moves pages to `out`. True if every buffer
    /// was caught up with.
    pub(crate) fn round(
        &mut self,
        instance: &Instance,
        out: &mut PageOut<'_>,
        wait: Duration,
    ) -> io::Result<bool> {
        if self.looked_at.elapsed() >= HOTPLUG_EVERY {
            self.open_new(instance)?;
        }
        self.wait(wait)?;
        let end = Instant::now() + ROUND_LIMIT;
        let mut behind: Vec<usize> = (0..self.cpus.len()).collect();
        while !behind.is_empty() {
            let mut still_behind = Vec::new();
            for at in behind {
                if self.turn(at, out)? == Turn::More {
                    still_behind.push(at);
                }
            }
            behind = still_behind;
            if Instant::now() > end {
                return Ok(behind.is_empty());
            }
        }
        Ok(true)
    }

    /// Moves all that is there; tracing is off.
    pub(crate) fn rest(&mut self, out: &mut PageOut<'_>) -> io::Result<()> {
        for at in 0..self.cpus.len() {
            while self.read_page(at)?.is_some() {
                self.hand_on(at, out)?;
            }
        }
        Ok(())
    }

    /// Until a buffer is as full as the instance's wakeup percentage, or `wait` passed.
    fn wait(&self, wait: Duration) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> =
            self.cpus.iter().map(|buffer| PollFd::new(&buffer.raw, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(wait).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A few pages of one CPU. A page that is less than half full is the one being written, or
    /// what was left of one read before: at the second in a row the writer has been caught up
    /// with, and reading on would only chase it with pages of one event each.
    fn turn(&mut self, at: usize, out: &mut PageOut<'_>) -> io::Result<Turn> {
        let mut thin_pages = 0;
        for _ in 0..TURN_PAGES {
            let Some(filled) = self.read_page(at)? else { return Ok(Turn::CaughtUp) };
            self.hand_on(at, out)?;
            let is_thin = filled < (self.page.len() - PAGE_HEADER_BYTES) / 2;
            thin_pages = if is_thin { thin_pages + 1 } else { 0 };
            if thin_pages == 2 {
                return Ok(Turn::CaughtUp);
            }
        }
        Ok(Turn::More)
    }

    fn hand_on(&mut self, at: usize, out: &mut PageOut<'_>) -> io::Result<()> {
        let Some(buffer) = self.cpus.get_mut(at) else { return Ok(()) };
        buffer.bytes += self.page.len() as u64;
        out.page(buffer.cpu.0, &self.page)
    }

    /// Reads one sub-buffer; returns the bytes of events in it, `None` if there is none.
    fn read_page(&mut self, at: usize) -> io::Result<Option<usize>> {
        let Some(buffer) = self.cpus.get_mut(at) else { return Ok(None) };
        let mut have = 0;
        while have < self.page.len() {
            match buffer.raw.read(&mut self.page[have..]) {
                Ok(0) => break,
                Ok(bytes) => have += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if have == 0 {
            return Ok(None);
        }
        self.page[have..].fill(0);
        Ok(Some(commit_bytes(&self.page)))
    }
}

/// `commit` of a sub-buffer without its flags.
fn commit_bytes(page: &[u8]) -> usize {
    let field = page.get(8..12).and_then(|bytes| bytes.try_into().ok());
    let commit = field.map_or(0, u32::from_ne_bytes) & COMMIT_LENGTH_MASK;
    usize::try_from(commit).unwrap_or(usize::MAX)
}
