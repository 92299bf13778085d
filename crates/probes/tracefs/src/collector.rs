//! One reader thread per CPU, new ones for CPUs that come online, and an orderly end.

use crate::{CpuReader, CpuSink, CpuStats, Instance, PageSink, TracefsError, Woken, cpus};
use rustix::{
    event::{EventfdFlags, eventfd},
    fd::{AsFd, OwnedFd},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};
use transect_model::ids::CpuId;

/// A reader looks at its buffer at least this often: what a kill of the recorder may cost.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// After a wakeup that brought no full sub-buffer (very small buffers), so as not to spin.
const REST: Duration = Duration::from_millis(2);
/// Percent of a buffer that wakes its reader: late enough to be cheap, early enough to lose
/// nothing while the reader waits for a CPU.
const WAKEUP_PERCENT: u8 = 30;
/// Between switching tracing off and reading the last page: events in flight are committed.
const SETTLE: Duration = Duration::from_millis(2);

/// The running readers of an instance.
pub struct Collector {
    readers: BTreeMap<CpuId, JoinHandle<()>>,
    sink: Arc<dyn PageSink>,
    shared: Arc<Shared>,
}

struct Shared {
    stop: OwnedFd,
    bytes: AtomicU64,
    failure: Mutex<Option<TracefsError>>,
}

impl Shared {
    fn fail(&self, error: TracefsError) {
        // The first failure is the cause; the others follow from it.
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// What an instance's buffers came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Kernel counters per CPU.
    pub cpus: BTreeMap<CpuId, CpuStats>,
}

impl Totals {
    /// Reads the counters of the given CPUs. One whose file cannot be read is left out.
    pub fn read(instance: &Instance, cpus: impl IntoIterator<Item = CpuId>) -> Self {
        let stats = |cpu| Some((cpu, instance.cpu_stats(cpu).ok()?));
        Totals { cpus: cpus.into_iter().filter_map(stats).collect() }
    }

    /// Events recorded: read, or still waiting to be.
    pub fn events(&self) -> u64 {
        self.cpus.values().map(|s| s.read + s.entries).sum()
    }

    /// Events lost.
    pub fn lost(&self) -> u64 {
        self.cpus.values().map(CpuStats::lost).sum()
    }
}

impl Collector {
    /// Starts a reader for every online CPU. Switch tracing on afterwards.
    pub fn start(instance: &Instance, sink: Arc<dyn PageSink>) -> Result<Self, TracefsError> {
        instance.set_wakeup_percent(WAKEUP_PERCENT);
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| {
            TracefsError::Drain { cpu: CpuId(0), action: "make an eventfd", source: e.into() }
        })?;
        let shared = Shared { stop, bytes: AtomicU64::new(0), failure: Mutex::new(None) };
        let mut collector = Collector { readers: BTreeMap::new(), sink, shared: Arc::new(shared) };
        collector.follow_hotplug(instance)?;
        Ok(collector)
    }

    /// Starts readers for CPUs that came online. Those that went offline keep theirs: their
    /// buffers stay, and they may come back. Call it a few times a second; what such a CPU
    /// records before is in its buffer. Returns the new ones.
    pub fn follow_hotplug(&mut self, instance: &Instance) -> Result<Vec<CpuId>, TracefsError> {
        let new: Vec<_> = cpus::online()?.into_iter().filter(|cpu| !self.reads(*cpu)).collect();
        new.iter().try_for_each(|cpu| self.read_too(instance, *cpu))?;
        Ok(new)
    }

    /// Starts readers for CPUs that were online at any time since the last look: they have recorded.
    fn read_the_rest(&mut self, instance: &Instance) -> Result<(), TracefsError> {
        for cpu in cpus::possible()?.into_iter().filter(|cpu| !self.reads(*cpu)).collect::<Vec<_>>()
        {
            // One that never was online has no numbers.
            if instance.cpu_stats(cpu).is_ok_and(|stats| stats.entries + stats.lost() > 0) {
                self.read_too(instance, cpu)?;
            }
        }
        Ok(())
    }

