//! The nested host that the guests of one cell share.

use crate::{
    kit::{Guest, GuestPlan, Shared, Sizes, World, failed, options_of, taken_by_kernel_mib},
    platform::{Bed, Facts, Shape},
    tcg,
};
use std::sync::{Arc, Mutex, Weak};
use transect_bench_core::{Fault, Refusal};
use transect_testbed::fitted::{self, Model};

/// Memory of the host itself, MiB.
const OWN_MIB: u32 = 640;
/// Memory that QEMU and its vCPUs' page tables take in the host beside a guest's own, MiB.
const BESIDE_A_GUEST_MIB: u32 = 128;

static SHARED: Shared = Mutex::new(Weak::new());

/// What this shape's host is made for.
pub(super) fn sizes_of(shape: &Shape) -> Result<Sizes, Refusal> {
    let each = shape.memory_mib + taken_by_kernel_mib(shape.memory_mib) + BESIDE_A_GUEST_MIB;
    Sizes::of("nested-kvm", shape, OWN_MIB, each)
}

/// The host that is there and does, or a new one.
pub(super) fn world_of(shape: &Shape, bed: &Bed) -> Result<Arc<World>, Fault> {
    World::of(&SHARED, "nested-kvm", sizes_of(shape)?, |sizes| boot(sizes, shape, bed))
}

fn boot(sizes: &Sizes, shape: &Shape, bed: &Bed) -> Result<Guest, Fault> {
    // The host sees the cache as it is when it boots.
    fitted::inner_images().map_err(|error| failed(&error))?;
    let mut fittings = options_of(shape)?;
    fittings.cpus = sizes.cpus;
    fittings.memory_mib = sizes.memory_mib;
    fittings.bridged = true;
    fittings.pipes = 1 + sizes.guests;
    Guest::boot(GuestPlan {
        name: "nested-kvm-host",
        model: Model::NestedHost,
        fittings,
        facts: Facts {
            accelerator: "tcg".into(),
            emulated: tcg::emulated(sizes.cpus),
            ..Facts::default()
        },
        disk_mib: sizes.disk_mib,
        index: shape.index,
        bed,
    })
}
