//! Tracks that are more than their rows: instants, numbers, and what is cut by another layer.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "tests report by failing, and are of small numbers"
)]

use crate::common;
use crate::common::{HOST, Place, Random, VM, machines};
use transect_model::event::DeviceName;
use transect_model::ids::{CpuId, Tid, VcpuId};
use transect_model::state::{CounterName, EffectiveState, NetDirection, ThreadState, VcpuState};
use transect_model::table::{
    Counter, CpuSlice, Machine, NetIo, Row, Thread, ThreadStateRow, Vcpu, VcpuStateRow, Window,
};
use transect_timeline::{Kind, Shape, Tile, View};

fn track_of(view: &View, kind: Kind) -> u32 {
    view.tracks().iter().find(|track| track.actor.kind == kind).unwrap().track
}

/// A bucket of instants is full, and divided as they are.
#[test]
fn instants_are_counted() {
    let mut random = Random::new(5);
    let mut ts = 0;
    let packets: Vec<NetIo> = (0..20_000)
        .map(|_| {
            ts += random.length();
            let direction = [NetDirection::Xmit, NetDirection::Receive][random.below(2) as usize];
            NetIo {
                ts,
                machine_id: HOST,
                cpu: CpuId(0),
                tid: Tid(1),
                device: DeviceName::new(b"eth0"),
                direction,
                bytes: 1,
                code: None,
            }
        })
        .collect();
    let rows = packets.iter().cloned().map(Row::NetIo);
    let view = Place::new(machines().into_iter().chain(rows)).ensure(2).unwrap();
    let track = track_of(&view, Kind::Net);
    let top = view.top_level();
    let mut compared = 0;
    for level in top - 3..=top + 2 {
        for index in 0..1_i64 << (top.saturating_sub(level)) {
            let Some(Tile::Shares(shares)) = view.tile(track, level, index).unwrap() else {
                continue;
            };
            for share in &shares {
                let from = view.origin() + ((index * 512 + i64::from(share.bucket)) << level);
                let within = |p: &&NetIo| (from..from + (1 << level)).contains(&p.ts);
                let all = packets.iter().filter(within);
                let label = &view.keys()[share.key as usize].label;
                let own = all.clone().filter(|p| p.direction.as_str() == label).count();
                let exact = own * 65535 / all.count();
                assert!(own > 0 && exact.abs_diff(share.share.into()) <= 1);
                compared += 1;
            }
        }
    }
    assert!(compared > 1000);
}

#[test]
fn numbers_have_extremes_and_a_mean() {
    let mut random = Random::new(6);
    let mut ts = 0;
    let mut values: Vec<(i64, Option<i64>)> = (0..20_000)
        .map(|_| {
            ts += random.length();
            let value = i64::try_from(random.below(1000)).unwrap() - 500;
            (ts, (random.below(20) > 0).then_some(value))
        })
        .collect();
    let rows = values.iter().map(|(ts, value)| {
        Row::Counter(Counter {
            ts: *ts,
            machine_id: VM,
            vcpu: Some(VcpuId(0)),
            cpu: None,
            device: None,
            name: CounterName::HaltPollNs,
            value: *value,
        })
    });
    let view = Place::new(machines().into_iter().chain(rows)).ensure(2).unwrap();
    let track = track_of(&view, Kind::Counter);
    // The last value holds until the end.
    values.push((view.to(), None));
    let top = view.top_level();
    let Some(Tile::Values(buckets)) = view.tile(track, top, 0).unwrap() else { panic!("no sums") };
    assert!(buckets.len() > 256);
    for bucket in buckets {
        let from = view.origin() + (i64::from(bucket.bucket) << top);
        let to = from + (1 << top);
        let held = values.windows(2).filter_map(|pair| {
            let (ts, end) = (pair[0].0.max(from), pair[1].0.min(to));
            (ts < end).then_some((pair[0].1?, end - ts))
        });
        let known: Vec<(i64, i64)> = held.collect();
        let area: i64 = known.iter().map(|(value, ns)| value * ns).sum();
        let ns: i64 = known.iter().map(|(_, ns)| ns).sum();
        #[expect(clippy::cast_precision_loss, reason = "compared with a tolerance")]
        let (mean, min, max) = (
            area as f64 / ns as f64,
            known.iter().map(|(value, _)| *value).min().unwrap() as f64,
            known.iter().map(|(value, _)| *value).max().unwrap() as f64,
        );
        assert!((bucket.mean - mean).abs() < 1e-6 && bucket.min == min && bucket.max == max);
    }
}

