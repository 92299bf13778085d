//! The events that have a stack: for each stage of a row, where the stack of its first event is.

use std::collections::HashMap;
use transect_model::ids::{MachineId, Tid};
use transect_model::stack::StackPoint;
use transect_model::stage::Staged;
use transect_model::table::{IoRequest, Machine, Packet};

/// The machine that carries the requests and packets of each machine.
pub(crate) struct Carriers(HashMap<MachineId, MachineId>);

impl Carriers {
    pub(crate) fn new(machines: &[Machine]) -> Self {
        let carried = |row: &Machine| Some((row.machine_id, row.carrier(machines)?));
        Carriers(machines.iter().filter_map(carried).collect())
    }

    fn of(&self, machine: MachineId) -> Option<MachineId> {
        self.0.get(&machine).copied()
    }
}

/// The event whose stack is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackedEvent {
    pub(crate) machine: MachineId,
    pub(crate) point: StackPoint,
    /// The thread that it woke, if several events at this time are possible.
    pub(crate) woken: Option<Tid>,
}

impl StackedEvent {
    fn new(machine: MachineId, point: StackPoint) -> Self {
        StackedEvent { machine, point, woken: None }
    }

    fn waking(machine: MachineId, woken: Option<Tid>) -> Self {
        StackedEvent { machine, point: StackPoint::Wake, woken }
    }
}

/// A row whose stages begin with events that can have a stack.
pub(crate) trait Stacked: Staged {
    /// The event of that name (one of [`Staged::CUTS`]); `None` if no stacks are taken at such events.
    fn event_at(&self, cut: &str, carriers: &Carriers) -> Option<StackedEvent>;
}

impl Stacked for Packet {
    fn event_at(&self, cut: &str, carriers: &Carriers) -> Option<StackedEvent> {
        let (first, receiver) = (self.machine_id, self.to_machine_id);
        // The host is the sender if it has no host itself.
        let above_first = carriers.of(first).unwrap_or(first);
        let above_receiver = receiver.and_then(|to| carriers.of(to)).unwrap_or(above_first);
        Some(match cut {
            "send" => StackedEvent::new(first, StackPoint::Transmit),
            "kick" => StackedEvent::waking(above_first, self.backend_tid),
            // A packet from outside of the recording came in where its first event was.
            "host_receive" if self.send_ts.is_none() => {
                StackedEvent::new(first, StackPoint::Receive)
            }
            "host_receive" => StackedEvent::new(above_first, StackPoint::Receive),
            "host_send" => StackedEvent::new(above_receiver, StackPoint::Transmit),
            "signal" => StackedEvent::new(above_receiver, StackPoint::Accept),
            "receive" => StackedEvent::new(receiver?, StackPoint::Receive),
            _ => return None,
        })
    }
}

impl Stacked for IoRequest {
    fn event_at(&self, cut: &str, carriers: &Carriers) -> Option<StackedEvent> {
        let host = carriers.of(self.machine_id).unwrap_or(self.machine_id);
        Some(match cut {
            "issue" => StackedEvent::new(self.machine_id, StackPoint::Issue),
            "kick" => StackedEvent::waking(host, self.backend_tid),
            "host_issue" => StackedEvent::new(host, StackPoint::Issue),
            "signal" => StackedEvent::new(host, StackPoint::Accept),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// The cuts at which a stack is looked for, whatever the row holds.
    fn stacked<R: Stacked>(row: &R) -> Vec<&'static str> {
        let carriers = Carriers(HashMap::new());
        R::CUTS.iter().copied().filter(|cut| row.event_at(cut, &carriers).is_some()).collect()
    }

    #[test]
    fn every_name_of_an_event_with_a_stack_is_a_cut() {
        let packet = sample::packet();
        assert_eq!(
            stacked(&packet),
            ["send", "kick", "host_receive", "host_send", "signal", "receive"]
        );
        let request = sample::request();
        assert_eq!(stacked(&request), ["issue", "kick", "host_issue", "signal"]);
    }
}
