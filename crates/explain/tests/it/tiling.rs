//! Whatever the rows say, the pieces of a path tile its window.

use proptest::prelude::*;
use transect_explain::{
    Actor, Gathered, Rows, ThreadId, alike,
    detect::{Range, findings, needed},
    layers, waits, walk,
};
use transect_model::{
    cause::{CauseKind, Evidence},
    event::BlockOp,
    ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    state::{ThreadState, VcpuState},
    table::{
        BlockIo, Cause, CpuSlice, Irq, LockWait, Machine, Row, TableSink as _, Tables, Thread,
        ThreadStateRow, Vcpu, VcpuStateRow,
    },
};

const END: i64 = 60;

fn machine(id: u32) -> Machine {
    Machine {
        machine_id: MachineId(id),
        parent_id: (id > 0).then_some(MachineId(0)),
        kind: if id > 0 { MachineKind::Guest } else { MachineKind::Host },
        name: format!("m{id}"),
        domid: None,
        vmm_pid: None,
        cgroup: None,
        clock: None,
        error_bound_ns: None,
        time_unit: Some("ns".into()),
    }
}

/// A number of stretches from 0 to `END` with a choice each; some are left out.
fn stretches(choices: u8) -> impl Strategy<Value = Vec<(i64, i64, u8)>> {
    prop::collection::vec((1..9_i64, 0..choices, 0..12_u8), 1..14).prop_map(|parts| {
        let mut at = 0;
        let mut rows = Vec::new();
        for (dur, choice, kept) in parts {
            if kept > 0 {
                rows.push((at, dur, choice));
            }
            at += dur;
        }
        rows
    })
}

fn thread_states(machine: u32, tid: i32) -> impl Strategy<Value = Vec<ThreadStateRow>> {
    let states =
        [ThreadState::Running, ThreadState::Runnable, ThreadState::Blocked, ThreadState::Unknown];
    stretches(12).prop_map(move |rows| {
        let row = |(ts, dur, choice): (i64, i64, u8)| ThreadStateRow {
            ts,
            dur,
            machine_id: MachineId(machine),
            tid: Tid(tid),
            cpu: Some(CpuId(u32::from(choice % 3))).filter(|cpu| cpu.0 < 2),
            state: states[usize::from(choice / 3)],
            effective: None,
            reason: None,
            waker_tid: None,
            waker_context: None,
        };
        rows.into_iter().map(row).collect()
    })
}

fn slices(machine: u32, cpu: u32) -> impl Strategy<Value = Vec<CpuSlice>> {
    stretches(5).prop_map(move |rows| {
        let row = |(ts, dur, choice): (i64, i64, u8)| CpuSlice {
            ts,
            dur,
            machine_id: MachineId(machine),
            cpu: CpuId(cpu),
            tid: Some(Tid(i32::from(choice))).filter(|tid| tid.0 < 4),
            vcpu_machine_id: None,
            vcpu: None,
        };
        rows.into_iter().map(row).collect()
    })
}

fn vcpu_states(vcpu: u32) -> impl Strategy<Value = Vec<VcpuStateRow>> {
    stretches(26).prop_map(move |rows| {
        let row = |(ts, dur, choice): (i64, i64, u8)| VcpuStateRow {
            ts,
            dur,
            machine_id: MachineId(1),
            vcpu: VcpuId(vcpu),
            cpu: Some(CpuId(u32::from(choice) % 2)),
            state: VcpuState::ALL[usize::from(choice / 2)],
            reason: None,
            by_machine_id: (choice % 2 == 0).then_some(MachineId(0)),
            by_tid: (choice % 2 == 0).then_some(Tid(i32::from(choice % 4))),
        };
        rows.into_iter().map(row).collect()
    })
}

fn irqs(machine: u32, cpu: u32) -> impl Strategy<Value = Vec<Irq>> {
    stretches(2).prop_map(move |rows| {
        let row = |(ts, dur, choice): (i64, i64, u8)| Irq {
            ts,
            dur,
            machine_id: MachineId(machine),
            cpu: CpuId(cpu),
            softirq: choice > 0,
            source: if choice > 0 { IrqSource::Softirq } else { IrqSource::Line },
            vector: 1,
        };
        rows.into_iter().map(row).collect()
    })
}

