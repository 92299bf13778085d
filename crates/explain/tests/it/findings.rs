//! What rules find in rows made by hand, and what they leave alone.

use crate::story::{GUEST, HOST, Story, thread};
use transect_explain::{
    Actor, Doing, Party, Rows, Why, alike,
    detect::{Confidence, Detail, Detector, Finding, Range, findings, of_path},
    walk,
};
use transect_model::{
    cause::{CauseKind, LockKind},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, IrqSource, VectorSource},
    setting::SchedPolicy,
    state::VcpuState,
    table::{Cgroup, ClockCheck, Exit, LockWait, Lost, Reclaim, Throttle, Window},
};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn found(story: &Story) -> Vec<Finding> {
    let range = Range { from: 0, until: SECOND, second: Some(SECOND) };
    findings(&Rows::new(&story.0), &story.0, range)
}

fn detectors(story: &Story) -> Vec<Detector> {
    found(story).into_iter().map(|finding| finding.detector).collect()
}

/// Thread 7 waits 300 ms of a second for CPU 0, which `by` has.
fn waiting(by: i32) -> Story {
    Story::new().states(HOST, 7, &[('R', 400 * MS), ('W', 700 * MS), ('R', SECOND)]).slices(
        HOST,
        0,
        &[(7, 400 * MS), (by, 700 * MS), (7, SECOND)],
    )
}

#[test]
fn a_thread_that_waits_is_starved() {
    let finding = &found(&waiting(9))[0];
    assert_eq!(finding.detector, Detector::Starved);
    assert_eq!(finding.subject, Party::Thread(thread(HOST, 7)));
    assert_eq!((finding.held_ns, finding.of_ns, finding.count), (300 * MS, SECOND, 1));
    let behind =
        Detail::Behind { who: Party::Thread(thread(HOST, 9)), why: Some(Why::Share), ns: 300 * MS };
    assert_eq!(finding.detail, behind);
    // Below a tenth of what it wanted, and below 20 ms.
    let little = Story::new().states(HOST, 7, &[('R', 910 * MS), ('W', SECOND)]).slices(
        HOST,
        0,
        &[(7, 910 * MS), (9, SECOND)],
    );
    assert!(detectors(&little).is_empty());
    let short = Story::new()
        .states(HOST, 7, &[('R', 10 * MS), ('W', 29 * MS), ('S', SECOND)])
        .slices(HOST, 0, &[(7, 10 * MS), (9, 29 * MS), (0, SECOND)]);
    assert!(detectors(&short).is_empty());
}

#[test]
fn threads_of_one_group_do_not_starve_it() {
    let mut story =
        waiting(9).policy(7, SchedPolicy::Other, None).policy(9, SchedPolicy::Other, None);
    for row in &mut story.0.threads {
        row.cgroup = Some("/a".into());
    }
    assert!(detectors(&story).is_empty());
    story.0.threads[1].cgroup = Some("/b".into());
    let finding = &found(&story)[0];
    assert_eq!(finding.subject, Party::Group(HOST, "/a".into()));
    let Detail::Behind { who, .. } = &finding.detail else { panic!("{finding:?}") };
    assert_eq!(*who, Party::Group(HOST, "/b".into()));
}

fn quota(group: &str, cpu_quota_ns: Option<i64>) -> Cgroup {
    Cgroup {
        machine_id: HOST,
        cgroup: group.into(),
        cpu_weight: Some(100),
        cpu_quota_ns,
        cpu_period_ns: Some(100 * MS),
        cpus: None,
        memory_max_bytes: None,
        memory_high_bytes: None,
        io_weight: None,
    }
}

#[test]
fn a_quota_is_told_from_starvation() {
    let mut story = waiting(9);
    let (ts, dur) = (400 * MS, Some(300 * MS));
    story.0.throttles.push(Throttle { ts, dur, machine_id: HOST, cpu: CpuId(0), cgroup_id: 1 });
    let all = found(&story);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((all[0].detector, all[0].confidence), (Detector::Throttled, Confidence::Certain));
    assert_eq!((all[0].held_ns, all[0].of_ns), (300 * MS, SECOND));
    // The quota on that CPU is another group's: this one has none.
    story = story.policy(7, SchedPolicy::Other, None);
    story.0.threads[0].cgroup = Some("/a".into());
    story.0.cgroups.push(quota("/a", None));
    assert_eq!(detectors(&story), [Detector::Starved]);
    story.0.cgroups[0].cpu_quota_ns = Some(MS);
    assert_eq!(detectors(&story), [Detector::Throttled]);
    // Nor has the root.
    story.0.threads[0].cgroup = Some("/".into());
    assert_eq!(detectors(&story), [Detector::Starved]);
}

