//! Sums of threads, and the rows they make.

use crate::{
    histogram::Histogram,
    snapshot::{ActorWindow, Snapshot, WindowDetail},
};
use transect_bpf::live;
use transect_model::{
    ids::{MachineId, VcpuId},
    table::Window,
};

/// Lengths and counts of a window fit.
pub(crate) fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// The sums of one actor.
#[derive(Clone, Default)]
pub(crate) struct Total {
    pub(crate) threads: u64,
    pub(crate) executions: u64,
    pub(crate) gotten_ns: u64,
    pub(crate) preempted_ns: u64,
    pub(crate) waking_ns: u64,
    pub(crate) blocked_ns: u64,
    pub(crate) offline_ns: u64,
    pub(crate) unknown_ns: u64,
    pub(crate) guest_ns: u64,
    pub(crate) halted_ns: u64,
    pub(crate) slices: u64,
    pub(crate) slices_ns: u64,
    pub(crate) slice_min_ns: Option<u64>,
    pub(crate) slice_max_ns: Option<u64>,
    pub(crate) migrations: u64,
    pub(crate) io: u64,
    pub(crate) exits: u64,
    pub(crate) injections: u64,
    pub(crate) halts: u64,
    pub(crate) halts_polled: u64,
    pub(crate) poll_ns: u64,
    pub(crate) wait_max_ns: u64,
    pub(crate) unattributed_ns: u64,
    pub(crate) waits: Histogram,
}

impl Total {
    /// A thread's. Its waits stay with the thread, of which they are a part of few bytes: see
    /// [`Self::add_thread`].
    pub(crate) fn of(thread: &live::ThreadWindow) -> Self {
        Total {
            threads: 1,
            executions: thread.executions,
            gotten_ns: thread.running_ns,
            preempted_ns: thread.preempted_ns,
            waking_ns: thread.waking_ns,
            blocked_ns: thread.asleep_ns + thread.halted_ns,
            offline_ns: thread.offline_ns,
            unknown_ns: thread.unknown_ns,
            guest_ns: thread.guest_ns,
            halted_ns: thread.halted_ns,
            slices: thread.slices,
            slices_ns: thread.slices_ns,
            slice_min_ns: thread.slice_min_ns,
            slice_max_ns: thread.slice_max_ns,
            migrations: thread.migrations,
            io: thread.io,
            exits: thread.exits,
            injections: thread.injections,
            halts: thread.halts,
            halts_polled: thread.halts_polled,
            poll_ns: thread.poll_ns,
            wait_max_ns: thread.wait_max_ns,
            unattributed_ns: thread.unattributed_ns + thread.others_ns,
            waits: Histogram::default(),
        }
    }

    /// Adds what [`Self::of`] gave of this thread, and its waits.
    pub(crate) fn add_thread(&mut self, thread: &live::ThreadWindow, total: &Total) {
        self.add(total);
        if let Some(waits) = &thread.waits {
            self.waits.add(waits);
        }
    }

    pub(crate) fn add(&mut self, other: &Total) {
        self.threads += other.threads;
        self.executions += other.executions;
        self.gotten_ns += other.gotten_ns;
        self.preempted_ns += other.preempted_ns;
        self.waking_ns += other.waking_ns;
        self.blocked_ns += other.blocked_ns;
        self.offline_ns += other.offline_ns;
        self.unknown_ns += other.unknown_ns;
        self.guest_ns += other.guest_ns;
        self.halted_ns += other.halted_ns;
        self.slices += other.slices;
        self.slices_ns += other.slices_ns;
        self.slice_min_ns = [self.slice_min_ns, other.slice_min_ns].into_iter().flatten().min();
        self.slice_max_ns = self.slice_max_ns.max(other.slice_max_ns);
        self.migrations += other.migrations;
        self.io += other.io;
        self.exits += other.exits;
        self.injections += other.injections;
        self.halts += other.halts;
        self.halts_polled += other.halts_polled;
        self.poll_ns += other.poll_ns;
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
        self.unattributed_ns += other.unattributed_ns;
        self.waits.add_all(&other.waits);
    }

    /// As a control group counts it.
    pub(crate) fn for_cgroup(mut self) -> Self {
        self.offline_ns = 0;
        (self.slices, self.slices_ns, self.io) = (0, 0, 0);
        (self.slice_min_ns, self.slice_max_ns) = (None, None);
        self
    }

    pub(crate) fn window(
        self,
        snapshot: &Snapshot,
        machine_id: MachineId,
        vcpu: Option<VcpuId>,
        cgroup: Option<String>,
    ) -> ActorWindow {
        let [wait_p50_ns, wait_p90_ns, wait_p99_ns] = self.waits.quantiles_ns([500, 900, 990]);
        let waited_ns = signed(self.preempted_ns + self.waking_ns);
        let window = Window {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id,
            vcpu,
            cpu: None,
            cgroup: cgroup.clone(),
            executions: self.executions,
            gotten_ns: signed(self.gotten_ns),
            waited_ns,
            blocked_ns: signed(self.blocked_ns),
            offline_ns: signed(self.offline_ns),
            unknown_ns: signed(self.unknown_ns),
            guest_ns: signed(self.guest_ns),
            halted_ns: signed(self.halted_ns),
            allocations: self.slices,
            allocated_avg_ns: self.slices_ns.checked_div(self.slices).map(signed),
            allocated_min_ns: self.slice_min_ns.map(signed),
            allocated_max_ns: self.slice_max_ns.map(signed),
            io_count: self.io,
            exits: self.exits,
            steal_ns: waited_ns,
        };
        let detail = WindowDetail {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id,
            vcpu,
            cgroup,
            threads: self.threads,
            preempted_ns: signed(self.preempted_ns),
            waking_ns: signed(self.waking_ns),
            migrations: self.migrations,
            waits: self.waits.count(),
            wait_p50_ns,
            wait_p90_ns,
            wait_p99_ns,
            wait_max_ns: self.wait_max_ns,
            unattributed_ns: signed(self.unattributed_ns),
            injections: self.injections,
            halts: self.halts,
            halts_polled: self.halts_polled,
            poll_ns: signed(self.poll_ns),
        };
        ActorWindow { window, detail, waits: self.waits }
    }
}
