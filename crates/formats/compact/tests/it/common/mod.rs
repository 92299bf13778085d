//! What several tests need: strategies for events, and a way to write and read them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the report")]
#![allow(unreachable_pub, reason = "a module of tests")]

use proptest::prelude::*;
use transect_compact::{
    BlockWriter, Compact, FileHeader, Item, LogId, LogWriter, PRIO_UNKNOWN, Problem, Totals,
};
use transect_model::{
    event::{Access, BlockOp, BlockRequest, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
};

/// An event with its stamp and the thread it came in.
pub type Stamped = (u64, Tid, CoreEvent);

pub const MAIN: LogId = LogId { cpu: CpuId(0), side: 0 };
pub const SIDE: LogId = LogId { cpu: CpuId(0), side: 1 };
pub const SECOND: LogId = LogId { cpu: CpuId(0), side: 2 };

/// A file with these events in the given log of CPU 0.
pub fn file_of(log: LogId, events: &[Stamped]) -> Vec<u8> {
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "test")).unwrap();
    write_log(log, events, &mut file);
    file.finish(&Totals::default()).unwrap()
}

pub fn write_log(log: LogId, events: &[Stamped], file: &mut BlockWriter<Vec<u8>>) {
    let mut writer = LogWriter::new(log);
    for (ts, tid, event) in events {
        writer.event(*ts, *tid, event, file).unwrap();
    }
    writer.finish(file).unwrap();
}

/// Everything CPU 0's stream gives.
pub fn read(file: &[u8]) -> Vec<Item> {
    let compact = Compact::parse(file).unwrap();
    assert_eq!(compact.problems(), &[] as &[Problem]);
    let items: Vec<Item> = compact.stream(CpuId(0)).into_iter().flatten().collect();
    let mut batches = Vec::new();
    if let Some(mut stream) = compact.stream(CpuId(0)) {
        while stream.next_batch(&mut batches, 7) {}
    }
    assert_eq!(items, batches, "iterator and batches agree");
    items
}

pub fn events(items: &[Item]) -> Vec<Stamped> {
    items
        .iter()
        .map(|item| match item {
            Item::Event { ts, tid, event } => (ts.get(), *tid, *event),
            other => panic!("{other:?}"),
        })
        .collect()
}

/// The event as the format carries it: without the names and priorities it leaves out.
pub fn carried(event: &CoreEvent) -> CoreEvent {
    let mut event = *event;
    match &mut event {
        CoreEvent::SchedSwitch { prev_comm, prev_prio, next_comm, .. } => {
            (*prev_comm, *next_comm) = (Comm::default(), Comm::default());
            // Checked by itself: it depends on what came before.
            *prev_prio = 0;
        }
        CoreEvent::SchedWaking { comm, prio, .. }
        | CoreEvent::SchedWakeupNew { comm, prio, .. } => {
            (*comm, *prio) = (Comm::default(), PRIO_UNKNOWN);
        }
        CoreEvent::SchedFork { child_comm: comm, .. } | CoreEvent::SchedExit { comm, .. } => {
            *comm = Comm::default();
        }
        CoreEvent::IrqEntry { name, .. } => *name = Comm::default(),
        CoreEvent::KvmEntry { rip, .. } => *rip = None,
        CoreEvent::KvmExit { info2, .. } => *info2 = 0,
        _ => {}
    }
    event
}

pub fn all_carried(events: &[Stamped]) -> Vec<Stamped> {
    events.iter().map(|(ts, tid, event)| (*ts, *tid, carried(event))).collect()
}

fn tid() -> impl Strategy<Value = Tid> {
    prop_oneof![0..5_i32, 0..1 << 22].prop_map(Tid)
}

fn comm() -> impl Strategy<Value = Comm> {
    "[a-z/0-9:-]{1,15}".prop_map(|name| Comm::new(name.as_bytes()))
}

fn cpu() -> impl Strategy<Value = CpuId> {
    prop_oneof![0..4_u32, 0..1_u32 << 12].prop_map(CpuId)
}

fn vcpu() -> impl Strategy<Value = VcpuId> {
    prop_oneof![0..3_u32, 4090..4100_u32, 0..0xffff_u32].prop_map(VcpuId)
}

/// Numbers of every size.
fn word() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
}

fn state() -> impl Strategy<Value = PrevState> {
    prop::sample::select(vec![0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100]).prop_map(PrevState)
}

fn access() -> impl Strategy<Value = Access> {
    prop::sample::select(vec![Access::Read, Access::Write, Access::UnsatisfiedRead])
}

