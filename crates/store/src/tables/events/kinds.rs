//! Core events as the tracepoints they come from: name, fields, values.
//!
//! So an event of a compact file has the columns it would have had in a trace.dat, as far as the
//! compact format carries them. Types are those of Linux 6.18's `format` files. A flat table.

use super::value::Value;
use transect_model::column::ColumnType::{self, Bool, I32, I64, Text, U32, U64};
use transect_model::event::{Access, BlockOp, BlockRequest, Comm, CoreEvent};
use transect_model::exit::Isa;
use transect_model::ids::VcpuId;
use transect_model::interrupt::{Context, VectorSource};

/// One field of a kind.
pub(super) struct KindField {
    pub(super) name: &'static str,
    pub(super) ty: ColumnType,
    pub(super) get: fn(&CoreEvent) -> Value<'static>,
}

/// One kind of core event.
pub(super) struct Kind {
    /// The tracepoint's name.
    pub(super) name: &'static str,
    pub(super) fields: &'static [KindField],
}

macro_rules! kinds {
    ($($number:literal $kind:literal: $pattern:pat => { $($field:literal $ty:ident $value:expr;)* })*) => {
        /// Every kind, by the number [`number`] gives.
        pub(super) const KINDS: &[Kind] = &[$( Kind {
            name: $kind,
            fields: &[$( KindField {
                name: $field,
                ty: $ty,
                get: |event| {
                    #[allow(unused_variables, clippy::match_ref_pats, reason = "one field of many")]
                    if let $pattern = event { $value } else { Value::Null }
                },
            } ),*],
        } ),*];

        /// Which of [`KINDS`] an event is; none for one that this version does not know.
        pub(super) fn number(event: &CoreEvent) -> Option<usize> {
            #[allow(unused_variables, reason = "only the variant matters")]
            match event {
                $( $pattern => Some($number), )*
                _ => None,
            }
        }
    };
}

