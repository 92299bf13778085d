//! Threads with known sums, and the rows they make.

use super::*;
use crate::snapshot::ActorWindow;

const DUR: u64 = 1000;

fn thread(tid: u32, tgid: u32, comm: &str, running_ns: u64) -> live::ThreadWindow {
    let mut name = [0; 16];
    name[..comm.len()].copy_from_slice(comm.as_bytes());
    live::ThreadWindow {
        tid,
        tgid,
        parent_tgid: None,
        life: 1,
        comm: name,
        cpu: 0,
        place: ThreadPlace::Asleep,
        vcpu: None,
        running_ns,
        preempted_ns: 0,
        waking_ns: 0,
        asleep_ns: DUR - running_ns,
        halted_ns: 0,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: 0,
        executions: 1,
        migrations: 0,
        slices: 0,
        slices_ns: 0,
        slice_min_ns: None,
        slice_max_ns: None,
        exits: 0,
        io: 0,
        irqs: 0,
        injections: 0,
        halts: 0,
        halts_polled: 0,
        poll_ns: 0,
        wait_max_ns: 0,
        waits: None,
        rivals: Vec::new(),
        others_ns: 0,
        unattributed_ns: 0,
    }
}

fn taken(threads: Vec<live::ThreadWindow>) -> LiveWindow {
    LiveWindow {
        from_ns: 5000,
        to_ns: 5000 + DUR,
        missed_windows: 0,
        threads,
        exits: Vec::new(),
        io: Vec::new(),
        late_threads: 0,
        untracked_events: 0,
        no_room: 0,
        missed_events: 0,
        unseen_wakings: 0,
    }
}

fn snapshot_of(window: &LiveWindow, vms: &[VmFacts]) -> Snapshot {
    let mut snapshot = Snapshot { ts: 5000, dur: 1000, ..Snapshot::default() };
    let facts = Facts { vms, isa: Isa::Svm, devices: &BTreeMap::new() };
    fill(&mut snapshot, window, &facts, |thread| Some(format!("/group-{}", thread.tgid)));
    snapshot
}

fn vm() -> VmFacts {
    let vcpus = BTreeMap::from([(0, Some(101)), (1, None)]);
    VmFacts { id: MachineId(1), pid: 100, vcpus, devices: Vec::new() }
}

#[test]
fn a_vm_is_its_vcpus_and_the_interrupts_of_its_threads() {
    let mut vcpu = thread(101, 100, "CPU 0/KVM", 400);
    (vcpu.io, vcpu.exits, vcpu.guest_ns) = (5, 9, 300);
    (vcpu.slices, vcpu.slices_ns, vcpu.slice_min_ns, vcpu.slice_max_ns) =
        (2, 30, Some(10), Some(20));
    let mut main = thread(100, 100, "qemu", 50);
    main.irqs = 3;
    let mut worker = thread(300, 300, "vhost-100", 20);
    worker.irqs = 4;
    let other = thread(400, 400, "other", 10);
    let snapshot = snapshot_of(&taken(vec![vcpu, main, worker, other]), &[vm()]);
    let row = |vcpu: Option<u32>| {
        let is = |w: &&ActorWindow| w.window.machine_id.0 == 1 && w.window.vcpu == vcpu.map(VcpuId);
        snapshot.actors.iter().find(is).unwrap().window.clone()
    };
    let first = row(Some(0));
    assert_eq!((first.gotten_ns, first.blocked_ns, first.exits, first.io_count), (400, 600, 9, 5));
    assert_eq!((first.allocations, first.allocated_avg_ns), (2, Some(15)));
    // Nobody knows the second one's thread.
    assert_eq!(row(Some(1)).unknown_ns, 1000);
    let whole = row(None);
    assert_eq!((whole.gotten_ns, whole.unknown_ns, whole.io_count), (400, 1000, 5 + 3 + 4));
    assert_eq!((whole.allocated_min_ns, whole.allocated_max_ns), (Some(10), Some(20)));
    let roles: Vec<_> = snapshot.threads.iter().map(|t| (t.tid.0, t.role)).collect();
    assert_eq!(roles, [(101, "vcpu"), (100, "vmm"), (300, "vhost"), (400, "thread")]);
}

#[test]
fn a_control_group_is_its_threads_without_slices_io_and_absence() {
    let mut one = thread(7, 7, "one", 100);
    (one.slices, one.slices_ns, one.io) = (1, 5, 2);
    let mut two = thread(8, 7, "two", 200);
    (two.offline_ns, two.asleep_ns) = (300, 500);
    let snapshot = snapshot_of(&taken(vec![one, two]), &[]);
    let [group] = snapshot.actors.as_slice() else { panic!("{:?}", snapshot.actors) };
    let w = &group.window;
    assert_eq!(w.cgroup.as_deref(), Some("/group-7"));
    assert_eq!((w.gotten_ns, w.blocked_ns, w.executions), (300, 900 + 500, 2));
    assert_eq!((w.offline_ns, w.allocations, w.allocated_avg_ns, w.io_count), (0, 0, None, 0));
    assert_eq!(group.detail.threads, 2);
}

#[test]
fn antagonists_are_named_as_the_vcpus_they_are() {
    let mut victim = thread(101, 100, "CPU 0/KVM", 400);
    let rival = |tid, ns| live::Rival { tid, tgid: tid, times: 2, ns };
    victim.rivals = vec![rival(400, 90), rival(0, 10)];
    let snapshot = snapshot_of(&taken(vec![victim, thread(400, 400, "hog", 10)]), &[vm()]);
    let [hog, idle] = snapshot.antagonists.as_slice() else { panic!("{:?}", snapshot.antagonists) };
    assert_eq!((hog.machine_id.0, hog.vcpu, hog.by_machine_id), (1, Some(VcpuId(0)), HOST));
    assert_eq!((hog.by_name.as_str(), hog.ns, hog.times), ("hog", 90, 2));
    assert_eq!((idle.by_tid.0, idle.by_name.as_str()), (0, "idle"));
}

#[test]
fn a_vcpu_that_only_events_know_has_a_row() {
    let mut vcpu = thread(55, 50, "tiny", 400);
    vcpu.vcpu = Some(3);
    let vm = VmFacts { id: MachineId(2), pid: 50, ..VmFacts::default() };
    let snapshot = snapshot_of(&taken(vec![vcpu]), &[vm]);
    let vcpus = snapshot.actors.iter().filter(|actor| actor.window.vcpu == Some(VcpuId(3)));
    assert_eq!(vcpus.count(), 1);
    assert_eq!(snapshot.threads[0].role, "vcpu");
}
