//! Whatever the events say: states tile time, sums are exact, nothing panics.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "a handful of actors; a failed expectation is the report"
)]

mod dsl;

use dsl::{Nanoseconds, assert_tiles, per_actor};
use proptest::prelude::*;
use transect_engine::{
    Engine, Input, LostCause, LostEvents, Options, StreamItem, StreamKey, Summary, Topology,
    topology::{MachineInfo, ThreadInfo, VcpuInfo},
};
use transect_model::{
    event::{Access, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid, VcpuId},
    state::{Metric, ThreadState},
    table::Tables,
    time::Timestamp,
};

const HOST_CPUS: u32 = 3;
const GUEST_CPUS: u32 = 2;

/// One host, one VM with two vCPUs (threads 4 and 5), a control group around some threads.
fn topology(known: bool) -> Topology {
    let mut topology = Topology {
        machines: vec![
            MachineInfo::host(MachineId(0), "host"),
            MachineInfo::guest(MachineId(1), MachineId(0), "vm"),
        ],
        ..Topology::default()
    };
    if known {
        topology.vcpus = (0..GUEST_CPUS)
            .map(|n| VcpuInfo {
                machine: MachineId(1),
                vcpu: VcpuId(n),
                vmm_tid: Some(Tid(4 + n as i32)),
                guest_cpu: CpuId(n),
            })
            .collect();
        topology.threads = (3..6)
            .map(|tid| ThreadInfo {
                machine: MachineId(0),
                tid: Tid(tid),
                pid: Some(Tid(3)),
                name: "qemu".into(),
                cgroup: Some("/vm".into()),
            })
            .collect();
    }
    topology
}

fn tid() -> impl Strategy<Value = Tid> {
    (0..8i32).prop_map(Tid)
}

fn event(lives: bool) -> BoxedStrategy<Option<CoreEvent>> {
    let comm = Comm::default();
    let state =
        prop::sample::select(if lives { vec![0x100, 1, 2, 0x10] } else { vec![0x100, 1, 2] });
    let switch =
        (tid(), state, tid()).prop_map(move |(prev, state, next)| CoreEvent::SchedSwitch {
            prev,
            prev_comm: comm,
            prev_prio: 120,
            prev_state: PrevState(state),
            next,
            next_comm: comm,
            next_prio: 120,
        });
    let waking = (tid(), 0..HOST_CPUS, any::<bool>()).prop_map(move |(tid, cpu, done)| {
        let target_cpu = CpuId(cpu);
        if done {
            CoreEvent::SchedWakeup { tid, comm, prio: 120, target_cpu }
        } else {
            CoreEvent::SchedWaking { tid, comm, prio: 120, target_cpu }
        }
    });
    let migrate = (tid(), 0..HOST_CPUS).prop_map(|(tid, cpu)| CoreEvent::SchedMigrate {
        tid,
        orig_cpu: CpuId(0),
        dest_cpu: CpuId(cpu),
    });
    let entry = prop::option::of(0..3u32)
        .prop_map(|vcpu| CoreEvent::KvmEntry { vcpu: vcpu.map(VcpuId), rip: None });
    let reason = prop::sample::select(vec![0x78, 0x7c, 0x400]);
    let exit = (prop::option::of(0..3u32), reason).prop_map(|(vcpu, code)| CoreEvent::KvmExit {
        vcpu: vcpu.map(VcpuId),
        reason: ExitReason { isa: Isa::Svm, code },
        rip: 0,
        info1: 0,
        info2: 0,
    });
    let wakeup = (0..500u64, any::<bool>()).prop_map(|(ns, waited)| CoreEvent::KvmVcpuWakeup {
        ns,
        waited,
        valid: true,
    });
    let poll = (0..100u32).prop_map(|new_ns| CoreEvent::KvmHaltPollNs {
        vcpu: VcpuId(0),
        new_ns,
        old_ns: 0,
    });
    let other = prop_oneof![
        Just(CoreEvent::KvmUserspaceExit { reason: 2, errno: 0 }),
        Just(CoreEvent::KvmPio { access: Access::Write, port: 1016, size: 1, count: 1 }),
        Just(CoreEvent::KvmMsi { address: 0, data: 0 }),
        Just(CoreEvent::SyscallEnter { nr: 1 }),
        Just(CoreEvent::SyscallExit { nr: 1, ret: 0 }),
        Just(CoreEvent::IrqEntry { irq: 3 }),
        Just(CoreEvent::IrqExit { irq: 3, handled: true }),
        Just(CoreEvent::SoftirqEntry { vector: 1 }),
        Just(CoreEvent::SoftirqExit { vector: 1 }),
    ];
    let life = (tid(), tid(), 0..3).prop_map(move |(a, b, kind)| match kind {
        0 => CoreEvent::SchedFork { parent: a, child: b, child_comm: comm },
        1 => CoreEvent::SchedWakeupNew { tid: a, comm, prio: 120, target_cpu: CpuId(0) },
        _ => CoreEvent::SchedExec { tid: a, old_tid: b },
    });
    let core = prop_oneof![
        6 => switch, 3 => waking, 1 => migrate, 3 => entry, 3 => exit, 1 => wakeup, 1 => poll,
        2 => other,
    ];
    if lives {
        prop_oneof![8 => core.prop_map(Some), 1 => life.prop_map(Some), 1 => Just(None)].boxed()
    } else {
        prop_oneof![9 => core.prop_map(Some), 1 => Just(None)].boxed()
    }
}

