//! From the sums of threads to rows about vCPUs, VMs, control groups and who was in whose way.
//!
//! The rules are those of the engine's windows (`crates/engine/src/states/windows.rs`), so that the rows
//! are the same: a vCPU is its thread, a VM the sum of its vCPUs and of the device interrupts its
//! threads raise, a control group the sum of its processes' threads, of which slices and I/O do not
//! count, and time before birth and after death neither.

use crate::{
    by_number::ByNumber,
    histogram::{Histogram, quantiles_ns},
    snapshot::{Antagonist, CpuWindow, ExitWindow, IoWindow, Snapshot, ThreadWindow},
    total::{Total, signed},
};
use std::collections::{BTreeMap, HashMap};
use transect_bpf::live::{self, Io, LiveWindow, ThreadPlace};
use transect_model::{
    event::Comm,
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid, VcpuId},
};

/// The host: the machine whose kernel schedules all threads.
pub(crate) const HOST: MachineId = MachineId(0);

/// A VM as far as rows need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VmFacts {
    pub(crate) id: MachineId,
    pub(crate) pid: i32,
    /// By number, with the thread that runs it.
    pub(crate) vcpus: BTreeMap<u32, Option<i32>>,
    /// Devices that its packets pass.
    pub(crate) devices: Vec<u32>,
}

/// What the window itself does not tell.
pub(crate) struct Facts<'a> {
    pub(crate) vms: &'a [VmFacts],
    pub(crate) isa: Isa,
    /// Names of network devices by number.
    pub(crate) devices: &'a BTreeMap<u32, String>,
}

/// Who a thread is.
#[derive(Clone, Copy)]
struct Who<'a> {
    thread: &'a live::ThreadWindow,
    vm: Option<&'a VmFacts>,
    vcpu: Option<VcpuId>,
    role: &'static str,
}

fn tid_of(number: u32) -> Tid {
    Tid(i32::try_from(number).unwrap_or(0))
}

/// Fills a snapshot whose time is set. `cgroup` tells a process's control group.
pub(crate) fn fill(
    snapshot: &mut Snapshot,
    taken: &LiveWindow,
    facts: &Facts<'_>,
    mut cgroup: impl FnMut(&live::ThreadWindow) -> Option<String>,
) {
    let index = Index::of(facts);
    let real = taken.threads.iter().filter(|thread| thread.tid != 0);
    let threads: Vec<(Who<'_>, Total)> =
        real.map(|thread| (index.who(thread), Total::of(thread))).collect();
    let cgroups: Vec<Option<String>> = threads.iter().map(|(who, _)| cgroup(who.thread)).collect();
    let by_tid: ByNumber<Who<'_>> = threads.iter().map(|(who, _)| (who.thread.tid, *who)).collect();
    vms(snapshot, &threads, facts);
    groups(snapshot, &threads, &cgroups);
    snapshot.threads.reserve_exact(threads.len());
    for ((who, total), cgroup) in threads.iter().zip(cgroups) {
        snapshot.threads.push(thread_row(snapshot, who, total, cgroup));
        antagonists(snapshot, who, &by_tid);
    }
    for idle in taken.threads.iter().filter(|thread| thread.tid == 0) {
        snapshot.cpus.push(CpuWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: HOST,
            cpu: CpuId(idle.cpu),
            busy_ns: signed(idle.preempted_ns + idle.waking_ns + idle.asleep_ns),
            idle_ns: signed(idle.running_ns),
            unknown_ns: signed(idle.unknown_ns),
        });
    }
    exits(snapshot, taken, facts, &by_tid);
    io(snapshot, taken, facts, &by_tid);
}

/// VMs by their process, and vCPUs by their thread.
struct Index<'a> {
    vms: ByNumber<&'a VmFacts>,
    vcpus: ByNumber<VcpuId>,
}

impl<'a> Index<'a> {
    fn of(facts: &Facts<'a>) -> Self {
        let vcpus = facts.vms.iter().flat_map(|vm| &vm.vcpus);
        Index {
            vms: facts.vms.iter().map(|vm| (vm.pid.cast_unsigned(), vm)).collect(),
            vcpus: vcpus
                .filter_map(|(number, tid)| Some(((*tid)?.cast_unsigned(), VcpuId(*number))))
                .collect(),
        }
    }