#[test]
fn waits_while_nobody_has_the_cpu_are_likely_a_quota() {
    let all = found(&waiting(0));
    assert_eq!((all[0].detector, all[0].confidence), (Detector::Throttled, Confidence::Likely));
    // Not if it is known that there is none.
    let mut without = waiting(0).policy(7, SchedPolicy::Other, None);
    without.0.threads[0].cgroup = Some("/a".into());
    without.0.cgroups.push(quota("/a", None));
    assert!(detectors(&without).is_empty());
    without.0.cgroups[0].cpu_quota_ns = Some(MS);
    assert_eq!(detectors(&without), [Detector::Throttled]);
}

/// Without recorded ends of quotas: a group that has used its quota of 30 ms when it begins to wait, for the next period.
#[test]
fn a_used_quota_is_inferred_from_the_periods() {
    let story = |ran: i64| {
        let (mut states, mut slices) = (Vec::new(), Vec::new());
        for n in 0..10 {
            let at = n * 100 * MS + 7 * MS;
            // It waits 5 ms for 9 on the way, and then to the end of the period.
            states.extend([('R', at + 10 * MS), ('W', at + 15 * MS), ('R', at + ran + 5 * MS)]);
            states.push(('W', at + 100 * MS));
            slices.extend([(7, at + 10 * MS), (9, at + 15 * MS), (7, at + ran + 5 * MS)]);
            slices.push((9, at + 100 * MS));
        }
        let mut story = Story::new().states(HOST, 7, &states).slices(HOST, 0, &slices).policy(
            7,
            SchedPolicy::Other,
            None,
        );
        story.0.threads[0].cgroup = Some("/a/b".into());
        story.0.cgroups.push(quota("/a", Some(30 * MS)));
        found(&story)
    };
    let all = story(30 * MS);
    let finding = all.iter().find(|f| f.detector == Detector::Throttled).unwrap();
    assert_eq!(finding.confidence, Confidence::Likely);
    assert_eq!(finding.subject, Party::Group(HOST, "/a/b".into()));
    // 65 ms of each period; the waits on the way are not for the quota. The last period is cut.
    assert_eq!((finding.held_ns, finding.count), (9 * 65 * MS + 58 * MS, 10));
    // A group that uses half of its quota waits for something else.
    assert!(story(15 * MS).iter().all(|f| f.detector == Detector::Starved));
}

/// A range that begins within a period: of its 30 ms, 20 were used before, and the wait goes on to the end of the period.
#[test]
fn a_quota_used_before_the_range_is_inferred() {
    let story = |first_wait_ends: i64| {
        let (mut states, mut slices) = (Vec::new(), Vec::new());
        for n in 0..10 {
            let at = (n * 100 - 20) * MS;
            let ends = if n == 0 { first_wait_ends } else { 100 };
            states.extend([('R', at + 30 * MS), ('W', at + ends * MS), ('S', at + 100 * MS)]);
            slices.extend([(7, at + 30 * MS), (9, at + 100 * MS)]);
        }
        let mut story = Story::new().states(HOST, 7, &states).slices(HOST, 0, &slices);
        story = story.policy(7, SchedPolicy::Other, None);
        story.0.threads[0].cgroup = Some("/a".into());
        story.0.cgroups.push(quota("/a", Some(30 * MS)));
        found(&story)
    };
    let throttled = |all: Vec<Finding>| {
        let mut all = all.into_iter().filter(|finding| finding.detector == Detector::Throttled);
        all.next().map(|finding| (finding.held_ns, finding.count))
    };
    assert_eq!(throttled(story(100)), Some((10 * 70 * MS, 10)));
    // One that ends on the way is not for the quota.
    assert_eq!(throttled(story(80)), Some((9 * 70 * MS, 9)));
}

