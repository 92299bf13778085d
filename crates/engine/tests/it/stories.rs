//! Small stories with the rows they must give: the specification of the states, by example.

use crate::dsl::{Story, exits, slices, thread_states, vcpu_states, wakeups};
use transect_engine::{
    Engine, Input, LostCause, LostEvents, MachineGap, Options, StreamKey,
    topology::{MachineInfo, ThreadInfo, VcpuInfo},
    unfinished::Unfinished,
};
use transect_model::{
    ids::{CpuId, MachineId, Tid, VcpuId},
    setting::ThreadSettings,
    table::Tables,
    time::Timestamp,
};

/// A vCPU from guest mode through a halt and back, with someone else on its CPU in between.
#[test]
fn halt_wake_and_contention() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 7 1000 0 sched_switch 0 R 0
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_exit msr vcpu=0
         host 0 1150 162 kvm_entry vcpu=0
         host 0 1400 162 kvm_exit hlt vcpu=0
         host 0 1450 162 sched_switch 162 S 7
         host 0 1500 7 sched_waking 162 cpu=0
         host 0 1510 7 sched_wakeup 162 cpu=0
         host 0 1600 7 sched_switch 7 R 8
         host 0 1700 8 sched_switch 8 S 162
         host 0 1710 162 kvm_vcpu_wakeup wait ns=300
         host 0 1800 162 kvm_entry vcpu=0
         host 0 2000 162 kvm_exit intr vcpu=0",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        [
            "1000+100 guest c0",
            "1100+50 exit:msr c0",
            "1150+250 guest c0",
            "1400+10 exit:hlt c0",
            "1410+40 running c0",
            "1450+50 halted:hlt c0",
            "1500+100 waking c0 by 0/7",
            "1600+100 waking c0 by 0/8",
            "1700+100 exit:hlt c0",
            "1800+200 guest c0",
        ]
    );
    assert_eq!(
        exits(&tables),
        ["1100+50 msr handling=50", "1400+400 hlt handling=150", "2000+- interrupt handling=-"]
    );
    assert_eq!(wakeups(&tables), ["1500+200 162 by 7 on c0"]);
    assert_eq!(
        slices(&tables, 0, 0),
        ["1000+450 162 vm1/0", "1450+150 7", "1600+100 8", "1700+300 162 vm1/0"]
    );
    assert_eq!(
        thread_states(&tables, 0, 162),
        ["1000+450 running", "1450+50 blocked S", "1500+200 runnable by 7", "1700+300 running"]
    );
}

/// Preempted: the blame goes to whoever really has the CPU, and follows a migration.
#[test]
fn preemption_is_blamed_on_each_occupant_in_turn() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         vm batch vcpu=0 tid=200
         host 0 1000 162 kvm_entry vcpu=0
         host 1 1000 9 sched_switch 9 S 0
         host 0 1200 162 kvm_exit intr vcpu=0
         host 0 1250 162 sched_switch 162 R 200
         host 0 1300 200 sched_switch 200 R 7
         host 0 1400 7 sched_migrate_task 162 cpu=1
         host 1 1450 0 sched_switch 0 R 11
         host 1 1500 11 sched_switch 11 S 162
         host 1 1600 162 kvm_entry vcpu=0
         host 1 1700 162 kvm_exit npf vcpu=0",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        [
            "1000+200 guest c0",
            "1200+50 exit:interrupt c0",
            "1250+50 preempted c0 by 2/200",
            "1300+100 preempted c0 by 0/7",
            "1400+50 preempted c1 by 0/0",
            "1450+50 preempted c1 by 0/11",
            "1500+100 exit:interrupt c1",
            "1600+100 guest c1",
        ]
    );
    assert_eq!(exits(&tables)[0], "1200+400 interrupt handling=150");
}

/// SVM traces `kvm_exit` late: the switch-out ends guest mode, the reason is filled in.
#[test]
fn exit_traced_after_preemption() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 7 1000 0 sched_switch 0 R 0
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1200 162 sched_switch 162 R 7
         host 0 1300 7 sched_switch 7 S 162
         host 0 1310 162 kvm_exit intr vcpu=0
         host 0 1330 162 kvm_entry vcpu=0",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        [
            // Nothing proves yet that exits are recorded.
            "1000+200 running c0",
            "1200+100 preempted c0 by 0/7",
            "1300+30 exit:interrupt c0"
        ]
    );
}

