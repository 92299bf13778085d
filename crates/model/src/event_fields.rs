//! Core events as names and fields: what text, tables and SQL show of an event that did not come
//! with its kernel's own format.
//!
//! Names are the tracepoints' own, so that an event reads alike from either collector. One flat
//! table: a row per event, a column list per row.

use crate::{
    cell::{Cell, ToCell},
    column::ColumnType,
    event::{Access, CoreEvent},
    interrupt::VectorSource,
    xen::XenEvent,
};
use std::borrow::Cow;

/// The name and the fields of one kind of core event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreEventDoc {
    /// The tracepoint's system.
    pub system: &'static str,
    /// The tracepoint.
    pub name: &'static str,
    /// Its fields, with the type of their values. Any may be null: not every kernel and collector
    /// tells all.
    pub fields: &'static [(&'static str, ColumnType)],
}

macro_rules! core_events {
    ($( $system:literal $name:literal $pattern:pat => { $( $field:literal: $ty:ident = $value:expr, )* } )*) => {
        /// Every core event, in the order of [`CoreEvent::kind`].
        pub const CORE_EVENTS: &[CoreEventDoc] = &[ $( CoreEventDoc {
            system: $system,
            name: $name,
            fields: &[ $( ($field, ColumnType::$ty) ),* ],
        } ),* ];

        impl CoreEvent {
            /// Which row of [`CORE_EVENTS`] it is.
            #[expect(unused_variables, reason = "the patterns bind fields for each_field")]
            pub fn kind(&self) -> usize {
                let mut kind = 0;
                $(
                    if matches!(self, $pattern) {
                        return kind;
                    }
                    kind += 1;
                )*
                kind
            }

            /// Calls `visit` with each field's name and value, in the order of its row of
            /// [`CORE_EVENTS`].
            pub fn each_field(&self, visit: &mut dyn FnMut(&'static str, Cell<'_>)) {
                match self {
                    $( $pattern => { $( visit($field, ($value).to_cell()); )* } )*
                }
            }
        }
    };
}

