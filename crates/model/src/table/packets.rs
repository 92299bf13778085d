//! The table of packets, with every stage of their way.

use crate::{
    cause::Evidence,
    column::{ColumnSource, ColumnVisitor, TableDoc},
    event::DeviceName,
    ids::{MachineId, Tid},
    row::Columnar,
    stage::Staged,
};

table! {
    /// One packet with the time of every stage that was recorded: from the machine that sent it,
    /// through the host of VMs, to the machine that took it and the thread that waited for it. A stage
    /// that is not known is null, and named in `missing` if such a packet has it; none is guessed. The
    /// stages that are known are in the order of the columns, so that their lengths add up to `dur`.
    Packet in "packets" {
        /// The first event of the packet, ns of trace time.
        ts: i64,
        /// Time until the last stage that is known, ns. Null if no second one is.
        dur: Option<i64>,
        /// The machine of the first event: the sender, or the first one that took it in if it came from
        /// outside of the recording.
        machine_id: MachineId,
        /// The thread that sent it; null if it came from outside, or was sent in an interrupt.
        tid: Option<Tid>,
        /// The network device of the first event; null if unknown.
        device: Option<DeviceName>,
        /// The machine that took it in last and did not send it on; null if it left the recording, or was
        /// dropped.
        to_machine_id: Option<MachineId>,
        /// The network device of the last event; null if unknown.
        to_device: Option<DeviceName>,
        /// Hash of addresses, protocol and ports.
        flow: u32,
        /// TCP's sequence number, or a hash of the packet's content.
        seq: u32,
        /// Length at the first event, bytes; null if unknown.
        bytes: Option<u64>,
        /// The sender handed it to its first driver (net_dev_start_xmit); null if it came from outside. ns
        /// of trace time, as are all that follow.
        send_ts: Option<i64>,
        /// The sending guest rang the queue's doorbell, and its vCPU left guest mode for it.
        kick_ts: Option<i64>,
        /// The sender's back end (vhost worker or VMM) got a CPU, woken by the doorbell; or the VMM's vCPU
        /// thread returned to user mode for it.
        pickup_ts: Option<i64>,
        /// The host took it in (netif_receive_skb), from the sending guest's device or from outside.
        host_receive_ts: Option<i64>,
        /// The host handed it to its last driver (net_dev_start_xmit): that of the receiving guest's
        /// device, or of the way outside.
        host_send_ts: Option<i64>,
        /// The receiver's back end got a CPU, woken by that.
        fetch_ts: Option<i64>,
        /// The receiving vCPU's interrupt controller took the interrupt (kvm_apic_accept_irq).
        signal_ts: Option<i64>,
        /// The interrupt was injected; null if the CPU delivers interrupts itself (APICv, AVIC).
        inject_ts: Option<i64>,
        /// The handler of the receiving guest's interrupt line began.
        guest_irq_ts: Option<i64>,
        /// The receiver took it in from its last driver (netif_receive_skb).
        receive_ts: Option<i64>,
        /// It woke a thread there.
        wake_ts: Option<i64>,
        /// That thread ran.
        run_ts: Option<i64>,
        /// That thread.
        wake_tid: Option<Tid>,
        /// The sender's back end: the thread of the host that was woken by the doorbell.
        backend_tid: Option<Tid>,
        /// The receiver's back end: the thread of the host that was woken for it.
        to_backend_tid: Option<Tid>,
        /// The weakest evidence by which its events were joined: id (flow and sequence number are those of
        /// one packet, doorbell and message those of its queue), context (both happened in one VM
        /// exit or handler, or nothing else was possible) or order (time alone, as between packets that are
        /// alike). Null if none were joined.
        evidence: Option<Evidence>,
        /// The stages that the way of such a packet has and that are null, with a comma between
        /// them: as the columns without _ts; `wake` if no thread was woken.
        missing: String,
        /// Error bound of the lengths between machines, ns: that of all their clocks. Null if unknown or if
        /// there are none.
        error_ns: Option<u64>,
    }
}

impl Staged for Packet {
    const CUTS: &'static [&'static str] = &[
        "send",
        "kick",
        "pickup",
        "host_receive",
        "host_send",
        "fetch",
        "signal",
        "inject",
        "guest_irq",
        "receive",
        "wake",
        "run",
    ];

    fn cuts(&self) -> impl Iterator<Item = Option<i64>> {
        [
            self.send_ts,
            self.kick_ts,
            self.pickup_ts,
            self.host_receive_ts,
            self.host_send_ts,
            self.fetch_ts,
            self.signal_ts,
            self.inject_ts,
            self.guest_irq_ts,
            self.receive_ts,
            self.wake_ts,
            self.run_ts,
        ]
        .into_iter()
    }
}
