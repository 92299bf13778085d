//! Causes in a real nested recording: every disk request of the guest, from its doorbell to the end.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use crate::{
    dsl::{Story, causes},
    recordings::run_in,
};
use std::collections::BTreeMap;
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::{CpuId, MachineId, Tid},
    table::{BlockIo, Cause, Tables},
};

const GUEST: MachineId = MachineId(1);

/// The stages of one request.
struct Path<'t> {
    kick: &'t Cause,
    injection: &'t Cause,
    line: &'t Cause,
}

/// The causes of a request, by vCPU and number; none where one is missing.
fn path<'t>(tables: &'t Tables, request: &BlockIo) -> Option<Path<'t>> {
    let issued = request.ts + request.issue_ns?;
    let done = request.ts + request.dur?;
    let of = |kind: CauseKind| tables.causes.iter().filter(move |cause| cause.kind == kind);
    // The first doorbell behind the issue, rung by the thread that issued it.
    let kick = of(CauseKind::Kick)
        .filter(|kick| kick.machine_id == GUEST && kick.ts >= issued && kick.ts <= done)
        .min_by_key(|kick| kick.ts)?;
    // The handler on the CPU of the completion that began last before it.
    let line = of(CauseKind::Line)
        .filter(|line| line.to_machine_id == GUEST && line.to_cpu == request.complete_cpu)
        .filter(|line| line.ts + line.dur <= done)
        .max_by_key(|line| line.ts + line.dur)?;
    // The interrupt that was injected there then.
    let injection = of(CauseKind::Injection).find(|injection| {
        injection.to_machine_id == GUEST
            && injection.ts + injection.dur == line.ts
            && injection.vector == line.vector
            && injection.id.is_some()
    })?;
    (kick.ts <= injection.ts).then_some(Path { kick, injection, line })
}

#[test]
fn every_disk_request_is_joined_from_doorbell_to_completion() {
    let (tables, _) = run_in("nested", &["host.dat", "guest.dat"]);
    let requests: Vec<&BlockIo> =
        tables.block_io.iter().filter(|request| request.machine_id == GUEST).collect();
    assert_eq!(requests.len(), 150);
    let mut evidence: BTreeMap<(&str, Evidence), usize> = BTreeMap::new();
    let mut lines: BTreeMap<(u32, i32, u64), usize> = BTreeMap::new();
    for request in &requests {
        let path = path(&tables, request).unwrap_or_else(|| panic!("{request:?}"));
        for cause in [path.kick, path.injection, path.line] {
            *evidence.entry((cause.kind.as_str(), cause.evidence)).or_default() += 1;
        }
        let line = path.line;
        *lines
            .entry((line.to_cpu.unwrap().0, line.vector.unwrap(), line.id.unwrap()))
            .or_default() += 1;
        // The stages are the request, to the tick.
        let cuts = [
            request.ts + request.issue_ns.unwrap(),
            path.kick.ts,
            path.injection.ts,
            path.line.ts,
            path.line.ts + path.line.dur,
            request.ts + request.dur.unwrap(),
        ];
        assert!(cuts.is_sorted(), "{cuts:?}");
    }
    let expected = [((0, 35, 25), 43), ((1, 36, 26), 107)];
    assert_eq!(lines, BTreeMap::from(expected), "vCPU, vector, line");
    let expected = [
        (("injection", Evidence::Id), 150),
        (("kick", Evidence::Context), 150),
        // The first of a vector, before its line is known.
        (("line", Evidence::Context), 6),
        (("line", Evidence::Id), 144),
    ];
    assert_eq!(evidence, BTreeMap::from(expected), "shares");
    let queues: Vec<_> = tables
        .queues
        .iter()
        .map(|q| {
            let message = (q.msi_address, q.msi_data);
            (q.queue.as_str(), q.doorbell, message, q.backend_tid, q.requests, q.agreement)
        })
        .collect();
    let expected = [
        ("virtio1-req.0", 0xfebf_b000, (0xfee0_0000, 35), Some(Tid(137)), 43, 1.0),
        ("virtio1-req.1", 0xfebf_b004, (0xfee0_1000, 36), Some(Tid(137)), 107, 1.0),
    ];
    assert_eq!(queues, expected);
    let known: Vec<_> = tables
        .irq_lines
        .iter()
        .map(|line| {
            (line.machine_id, line.cpu, line.vector, line.irq, line.name.as_str(), line.runs)
        })
        .collect();
    let vector = |cpu, vector, irq, name, runs| {
        (GUEST, Some(CpuId(cpu)), Some(vector), irq, name, Some(runs))
    };
    let expected = [
        (MachineId(0), None, None, 25, "virtio0-request", None),
        vector(0, 35, 25, "virtio1-req.0", 43),
        // The kernel's event has 15 bytes of a name.
        vector(0, 37, 28, "virtio0-virtque", 3),
        vector(1, 35, 4, "ttyS0", 82),
        vector(1, 36, 26, "virtio1-req.1", 107),
    ];
    assert_eq!(known, expected);
}

