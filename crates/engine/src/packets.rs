//! The way of packets between machines: their part of the routing.

use crate::{
    at::At,
    states::{
        causes::{Edge, Effect, Origin},
        packets::{
            Arrival, Kin, LastOnCpu, Step, Transmit, packet_id,
            way::{Ends, Hop, Packet, Way},
        },
        stages::{Interrupt, Rung},
    },
    world::{Machine, World},
};
use transect_model::{
    cause::{CauseKind, Evidence},
    event::DeviceName,
    ids::{MachineId, Tid},
    interrupt::Context,
    table::{Row, TableSink},
};

/// A buffer's number in all records: some have 56 bits of its address.
fn buffer(skb: u64) -> u64 {
    skb << 8
}

/// The machines of a recording, as they stand to each other.
struct Machines<'m>(&'m [Machine]);

impl Machines<'_> {
    /// Dom0 of the Xen host that the domain is on. Dom0 itself has none.
    fn dom0(&self, domain: &Machine) -> Option<MachineId> {
        domain.info.domid.filter(|domid| *domid != 0)?;
        let mut siblings = self.0.iter().filter(|other| other.info.parent == domain.info.parent);
        siblings.find(|other| other.info.domid == Some(0)).map(|dom0| dom0.id)
    }
}

impl Kin for Machines<'_> {
    fn host(&self, machine: MachineId) -> Option<MachineId> {
        let machine = self.0.get(machine.0 as usize)?;
        // Xen itself has no network.
        if machine.info.domid.is_some() { self.dom0(machine) } else { machine.info.parent }
    }
}

impl World {
    /// A driver gets a packet (`net_dev_start_xmit`).
    pub(crate) fn packet_sent(
        &mut self,
        at: At,
        skb: u64,
        packet: Packet,
        from: Origin,
        sink: &mut dyn TableSink,
    ) {
        let skb = buffer(skb);
        let machine = &self.machines[at.m];
        let hop = Hop {
            ts: at.t,
            machine: machine.id,
            is_sent: true,
            skb,
            device: None,
            bytes: None,
            is_partial: machine.is_filtered(),
        };
        let last = &machine.cpus[at.c].packets;
        let serial = self.packets.send(packet, hop, from, last, &Machines(&self.machines));
        if let Some(v) = machine.vcpu_of_cpu.get(at.c).copied().flatten() {
            self.packets.card(v).sends(serial);
        }
        let last = &mut self.machines[at.m].cpus[at.c].packets;
        last.transmit = Some(Transmit { serial, skb, woken: false });
        last.received = None;
        self.tell_packets(sink);
    }

    /// It has got it (`net_dev_xmit`).
    pub(crate) fn packet_left(&mut self, at: At, skb: u64, device: DeviceName, bytes: u32) {
        let skb = buffer(skb);
        let machine = &mut self.machines[at.m];
        let last = &mut machine.cpus[at.c].packets;
        let Some(transmit) = last.transmit.take_if(|transmit| transmit.skb == skb) else { return };
        let id = machine.id;
        if let Some(way) = self.packets.way(transmit.serial) {
            way.is_handed_to((id, skb), device, bytes);
            let woken = way.to_backend.filter(|_| transmit.woken);
            match woken {
                Some(tid) => {
                    let evidence = self.packets.device_wakes(at.m, device, tid);
                    if let Some(way) = self.packets.way(transmit.serial) {
                        way.fetch_evidence = evidence;
                    }
                }
                // It does not have to be woken if it waits for a CPU already.
                None => {
                    let waiting = self.packets.back_end(at.m, device);
                    if let Some(tid) = waiting.filter(|tid| self.is_waiting(at.m, *tid)) {
                        self.fetched_by(at, transmit.serial, tid);
                    }
                }
            }
        }
    }

