//! Xen's dom0, emulated. See README.md.

use super::kit::{Expected, Guest, GuestPlan, checked, options_of, taken_by_kernel_mib, truth};
use super::{
    platform::{Bed, Facts, Machine, Platform, Shape},
    tcg,
};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::fitted::{Fittings, Model};
use transect_testbed::xen::{self, XenOptions};

/// dom0.
pub(super) struct XenDom0;

impl Platform for XenDom0 {
    fn name(&self) -> &'static str {
        "xen-dom0"
    }

    fn about(&self) -> &'static str {
        "the dom0 of a Xen host, emulated (TCG)"
    }

    fn opening_s(&self) -> f64 {
        16.0
    }

    fn slowness(&self) -> f64 {
        16.0
    }

    fn can_run(&self, _: &Shape) -> Result<(), Refusal> {
        can_run(self.name())
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        // Nothing runs beside dom0; Xen itself takes some 200 MiB.
        let (dom0, all) = (shape.memory_mib, shape.memory_mib + 384);
        let host = Dom0 { dom0_cpus: shape.cpus, cpus: shape.cpus, dom0_mib: dom0, all_mib: all };
        let guest = host.boot(self.name(), shape, bed, host.fittings(shape)?, shape.disk_mib)?;
        let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
        checked(Box::new(guest), &Expected { platform: self.name(), cpus, memory_mib })
    }
}

pub(super) fn can_run(platform: &str) -> Result<(), Refusal> {
    match xen::missing() {
        None => Ok(()),
        Some(why) => Err(Refusal::new(Kind::Missing, format!("platform {platform}"), why)
            .mend("apt-get install qemu-system-x86")),
    }
}

/// What dom0's kernel sets aside for devices that cannot reach all memory, before it counts `MemTotal`. Only dom0 does
/// (Linux 6.1, `include/linux/swiotlb.h`, `IO_TLB_DEFAULT_SIZE`; `arch/x86/kernel/pci-dma.c`, `pci_xen_swiotlb_init`).
const SWIOTLB_MIB: u32 = 64;

/// What dom0's kernel takes of its memory before it counts `MemTotal`.
pub(super) fn taken_by_dom0_mib(memory_mib: u32) -> u32 {
    taken_by_kernel_mib(memory_mib) + SWIOTLB_MIB
}

/// The sizes of a Xen host.
pub(super) struct Dom0 {
    /// vCPUs of dom0.
    pub dom0_cpus: u32,
    /// pCPUs.
    pub cpus: u32,
    /// Memory of dom0 as counted inside, MiB.
    pub dom0_mib: u32,
    /// Memory of the host, MiB.
    pub all_mib: u32,
}

impl Dom0 {
    /// What it gets as a rule.
    pub(super) fn fittings(&self, shape: &Shape) -> Result<Fittings, Refusal> {
        let (cpus, memory_mib) = (self.cpus, self.all_mib);
        Ok(Fittings { cpus, memory_mib, bridged: true, ..options_of(shape)? })
    }

    /// Boots it with a disk of dom0's own beside those that it is given.
    pub(super) fn boot(
        &self,
        name: &'static str,
        shape: &Shape,
        bed: &Bed,
        fittings: Fittings,
        disk_mib: u32,
    ) -> Result<Guest, Fault> {
        let taken = taken_by_dom0_mib(self.dom0_mib);
        let counted_time = truth(shape, "counted_time", false)?;
        let options = XenOptions {
            cpus: self.cpus,
            memory_mib: self.all_mib,
            dom0_vcpus: self.dom0_cpus,
            dom0_memory_mib: self.dom0_mib + taken,
            counted_time,
            lifetime: fittings.lifetime,
            ..XenOptions::default()
        };
        let mut facts = Facts {
            accelerator: "xen under tcg".into(),
            emulated: tcg::emulated(1),
            ..Facts::default()
        };
        facts.notes.insert("scheduler".into(), options.scheduler.name().into());
        let time = if counted_time { "4 ns for each instruction" } else { "this host's" };
        facts.notes.insert("time".into(), time.into());
        Guest::boot(GuestPlan {
            name,
            model: Model::Xen(options),
            fittings,
            facts,
            disk_mib,
            index: shape.index,
            bed,
        })
    }
}