    fn reads(&self, cpu: CpuId) -> bool {
        self.readers.contains_key(&cpu)
    }

    fn read_too(&mut self, instance: &Instance, cpu: CpuId) -> Result<(), TracefsError> {
        let reader = self.spawn(CpuReader::open(instance, cpu)?, cpu)?;
        self.readers.insert(cpu, reader);
        Ok(())
    }

    fn spawn(&self, mut reader: CpuReader, cpu: CpuId) -> Result<JoinHandle<()>, TracefsError> {
        let mut sink = self.sink.cpu(cpu).map_err(|source| TracefsError::Sink { cpu, source })?;
        let shared = self.shared.clone();
        thread::Builder::new()
            // 15 characters are what the kernel keeps; these threads show up in the trace.
            .name(format!("transect-cpu{cpu}"))
            .spawn(move || {
                if let Err(error) = read_until_stopped(&mut reader, sink.as_mut(), &shared) {
                    shared.fail(error);
                }
            })
            .map_err(|source| TracefsError::Drain { cpu, action: "start its reader", source })
    }

    /// Bytes handed to the sink so far.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// CPUs that are, or were, being read.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.readers.keys().copied()
    }

    /// The first failure of a reader, once. Others go on; end the recording.
    pub fn take_failure(&self) -> Option<TracefsError> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Switches tracing off, lets every reader hand over what is left, and ends them.
    ///
    /// # Errors
    /// The first failure of a reader that was not taken before. All have ended either way.
    pub fn stop(mut self, instance: &Instance) -> Result<Totals, TracefsError> {
        let off = instance.set_tracing(false);
        let rest = self.read_the_rest(instance);
        thread::sleep(SETTLE);
        let cpus: Vec<_> = self.readers.keys().copied().collect();
        self.end_readers();
        off?;
        rest?;
        match self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(Totals::read(instance, cpus)),
        }
    }
}

impl Collector {
    fn end_readers(&mut self) {
        // The counter stays up and wakes every reader; a few writes of 1 cannot overflow it.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        for (_, reader) in std::mem::take(&mut self.readers) {
            // A reader does not panic; if one did, its message is on stderr already.
            let _ = reader.join();
        }
    }
}

impl Drop for Collector {
    /// On an error path: readers hold the instance, which could not be removed under them.
    fn drop(&mut self) {
        self.end_readers();
    }
}

fn read_until_stopped(
    reader: &mut CpuReader,
    sink: &mut dyn CpuSink,
    shared: &Shared,
) -> Result<(), TracefsError> {
    let mut moved = |bytes| {
        shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    };
    loop {
        let woken = reader.wait(shared.stop.as_fd(), LOOK_EVERY)?;
        let bytes = reader.drain(sink, &mut moved)?;
        if woken == Woken::Stop {
            break;
        }
        if bytes == 0 {
            thread::sleep(REST);
        }
    }
    moved(reader.flush(sink)?);
    Ok(())
}

/// Reads everything a stopped instance holds, CPU by CPU, in this thread: for flight recorders.
/// Tracing must be off. Returns the bytes.
pub fn dump(instance: &Instance, sink: &dyn PageSink) -> Result<u64, TracefsError> {
    let mut total = 0;
    thread::sleep(SETTLE);
    for cpu in cpus::possible()? {
        let stats = instance.cpu_stats(cpu);
        if !stats.is_ok_and(|stats| stats.entries > 0) {
            continue;
        }
        let mut reader = CpuReader::open(instance, cpu)?;
        let mut out = sink.cpu(cpu).map_err(|source| TracefsError::Sink { cpu, source })?;
        total += reader.drain(out.as_mut(), &mut |_| ())?;
        total += reader.flush(out.as_mut())?;
    }
    Ok(total)
}
