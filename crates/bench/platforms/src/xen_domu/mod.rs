#![doc = include_str!("README.md")]

mod domain;
mod world;

use super::kit::{Expected, checked, need_program};
use super::{Bed, Machine, Platform, Shape, xen_dom0};
use transect_bench_core::{Fault, Refusal};

/// A domain with a disk.
#[derive(Debug)]
pub(super) struct XenDomu {
    name: &'static str,
    about: &'static str,
    disk: Disk,
}

/// What dom0 has behind a domain's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Device,
    File,
}

/// With a physical disk.
pub(super) const PHYS: XenDomu = XenDomu {
    name: "xen-domu-phys",
    about: "a Xen domain, emulated (TCG), with a disk of dom0 as its disk (phy:)",
    disk: Disk::Device,
};

/// With a file of its dom0 as its disk.
pub(super) const LOOP: XenDomu = XenDomu {
    name: "xen-domu-loop",
    about: "a Xen domain, emulated (TCG), with a file in dom0 as its disk (loop)",
    disk: Disk::File,
};

impl Platform for XenDomu {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn opening_s(&self) -> f64 {
        58.0
    }

    fn slowness(&self) -> f64 {
        16.0
    }

    fn can_run(&self, shape: &Shape) -> Result<(), Refusal> {
        xen_dom0::can_run(self.name)?;
        need_program(self.name, "diod", "diod")?;
        world::sizes_of(self, shape).map(drop)
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let expected =
            Expected { platform: self.name, cpus: shape.cpus, memory_mib: shape.memory_mib };
        checked(Box::new(domain::boot(self, shape, bed)?), &expected)
    }
}