/// One stream: items with steps in time; `wild` stamps may be anything.
fn stream(lives: bool, wild: bool) -> impl Strategy<Value = Vec<StreamItem>> {
    let step = if wild { any::<u64>().boxed() } else { (0..200u64).boxed() };
    let item = (step, tid(), event(lives), 0..20u8);
    prop::collection::vec(item, 0..60).prop_map(move |items| {
        let mut at = 1000u64;
        let mut out = Vec::new();
        for (step, tid, event, kind) in items {
            at = if wild && kind == 1 { step } else { at.wrapping_add(step % 200) };
            let ts = Timestamp::new(at);
            if kind == 0 {
                out.push(StreamItem::Lost(LostEvents {
                    count: Some(step),
                    cause: LostCause::BufferOverrun,
                }));
            }
            out.push(match event {
                Some(event) => StreamItem::Event { ts, tid, event },
                None => StreamItem::Other { ts, tid },
            });
        }
        out
    })
}

type Streams = Vec<Vec<StreamItem>>;

fn streams(lives: bool, wild: bool) -> impl Strategy<Value = Streams> {
    prop::collection::vec(stream(lives, wild), (HOST_CPUS + GUEST_CPUS) as usize)
}

fn run(streams: &Streams, known: bool, window_ns: i64) -> (Tables, Summary) {
    let key = |at: usize| {
        let at = at as u32;
        let (machine, cpu) = if at < HOST_CPUS { (0, at) } else { (1, at - HOST_CPUS) };
        StreamKey { machine: MachineId(machine), cpu: CpuId(cpu) }
    };
    let inputs = streams
        .iter()
        .enumerate()
        .map(|(at, items)| Input {
            key: key(at),
            stream: items.clone().into_iter(),
            clock: Nanoseconds,
        })
        .collect();
    let mut tables = Tables::default();
    let options = Options { window_ns };
    let summary = Engine::new(topology(known), options).run(inputs, &mut tables).unwrap();
    (tables, summary)
}

fn span(summary: &Summary) -> (i64, i64) {
    summary.span.map_or((0, 0), |span| (span.start.get(), span.end.get()))
}

