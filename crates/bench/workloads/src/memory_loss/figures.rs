//! What a host says of its memory and CPUs, and of the threads that are machines.

use procfs::{CpuTime, Current, CurrentSI, KernelStats, Meminfo, process::Process};
use std::{collections::BTreeSet, fs, time::Instant};
use transect_bench_core::Fault;

/// One look at the host.
#[derive(Clone, Debug)]
pub struct Figures {
    /// When.
    pub at: Instant,
    /// `MemTotal` − `MemAvailable` (/proc/meminfo): what nobody else can have.
    pub used_bytes: u64,
    /// CPU time that was not idle, of all CPUs since boot, ns (/proc/stat; in ticks of 10 ms).
    pub busy_ns: u64,
    /// CPU time of the machines' threads, ns (schedstat; exact).
    pub machines_cpu_ns: u64,
    /// Memory of the machines' processes, each shared page divided among those that share it (Pss of smaps_rollup).
    pub machines_bytes: u64,
}

impl Figures {
    /// Looks now. `tids` are the threads of all machines (`Machine::host_tids`). A thread that has ended meanwhile
    /// is an error: a machine that is to be idle does not end threads, and its time would be missing.
    pub fn read(tids: &[u32]) -> Result<Self, Fault> {
        let processes =
            tids.iter().map(|&tid| process_of(tid)).collect::<Result<BTreeSet<u32>, _>>()?;
        let cpu = tids.iter().map(|&tid| cpu_of(tid)).sum::<Result<u64, _>>()?;
        let memory = processes.into_iter().map(memory_of).sum::<Result<u64, _>>()?;
        Ok(Self {
            at: Instant::now(),
            used_bytes: used_now()?,
            busy_ns: busy(&KernelStats::current().map_err(Fault::failed)?.total),
            machines_cpu_ns: cpu,
            machines_bytes: memory,
        })
    }
}

/// See [`Figures::used_bytes`].
pub(super) fn used_now() -> Result<u64, Fault> {
    used(&Meminfo::current().map_err(Fault::failed)?)
        .ok_or_else(|| Fault::failed("/proc/meminfo has no MemTotal or MemAvailable"))
}

fn used(memory: &Meminfo) -> Option<u64> {
    memory.mem_total.checked_sub(memory.mem_available?)
}

/// All but idle, iowait and steal; guest time is in user already (proc_stat(5)).
fn busy(ticks: &CpuTime) -> u64 {
    let interrupts = ticks.irq.unwrap_or(0) + ticks.softirq.unwrap_or(0);
    let per_second = rustix::param::clock_ticks_per_second();
    (ticks.user + ticks.nice + ticks.system + interrupts) * (1_000_000_000 / per_second)
}

fn process_of(tid: u32) -> Result<u32, Fault> {
    let status = Process::new(tid.cast_signed()).and_then(|thread| thread.status());
    Ok(status.map_err(Fault::failed)?.tgid.cast_unsigned())
}

fn cpu_of(tid: u32) -> Result<u64, Fault> {
    // Below task/: what is directly below /proc/TID is the whole process's in some files.
    let thread = Process::new(tid.cast_signed()).and_then(|thread| thread.task_main_thread());
    let sums = thread.and_then(|thread| thread.schedstat()).map_err(Fault::failed)?;
    Ok(sums.sum_exec_runtime)
}

/// A value of a table of `NAME: VALUE kB`, bytes.
fn kilobytes(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// Not by `procfs`, which does not report with which error a read failed.
fn memory_of(process: u32) -> Result<u64, Fault> {
    let path = format!("/proc/{process}/smaps_rollup");
    match fs::read_to_string(&path) {
        // A thread of the kernel (vhost) has no memory of its own.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Ok(0),
        Err(e) => Err(Fault::failed(format!("{path}: {e}"))),
        Ok(table) => {
            kilobytes(&table, "Pss").ok_or_else(|| Fault::failed(format!("{path} has no Pss")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromReadSI;

    #[test]
    fn tables_are_read() {
        let mut memory = Meminfo::current().unwrap();
        (memory.mem_total, memory.mem_available) = (1000, Some(400));
        assert_eq!(used(&memory), Some(600));
        memory.mem_available = None;
        assert_eq!(used(&memory), None);
        let text =
            "cpu  1 2 3 1000 1000 4 5 1000 0 0\ncpu0 1 2 3 4\nctxt 1\nbtime 1\nprocesses 1\n";
        let stats = KernelStats::from_read(text.as_bytes(), procfs::current_system_info()).unwrap();
        assert_eq!(busy(&stats.total), 150_000_000);
        assert_eq!(
            kilobytes("Rss: 7 kB\nPss:   1000 kB\nPss_Dirty: 1 kB\n", "Pss"),
            Some(1000 * 1024)
        );
    }

    #[test]
    fn this_process_is_seen() {
        let own = std::process::id();
        let before = Figures::read(&[own]).unwrap();
        let block = vec![1u8; 64 << 20];
        let end = Instant::now() + std::time::Duration::from_millis(50);
        while Instant::now() < end {
            std::hint::black_box(&block);
        }
        let after = Figures::read(&[own]).unwrap();
        assert!(after.machines_bytes >= before.machines_bytes + (60 << 20));
        assert!(after.busy_ns >= before.busy_ns && before.used_bytes > 0);
        assert!(Figures::read(&[u32::MAX >> 1]).is_err());
    }
}