fn reason() -> impl Strategy<Value = ExitReason> {
    let code = prop_oneof![
        0..0x405_u32,
        prop::sample::select(vec![0x78, 0x81, 0x400, u32::MAX, 0x8000_0021, 0xfffe, 0xfff, 0x1000])
    ];
    code.prop_map(|code| ExitReason { isa: Isa::Svm, code })
}

fn request() -> impl Strategy<Value = BlockRequest> {
    let op = prop::sample::select(vec![
        BlockOp::Read,
        BlockOp::Write,
        BlockOp::Flush,
        BlockOp::Discard,
        BlockOp::Other,
    ]);
    let id = prop::option::of(0..1_u32 << 24);
    (any::<u32>(), word(), 0..1_u32 << 24, op, id).prop_map(|(device, sector, sectors, op, id)| {
        BlockRequest { device, sector, sectors, op, id }
    })
}

fn kernel_address() -> impl Strategy<Value = u64> {
    (0..1_u64 << 55).prop_map(|low| low | 0xff80_0000_0000_0000)
}

/// Guest code mostly stays in the same 4 GiB.
fn rip() -> impl Strategy<Value = u64> {
    prop_oneof![word(), (0..1_u64 << 32).prop_map(|low| 0xffff_ffff_0000_0000 | low)]
}

/// Any event the format carries without loss.
pub fn event() -> impl Strategy<Value = CoreEvent> {
    let sched = prop_oneof![
        (tid(), comm(), -1..=139_i32, state(), tid(), comm(), -1..=139_i32).prop_map(
            |(prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio)| {
                CoreEvent::SchedSwitch {
                    prev,
                    prev_comm,
                    prev_prio,
                    prev_state,
                    next,
                    next_comm,
                    next_prio,
                }
            }
        ),
        (tid(), comm(), cpu()).prop_map(|(tid, comm, target_cpu)| CoreEvent::SchedWaking {
            tid,
            comm,
            prio: 120,
            target_cpu,
            context: None,
        }),
        (tid(), comm(), 0..1_u32 << 10, context()).prop_map(|(tid, comm, cpu, context)| {
            CoreEvent::SchedWaking {
                tid,
                comm,
                prio: 120,
                target_cpu: CpuId(cpu),
                context: Some(context),
            }
        }),
        (tid(), comm(), cpu()).prop_map(|(tid, comm, target_cpu)| CoreEvent::SchedWakeupNew {
            tid,
            comm,
            prio: 120,
            target_cpu
        }),
        (tid(), cpu(), cpu()).prop_map(|(tid, orig_cpu, dest_cpu)| CoreEvent::SchedMigrate {
            tid,
            orig_cpu,
            dest_cpu
        }),
        (tid(), tid(), prop::option::of(1..1i32 << 22), comm()).prop_map(
            |(parent, child, child_pid, child_comm)| CoreEvent::SchedFork {
                parent,
                child,
                child_pid: child_pid.map(Tid),
                child_comm
            }
        ),
        (tid(), tid()).prop_map(|(tid, old_tid)| CoreEvent::SchedExec { tid, old_tid }),
        (tid(), comm()).prop_map(|(tid, comm)| CoreEvent::SchedExit { tid, comm }),
        (tid(), comm()).prop_map(|(tid, new_comm)| CoreEvent::TaskRename { tid, new_comm }),
    ];
    prop_oneof![3 => sched, 4 => kvm(), 6 => interval_ends(), 2 => devices(), 2 => causes()]
}

fn context() -> impl Strategy<Value = Context> {
    prop::sample::select(vec![Context::Task, Context::Softirq, Context::Irq, Context::Nmi])
}

fn source() -> impl Strategy<Value = VectorSource> {
    prop::sample::select(VectorSource::ALL.to_vec())
}