/// A return to the VMM is `user` until the next entry, and sleeping there is not halting.
#[test]
fn userspace_exit_and_blocking_in_the_vmm() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 7 1000 0 sched_switch 0 R 0
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_exit io vcpu=0
         host 0 1110 162 kvm_pio 1016
         host 0 1120 162 kvm_userspace_exit
         host 0 1200 162 sched_switch 162 D 0
         host 0 1300 0 sched_waking 162 cpu=0
         host 0 1350 0 sched_switch 0 R 162
         host 0 1400 162 kvm_entry vcpu=0
         host 0 1500 162 kvm_exit hypercall vcpu=0
         host 0 1510 162 kvm_hypercall 1000",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        [
            "1000+100 guest c0",
            "1100+20 exit:io c0",
            "1120+80 user:io c0",
            "1200+100 blocked c0",
            "1300+50 waking c0 by 0/0",
            "1350+50 user:io c0",
            "1400+100 guest c0",
            "1500+10 exit:hypercall c0",
        ]
    );
    assert_eq!(
        exits(&tables),
        ["1100+300 io handling=150 user detail=1016", "1500+- hypercall handling=- detail=1000"]
    );
    assert_eq!(tables.windows.iter().find(|w| w.vcpu.is_some()).unwrap().io_count, 1);
}

/// `kvm_vcpu_wakeup` tells how long the halt polled, `kvm_halt_poll_ns` the window before and after it.
#[test]
fn halt_polling() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 7 1000 0 sched_switch 0 R 0
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_exit hlt vcpu=0
         host 0 1200 162 kvm_vcpu_wakeup poll ns=60
         host 0 1210 162 kvm_entry vcpu=0
         host 0 1300 162 kvm_exit hlt vcpu=0
         host 0 1400 162 sched_switch 162 S 0
         host 0 1500 0 sched_waking 162 cpu=0
         host 0 1510 0 sched_switch 0 R 162
         host 0 1515 162 kvm_halt_poll_ns new=70 old=50
         host 0 1520 162 kvm_vcpu_wakeup wait ns=200
         host 0 1530 162 kvm_entry vcpu=0
         host 0 1600 162 kvm_exit hlt vcpu=0
         host 0 1700 162 sched_switch 162 S 0
         host 0 1800 0 sched_waking 162 cpu=0
         host 0 1810 0 sched_switch 0 R 162
         host 0 1820 162 kvm_vcpu_wakeup wait ns=200
         host 0 1830 162 kvm_entry vcpu=0",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        [
            "1000+100 guest c0",
            "1100+40 exit:hlt c0",
            "1140+60 halt_poll:hlt c0",
            "1200+10 exit:hlt c0",
            "1210+90 guest c0",
            "1300+20 exit:hlt c0",
            "1320+50 halt_poll:hlt c0",
            "1370+30 exit:hlt c0",
            "1400+100 halted:hlt c0",
            "1500+10 waking c0 by 0/0",
            "1510+20 exit:hlt c0",
            "1530+70 guest c0",
            "1600+20 exit:hlt c0",
            "1620+70 halt_poll:hlt c0",
            "1690+10 exit:hlt c0",
            "1700+100 halted:hlt c0",
            "1800+10 waking c0 by 0/0",
            "1810+20 exit:hlt c0",
        ]
    );
}

/// A halt interrupted by a signal goes on after a round through user space: still a halt.
#[test]
fn halt_resumed_after_userspace() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 7 1000 0 sched_switch 0 R 0
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_exit hlt vcpu=0
         host 0 1110 162 kvm_userspace_exit
         host 0 1200 162 sched_switch 162 S 0
         host 0 1300 0 sched_waking 162 cpu=0
         host 0 1310 0 sched_switch 0 R 162
         host 0 1320 162 kvm_vcpu_wakeup wait ns=125
         host 0 1330 162 kvm_entry vcpu=0",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0)[2..],
        [
            "1110+85 user:hlt c0",
            // How far polling reached is not known.
            "1195+5 running c0",
            "1200+100 halted:hlt c0",
            "1300+10 waking c0 by 0/0",
            "1310+20 user:hlt c0",
        ]
    );
}

