//! What was inferred or did not fit, for the import log: never silent, never a flood.

use crate::stream::StreamKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::{
    ids::{CpuId, MachineId, Tid, VcpuId},
    table::{ImportLog, Row, TableSink},
};

/// Inferences listed one by one at most.
const MAX_LISTED: usize = 256;

/// Counters and remarks of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Notes {
    /// Events that showed another thread on a CPU than the switches had led to.
    pub(crate) contradictions: u64,
    /// KVM events of threads that no `kvm_entry` or topology names.
    pub(crate) unattributed: u64,
    /// Xen's records of guests whose pCPU's vCPU was not known yet (or of more vCPUs than can be).
    pub(crate) unattributed_xen: u64,
    /// Runstate changes that contradicted the state before.
    pub(crate) xen_contradictions: u64,
    /// Entries that named another vCPU than the one their thread is known for.
    pub(crate) other_vcpu: u64,
    /// Holes, and events lost in them as far as counted.
    pub(crate) holes: u64,
    pub(crate) lost_events: u64,
    /// How often more requests or work items were open than can be.
    pub(crate) given_up: u64,
    /// Events lost at places nobody knows.
    pub(crate) unlocated: u64,
    /// Events lost in holes whose marks carry no count: their place is known all the same.
    pub(crate) marked: u64,
    located: BTreeMap<StreamKey, Located>,
    inferred: Vec<String>,
    inferred_more: u64,
}

/// What the holes of one stream say of themselves.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Located {
    /// Events lost in holes that tell how many.
    counted: u64,
    /// Holes that do not (the ring buffer had no room for the count behind its last event).
    uncounted_holes: u64,
}

impl Notes {
    pub(crate) fn lost(&mut self, machine: MachineId, cpu: Option<CpuId>, count: Option<u64>) {
        // One without events goes on behind an event that was recorded in it.
        self.holes += u64::from(count != Some(0));
        if let Some(cpu) = cpu {
            let located = self.located.entry(StreamKey { machine, cpu }).or_default();
            match count {
                Some(count) => located.counted = located.counted.saturating_add(count),
                None => located.uncounted_holes += 1,
            }
        }
        // Broken input can hold any count; the sum (a count, not time) stops at the top.
        self.lost_events = self.lost_events.saturating_add(count.unwrap_or(0));
    }

    /// Takes the kernel's own count of events lost on a CPU. Gives those that no hole of its
    /// stream can account for: their place is not known.
    pub(crate) fn reconcile(&mut self, key: StreamKey, told: u64) -> u64 {
        let located = self.located.get(&key).copied().unwrap_or_default();
        let rest = told.saturating_sub(located.counted);
        if located.uncounted_holes > 0 {
            self.marked = self.marked.saturating_add(rest);
            return 0;
        }
        self.unlocated = self.unlocated.saturating_add(rest);
        rest
    }

    pub(crate) fn inferred_vcpu(&mut self, vm: &str, vcpu: VcpuId, tid: Tid) {
        if self.inferred.len() < MAX_LISTED {
            self.inferred.push(format!(
                "inferred from kvm_entry: thread {tid} is vCPU {vcpu} of {vm}; name the \
                 VMs when recording to confirm it"
            ));
        } else {
            self.inferred_more += 1;
        }
    }

    /// Writes the log's rows.
    pub(crate) fn emit(&self, sink: &mut dyn TableSink) {
        for message in &self.inferred {
            log(sink, message.clone(), false);
        }
        let counted = [
            (
                self.unlocated,
                "events were lost at positions that the buffers do not record; states near them may be \
                 wrong: record again with larger buffers",
                true,
            ),
            (
                self.marked,
                "events were lost in gaps that the buffers mark without the number lost in each \
                 gap",
                true,
            ),
            (
                self.given_up,
                "times too many block requests or work items were open at once (their end events may \
                 not be recorded); all open ones were dropped without an end",
                true,
            ),
            (self.inferred_more, "more vCPUs were inferred from kvm_entry", false),
            (
                self.contradictions,
                "events showed a different thread on their CPU than sched_switch implied; the states \
                 since the previous event of that CPU are unknown",
                true,
            ),
            (
                self.unattributed,
                "KVM events could not be attributed to a vCPU (no kvm_entry named it)",
                true,
            ),
            (
                self.unattributed_xen,
                "records of Xen's guests could not be attributed to a vCPU (no scheduling record \
                 names the vCPU on the pCPU: also trace the class SCHED)",
                true,
            ),
            (
                self.xen_contradictions,
                "runstate changes named a different previous state than the one derived; the vCPU's \
                 state before them is unknown instead (the pCPUs' TSCs may differ)",
                true,
            ),
            (
                self.other_vcpu,
                "kvm_entry events named a different vCPU than the one assigned to their thread; the \
                 assignment was kept",
                true,
            ),
        ];
        for (count, what, data_loss) in counted {
            if count > 0 {
                log(sink, format!("{count} {what}"), data_loss);
            }
        }
    }
}

/// One row of the import log about the engine's own work.
pub(crate) fn log(sink: &mut dyn TableSink, message: String, data_loss: bool) {
    sink.row(Row::ImportLog(ImportLog {
        source: "engine".into(),
        offset: None,
        message,
        data_loss,
    }));
}