fn kvm() -> impl Strategy<Value = CoreEvent> {
    prop_oneof![
        any::<[u64; 4]>().prop_map(|args| CoreEvent::KvmHypercall { nr: 1 << 33, args }),
        (word(), prop::array::uniform4(prop_oneof![Just(0), word()]))
            .prop_map(|(nr, args)| CoreEvent::KvmHypercall { nr, args }),
        (0..1_u32 << 16, -0x8000..0x8000_i32)
            .prop_map(|(reason, errno)| CoreEvent::KvmUserspaceExit { reason, errno }),
        (0..1_u64 << 32, any::<bool>(), any::<bool>())
            .prop_map(|(ns, waited, valid)| CoreEvent::KvmVcpuWakeup { ns, waited, valid }),
        (vcpu(), any::<u32>(), any::<u32>())
            .prop_map(|(vcpu, new_ns, old_ns)| CoreEvent::KvmHaltPollNs { vcpu, new_ns, old_ns }),
        (access(), 0..1_u32 << 16, 0..4_u32, 0..1_u32 << 14).prop_map(
            |(access, port, log2, count)| CoreEvent::KvmPio {
                access,
                port,
                size: 1 << log2,
                count,
                value: None
            }
        ),
        (access(), word(), 0..256_u32).prop_map(|(access, gpa, len)| CoreEvent::KvmMmio {
            access,
            gpa,
            len,
            value: None
        }),
        word().prop_map(|gpa| CoreEvent::KvmFastMmio { gpa }),
        (word(), word()).prop_map(|(gpa, error_code)| CoreEvent::KvmPageFault { gpa, error_code }),
        (any::<u32>(), 0..2_i32).prop_map(|(gsi, level)| CoreEvent::KvmSetIrq { gsi, level }),
        (word(), word()).prop_map(|(address, data)| CoreEvent::KvmMsi { address, data }),
        any::<u32>().prop_map(|vector| CoreEvent::KvmInjVirq { vector, reinjected: false }),
        (vcpu(), word(), word()).prop_map(|(vcpu, previous, next)| {
            CoreEvent::KvmWriteTscOffset { vcpu, previous, next }
        }),
    ]
}

/// Begins and ends of what folds, so that pairs, half pairs and mismatches all occur.
fn interval_ends() -> impl Strategy<Value = CoreEvent> {
    let nr = || prop_oneof![0..3_i64, 510..514_i64, 1020..1028_i64, Just(-1_i64)];
    let ret = prop_oneof![
        -70..70_i64,
        950..970_i64,
        -0x80_0004..-0x7f_fffc_i64,
        0x7f_fffc..0x80_0004_i64,
        any::<i64>()
    ];
    let irq = || prop_oneof![0..3_i32, 8190..8194_i32, any::<i32>()];
    prop_oneof![
        (prop::option::of(vcpu())).prop_map(|vcpu| CoreEvent::KvmEntry { vcpu, rip: Some(7) }),
        Just(CoreEvent::KvmEntry { vcpu: Some(VcpuId(0)), rip: None }),
        (prop::option::of(vcpu()), reason(), rip(), word(), any::<u64>()).prop_map(
            |(vcpu, reason, rip, info1, info2)| CoreEvent::KvmExit {
                vcpu,
                reason,
                rip,
                info1,
                info2
            }
        ),
        (reason(), rip(), 0..2048_u64).prop_map(|(reason, rip, info1)| CoreEvent::KvmExit {
            vcpu: Some(VcpuId(0)),
            reason,
            rip,
            info1,
            info2: 0
        }),
        // The same again and again, as real guests leave.
        (0..2_u32, 0..3_u64, prop::sample::select(vec![0, 1023, 1024, 1 << 32])).prop_map(
            |(vcpu, page, info1)| CoreEvent::KvmExit {
                vcpu: Some(VcpuId(vcpu)),
                reason: ExitReason { isa: Isa::Svm, code: 0x60 },
                rip: page << 32,
                info1,
                info2: 0
            }
        ),
        (0..2_u32).prop_map(|vcpu| CoreEvent::KvmEntry { vcpu: Some(VcpuId(vcpu)), rip: None }),
        (250..260_u32).prop_map(|vector| CoreEvent::KvmInjVirq { vector, reinjected: false }),
        irq().prop_map(|irq| CoreEvent::IrqEntry { irq, name: Comm::default() }),
        (irq(), any::<bool>()).prop_map(|(irq, handled)| CoreEvent::IrqExit { irq, handled }),
        (0..16_u32).prop_map(|vector| CoreEvent::SoftirqRaise { vector, context: None }),
        (0..3_u32).prop_map(|vector| CoreEvent::SoftirqEntry { vector }),
        (0..3_u32).prop_map(|vector| CoreEvent::SoftirqExit { vector }),
        (source(), 0..3_u32).prop_map(|(source, vector)| CoreEvent::VectorEntry { source, vector }),
        (source(), 0..3_u32).prop_map(|(source, vector)| CoreEvent::VectorExit { source, vector }),
        (253..256_u32)
            .prop_map(|vector| CoreEvent::VectorEntry { source: VectorSource::Reschedule, vector }),
        (253..256_u32)
            .prop_map(|vector| CoreEvent::VectorExit { source: VectorSource::Reschedule, vector }),
        nr().prop_map(|nr| CoreEvent::SyscallEnter { nr }),
        (nr(), ret).prop_map(|(nr, ret)| CoreEvent::SyscallExit { nr, ret }),
    ]
}