#[test]
fn kinds_and_evidence() {
    let (tables, _) = run_in("nested", &["host.dat", "guest.dat"]);
    let mut counts: BTreeMap<(u32, &str, Evidence), usize> = BTreeMap::new();
    for cause in &tables.causes {
        assert!(cause.dur >= 0, "{cause:?}");
        let is_within = cause.machine_id == cause.to_machine_id;
        assert!(is_within || cause.error_ns.is_some(), "{cause:?}");
        *counts.entry((cause.machine_id.0, cause.kind.as_str(), cause.evidence)).or_default() += 1;
    }
    let expected = [
        ((0, "fork", Evidence::Id), 17),
        ((0, "injection", Evidence::Id), 158),
        ((0, "injection", Evidence::Order), 3),
        ((0, "ipi", Evidence::Id), 869),
        ((0, "ipi", Evidence::Order), 44),
        ((0, "line", Evidence::Id), 223),
        ((0, "line", Evidence::Context), 12),
        ((0, "softirq", Evidence::Id), 3_003),
        ((0, "timer", Evidence::Id), 1_756),
        ((0, "timer", Evidence::Context), 135),
        ((0, "wakeup", Evidence::Id), 1_189),
        ((0, "wakeup", Evidence::Context), 3_307),
        ((1, "completion", Evidence::Context), 150),
        ((1, "fork", Evidence::Id), 9),
        ((1, "kick", Evidence::Context), 2_242),
        ((1, "softirq", Evidence::Id), 813),
        ((1, "timer", Evidence::Context), 51),
        ((1, "wakeup", Evidence::Id), 166),
        ((1, "wakeup", Evidence::Context), 302),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
}

/// What is told of causes in a story.
fn told(story: &str) -> Vec<String> {
    let (tables, _) = Story::parse(story).run();
    causes(&tables)
}

#[test]
fn softirqs_follow_their_first_raise() {
    let story = "
        host 0 1000 5 sched_switch 5 R 7
        host 0 1100 7 softirq_raise 4 in=task
        host 0 1150 7 irq_entry 35
        host 0 1160 7 softirq_raise 4
        host 0 1170 7 softirq_raise 3
        host 0 1180 7 irq_exit 35
        host 0 1200 7 softirq_entry 4
        host 0 1250 7 softirq_exit 4
        host 0 1300 7 softirq_entry 3
        host 0 1350 7 softirq_exit 3
        host 0 1400 7 softirq_entry 4
        host 0 1450 7 softirq_exit 4
        # An interrupt whose handler is not recorded, if the event tells and if it does not.
        host 0 1500 7 softirq_raise 1 in=irq
        host 0 1510 7 softirq_raise 9
        host 0 1520 7 softirq_entry 1
        host 0 1530 7 softirq_exit 1
        host 0 1540 7 softirq_entry 9
        host 0 1550 7 softirq_exit 9
        # From here on all handlers are known to be.
        host 0 1600 7 timer_entry
        host 0 1610 7 softirq_raise 1
        host 0 1620 7 timer_exit
        host 0 1630 7 softirq_entry 1
        host 0 1640 7 softirq_exit 1
        host 0 1700 7 softirq_raise 3
        host 0 1720 7 softirq_entry 3";
    assert_eq!(
        told(story),
        [
            "1100+100 softirq 0:7 → 0:- id=4 id/2",
            "1170+130 softirq 0:irq 35 → 0:- id=3 id/1",
            "1500+20 softirq 0:irq → 0:- id=1 id/1",
            "1510+30 softirq 0:? → 0:- id=9 id/1",
            "1610+20 softirq 0:irq 236 → 0:- id=1 id/1",
            "1700+20 softirq 0:7 → 0:- id=3 id/1",
        ]
    );
}

/// A hard interrupt on top of a softirq is about something else.
#[test]
fn what_is_done_belongs_to_its_handler() {
    let story = "
        host 0 1000 5 sched_switch 5 S 7
        host 0 1010 7 softirq_entry 3
        host 0 1020 7 net_receive eth0 60
        host 0 1030 7 irq_entry 35
        host 0 1040 7 block_complete R 16+8
        host 0 1050 7 irq_exit 35
        host 0 1055 7 net_packet 2 9
        host 0 1060 7 sched_waking 5 in=softirq
        host 0 1100 7 sched_switch 7 R 5
        host 0 1200 5 sched_switch 5 S 7
        host 0 1210 7 softirq_entry 1
        host 0 1220 7 irq_entry 35
        host 0 1230 7 block_complete R 24+8
        host 0 1240 7 irq_exit 35
        host 0 1250 7 sched_waking 5 in=softirq
        host 0 1260 7 softirq_exit 1
        host 0 1300 7 sched_switch 7 R 5";
    assert_eq!(
        told(story),
        [
            "1020+40 packet 0:softirq 3 → 0:5 id=8589934601 context/1",
            "1250+0 timer 0:softirq 1 → 0:5 context/1",
        ]
    );
}

#[test]
fn wakes_in_interrupts_say_what_they_are_about() {
    let story = "
        host 0 1000 5 sched_switch 5 S 7
        # A request that is done, and one before the handler began.
        host 0 1050 7 block_complete R 8+8
        host 0 1100 7 irq_entry 35
        host 0 1110 7 block_complete R 16+8
        host 0 1120 7 sched_waking 5 in=irq
        host 0 1130 7 irq_exit 35
        host 0 1200 7 sched_switch 7 R 5
        host 0 1300 5 sched_switch 5 S 7
        host 0 1310 7 irq_entry 36
        host 0 1320 7 sched_waking 5 in=irq
        host 0 1330 7 irq_exit 36
        host 0 1400 7 sched_switch 7 R 5
        host 0 1500 5 sched_switch 5 S 7
        host 0 1510 7 timer_entry
        host 0 1520 7 sched_waking 5 in=irq
        host 0 1530 7 timer_exit
        host 0 1600 7 sched_switch 7 R 5
        host 0 1700 5 sched_switch 5 S 7
        host 0 1710 7 softirq_entry 3
        host 0 1715 7 net_receive eth0 60
        host 0 1716 7 net_packet 2 9
        host 0 1720 7 sched_waking 5 in=softirq
        host 0 1730 7 softirq_exit 3
        host 0 1800 7 sched_switch 7 R 5
        host 0 1900 5 sched_switch 5 S 7
        host 0 1910 7 reschedule_entry
        host 0 1920 7 sched_waking 5 in=irq
        host 0 2000 7 sched_switch 7 R 5";
    assert_eq!(
        told(story),
        [
            "1110+10 completion 0:irq 35 → 0:5 id=16 context/1",
            "1520+0 timer 0:irq 236 → 0:5 context/1",
            "1715+5 packet 0:softirq 3 → 0:5 id=8589934601 context/1",
            "1920+0 ipi 0:irq 253 → 0:5 context/1",
        ]
    );
}

#[test]
fn work_goes_by_its_number() {
    let story = "
        host 0 1000 7 work_queue 77 9 in=task
        host 0 1100 7 work_queue 78 9 in=softirq
        host 1 1200 30 work_start 78 9
        host 1 1300 30 work_end 78 9
        host 1 1400 31 work_start 77 9
        host 1 1500 31 work_end 77 9
        host 1 1600 31 work_start 77 9";
    assert_eq!(
        told(story),
        ["1100+100 work 0:softirq → 0:30 id=78 id/1", "1000+400 work 0:7 → 0:31 id=77 id/1"]
    );
}

/// A guest's kick is what its vCPU's thread does for it, up to the next entry.
#[test]
fn kicks_end_with_their_exit() {
    let story = "
        vm web vcpu=0 tid=162
        host 0 800 162 other
        host 1 850 7 sched_waking 300 in=task
        web 0 900 42 sched_switch 41 R 42
        host 0 1000 162 kvm_entry vcpu=0
        host 0 1100 162 kvm_exit npf vcpu=0
        host 0 1110 162 kvm_mmio 4096
        host 0 1120 162 sched_waking 200 cpu=1 in=task
        host 0 1130 162 sched_waking 201 cpu=1 in=task
        host 0 1200 162 kvm_entry vcpu=0
        # Nobody waits for this one.
        host 0 1300 162 kvm_exit npf vcpu=0
        host 0 1310 162 kvm_fast_mmio gpa=8192
        host 0 1320 162 sched_waking 201 cpu=1 in=irq
        host 0 1400 162 kvm_entry vcpu=0
        # The VMM does it itself.
        host 0 1500 162 kvm_exit io vcpu=0
        host 0 1510 162 kvm_pio 1016
        host 0 1520 162 kvm_userspace_exit
        host 0 1600 162 kvm_entry vcpu=0
        web 0 1700 42 other";
    let port = 1_u64 << 63 | 1016;
    assert_eq!(
        told(story),
        [
            "1110+10 kick 1:42 → 0:200 id=4096 context/1".to_owned(),
            "1310+90 kick 1:42 → 0:- id=8192 context/0".to_owned(),
            format!("1510+10 kick 1:42 → 0:162 id={port} context/1"),
        ]
    );
}

/// A message, its acceptance, its injection and the guest's handler; and what differs.
#[test]
fn interrupts_go_into_a_guest() {
    let story = "
        vm web vcpu=0 tid=162
        host 0 800 162 other
        web 0 900 42 sched_switch 41 R 42
        host 0 1000 162 kvm_entry vcpu=0
        host 1 1100 200 kvm_msi 4276092928 35
        host 1 1101 200 kvm_accept 35 vcpu=0 in=task
        host 0 1200 162 kvm_exit intr vcpu=0
        host 0 1210 162 kvm_inj_virq 35
        host 0 1220 162 kvm_entry vcpu=0
        web 0 1300 42 irq_entry 24
        web 0 1310 42 irq_exit 24
        # Two come before one is injected; the second is no message, but another event is between.
        host 1 1400 200 kvm_msi 4276092928 35
        host 1 1401 200 kvm_accept 35 vcpu=0 in=task
        host 1 1410 200 kvm_msi 4276092928 36
        host 1 1411 200 other
        host 1 1412 200 kvm_accept 35 vcpu=0 in=task
        host 0 1500 162 kvm_exit intr vcpu=0
        host 0 1510 162 kvm_inj_virq 35
        host 0 1515 162 kvm_inj_virq 35 again
        host 0 1520 162 kvm_entry vcpu=0
        web 0 1600 42 irq_entry 24
        web 0 1610 42 irq_exit 24
        # A timer of its own, which runs no line; and one that the CPU delivers.
        host 0 1700 162 kvm_exit intr vcpu=0
        host 0 1705 162 kvm_accept 236 vcpu=0 in=task
        host 0 1710 162 kvm_inj_virq 236
        host 0 1720 162 kvm_entry vcpu=0
        web 0 1750 42 timer_entry
        web 0 1760 42 timer_exit
        host 1 1800 200 kvm_msi 4276092928 35
        host 1 1801 200 kvm_accept 35 vcpu=0 hardware in=task
        web 0 1850 42 irq_entry 24
        web 0 1860 42 irq_exit 24
        # Two that the CPU delivers as one.
        host 1 1870 201 kvm_accept 35 vcpu=0 hardware in=task
        host 1 1875 201 kvm_accept 35 vcpu=0 hardware in=irq
        web 0 1880 42 irq_entry 24
        web 0 1890 42 irq_exit 24
        # Nothing was injected for this one.
        web 0 1900 42 irq_entry 25
        host 0 2000 162 other";
    let message = 4_276_092_928_u64 << 32 | 35;
    assert_eq!(
        told(story),
        [
            format!("1101+109 injection 0:200 → 1:vcpu0 id={message} id/1"),
            "1210+90 line 0:162 → 1:- id=24 context/1".to_owned(),
            format!("1401+109 injection 0:200 → 1:vcpu0 id={message} order/2"),
            "1510+90 line 0:162 → 1:- id=24 context/1".to_owned(),
            "1705+5 timer 0:162 → 1:vcpu0 id/1".to_owned(),
            "1710+40 line 0:162 → 1:- id/1".to_owned(),
            format!("1801+0 injection 0:200 → 1:vcpu0 id={message} id/1"),
            "1801+49 line 0:200 → 1:- id=24 context/1".to_owned(),
            "1870+0 injection 0:201 → 1:vcpu0 id/1".to_owned(),
            "1875+0 injection 0:irq 35 → 1:vcpu0 id/1".to_owned(),
            "1870+10 line 0:201 → 1:- id=24 order/2".to_owned(),
        ]
    );
    let (tables, _) = Story::parse(story).run();
    let lines: Vec<_> = tables.irq_lines.iter().map(|l| (l.vector, l.irq, l.runs)).collect();
    assert_eq!(lines, [(Some(35), 24, Some(4))]);
}

/// An interrupt that hits a vCPU's thread of one VM and is for another.
#[test]
fn interrupts_send_in_nobodys_name() {
    let story = "
        vm web vcpu=0 tid=162
        vm db vcpu=1 tid=172
        host 0 800 162 other
        host 1 810 172 other
        host 0 1000 162 kvm_exit intr vcpu=0
        host 0 1100 162 kvm_accept 35 vcpu=1 in=irq
        host 1 1200 172 kvm_exit intr vcpu=1
        host 1 1210 172 kvm_inj_virq 35
        # The thread's own is for its VM, which has no such vCPU; and a mode without a vector.
        host 0 1300 162 kvm_accept 36 vcpu=1 in=task
        host 0 1310 162 kvm_accept 37 vcpu=1 mode=4 in=irq
        host 1 1400 172 kvm_inj_virq 36
        host 1 1410 172 kvm_inj_virq 37";
    assert_eq!(told(story), ["1100+110 injection 0:irq 35 → 2:vcpu1 id/1"]);
}

#[test]
fn packets_go_from_machine_to_machine() {
    let story = "
        vm web vcpu=0 tid=162
        vm db vcpu=0 tid=172
        host 0 800 162 other
        web 0 1001 42 net_packet 2 9 sent
        web 0 1002 42 net_xmit eth0 60
        host 0 1100 7 net_receive tap0 60
        host 0 1101 7 net_packet 2 9
        host 0 1201 7 net_packet 2 9 sent
        host 0 1202 7 net_xmit eth0 60
        host 0 1300 7 net_receive eth1 60
        host 0 1301 7 net_packet 3 9
        # It goes on to another guest: from who sent it on.
        db 0 1400 52 net_packet 2 9
        host 0 1500 7 other";
    assert_eq!(
        told(story),
        [
            "1001+100 packet 1:? → 0:- id=8589934601 id/1",
            "1201+199 packet 0:? → 2:- id=8589934601 id/1",
        ]
    );
}

/// Acknowledgements of one state are alike: they come in the order in which they were sent.
#[test]
fn packets_that_are_alike_keep_their_order() {
    let story = "
        vm web vcpu=0 tid=162
        host 0 800 162 other
        web 0 900 42 timer_entry
        web 0 910 42 timer_exit
        web 0 1001 42 net_packet 2 9 sent skb=1
        # The same on its way through a device stacked on another.
        web 0 1002 42 net_packet 2 9 sent skb=1
        web 0 1010 42 net_packet 2 9 sent skb=2
        web 0 1020 43 net_packet 2 9 sent skb=3
        host 0 1101 7 net_packet 2 9
        host 0 1102 7 net_packet 2 9
        host 0 1103 7 net_packet 2 9
        host 0 1104 7 net_packet 2 9";
    assert_eq!(
        told(story),
        [
            "1002+99 packet 1:42 → 0:- id=8589934601 order/3",
            "1010+92 packet 1:42 → 0:- id=8589934601 order/2",
            "1020+83 packet 1:43 → 0:- id=8589934601 id/1",
        ]
    );
}

#[test]
fn waits_for_locks_quotas_and_memory() {
    let story = "
        host 0 1000 7 lock_begin 50 flags=33 owner=9
        host 0 1010 7 lock_begin 50 flags=32
        host 0 1100 7 lock_end 50
        host 0 1200 7 lock_begin 51 flags=2
        host 0 1210 7 lock_end 51 ret=-4
        host 0 1300 7 reclaim memcg
        host 0 1400 7 reclaimed 32 memcg
        host 0 1500 7 throttle 4711
        host 1 1900 0 unthrottle 4711 cpu=0
        host 0 2000 7 reclaim
        host 0 2100 7 other";
    let (tables, _) = Story::parse(story).run();
    let locks: Vec<_> = tables
        .locks
        .iter()
        .map(|l| (l.ts, l.dur, l.lock, l.kind.as_str(), l.owner_tid.map(|tid| tid.0)))
        .collect();
    assert_eq!(
        locks,
        [(1000, Some(100), 50, "mutex", Some(9)), (1200, Some(10), 51, "rwsem_read", None)]
    );
    assert_eq!(causes(&tables), ["1100+0 lock 0:9 → 0:7 id=50 context/1"]);
    let throttles: Vec<_> = tables.throttles.iter().map(|t| (t.ts, t.dur, t.cgroup_id)).collect();
    assert_eq!(throttles, [(1500, Some(400), 4711)]);
    let reclaims: Vec<_> =
        tables.reclaims.iter().map(|r| (r.ts, r.dur, r.cgroup, r.pages)).collect();
    assert_eq!(reclaims, [(1300, Some(100), true, Some(32)), (2000, None, false, None)]);
}

/// Who has got the lock since a wait began is whom it is for; of readers, nobody.
#[test]
fn a_locks_last_owner_is_whom_a_wait_is_for() {
    let story = "
        host 0 1000 7 lock_begin 50 flags=32 owner=9
        host 1 1010 8 lock_begin 50 flags=32 owner=9
        host 2 1020 10 lock_begin 51 flags=32 owner=9
        host 0 1100 7 lock_end 50
        host 1 1200 8 lock_end 50
        host 2 1300 10 lock_end 51
        host 0 2000 7 lock_begin 60 flags=2 owner=9
        host 1 2010 8 lock_begin 60 flags=4 owner=9
        host 0 2100 7 lock_end 60
        host 1 2200 8 lock_end 60
        # One that says it again.
        host 0 3000 7 lock_begin 50 flags=33 owner=9
        host 0 3010 7 lock_begin 50 flags=32 owner=8
        host 0 3100 7 lock_end 50";
    let (tables, _) = Story::parse(story).run();
    let owners: Vec<_> =
        tables.locks.iter().map(|l| (l.ts, l.tid.0, l.owner_tid.map(|tid| tid.0))).collect();
    assert_eq!(
        owners,
        [
            (1000, 7, Some(9)),
            (1010, 8, Some(7)),
            (1020, 10, Some(9)),
            (2000, 7, Some(9)),
            (2010, 8, None),
            (3000, 7, Some(8)),
        ]
    );
}

/// Behind a hole no effect is joined with what was before it; and a wait that may have ended in it has
/// no end.
#[test]
fn holes_are_not_bridged() {
    let story = "
        vm web vcpu=0 tid=162
        host 0 1000 7 softirq_raise 4
        host 0 1010 7 work_queue 77 9
        host 0 1020 7 lock_begin 50 flags=32 owner=9
        host 0 1030 7 throttle 4711
        host 0 1040 162 kvm_accept 35 vcpu=0
        host 0 lost count=3
        host 0 2000 7 softirq_entry 4
        host 0 2010 7 work_start 77 9
        host 0 2020 7 lock_end 50
        host 0 2030 7 unthrottle 4711
        host 0 2040 162 kvm_inj_virq 35";
    let (tables, _) = Story::parse(story).run();
    assert_eq!(causes(&tables), Vec::<String>::new());
    assert_eq!(tables.locks.iter().map(|l| l.dur).collect::<Vec<_>>(), [None]);
    assert_eq!(tables.throttles.iter().map(|t| t.dur).collect::<Vec<_>>(), [None]);
}

/// While events of one CPU are missing, what others do is known within themselves only: the item that is
/// queued here may have begun unseen, and been queued by another.
#[test]
fn nothing_is_remembered_while_a_hole_lasts() {
    let story = "
        host 0 1000 7 other
        host 1 1010 8 other
        host 0 lost count=3
        host 1 1500 8 work_queue 77 9 in=task
        host 1 1600 8 softirq_raise 4 in=task
        host 1 1700 8 softirq_entry 4
        host 1 1710 8 softirq_exit 4
        host 0 2000 7 other
        host 1 2100 9 work_start 77 9
        host 1 2200 8 work_queue 78 9 in=task
        host 0 2300 7 work_start 78 9";
    assert_eq!(
        told(story),
        ["1600+100 softirq 0:8 → 0:- id=4 id/1", "2200+100 work 0:8 → 0:7 id=78 id/1"]
    );
}
