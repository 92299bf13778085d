//! Compact recording: BPF programs write records into logs, whose slices become frames.
//!
//! The session's own thread takes from the logs, without a consumer thread in between: after a
//! round everything older than its start has been sent, which is what a gap is reckoned from.

use crate::{cpu_time::cpu_ns, settings};
use rustix::system::sysinfo;
use std::{collections::BTreeMap, fs, io, path::Path, thread, time::Duration};
use transect_bpf::{BpfError, Compact, Family, Filters, LogSink, LogStats, Plan, SyscallMode};
use transect_guest::{
    describe::{LogTotals, Names, Thread, logs_to_meta, stacks_to_meta},
    proto::{
        self, CAUSES_VERSION, CHUNK_BYTES, CompactPlan, CpuStats, Started, Stats, SyscallForm,
        Words,
    },
    serve::{MetaFile, PageOut, Prepared, TraceRun},
    stamp::StampClock,
};
use transect_model::{ids::CpuId, untrusted::Untrusted};
use transect_tracefs::threads::{self, ThreadFacts};

/// The smallest log of a CPU: two chunks, as the collector asks.
const MIN_LOG_BYTES: u64 = 2 * CHUNK_BYTES as u64;
/// The largest.
const MAX_LOG_BYTES: u64 = 1 << 30;
/// All logs together take at most this part of the machine's memory: it is somebody's guest, and
/// the CPUs it may get one day have logs, too.
const MEMORY_SHARE: u64 = 8;
/// Shortest pause between two rounds: for logs that fill within milliseconds.
const MIN_PAUSE: Duration = Duration::from_millis(1);
/// Longest one. A round that must be over sooner cuts it short, and leaves the next one as long.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Percent of a log: a round that found one fuller than this halves the pause, one that found all
/// of them emptier than half of it makes it longer.
const FULL_PERCENT: u64 = 20;
/// A log this full is emptied again as soon as can be.
const URGENT_PERCENT: u64 = 50;

/// Loads and attaches the programs. They record from now on: what they write before the recorder
/// knows waits in the logs.
///
/// # Errors
/// Why this kernel cannot, or what is wrong with the plan.
pub(crate) fn prepare(wanted: &CompactPlan, version: u8) -> Result<Prepared<CompactRun>, BpfError> {
    // The recorder writes the file's header, which lists the kinds of records that it knows.
    let contexts = version >= CAUSES_VERSION;
    let plan = Plan { contexts, ..plan(wanted)? };
    let cpu_ns_before = cpu_ns();
    let mut compact = Compact::load(&plan)?;
    compact.attach()?;
    let mut events: Vec<String> =
        compact.programs().iter().map(|program| program.event.to_owned()).collect();
    events.dedup();
    let log_bytes = plan.log_bytes_per_cpu as u64;
    let run = proto::CompactRun { log_bytes, isa: isa().into(), events };
    let started = Started {
        clock: StampClock::Mono.name().into(),
        page_bytes: u32::try_from(CHUNK_BYTES).unwrap_or(u32::MAX),
        buffer_bytes: log_bytes,
        missing: compact.absent().iter().map(|event| event.as_str().into()).collect(),
        compact: Some(run),
        why_full: Untrusted::default(),
    };
    // After the programs: a thread that comes now names itself in the records.
    let meta = descriptions();
    Ok(Prepared { started, meta, run: CompactRun { compact, pause: MIN_PAUSE, cpu_ns_before } })
}

fn plan(wanted: &CompactPlan) -> Result<Plan, BpfError> {
    let families: Result<Vec<Family>, BpfError> =
        wanted.families.iter().map(|name| family(name)).collect();
    Ok(Plan {
        with: wanted.with.clone(),
        without: wanted.without.clone(),
        syscalls: match wanted.syscalls {
            SyscallForm::Folded => SyscallMode::Folded,
            SyscallForm::Both => SyscallMode::Both,
            SyscallForm::ExitOnly => SyscallMode::ExitOnly,
        },
        filters: Filters {
            tids: wanted.tids.clone(),
            tgids: wanted.tgids.clone(),
            cgroup: (!wanted.cgroup.is_empty()).then(|| wanted.cgroup.clone().into()),
            min_irq_ns: wanted.min_irq_ns,
            min_softirq_ns: wanted.min_softirq_ns,
            min_syscall_ns: wanted.min_syscall_ns,
            min_exit_ns: wanted.min_exit_ns,
        },
        log_bytes_per_cpu: usize::try_from(log_bytes(wanted.log_bytes)).unwrap_or(usize::MAX),
        ..Plan::of(&families?)
    })
}

fn family(name: &str) -> Result<Family, BpfError> {
    let known = || transect_bpf::FAMILIES.iter().copied();
    known().find(|family| family.as_str() == name).ok_or_else(|| {
        let names: Vec<&str> = known().map(Family::as_str).collect();
        BpfError::Plan(format!("unknown family of events {name:?}; known are {}", names.join(", ")))
    })
}

/// The power of two at or below what was asked for that this machine can spare.
fn log_bytes(wanted: u64) -> u64 {
    let wanted = wanted.clamp(MIN_LOG_BYTES, MAX_LOG_BYTES);
    let info = sysinfo();
    let memory = info.totalram.saturating_mul(u64::from(info.mem_unit.max(1)));
    spared(wanted, memory, u64::from(crate::facts::cpu_count()))
}

fn spared(wanted: u64, memory: u64, cpus: u64) -> u64 {
    let share = (memory / MEMORY_SHARE / cpus.max(1)).max(MIN_LOG_BYTES);
    let bytes = wanted.min(share);
    // The highest bit.
    1 << (u64::BITS - 1 - bytes.leading_zeros())
}