fn vcpu_state(ts: i64, dur: i64, state: VcpuState, by: Option<i32>) -> Row {
    Row::VcpuState(VcpuStateRow {
        ts,
        dur,
        machine_id: VM,
        vcpu: VcpuId(0),
        cpu: Some(CpuId(3)),
        state,
        reason: None,
        by_machine_id: by.map(|_| VM),
        by_tid: by.map(Tid),
    })
}

fn asleep(ts: i64, dur: i64) -> Row {
    Row::ThreadState(ThreadStateRow {
        ts,
        dur,
        machine_id: VM,
        tid: Tid(7),
        cpu: None,
        state: ThreadState::Blocked,
        effective: None,
        reason: None,
        waker_tid: None,
        waker_context: None,
    })
}

fn slice(ts: i64, dur: i64, on: (transect_model::ids::MachineId, u32), tid: i32) -> CpuSlice {
    let (machine_id, cpu) = (on.0, CpuId(on.1));
    CpuSlice { ts, dur, machine_id, cpu, tid: Some(Tid(tid)), vcpu_machine_id: None, vcpu: None }
}

fn labels(view: &View, kind: Kind) -> Vec<(i64, i64, String)> {
    let shown = view.intervals(track_of(view, kind), 0, 1 << 40, 1 << 20).unwrap();
    shown.iter().map(|i| (i.ts, i.dur, view.keys()[i.key as usize].label.clone())).collect()
}

/// A guest's thread says who kept its vCPU from running, and the host's CPU which thread ran.
#[test]
fn layers_are_fused() {
    let thread = |ts, dur, effective| {
        Row::ThreadState(ThreadStateRow {
            ts,
            dur,
            machine_id: VM,
            tid: Tid(7),
            cpu: Some(CpuId(0)),
            state: ThreadState::Running,
            effective,
            reason: None,
            waker_tid: None,
            waker_context: None,
        })
    };
    let vcpu =
        |vcpu, tid| Row::Vcpu(Vcpu { machine_id: VM, vcpu: VcpuId(vcpu), vmm_tid: Some(Tid(tid)) });
    let of_vcpu = CpuSlice {
        vcpu_machine_id: Some(VM),
        vcpu: Some(VcpuId(0)),
        ..slice(1000, 400, (HOST, 3), 70)
    };
    let rows = vec![
        vcpu(0, 70),
        vcpu(1, 71),
        vcpu_state(1000, 200, VcpuState::Guest, None),
        vcpu_state(1200, 300, VcpuState::Preempted, Some(71)),
        vcpu_state(1500, 100, VcpuState::Preempted, Some(99)),
        vcpu_state(1600, 400, VcpuState::Guest, None),
        thread(1000, 200, Some(EffectiveState::Running)),
        thread(1200, 450, Some(EffectiveState::VcpuPreempted)),
        Row::CpuSlice(of_vcpu),
        Row::CpuSlice(slice(1400, 600, (HOST, 3), 99)),
        Row::CpuSlice(slice(900, 250, (VM, 0), 7)),
        Row::CpuSlice(slice(1150, 50, (VM, 0), 0)),
        Row::CpuSlice(slice(1200, 800, (VM, 0), 8)),
    ];
    let view = Place::new(machines().into_iter().chain(rows)).ensure(2).unwrap();
    let expected = [
        (1000, 200, "running"),
        (1200, 300, "preempted by web1 vCPU 1"),
        (1500, 100, "preempted by web1, thread 99"),
        (1600, 50, "guest"),
    ];
    let own = |(ts, dur, label): (i64, i64, &str)| (ts, dur, label.to_owned());
    assert_eq!(labels(&view, Kind::Thread), expected.map(own));
    let inside = [(1000, 150, "thread 7"), (1200, 200, "thread 8")];
    assert_eq!(labels(&view, Kind::CpuGuest), inside.map(own));
}

