//! The whole machine: counters at a moment.

use super::{
    parse::{self, DiskLine},
    source::Source,
};
use std::{collections::BTreeMap, fs, io, path::Path};
use transect_bench_core::samples::{
    CpuTimes, CpuUse, DiskUse, KernelCounts, MemoryCounts, NetCounts, NicCounts, NicUse, Pressure,
    Stall,
};

/// Counters at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) cpus: Vec<CpuUse>,
    pub(super) counts: KernelCounts,
    pub(super) runnable: u64,
    pub(super) pressure: Option<Pressure>,
    pub(super) disks: Vec<DiskLine>,
    pub(super) nics: Vec<(String, NicCounts)>,
    pub(super) memory_total: u64,
    pub(super) memory_available: u64,
}

/// Counters that are read at the beginning and the end only.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    pub(super) memory: MemoryCounts,
    pub(super) net: NetCounts,
    pub(super) kvm_exits: Option<u64>,
}

/// The files.
#[derive(Debug)]
pub(super) struct MachineSources {
    stat: Option<Source>,
    pressure: Option<[Source; 3]>,
    disks: Option<Source>,
    nics: Option<Source>,
    memory: Option<Source>,
    frequencies: Vec<Source>,
    net_folder: String,
    buffer: Vec<u8>,
    hz: u64,
    pub(super) reads: u64,
    pub(super) missing: BTreeMap<String, String>,
}

impl MachineSources {
    /// Opens them. `pid`: whose network namespace.
    pub(super) fn open(pid: Option<u32>) -> Self {
        let mut missing = BTreeMap::new();
        let net_folder =
            pid.map_or_else(|| "/proc/self/net".to_owned(), |pid| format!("/proc/{pid}/net"));
        let mut open = |path: &str| keep(&mut missing, path, Source::open(path));
        let stat = open("/proc/stat");
        let memory = open("/proc/meminfo");
        let disks = open("/proc/diskstats");
        let nics = open(&format!("{net_folder}/dev"));
        let pressure = match ["cpu", "io", "memory"].map(|of| open(&format!("/proc/pressure/{of}")))
        {
            [Some(cpu), Some(io), Some(memory)] => Some([cpu, io, memory]),
            _ => None,
        };
        let frequencies = frequencies();
        if frequencies.is_empty() {
            missing.insert("frequency".into(), "absent: no cpufreq driver".into());
        }
        let hz = rustix::param::clock_ticks_per_second();
        Self {
            stat,
            pressure,
            disks,
            nics,
            memory,
            frequencies,
            net_folder,
            buffer: Vec::new(),
            hz,
            reads: 0,
            missing,
        }
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        if let Some(text) = read(&self.stat, &mut self.buffer, &mut self.reads) {
            let stat = parse::stat(text, self.hz);
            (snapshot.cpus, snapshot.counts) = (stat.cpus, stat.counts);
            snapshot.runnable = stat.runnable;
        }
        snapshot.pressure = self.pressure();
        if let Some(text) = read(&self.disks, &mut self.buffer, &mut self.reads) {
            snapshot.disks = parse::diskstats(text);
        }
        if let Some(text) = read(&self.nics, &mut self.buffer, &mut self.reads) {
            snapshot.nics = parse::net_dev(text);
        }
        if let Some(text) = read(&self.memory, &mut self.buffer, &mut self.reads) {
            (snapshot.memory_total, snapshot.memory_available) = parse::meminfo(text);
        }
        snapshot
    }

    fn pressure(&mut self) -> Option<Pressure> {
        let mut stalls = [Stall::default(); 3];
        for (source, stall) in self.pressure.as_ref()?.iter().zip(&mut stalls) {
            self.reads += 1;
            // With psi=0 the files are there and cannot be read.
            let text = source.read(&mut self.buffer);
            match text.map(parse::pressure) {
                Ok(Some(found)) => *stall = found,
                Ok(None) => return None,
                Err(error) => {
                    self.missing.insert("/proc/pressure".into(), error.to_string());
                    return None;
                }
            }
        }
        let [cpu, io, memory] = stalls;
        Some(Pressure { cpu, io, memory })
    }

