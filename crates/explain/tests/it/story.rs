//! Rows made by hand: a host, and a guest whose vCPU 0 the host's thread 162 runs.

use transect_explain::{Actor, Rows, ThreadId, walk};
use transect_model::{
    cause::{CauseKind, Evidence},
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    setting::SchedPolicy,
    state::{ThreadState, VcpuState},
    table::{Cause, CpuSlice, Irq, Machine, Tables, Thread, ThreadStateRow, Vcpu, VcpuStateRow},
};

pub(crate) const HOST: MachineId = MachineId(0);
pub(crate) const GUEST: MachineId = MachineId(1);

/// Rows under construction.
#[derive(Clone, Default)]
pub(crate) struct Story(pub(crate) Tables);

pub(crate) fn thread(machine: MachineId, tid: i32) -> ThreadId {
    ThreadId { machine, tid: Tid(tid) }
}

impl Story {
    /// A host and a guest whose vCPU 0 the host's thread 162 runs.
    pub(crate) fn new() -> Self {
        let machine = |machine_id: MachineId, name: &str| Machine {
            machine_id,
            parent_id: (machine_id != HOST).then_some(HOST),
            kind: if machine_id == HOST { MachineKind::Host } else { MachineKind::Guest },
            name: name.into(),
            domid: None,
            vmm_pid: None,
            cgroup: None,
            clock: None,
            error_bound_ns: None,
            time_unit: Some("ns".into()),
        };
        Story(Tables {
            machines: vec![machine(HOST, "host"), machine(GUEST, "web")],
            vcpus: vec![Vcpu { machine_id: GUEST, vcpu: VcpuId(0), vmm_tid: Some(Tid(162)) }],
            ..Tables::default()
        })
    }

    /// `R` running, `W` runnable, `S` blocked, each up to its time, from 0.
    pub(crate) fn states(mut self, machine: MachineId, tid: i32, states: &[(char, i64)]) -> Self {
        let mut ts = 0;
        for (letter, end) in states {
            self.0.thread_states.push(ThreadStateRow {
                ts,
                dur: end - ts,
                machine_id: machine,
                tid: Tid(tid),
                cpu: Some(CpuId(0)),
                state: match letter {
                    'R' => ThreadState::Running,
                    'W' => ThreadState::Runnable,
                    'S' => ThreadState::Blocked,
                    _ => ThreadState::Unknown,
                },
                effective: None,
                reason: None,
                waker_tid: None,
                waker_context: None,
            });
            ts = *end;
        }
        self
    }

    pub(crate) fn vcpu(mut self, states: &[(VcpuState, i64)], by: i32) -> Self {
        let mut ts = 0;
        for (state, end) in states {
            let waits = matches!(state, VcpuState::Preempted | VcpuState::Waking);
            self.0.vcpu_states.push(VcpuStateRow {
                ts,
                dur: end - ts,
                machine_id: GUEST,
                vcpu: VcpuId(0),
                cpu: Some(CpuId(0)),
                state: *state,
                reason: (*state == VcpuState::Exit)
                    .then_some(ExitReason { isa: Isa::Svm, code: 0x7b }),
                by_machine_id: waits.then_some(HOST),
                by_tid: waits.then_some(Tid(by)),
            });
            ts = *end;
        }
        self
    }

    pub(crate) fn slices(mut self, machine: MachineId, cpu: u32, tids: &[(i32, i64)]) -> Self {
        let mut ts = 0;
        for (tid, end) in tids {
            self.0.cpu_slices.push(CpuSlice {
                ts,
                dur: end - ts,
                machine_id: machine,
                cpu: CpuId(cpu),
                tid: Some(Tid(*tid)),
                vcpu_machine_id: None,
                vcpu: None,
            });
            ts = *end;
        }
        self
    }

    pub(crate) fn cause(
        mut self,
        kind: CauseKind,
        from: (i64, ThreadId),
        to: (i64, ThreadId),
    ) -> Self {
        self.0.causes.push(Cause {
            ts: from.0,
            dur: to.0 - from.0,
            kind,
            machine_id: from.1.machine,
            cpu: Some(CpuId(0)),
            tid: Some(from.1.tid),
            vector: None,
            context: Some(Context::Task),
            to_machine_id: to.1.machine,
            to_cpu: Some(CpuId(0)),
            to_tid: Some(to.1.tid),
            to_vcpu: None,
            id: None,
            evidence: Evidence::Id,
            candidates: 1,
            error_ns: Some(0),
        });
        self
    }

    /// The last cause is an interrupt's.
    pub(crate) fn by_interrupt(mut self, context: Context) -> Self {
        let cause = self.0.causes.last_mut().unwrap();
        (cause.tid, cause.context) = (None, Some(context));
        self
    }

    /// The last cause has its effect in no thread.
    pub(crate) fn in_handler(mut self) -> Self {
        self.0.causes.last_mut().unwrap().to_tid = None;
        self
    }

    pub(crate) fn in_vcpu(mut self) -> Self {
        let cause = self.0.causes.last_mut().unwrap();
        (cause.to_tid, cause.to_cpu, cause.to_vcpu) = (None, None, Some(VcpuId(0)));
        self
    }

    pub(crate) fn irq(
        mut self,
        machine: MachineId,
        source: IrqSource,
        vector: i32,
        ts: i64,
        end: i64,
    ) -> Self {
        let softirq = source == IrqSource::Softirq;
        let (cpu, dur) = (CpuId(0), end - ts);
        self.0.irqs.push(Irq { ts, dur, machine_id: machine, cpu, softirq, source, vector });
        self
    }

    pub(crate) fn policy(self, tid: i32, policy: SchedPolicy, nice: Option<i32>) -> Self {
        let row = Self::named(tid);
        self.thread(Thread { policy: Some(policy), nice, ..row })
    }

    /// The thread is one of the guest's VMM, whose process is 160.
    pub(crate) fn of_vmm(mut self, tid: i32) -> Self {
        let pid = Some(Tid(160));
        for machine in self.0.machines.iter_mut().filter(|row| row.machine_id == GUEST) {
            machine.vmm_pid = pid;
        }
        let row = Self::named(tid);
        self.thread(Thread { pid, ..row })
    }

    fn named(tid: i32) -> Thread {
        Thread {
            machine_id: HOST,
            tid: Tid(tid),
            pid: None,
            name: format!("t{tid}"),
            cgroup: None,
            allowed_cpus: None,
            policy: None,
            nice: None,
            rt_priority: None,
        }
    }

    fn thread(mut self, row: Thread) -> Self {
        self.0.threads.push(row);
        self
    }

    /// The pieces of a path, a word each.
    pub(crate) fn path(&self, root: ThreadId, from: i64, until: i64) -> Vec<String> {
        let rows = Rows::new(&self.0);
        let piece = |piece: &transect_explain::Piece| {
            let tid = piece.tid.map_or_else(|| "-".into(), |tid| tid.to_string());
            let mut text = format!("{}+{} {}:{tid}", piece.ts, piece.dur, piece.machine);
            text += &format!(" {}", piece.doing.as_str());
            if let Some(why) = piece.why {
                text += &format!(" {:?} {}", piece.by.unwrap(), why.as_str());
            }
            text.replace("Thread(ThreadId { machine: MachineId(0), tid: Tid(", "by(")
                .replace(") })", ")")
        };
        walk(&rows, Actor::Thread(root), (from, until)).pieces.iter().map(piece).collect()
    }
}
