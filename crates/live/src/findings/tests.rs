#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use crate::{
    groups::{ContainerWindow, PressureWindow},
    histogram::Histogram,
    lines,
    snapshot::{ActorWindow, Antagonist, ExitWindow, Snapshot, ThreadWindow, WindowDetail},
};
use proptest::prelude::*;
use std::{fs, path::PathBuf};
use transect_model::{
    exit::ExitReason,
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    table::{Machine, Window},
};

const MS: i64 = 1_000_000;
const S: i64 = 1000 * MS;
const WEB: MachineId = MachineId(1);

fn window() -> Snapshot {
    let machine = |id, kind, name: &str| Machine {
        machine_id: MachineId(id),
        parent_id: (id > 0).then_some(MachineId(0)),
        kind,
        name: name.to_owned(),
        domid: None,
        vmm_pid: None,
        cgroup: None,
        clock: None,
        error_bound_ns: None,
        time_unit: None,
    };
    Snapshot {
        dur: S,
        machines: vec![
            machine(0, MachineKind::Host, "host"),
            machine(1, MachineKind::Guest, "web"),
        ],
        ..Snapshot::default()
    }
}

/// A thread of the host that ran and waited for so many ms.
fn thread(tid: i32, cgroup: &str, ran: i64, waited: i64) -> ThreadWindow {
    ThreadWindow {
        ts: 0,
        dur: S,
        machine_id: MachineId(0),
        tid: Tid(tid),
        pid: Tid(tid),
        name: format!("thread{tid}"),
        role: "thread",
        cgroup: Some(cgroup.to_owned()),
        state: "running",
        executions: 10,
        gotten_ns: ran * MS,
        waited_ns: waited * MS,
        preempted_ns: waited * MS,
        blocked_ns: S - (ran + waited) * MS,
        ..ThreadWindow::default()
    }
}

fn vcpu_thread(tid: i32, vcpu: u32, ran: i64, waited: i64) -> ThreadWindow {
    ThreadWindow {
        role: "vcpu",
        vm_machine_id: Some(WEB),
        vcpu: Some(VcpuId(vcpu)),
        ..thread(tid, "/machine/web", ran, waited)
    }
}

/// `tid` waited for so many ms behind `by`, in two parts.
fn antagonist(tid: i32, by: i32, ms: i64) -> Antagonist {
    let name = |tid: i32| if tid == 0 { "idle".to_owned() } else { format!("thread{tid}") };
    Antagonist {
        ts: 0,
        dur: S,
        machine_id: MachineId(0),
        vcpu: None,
        tid: Tid(tid),
        name: name(tid),
        by_machine_id: MachineId(0),
        by_vcpu: None,
        by_tid: Tid(by),
        by_name: name(by),
        times: 2,
        ns: ms * MS,
    }
}

fn pressure(cgroup: Option<&str>) -> PressureWindow {
    PressureWindow { dur: S, cgroup: cgroup.map(str::to_owned), ..PressureWindow::default() }
}

fn quota(cgroup: &str, throttled: i64, ended: u64) -> PressureWindow {
    PressureWindow {
        quota_ns: Some(30 * MS),
        period_ns: Some(100 * MS),
        periods: Some(10),
        periods_throttled: Some(ended),
        throttled_ns: Some(throttled * MS),
        ..pressure(Some(cgroup))
    }
}

/// A vCPU, or the VM.
fn actor(vcpu: Option<u32>, ran: i64, waited: i64) -> ActorWindow {
    let vcpu = vcpu.map(VcpuId);
    let window = Window {
        ts: 0,
        dur: S,
        machine_id: WEB,
        vcpu,
        cpu: None,
        cgroup: None,
        executions: 0,
        gotten_ns: ran * MS,
        waited_ns: waited * MS,
        blocked_ns: S - (ran + waited) * MS,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: 0,
        halted_ns: 0,
        allocations: 0,
        allocated_avg_ns: None,
        allocated_min_ns: None,
        allocated_max_ns: None,
        io_count: 0,
        exits: 0,
        steal_ns: waited * MS,
    };
    let detail =
        WindowDetail { dur: S, machine_id: WEB, vcpu, threads: 1, ..WindowDetail::default() };
    ActorWindow { window, detail, waits: Histogram::default() }
}

