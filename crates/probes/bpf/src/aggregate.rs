//! Counting in the kernel, for when a histogram is enough.
//!
//! The programs of `bpf/aggregate.bpf.c` keep per-CPU histograms that are read here once; no log is
//! written, nothing is consumed while they run. A plan without families and with aggregates only
//! counts.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags, Object};

use crate::{BpfError, KvmExitMethod, Plan, choice, kernel::Names, load::map_named};

/// What can be counted in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// VM exits by VM, vCPU and reason: number, time, distribution.
    Exits,
    /// How long runnable threads wait for a CPU, by process.
    RunQueueLatency,
}

/// Buckets of a histogram: powers of two of ns.
pub const BUCKETS: usize = 40;

/// Number, sum and distribution of durations. Bucket `n` counts those from 2^n to 2^(n+1)-1 ns
/// (bucket 0 also 0 ns, the last one all that are longer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// Distribution by powers of two.
    pub buckets: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { count: 0, total_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Adds one CPU's part, as the kernel has it (`struct histogram`).
    fn add(&mut self, part: &[u8]) {
        let mut words = part
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        self.count += words.next().unwrap_or(0);
        self.total_ns += words.next().unwrap_or(0);
        for (bucket, count) in self.buckets.iter_mut().zip(words) {
            *bucket += count;
        }
    }
}

/// Exits of one vCPU for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitHistogram {
    /// Process of the VMM.
    pub tgid: u32,
    /// vCPU, as KVM numbers it.
    pub vcpu: u32,
    /// Raw exit reason of the machine's ISA.
    pub reason: u32,
    /// From exit to the next entry.
    pub durations: Histogram,
}

/// What has been counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregates {
    /// Exits, by VM, vCPU and reason.
    pub exits: Vec<ExitHistogram>,
    /// Waits for a CPU, by tgid.
    pub run_queue: BTreeMap<u32, Histogram>,
    /// What is in none of these: durations that found no room (8192 rows fit each), and waits for a CPU whose
    /// beginning or end was not seen, among them those that had begun before.
    pub uncounted: u64,
}

const QUEUE: [(&str, &str); 3] = [
    ("aggregate_switch", "sched_switch"),
    ("aggregate_waking", "sched_waking"),
    ("aggregate_wakeup_new", "sched_wakeup_new"),
];

/// Programs of the aggregates that a plan wants and this kernel can have.
pub(crate) fn programs(plan: &Plan, names: &Names, absent: &mut Vec<String>) -> Vec<&'static str> {
    let mut programs = Vec::new();
    if plan.aggregates.contains(&Aggregate::RunQueueLatency) {
        programs.extend(
            QUEUE.iter().filter(|(_, event)| names.has_tracepoint(event)).map(|(name, _)| *name),
        );
    }
    if plan.aggregates.contains(&Aggregate::Exits) {
        match choice::kvm_exit_method(names) {
            KvmExitMethod::Svm => programs.extend(["aggregate_entry", "aggregate_exit_svm"]),
            KvmExitMethod::Classic => {
                programs.extend(["aggregate_entry", "aggregate_exit_classic"])
            }
            KvmExitMethod::None => absent.push(
                "histogram of VM exits (no kvm_exit: load kvm_amd or kvm_intel first)".into(),
            ),
        }
    }
    programs
}

/// Maps that only aggregates need: without any, they are not made.
pub(crate) const MAPS: [&str; 5] =
    ["exit_histograms", "last_exits", "queue_histograms", "waiting_since", "switched_to"];

impl Aggregates {
    pub(crate) fn read(object: &Object, programs: &[&'static str]) -> Result<Self, BpfError> {
        let mut aggregates = Self::default();
        if programs.is_empty() {
            return Ok(aggregates);
        }
        for (key, durations) in rows(object, "exit_histograms")? {
            let [tgid, vcpu, reason] = [0, 4, 8].map(|at| number(&key, at));
            aggregates.exits.push(ExitHistogram { tgid, vcpu, reason, durations });
        }
        aggregates.exits.sort_by_key(|row| (row.tgid, row.vcpu, row.reason));
        for (key, durations) in rows(object, "queue_histograms")? {
            aggregates.run_queue.insert(number(&key, 0), durations);
        }
        let value =
            map_named(object, ".bss.uncounted")?.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(BpfError::bpf("map .bss.uncounted"))?.unwrap_or_default();
        aggregates.uncounted = value.try_into().map_or(0, u64::from_ne_bytes);
        Ok(aggregates)
    }
}

fn number(key: &[u8], at: usize) -> u32 {
    key.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn rows(object: &Object, name: &str) -> Result<Vec<(Vec<u8>, Histogram)>, BpfError> {
    let map = map_named(object, name)?;
    let mut rows = Vec::new();
    for key in map.keys() {
        let parts =
            map.lookup_percpu(&key, MapFlags::ANY).map_err(BpfError::bpf(format!("map {name}")))?;
        let mut histogram = Histogram::default();
        for part in parts.unwrap_or_default() {
            histogram.add(&part);
        }
        rows.push((key, histogram));
    }
    Ok(rows)
}
