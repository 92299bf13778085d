//! What protocol version 2 added: guests that record compactly, and readings of their clocks.
//!
//! All of it travels in frame types of its own, so version 1 is what it was.

use super::{
    error::ProtoError,
    wire::{Put, Take},
};
use crate::stamp::{StampClock, TscReading};
use transect_model::untrusted::Untrusted;

/// Bytes of a chunk, the unit of which one slice is a part (`crates/formats/compact`).
pub const CHUNK_BYTES: usize = 32 * 1024;

/// How system calls are to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyscallForm {
    /// One record with duration where nothing lies between entry and exit.
    #[default]
    Folded,
    /// Always two records.
    Both,
    /// The exit only.
    ExitOnly,
}

impl SyscallForm {
    pub(super) const ALL: [SyscallForm; 3] =
        [SyscallForm::Folded, SyscallForm::Both, SyscallForm::ExitOnly];

    pub(super) fn code(self) -> u8 {
        match self {
            SyscallForm::Folded => 0,
            SyscallForm::Both => 1,
            SyscallForm::ExitOnly => 2,
        }
    }
}

/// What the compact collector of a guest is to record. Words are those of the command line; what
/// they mean is the collector's business (`crates/probes/bpf`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactPlan {
    /// Families of events: `sched`, `irq`, ….
    pub families: Vec<String>,
    /// Events beyond the families' usual ones, as `system:event`.
    pub with: Vec<String>,
    /// Events left out, as `system:event`.
    pub without: Vec<String>,
    /// How system calls are recorded.
    pub syscalls: SyscallForm,
    /// Only these threads of the guest; empty: all.
    pub tids: Vec<u32>,
    /// Only these processes of the guest; empty: all.
    pub tgids: Vec<u32>,
    /// Only this cgroup of the guest, by its path below the mount; empty: all.
    pub cgroup: String,
    /// Shorter interrupts are dropped, ns.
    pub min_irq_ns: u64,
    /// Shorter softirqs are dropped, ns.
    pub min_softirq_ns: u64,
    /// Shorter system calls are dropped, ns.
    pub min_syscall_ns: u64,
    /// Shorter VM exits (of a guest's own guests) are dropped, ns.
    pub min_exit_ns: u64,
    /// Size of one CPU's log, bytes; the agent takes the power of two below that its kernel can do.
    pub log_bytes: u64,
}

/// The first protocol version whose agents know [`NEW_FAMILIES`] and contexts of wakings.
pub const CAUSES_VERSION: u8 = 3;
/// Families that older agents refuse.
const NEW_FAMILIES: [&str; 6] = ["vectors", "causes", STACKS, "locks", "quota", "memory"];
/// Events that they refuse, or (with an empty name) all of a system.
const NEW_EVENTS: [(&str, &str); 7] = [
    ("irq_vectors", ""),
    ("lock", ""),
    ("vmscan", ""),
    ("kvm", "kvm_apic_accept_irq"),
    ("kvm", "kvm_apicv_accept_irq"),
    ("net", "net_dev_start_xmit"),
    ("workqueue", "workqueue_queue_work"),
];

/// The first protocol version whose agents take stacks, and name them when they end.
const STACKS_VERSION: u8 = 4;
/// The family that older agents refuse.
const STACKS: &str = "stacks";

impl CompactPlan {
    /// As an agent of this protocol version understands it, and what it does not.
    pub(crate) fn for_version(&self, version: u8) -> (Self, Vec<String>) {
        let mut plan = self.clone();
        if version >= STACKS_VERSION {
            return (plan, Vec::new());
        }
        if version >= CAUSES_VERSION {
            let left = plan.families.extract_if(.., |name| name == STACKS).collect();
            return (plan, left);
        }
        let is_new_event = |event: &str| {
            let (system, name) = event.split_once(':').unwrap_or((event, ""));
            let is_it = |new: &(&str, &str)| new.0 == system && (new.1.is_empty() || new.1 == name);
            NEW_EVENTS.iter().any(is_it)
        };
        let left = plan.families.extract_if(.., |name| NEW_FAMILIES.contains(&name.as_str()));
        let left = left.chain(plan.with.extract_if(.., |event| is_new_event(event))).collect();
        plan.without.retain(|event| !is_new_event(event));
        (plan, left)
    }
}

/// What the compact collector of a guest really does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactRun {
    /// Size of one CPU's log, bytes.
    pub log_bytes: u64,
    /// Who numbers VM exit reasons there: `svm`, `vmx`, `arm64`.
    pub isa: Untrusted<String>,
    /// The events that are recorded, as `system:event`.
    pub events: Vec<String>,
}

/// A slice of one log of the compact collector, as `crates/formats/compact` defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    /// The CPU.
    pub cpu: u32,
    /// Which of the CPU's logs: 0 is the main log, else a side log.
    pub side: u8,
    /// Bytes written to the log before the first of these.
    pub position: u64,
    /// Stamp of the SYNC at the start of the chunk, ns of the guest's CLOCK_MONOTONIC.
    pub sync_ns: u64,
    /// Events this log has lost so far.
    pub lost: u64,
    /// Whole records of one chunk: a multiple of 8 bytes, at most [`CHUNK_BYTES`].
    pub words: &'a [u8],
}

pub(super) fn put_words(put: &mut Put<'_>, slice: &Words<'_>) {
    put.u32(slice.cpu);
    put.u8(slice.side);
    put.u64(slice.position);
    put.u64(slice.sync_ns);
    put.u64(slice.lost);
    put.bytes(slice.words);
}

pub(super) fn take_words<'a>(take: &mut Take<'a>) -> Result<Words<'a>, ProtoError> {
    let slice = Words {
        cpu: take.u32("cpu")?,
        side: take.u8("side log")?,
        position: take.u64("position")?,
        sync_ns: take.u64("stamp of the chunk")?,
        lost: take.u64("lost events")?,
        words: take.rest(),
    };
    slice.check()?;
    Ok(slice)
}

impl Words<'_> {
    /// Is it a slice of one chunk? What a file is made of must not depend on the guest's word.
    fn check(&self) -> Result<(), ProtoError> {
        let in_chunk = self.position % CHUNK_BYTES as u64;
        let bytes = self.words.len() as u64;
        if self.side > 2 {
            return Err(ProtoError::BadValue { what: "side log", value: self.side.into() });
        }
        if !self.position.is_multiple_of(8) || self.position > 1 << 62 {
            return Err(ProtoError::BadValue { what: "position", value: self.position });
        }
        if bytes == 0 || !bytes.is_multiple_of(8) || in_chunk + bytes > CHUNK_BYTES as u64 {
            return Err(ProtoError::BadValue { what: "length of a slice", value: bytes });
        }
        Ok(())
    }
}

pub(super) fn put_reading(put: &mut Put<'_>, reading: &TscReading) {
    put.u8(reading.clock.code());
    put.u64(reading.tsc_before);
    put.u64(reading.ns);
    put.u64(reading.tsc_after);
}

pub(super) fn take_reading(take: &mut Take<'_>) -> Result<TscReading, ProtoError> {
    let code = take.u8("clock")?;
    let clock = StampClock::from_code(code).filter(|clock| *clock != StampClock::X86Tsc);
    Ok(TscReading {
        clock: clock.ok_or(ProtoError::BadValue { what: "clock", value: u64::from(code) })?,
        tsc_before: take.u64("tsc before")?,
        ns: take.u64("clock")?,
        tsc_after: take.u64("tsc after")?,
    })
}
