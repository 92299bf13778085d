//! A guest ("L2") under the real KVM of a nested host ("L1"). See README.md.

mod guest;
mod world;

use super::kit::{Expected, checked, need_program};
use crate::platform::{Bed, Machine, Platform, Shape};
use transect_bench_core::{Fault, Refusal};

/// KVM in an emulated host.
pub(super) struct NestedKvm;

impl Platform for NestedKvm {
    fn name(&self) -> &'static str {
        "nested-kvm"
    }

    fn about(&self) -> &'static str {
        "a guest under the real KVM of an emulated host (L2 in L1 under TCG)"
    }

    fn opening_s(&self) -> f64 {
        62.0
    }

    fn slowness(&self) -> f64 {
        16.0
    }

    fn can_run(&self, shape: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "qemu-system-x86_64", "qemu-system-x86")?;
        world::sizes_of(shape).map(drop)
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let expected =
            Expected { platform: self.name(), cpus: shape.cpus, memory_mib: shape.memory_mib };
        let open = || checked(Box::new(guest::boot(shape, bed)?), &expected);
        open().or_else(|first| match first {
            Fault::Refused(refusal) => Err(refusal.into()),
            // An emulated host or its guest may hang of the emulator: once more, on another host unless others use it.
            Fault::Failed(first) => open().map_err(|again| match again {
                Fault::Failed(again) => Fault::Failed(format!("{again}\nand before that: {first}")),
                refused @ Fault::Refused(_) => refused,
            }),
        })
    }
}
