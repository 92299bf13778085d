//! The tables of stacks: which code an event came from.

use crate::{
    column::{ColumnSource, ColumnVisitor, TableDoc},
    ids::{CpuId, MachineId, Tid},
    row::Columnar,
    stack::StackPoint,
};

table! {
    /// The stack at one event with which a stage of `io_requests` or `packets` begins (recorded with
    /// `--stacks`). Its frames are in `stacks`.
    StackSample in "stack_samples" {
        /// Time of the event, ns of trace time.
        ts: i64,
        /// The machine.
        machine_id: MachineId,
        /// The CPU.
        cpu: CpuId,
        /// The thread that was current; in an interrupt, the interrupted one.
        tid: Tid,
        /// issue (a block driver gets a request, block_rq_issue), transmit (a network driver gets a packet,
        /// net_dev_start_xmit), receive (a packet comes from a driver, netif_receive_skb), accept (a
        /// vCPU's interrupt controller takes an interrupt, kvm_apic_accept_irq) or wake (in the exit of a
        /// vCPU a thread is woken: the back end of a device, or another vCPU).
        point: StackPoint,
        /// The time that the stage has in `io_requests` or `packets`: of wake that of the doorbell in the same
        /// exit, null without one; of the others that of the event.
        stage_ts: Option<i64>,
        /// The frames in the kernel; null if they were not kept: another stack has their place.
        kernel_stack_id: Option<u32>,
        /// The frames of the program; null if there are none, or they were not kept.
        user_stack_id: Option<u32>,
        /// Of wake: the thread that was woken.
        woken_tid: Option<Tid>,
    }
}

table! {
    /// One frame of a stack.
    Stack in "stacks" {
        /// The machine.
        machine_id: MachineId,
        /// The stack's number in `stack_samples`, unique in the recording.
        stack_id: u32,
        /// 0 is the innermost frame: the function that was running. At most 127 frames are kept of each
        /// stack, the innermost.
        depth: u32,
        /// The function; an address in hexadecimal if it has no known name.
        symbol: String,
        /// The kernel's module, or the program's file; null if unknown, and for the kernel itself.
        module: Option<String>,
    }
}
