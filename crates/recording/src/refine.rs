//! Clocks of domains that only the channel relates to the others: Xen's trace says more.
//!
//! A domain with an emulated TSC has no offset, and what the channel leaves open is a fraction of a
//! millisecond. When Xen had its vCPUs running bounds that closer ([`transect_engine::ran`]).
//! Nothing of it is kept in the recording: it is made of the events each time, and the clock graph
//! takes whichever way has the smaller bound.

use crate::SourceFile;
use transect_clock::{ClockKind, Evidence, clock_kind};
use transect_engine::{
    Topology,
    ran::{Running, Stamps, place},
};
use transect_model::ids::{MachineId, MachineKind};
use transect_xentrace::XenTrace;

/// What Xen's trace says of the clocks of its domains' kernels.
pub(crate) fn evidence<'t>(
    told: &[Evidence],
    topology: &Topology,
    traces: impl Iterator<Item = (MachineId, &'t SourceFile<'t>)> + Clone,
) -> Vec<Evidence> {
    let xen = traces.clone().find_map(|(machine, file)| match file {
        SourceFile::Xen(trace) if is_hypervisor(topology, machine) => Some((machine, trace)),
        _ => None,
    });
    let Some((xen, trace)) = xen else { return Vec::new() };
    let mut running = None;
    let mut found = Vec::new();
    for machine in &topology.machines {
        let mut dats = traces.clone().filter_map(|(of, file)| match file {
            SourceFile::Dat(dat) if of == machine.id => Some(dat),
            _ => None,
        });
        // A machine with two files was booted again, and has two clocks.
        let (Some(dat), None) = (dats.next(), dats.next()) else { continue };
        let dom = machine.domid.and_then(|dom| u16::try_from(dom).ok());
        if let Some(dom) = dom.filter(|_| machine.parent == Some(xen))
            && is_open(told, machine.id)
        {
            let running = running.get_or_insert_with(|| Running::of(trace as &XenTrace<'_>));
            let placed = place(running, dom, &Stamps::of(dat), (1, 1), (machine.id, xen));
            found.extend(placed.into_iter().flat_map(|placed| placed.evidence));
        }
    }
    found
}

fn is_hypervisor(topology: &Topology, machine: MachineId) -> bool {
    let mut machines = topology.machines.iter();
    machines.any(|m| m.id == machine && m.kind == MachineKind::Hypervisor)
}

/// Does a machine stamp with a TSC that only exchanges relate to others?
fn is_open(told: &[Evidence], id: MachineId) -> bool {
    let mut is_tsc = false;
    let mut exchanged = false;
    for evidence in told {
        match evidence {
            Evidence::SourceClock { machine, clock } if *machine == id => {
                is_tsc = clock_kind(clock) == ClockKind::Tsc;
            }
            Evidence::Exchange { machine, .. } if *machine == id => exchanged = true,
            Evidence::TscOffset { machine, .. }
            | Evidence::VcpuRan { machine, .. }
            | Evidence::ClockRestart { machine, .. }
                if *machine == id =>
            {
                return false;
            }
            _ => {}
        }
    }
    is_tsc && exchanged
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::VcpuId;

    #[test]
    fn only_clocks_that_are_open_are_looked_for() {
        let machine = MachineId(2);
        let parent = MachineId(1);
        let source = |clock: &str| Evidence::SourceClock { machine, clock: clock.into() };
        let exchange = Evidence::Exchange { machine, parent, host_send: 1, guest: 2, host_recv: 3 };
        let offset = Evidence::TscOffset {
            machine,
            parent,
            vcpu: VcpuId(0),
            offset: 0,
            ratio: None,
            frac_bits: None,
            at_host: 1,
        };
        assert!(is_open(&[source("x86-tsc"), exchange.clone()], machine));
        assert!(!is_open(&[source("mono"), exchange.clone()], machine));
        assert!(!is_open(&[source("x86-tsc"), exchange.clone(), offset], machine));
        assert!(!is_open(&[source("x86-tsc"), exchange], MachineId(3)));
    }
}
