//! The initramfs images of dom0 and of domUs.

use std::path::PathBuf;

use anyhow::Result;

use super::tools::XenTools;
use crate::cpio::Cpio;
use crate::initramfs::{add_guest_programs, guest_ingredients, image};
use crate::kernel::Kernel;

const INIT: &str = concat!(
    include_str!("../../guest/host-common.sh"),
    include_str!("../../guest/xen/dom0-init.sh")
);
const FITTED_INIT: &str = concat!(
    include_str!("../../guest/host-common.sh"),
    include_str!("../../guest/xen/domu-init.sh")
);
const BLOCK: &str = include_str!("../../guest/xen/block");
const VIF: &str = include_str!("../../guest/xen/vif");

/// Where libxl looks for scripts that are given without a folder.
const SCRIPTS: &str = "xen/etc/xen/scripts";

const DOM0_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "9p",
    "9pnet_virtio",
    "overlay",
    "xenfs",
    "xen-privcmd",
    "xen-evtchn",
    "xen-gntdev",
    "xen-gntalloc",
    "xen-blkback",
    "xen-netback",
    "bridge",
    "dummy",
    "loop",
    "virtio_net",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
];

const DOMU_MODULES: &[&str] = &["xen-blkfront", "xen-netfront"];

/// A root over TCP, a card and a disk.
const FITTED_MODULES: &[&str] =
    &["xen-blkfront", "xen-netfront", "9p", "9pnet_fd", "crc32c_generic", "ext4"];

/// The image of dom0: Xen's tools are in it, under `/xen`.
pub(crate) fn of_dom0(kernel: &Kernel, tools: &XenTools) -> Result<PathBuf> {
    let modules = kernel.modules(DOM0_MODULES)?;
    let ingredients = format!("{} {INIT}{BLOCK}{VIF}", tools.key());
    image("dom0", kernel, &ingredients, &modules, |cpio| {
        cpio.script("init", INIT)?;
        cpio.tree("xen", &tools.tree())?;
        cpio.script(&format!("{SCRIPTS}/testbed-block"), BLOCK)?;
        cpio.script(&format!("{SCRIPTS}/testbed-vif"), VIF)
    })
}

/// The base image of domUs.
pub(crate) fn of_domu(kernel: &Kernel) -> Result<PathBuf> {
    let modules = kernel.modules(DOMU_MODULES)?;
    let add = |cpio: &mut Cpio| add_guest_programs(cpio);
    image("domu", kernel, &guest_ingredients(), &modules, add)
}

/// The image of the benchmark's domains.
pub(crate) fn of_fitted_domu(kernel: &Kernel) -> Result<PathBuf> {
    let modules = kernel.modules(FITTED_MODULES)?;
    image("fitted-domu", kernel, FITTED_INIT, &modules, |cpio| cpio.script("init", FITTED_INIT))
}