/// The first event tells the time before it: an exit means guest mode, a waking means asleep.
#[test]
fn the_time_before_the_first_event() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         vm web vcpu=1 tid=163
         host 0 1000 9 sched_switch 9 S 0
         host 1 1200 162 kvm_exit msr vcpu=0
         host 1 1210 162 kvm_entry vcpu=0
         host 0 1300 0 sched_waking 163 cpu=0
         host 0 1310 0 sched_switch 0 R 163
         host 0 1320 163 kvm_vcpu_wakeup wait ns=5000
         host 0 1330 163 kvm_entry vcpu=1",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        ["1000+200 guest c1", "1200+10 exit:msr c1", "1210+120 guest c1"]
    );
    assert_eq!(
        vcpu_states(&tables, 1, 1),
        ["1000+300 halted", "1300+10 waking c0 by 0/0", "1310+20 running c0"]
    );
}

/// Without `kvm_entry` in the recording an exit says nothing about guest mode.
#[test]
fn exits_only() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 9 sched_switch 9 S 162
         host 0 1100 162 kvm_exit msr vcpu=0
         host 0 1200 162 kvm_exit msr vcpu=0
         host 0 1300 162 kvm_exit msr vcpu=0
         host 0 1400 162 sched_switch 162 R 9",
    )
    .run();
    let states = vcpu_states(&tables, 1, 0);
    assert_eq!(states[0], "1000+400 running c0");
    assert_eq!(exits(&tables).len(), 3);
    assert!(exits(&tables).iter().all(|e| e.contains("+- msr")));
}

/// Without KVM events a vCPU on a CPU is `running`: not known in guest mode.
#[test]
fn scheduler_only() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 9 sched_switch 9 S 162
         host 0 1100 162 sched_switch 162 R 9
         host 0 1200 9 sched_switch 9 S 162
         host 0 1300 162 sched_switch 162 S 0
         host 0 1400 0 sched_waking 162 cpu=0
         host 0 1500 0 other",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        [
            "1000+100 running c0",
            "1100+100 preempted c0 by 0/9",
            "1200+100 running c0",
            "1300+100 blocked c0",
            "1400+100 waking c0 by 0/0",
        ]
    );
    let window = tables.windows.iter().find(|w| w.vcpu.is_some()).unwrap();
    assert_eq!(
        (window.gotten_ns, window.waited_ns, window.blocked_ns, window.executions),
        (200, 200, 100, 2)
    );
    assert_eq!(window.allocated_avg_ns, Some(100));
}

/// Without scheduler events a thread may be switched out at any time, so no state lasts. The exits
/// themselves are known.
#[test]
fn kvm_without_scheduler_leaves_states_unknown() {
    let (tables, _) = Story::parse(
        "host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_exit hlt vcpu=0
         host 1 1500 162 kvm_vcpu_wakeup wait ns=350
         host 1 1510 162 kvm_entry vcpu=0
         host 1 1600 162 kvm_exit msr vcpu=0",
    )
    .run();
    assert_eq!(vcpu_states(&tables, 1, 0), ["1000+510 unknown", "1510+90 unknown"]);
    assert_eq!(exits(&tables), ["1100+410 hlt handling=-", "1600+- msr handling=-"]);
    assert_eq!(tables.machines[1].name, "vm-162");
    assert!(tables.import_log.iter().any(|l| l.message.contains("inferred")));
}