fn cause() -> impl Strategy<Value = Cause> {
    let contexts = [None, Some(Context::Task), Some(Context::Softirq), Some(Context::Irq)];
    let numbers = (0..2_u32, 0..3_u32, 0..5_i32, 0..2_u32, 0..3_u32, 0..5_i32);
    let times = (0..END, -3..20_i64);
    (times, 0..CauseKind::ALL.len(), numbers, 0..4_usize, 0..3_usize, any::<bool>()).prop_map(
        move |((ts, dur), kind, (m, cpu, tid, to, to_cpu, to_tid), context, evidence, known)| {
            let kind = CauseKind::ALL[kind];
            Cause {
                ts,
                dur,
                kind,
                machine_id: MachineId(m),
                cpu: Some(CpuId(cpu)).filter(|cpu| cpu.0 < 2),
                tid: Some(Tid(tid)).filter(|tid| tid.0 < 4),
                vector: known.then_some(1),
                context: contexts[context],
                to_machine_id: MachineId(to),
                to_cpu: Some(CpuId(to_cpu)).filter(|cpu| cpu.0 < 2),
                to_tid: Some(Tid(to_tid)).filter(|tid| tid.0 < 4),
                to_vcpu: (kind == CauseKind::Injection).then_some(VcpuId(0)),
                id: None,
                evidence: [Evidence::Id, Evidence::Context, Evidence::Order][evidence],
                candidates: 1,
                error_ns: known.then_some(2),
            }
        },
    )
}

fn request() -> impl Strategy<Value = BlockIo> {
    (0..END, 0..20_i64, 0..2_u32, 0..4_i32).prop_map(|(ts, dur, m, tid)| BlockIo {
        ts,
        dur: Some(dur),
        machine_id: MachineId(m),
        tid: Tid(tid),
        device: BlockDevice(0),
        sector: 0,
        bytes: 512,
        op: BlockOp::Read,
        issue_ns: Some(dur / 3),
        complete_cpu: None,
        error: None,
    })
}

fn lock() -> impl Strategy<Value = LockWait> {
    (0..END, 0..9_i64, 0..2_u32, 0..4_i32, 0..5_i32).prop_map(|(ts, dur, m, tid, owner)| LockWait {
        ts,
        dur: Some(dur),
        machine_id: MachineId(m),
        cpu: CpuId(0),
        tid: Tid(tid),
        lock: 1,
        kind: transect_model::cause::LockKind::Mutex,
        owner_tid: Some(Tid(owner)).filter(|tid| tid.0 < 4),
    })
}

fn tables() -> impl Strategy<Value = Tables> {
    let all = |n: i32| (0..2_u32).flat_map(move |m| (0..n).map(move |i| (m, i)));
    let threads: Vec<_> = all(4).map(|(m, tid)| thread_states(m, tid)).collect();
    let on_cpus: Vec<_> = all(2).map(|(m, cpu)| slices(m, cpu.unsigned_abs())).collect();
    let handlers: Vec<_> = all(2).map(|(m, cpu)| irqs(m, cpu.unsigned_abs())).collect();
    let many = (
        prop::collection::vec(cause(), 0..60),
        prop::collection::vec(request(), 0..6),
        prop::collection::vec(lock(), 0..6),
    );
    (threads, on_cpus, (vcpu_states(0), vcpu_states(1)), handlers, many, any::<bool>()).prop_map(
        |(threads, on_cpus, vcpus, handlers, (mut causes, block_io, locks), fit)| {
            let thread_states: Vec<ThreadStateRow> = threads.into_iter().flatten().collect();
            if fit {
                // Causes that end where a row does, so that they are followed.
                for (cause, row) in causes.iter_mut().zip(thread_states.iter().rev().cycle()) {
                    cause.dur = row.ts + row.dur - cause.ts;
                    cause.to_machine_id = row.machine_id;
                    cause.to_tid = Some(row.tid);
                }
            }
            let vcpu = |n: u32| Vcpu {
                machine_id: MachineId(1),
                vcpu: VcpuId(n),
                vmm_tid: Some(Tid(n.cast_signed() + 1)),
            };
            Tables {
                machines: vec![machine(0), machine(1)],
                vcpus: vec![vcpu(0), vcpu(1)],
                thread_states,
                cpu_slices: on_cpus.into_iter().flatten().collect(),
                vcpu_states: [vcpus.0, vcpus.1].concat(),
                irqs: handlers.into_iter().flatten().collect(),
                causes,
                block_io,
                locks,
                ..Tables::default()
            }
        },
    )
}

