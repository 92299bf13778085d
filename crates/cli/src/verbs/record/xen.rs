//! The options about Xen.

use clap::ValueEnum;
use transect_recorder::{XenPart, XenSettings, units};
use transect_xen::EventMask;

/// Whether the hypervisor is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum XenWish {
    /// Record Xen in addition to this kernel if this is a dom0
    Auto,
    /// Do not record Xen
    Off,
    /// Record Xen and, through --guest, kernels of its domains, but not dom0's own kernel
    Only,
}

/// Heading of `transect record --help`.
const XEN: &str = "Xen";

/// The options about Xen.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct XenArgs {
    /// Record the Xen hypervisor
    #[arg(long, value_name = "MODE", value_enum, default_value = "auto", help_heading = XEN)]
    xen: XenWish,
    /// Classes of Xen's trace records, e.g. sched,pv,hvm-entryexit; or all, or a mask
    /// [default: gen,sched,dom0op,hvm,mem,pv]
    #[arg(long, value_name = "CLASSES", help_heading = XEN)]
    xen_events: Option<EventMask>,
    /// Xen's trace buffer per pCPU, in K, M, G or T; Xen keeps the first size until it is rebooted
    /// [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size_kb, help_heading = XEN)]
    xen_buffer: Option<u64>,
}

impl XenArgs {
    pub(super) fn settings(&self) -> XenSettings {
        let part = match self.xen {
            XenWish::Auto => XenPart::Auto,
            XenWish::Off => XenPart::Off,
            XenWish::Only => XenPart::Only,
        };
        XenSettings { part, events: self.xen_events, buffer_kb: self.xen_buffer }
    }
}
