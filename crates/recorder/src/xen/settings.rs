//! What to record of Xen.

use transect_xen::EventMask;

/// Whether the hypervisor is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XenPart {
    /// In addition to this kernel, if this is a dom0.
    #[default]
    Auto,
    /// Not.
    Off,
    /// Without dom0's own kernel.
    Only,
}

/// What to record of Xen.
#[derive(Clone, Debug, Default)]
pub struct XenSettings {
    /// Is the hypervisor recorded?
    pub part: XenPart,
    /// Classes of Xen's trace records; none: those of [`EventMask::default`].
    pub events: Option<EventMask>,
    /// Xen's trace buffer per pCPU, KiB; none: 1 MiB.
    pub buffer_kb: Option<u64>,
}

impl XenSettings {
    /// Is dom0's own kernel to be left out?
    pub(crate) fn is_only(&self) -> bool {
        self.part == XenPart::Only
    }
}