/// Threads that wake each other and sleep, one step after the other: long chains of causes, some of them through threads of a VMM.
fn chains() -> impl Strategy<Value = Tables> {
    let step = (0..4_i64, 0..8_usize, 0..8_usize);
    (prop::collection::vec(step, 0..200), prop::collection::vec(0..4_i32, 0..4)).prop_map(
        |(steps, tids)| {
            let pid = Some(Tid(3));
            let of_vmm = |tid: i32| Thread {
                machine_id: MachineId(0),
                tid: Tid(tid),
                pid,
                name: format!("t{tid}"),
                cgroup: None,
                allowed_cpus: None,
                policy: None,
                nice: None,
                rt_priority: None,
            };
            let mut tables = Tables {
                machines: vec![machine(0), Machine { vmm_pid: pid, ..machine(1) }],
                threads: tids.into_iter().map(of_vmm).collect(),
                ..Tables::default()
            };
            let who = |n: usize| (MachineId(u32::from(n > 3)), Tid([0, 1, 2, 3][n % 4]));
            let (mut t, mut since, mut sleeps) = (0, [0; 8], [false; 8]);
            let end_row = |tables: &mut Tables, n: usize, from: i64, t: i64, sleeps: bool| {
                let (machine_id, tid) = who(n);
                tables.thread_states.push(ThreadStateRow {
                    ts: from,
                    dur: t - from,
                    machine_id,
                    tid,
                    cpu: Some(CpuId(0)),
                    state: if sleeps { ThreadState::Blocked } else { ThreadState::Running },
                    effective: None,
                    reason: None,
                    waker_tid: None,
                    waker_context: None,
                });
            };
            for (passed, a, b) in steps {
                t += passed;
                if sleeps[a] {
                    continue;
                }
                let changed = if sleeps[b] { b } else { a };
                end_row(&mut tables, changed, since[changed], t, sleeps[changed]);
                if changed == b && a != b {
                    let ((machine_id, tid), (to_machine_id, to_tid)) = (who(a), who(b));
                    tables.causes.push(Cause {
                        ts: t,
                        dur: 0,
                        kind: CauseKind::Wakeup,
                        machine_id,
                        cpu: Some(CpuId(0)),
                        tid: Some(tid),
                        vector: None,
                        context: Some(Context::Task),
                        to_machine_id,
                        to_cpu: Some(CpuId(0)),
                        to_tid: Some(to_tid),
                        to_vcpu: None,
                        id: None,
                        evidence: Evidence::Id,
                        candidates: 1,
                        error_ns: Some(0),
                    });
                }
                (since[changed], sleeps[changed]) = (t, !sleeps[changed]);
            }
            for n in 0..8 {
                end_row(&mut tables, n, since[n], t + 1, sleeps[n]);
            }
            tables
        },
    )
}