/// What waits for whom: locks, quotas, memory, work, packets, and interrupts on their way.
fn causes() -> impl Strategy<Value = CoreEvent> {
    let owner = prop::option::of((1..1_i32 << 22).prop_map(Tid));
    prop_oneof![
        (0..1_u32 << 16, 0..256_u32, 0..8_u32, any::<bool>()).prop_map(
            |(vcpu, vector, mode, hardware)| {
                CoreEvent::KvmAccept { vcpu: VcpuId(vcpu), vector, mode, hardware, context: None }
            }
        ),
        any::<u32>().prop_map(|vector| CoreEvent::KvmInjVirq { vector, reinjected: true }),
        (access(), 0..1_u32 << 16, 0..4_u32, any::<u32>(), word()).prop_map(
            |(access, port, log2, count, value)| {
                let size = 1 << log2;
                CoreEvent::KvmPio { access, port, size, count, value: Some(value) }
            }
        ),
        (access(), word(), 0..256_u32, word()).prop_map(|(access, gpa, len, value)| {
            CoreEvent::KvmMmio { access, gpa, len, value: Some(value) }
        }),
        (word(), any::<u32>(), any::<u32>(), any::<bool>())
            .prop_map(|(skb, flow, seq, sent)| CoreEvent::NetPacket { skb, flow, seq, sent }),
        (word(), word()).prop_map(|(work, function)| CoreEvent::WorkQueue {
            work,
            function,
            context: None
        }),
        (word(), 0..1_u32 << 29, owner).prop_map(|(lock, flags, owner)| CoreEvent::LockBegin {
            lock,
            flags,
            owner
        }),
        (word(), any::<i32>()).prop_map(|(lock, ret)| CoreEvent::LockEnd { lock, ret }),
        (word(), cpu()).prop_map(|(cgroup, cpu)| CoreEvent::Throttle { cgroup, cpu }),
        (word(), cpu()).prop_map(|(cgroup, cpu)| CoreEvent::Unthrottle { cgroup, cpu }),
        (any::<bool>(), any::<i32>())
            .prop_map(|(memcg, order)| CoreEvent::ReclaimBegin { memcg, order }),
        (any::<bool>(), word()).prop_map(|(memcg, pages)| CoreEvent::ReclaimEnd { memcg, pages }),
    ]
}

fn devices() -> impl Strategy<Value = CoreEvent> {
    prop_oneof![
        request().prop_map(CoreEvent::BlockInsert),
        request().prop_map(CoreEvent::BlockIssue),
        (request(), any::<i32>()).prop_map(|(request, error)| {
            // With an id there is less room.
            let error = if request.id.is_some() { error % 128 } else { error };
            CoreEvent::BlockComplete { request, error }
        }),
        (kernel_address(), 0..1_u32 << 20, comm(), -128..128_i32)
            .prop_map(|(skb, bytes, device, code)| CoreEvent::NetXmit { skb, bytes, device, code }),
        (kernel_address(), 0..1_u32 << 20, comm())
            .prop_map(|(skb, bytes, device)| CoreEvent::NetReceive { skb, bytes, device }),
        (word(), word()).prop_map(|(work, function)| CoreEvent::WorkStart { work, function }),
        (word(), word()).prop_map(|(work, function)| CoreEvent::WorkEnd { work, function }),
    ]
}

/// Events with stamps that go on, in jumps of every size, mostly in one thread's name.
pub fn history(longest: usize) -> impl Strategy<Value = Vec<Stamped>> {
    let step = prop_oneof![
        8 => 0..2_000_u64,
        1 => (1_u64 << 24) - 2..(1 << 24) + 2,
        1 => (1_u64 << 32) - 2..(1 << 32) + 2,
        1 => (1_u64 << 20) - 2..(1 << 20) + 2,
        1 => (1_u64 << 15) - 2..(1 << 15) + 2,
    ];
    let tid = prop_oneof![6 => Just(Tid(3)), 1 => tid()];
    prop::collection::vec((step, tid, event()), 0..longest).prop_map(|steps| {
        let mut now = 5_000_000_000;
        let stamp = |(step, tid, event): (u64, Tid, CoreEvent)| {
            now += step;
            // The kernel's sched_switch comes in the name of who leaves.
            let tid = if let CoreEvent::SchedSwitch { prev, .. } = event { prev } else { tid };
            (now, tid, event)
        };
        steps.into_iter().map(stamp).collect()
    })
}
