//! The core events: what every probe can tell the state machines, whatever its format.
//!
//! One variant per transition of the model; names follow the kernel's tracepoints. Anything a
//! probe records beyond these stays reachable as a generic event with its own typed fields; it
//! just does not move a state machine.
//!
//! Events are `Copy` and hold no heap: thread names travel as the kernel's fixed 16 bytes.

use crate::{
    exit::ExitReason,
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
    stack::StackPoint,
    xen::XenEvent,
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, fmt};

/// A thread's name as the kernel keeps it (`TASK_COMM_LEN` = 16, zero-padded).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// From any bytes: cut at 15 bytes or at the first zero, as the kernel would.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        if let Some(kernels) = bytes.first_chunk() {
            return Comm::from_kernel(*kernels);
        }
        let mut padded = [0; 16];
        padded[..bytes.len()].copy_from_slice(bytes);
        Comm::from_kernel(padded)
    }

    /// From the kernel's own 16 bytes; what stands behind the first zero is left out. Every
    /// scheduler event has one or two of these, so this goes without a loop.
    #[inline]
    pub fn from_kernel(bytes: [u8; 16]) -> Self {
        const ONES: u128 = u128::from_le_bytes([0x01; 16]);
        const TOPS: u128 = u128::from_le_bytes([0x80; 16]);
        /// All but the last byte: names have at most 15.
        const ROOM: u128 = u128::MAX >> 8;
        let name = u128::from_le_bytes(bytes) & ROOM;
        // The top bit of the first zero byte, and of none before it.
        let zero = name.wrapping_sub(ONES) & !name & TOPS;
        let before = (zero & zero.wrapping_neg()).wrapping_sub(1) >> 7;
        Comm((name & before).to_le_bytes())
    }

    /// The name's bytes without padding.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }

    /// For printing; bytes that are not UTF-8 become U+FFFD.
    pub fn to_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_str())
    }
}

/// Why a thread left the CPU: `prev_state` of `sched_switch`
/// (`include/trace/events/sched.h`, `__trace_sched_switch_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PrevState(pub u32);

impl PrevState {
    /// The bits that say "asleep": S D T t X Z P (`TASK_REPORT`, 0x7f) and I (`TASK_REPORT_IDLE`,
    /// 0x80). Preempted threads carry `TASK_REPORT_MAX` (0x100 since 4.14, higher before), which
    /// is above them all, so "none of these" is what identifies "still runnable".
    const ASLEEP: u32 = 0xff;

    /// Still wants the CPU: it was preempted (or yielded), not blocked.
    pub fn is_runnable(self) -> bool {
        self.0 & Self::ASLEEP == 0
    }

    /// Exiting (dead or zombie): it will not run again.
    pub fn is_dead(self) -> bool {
        self.0 & (0x10 | 0x20) != 0
    }

    /// The letter `sched_switch` prints (`R`, `S`, `D`, `T`, `t`, `X`, `Z`, `P`, `I`).
    pub fn letter(self) -> char {
        match self.0 & Self::ASLEEP {
            0 => 'R',
            s if s & 0x1 != 0 => 'S',
            s if s & 0x2 != 0 => 'D',
            s if s & 0x4 != 0 => 'T',
            s if s & 0x8 != 0 => 't',
            s if s & 0x10 != 0 => 'X',
            s if s & 0x20 != 0 => 'Z',
            s if s & 0x40 != 0 => 'P',
            _ => 'I',
        }
    }
}

/// Direction of a port or memory access, seen from the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Access {
    /// The guest reads.
    Read,
    /// The guest writes.
    Write,
    /// A read that no one in the kernel could satisfy (goes to the VMM).
    UnsatisfiedRead,
}

/// One transition of the model.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are the tracepoints' own, explained per variant")]
pub enum CoreEvent {
    /// `sched:sched_switch`: `prev` leaves this CPU, `next` gets it.
    SchedSwitch {
        prev: Tid,
        prev_comm: Comm,
        prev_prio: i32,
        prev_state: PrevState,
        next: Tid,
        next_comm: Comm,
        next_prio: i32,
    },
    /// `sched:sched_waking`: `tid` (it may still be on another CPU) is woken by the current thread,
    /// or by the interrupt that `context` names; none if that is not told.
    SchedWaking { tid: Tid, comm: Comm, prio: i32, target_cpu: CpuId, context: Option<Context> },
    /// `sched:sched_wakeup`: `tid` is now runnable on `target_cpu`.
    SchedWakeup { tid: Tid, comm: Comm, prio: i32, target_cpu: CpuId, context: Option<Context> },
    /// `sched:sched_wakeup_new`: a new thread is runnable for the first time.
    SchedWakeupNew { tid: Tid, comm: Comm, prio: i32, target_cpu: CpuId },
    /// `sched:sched_migrate_task`.
    SchedMigrate { tid: Tid, orig_cpu: CpuId, dest_cpu: CpuId },
    /// `sched:sched_process_fork`. `child_pid` is the child's process; absent where the source does
    /// not carry it (ftrace).
    SchedFork { parent: Tid, child: Tid, child_pid: Option<Tid>, child_comm: Comm },
    /// `sched:sched_process_exec`: `tid` (was `old_tid`) runs a new program.
    SchedExec { tid: Tid, old_tid: Tid },
    /// `sched:sched_process_exit`: the thread is about to die (it still switches out afterwards).
    SchedExit { tid: Tid, comm: Comm },
    /// `task:task_rename`.
    TaskRename { tid: Tid, new_comm: Comm },

