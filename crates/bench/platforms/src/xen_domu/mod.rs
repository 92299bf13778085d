#![doc = include_str!("README.md")]

mod domain;
mod kinds;
mod world;

pub(super) use kinds::{LOOP, PHYS};

use super::kit::{Expected, checked, need_program};
use super::{
    platform::{Bed, Machine, Platform, Shape},
    xen_dom0,
};
use kinds::XenDomu;
use transect_bench_core::{Fault, Refusal};

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