/// A quota of 10 ms that ends at ticks: 12 ms in one period and 6 ms in the next, whose wait goes on behind its end.
#[test]
fn a_quota_of_a_few_ticks_is_inferred() {
    let (mut states, mut slices) = (Vec::new(), Vec::new());
    for n in 0..10 {
        let at = n * 100 * MS + 7 * MS;
        // It begins when the wait before has ended.
        let (began, ran, ended) = match n {
            0 => (0, 12, 100),
            n if n % 2 == 0 => (1 + n / 2, 12, 100),
            n => (0, 6, 102 + n / 2),
        };
        states.extend([('R', at + (began + ran) * MS), ('W', at + ended * MS)]);
        slices.extend([(7, at + (began + ran) * MS), (9, at + 100 * MS)]);
        if ended > 100 {
            slices.push((9, at + ended * MS));
        }
    }
    let mut story = Story::new().states(HOST, 7, &states).slices(HOST, 0, &slices);
    story = story.policy(7, SchedPolicy::Other, None);
    story.0.threads[0].cgroup = Some("/a".into());
    story.0.cgroups.push(quota("/a", Some(10 * MS)));
    let all = found(&story);
    let finding = all.iter().find(|f| f.detector == Detector::Throttled).unwrap();
    // What it waits for behind the end of a period is the CPU.
    let waits = states.chunks(2).map(|pair| pair[1].1.min(SECOND) - pair[0].1).sum::<i64>();
    assert_eq!(finding.held_ns, waits - (2 + 3 + 4 + 5) * MS);
}

#[test]
fn an_idle_cpu_beside_a_wait_is_named() {
    let mut story = waiting(9).slices(HOST, 1, &[(8, 500 * MS), (0, SECOND)]).policy(
        7,
        SchedPolicy::Other,
        None,
    );
    story.0.threads[0].allowed_cpus = Some("0,4-7".into());
    let all = found(&story);
    let names: Vec<_> = all.iter().map(|finding| finding.detector).collect();
    assert_eq!(names, [Detector::Starved, Detector::Affinity]);
    let detail = Detail::Idle { cpu: CpuId(1), is_allowed: Some(false) };
    assert_eq!(all[1].detail, detail);
    story.0.threads[0].allowed_cpus = Some("0-1".into());
    assert_eq!(found(&story)[1].detail, Detail::Idle { cpu: CpuId(1), is_allowed: Some(true) });
}

/// A thread that may not run on the idle CPU waits for its weight where it is; both are said.
#[test]
fn a_weight_comes_before_an_idle_cpu_that_is_closed() {
    let waiting = |allowed: Option<&str>, nice: i32| {
        let mut story = waiting(9)
            .slices(HOST, 1, &[(8, 100 * MS), (0, SECOND)])
            .policy(7, SchedPolicy::Other, None)
            .policy(9, SchedPolicy::Other, None);
        story.0.threads[0].allowed_cpus = allowed.map(str::to_owned);
        story.0.threads[0].nice = Some(nice);
        story.0.threads[1].nice = Some(0);
        let all = found(&story);
        let Detail::Behind { why, .. } = all[0].detail else { panic!("{all:?}") };
        let names: Vec<_> = all.iter().map(|finding| finding.detector).collect();
        assert_eq!(names, [Detector::Starved, Detector::Affinity]);
        assert_eq!(all[1].held_ns, 300 * MS);
        why.unwrap()
    };
    assert_eq!(waiting(Some("0"), 5), Why::Weight);
    assert_eq!(waiting(Some("0-1"), 5), Why::Affinity);
    assert_eq!(waiting(None, 5), Why::Affinity);
    assert_eq!(waiting(Some("0"), 0), Why::Affinity);
}

/// A limit of memory: what the kernel does for it is a piece of its own, and a finding of the group.
#[test]
fn reclaim_is_told_from_a_threads_own_work() {
    let story = |held: i64| {
        let mut story = Story::new()
            .states(HOST, 7, &[('R', 300 * MS), ('W', 400 * MS), ('R', SECOND)])
            .slices(HOST, 0, &[(7, 300 * MS), (9, 400 * MS), (7, SECOND)])
            .policy(7, SchedPolicy::Other, None);
        story.0.threads[0].cgroup = Some("/a".into());
        let reclaim = |ts, dur| Reclaim {
            ts,
            dur,
            machine_id: HOST,
            cpu: CpuId(0),
            tid: Tid(7),
            cgroup: true,
            order: 0,
            pages: dur.map(|_| 32),
        };
        // One that it is displaced in, one whose end was not recorded.
        story.0.reclaims.push(reclaim(250 * MS, Some(held)));
        story.0.reclaims.push(reclaim(900 * MS, None));
        story
    };
    let with = story(200 * MS);
    let path = walk(&Rows::new(&with.0), Actor::Thread(thread(HOST, 7)), (0, SECOND));
    let of = |doing| path.pieces.iter().filter(|p| p.doing == doing).map(|p| p.dur).sum::<i64>();
    assert_eq!((of(Doing::Reclaim), of(Doing::Running)), (100 * MS, 800 * MS));
    assert_eq!(of(Doing::Runnable), 100 * MS);
    let all = found(&with);
    let finding = all.iter().find(|f| f.detector == Detector::Reclaim).unwrap();
    assert_eq!(finding.subject, Party::Group(HOST, "/a".into()));
    assert_eq!((finding.held_ns, finding.of_ns, finding.count), (200 * MS, SECOND, 1));
    assert!(found(&story(49 * MS)).iter().all(|f| f.detector != Detector::Reclaim));
}