    /// `kvm:kvm_entry`: the current thread enters guest mode on its vCPU. `vcpu` is absent on arm64,
    /// whose tracepoint holds the guest's program counter only.
    KvmEntry { vcpu: Option<VcpuId>, rip: Option<u64> },
    /// `kvm:kvm_exit`: back in the kernel. `vcpu` is absent on kernels before 5.11.
    KvmExit { vcpu: Option<VcpuId>, reason: ExitReason, rip: u64, info1: u64, info2: u64 },
    /// `kvm:kvm_hypercall`: number and arguments of the hypercall being handled.
    KvmHypercall { nr: u64, args: [u64; 4] },
    /// `kvm:kvm_userspace_exit`: `KVM_RUN` returns to the VMM.
    KvmUserspaceExit { reason: u32, errno: i32 },
    /// `kvm:kvm_vcpu_wakeup`: a halted vCPU goes on; `waited` = it slept, else it only polled.
    KvmVcpuWakeup { ns: u64, waited: bool, valid: bool },
    /// `kvm:kvm_halt_poll_ns`: the polling window of a vCPU changes.
    KvmHaltPollNs { vcpu: VcpuId, new_ns: u32, old_ns: u32 },
    /// `kvm:kvm_pio`.
    KvmPio { access: Access, port: u32, size: u32, count: u32, value: Option<u64> },
    /// `kvm:kvm_mmio`.
    KvmMmio { access: Access, gpa: u64, len: u32, value: Option<u64> },
    /// `kvm:kvm_fast_mmio`: a kick through ioeventfd, without a return to the VMM.
    KvmFastMmio { gpa: u64 },
    /// `kvm:kvm_page_fault`: an EPT/NPT violation is being handled.
    KvmPageFault { gpa: u64, error_code: u64 },
    /// `kvm:kvm_set_irq` (x86 `kvm_set_irq`): a line into the VM's interrupt controller changes.
    KvmSetIrq { gsi: u32, level: i32 },
    /// `kvm:kvm_msi_set_irq`: a message interrupt is sent to the VM.
    KvmMsi { address: u64, data: u64 },
    /// `kvm:kvm_apic_accept_irq`: a vCPU's local APIC takes an interrupt, in the context of whoever
    /// sends it. With `hardware` it is `kvm:kvm_apicv_accept_irq`: the CPU delivers it, without an
    /// injection. `mode`: 0 fixed, 1 lowest priority, 2 SMI, 4 NMI, 5 INIT, 6 SIPI.
    KvmAccept { vcpu: VcpuId, vector: u32, mode: u32, hardware: bool, context: Option<Context> },
    /// `kvm:kvm_inj_virq`: an interrupt is injected at the next entry. `reinjected`: it was before,
    /// and the guest did not get it (told since 6.0).
    KvmInjVirq { vector: u32, reinjected: bool },
    /// `kvm:kvm_write_tsc_offset`: the guest's TSC moves; a clock edge changes here.
    KvmWriteTscOffset { vcpu: VcpuId, previous: u64, next: u64 },

    /// `irq:irq_handler_entry`; the handler's name where the source carries it, else empty.
    IrqEntry { irq: i32, name: Comm },
    /// `irq:irq_handler_exit`.
    IrqExit { irq: i32, handled: bool },
    /// `irq:softirq_raise`.
    SoftirqRaise { vector: u32, context: Option<Context> },
    /// `irq:softirq_entry`.
    SoftirqEntry { vector: u32 },
    /// `irq:softirq_exit`.
    SoftirqExit { vector: u32 },

    /// `irq_vectors:*_entry`: the handler of a vector of the CPU's own begins (timer, IPIs).
    VectorEntry { source: VectorSource, vector: u32 },
    /// `irq_vectors:*_exit`.
    VectorExit { source: VectorSource, vector: u32 },

    /// `raw_syscalls:sys_enter`.
    SyscallEnter { nr: i64 },
    /// `raw_syscalls:sys_exit`.
    SyscallExit { nr: i64, ret: i64 },

