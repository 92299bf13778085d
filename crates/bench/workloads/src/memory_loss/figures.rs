//! What a host says of its memory and CPUs, and of the threads that are machines.

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
            used_bytes: used(&text("/proc/meminfo")?)
                .ok_or_else(|| Fault::failed("/proc/meminfo has no MemTotal or MemAvailable"))?,
            busy_ns: busy(&text("/proc/stat")?)
                .ok_or_else(|| Fault::failed("/proc/stat has no line cpu"))?,
            machines_cpu_ns: cpu,
            machines_bytes: memory,
        })
    }
}

fn text(path: &str) -> Result<String, Fault> {
    fs::read_to_string(path).map_err(|e| Fault::failed(format!("{path}: {e}")))
}

/// A value of a table of `NAME: VALUE kB`, bytes.
fn kilobytes(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// See [`Figures::used_bytes`].
pub(super) fn used(meminfo: &str) -> Option<u64> {
    kilobytes(meminfo, "MemTotal")?.checked_sub(kilobytes(meminfo, "MemAvailable")?)
}

/// The line `cpu user nice system idle iowait irq softirq steal guest guest_nice` of proc_stat(5): all but idle, iowait
/// and steal; guest time is in user already.
fn busy(stat: &str) -> Option<u64> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|f| f.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = ticks[..] else { return None };
    let per_second = rustix::param::clock_ticks_per_second();
    Some((user + nice + system + irq + softirq) * (1_000_000_000 / per_second))
}

fn process_of(tid: u32) -> Result<u32, Fault> {
    let path = format!("/proc/{tid}/status");
    let status = text(&path)?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|value| value.trim().parse().ok())
        .ok_or_else(|| Fault::failed(format!("{path} has no Tgid")))
}

fn cpu_of(tid: u32) -> Result<u64, Fault> {
    // Below task/: what is directly below /proc/TID is the whole process's in some files.
    let path = format!("/proc/{tid}/task/{tid}/schedstat");
    let first = text(&path)?.split_whitespace().next().and_then(|value| value.parse().ok());
    first.ok_or_else(|| Fault::failed(format!("{path} has no time")))
}

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

    #[test]
    fn tables_are_read() {
        let meminfo = "MemTotal:  1000 kB\nMemFree: 5 kB\nMemAvailable:  400 kB\n";
        assert_eq!(used(meminfo), Some(600 * 1024));
        assert_eq!(used("MemTotal: 1 kB\n"), None);
        assert_eq!(busy("cpu  1 2 3 1000 1000 4 5 1000 0 0\ncpu0 1 2\n"), Some(150_000_000));
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