#[test]
fn a_short_range_has_no_findings() {
    let story = waiting(9);
    let range = Range { from: 0, until: SECOND - 1, second: Some(SECOND) };
    assert!(!range.is_long_enough());
    assert!(findings(&Rows::new(&story.0), &story.0, range).is_empty());
}

#[test]
fn a_lock_of_a_thread_without_a_cpu() {
    // 8 has the lock, and waits for the CPU for 200 of the 300 ms that 7 spins.
    let story = |displaced: i64| {
        let mut story = Story::new()
            .states(HOST, 7, &[('R', SECOND)])
            .states(HOST, 8, &[('R', 400 * MS), ('W', 400 * MS + displaced), ('R', SECOND)])
            .slices(HOST, 0, &[(8, 400 * MS), (9, 400 * MS + displaced), (8, SECOND)]);
        story.0.locks.push(LockWait {
            ts: 400 * MS,
            dur: Some(300 * MS),
            machine_id: HOST,
            cpu: CpuId(1),
            tid: Tid(7),
            lock: 1,
            kind: LockKind::Mutex,
            owner_tid: Some(Tid(8)),
        });
        story
    };
    let all = found(&story(200 * MS));
    let finding = all.iter().find(|f| f.detector == Detector::LockHolder).unwrap();
    assert_eq!((finding.held_ns, finding.of_ns), (200 * MS, 300 * MS));
    let holder = Some(thread(HOST, 8));
    let behind = Some(Party::Thread(thread(HOST, 9)));
    assert_eq!(finding.detail, Detail::Holder { holder, behind });
    assert!(!detectors(&story(80 * MS)).contains(&Detector::LockHolder));
}

fn exit(ts: i64, reason: ExitReason, handling_ns: i64) -> Exit {
    Exit {
        ts,
        dur: Some(handling_ns),
        handling_ns: Some(handling_ns),
        machine_id: GUEST,
        vcpu: VcpuId(1),
        reason,
        rip: 0x1234,
        to_user: true,
        detail: Some(0x3f8),
    }
}

const IO: ExitReason = ExitReason { isa: Isa::Svm, code: 0x7b };
const PAUSE: ExitReason = ExitReason { isa: Isa::Svm, code: 0x77 };
const HALT: ExitReason = ExitReason { isa: Isa::Svm, code: 0x78 };

/// Vcpu 0 as told; vCPU 1 in the guest throughout.
fn guest(states: &[(VcpuState, i64)]) -> Story {
    let mut story = Story::new().vcpu(states, 9);
    story.0.vcpu_states.push(transect_model::table::VcpuStateRow {
        ts: 0,
        dur: SECOND,
        vcpu: VcpuId(1),
        state: VcpuState::Guest,
        by_machine_id: None,
        by_tid: None,
        ..story.0.vcpu_states[0].clone()
    });
    story
}

#[test]
fn exits_of_one_reason_are_a_storm() {
    let storm = |reason, count: i64, handling: i64| {
        let mut story = guest(&[(VcpuState::Guest, SECOND)]);
        story.0.exits.extend((0..count).map(|n| exit(n * SECOND / count, reason, handling)));
        found(&story)
    };
    let all = storm(IO, 1_000, 250_000);
    assert_eq!(
        (all[0].detector, all[0].held_ns, all[0].of_ns),
        (Detector::ExitStorm, 250 * MS, SECOND)
    );
    assert_eq!(all[0].subject, Party::Vcpu(GUEST, VcpuId(1)));
    assert_eq!(all[0].detail, Detail::Exit { reason: IO, detail: Some(0x3f8), rip: Some(0x1234) });
    // By number alone.
    assert_eq!(storm(IO, 10_000, 1)[0].detector, Detector::ExitStorm);
    assert!(storm(IO, 9_999, 1).is_empty());
    assert!(storm(HALT, 10_000, 50_000).is_empty());
}

