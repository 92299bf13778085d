//! Random streams of a small host with one VM.

use super::Nanoseconds;
use proptest::prelude::*;
use transect_engine::{
    Input, LostCause, LostEvents, StreamItem, StreamKey, Topology,
    topology::{MachineInfo, ThreadInfo, VcpuInfo},
};
use transect_model::{
    event::{Access, BlockOp, BlockRequest, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
    setting::ThreadSettings,
    stack::StackPoint,
    time::Timestamp,
};

pub const HOST_CPUS: u32 = 3;
pub const GUEST_CPUS: u32 = 2;

/// One host, one VM with two vCPUs (threads 4 and 5), a control group around some threads.
pub fn topology(known: bool) -> Topology {
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
                born: None,
                settings: ThreadSettings::default(),
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
    let context = prop::sample::select(vec![
        None,
        Some(Context::Task),
        Some(Context::Softirq),
        Some(Context::Irq),
        Some(Context::Nmi),
    ]);
    let waking =
        (tid(), 0..HOST_CPUS, any::<bool>(), context).prop_map(move |(tid, cpu, done, context)| {
            let target_cpu = CpuId(cpu);
            if done {
                CoreEvent::SchedWakeup { tid, comm, prio: 120, target_cpu, context }
            } else {
                CoreEvent::SchedWaking { tid, comm, prio: 120, target_cpu, context }
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
        Just(CoreEvent::KvmPio {
            access: Access::Write,
            port: 1016,
            size: 1,
            count: 1,
            value: None
        }),
        Just(CoreEvent::KvmMsi { address: 0, data: 0 }),
        Just(CoreEvent::SyscallEnter { nr: 1 }),
        Just(CoreEvent::SyscallExit { nr: 1, ret: 0 }),
        Just(CoreEvent::VectorEntry { source: VectorSource::LocalTimer, vector: 236 }),
        Just(CoreEvent::VectorExit { source: VectorSource::LocalTimer, vector: 236 }),
        Just(CoreEvent::IrqEntry { irq: 3, name: Comm::default() }),
        Just(CoreEvent::SoftirqRaise { vector: 1, context: None }),
        Just(CoreEvent::WorkQueue { work: 7, function: 9, context: None }),
        Just(CoreEvent::KvmInjVirq { vector: 35, reinjected: false }),
        Just(CoreEvent::KvmAccept {
            vcpu: VcpuId(0),
            vector: 35,
            mode: 0,
            hardware: false,
            context: None
        }),
        (1..3u64, 0..3u32, any::<bool>()).prop_map(|(skb, seq, sent)| CoreEvent::NetPacket {
            skb,
            flow: 2,
            seq,
            sent
        }),
        Just(CoreEvent::LockBegin { lock: 5, flags: 32, owner: Some(Tid(1)) }),
        Just(CoreEvent::LockEnd { lock: 5, ret: 0 }),
        Just(CoreEvent::Stack {
            point: StackPoint::Wake,
            kernel: Some(1),
            user: None,
            woken: None
        }),
        Just(CoreEvent::Throttle { cgroup: 6, cpu: CpuId(0) }),
        Just(CoreEvent::Unthrottle { cgroup: 6, cpu: CpuId(0) }),
        Just(CoreEvent::ReclaimBegin { memcg: true, order: 0 }),
        Just(CoreEvent::ReclaimEnd { memcg: true, pages: 3 }),
        Just(CoreEvent::IrqExit { irq: 3, handled: true }),
        Just(CoreEvent::SoftirqEntry { vector: 1 }),
        Just(CoreEvent::SoftirqExit { vector: 1 }),
    ];
    let device = Comm::new(b"eth0");
    let packet = (0..1500u32, any::<bool>()).prop_map(move |(bytes, sent)| match sent {
        true => CoreEvent::NetXmit { skb: 1, bytes, device, code: 0 },
        false => CoreEvent::NetReceive { skb: 1, bytes, device },
    });
    let work = (0..3u64, any::<bool>()).prop_map(|(work, begins)| match begins {
        true => CoreEvent::WorkStart { work, function: work },
        false => CoreEvent::WorkEnd { work, function: work },
    });
    let life = (tid(), tid(), 0..3).prop_map(move |(a, b, kind)| match kind {
        0 => CoreEvent::SchedFork { parent: a, child: b, child_pid: None, child_comm: comm },
        1 => CoreEvent::SchedWakeupNew { tid: a, comm, prio: 120, target_cpu: CpuId(0) },
        _ => CoreEvent::SchedExec { tid: a, old_tid: b },
    });
    let core = prop_oneof![
        6 => switch, 3 => waking, 1 => migrate, 3 => entry, 3 => exit, 1 => wakeup, 1 => poll,
        2 => other, 2 => block(), 1 => packet, 1 => work,
    ];
    if lives {
        prop_oneof![8 => core.prop_map(Some), 1 => life.prop_map(Some), 1 => Just(None)].boxed()
    } else {
        prop_oneof![9 => core.prop_map(Some), 1 => Just(None)].boxed()
    }
}

/// Requests that meet each other: a few sectors, a few sizes.
fn block() -> impl Strategy<Value = CoreEvent> {
    let op = prop::sample::select(vec![BlockOp::Read, BlockOp::Write, BlockOp::Flush]);
    (0..3u8, 0..4u64, 0..3u32, op, 0..2i32).prop_map(|(kind, sector, sectors, op, error)| {
        let sector = if sectors == 0 && kind == 2 { u64::MAX } else { sector };
        let request = BlockRequest { device: 254 << 20, sector, sectors, op, id: None };
        match kind {
            0 => CoreEvent::BlockInsert(request),
            1 => CoreEvent::BlockIssue(request),
            _ => CoreEvent::BlockComplete { request, error },
        }
    })
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
                Some(event) => StreamItem::Event { ts, tid, quiet: 0, event },
                None => StreamItem::Other { ts, tid, quiet: 0 },
            });
        }
        out
    })
}

/// The items of every stream: the host's CPUs, then the guest's.
pub type Streams = Vec<Vec<StreamItem>>;

pub fn streams(lives: bool, wild: bool) -> impl Strategy<Value = Streams> {
    prop::collection::vec(stream(lives, wild), (HOST_CPUS + GUEST_CPUS) as usize)
}

/// The CPU that each of [`Streams`] is about.
pub fn key(at: usize) -> StreamKey {
    let at = at as u32;
    let (machine, cpu) = if at < HOST_CPUS { (0, at) } else { (1, at - HOST_CPUS) };
    StreamKey { machine: MachineId(machine), cpu: CpuId(cpu) }
}

/// The streams for the engine.
pub fn inputs(streams: &Streams) -> Vec<Input<std::vec::IntoIter<StreamItem>, Nanoseconds>> {
    let input = |(at, items): (usize, &Vec<StreamItem>)| Input {
        key: key(at),
        stream: items.clone().into_iter(),
        clock: Nanoseconds,
    };
    streams.iter().enumerate().map(input).collect()
}
