//! A QEMU guest whose instructions are all emulated. See README.md.

use super::kit::{Expected, Guest, GuestPlan, checked, need_program, options_of};
use crate::platform::{Bed, Facts, Machine, Platform, Shape};
use transect_bench_core::{Fault, Refusal};
use transect_testbed::fitted::Model;
use transect_testbed::qemu::Accelerator;

/// QEMU's TCG.
pub(super) struct Tcg;

impl Platform for Tcg {
    fn name(&self) -> &'static str {
        "tcg"
    }

    fn about(&self) -> &'static str {
        "a QEMU guest with Debian's kernel, every instruction emulated (TCG)"
    }

    fn opening_s(&self) -> f64 {
        11.0
    }

    fn slowness(&self) -> f64 {
        12.0
    }

    fn can_run(&self, _: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "qemu-system-x86_64", "qemu-system-x86")
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let facts =
            Facts { accelerator: "tcg".into(), emulated: emulated(shape.cpus), ..Facts::default() };
        open(self.name(), Accelerator::Tcg, facts, shape, bed)
    }
}

/// What of a machine under TCG transfers to no other.
pub(super) fn emulated(cpus: u32) -> Vec<String> {
    let mut all = vec![
        "the speed of every instruction: times, rates and their ratios between workloads".into(),
    ];
    if cpus > 1 {
        let why =
            "two idle listeners on common tracepoints (QEMU may run stale copies of patched code)";
        all.push(why.into());
    }
    all
}

/// A guest of this host under either accelerator.
pub(super) fn open(
    name: &'static str,
    accelerator: Accelerator,
    facts: Facts,
    shape: &Shape,
    bed: &Bed,
) -> Result<Box<dyn Machine>, Fault> {
    let guest = Guest::boot(GuestPlan {
        name,
        model: Model::Guest(accelerator),
        fittings: options_of(shape)?,
        facts,
        disk_mib: shape.disk_mib,
        index: shape.index,
        bed,
    })?;
    let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
    checked(Box::new(guest), &Expected { platform: name, cpus, memory_mib })
}