#[test]
fn exits_of_a_boot_are_none() {
    let mut story = Story::new().vcpu(&[(VcpuState::Offline, 10), (VcpuState::Guest, SECOND)], 9);
    let exits = (0..20_000).map(|n| Exit { vcpu: VcpuId(0), ..exit(10 + n, IO, 20_000) });
    story.0.exits.extend(exits);
    assert!(detectors(&story).is_empty());
}

#[test]
fn pauses_while_a_sibling_waits_are_likely_a_lock() {
    let pausing = |waits: i64| {
        let states = [(VcpuState::Preempted, waits), (VcpuState::Guest, SECOND)];
        let mut story = guest(&states);
        story.0.vcpus.push(transect_model::table::Vcpu {
            machine_id: GUEST,
            vcpu: VcpuId(1),
            vmm_tid: Some(Tid(163)),
        });
        story.0.exits.extend((0..200).map(|n| exit(n * SECOND / 200, PAUSE, 1_000)));
        found(&story)
    };
    let all = pausing(600 * MS);
    let finding = all.iter().find(|f| f.detector == Detector::LockHolder).unwrap();
    assert_eq!((finding.confidence, finding.count), (Confidence::Likely, 120));
    assert!(pausing(400 * MS).iter().all(|f| f.detector != Detector::LockHolder));
}

#[test]
fn polls_in_vain_matter_if_they_are_long() {
    let polling = |length: i64| {
        let mut states = Vec::new();
        for n in 0..10 {
            let at = n * 100 * MS;
            states.push((VcpuState::Guest, at + 20 * MS));
            states.push((VcpuState::HaltPoll, at + 20 * MS + length));
            states.push((VcpuState::Exit, at + 21 * MS + length));
            states.push((VcpuState::Halted, at + 100 * MS));
        }
        Story::new().vcpu(&states, 9)
    };
    let all = found(&polling(40 * MS));
    let finding = all.iter().find(|f| f.detector == Detector::HaltPoll).unwrap();
    assert_eq!((finding.held_ns, finding.of_ns, finding.count), (400 * MS, 610 * MS, 10));
    assert!(!detectors(&polling(4 * MS)).contains(&Detector::HaltPoll));
}

#[test]
fn timers_and_interrupts_of_other_cpus_are_counted() {
    let storm = |source, count: i64| {
        let source = IrqSource::Vector(source);
        (0..count).fold(Story::new(), |story, n| {
            let at = n * SECOND / count;
            story.irq(GUEST, source, 236, at, at + 1_000)
        })
    };
    let mut story = storm(VectorSource::LocalTimer, 2_000)
        .cause(CauseKind::Timer, (50, thread(GUEST, 0)), (50, thread(GUEST, 42)))
        .by_interrupt(Context::Irq);
    let all = found(&story);
    assert_eq!(
        (all[0].detector, all[0].count, all[0].held_ns),
        (Detector::TimerStorm, 2_000, 2 * MS)
    );
    assert_eq!(all[0].subject, Party::Vcpu(GUEST, VcpuId(0)));
    let woken = Some(thread(GUEST, 42));
    assert_eq!(all[0].detail, Detail::Interrupts { cpu: CpuId(0), thread: woken });
    story.0.irqs.pop();
    assert!(detectors(&story).is_empty());
    assert_eq!(detectors(&storm(VectorSource::Reschedule, 5_000)), [Detector::IpiStorm]);
    assert!(detectors(&storm(VectorSource::Reschedule, 4_999)).is_empty());
}

#[test]
fn a_vm_that_runs_for_each_request() {
    let window = |executions, io_count, waited_ns| Window {
        ts: 0,
        dur: SECOND,
        machine_id: GUEST,
        vcpu: None,
        cpu: None,
        cgroup: None,
        executions,
        gotten_ns: 300 * MS,
        waited_ns,
        blocked_ns: 0,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: 0,
        halted_ns: 0,
        allocations: 0,
        allocated_avg_ns: None,
        allocated_min_ns: None,
        allocated_max_ns: None,
        io_count,
        exits: 0,
        steal_ns: 0,
    };
    let judged = |row: Window| {
        let mut story = Story::new();
        story.0.windows.push(row);
        found(&story)
    };
    let all = judged(window(600, 720, 100 * MS));
    assert_eq!((all[0].detector, &all[0].detail), (Detector::PingPong, &Detail::PerRun(120)));
    // Many requests in each run, no requests, few runs, nobody who waits.
    for row in [
        window(600, 840, 100 * MS),
        window(600, 100, 100 * MS),
        window(499, 600, 100 * MS),
        window(600, 720, 0),
    ] {
        assert!(judged(row).is_empty());
    }
}

