//! Counting in the kernel, for when a histogram is enough.

use std::collections::BTreeMap;

use libbpf_rs::Object;

use crate::{BpfError, Plan, kernel::Names};

/// What can be counted in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// VM exits by VM, vCPU and reason: number, time, distribution.
    Exits,
    /// How long woken threads wait for a CPU, by process.
    RunQueueLatency,
}

/// Number, sum and distribution of durations. Bucket `n` counts those from 2^n to 2^(n+1)-1 ns
/// (bucket 0 also 0 ns).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// Distribution by powers of two.
    pub buckets: [u64; 40],
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
}

/// Programs of the aggregates that a plan wants.
pub(crate) fn programs(plan: &Plan, names: &Names, absent: &mut Vec<String>) -> Vec<&'static str> {
    let _ = (plan, names, absent);
    Vec::new()
}

impl Aggregates {
    pub(crate) fn read(_object: &Object, _programs: &[&'static str]) -> Result<Self, BpfError> {
        Ok(Self::default())
    }
}