core_events! {
    "sched" "sched_switch" CoreEvent::SchedSwitch { prev, prev_comm, prev_prio, prev_state, next, next_comm, next_prio } => {
        "prev_comm": Text = Name(prev_comm.to_str()),
        "prev_pid": I32 = *prev,
        "prev_prio": I32 = Prio(*prev_prio),
        "prev_state": U32 = prev_state.0,
        "next_comm": Text = Name(next_comm.to_str()),
        "next_pid": I32 = *next,
        "next_prio": I32 = Prio(*next_prio),
    }
    "sched" "sched_waking" CoreEvent::SchedWaking { tid, comm, prio, target_cpu, context } => {
        "comm": Text = Name(comm.to_str()),
        "pid": I32 = *tid,
        "prio": I32 = Prio(*prio),
        "target_cpu": U32 = *target_cpu,
        "context": Text = *context,
    }
    "sched" "sched_wakeup" CoreEvent::SchedWakeup { tid, comm, prio, target_cpu, context } => {
        "comm": Text = Name(comm.to_str()),
        "pid": I32 = *tid,
        "prio": I32 = Prio(*prio),
        "target_cpu": U32 = *target_cpu,
        "context": Text = *context,
    }
    "sched" "sched_wakeup_new" CoreEvent::SchedWakeupNew { tid, comm, prio, target_cpu } => {
        "comm": Text = Name(comm.to_str()),
        "pid": I32 = *tid,
        "prio": I32 = Prio(*prio),
        "target_cpu": U32 = *target_cpu,
    }
    "sched" "sched_migrate_task" CoreEvent::SchedMigrate { tid, orig_cpu, dest_cpu } => {
        "pid": I32 = *tid,
        "orig_cpu": U32 = *orig_cpu,
        "dest_cpu": U32 = *dest_cpu,
    }
    "sched" "sched_process_fork" CoreEvent::SchedFork { parent, child, child_comm, .. } => {
        "parent_pid": I32 = *parent,
        "child_comm": Text = Name(child_comm.to_str()),
        "child_pid": I32 = *child,
    }
    "sched" "sched_process_exec" CoreEvent::SchedExec { tid, old_tid } => {
        "pid": I32 = *tid,
        "old_pid": I32 = *old_tid,
    }
    "sched" "sched_process_exit" CoreEvent::SchedExit { tid, comm } => {
        "comm": Text = Name(comm.to_str()),
        "pid": I32 = *tid,
    }
    "task" "task_rename" CoreEvent::TaskRename { tid, new_comm } => {
        "pid": I32 = *tid,
        "newcomm": Text = Name(new_comm.to_str()),
    }
    "kvm" "kvm_entry" CoreEvent::KvmEntry { vcpu, rip } => {
        "vcpu_id": U32 = *vcpu,
        "rip": U64 = *rip,
    }
    "kvm" "kvm_exit" CoreEvent::KvmExit { vcpu, reason, rip, info1, info2 } => {
        "reason": Text = *reason,
        "exit_reason": U32 = reason.code,
        "vcpu_id": U32 = *vcpu,
        "guest_rip": U64 = *rip,
        "info1": U64 = *info1,
        "info2": U64 = *info2,
    }
    "kvm" "kvm_hypercall" CoreEvent::KvmHypercall { nr, args } => {
        "nr": U64 = *nr,
        "a0": U64 = args[0],
        "a1": U64 = args[1],
        "a2": U64 = args[2],
        "a3": U64 = args[3],
    }
    "kvm" "kvm_userspace_exit" CoreEvent::KvmUserspaceExit { reason, errno } => {
        "reason": U32 = *reason,
        "errno": I32 = *errno,
    }
    "kvm" "kvm_vcpu_wakeup" CoreEvent::KvmVcpuWakeup { ns, waited, valid } => {
        "ns": U64 = *ns,
        "waited": Bool = *waited,
        "valid": Bool = *valid,
    }
    "kvm" "kvm_halt_poll_ns" CoreEvent::KvmHaltPollNs { vcpu, new_ns, old_ns } => {
        "vcpu_id": U32 = *vcpu,
        "new": U32 = *new_ns,
        "old": U32 = *old_ns,
    }
    "kvm" "kvm_pio" CoreEvent::KvmPio { access, port, size, count, value } => {
        "access": Text = AccessWord(*access),
        "port": U32 = *port,
        "size": U32 = *size,
        "count": U32 = *count,
        "val": U64 = *value,
    }
    "kvm" "kvm_mmio" CoreEvent::KvmMmio { access, gpa, len, value } => {
        "access": Text = AccessWord(*access),
        "gpa": U64 = *gpa,
        "len": U32 = *len,
        "val": U64 = *value,
    }
    "kvm" "kvm_fast_mmio" CoreEvent::KvmFastMmio { gpa } => {
        "fast_gpa": U64 = *gpa,
    }
    "kvm" "kvm_page_fault" CoreEvent::KvmPageFault { gpa, error_code } => {
        "fault_address": U64 = *gpa,
        "error_code": U64 = *error_code,
    }
    "kvm" "kvm_set_irq" CoreEvent::KvmSetIrq { gsi, level } => {
        "gsi": U32 = *gsi,
        "level": I32 = *level,
    }
    "kvm" "kvm_msi_set_irq" CoreEvent::KvmMsi { address, data } => {
        "address": U64 = *address,
        "data": U64 = *data,
    }
    "kvm" "kvm_apic_accept_irq" CoreEvent::KvmAccept { vcpu, vector, mode, hardware: false, .. } => {
        "apicid": U32 = *vcpu,
        "vec": U32 = *vector,
        "dm": U32 = *mode,
    }
    "kvm" "kvm_apicv_accept_irq" CoreEvent::KvmAccept { vcpu, vector, mode, hardware: true, .. } => {
        "apicid": U32 = *vcpu,
        "vec": U32 = *vector,
        "dm": U32 = *mode,
    }
    "kvm" "kvm_inj_virq" CoreEvent::KvmInjVirq { vector, reinjected } => {
        "irq": U32 = *vector,
        "reinjected": Bool = *reinjected,
    }
    "kvm" "kvm_write_tsc_offset" CoreEvent::KvmWriteTscOffset { vcpu, previous, next } => {
        "vcpu_id": U32 = *vcpu,
        "previous_tsc_offset": U64 = *previous,
        "next_tsc_offset": U64 = *next,
    }
    "irq" "irq_handler_entry" CoreEvent::IrqEntry { irq, name } => {
        "irq": I32 = *irq,
        "name": Text = Name(name.to_str()),
    }
    "irq" "irq_handler_exit" CoreEvent::IrqExit { irq, handled } => {
        "irq": I32 = *irq,
        "handled": Bool = *handled,
    }
    "irq" "softirq_raise" CoreEvent::SoftirqRaise { vector, .. } => {
        "vec": U32 = *vector,
    }
    "irq" "softirq_entry" CoreEvent::SoftirqEntry { vector } => {
        "vec": U32 = *vector,
    }
    "irq" "softirq_exit" CoreEvent::SoftirqExit { vector } => {
        "vec": U32 = *vector,
    }
    "irq_vectors" "local_timer_entry" CoreEvent::VectorEntry { source: VectorSource::LocalTimer, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "local_timer_exit" CoreEvent::VectorExit { source: VectorSource::LocalTimer, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "reschedule_entry" CoreEvent::VectorEntry { source: VectorSource::Reschedule, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "reschedule_exit" CoreEvent::VectorExit { source: VectorSource::Reschedule, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "call_function_entry" CoreEvent::VectorEntry { source: VectorSource::CallFunction, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "call_function_exit" CoreEvent::VectorExit { source: VectorSource::CallFunction, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "call_function_single_entry" CoreEvent::VectorEntry { source: VectorSource::CallFunctionSingle, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "call_function_single_exit" CoreEvent::VectorExit { source: VectorSource::CallFunctionSingle, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "irq_work_entry" CoreEvent::VectorEntry { source: VectorSource::IrqWork, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "irq_work_exit" CoreEvent::VectorExit { source: VectorSource::IrqWork, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "x86_platform_ipi_entry" CoreEvent::VectorEntry { source: VectorSource::PlatformIpi, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "x86_platform_ipi_exit" CoreEvent::VectorExit { source: VectorSource::PlatformIpi, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "thermal_apic_entry" CoreEvent::VectorEntry { source: VectorSource::Thermal, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "thermal_apic_exit" CoreEvent::VectorExit { source: VectorSource::Thermal, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "threshold_apic_entry" CoreEvent::VectorEntry { source: VectorSource::Threshold, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "threshold_apic_exit" CoreEvent::VectorExit { source: VectorSource::Threshold, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "deferred_error_apic_entry" CoreEvent::VectorEntry { source: VectorSource::DeferredError, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "deferred_error_apic_exit" CoreEvent::VectorExit { source: VectorSource::DeferredError, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "spurious_apic_entry" CoreEvent::VectorEntry { source: VectorSource::Spurious, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "spurious_apic_exit" CoreEvent::VectorExit { source: VectorSource::Spurious, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "error_apic_entry" CoreEvent::VectorEntry { source: VectorSource::Error, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "error_apic_exit" CoreEvent::VectorExit { source: VectorSource::Error, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "other_vector_entry" CoreEvent::VectorEntry { source: VectorSource::Other, vector } => {
        "vector": U32 = *vector,
    }
    "irq_vectors" "other_vector_exit" CoreEvent::VectorExit { source: VectorSource::Other, vector } => {
        "vector": U32 = *vector,
    }
    "raw_syscalls" "sys_enter" CoreEvent::SyscallEnter { nr } => {
        "id": I64 = *nr,
    }
    "raw_syscalls" "sys_exit" CoreEvent::SyscallExit { nr, ret } => {
        "id": I64 = *nr,
        "ret": I64 = *ret,
    }
    "block" "block_rq_insert" CoreEvent::BlockInsert(request) => {
        "dev": U32 = request.device,
        "sector": U64 = request.sector,
        "nr_sector": U32 = request.sectors,
        "op": Text = request.op,
    }
    "block" "block_rq_issue" CoreEvent::BlockIssue(request) => {
        "dev": U32 = request.device,
        "sector": U64 = request.sector,
        "nr_sector": U32 = request.sectors,
        "op": Text = request.op,
    }
    "block" "block_rq_complete" CoreEvent::BlockComplete { request, error } => {
        "dev": U32 = request.device,
        "sector": U64 = request.sector,
        "nr_sector": U32 = request.sectors,
        "op": Text = request.op,
        "error": I32 = *error,
    }
    "net" "net_dev_xmit" CoreEvent::NetXmit { skb, bytes, device, code } => {
        "skbaddr": U64 = *skb,
        "len": U32 = *bytes,
        "name": Text = Name(device.to_str()),
        "rc": I32 = *code,
    }
    "net" "netif_receive_skb" CoreEvent::NetReceive { skb, bytes, device } => {
        "skbaddr": U64 = *skb,
        "len": U32 = *bytes,
        "name": Text = Name(device.to_str()),
    }
    "transect" "net_packet" CoreEvent::NetPacket { skb, flow, seq, sent } => {
        "skbaddr": U64 = *skb,
        "flow": U32 = *flow,
        "seq": U32 = *seq,
        "sent": Bool = *sent,
    }
    "transect" "stack" CoreEvent::Stack { point, kernel, user, woken } => {
        "point": Text = *point,
        "kernel_stack_id": U32 = *kernel,
        "user_stack_id": U32 = *user,
        "woken": I32 = *woken,
    }
    "workqueue" "workqueue_queue_work" CoreEvent::WorkQueue { work, function, .. } => {
        "work": U64 = *work,
        "function": U64 = *function,
    }
    "workqueue" "workqueue_execute_start" CoreEvent::WorkStart { work, function } => {
        "work": U64 = *work,
        "function": U64 = *function,
    }
    "workqueue" "workqueue_execute_end" CoreEvent::WorkEnd { work, function } => {
        "work": U64 = *work,
        "function": U64 = *function,
    }
    "lock" "contention_begin" CoreEvent::LockBegin { lock, flags, owner } => {
        "lock_addr": U64 = *lock,
        "flags": U32 = *flags,
        "owner": I32 = *owner,
    }
    "lock" "contention_end" CoreEvent::LockEnd { lock, ret } => {
        "lock_addr": U64 = *lock,
        "ret": I32 = *ret,
    }
    "transect" "throttle" CoreEvent::Throttle { cgroup, cpu } => {
        "cgroup": U64 = *cgroup,
        "throttled_cpu": U32 = *cpu,
    }
    "transect" "unthrottle" CoreEvent::Unthrottle { cgroup, cpu } => {
        "cgroup": U64 = *cgroup,
        "throttled_cpu": U32 = *cpu,
    }
    "vmscan" "mm_vmscan_direct_reclaim_begin" CoreEvent::ReclaimBegin { memcg: false, order } => {
        "order": I32 = *order,
    }
    "vmscan" "mm_vmscan_direct_reclaim_end" CoreEvent::ReclaimEnd { memcg: false, pages } => {
        "nr_reclaimed": U64 = *pages,
    }
    "vmscan" "mm_vmscan_memcg_reclaim_begin" CoreEvent::ReclaimBegin { memcg: true, order } => {
        "order": I32 = *order,
    }
    "vmscan" "mm_vmscan_memcg_reclaim_end" CoreEvent::ReclaimEnd { memcg: true, pages } => {
        "nr_reclaimed": U64 = *pages,
    }
    "xen" "sched_runstate_change" CoreEvent::Xen(XenEvent::Runstate { vcpu, old, new }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
        "old": Text = *old,
        "new": Text = *new,
    }
    "xen" "sched_continue_running" CoreEvent::Xen(XenEvent::Continue { vcpu }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
    }
    "xen" "sched_switch_infprev" CoreEvent::Xen(XenEvent::InfPrev { vcpu, ran_ns }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
        "ran_ns": U32 = *ran_ns,
    }
    "xen" "sched_switch_infnext" CoreEvent::Xen(XenEvent::InfNext { vcpu, waited_ns, slice_ns }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
        "waited_ns": U32 = *waited_ns,
        "slice_ns": U32 = *slice_ns,
    }
    "xen" "sched_switch_infcont" CoreEvent::Xen(XenEvent::InfCont { vcpu, ran_ns, slice_ns }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
        "ran_ns": U32 = *ran_ns,
        "slice_ns": U32 = *slice_ns,
    }
    "xen" "sched_switch" CoreEvent::Xen(XenEvent::Switch { prev, next }) => {
        "prev_domid": U32 = u32::from(prev.dom),
        "prev_vcpu": U32 = u32::from(prev.vcpu),
        "next_domid": U32 = u32::from(next.dom),
        "next_vcpu": U32 = u32::from(next.vcpu),
    }
    "xen" "sched_wake" CoreEvent::Xen(XenEvent::Wake { vcpu }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
    }
    "xen" "sched_sleep" CoreEvent::Xen(XenEvent::Sleep { vcpu }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
    }
    "xen" "sched_block" CoreEvent::Xen(XenEvent::Block { vcpu }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
    }
    "xen" "sched_yield" CoreEvent::Xen(XenEvent::Yield { vcpu }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
    }
    "xen" "sched_shutdown" CoreEvent::Xen(XenEvent::Shutdown { vcpu, reason }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
        "reason": U32 = *reason,
    }
    "xen" "dom_add" CoreEvent::Xen(XenEvent::DomainAdded { dom }) => {
        "domid": U32 = u32::from(*dom),
    }
    "xen" "dom_ending" CoreEvent::Xen(XenEvent::DomainEnding { dom }) => {
        "domid": U32 = u32::from(*dom),
    }
    "xen" "dom_rem" CoreEvent::Xen(XenEvent::DomainRemoved { dom }) => {
        "domid": U32 = u32::from(*dom),
    }
    "xen" "current" CoreEvent::Xen(XenEvent::Current { vcpu }) => {
        "domid": U32 = u32::from(vcpu.dom),
        "vcpu": U32 = u32::from(vcpu.vcpu),
    }
    "xen" "hvm_vmentry" CoreEvent::Xen(XenEvent::VmEntry) => {}
    "xen" "hvm_vmexit" CoreEvent::Xen(XenEvent::VmExit { reason, rip }) => {
        "reason": Text = *reason,
        "exit_reason": U32 = reason.code,
        "guest_rip": U64 = *rip,
    }
    "xen" "hvm_vmmcall" CoreEvent::Xen(XenEvent::HvmHypercall { op }) => {
        "op": U32 = *op,
    }
    "xen" "hvm_inj_virq" CoreEvent::Xen(XenEvent::Injection { vector }) => {
        "irq": U32 = *vector,
    }
    "xen" "pv_hypercall" CoreEvent::Xen(XenEvent::Hypercall(call)) => {
        "op": U32 = call.op,
        "cmd": U32 = call.cmd,
        "count": U32 = call.count,
    }
    "xen" "pv_hypercall_subcall" CoreEvent::Xen(XenEvent::Subcall(call)) => {
        "op": U32 = call.op,
        "cmd": U32 = call.cmd,
        "count": U32 = call.count,
    }
    "xen" "pv_trap" CoreEvent::Xen(XenEvent::PvTrap { trap, rip }) => {
        "trap": U32 = u32::from(*trap),
        "guest_rip": U64 = *rip,
    }
    "xen" "pv_page_fault" CoreEvent::Xen(XenEvent::PvPageFault { addr, rip }) => {
        "fault_address": U64 = *addr,
        "guest_rip": U64 = *rip,
    }
    "xen" "pv_emulation" CoreEvent::Xen(XenEvent::PvEmulation) => {}
    "xen" "mem_page_grant" CoreEvent::Xen(XenEvent::GrantPage { dom }) => {
        "domid": U32 = u32::from(*dom),
    }
    "xen" "pm_idle_entry" CoreEvent::Xen(XenEvent::IdleEntry { state }) => {
        "state": U32 = *state,
    }
    "xen" "pm_idle_exit" CoreEvent::Xen(XenEvent::IdleExit { state }) => {
        "state": U32 = *state,
    }
}

/// A name, null where it was not told.
struct Name<'a>(Cow<'a, str>);

impl ToCell for Name<'_> {
    fn to_cell(&self) -> Cell<'_> {
        if self.0.is_empty() { Cell::Null } else { Cell::Str(Cow::Borrowed(&self.0)) }
    }
}

/// A priority, null where it was not told. Deadline threads have -1, so only one number says so.
struct Prio(i32);

/// What a decoder gives for a priority that its format did not carry.
const PRIO_UNKNOWN: i32 = i32::MIN;

impl ToCell for Prio {
    fn to_cell(&self) -> Cell<'_> {
        if self.0 == PRIO_UNKNOWN { Cell::Null } else { Cell::I64(self.0.into()) }
    }
}

struct AccessWord(Access);

impl ToCell for AccessWord {
    fn to_cell(&self) -> Cell<'_> {
        Cell::Str(Cow::Borrowed(match self.0 {
            Access::Read => "read",
            Access::Write => "write",
            Access::UnsatisfiedRead => "unsatisfied_read",
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Comm, PrevState},
        ids::Tid,
    };

    #[test]
    fn fields_come_in_the_order_of_the_table() {
        let event = CoreEvent::SchedSwitch {
            prev: Tid(7),
            prev_comm: Comm::new(b"make"),
            prev_prio: PRIO_UNKNOWN,
            prev_state: PrevState(1),
            next: Tid(0),
            next_comm: Comm::default(),
            next_prio: 120,
        };
        let doc = CORE_EVENTS[event.kind()];
        assert_eq!((doc.system, doc.name), ("sched", "sched_switch"));
        let mut cells = Vec::new();
        event.each_field(&mut |name, cell| cells.push(format!("{name}={cell:?}")));
        assert_eq!(cells.len(), doc.fields.len());
        assert_eq!(cells[0], "prev_comm=Str(\"make\")");
        assert_eq!(cells[2], "prev_prio=Null", "nobody told");
        assert_eq!(cells[4], "next_comm=Null");
        assert_eq!(cells[6], "next_prio=I64(120)");
        let end = CoreEvent::Xen(XenEvent::IdleExit { state: 1 });
        assert_eq!(CORE_EVENTS[end.kind()].name, "pm_idle_exit");
        assert_eq!(end.kind(), CORE_EVENTS.len() - 1);
    }

    #[test]
    fn no_event_is_listed_twice() {
        for (at, doc) in CORE_EVENTS.iter().enumerate() {
            let same = |other: &&CoreEventDoc| (other.system, other.name) == (doc.system, doc.name);
            assert!(!CORE_EVENTS[..at].iter().any(|other| same(&other)), "{}", doc.name);
        }
    }
}
