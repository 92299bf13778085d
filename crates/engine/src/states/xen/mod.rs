//! What Xen's scheduler and its guests do, from Xen's own trace: vCPUs, domains, pCPUs.
//!
//! This file holds who there is; `vcpu.rs` and `domain.rs` hold the state machines, and
//! `hypervisor.rs` of the crate routes events to them. A vCPU is also a row of the engine's list of
//! vCPUs, under the same index, so that windows, joins with the domain's own kernel and the
//! causality check treat it like KVM's.
//!
//! **Boundary state.** Every vCPU's, domain's and pCPU's; how far holes reach that were met so far.

pub(crate) mod domain;
pub(crate) mod vcpu;

use domain::Domain;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use transect_model::xen::XenVcpu;
use vcpu::Vcpu;

/// vCPUs kept at most: more than any host has (a record can name 2^32).
pub(crate) const MAX_VCPUS: usize = 65_536;

/// One pCPU between two records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Pcpu {
    /// The vCPU (place in [`Xen::vcpus`]) that has it; none while that is not known, between two
    /// vCPUs, and for the idle one.
    pub(crate) current: Option<usize>,
    /// Who comes next, from `sched_switch` on.
    pub(crate) next: Option<XenVcpu>,
    /// vCPUs (places in [`Xen::vcpus`]) that were here last and are runnable: whoever has it is who
    /// they wait for.
    pub(crate) waiters: Vec<usize>,
}

/// Everything known of a hypervisor's guests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Xen {
    by_name: FxHashMap<XenVcpu, usize>,
    pub(crate) vcpus: Vec<Vcpu>,
    /// Place in `vcpus` by index in the engine's list.
    by_index: FxHashMap<usize, usize>,
    by_domid: FxHashMap<u16, usize>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) pcpus: Vec<Pcpu>,
    /// Records of some pCPU may be missing up to here.
    pub(crate) holes_until: i64,
    /// Items that are no records of their own ([`XenEvent::Current`]).
    ///
    /// [`XenEvent::Current`]: transect_model::xen::XenEvent::Current
    pub(crate) told: u64,
}

impl Xen {
    /// The vCPU of this name.
    pub(crate) fn find(&self, name: XenVcpu) -> Option<usize> {
        self.by_name.get(&name).copied()
    }

    /// Adds a vCPU.
    pub(crate) fn push(&mut self, name: XenVcpu, vcpu: Vcpu) -> usize {
        let at = self.vcpus.len();
        self.by_name.insert(name, at);
        self.by_index.insert(vcpu.index, at);
        self.domains[vcpu.domain].vcpus.push(at);
        self.vcpus.push(vcpu);
        at
    }

    /// Is the engine's vCPU of this index one of Xen's?
    pub(crate) fn owns(&self, index: usize) -> bool {
        self.by_index.contains_key(&index)
    }

    /// The domain of this number.
    pub(crate) fn domain(&self, domid: u16) -> Option<usize> {
        self.by_domid.get(&domid).copied()
    }

    /// Adds a domain.
    pub(crate) fn push_domain(&mut self, domid: u16, domain: Domain) -> usize {
        self.by_domid.insert(domid, self.domains.len());
        self.domains.push(domain);
        self.domains.len() - 1
    }

    /// The pCPU of this index, made on first sight.
    pub(crate) fn pcpu(&mut self, c: usize) -> &mut Pcpu {
        if self.pcpus.len() <= c {
            self.pcpus.resize(c + 1, Pcpu::default());
        }
        &mut self.pcpus[c]
    }

    /// The vCPU that has this pCPU.
    pub(crate) fn current(&self, c: usize) -> Option<usize> {
        self.pcpus.get(c)?.current
    }
}