/// Lost events make `unknown` for everything they can hide, and nothing for what they cannot.
#[test]
fn lost_events() {
    let (tables, summary) = Story::parse(
        "vm web vcpu=0 tid=162
         vm web vcpu=1 tid=163
         host 7 1000 0 sched_switch 0 R 0
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1010 162 kvm_exit msr vcpu=0
         host 0 1020 162 sched_switch 162 S 0
         host 1 1000 163 kvm_entry vcpu=1
         host 1 1050 163 sched_switch 163 R 7
         host 1 1060 7 sched_switch 7 S 163
         host 1 1070 163 kvm_exit msr vcpu=1
         host 1 1080 163 kvm_entry vcpu=1
         host 0 lost count=17
         host 0 1200 0 sched_switch 0 R 9
         host 0 1300 9 sched_waking 162 cpu=0
         host 0 1310 9 sched_switch 9 S 162
         host 0 1400 162 kvm_entry vcpu=0
         host 1 1500 163 kvm_exit msr vcpu=1",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0)[2..],
        [
            "1020+180 unknown",
            "1200+100 blocked",
            "1300+10 waking c0 by 0/9",
            "1310+90 running c0",
            "1400+100 guest c0",
        ]
    );
    // vCPU 1 was on the other CPU all the time: the hole cannot concern it.
    assert_eq!(vcpu_states(&tables, 1, 1).last().unwrap(), "1080+420 guest c1");
    assert_eq!(
        slices(&tables, 0, 0),
        ["1000+20 162 vm1/0", "1020+180 unknown", "1200+110 9", "1310+190 162 vm1/0"]
    );
    assert_eq!((summary.holes, summary.lost_events), (1, 17));
    let lost = &tables.lost[0];
    assert_eq!((lost.ts, lost.dur, lost.count), (1020, 180, Some(17)));
    // The exit before the hole has no known end.
    assert_eq!(exits(&tables)[0], "1010+- msr handling=-");
}

/// What a guest thread believes to be running is split by where its vCPU really was.
#[test]
fn effective_time_of_a_guest_thread() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 9 sched_switch 9 S 162
         host 0 1010 162 kvm_entry vcpu=0
         web 0 1020 0 sched_switch 0 R 42
         host 0 1100 162 kvm_exit intr vcpu=0
         host 0 1110 162 sched_switch 162 R 9
         host 0 1300 9 sched_switch 9 S 162
         host 0 1320 162 kvm_entry vcpu=0
         web 0 1400 42 sched_switch 42 S 0
         host 0 1410 162 kvm_exit hlt vcpu=0
         host 0 1420 162 sched_switch 162 S 0",
    )
    .run();
    assert_eq!(
        thread_states(&tables, 1, 42),
        [
            "1020+80 running/running",
            "1100+10 running/exit_handling",
            "1110+190 running/vcpu_preempted",
            "1300+20 running/exit_handling",
            "1320+80 running/running",
            "1400+20 unknown",
        ]
    );
    let check = &tables.clock_check[0];
    assert_eq!((check.tested, check.inside, check.outside), (2, 2, 0));
    assert_eq!((check.slack_earlier_ns, check.slack_later_ns), (10, 10));
}

/// A vCPU whose thread is created during the recording, and one whose thread exits.
#[test]
fn offline_before_birth_and_after_death() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 9 sched_switch 9 S 100
         host 0 1100 100 sched_process_fork 100 162
         host 0 1110 100 sched_wakeup_new 162 cpu=0
         host 0 1200 100 sched_switch 100 S 162
         host 0 1300 162 kvm_entry vcpu=0
         host 0 1400 162 kvm_exit msr vcpu=0
         host 0 1500 162 sched_switch 162 X 0
         host 0 1600 0 other",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        [
            "1000+100 offline",
            "1100+100 waking c0 by 0/100",
            "1200+100 running c0",
            "1300+100 guest c0",
            "1400+100 exit:msr c0",
            "1500+100 offline",
        ]
    );
    assert_eq!(thread_states(&tables, 0, 162), ["1100+100 runnable", "1200+300 running"]);
}

/// A waking that hits a thread on its way out makes it runnable at the switch.
#[test]
fn woken_on_the_way_out() {
    let (tables, _) = Story::parse(
        "host 0 1000 9 sched_switch 9 S 42
         host 1 1050 7 sched_waking 42 cpu=0
         host 0 1060 42 sched_switch 42 S 0
         host 1 1070 7 sched_wakeup 42 cpu=0
         host 0 1100 0 sched_switch 0 R 42
         host 1 1150 7 sched_waking 42 cpu=0
         host 1 1160 7 sched_wakeup 42 cpu=0
         host 0 1200 42 sched_switch 42 S 0
         host 0 1300 0 other",
    )
    .run();
    assert_eq!(
        thread_states(&tables, 0, 42),
        ["1000+60 running", "1060+40 runnable by 7", "1100+100 running", "1200+100 blocked S"]
    );
    assert_eq!(wakeups(&tables), ["1050+50 42 by 7 on c0"]);
}

