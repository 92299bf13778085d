//! The two kinds of domains: dom0 has a device behind the disk, or a file.

/// A domain with a disk.
#[derive(Debug)]
pub(crate) struct XenDomu {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) disk: Disk,
}

/// What dom0 has behind a domain's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Device,
    File,
}

/// With a physical disk.
pub(crate) const PHYS: XenDomu = XenDomu {
    name: "xen-domu-phys",
    about: "a Xen domain, emulated (TCG), with a disk of dom0 as its disk (phy:)",
    disk: Disk::Device,
};

/// With a file of its dom0 as its disk.
pub(crate) const LOOP: XenDomu = XenDomu {
    name: "xen-domu-loop",
    about: "a Xen domain, emulated (TCG), with a file in dom0 as its disk (loop)",
    disk: Disk::File,
};