/// Who numbers the exits of this guest's own guests.
fn isa() -> &'static str {
    let has = |module: &str| Path::new("/sys/module").join(module).exists();
    match () {
        () if cfg!(target_arch = "aarch64") => "arm64",
        () if has("kvm_amd") => "svm",
        () => "vmx",
    }
}

/// Names and settings as they are now.
fn descriptions() -> Vec<MetaFile> {
    let threads = threads::all();
    let mut meta = settings::to_meta(&threads);
    meta.extend(names(threads).to_meta());
    meta
}

/// Threads and network devices.
fn names(threads: Vec<ThreadFacts>) -> Names {
    let thread = |facts: ThreadFacts| Thread { tid: facts.tid, pid: facts.pid, name: facts.comm };
    Names { threads: threads.into_iter().map(thread).collect(), devices: devices(), left_out: 0 }
}

fn devices() -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let device = |entry: fs::DirEntry| {
        let index = fs::read_to_string(entry.path().join("ifindex")).ok()?;
        Some((index.trim().parse().ok()?, entry.file_name().to_string_lossy().into_owned()))
    };
    entries.flatten().filter_map(device).collect()
}

/// A recording by the compact collector.
pub(crate) struct CompactRun {
    compact: Compact,
    /// Between two rounds.
    pause: Duration,
    cpu_ns_before: u64,
}

/// Slices as frames.
struct ToFrames<'a, 'g>(&'a mut PageOut<'g>);

impl LogSink for ToFrames<'_, '_> {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        self.0.words(Words { cpu: cpu.0, side, position, sync_ns, lost, words })
    }
}

impl TraceRun for CompactRun {
    /// They do already.
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn pump(&mut self, out: &mut PageOut<'_>, wait: Duration) -> io::Result<bool> {
        thread::sleep(self.pause.min(wait));
        let fill_percent = self.compact.drain(&mut ToFrames(out)).map_err(as_io)?;
        self.pause = next_pause(self.pause, fill_percent);
        Ok(true)
    }

    fn stats(&mut self) -> Stats {
        let stats = self.compact.stats();
        let mut cpus: BTreeMap<CpuId, CpuStats> = BTreeMap::new();
        for log in &stats.logs {
            let cpu = cpus.entry(log.cpu).or_default();
            cpu.cpu = log.cpu.0;
            cpu.bytes = cpu.bytes.saturating_add(log.bytes);
            cpu.dropped = cpu.dropped.saturating_add(log.lost);
        }
        // The kernel does not say on which CPU it skipped a program.
        let skipped: u64 = stats.missed.iter().map(|(_, times)| times).sum();
        if skipped > 0 {
            let first = cpus.entry(CpuId(0)).or_default();
            first.dropped = first.dropped.saturating_add(skipped);
        }
        Stats {
            drained_seq: None,
            agent_cpu_ns: cpu_ns().saturating_sub(self.cpu_ns_before),
            cpus: cpus.into_values().collect(),
        }
    }

    fn finish(&mut self, out: &mut PageOut<'_>) -> io::Result<Vec<MetaFile>> {
        let stats = self.compact.finish(&mut ToFrames(out)).map_err(as_io)?;
        let totals: Vec<LogTotals> = stats.logs.iter().map(totals).collect();
        // Threads that came meanwhile and forked before anything was recorded of them.
        let mut meta = descriptions();
        meta.push(logs_to_meta(&totals));
        let stacks = self.compact.stacks();
        meta.extend(stacks_to_meta(&transect_compact::stack_notes(&stacks)));
        Ok(meta)
    }
}

/// The sink's own failure is that of the channel, by which a recorder that left is told apart.
fn as_io(error: BpfError) -> io::Error {
    match error {
        BpfError::Sink(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

fn next_pause(pause: Duration, fill_percent: u64) -> Duration {
    let next = match fill_percent {
        fill if fill > URGENT_PERCENT => MIN_PAUSE,
        fill if fill > FULL_PERCENT => pause / 2,
        fill if fill < FULL_PERCENT / 2 => pause * 5 / 4 + MIN_PAUSE,
        _ => pause,
    };
    next.clamp(MIN_PAUSE, MAX_PAUSE)
}

fn totals(log: &LogStats) -> LogTotals {
    let (lost_first_ns, lost_last_ns) = log.lost_range_ns.unwrap_or_default();
    LogTotals {
        cpu: log.cpu.0,
        side: log.side,
        bytes: log.bytes,
        lost: log.lost,
        lost_first_ns,
        lost_last_ns,
        saturated: log.saturated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_leave_the_guest_its_memory() {
        let (mib, gib) = (1 << 20, 1 << 30);
        assert_eq!(spared(8 * mib, 16 * gib, 4), 8 * mib);
        assert_eq!(spared(8 * mib, 512 * mib, 1), 8 * mib);
        assert_eq!(spared(8 * mib, 512 * mib, 240), 256 << 10);
        assert_eq!(spared(7 * mib, 16 * gib, 4), 4 * mib);
        assert_eq!(spared(8 * mib, 0, 240), MIN_LOG_BYTES);
    }

    #[test]
    fn what_nobody_knows_is_refused_in_words() {
        let wanted = CompactPlan { families: vec!["shed".into()], ..CompactPlan::default() };
        let error = plan(&wanted).unwrap_err().to_string();
        assert!(error.contains("\"shed\"") && error.contains("sched"), "{error}");
    }

    #[test]
    fn the_pause_follows_the_fill() {
        let settle = |fill| (0..50).fold(MIN_PAUSE, |pause, _| next_pause(pause, fill));
        assert_eq!((settle(0), settle(30), settle(90)), (MAX_PAUSE, MIN_PAUSE, MIN_PAUSE));
    }
}