/// Interrupts, softirqs and system calls.
#[test]
fn handlers_and_calls() {
    let (tables, _) = Story::parse(
        "host 0 1000 9 sched_switch 9 S 42
         host 0 1010 42 sys_enter 1
         host 0 1020 42 softirq_entry 3
         host 0 1030 42 irq_entry 25
         host 0 1040 42 irq_exit 25
         host 0 1050 42 softirq_exit 3
         host 0 1060 42 sys_exit 1 -11
         host 0 1070 42 sys_enter 231
         host 0 1080 42 sched_switch 42 X 0",
    )
    .run();
    let irqs: Vec<_> = tables.irqs.iter().map(|r| (r.ts, r.dur, r.softirq, r.vector)).collect();
    assert_eq!(irqs, [(1030, 10, false, 25), (1020, 30, true, 3)]);
    let calls: Vec<_> = tables.syscalls.iter().map(|r| (r.ts, r.dur, r.nr, r.ret)).collect();
    assert_eq!(calls, [(1010, Some(50), 1, Some(-11)), (1070, None, 231, None)]);
}

/// A thread other than the process's first calls exec: it goes on under the first one's number.
#[test]
fn exec_of_another_thread() {
    let (tables, _) = Story::parse(
        "host 0 1000 9 sched_switch 9 S 43
         host 0 1100 42 sched_process_exec 42 43
         host 0 1200 42 sched_switch 42 S 0",
    )
    .run();
    assert_eq!(slices(&tables, 0, 0), ["1000+100 43", "1100+100 42"]);
    assert_eq!(thread_states(&tables, 0, 43), ["1000+100 running"]);
}

/// Damaged stamps that jump far ahead are a hole, not centuries; the stream goes on behind it.
#[test]
fn damaged_stamps() {
    let (tables, summary) = Story::parse(
        "host 0 1000 9 sched_switch 9 S 42
         host 0 1100 42 other
         host 0 900000000000000 42 other
         host 0 900000000000100 42 sched_switch 42 S 9
         host 0 1300 42 other
         host 0 1400 42 sched_switch 42 S 0
         host 0 1500 0 other",
    )
    .run();
    let span = summary.span.unwrap();
    assert_eq!((span.start.get(), span.end.get()), (1000, 1500));
    assert_eq!(
        slices(&tables, 0, 0),
        ["1000+100 42", "1100+200 unknown", "1300+100 42", "1400+100 idle"]
    );
    let lost = &tables.lost[0];
    assert_eq!((lost.ts, lost.dur, lost.count, &*lost.cause), (1100, 200, Some(2), "corrupt_page"));
    assert!(tables.import_log[0].message.contains("2 events had invalid timestamps"));
}

/// A clock that steps back keeps the order of its stream, and that is told.
#[test]
fn stamps_that_go_back() {
    let (tables, _) = Story::parse(
        "host 0 1000 9 sched_switch 9 S 42
         host 0 1100 42 sched_switch 42 S 0
         host 0 1050 0 sched_switch 0 R 43
         host 0 1200 43 other",
    )
    .run();
    assert_eq!(slices(&tables, 0, 0), ["1000+100 42", "1100+100 43"]);
    assert!(tables.import_log[0].message.contains("1 timestamps went backwards, by up to 50 ns"));
}

/// While a guest's channel is down nothing is known inside it; the host's view goes on.
#[test]
fn guest_gap() {
    let story = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 0 sched_switch 0 R 162
         host 0 1000 162 kvm_entry vcpu=0
         web 0 1010 0 sched_switch 0 R 42
         web 0 1400 42 sched_switch 42 S 43
         web 0 1500 43 sched_switch 43 S 0
         host 0 1600 162 kvm_exit hlt vcpu=0",
    );
    let gap = MachineGap {
        machine: MachineId(1),
        from: Timestamp::new(1100),
        until: Some(Timestamp::new(1300)),
        cause: LostCause::GuestDisconnected,
    };
    let mut tables = Tables::default();
    let engine = Engine::new(story.topology.clone(), Options::default()).with_gaps([gap]);
    engine.run(story.inputs(), &mut tables).unwrap();
    assert_eq!(
        thread_states(&tables, 1, 42),
        [
            "1010+90 running/running",
            "1100+200 unknown",
            "1300+100 running/running",
            "1400+200 unknown",
        ]
    );
    assert_eq!(vcpu_states(&tables, 1, 0), ["1000+600 guest c0"]);
    let lost = &tables.lost[0];
    assert_eq!((lost.ts, lost.dur, lost.cpu), (1100, 200, None));
    assert_eq!(lost.cause, "guest_disconnected");
}