fn check_tiles(tables: &Tables, summary: &Summary, known: bool, lives: bool) {
    let (start, end) = span(summary);
    let actors = per_actor(tables);
    assert_eq!(start == end, tables.vcpu_states.is_empty() && tables.cpu_slices.is_empty());
    for (actor, intervals) in actors {
        if !(lives && actor.starts_with("thread")) {
            assert_tiles(&actor, intervals, start, end);
            continue;
        }
        let inside = |i: &(i64, i64)| i.0 >= start && i.0 + i.1 <= end && i.1 > 0;
        assert!(intervals.iter().all(inside), "{actor} in [{start}, {end}): {intervals:?}");
        assert!(intervals.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{intervals:?}");
    }
    for row in tables.thread_states.iter().filter(|_| known) {
        let runs_on_vcpu = row.machine_id.0 == 1
            && row.state == ThreadState::Running
            && row.cpu.is_some_and(|cpu| cpu.0 < GUEST_CPUS);
        assert_eq!(row.effective.is_some(), runs_on_vcpu, "{row:?}");
    }
}

fn check_windows(tables: &Tables, summary: &Summary, lives: bool) {
    let (start, end) = span(summary);
    let vcpus = tables.vcpus.len() as i64;
    for window in &tables.windows {
        let sum = window.gotten_ns
            + window.waited_ns
            + window.blocked_ns
            + window.offline_ns
            + window.unknown_ns;
        match (window.vcpu, &window.cgroup) {
            (Some(_), _) => assert_eq!(sum, window.dur),
            (None, None) => {
                let mine = tables.vcpus.iter().filter(|v| v.machine_id == window.machine_id);
                assert_eq!(sum, window.dur * mine.count() as i64);
            }
            (None, Some(_)) if !lives => assert_eq!(sum % window.dur, 0),
            (None, Some(_)) => {}
        }
    }
    let of_vcpus = || tables.windows.iter().filter(|w| w.vcpu.is_some());
    assert_eq!(of_vcpus().map(|w| w.dur).sum::<i64>(), (end - start) * vcpus);
    for metric in [Metric::Gotten, Metric::Waited, Metric::Blocked, Metric::Offline] {
        let states = tables.vcpu_states.iter().filter(|r| r.state.metric() == metric);
        let expected: i64 = states.map(|r| r.dur).sum();
        let got: i64 = of_vcpus()
            .map(|w| match metric {
                Metric::Gotten => w.gotten_ns,
                Metric::Waited => w.waited_ns,
                Metric::Blocked => w.blocked_ns,
                Metric::Offline => w.offline_ns,
                Metric::Unknown => w.unknown_ns,
            })
            .sum();
        assert_eq!(got, expected, "{metric:?}");
    }
}

fn is_exit(item: &StreamItem) -> bool {
    matches!(item, StreamItem::Event { tid: Tid(4 | 5), event: CoreEvent::KvmExit { .. }, .. })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Threads that live throughout: everything tiles the whole span.
    #[test]
    fn states_tile_time(streams in streams(false, false), known: bool, window in 1..5000i64) {
        let (tables, summary) = run(&streams, known, window);
        check_tiles(&tables, &summary, known, false);
        check_windows(&tables, &summary, false);
    }

    /// Threads come and go, numbers are reused.
    #[test]
    fn states_tile_lives(streams in streams(true, false), known: bool) {
        let (tables, summary) = run(&streams, known, 1000);
        check_tiles(&tables, &summary, known, true);
        check_windows(&tables, &summary, true);
    }

    /// Stamps from broken input: nothing panics, tiles stay tiles.
    #[test]
    fn wild_stamps(streams in streams(true, true), known: bool) {
        let (tables, summary) = run(&streams, known, 1_000_000_000_000_000);
        check_tiles(&tables, &summary, known, true);
    }

    /// Every exit of a known vCPU's thread is one row.
    #[test]
    fn every_exit_is_a_row(streams in streams(true, false)) {
        let (tables, _) = run(&streams, true, 1000);
        let host = &streams[..HOST_CPUS as usize];
        let exits = host.iter().flatten().filter(|i| is_exit(i)).count();
        let rows = tables.exits.iter().filter(|e| e.machine_id.0 == 1 && e.vcpu.0 < 2);
        prop_assert!(rows.count() >= exits);
    }
}