fn exits(reason: &str, count: u64, handling: i64) -> (ExitWindow, Histogram) {
    let row = ExitWindow {
        ts: 0,
        dur: S,
        machine_id: WEB,
        vcpu: VcpuId(0),
        reason: ExitReason::by_name(reason).unwrap(),
        count,
        total_ns: handling * MS,
        handling_ns: handling * MS,
        p50_ns: None,
        p90_ns: None,
        p99_ns: None,
        max_ns: None,
    };
    (row, Histogram::default())
}

/// Rule, confidence and words of each.
fn found(window: &Snapshot) -> Vec<String> {
    let all = window.findings();
    all.iter().map(|f| format!("{} {}: {}", f.detector, f.confidence, f.sentence)).collect()
}

#[test]
fn groups_and_vcpus_wait_behind_others_and_not_behind_their_own_threads() {
    let mut now = window();
    now.threads = vec![
        thread(1, "/a", 300, 500),
        thread(2, "/a", 200, 0),
        thread(3, "/b", 500, 0),
        vcpu_thread(4, 0, 100, 300),
    ];
    now.antagonists = vec![antagonist(1, 2, 100), antagonist(1, 3, 400), antagonist(4, 3, 300)];
    assert_eq!(
        found(&now),
        [
            "starved certain: /a waited 400 ms (40.0 % of the time that it wanted a CPU) behind /b.",
            "starved certain: web vcpu0 waited 300 ms (75.0 % of the time that it wanted a CPU) behind /b.",
        ]
    );
    let rows = now.findings();
    assert_eq!((rows[0].cgroup.as_deref(), rows[0].vcpu, rows[0].tid), (Some("/a"), None, None));
    assert_eq!((rows[1].machine_id, rows[1].vcpu, rows[1].tid), (WEB, Some(VcpuId(0)), None));
    assert_eq!((rows[1].held_ns, rows[1].of_ns, rows[1].count), (300 * MS, 400 * MS, 2));
    // Below a tenth of the wanted time, or 20 ms, it is none.
    now.threads[0].gotten_ns = 4 * S;
    now.antagonists = vec![antagonist(1, 3, 400), antagonist(4, 3, 19)];
    assert_eq!(found(&now), [""; 0]);
}

#[test]
fn threads_outside_of_groups_and_containers_have_their_names() {
    let mut now = window();
    now.threads = vec![thread(7, "/", 100, 400), thread(8, "/kubepods/podX/ctr/work", 500, 100)];
    now.antagonists = vec![antagonist(7, 8, 400), antagonist(8, 9, 90)];
    let container = |cgroup: &str, kind: &str, name: &str, pod: Option<&str>| ContainerWindow {
        dur: S,
        kind: kind.to_owned(),
        name: name.to_owned(),
        pod: pod.map(str::to_owned),
        cgroup: cgroup.to_owned(),
        ..ContainerWindow::default()
    };
    now.containers = vec![
        (container("/kubepods/podX/ctr", "kubernetes", "nginx", Some("web")), Histogram::default()),
        (container("/kubepods", "slice", "kubepods", None), Histogram::default()),
    ];
    assert_eq!(
        found(&now),
        [
            "starved certain: thread7 (7) waited 400 ms (80.0 % of the time that it wanted a CPU) behind web/nginx/work.",
            "starved certain: web/nginx/work waited 90.0 ms (15.0 % of the time that it wanted a CPU) behind thread9 (9).",
        ]
    );
    assert_eq!(now.findings()[0].tid, Some(Tid(7)));
}

#[test]
fn an_ended_quota_is_told_and_is_no_starvation() {
    let mut now = window();
    now.threads = vec![thread(1, "/a/inner", 300, 680), thread(2, "/b", 500, 0)];
    now.antagonists = vec![antagonist(1, 2, 680)];
    now.pressure = vec![quota("/a", 650, 9), pressure(Some("/b"))];
    assert_eq!(
        found(&now),
        [
            "throttled certain: /a waited 650 ms (65.0 % of the range, added up over CPUs), because its quota had ended in 9 of 10 periods."
        ]
    );
    // What is left of the waits is.
    now.pressure[0] = quota("/a", 300, 4);
    assert_eq!(
        found(&now)[0],
        "starved certain: /a/inner waited 380 ms (38.8 % of the time that it wanted a CPU) behind /b."
    );
    // A group that slept was looked at seldom: its part of this window counts.
    now.pressure[0] = PressureWindow { ts: -S, dur: 2 * S, ..quota("/a", 1300, 9) };
    assert!(found(&now)[0].starts_with("throttled certain: /a waited 1.30 s (65.0 %"));
    assert_eq!(found(&now).len(), 1);
    // Before it was looked at twice, the quota may be what it waits for.
    now.pressure[0] = PressureWindow { dur: 0, throttled_ns: None, ..quota("/a", 0, 0) };
    assert!(found(&now)[0].starts_with("starved likely: /a/inner waited 680 ms"));
}