/// Losses that the kernel counted and no stream shows are told with the whole span.
#[test]
fn losses_without_a_place() {
    let story = Story::parse(
        "host 0 1000 9 sched_switch 9 S 42
         host 0 lost count=5
         host 0 1200 42 sched_switch 42 S 0",
    );
    let key = StreamKey { machine: MachineId(0), cpu: CpuId(0) };
    let mut tables = Tables::default();
    let engine = Engine::new(story.topology.clone(), Options::default());
    let summary = engine.with_lost_counts([(key, 12)]).run(story.inputs(), &mut tables).unwrap();
    assert_eq!(summary.lost_events, 12);
    let lost: Vec<_> = tables.lost.iter().map(|l| (l.ts, l.dur, l.count)).collect();
    assert_eq!(lost, [(1000, 200, Some(5)), (1000, 200, Some(7))]);
}

/// A hole that is marked without a count takes what the kernel counted beyond the others: its
/// place is known, so nothing is said about the rest of the span.
#[test]
fn losses_in_a_hole_without_a_count() {
    let story = Story::parse(
        "host 0 1000 9 sched_switch 9 S 42
         host 0 lost
         host 0 1200 42 sched_switch 42 S 0",
    );
    let key = StreamKey { machine: MachineId(0), cpu: CpuId(0) };
    let mut tables = Tables::default();
    let engine = Engine::new(story.topology.clone(), Options::default());
    let summary = engine.with_lost_counts([(key, 12)]).run(story.inputs(), &mut tables).unwrap();
    assert_eq!(summary.lost_events, 12);
    let lost: Vec<_> = tables.lost.iter().map(|l| (l.ts, l.dur, l.count)).collect();
    assert_eq!(lost, [(1000, 200, None)]);
    assert!(tables.import_log.iter().any(|l| l.data_loss && l.message.starts_with("12 events")));
}

/// A full disk ends a recording while the buffers overrun: the two losses have one place and two causes.
#[test]
fn loss_before_an_unfinished_end_keeps_its_cause() {
    let story = Story::parse(
        "host 0 1000 9 sched_switch 9 S 42
         host 1 1000 7 sched_switch 7 S 43
         host 0 lost count=5
         host 1 1200 43 sched_switch 43 S 0",
    );
    let missing = LostEvents { count: Some(3), cause: LostCause::DiskFull };
    let engine = Engine::new(story.topology.clone(), Options::default());
    let inputs = story.inputs().into_iter().map(|Input { key, stream, clock }| Input {
        key,
        stream: Unfinished::new(stream, missing),
        clock,
    });
    let mut tables = Tables::default();
    engine.run(inputs.collect(), &mut tables).unwrap();
    let lost =
        tables.lost.iter().map(|l| (l.cpu.unwrap().0, l.ts, l.dur, l.count, l.cause.as_str()));
    let mut lost: Vec<_> = lost.collect();
    lost.sort_unstable();
    let expected = [
        (0, 1000, 200, Some(3), "disk_full"),
        (0, 1000, 200, Some(5), "buffer_overrun"),
        (1, 1200, 0, Some(3), "disk_full"),
    ];
    assert_eq!(lost, expected);
}