#[test]
fn what_cannot_be_told_is_said() {
    let mut story = Story::new();
    let lost = |ts, dur, cpu: Option<u32>| Lost {
        ts,
        dur,
        machine_id: HOST,
        cpu: cpu.map(CpuId),
        count: Some(5),
        cause: "buffer_overrun".into(),
    };
    // A guest that is recorded later has lost nothing, and its threads are explained from then on.
    let mut late = story.0.clone();
    late.lost.push(Lost {
        machine_id: GUEST,
        cpu: None,
        cause: "guest_not_started".into(),
        ..lost(0, 500 * MS, None)
    });
    assert!(detectors(&Story(late)).is_empty());
    // Two overlap: each moment counts once.
    story.0.lost.extend([
        lost(0, 6 * MS, Some(0)),
        lost(4 * MS, 6 * MS, Some(0)),
        lost(0, MS, Some(1)),
    ]);
    story.0.clock_check.push(ClockCheck {
        machine_id: GUEST,
        tested: 100,
        inside: 98,
        outside: 2,
        untested: 0,
        worst_ns: 700,
        slack_later_ns: 0,
        slack_earlier_ns: 0,
    });
    let all = found(&story);
    assert_eq!((all[0].detector, all[0].held_ns, all[0].count), (Detector::Lost, 10 * MS, 15));
    assert_eq!((all[1].detector, all[1].count), (Detector::Clock, 2));
    assert_eq!(all[1].detail, Detail::Distance(700));
    story.0.lost.truncate(1);
    story.0.clock_check[0].outside = 0;
    assert!(found(&story).is_empty());
}

/// A guest's thread whose sibling has what it waits for, and no CPU: its vCPU waits behind 9.
#[test]
fn a_sibling_without_a_cpu_is_the_holder() {
    let mut story = Story::new()
        .states(GUEST, 42, &[('R', 10), ('S', 90), ('R', 100)])
        .states(GUEST, 43, &[('R', 100)])
        .vcpu(&[(VcpuState::Guest, 20), (VcpuState::Preempted, 80), (VcpuState::Guest, 100)], 9)
        .slices(GUEST, 0, &[(43, 100)])
        .cause(CauseKind::Wakeup, (90, thread(GUEST, 43)), (90, thread(GUEST, 42)));
    for tid in [42, 43] {
        story = story.policy(tid, SchedPolicy::Other, None);
        let row = story.0.threads.last_mut().unwrap();
        (row.machine_id, row.pid) = (GUEST, Some(Tid(42)));
    }
    let rows = Rows::new(&story.0);
    let root = Actor::Thread(thread(GUEST, 42));
    let path = walk(&rows, root, (0, 100));
    let pieces = alike(&path.pieces);
    let all = of_path(&rows, root, &pieces);
    assert_eq!(all[0].detector, Detector::LockHolder, "{:?}", path.pieces);
    let Detail::Holder { holder, behind } = &all[0].detail else { panic!("{all:?}") };
    assert_eq!(*holder, Some(thread(GUEST, 43)));
    assert_eq!(*behind, Some(Party::Thread(thread(HOST, 9))));
    // Threads of other processes are peers.
    story.0.threads[1].pid = Some(Tid(43));
    let rows = Rows::new(&story.0);
    assert!(of_path(&rows, root, &pieces).is_empty());
}

#[test]
fn the_host_is_innocent_of_a_guests_own_waits() {
    let innocent = |off: i64| {
        let story = Story::new()
            .states(GUEST, 42, &[('R', 400), ('W', 1_000)])
            .slices(GUEST, 0, &[(42, 400), (43, 1_000)])
            .vcpu(&[(VcpuState::Guest, 1_000 - off), (VcpuState::Preempted, 1_000)], 9);
        let rows = Rows::new(&story.0);
        let root = Actor::Thread(thread(GUEST, 42));
        let path = walk(&rows, root, (0, 1_000));
        let all = of_path(&rows, root, &alike(&path.pieces));
        all.iter().any(|finding| finding.detector == Detector::HostInnocent)
    };
    assert!(innocent(19));
    assert!(!innocent(20));
}
