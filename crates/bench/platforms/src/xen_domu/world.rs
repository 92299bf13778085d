//! The Xen host that the domains of one cell share.

use super::kinds::{Disk, XenDomu};
use crate::{
    kit::{Guest, Shared, Sizes, World, disk_image, failed, taken_by_kernel_mib},
    platform::{Bed, Shape},
    xen_dom0::{Dom0, taken_by_dom0_mib},
};
use std::sync::{Arc, Mutex, Weak};
use transect_bench_core::{Fault, Refusal};
use transect_testbed::fitted;

/// Memory of dom0 as counted inside, MiB: its tools, the export of its root, and what is cached of that.
const DOM0_MIB: u32 = 512;
/// Memory of Xen itself, MiB.
const XEN_MIB: u32 = 384;
/// Memory that Xen keeps for a domain beside the domain's own, MiB.
const BESIDE_A_DOMAIN_MIB: u32 = 24;

static SHARED: Shared = Mutex::new(Weak::new());

/// What this shape's host is made for.
pub(super) fn sizes_of(platform: &XenDomu, shape: &Shape) -> Result<Sizes, Refusal> {
    let each = shape.memory_mib + taken_by_kernel_mib(shape.memory_mib) + BESIDE_A_DOMAIN_MIB;
    let own = DOM0_MIB + taken_by_dom0_mib(DOM0_MIB) + XEN_MIB;
    Sizes::of(platform.name, shape, own, each)
}

/// The host that is there and does, or a new one.
pub(super) fn world_of(platform: &XenDomu, shape: &Shape, bed: &Bed) -> Result<Arc<World>, Fault> {
    let sizes = sizes_of(platform, shape)?;
    World::of(&SHARED, platform.name, sizes, |sizes| boot(platform, sizes, shape, bed))
}

fn boot(platform: &XenDomu, sizes: &Sizes, shape: &Shape, bed: &Bed) -> Result<Guest, Fault> {
    // The host sees the cache as it is when it boots.
    fitted::domain_images().map_err(|error| failed(&error))?;
    let all_mib = sizes.memory_mib;
    let host = Dom0 { dom0_cpus: 1, cpus: sizes.cpus, dom0_mib: DOM0_MIB, all_mib };
    let mut fittings = host.fittings(shape)?;
    fittings.exports = true;
    let own_disk_mib = match platform.disk {
        Disk::File => sizes.disk_mib,
        Disk::Device => {
            let name = |place| format!("{}-{place}", platform.name);
            let image = |place| disk_image(bed, &name(place), shape.disk_mib);
            fittings.disks = (0..sizes.guests).map(image).collect::<Result<_, _>>()?;
            16
        }
    };
    host.boot("xen-domu-host", shape, bed, fittings, own_disk_mib)
}
