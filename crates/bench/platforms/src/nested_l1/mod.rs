//! The nested host ("L1") itself: what is native in the world of `nested-kvm`. See README.md.

use super::kit::{Expected, Guest, GuestPlan, checked, need_program, options_of};
use super::{
    platform::{Bed, Facts, Machine, Platform, Shape},
    tcg,
};
use transect_bench_core::{Fault, Refusal};
use transect_testbed::fitted::Model;

/// L1.
pub(super) struct NestedL1;

impl Platform for NestedL1 {
    fn name(&self) -> &'static str {
        "nested-l1"
    }

    fn about(&self) -> &'static str {
        "a nested KVM host itself, emulated (TCG): the baseline for nested-kvm's guests"
    }

    fn opening_s(&self) -> f64 {
        12.0
    }

    fn slowness(&self) -> f64 {
        12.0
    }

    fn can_run(&self, _: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "qemu-system-x86_64", "qemu-system-x86")
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let facts = Facts {
            accelerator: "tcg".into(),
            emulated: tcg::emulated(shape.cpus),
            ..Facts::default()
        };
        let guest = Guest::boot(GuestPlan {
            name: self.name(),
            model: Model::NestedHost,
            fittings: options_of(shape)?,
            facts,
            disk_mib: shape.disk_mib,
            index: shape.index,
            bed,
        })?;
        let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
        checked(Box::new(guest), &Expected { platform: self.name(), cpus, memory_mib })
    }
}