    pub(super) fn rare(&mut self) -> Rare {
        let mut text = |path: &str| {
            self.reads += 1;
            keep(&mut self.missing, path, fs::read(path)).unwrap_or_default()
        };
        let memory = parse::vmstat(&text("/proc/vmstat"));
        let net = parse::netstat(&text(&format!("{}/snmp", self.net_folder)))
            .plus(&parse::netstat(&text(&format!("{}/netstat", self.net_folder))))
            .plus(&parse::softnet(&text("/proc/net/softnet_stat")));
        let kvm_exits = fs::read("/sys/kernel/debug/kvm/exits");
        let kvm_exits = keep(&mut self.missing, "kvm exits", kvm_exits);
        Rare { memory, net, kvm_exits: kvm_exits.and_then(|text| parse::value(&text)) }
    }

    /// The least and most frequency of any CPU now, kHz.
    pub(super) fn frequency(&mut self) -> Option<(u64, u64)> {
        let mut range: Option<(u64, u64)> = None;
        for source in &self.frequencies {
            self.reads += 1;
            let text = source.read(&mut self.buffer).ok()?;
            let khz = parse::value(text)?;
            let (min, max) = range.unwrap_or((khz, khz));
            range = Some((min.min(khz), max.max(khz)));
        }
        range
    }
}

fn read<'a>(source: &Option<Source>, buffer: &'a mut Vec<u8>, reads: &mut u64) -> Option<&'a [u8]> {
    *reads += 1;
    source.as_ref()?.read(buffer).ok()
}

/// The value, or its absence noted.
fn keep<T>(missing: &mut BTreeMap<String, String>, what: &str, value: io::Result<T>) -> Option<T> {
    value.map_err(|error| missing.insert(what.to_owned(), error.to_string())).ok()
}

/// Of at most 16 CPUs: reading one asks the CPU on some drivers.
fn frequencies() -> Vec<Source> {
    (0..16)
        .filter_map(|cpu| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
            Source::open(file).ok()
        })
        .collect()
}

/// CPU times of all CPUs of `now` together, since `then`.
pub(super) fn all_cpus(then: &Snapshot, now: &Snapshot) -> CpuTimes {
    each_cpu(then, now).iter().fold(CpuTimes::default(), |sum, cpu| sum.plus(&cpu.times))
}

/// Each CPU that was on line at both moments.
pub(super) fn each_cpu(then: &Snapshot, now: &Snapshot) -> Vec<CpuUse> {
    now.cpus
        .iter()
        .filter_map(|cpu| {
            let before = then.cpus.iter().find(|before| before.cpu == cpu.cpu)?;
            Some(CpuUse { cpu: cpu.cpu, times: cpu.times.since(&before.times) })
        })
        .collect()
}

/// Whole disks that did anything. A partition's requests are its disk's too.
pub(super) fn disks(then: &Snapshot, now: &Snapshot) -> Vec<DiskUse> {
    now.disks
        .iter()
        .filter_map(|disk| {
            let before = then.disks.iter().find(|before| before.name == disk.name)?;
            let counts = disk.counts.since(&before.counts);
            let name = disk.name.clone();
            (counts.reads + counts.writes + counts.flushes + counts.busy_ns > 0)
                .then_some(DiskUse { name, counts, in_flight_max: disk.in_flight })
        })
        .filter(|disk| !is_partition(&disk.name))
        .collect()
}

fn is_partition(name: &str) -> bool {
    Path::new("/sys/class/block").join(name).join("partition").exists()
}

/// Interfaces that carried anything.
pub(super) fn nics(then: &Snapshot, now: &Snapshot) -> Vec<NicUse> {
    now.nics
        .iter()
        .filter_map(|(name, counts)| {
            let (_, before) = then.nics.iter().find(|(before, _)| before == name)?;
            let counts = counts.since(before);
            let carried = counts.received_packets + counts.sent_packets + counts.dropped > 0;
            carried.then(|| NicUse { name: name.clone(), speed_bits_per_s: speed(name), counts })
        })
        .collect()
}

/// `speed` is in Mbit/s, -1 or an error where it is not known (Documentation/ABI/testing/sysfs-class-net).
fn speed(name: &str) -> Option<u64> {
    let text = fs::read(format!("/sys/class/net/{name}/speed")).ok()?;
    parse::value(&text).filter(|mbit| *mbit > 0)?.checked_mul(1_000_000)
}