    /// `block:block_rq_insert`: a request joins its device's queue, in the submitter's name.
    BlockInsert(BlockRequest),
    /// `block:block_rq_issue`: the driver gets the request (also without a `BlockInsert` before). Of a device without
    /// requests of its own, made of others (device mapper, md), `block:block_bio_queue`: it gets a bio.
    BlockIssue(BlockRequest),
    /// `block:block_rq_complete`, or `block:block_bio_complete` of such a device: the device answered; `error` is 0 or a
    /// negative errno.
    BlockComplete { request: BlockRequest, error: i32 },

    /// `net:net_dev_xmit`: a packet was handed to the driver; `code` is its answer (0 = taken).
    NetXmit { skb: u64, bytes: u32, device: DeviceName, code: i32 },
    /// `net:netif_receive_skb`: a packet came up from a driver.
    NetReceive { skb: u64, bytes: u32, device: DeviceName },

    /// Which packet it is that is given to a driver (`sent`, before the driver has it) or has just come from
    /// one, behind its [`CoreEvent::NetReceive`]. `flow` is a hash of the addresses, ports and protocol in
    /// the packet, equal wherever it passes unchanged. `seq` is the TCP sequence number; of other packets a
    /// hash of what tells them apart: IP identification, length, begin of the payload.
    NetPacket { skb: u64, flow: u32, seq: u32, sent: bool },

    /// The stack of the code that the event before is of, at the same time: the numbers of its frames in the kernel
    /// and in the program, as far as they were kept. `woken` is whom a waking woke.
    Stack { point: StackPoint, kernel: Option<u32>, user: Option<u32>, woken: Option<Tid> },

    /// `workqueue:workqueue_queue_work`: the current thread or interrupt gives a kworker work.
    WorkQueue { work: u64, function: u64, context: Option<Context> },
    /// `workqueue:workqueue_execute_start`: a kworker begins a work item.
    WorkStart { work: u64, function: u64 },
    /// `workqueue:workqueue_execute_end`.
    WorkEnd { work: u64, function: u64 },

    /// `lock:contention_begin`: the current thread has to wait for a lock of the kernel. `flags` are
    /// the tracepoint's (`LCB_F_*`); `owner` has the lock, where the lock tells and the source asks.
    LockBegin { lock: u64, flags: u32, owner: Option<Tid> },
    /// `lock:contention_end`: it has the lock (`ret` 0), or gave up.
    LockEnd { lock: u64, ret: i32 },

    /// The quota of a control group (by its id) has ended for a CPU: its threads wait (`throttle_cfs_rq`, no
    /// tracepoint).
    Throttle { cgroup: u64, cpu: CpuId },
    /// They may run again (`unthrottle_cfs_rq`), which any CPU may find.
    Unthrottle { cgroup: u64, cpu: CpuId },

    /// `vmscan:mm_vmscan_direct_reclaim_begin`: the current thread frees memory before it gets some;
    /// with `memcg`, `mm_vmscan_memcg_reclaim_begin`: for its control group's limit.
    ReclaimBegin { memcg: bool, order: i32 },
    /// `vmscan:mm_vmscan_direct_reclaim_end` or `mm_vmscan_memcg_reclaim_end`.
    ReclaimEnd { memcg: bool, pages: u64 },

    /// A record of Xen's own tracer.
    Xen(XenEvent),
}

/// Name of a network device: 16 bytes, zero-padded (`IFNAMSIZ`), like a [`Comm`].
pub type DeviceName = Comm;

/// A block request as its tracepoints tell it: they share no id (but the compact collector's records
/// do), so device and first sector are what pairs insert, issue and completion (as blktrace and biosnoop
/// do).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct BlockRequest {
    /// `dev_t` in the kernel's internal form: major << 20 | minor.
    pub device: u32,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
    /// What it does.
    pub op: BlockOp,
    /// The same in all events of a request, other than that of any request at the same time; none
    /// if the source has none.
    pub id: Option<u32>,
}

/// What a block request does (`enum req_op`, include/linux/blk_types.h; the letters of `rwbs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub enum BlockOp {
    /// `R`.
    Read,
    /// `W`.
    Write,
    /// `F`: flush the device's cache.
    Flush,
    /// `D`.
    Discard,
    /// Anything else (zone management, driver's own, …).
    Other,
}

impl BlockOp {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            BlockOp::Read => "read",
            BlockOp::Write => "write",
            BlockOp::Flush => "flush",
            BlockOp::Discard => "discard",
            BlockOp::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_zero_or_after_fifteen_bytes() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"", b""),
            (b"swapper/0\0\0\0\0\0\0\0", b"swapper/0"),
            (b"a\0rest of the old", b"a"),
            (b"\x80\x01\xff\0", b"\x80\x01\xff"),
            (b"fifteen bytes ok", b"fifteen bytes o"),
            (b"longer than the kernel's sixteen", b"longer than the"),
        ];
        for (given, name) in cases {
            assert_eq!(Comm::new(given).as_bytes(), name);
        }
    }
}