#[test]
fn where_groups_are_not_known_long_waits_for_nobody_are_likely_for_a_limit() {
    let mut now = window();
    now.threads = vec![ThreadWindow { cgroup: None, ..vcpu_thread(1, 0, 300, 600) }];
    now.antagonists = vec![antagonist(1, 0, 600)];
    assert_eq!(
        found(&now),
        [
            "throttled likely: web vcpu0 waited 600 ms (60.0 % of the range) 2 times, most likely because its quota or cap had ended."
        ]
    );
    // Many short ones are a CPU that leaves its idle state.
    now.antagonists[0].times = 700;
    assert_eq!(found(&now), [""; 0]);
    now.antagonists[0].times = 2;
    now.threads[0].cgroup = Some("/machine/web".to_owned());
    assert_eq!(found(&now), [""; 0], "its group has no quota");
}

#[test]
fn a_wait_that_goes_on_is_most_likely_behind_the_one_that_has_the_cpu() {
    let mut now = window();
    let waits = ThreadWindow { state: "preempted", unattributed_ns: S, ..thread(1, "/a", 0, 1000) };
    now.threads = vec![waits, thread(2, "/", 1000, 0)];
    assert_eq!(
        found(&now),
        [
            "starved likely: /a waited 1.00 s (100 % of the time that it wanted a CPU) behind thread2 (2)."
        ]
    );
    now.threads[1].cpu = CpuId(1);
    assert_eq!(found(&now), [""; 0], "on another CPU");
}

#[test]
fn the_reason_that_takes_most_of_a_vcpu_is_a_storm_and_a_halt_is_none() {
    let mut now = window();
    now.actors = vec![actor(Some(0), 500, 0)];
    now.exits = vec![exits("hlt", 90_000, 400), exits("io", 900, 120), exits("msr", 20_000, 90)];
    assert_eq!(
        found(&now),
        [
            "exit_storm certain: web vcpu0 left the guest 900 times for io: 120 ms (24.0 % of its CPU time)."
        ]
    );
    now.exits[1] = exits("io", 900, 80);
    assert!(found(&now)[0].contains("20,000 times for msr: 90.0 ms"));
    now.exits.pop();
    assert_eq!(found(&now), [""; 0]);
}

#[test]
fn polls_in_vain_count_if_they_are_long() {
    let mut now = window();
    let mut vcpu = actor(Some(0), 500, 0);
    (vcpu.detail.poll_ns, vcpu.detail.halts, vcpu.detail.halts_polled) = (200 * MS, 100, 25);
    now.actors = vec![vcpu];
    assert_eq!(
        found(&now),
        [
            "halt_poll likely: The host polled for web vcpu0 in vain for 150 ms (30.0 % of its CPU time)."
        ]
    );
    now.actors[0].detail.halts_polled = 75;
    assert_eq!(found(&now), [""; 0], "most of them end with a run");
    let detail = &mut now.actors[0].detail;
    (detail.poll_ns, detail.halts_polled) = (60 * MS, 25);
    assert_eq!(found(&now), [""; 0], "45 ms of a second");
}

#[test]
fn a_vm_that_is_scheduled_for_each_request() {
    let mut now = window();
    now.actors = vec![actor(None, 200, 50)];
    (now.actors[0].window.executions, now.actors[0].window.io_count) = (1000, 1100);
    assert_eq!(
        found(&now),
        [
            "ping_pong likely: web ran 1,000 times with 1.10 requests each, and waited 50.0 ms (20.0 %) for it."
        ]
    );
    now.actors[0].window.io_count = 1400;
    assert_eq!(found(&now), [""; 0]);
}

#[test]
fn stalls_for_memory_are_those_of_the_lowest_group() {
    let mut now = window();
    let stalled =
        |group, ms: i64| PressureWindow { memory_some_ns: Some(ms * MS), ..pressure(group) };
    now.pressure = vec![
        stalled(None, 400),
        stalled(Some("/"), 400),
        stalled(Some("/a"), 400),
        stalled(Some("/a/b"), 390),
        stalled(Some("/a/c"), 49),
    ];
    assert_eq!(
        found(&now),
        [
            "reclaim likely: Threads of /a/b waited for memory for 390 ms (39.0 % of the range): most likely the kernel reclaimed memory for them, or read it again."
        ]
    );
}