/// Windows of a vCPU, its VM and the control group of its thread.
#[test]
fn windows_split_states_exactly() {
    let mut story = Story::parse(
        "vm web vcpu=0 tid=162
         host 7 1000 0 sched_switch 0 R 0
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1150 162 kvm_exit msr vcpu=0
         host 0 1160 162 kvm_fast_mmio
         host 0 1170 162 sched_switch 162 R 9
         host 0 1210 9 sched_switch 9 S 162
         host 0 1220 162 kvm_entry vcpu=0
         host 0 1250 162 kvm_exit hlt vcpu=0
         host 0 1250 162 sched_switch 162 S 0",
    );
    story.topology.threads.push(ThreadInfo {
        machine: MachineId(0),
        tid: Tid(162),
        pid: Some(Tid(100)),
        name: "CPU 0/KVM".into(),
        cgroup: Some("/machine/web".into()),
        born: None,
        settings: ThreadSettings::default(),
    });
    let (tables, _) = story.run_with(Options { window_ns: 100 });
    let rows: Vec<_> = tables
        .windows
        .iter()
        .map(|w| {
            let who = match (w.vcpu, &w.cgroup) {
                (Some(_), _) => "vcpu",
                (None, None) => "vm",
                (None, Some(_)) => "cgroup",
            };
            let counts = (w.executions, w.exits, w.io_count);
            (who, w.ts, w.dur, w.gotten_ns, w.waited_ns, w.guest_ns, counts)
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("vcpu", 1000, 100, 100, 0, 100, (0, 0, 0)),
            ("vcpu", 1100, 100, 70, 30, 50, (0, 1, 1)),
            ("vcpu", 1200, 50, 40, 10, 30, (1, 1, 0)),
            ("vm", 1000, 100, 100, 0, 100, (0, 0, 0)),
            ("vm", 1100, 100, 70, 30, 50, (0, 1, 1)),
            ("vm", 1200, 50, 40, 10, 30, (1, 1, 0)),
            ("cgroup", 1000, 100, 100, 0, 100, (0, 0, 0)),
            ("cgroup", 1100, 100, 70, 30, 50, (0, 1, 0)),
            ("cgroup", 1200, 50, 40, 10, 30, (1, 1, 0)),
        ]
    );
    let thread = tables.threads.iter().find(|t| t.tid == Tid(162)).unwrap();
    assert_eq!(
        (thread.name.as_str(), thread.cgroup.as_deref()),
        ("CPU 0/KVM", Some("/machine/web"))
    );
}

/// Aligned windows begin at multiples of their length; the recording's own begin cuts the first.
#[test]
fn windows_can_be_aligned() {
    let story = Story::parse(
        "vm web vcpu=0 tid=162
         host 1 1030 0 sched_switch 0 R 9
         host 0 1030 162 kvm_entry vcpu=0
         host 0 1160 162 kvm_exit io vcpu=0
         host 0 1250 162 kvm_entry vcpu=0",
    );
    let (tables, _) =
        story.run_by(|engine| engine.with_aligned_windows(), Options { window_ns: 100 });
    let of_vm = tables.windows.iter().filter(|w| w.vcpu.is_none());
    let rows: Vec<_> = of_vm.map(|w| (w.ts, w.dur, w.guest_ns, w.exits)).collect();
    assert_eq!(rows, [(1030, 70, 70, 0), (1100, 100, 60, 1), (1200, 50, 0, 0)]);
}

/// arm64's `kvm_entry` names no vCPU; the topology does.
#[test]
fn entries_without_a_vcpu_number() {
    let (tables, summary) = Story::parse(
        "vm web vcpu=0 tid=162
         host 1 1000 0 sched_switch 0 R 163
         host 0 1000 162 kvm_entry
         host 0 1100 162 kvm_exit npf
         host 0 1150 162 kvm_entry
         host 1 1200 163 kvm_entry
         host 0 1300 162 other",
    )
    .run();
    assert_eq!(
        vcpu_states(&tables, 1, 0),
        ["1000+100 guest c0", "1100+50 exit:npf c0", "1150+150 guest c0"]
    );
    assert_eq!(summary.contradictions, 0);
    assert!(tables.import_log.iter().any(|l| l.message.contains("could not be attributed")));
}