    /// A thread is woken while a driver gets a packet, by whoever gives it: the back end of the device.
    pub(crate) fn packet_wakes(&mut self, at: At, tid: Tid, context: Option<Context>) {
        let machine = &mut self.machines[at.m];
        let is_partial = machine.is_filtered() || machine.filter.partial_wakings;
        let cpu = &mut machine.cpus[at.c];
        let Some(transmit) = cpu.packets.transmit.as_mut().filter(|by| !by.woken) else { return };
        // An interrupt may come in between.
        if is_partial || context == Some(Context::Irq) {
            return;
        }
        transmit.woken = true;
        let serial = transmit.serial;
        self.fetched_by(at, serial, tid);
    }

    fn fetched_by(&mut self, at: At, serial: u64, tid: Tid) {
        if let Some(way) = self.packets.way(serial) {
            // The last device of the host is the receiver's.
            way.to_backend = Some(tid);
            way.fetch = None;
            if self.is_waiting(at.m, tid) {
                self.packets.wait_for(at.m, tid, serial, Step::Fetch);
            }
        }
    }

    /// A driver gives a packet; its number follows.
    pub(crate) fn packet_given(&mut self, at: At, skb: u64, device: DeviceName, bytes: u32) {
        self.machines[at.m].cpus[at.c].packets.given = Some((at.t, buffer(skb), device, bytes));
    }

    /// Its number (`netif_receive_skb`).
    pub(crate) fn packet_received(
        &mut self,
        at: At,
        skb: u64,
        packet: Packet,
        sink: &mut dyn TableSink,
    ) {
        let skb = buffer(skb);
        let machine = &mut self.machines[at.m];
        let (id, is_filtered) = (machine.id, machine.is_filtered());
        let given = machine.cpus[at.c].packets.given.take().filter(|(_, of, ..)| *of == skb);
        let hop = Hop {
            ts: given.map_or(at.t, |(ts, ..)| ts),
            machine: id,
            is_sent: false,
            skb,
            device: given.map(|(.., device, _)| device),
            bytes: given.map(|(.., bytes)| bytes),
            // Without the event before it, the time is not exact.
            is_partial: is_filtered || (given.is_none() && self.packets.is_late(at.t)),
        };
        let is_partial = self.machines.iter().any(Machine::is_filtered);
        let machines = Machines(&self.machines);
        let arrival = self.packets.receive(packet, hop, is_partial, &machines);
        let Arrival { serial, from, candidates } = arrival;
        self.machines[at.m].cpus[at.c].packets.received = Some(serial);
        self.find_interrupt(at, serial, hop.device);
        if let Some(from) = from {
            let edge = Edge {
                kind: CauseKind::Packet,
                from,
                to: Effect::handler(at, id),
                id: Some(packet_id(packet)),
                evidence: Evidence::of_number(candidates),
                candidates,
                error_ns: None,
            };
            self.emit_edge(at, edge, sink);
        }
        self.tell_packets(sink);
    }

    /// The interrupt that told a guest of this packet.
    fn find_interrupt(&mut self, at: At, serial: u64, device: Option<DeviceName>) {
        let Some(v) = self.vcpu_of_guest(at) else { return };
        let Some(device) = device else { return };
        let Some(sent) = self.packets.way(serial).map(|way| way.sent_last()) else { return };
        let by = self.causes.vcpu(v).and_then(|delivery| delivery.delivered());
        let by = by.filter(|by| sent.is_none_or(|sent| by.handler >= sent));
        let mut ran = match (sent, self.causes.queues.get(&at.m)) {
            (Some(sent), Some(queues)) => queues.handled_since(sent),
            _ => Vec::new(),
        };
        // Of one that came from outside, or without a message, only the last handler is known.
        ran.extend(by.filter(|by| ran.is_empty() || by.message.is_none()));
        if let Some((delivered, evidence)) = self.packets.card(v).arrives(device, &ran)
            && let Some(way) = self.packets.way(serial)
        {
            way.interrupt = delivered.signals.map(|signals| Interrupt {
                signals: Some(signals),
                inject: delivered.inject,
                handler: delivered.handler,
                evidence,
            });
        }
    }