    fn who(&self, thread: &'a live::ThreadWindow) -> Who<'a> {
        let worker_of = thread.comm.strip_prefix(b"vhost-").and_then(|digits| {
            let digits = digits.split(|byte| *byte == 0).next()?;
            std::str::from_utf8(digits).ok()?.parse::<u32>().ok()
        });
        let by_pid = |pid: u32| self.vms.get(&pid).copied();
        let vm = by_pid(thread.tgid).or_else(|| worker_of.and_then(by_pid));
        let told = thread.vcpu.map(VcpuId);
        let vcpu = vm.and_then(|_| self.vcpus.get(&thread.tid).copied().or(told));
        let role = match (vm, vcpu, worker_of) {
            (Some(_), Some(_), _) => "vcpu",
            (Some(_), None, Some(_)) => "vhost",
            (Some(_), None, None) => "vmm",
            (None, ..) => "thread",
        };
        Who { thread, vm, vcpu, role }
    }
}

/// vCPUs, and VMs as their sums.
fn vms(snapshot: &mut Snapshot, threads: &[(Who<'_>, Total)], facts: &Facts<'_>) {
    let dur = u64::try_from(snapshot.dur).unwrap_or(0);
    let mut sums: HashMap<MachineId, (BTreeMap<u32, Total>, u64)> = HashMap::new();
    for (who, total) in threads {
        let Some(vm) = who.vm else { continue };
        let (vcpus, irqs) = sums.entry(vm.id).or_default();
        *irqs += who.thread.irqs;
        if let Some(vcpu) = who.vcpu {
            vcpus.entry(vcpu.0).or_default().add_thread(who.thread, total);
        }
    }
    for vm in facts.vms {
        let (mut vcpus, irqs) = sums.remove(&vm.id).unwrap_or_default();
        for number in vm.vcpus.keys() {
            let unseen = || Total { unknown_ns: dur, ..Total::default() };
            vcpus.entry(*number).or_insert_with(unseen);
        }
        let mut whole = Total::default();
        for (number, total) in vcpus {
            whole.add(&total);
            let row = total.window(snapshot, vm.id, Some(VcpuId(number)), None);
            snapshot.actors.push(row);
        }
        whole.io += irqs;
        let row = whole.window(snapshot, vm.id, None, None);
        snapshot.actors.push(row);
    }
}

fn groups(snapshot: &mut Snapshot, threads: &[(Who<'_>, Total)], cgroups: &[Option<String>]) {
    let mut sums: Vec<(&str, Total)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    // A process's threads stand side by side: most are of the group of the one before.
    let mut before: Option<(&str, usize)> = None;
    for ((who, total), cgroup) in threads.iter().zip(cgroups) {
        let Some(cgroup) = cgroup.as_deref() else { continue };
        let at = match before {
            Some((name, at)) if name == cgroup => at,
            _ => *places.entry(cgroup).or_insert_with(|| {
                sums.push((cgroup, Total::default()));
                sums.len() - 1
            }),
        };
        before = Some((cgroup, at));
        if let Some((_, sum)) = sums.get_mut(at) {
            sum.add_thread(who.thread, total);
        }
    }
    sums.sort_by_key(|(name, _)| *name);
    for (name, total) in sums {
        let row = total.for_cgroup().window(snapshot, HOST, None, Some(name.to_owned()));
        snapshot.actors.push(row);
    }
}

fn thread_row(
    snapshot: &Snapshot,
    who: &Who<'_>,
    total: &Total,
    cgroup: Option<String>,
) -> ThreadWindow {
    let Who { thread, vm, vcpu, role } = *who;
    let waits = thread.waits.as_deref();
    let [wait_p50_ns, wait_p99_ns] =
        waits.map_or([None; 2], |waits| quantiles_ns(waits, [500, 990]));
    let place = match thread.place {
        ThreadPlace::Unknown => "unknown",
        ThreadPlace::Running => "running",
        ThreadPlace::Preempted => "preempted",
        ThreadPlace::Waking => "waking",
        ThreadPlace::Asleep => "asleep",
        ThreadPlace::Halted => "halted",
        ThreadPlace::Gone => "gone",
    };
    ThreadWindow {
        ts: snapshot.ts,
        dur: snapshot.dur,
        machine_id: HOST,
        tid: tid_of(thread.tid),
        pid: tid_of(thread.tgid),
        name: name(thread),
        role,
        vm_machine_id: vm.map(|vm| vm.id),
        vcpu,
        cgroup,
        cpu: CpuId(thread.cpu),
        state: place,
        executions: total.executions,
        gotten_ns: signed(total.gotten_ns),
        waited_ns: signed(total.preempted_ns + total.waking_ns),
        preempted_ns: signed(total.preempted_ns),
        waking_ns: signed(total.waking_ns),
        blocked_ns: signed(total.blocked_ns),
        offline_ns: signed(total.offline_ns),
        unknown_ns: signed(total.unknown_ns),
        guest_ns: signed(total.guest_ns),
        halted_ns: signed(total.halted_ns),
        allocations: total.slices,
        allocated_avg_ns: total.slices_ns.checked_div(total.slices).map(signed),
        allocated_min_ns: total.slice_min_ns.map(signed),
        allocated_max_ns: total.slice_max_ns.map(signed),
        migrations: total.migrations,
        wait_p50_ns,
        wait_p99_ns,
        wait_max_ns: total.wait_max_ns,
        unattributed_ns: signed(total.unattributed_ns),
        exits: total.exits,
        io_count: total.io + thread.irqs,
        injections: total.injections,
    }
}

fn name(thread: &live::ThreadWindow) -> String {
    Comm::new(&thread.comm).to_str().into_owned()
}

fn antagonists(snapshot: &mut Snapshot, who: &Who<'_>, by_tid: &ByNumber<Who<'_>>) {
    let machine = |who: &Who<'_>| who.vm.map_or(HOST, |vm| vm.id);
    for rival in &who.thread.rivals {
        let by = by_tid.get(&rival.tid).filter(|_| rival.tid != 0);
        snapshot.antagonists.push(Antagonist {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: machine(who),
            vcpu: who.vcpu,
            tid: tid_of(who.thread.tid),
            name: name(who.thread),
            by_machine_id: by.map_or(HOST, machine),
            by_vcpu: by.and_then(|by| by.vcpu),
            by_tid: tid_of(rival.tid),
            by_name: match by {
                Some(by) => name(by.thread),
                None if rival.tid == 0 => "idle".to_owned(),
                None => String::new(),
            },
            times: rival.times,
            ns: signed(rival.ns),
        });
    }
}

fn exits(
    snapshot: &mut Snapshot,
    taken: &LiveWindow,
    facts: &Facts<'_>,
    by_tid: &ByNumber<Who<'_>>,
) {
    for exit in &taken.exits {
        let Some((vm, vcpu)) = by_tid.get(&exit.tid).and_then(|who| Some((who.vm?, who.vcpu?)))
        else {
            continue;
        };
        let mut histogram = Histogram::default();
        histogram.add(&exit.durations.buckets);
        let [p50_ns, p90_ns, p99_ns] = histogram.quantiles_ns([500, 900, 990]);
        let row = ExitWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: vm.id,
            vcpu,
            reason: ExitReason { isa: facts.isa, code: exit.reason },
            count: exit.durations.count,
            total_ns: signed(exit.durations.total_ns),
            handling_ns: signed(exit.handling_ns),
            p50_ns,
            p90_ns,
            p99_ns,
            max_ns: exit.durations.max_ns,
        };
        snapshot.exits.push((row, histogram));
    }
}

fn io(snapshot: &mut Snapshot, taken: &LiveWindow, facts: &Facts<'_>, by_tid: &ByNumber<Who<'_>>) {
    for io in &taken.io {
        let is_block = matches!(io.kind, Io::Read | Io::Write);
        let vm = facts.vms.iter().find(|vm| match is_block {
            true => vm.pid == tid_of(io.who).0,
            false => vm.devices.contains(&io.who),
        });
        let name = match is_block {
            true => by_tid.get(&io.who).map(|who| name(who.thread)),
            false => facts.devices.get(&io.who).cloned(),
        };
        let mut histogram = Histogram::default();
        histogram.add(&io.durations.buckets);
        let [p50_ns, p90_ns, p99_ns] = histogram.quantiles_ns([500, 900, 990]);
        let row = IoWindow {
            ts: snapshot.ts,
            dur: snapshot.dur,
            machine_id: vm.map_or(HOST, |vm| vm.id),
            kind: match io.kind {
                Io::Read => "read",
                Io::Write => "write",
                Io::Xmit => "xmit",
                Io::Receive => "receive",
            },
            pid: is_block.then(|| tid_of(io.who)),
            name: name.unwrap_or_default(),
            count: io.durations.count,
            bytes: io.bytes,
            total_ns: is_block.then(|| signed(io.durations.total_ns)),
            p50_ns,
            p90_ns,
            p99_ns,
        };
        snapshot.io.push((row, histogram));
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