/// Guest events out of their vCPU's guest mode are found, with their distance.
#[test]
fn causality_violations() {
    let (tables, summary) = Story::parse(
        "vm web vcpu=0 tid=162
         web 0 900 42 other
         host 0 1000 162 kvm_entry vcpu=0
         web 0 1030 42 other
         host 0 1100 162 kvm_exit hlt vcpu=0
         web 0 1130 42 other
         host 0 1200 162 kvm_entry vcpu=0
         web 0 1200 42 other
         host 0 1300 162 kvm_exit hlt vcpu=0
         web 0 1300 42 other
         web 0 1350 42 other
         host 0 1400 162 other
         web 0 1500 42 other",
    )
    .run();
    let check = &tables.clock_check[0];
    assert_eq!((check.tested, check.inside, check.outside), (4, 3, 1));
    assert_eq!((check.untested, check.worst_ns), (3, 30));
    assert_eq!((check.slack_earlier_ns, check.slack_later_ns), (0, 0));
    assert_eq!(summary.events, 12);
}

/// A guest's guest: each level has its own parent, whose events tell about its vCPUs.
#[test]
fn nested_guests() {
    let mut story = Story::parse(
        "vm l1 vcpu=0 tid=162
         host 0 1000 162 kvm_entry vcpu=0
         l1 1 1000 0 sched_switch 0 R 9
         l1 0 1010 50 kvm_entry vcpu=0
         l1 0 1050 50 kvm_exit msr vcpu=0
         host 0 1060 162 kvm_exit intr vcpu=0
         host 0 1100 162 kvm_entry vcpu=0
         l1 0 1110 50 kvm_entry vcpu=0
         l1 0 1190 50 other
         host 0 1200 162 other",
    );
    let l2 = MachineId(2);
    story.topology.machines.push(MachineInfo::guest(l2, MachineId(1), "l2"));
    story.topology.vcpus.push(VcpuInfo {
        machine: l2,
        vcpu: VcpuId(0),
        vmm_tid: Some(Tid(50)),
        guest_cpu: CpuId(0),
    });
    let (tables, _) = story.run();
    assert_eq!(exits(&tables), ["1060+40 interrupt handling=-", "1050+60 msr handling=60"]);
    assert_eq!(
        vcpu_states(&tables, 2, 0),
        [
            "1000+10 running c0",
            "1010+40 guest c0",
            "1050+60 exit:msr c0",
            "1110+80 guest c0",
            "1190+10 unknown",
        ]
    );
}

/// A switch that was not recorded: whoever had the CPU by the last event there is not believed to
/// have kept it until another turns up.
#[test]
fn a_switch_is_missing() {
    let (tables, summary) = Story::parse(
        "host 0 1000 9 sched_switch 9 R 42
         host 0 1100 42 other
         host 0 1500 9 other
         host 0 1600 9 sched_switch 9 S 0
         host 0 1700 0 other",
    )
    .run();
    assert_eq!(
        slices(&tables, 0, 0),
        ["1000+100 42", "1100+400 unknown", "1500+100 9", "1600+100 idle"]
    );
    assert_eq!(thread_states(&tables, 0, 42), ["1000+100 running", "1100+600 unknown"]);
    assert_eq!(
        thread_states(&tables, 0, 9),
        ["1000+100 runnable", "1100+400 unknown", "1500+100 running", "1600+100 unknown"]
    );
    assert_eq!(summary.contradictions, 1);
}

/// A vCPU known without its thread gets the one that enters it.
#[test]
fn the_thread_of_a_known_vcpu_is_found() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0
         host 1 1000 0 sched_switch 0 R 9
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_exit msr vcpu=0",
    )
    .run();
    assert_eq!(tables.vcpus.len(), 1);
    assert_eq!(tables.vcpus[0].vmm_tid, Some(Tid(162)));
    assert_eq!(vcpu_states(&tables, 1, 0), ["1000+100 guest c0"]);
}

/// What a guest did before the host's first event is known, but no row reaches back there.
#[test]
fn a_guest_recorded_earlier_than_its_host() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         web 0 900 0 sched_process_fork 1 42
         web 0 950 0 sched_switch 0 R 42
         host 0 1000 0 sched_switch 0 R 162
         host 0 1000 162 kvm_entry vcpu=0
         web 0 1200 42 sched_switch 42 S 0
         host 0 1300 162 kvm_exit hlt vcpu=0",
    )
    .run();
    assert_eq!(thread_states(&tables, 1, 42), ["1000+200 running/running", "1200+100 unknown"]);
}
