//! The hypervisor below this kernel, where that is a dom0 of Xen: its trace, its facts, its domains.
//!
//! The order of calls: [`plan`] finds out and asks Xen; [`XenPlan::begin`] adds it to a new recording (as the machine
//! before dom0: machines come after those they run on); [`XenRecording::start`] … [`XenRecording::stop`] record;
//! [`XenRecording::end`] writes what is known only then.

mod domains;
mod hypervisor;
mod only;
mod sink;

use crate::terminal::note;
pub(super) use domains::XenDomains;
pub(super) use hypervisor::{XenPlan, XenRecording, XenTotals};
pub(super) use only::NoKernel;

use super::units;
use transect_xen::{EventMask, Place, detect};

/// Whether the hypervisor is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum XenWish {
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
pub(crate) struct XenArgs {
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
    /// Is dom0's own kernel to be left out?
    pub(super) fn is_only(&self) -> bool {
        self.xen == XenWish::Only
    }
}

/// Plans the recording of Xen; `None` if this machine has no Xen or it is not wanted.
///
/// # Errors
/// It was asked for by name and cannot be.
pub(super) fn plan(args: &XenArgs, is_flight: bool) -> anyhow::Result<Option<XenPlan>> {
    let by_name = args.is_only() || args.xen_events.is_some() || args.xen_buffer.is_some();
    if args.xen == XenWish::Off {
        anyhow::ensure!(!by_name, "--xen off conflicts with --xen-events and --xen-buffer");
        return Ok(None);
    }
    let why_not = match detect() {
        Place::NotXen => "this kernel does not run under Xen".to_owned(),
        Place::DomU(_) => "this is a domU; only dom0 can record Xen".to_owned(),
        Place::Dom0(_) if is_flight => "a flight recorder cannot record Xen".to_owned(),
        Place::Dom0(dom0) => match dom0.lacks.first() {
            Some(lack) => {
                let why = format!("{}; to fix it: {}", lack.what, lack.mend);
                if !by_name {
                    note!("Xen is not recorded: {why}");
                }
                why
            }
            None => return XenPlan::prepare(dom0, args).map(Some),
        },
    };
    anyhow::ensure!(!by_name, "cannot record Xen: {why_not}");
    Ok(None)
}