kinds! {
    0 "sched_switch": CoreEvent::SchedSwitch {
        prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio
    } => {
        "prev_comm" Text comm(prev_comm);
        "prev_pid" I32 int(prev.0);
        "prev_prio" I32 prio(*prev_prio);
        "prev_state" I64 int(prev_state.0);
        "next_comm" Text comm(next_comm);
        "next_pid" I32 int(next.0);
        "next_prio" I32 prio(*next_prio);
    }
    1 "sched_waking": CoreEvent::SchedWaking { tid, comm: name, prio: of, target_cpu, context: within } => {
        "comm" Text comm(name);
        "pid" I32 int(tid.0);
        "prio" I32 prio(*of);
        "target_cpu" I32 int(target_cpu.0);
        "context" Text context(*within);
    }
    2 "sched_wakeup": CoreEvent::SchedWakeup { tid, comm: name, prio: of, target_cpu, context: within } => {
        "comm" Text comm(name);
        "pid" I32 int(tid.0);
        "prio" I32 prio(*of);
        "target_cpu" I32 int(target_cpu.0);
        "context" Text context(*within);
    }
    3 "sched_wakeup_new": CoreEvent::SchedWakeupNew { tid, comm: name, prio: of, target_cpu } => {
        "comm" Text comm(name);
        "pid" I32 int(tid.0);
        "prio" I32 prio(*of);
        "target_cpu" I32 int(target_cpu.0);
    }
    4 "sched_migrate_task": CoreEvent::SchedMigrate { tid, orig_cpu, dest_cpu } => {
        "pid" I32 int(tid.0);
        "orig_cpu" I32 int(orig_cpu.0);
        "dest_cpu" I32 int(dest_cpu.0);
    }
    5 "sched_process_fork": CoreEvent::SchedFork { parent, child, child_comm, .. } => {
        "parent_pid" I32 int(parent.0);
        "child_comm" Text comm(child_comm);
        "child_pid" I32 int(child.0);
    }
    6 "sched_process_exec": CoreEvent::SchedExec { tid, old_tid } => {
        "pid" I32 int(tid.0);
        "old_pid" I32 int(old_tid.0);
    }
    7 "sched_process_exit": CoreEvent::SchedExit { tid, comm: name } => {
        "comm" Text comm(name);
        "pid" I32 int(tid.0);
    }
    8 "task_rename": CoreEvent::TaskRename { tid, new_comm } => {
        "pid" I32 int(tid.0);
        "newcomm" Text comm(new_comm);
    }
    9 "kvm_entry": CoreEvent::KvmEntry { vcpu: id, rip } => {
        "vcpu_id" U32 vcpu(*id);
        "rip" U64 rip.map_or(Value::Null, Value::U64);
    }
    10 "kvm_exit": CoreEvent::KvmExit { vcpu: id, reason, rip, info1, info2 } => {
        "exit_reason" U32 uint(reason.code);
        "guest_rip" U64 Value::U64(*rip);
        "isa" U32 uint(isa(reason.isa));
        "info1" U64 Value::U64(*info1);
        "info2" U64 Value::U64(*info2);
        "vcpu_id" U32 vcpu(*id);
    }
    11 "kvm_hypercall": CoreEvent::KvmHypercall { nr, args } => {
        "nr" U64 Value::U64(*nr);
        "a0" U64 Value::U64(args[0]);
        "a1" U64 Value::U64(args[1]);
        "a2" U64 Value::U64(args[2]);
        "a3" U64 Value::U64(args[3]);
    }
    12 "kvm_userspace_exit": CoreEvent::KvmUserspaceExit { reason, errno } => {
        "reason" U32 uint(*reason);
        "errno" I32 int(*errno);
    }
    13 "kvm_vcpu_wakeup": CoreEvent::KvmVcpuWakeup { ns, waited, valid } => {
        "ns" U64 Value::U64(*ns);
        "waited" Bool Value::Bool(*waited);
        "valid" Bool Value::Bool(*valid);
    }
    14 "kvm_halt_poll_ns": CoreEvent::KvmHaltPollNs { vcpu, new_ns, old_ns } => {
        "grow" Bool Value::Bool(new_ns > old_ns);
        "vcpu_id" U32 uint(vcpu.0);
        "new" U32 uint(*new_ns);
        "old" U32 uint(*old_ns);
    }
    15 "kvm_pio": CoreEvent::KvmPio { access, port, size, count, value } => {
        "rw" U32 uint(u32::from(*access == Access::Write));
        "port" U32 uint(*port);
        "size" U32 uint(*size);
        "count" U32 uint(*count);
        "val" U64 value.map_or(Value::Null, Value::U64);
    }
    16 "kvm_mmio": CoreEvent::KvmMmio { access, gpa, len, value } => {
        "type" U32 uint(match access {
            Access::UnsatisfiedRead => 0,
            Access::Read => 1,
            Access::Write => 2,
        });
        "len" U32 uint(*len);
        "gpa" U64 Value::U64(*gpa);
        "val" U64 value.map_or(Value::Null, Value::U64);
    }
    17 "kvm_fast_mmio": CoreEvent::KvmFastMmio { gpa } => {
        "gpa" U64 Value::U64(*gpa);
    }
    18 "kvm_page_fault": CoreEvent::KvmPageFault { gpa, error_code } => {
        "fault_address" U64 Value::U64(*gpa);
        "error_code" U64 Value::U64(*error_code);
    }
    19 "kvm_set_irq": CoreEvent::KvmSetIrq { gsi, level } => {
        "gsi" U32 uint(*gsi);
        "level" I32 int(*level);
    }
    20 "kvm_msi_set_irq": CoreEvent::KvmMsi { address, data } => {
        "address" U64 Value::U64(*address);
        "data" U64 Value::U64(*data);
    }
    21 "kvm_inj_virq": CoreEvent::KvmInjVirq { vector, reinjected } => {
        "vector" U32 uint(*vector);
        "reinjected" Bool Value::Bool(*reinjected);
    }
    22 "kvm_write_tsc_offset": CoreEvent::KvmWriteTscOffset { vcpu, previous, next } => {
        "vcpu_id" U32 uint(vcpu.0);
        "previous_tsc_offset" U64 Value::U64(*previous);
        "next_tsc_offset" U64 Value::U64(*next);
    }
    23 "irq_handler_entry": CoreEvent::IrqEntry { irq, name } => {
        "irq" I32 int(*irq);
        "name" Text comm(name);
    }
    24 "irq_handler_exit": CoreEvent::IrqExit { irq, handled } => {
        "irq" I32 int(*irq);
        "ret" I32 int(i32::from(*handled));
    }
    25 "softirq_raise": CoreEvent::SoftirqRaise { vector, .. } => {
        "vec" U32 uint(*vector);
    }
    26 "softirq_entry": CoreEvent::SoftirqEntry { vector } => {
        "vec" U32 uint(*vector);
    }
    27 "softirq_exit": CoreEvent::SoftirqExit { vector } => {
        "vec" U32 uint(*vector);
    }
    28 "sys_enter": CoreEvent::SyscallEnter { nr } => {
        "id" I64 Value::I64(*nr);
    }
    29 "sys_exit": CoreEvent::SyscallExit { nr, ret } => {
        "id" I64 Value::I64(*nr);
        "ret" I64 Value::I64(*ret);
    }
    30 "block_rq_insert": CoreEvent::BlockInsert(request) => {
        "dev" U32 uint(request.device);
        "sector" U64 Value::U64(request.sector);
        "nr_sector" U32 uint(request.sectors);
        "rwbs" Text rwbs(request);
    }
    31 "block_rq_issue": CoreEvent::BlockIssue(request) => {
        "dev" U32 uint(request.device);
        "sector" U64 Value::U64(request.sector);
        "nr_sector" U32 uint(request.sectors);
        "rwbs" Text rwbs(request);
    }
    32 "block_rq_complete": CoreEvent::BlockComplete { request, error } => {
        "dev" U32 uint(request.device);
        "sector" U64 Value::U64(request.sector);
        "nr_sector" U32 uint(request.sectors);
        "error" I32 int(*error);
        "rwbs" Text rwbs(request);
    }
    33 "net_dev_xmit": CoreEvent::NetXmit { skb, bytes, device, code } => {
        "skbaddr" U64 Value::U64(*skb);
        "len" U32 uint(*bytes);
        "rc" I32 int(*code);
        "name" Text comm(device);
    }
    34 "netif_receive_skb": CoreEvent::NetReceive { skb, bytes, device } => {
        "skbaddr" U64 Value::U64(*skb);
        "len" U32 uint(*bytes);
        "name" Text comm(device);
    }
    35 "workqueue_execute_start": CoreEvent::WorkStart { work, function } => {
        "work" U64 Value::U64(*work);
        "function" U64 Value::U64(*function);
    }
    36 "workqueue_execute_end": CoreEvent::WorkEnd { work, function } => {
        "work" U64 Value::U64(*work);
        "function" U64 Value::U64(*function);
    }
    37 "local_timer_entry": CoreEvent::VectorEntry { source: VectorSource::LocalTimer, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    38 "local_timer_exit": CoreEvent::VectorExit { source: VectorSource::LocalTimer, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    39 "reschedule_entry": CoreEvent::VectorEntry { source: VectorSource::Reschedule, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    40 "reschedule_exit": CoreEvent::VectorExit { source: VectorSource::Reschedule, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    41 "call_function_entry": CoreEvent::VectorEntry { source: VectorSource::CallFunction, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    42 "call_function_exit": CoreEvent::VectorExit { source: VectorSource::CallFunction, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    43 "call_function_single_entry": CoreEvent::VectorEntry { source: VectorSource::CallFunctionSingle, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    44 "call_function_single_exit": CoreEvent::VectorExit { source: VectorSource::CallFunctionSingle, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    45 "irq_work_entry": CoreEvent::VectorEntry { source: VectorSource::IrqWork, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    46 "irq_work_exit": CoreEvent::VectorExit { source: VectorSource::IrqWork, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    47 "x86_platform_ipi_entry": CoreEvent::VectorEntry { source: VectorSource::PlatformIpi, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    48 "x86_platform_ipi_exit": CoreEvent::VectorExit { source: VectorSource::PlatformIpi, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    49 "thermal_apic_entry": CoreEvent::VectorEntry { source: VectorSource::Thermal, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    50 "thermal_apic_exit": CoreEvent::VectorExit { source: VectorSource::Thermal, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    51 "threshold_apic_entry": CoreEvent::VectorEntry { source: VectorSource::Threshold, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    52 "threshold_apic_exit": CoreEvent::VectorExit { source: VectorSource::Threshold, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    53 "deferred_error_apic_entry": CoreEvent::VectorEntry { source: VectorSource::DeferredError, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    54 "deferred_error_apic_exit": CoreEvent::VectorExit { source: VectorSource::DeferredError, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    55 "spurious_apic_entry": CoreEvent::VectorEntry { source: VectorSource::Spurious, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    56 "spurious_apic_exit": CoreEvent::VectorExit { source: VectorSource::Spurious, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    57 "error_apic_entry": CoreEvent::VectorEntry { source: VectorSource::Error, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    58 "error_apic_exit": CoreEvent::VectorExit { source: VectorSource::Error, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    59 "other_vector_entry": CoreEvent::VectorEntry { source: VectorSource::Other, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    60 "other_vector_exit": CoreEvent::VectorExit { source: VectorSource::Other, vector } => {
        "vector" I32 int(vector.cast_signed());
    }
    61 "kvm_apic_accept_irq": CoreEvent::KvmAccept { vcpu, vector, mode, hardware: false, .. } => {
        "apicid" U32 uint(vcpu.0);
        "vec" U32 uint(*vector);
        "dm" U32 uint(*mode);
    }
    62 "kvm_apicv_accept_irq": CoreEvent::KvmAccept { vcpu, vector, mode, hardware: true, .. } => {
        "apicid" U32 uint(vcpu.0);
        "vec" U32 uint(*vector);
        "dm" U32 uint(*mode);
    }
    63 "net_packet": CoreEvent::NetPacket { skb, flow, seq, sent } => {
        "skbaddr" U64 Value::U64(*skb);
        "flow" U32 uint(*flow);
        "seq" U32 uint(*seq);
        "sent" Bool Value::Bool(*sent);
    }
    64 "workqueue_queue_work": CoreEvent::WorkQueue { work, function, .. } => {
        "work" U64 Value::U64(*work);
        "function" U64 Value::U64(*function);
    }
    65 "contention_begin": CoreEvent::LockBegin { lock, flags, owner } => {
        "lock_addr" U64 Value::U64(*lock);
        "flags" U32 uint(*flags);
        "owner" I32 owner.map_or(Value::Null, |owner| int(owner.0));
    }
    66 "contention_end": CoreEvent::LockEnd { lock, ret } => {
        "lock_addr" U64 Value::U64(*lock);
        "ret" I32 int(*ret);
    }
    67 "throttle": CoreEvent::Throttle { cgroup, cpu } => {
        "cgroup" U64 Value::U64(*cgroup);
        "throttled_cpu" U32 uint(cpu.0);
    }
    68 "unthrottle": CoreEvent::Unthrottle { cgroup, cpu } => {
        "cgroup" U64 Value::U64(*cgroup);
        "throttled_cpu" U32 uint(cpu.0);
    }
    69 "mm_vmscan_direct_reclaim_begin": CoreEvent::ReclaimBegin { memcg: false, order } => {
        "order" I32 int(*order);
    }
    70 "mm_vmscan_direct_reclaim_end": CoreEvent::ReclaimEnd { memcg: false, pages } => {
        "nr_reclaimed" U64 Value::U64(*pages);
    }
    71 "mm_vmscan_memcg_reclaim_begin": CoreEvent::ReclaimBegin { memcg: true, order } => {
        "order" I32 int(*order);
    }
    72 "mm_vmscan_memcg_reclaim_end": CoreEvent::ReclaimEnd { memcg: true, pages } => {
        "nr_reclaimed" U64 Value::U64(*pages);
    }
    73 "stack": CoreEvent::Stack { point, kernel, user, woken } => {
        "point" Text Value::Text(point.as_str().into());
        "kernel_stack_id" U32 kernel.map_or(Value::Null, uint);
        "user_stack_id" U32 user.map_or(Value::Null, uint);
        "woken" I32 woken.map_or(Value::Null, |woken| int(woken.0));
    }
}

fn int(value: impl Into<i64>) -> Value<'static> {
    Value::I64(value.into())
}

fn uint(value: u32) -> Value<'static> {
    Value::U64(value.into())
}

/// A priority that nobody told is none.
fn prio(prio: i32) -> Value<'static> {
    if prio == transect_compact::PRIO_UNKNOWN { Value::Null } else { int(prio) }
}

/// ftrace has it in the flags that every record begins with.
fn context(context: Option<Context>) -> Value<'static> {
    context.map_or(Value::Null, |context| Value::Text(context.as_str().into()))
}

/// A name that is not known is no name.
fn comm(name: &Comm) -> Value<'static> {
    if name.as_bytes().is_empty() {
        return Value::Null;
    }
    Value::Text(name.to_str().into_owned().into())
}

fn vcpu(id: Option<VcpuId>) -> Value<'static> {
    id.map_or(Value::Null, |id| uint(id.0))
}

/// `KVM_ISA_VMX` and `KVM_ISA_SVM` (arch/x86/kvm/trace.h); arm64 has none.
fn isa(isa: Isa) -> u32 {
    match isa {
        Isa::Vmx => 1,
        Isa::Svm => 2,
        Isa::Arm64 | Isa::Arm64Ret | Isa::XenHypercall | Isa::XenTrap => 0,
        Isa::Other(isa) => isa,
    }
}

fn rwbs(request: &BlockRequest) -> Value<'static> {
    Value::Text(
        match request.op {
            BlockOp::Read => "R",
            BlockOp::Write => "W",
            BlockOp::Flush => "F",
            BlockOp::Discard => "D",
            BlockOp::Other => "N",
        }
        .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::Tid;

    #[test]
    fn numbers_are_places_in_the_table() {
        let events = [
            ("sched_process_exec", CoreEvent::SchedExec { tid: Tid(1), old_tid: Tid(2) }),
            ("kvm_inj_virq", CoreEvent::KvmInjVirq { vector: 3, reinjected: false }),
            ("workqueue_execute_end", CoreEvent::WorkEnd { work: 1, function: 2 }),
        ];
        for (name, event) in events {
            assert_eq!(number(&event).map(|at| KINDS[at].name), Some(name));
        }
        let names: std::collections::BTreeSet<_> = KINDS.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), KINDS.len());
    }

    #[test]
    fn values_are_the_events() {
        let event = CoreEvent::IrqExit { irq: -1, handled: true };
        let kind = &KINDS[number(&event).unwrap()];
        let values: Vec<_> = kind.fields.iter().map(|field| (field.get)(&event)).collect();
        assert_eq!(values, [Value::I64(-1), Value::I64(1)]);
        assert_eq!(
            (kind.fields[0].get)(&CoreEvent::KvmInjVirq { vector: 3, reinjected: false }),
            Value::Null
        );
    }
}