/// Threads of a container are in a group of its own, and it has its own numbers; those at the root are where they were.
#[test]
fn containers_are_groups_of_threads() {
    let thread = |tid, cgroup: Option<&str>| {
        Row::Thread(Thread {
            machine_id: HOST,
            tid: Tid(tid),
            pid: None,
            name: format!("t{tid}"),
            cgroup: cgroup.map(str::to_owned),
            allowed_cpus: None,
            policy: None,
            nice: None,
            rt_priority: None,
        })
    };
    let state = |tid, ts| {
        Row::ThreadState(ThreadStateRow {
            ts,
            dur: 10,
            machine_id: HOST,
            tid: Tid(tid),
            cpu: Some(CpuId(0)),
            state: ThreadState::Running,
            effective: None,
            reason: None,
            waker_tid: None,
            waker_context: None,
        })
    };
    let window = |cgroup: &str| {
        Row::from(Window {
            gotten_ns: 30,
            waited_ns: 10,
            cgroup: Some(cgroup.to_owned()),
            ..common::window(HOST, 0, 100)
        })
    };
    let rows = [
        thread(1, Some("/")),
        thread(2, Some("/docker/a")),
        thread(3, Some("/docker/b")),
        thread(4, Some("/docker/a")),
        thread(5, None),
        window("/"),
        window("/docker/a"),
    ];
    let states = [1, 2, 3, 4, 5].map(|tid| state(tid, i64::from(tid) * 10));
    let view = Place::new(machines().into_iter().chain(rows).chain(states)).ensure(1).unwrap();
    let name_of = |track: Option<u32>| view.track(track.unwrap()).unwrap().name.clone();
    let threads = view.tracks().iter().filter(|track| track.actor.kind == Kind::Thread);
    let groups: Vec<_> = threads.map(|thread| name_of(thread.parent)).collect();
    assert_eq!(groups, ["threads", "/docker/a", "/docker/b", "/docker/a", "threads"]);
    let group = view.tracks().iter().find(|track| track.name == "/docker/a").unwrap();
    assert_eq!((group.actor.kind, name_of(group.parent)), (Kind::Cgroup, "threads".to_owned()));
    let counters = view.tracks().iter().filter(|track| track.actor.kind == Kind::Counter);
    let counters: Vec<_> = counters.map(|track| track.name.as_str()).collect();
    assert_eq!(counters, ["gotten %, /docker/a", "waited %, /docker/a"]);
}

#[test]
fn recording_in_ticks_has_no_rates_per_second() {
    let tracks = |time_unit: &str| {
        let machines = machines().into_iter().map(|row| match row {
            Row::Machine(machine) => {
                Row::from(Machine { time_unit: Some(time_unit.to_owned()), ..*machine })
            }
            other => other,
        });
        let window = Row::from(Window { exits: 7, ..common::window(HOST, 0, 100) });
        let view = Place::new(machines.chain([window])).ensure(1).unwrap();
        let counters = view.tracks().iter().filter(|track| track.actor.kind == Kind::Counter);
        counters.map(|track| track.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(tracks("ns"), ["I/O/s", "exits/s", "gotten %", "waited %"]);
    assert_eq!(tracks("ticks"), ["gotten %", "waited %"]);
}

/// Time that is worked or waited makes a track busy, in all and in any range; sleep does not.
#[test]
fn what_sleeps_is_not_busy() {
    let mut random = Random::new(9);
    let states = [VcpuState::Guest, VcpuState::Halted, VcpuState::Preempted, VcpuState::Blocked];
    let mut ts = 0;
    let rows: Vec<(i64, i64, VcpuState)> = (0..30_000)
        .map(|_| {
            let (dur, state) = (random.length(), states[random.below(4) as usize]);
            ts += dur;
            (ts - dur, dur, state)
        })
        .collect();
    let made = rows.iter().map(|(ts, dur, state)| vcpu_state(*ts, *dur, *state, None));
    let sleeps = (0..10).map(|at| asleep(at * 10, 10));
    let view = Place::new(machines().into_iter().chain(made).chain(sleeps)).ensure(2).unwrap();
    let is_busy = |state| matches!(state, VcpuState::Guest | VcpuState::Preempted);
    let brute = |from: i64, to: i64| -> i64 {
        let busy = rows.iter().filter(|(_, _, state)| is_busy(*state));
        busy.map(|(ts, dur, _)| ((ts + dur).min(to) - (*ts).max(from)).max(0)).sum()
    };
    let vcpu = view.tracks().iter().find(|track| track.actor.kind == Kind::Vcpu).unwrap();
    assert_eq!(vcpu.busy_ns, brute(0, ts));
    assert_eq!(vcpu.shape, Some(Shape::Intervals));
    let thread = view.tracks().iter().find(|track| track.actor.kind == Kind::Thread).unwrap();
    assert_eq!((thread.busy_ns, thread.shape), (0, Some(Shape::Intervals)), "it slept");
    let mut exact = 0;
    for _ in 0..200 {
        let from = i64::try_from(random.below(ts.unsigned_abs())).unwrap();
        let to = (from + random.length() * random.length()).min(ts);
        let (told, known) = (view.busy_ns(vcpu.track, from, to).unwrap(), brute(from, to));
        // Buckets of the tiles that are read are at most a 256th of the range; shares are rounded.
        let off = (to - from) / 100 + 2;
        assert!((told - known).abs() <= off, "{from} to {to}: {told}, not {known}");
        exact += usize::from(told == known);
    }
    assert!(exact > 50, "{exact} were exact");
    assert_eq!(view.busy_ns(vcpu.track, ts + 5, ts + 9).unwrap(), 0);
}