    /// A vCPU of a domain tells somebody by an event channel: if its driver is getting a packet, the card's other end,
    /// else that of the disk whose requests it has issued. The channel is not recorded.
    pub(crate) fn domain_rings(&mut self, at: At, v: usize) {
        let vm = self.vcpus[v].machine.0 as usize;
        let cpu = self.machines[vm].vcpu_of_cpu.iter().position(|of| *of == Some(v));
        let is_sending =
            cpu.and_then(|c| self.machines[vm].cpus.get(c)).is_some_and(|cpu| cpu.is_sending());
        if is_sending {
            self.packets_kicked(at, v, None);
        } else {
            self.domain_requests_kicked(at, v);
        }
    }

    /// A doorbell of a VM's was rung while its driver got a packet.
    pub(crate) fn packets_kicked(&mut self, at: At, v: usize, doorbell: Option<u64>) {
        let vm = self.vcpus[v].machine.0 as usize;
        // It does not have to be woken if it waits for a CPU already.
        let queues = self.causes.queues.get(&vm);
        let waiting = queues.zip(doorbell).and_then(|(queues, of)| queues.back_end(of));
        let waiting = waiting.filter(|tid| self.is_waiting(at.m, *tid));
        let (rung, evidence) = self.packets.card(v).rings(doorbell);
        for serial in rung {
            let Some(way) = self.packets.way(serial) else { continue };
            if way.kick.is_some() {
                continue;
            }
            way.kick = Some(Rung { ts: at.t, doorbell, evidence });
            if let Some(tid) = waiting {
                way.backend = Some(tid);
                self.packets.wait_for(at.m, tid, serial, Step::Pickup);
            }
        }
    }

    /// In the exit in which a doorbell was rung for these, thread `tid` was woken, or is the current one and goes on
    /// outside of the kernel.
    pub(crate) fn packets_picked_up(&mut self, at: At, packets: &[u64], tid: Tid) {
        let host = &self.machines[at.m];
        if host.is_filtered() || host.filter.partial_wakings {
            return;
        }
        let is_waiting = self.is_waiting(at.m, tid);
        for serial in packets {
            let Some(way) = self.packets.way(*serial) else { continue };
            if way.backend.is_some() {
                continue;
            }
            way.backend = Some(tid);
            if tid == at.tid {
                way.pickup = Some(at.t);
            } else if is_waiting {
                self.packets.wait_for(at.m, tid, *serial, Step::Pickup);
            }
        }
    }

    /// Events are missing, until then.
    pub(crate) fn lose_packets(&mut self, until: i64) {
        self.packets.lose(until);
        for cpu in self.machines.iter_mut().flat_map(|machine| &mut machine.cpus) {
            cpu.packets = LastOnCpu::default();
        }
    }

    /// Tells of the packets that have arrived, or are given up.
    pub(crate) fn tell_packets(&mut self, sink: &mut dyn TableSink) {
        if !self.packets.has_done() {
            return;
        }
        for way in self.packets.done() {
            if way.first().ts >= self.start && !way.first().is_partial && self.wants.packets {
                let row = way.row(&self.ends(&way));
                sink.row(Row::from(row));
            }
        }
    }

    /// What is known of the machines at the ends of a way.
    fn ends(&self, way: &Way) -> Ends {
        let host = |machine: MachineId| {
            let has_vcpus = |machine: &Machine| machine.vcpu_of_cpu.iter().any(Option::is_some);
            self.machines.get(machine.0 as usize).filter(|machine| has_vcpus(machine))?;
            Machines(&self.machines).host(machine)
        };
        let mut machines: Vec<MachineId> = way.machines().collect();
        machines.sort_unstable();
        machines.dedup();
        let bounds = machines.iter().map(|machine| self.bound(*machine));
        let error_ns = match machines.len() {
            1 => None,
            _ => bounds.reduce(|all, one| all?.checked_add(one?)).flatten(),
        };
        Ends {
            first_host: host(way.first().machine),
            last_host: way.to_machine().and_then(host),
            error_ns,
        }
    }
}
