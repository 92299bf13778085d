//! This host itself, in a control group of the shape's size. See README.md.

use super::kit::{
    Expected, Own, OwnPlan, Roots, checked, memory_of_this_host_bytes, need_root, own_cpus,
};
use crate::platform::{Bed, Facts, Machine, Platform, Shape};
use transect_bench_core::{Fault, Kind, Refusal};

/// This host.
pub(super) struct Native;

impl Platform for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn about(&self) -> &'static str {
        "this host itself, in a control group with the shape's memory and CPUs"
    }

    fn can_run(&self, shape: &Shape) -> Result<(), Refusal> {
        need_root(self.name())?;
        own_cpus(self.name(), shape)?;
        enough_memory(self.name(), shape)
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let facts =
            Facts { accelerator: "none".into(), storage_is_below: true, ..Facts::default() };
        let words = |roots: &Roots| Ok(vec![roots.worker.clone().into()]);
        let cpus = own_cpus(self.name(), shape)?;
        let own = Own::new(OwnPlan { name: self.name(), facts, cpus, shape, bed, words: &words })?;
        let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
        checked(Box::new(own), &Expected { platform: self.name(), cpus, memory_mib })
    }
}

/// A limit above what there is would be none.
pub(super) fn enough_memory(platform: &str, shape: &Shape) -> Result<(), Refusal> {
    let what = || format!("platform {platform}");
    let there = memory_of_this_host_bytes()
        .map_err(|error| Refusal::new(Kind::NotHere, what(), error.to_string()))?;
    if u64::from(shape.memory_mib) << 20 <= there {
        return Ok(());
    }
    let why = format!("this host has {} MiB of memory, not {}", there >> 20, shape.memory_mib);
    Err(Refusal::new(Kind::Different, what(), why))
}