#[test]
fn windows_below_a_second_have_none_and_several_as_one_have_those_of_their_sums() {
    let mut now = window();
    now.threads = vec![thread(1, "/a", 300, 500), thread(2, "/b", 500, 0)];
    now.antagonists = vec![antagonist(1, 2, 400)];
    let mut short = now.clone();
    short.dur = S - 1;
    assert_eq!(found(&short), [""; 0]);
    let mut calm = now.clone();
    calm.antagonists.clear();
    calm.threads[0].waited_ns = 0;
    now.extend(&calm);
    assert_eq!(
        found(&now),
        ["starved certain: /a waited 400 ms (36.4 % of the time that it wanted a CPU) behind /b."]
    );
    assert_eq!(now.findings()[0].dur, 2 * S);
}

#[test]
fn their_number_is_bounded() {
    let mut now = window();
    for tid in 1..2000 {
        now.threads.push(thread(tid, &format!("/g{tid}"), 100, 300));
        now.antagonists.push(antagonist(tid, 5000, 200 + i64::from(tid % 100)));
    }
    let found = now.findings();
    assert_eq!(found.len(), 256);
    assert_eq!(found[0].held_ns, 299 * MS);
    assert_eq!(now.rows(), 2 + 1999 * 2 + 256 + 1);
}

/// The log of a nested host on which `greedy` has the CPU that `starved` wants.
#[test]
fn the_hog_of_a_real_log_is_named() {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/live/nested.jsonl");
    let text = fs::read(path).unwrap();
    let windows: Vec<Snapshot> =
        lines::Reader::new(text.as_slice()).collect::<Result<_, _>>().unwrap();
    assert!(!windows.is_empty());
    for window in &windows {
        let found = window.findings();
        let of_it: Vec<_> = found.iter().filter(|f| f.subject == "starved vcpu0").collect();
        let starved = of_it.iter().find(|f| f.detector == "starved").unwrap();
        assert!(starved.sentence.ends_with("behind greedy vcpu0."), "{}", starved.sentence);
        assert!(starved.share > 0.8, "{}", starved.sentence);
        // The rows that are written can be read, and are made anew of what was read.
        let mut log = Vec::new();
        lines::write(window, &mut log).unwrap();
        let again = lines::Reader::new(log.as_slice()).next().unwrap().unwrap();
        assert_eq!(again.findings(), found);
        let written = String::from_utf8(log).unwrap();
        assert_eq!(written.matches("{\"table\":\"findings\"").count(), found.len());
    }
}

proptest! {
    /// Of a log anything can be read.
    #[test]
    fn any_numbers_have_findings(numbers in proptest::collection::vec(any::<i64>(), 12), count: u64) {
        let mut now = window();
        let mut one = thread(1, "/a", 0, 0);
        (one.gotten_ns, one.waited_ns, one.unattributed_ns) = (numbers[0], numbers[1], numbers[2]);
        let mut other = thread(2, "/b", 0, 0);
        (other.gotten_ns, other.dur) = (numbers[3], numbers[4]);
        now.threads = vec![one.clone(), one, other];
        let mut ways = [antagonist(1, 2, 0), antagonist(1, 0, 0), antagonist(1, 2, 0)];
        for (way, ns) in ways.iter_mut().zip(&numbers[5..]) {
            (way.ns, way.times) = (*ns, count);
        }
        now.antagonists = ways.to_vec();
        let mut row = quota("/a", 0, count);
        (row.throttled_ns, row.memory_some_ns) = (Some(numbers[8]), Some(numbers[9]));
        (row.ts, row.dur) = (numbers[10], numbers[11]);
        now.pressure = vec![row];
        let mut vcpu = actor(Some(0), 0, 0);
        (vcpu.detail.poll_ns, vcpu.detail.halts, vcpu.window.gotten_ns) = (numbers[0], count, numbers[1]);
        let mut vm = actor(None, 0, 0);
        (vm.window.gotten_ns, vm.window.waited_ns) = (numbers[2], numbers[3]);
        (vm.window.executions, vm.window.io_count) = (count, count);
        now.actors = vec![vcpu, vm];
        let mut storm = exits("io", count, 0);
        storm.0.handling_ns = numbers[4];
        now.exits = vec![storm];
        (now.ts, now.dur) = (numbers[6], numbers[7].max(S));
        prop_assert!(now.findings().len() <= 8);
    }
}
