//! Who carries the requests and packets of a machine.

use super::Machine;
use crate::ids::MachineId;

impl Machine {
    /// The machine that carries the requests and packets of this one: the one that it runs on; of a Xen domain dom0, which
    /// has the devices of the host. None for a host and for dom0.
    pub fn carrier<'m>(&self, all: impl IntoIterator<Item = &'m Machine>) -> Option<MachineId> {
        let dom0 = |other: &&Machine| other.parent_id == self.parent_id && other.domid == Some(0);
        match self.domid {
            Some(0) => None,
            Some(_) => all.into_iter().find(dom0).map(|dom0| dom0.machine_id),
            None => self.parent_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::MachineKind;

    #[test]
    fn dom0_carries_for_the_domains_beside_it() {
        let machine = |id: u32, parent: Option<u32>, domid: Option<u32>| Machine {
            machine_id: MachineId(id),
            parent_id: parent.map(MachineId),
            kind: MachineKind::Guest,
            name: String::new(),
            domid,
            vmm_pid: None,
            cgroup: None,
            clock: None,
            error_bound_ns: None,
            time_unit: None,
        };
        let all =
            [machine(0, None, None), machine(1, Some(0), Some(0)), machine(2, Some(0), Some(5))];
        let carriers: Vec<_> = all.iter().map(|machine| machine.carrier(&all)).collect();
        assert_eq!(carriers, [None, None, Some(MachineId(1))]);
        let all = [machine(0, None, None), machine(1, Some(0), None)];
        assert_eq!(all[1].carrier(&all), Some(MachineId(0)));
    }
}
