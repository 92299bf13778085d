//! Simulated packets: each has a number of its own, and goes from machine to machine.

use super::{
    simulate::{Pick, Simulator},
    system::HOST,
};
use transect_model::{
    event::{Comm, CoreEvent},
    stack::StackPoint,
};

const FLOW: u32 = 2;

/// A packet that a machine has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnWire {
    seq: u32,
    machine: usize,
}

/// The packets of a simulated system.
#[derive(Clone, Debug, Default)]
pub struct Wire {
    packets: Vec<OnWire>,
    next: u32,
}

/// The buffer of a packet in a machine.
fn buffer(seq: u32, m: usize) -> u64 {
    u64::from(seq) * 8 + m as u64 + 1
}

impl Wire {
    fn new_number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Takes a packet out for which this holds.
    fn take(&mut self, pick: &mut Pick, fits: impl Fn(&OnWire) -> bool) -> Option<u32> {
        let all: Vec<usize> =
            (0..self.packets.len()).filter(|at| fits(&self.packets[*at])).collect();
        let at = *all.get(pick.detail(all.len() + 1))?;
        Some(self.packets.remove(at).seq)
    }
}

impl Simulator {
    /// A driver gets a packet, a new one or one that was received right before; or it has got it.
    pub fn send_packet(&mut self, m: usize, c: usize) {
        let device = Comm::new(b"eth0");
        if let Some(skb) = self.kernels[m].cpus[c].sending.take() {
            return self.emit(m, c, CoreEvent::NetXmit { skb, bytes: 64, device, code: 0 });
        }
        let received = self.kernels[m].cpus[c].forwarding.take();
        let seq = received.unwrap_or_else(|| self.wire.new_number());
        self.wire.packets.push(OnWire { seq, machine: m });
        let skb = buffer(seq, m);
        self.kernels[m].cpus[c].sending = Some(skb);
        self.emit(m, c, CoreEvent::NetPacket { skb, flow: FLOW, seq, sent: true });
        let point = StackPoint::Transmit;
        self.emit(m, c, CoreEvent::Stack { point, kernel: Some(seq), user: None, woken: None });
    }

    /// A driver gives a packet that another machine sent, or one from outside; its number follows.
    pub fn receive_packet(&mut self, m: usize, c: usize, pick: &mut Pick) {
        let device = Comm::new(b"eth0");
        if let Some(seq) = self.kernels[m].cpus[c].receiving.take() {
            self.kernels[m].cpus[c].forwarding = (pick.detail(2) == 0).then_some(seq);
            let skb = buffer(seq, m);
            return self.emit(m, c, CoreEvent::NetPacket { skb, flow: FLOW, seq, sent: false });
        }
        let sent = self.wire.take(pick, |packet| {
            // Guests reach each other by their host.
            packet.machine != m && (packet.machine == HOST || m == HOST)
        });
        let seq = sent.unwrap_or_else(|| self.wire.new_number());
        self.kernels[m].cpus[c].receiving = Some(seq);
        self.emit(m, c, CoreEvent::NetReceive { skb: buffer(seq, m), bytes: 64, device });
    }
}