fn each_row(tables: &Tables) -> Vec<Row> {
    fn of<R: Clone + Into<Row>>(rows: &[R]) -> impl Iterator<Item = Row> {
        rows.iter().cloned().map(Into::into)
    }
    let actors = of(&tables.machines).chain(of(&tables.vcpus));
    let states =
        of(&tables.thread_states).chain(of(&tables.cpu_slices)).chain(of(&tables.vcpu_states));
    let events = of(&tables.irqs).chain(of(&tables.causes)).chain(of(&tables.block_io));
    actors.chain(states).chain(events).chain(of(&tables.locks)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn pieces_tile_every_window(tables in tables(), from in -5..END, length in 0..END) {
        let rows = Rows::new(&tables);
        for machine in [0, 1] {
            for tid in 0..4 {
                let root = ThreadId { machine: MachineId(machine), tid: Tid(tid) };
                let path = walk(&rows, Actor::Thread(root), (from, from + length));
                let mut at = from;
                for piece in &path.pieces {
                    prop_assert_eq!(piece.ts, at);
                    prop_assert!(piece.dur > 0);
                    prop_assert!(piece.by.is_none() || piece.doing.is_wait());
                    at = piece.end();
                }
                prop_assert_eq!(at, from + length);
                // Each step reaches an earlier moment, or asks somebody new at this one.
                prop_assert!(path.walked.steps <= 200 * u64::try_from(length + 1).unwrap(), "{}", path.walked.steps);
                let pieces = alike(&path.pieces);
                let sum: i64 = layers(&rows, &pieces).iter().map(|(_, ns)| ns).sum();
                prop_assert_eq!(sum, length);
            }
        }
    }

    #[test]
    fn chains_of_causes_tile_every_window(tables in chains(), from in -5..200_i64, length in 0..300_i64) {
        let rows = Rows::new(&tables);
        for root in rows.threads() {
            let path = walk(&rows, Actor::Thread(root), (from, from + length));
            let mut at = from;
            for piece in &path.pieces {
                prop_assert_eq!(piece.ts, at);
                prop_assert!(piece.dur > 0);
                at = piece.end();
            }
            prop_assert_eq!(at, from + length);
            prop_assert!(path.walked.steps <= 200 * u64::try_from(length + 1).unwrap(), "{}", path.walked.steps);
        }
    }

    /// Rows that sinks took table by table are those that one sink takes.
    #[test]
    fn tables_are_gathered_apart(tables in tables(), from in -5..END, length in 1..END) {
        let apart = Gathered::by_table(&needed(), |part| {
            each_row(&tables).into_iter().for_each(|row| part.row(row));
            Ok::<(), ()>(())
        });
        let (small, packed) = apart.unwrap().into_parts();
        let (whole, apart) = (Rows::new(&tables), Rows::of(&small, packed));
        let until = from + length;
        prop_assert_eq!(whole.actors(), apart.actors());
        for actor in whole.actors() {
            prop_assert_eq!(walk(&whole, actor, (from, until)), walk(&apart, actor, (from, until)));
        }
        let range = Range { from, until, second: Some(1) };
        prop_assert_eq!(findings(&whole, &tables, range), findings(&apart, &small, range));
        let failed = Gathered::by_table(&needed(), |part| {
            if part.wants(&CpuSlice::TABLE) { Err("damaged") } else { Ok(()) }
        });
        prop_assert_eq!(failed.err(), Some("damaged"));
    }

    /// Rows that a sink took one by one are those of the tables.
    #[test]
    fn gathered_rows_are_those_of_the_tables(tables in tables(), from in -5..END, length in 1..END) {
        let mut gathered = Gathered::new(&needed());
        for row in each_row(&tables) {
            gathered.row(row);
        }
        let (small, packed) = gathered.into_parts();
        prop_assert!(small.thread_states.is_empty() && small.causes.is_empty());
        let (whole, packed) = (Rows::new(&tables), Rows::of(&small, packed));
        let until = from + length;
        prop_assert_eq!(whole.actors(), packed.actors());
        prop_assert_eq!(whole.extent(), packed.extent());
        for actor in whole.actors() {
            prop_assert_eq!(walk(&whole, actor, (from, until)), walk(&packed, actor, (from, until)));
        }
        let range = Range { from, until, second: Some(1) };
        prop_assert_eq!(findings(&whole, &tables, range), findings(&packed, &small, range));
    }

    #[test]
    fn waits_are_the_runnable_time(tables in tables(), from in -5..END, length in 1..END) {
        let rows = Rows::new(&tables);
        let until = from + length;
        for root in rows.threads() {
            let pieces = waits(&rows, root, (from, until));
            prop_assert!(pieces.windows(2).all(|two| two[0].end() <= two[1].ts));
            prop_assert!(pieces.iter().all(|piece| piece.doing.is_wait() && piece.depth == 0));
            let of = tables.thread_states.iter().filter(|row| {
                (row.machine_id, row.tid, row.state)
                    == (root.machine, root.tid, ThreadState::Runnable)
            });
            let runnable: i64 = of
                .map(|row| ((row.ts + row.dur).min(until) - row.ts.max(from)).max(0))
                .sum();
            prop_assert_eq!(pieces.iter().map(|piece| piece.dur).sum::<i64>(), runnable);
        }
        for vcpu in [0, 1] {
            let path = walk(&rows, Actor::Vcpu(MachineId(1), VcpuId(vcpu)), (from, until));
            prop_assert_eq!(path.pieces.iter().map(|piece| piece.dur).sum::<i64>(), length);
            prop_assert!(path.pieces.windows(2).all(|two| two[0].end() == two[1].ts));
        }
        let range = Range { from, until, second: Some(1) };
        for finding in findings(&rows, &tables, range) {
            prop_assert!((0.0..=1.0).contains(&finding.share()), "{:?}", finding);
        }
    }
}
