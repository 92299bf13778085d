//! The hypervisor below this kernel, where that is a dom0 of Xen: its trace, its facts, its domains.
//!
//! The order of calls: [`plan`] finds out and asks Xen; [`XenPlan::begin`] adds it to a new recording (as the machine
//! before dom0: machines come after those they run on); [`XenRecording::start`] … [`XenRecording::stop`] record;
//! [`XenRecording::end`] writes what is known only then.

mod domains;
mod hypervisor;
mod only;
mod sink;

pub(super) use domains::XenDomains;
pub(super) use hypervisor::{XenPlan, XenRecording, XenTotals};
pub(super) use only::NoKernel;

use super::units;
use transect_xen::{EventMask, Place, detect};

/// Whether the hypervisor is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum XenWish {
    /// If this is a dom0.
    Auto,
    /// Not.
    Off,
    /// It, its domains' agents, but not this kernel.
    Only,
}

/// The options about Xen.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct XenArgs {
    /// Record the hypervisor, too: auto (in a dom0), off, or only (not dom0's own kernel)
    #[arg(long, value_name = "WHICH", value_enum, default_value = "auto")]
    xen: XenWish,
    /// Which of Xen's trace records: classes as sched,pv,hvm-entryexit (or all, or a mask)
    /// [default: gen,sched,dom0op,hvm,mem,pv]
    #[arg(long, value_name = "CLASSES")]
    xen_events: Option<EventMask>,
    /// Xen's buffer for each pCPU; it keeps the first size since it was booted [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size_kb)]
    xen_buffer: Option<u64>,
}

impl XenArgs {
    /// Is dom0's own kernel to be left out?
    pub(super) fn is_only(&self) -> bool {
        self.xen == XenWish::Only
    }
}

/// What is to be recorded of Xen; none where there is none, or it is not wanted.
///
/// # Errors
/// It was asked for by name and cannot be.
pub(super) fn plan(args: &XenArgs, is_flight: bool) -> anyhow::Result<Option<XenPlan>> {
    let by_name = args.is_only() || args.xen_events.is_some() || args.xen_buffer.is_some();
    if args.xen == XenWish::Off {
        anyhow::ensure!(
            !by_name,
            "--xen off and --xen-events or --xen-buffer contradict each other"
        );
        return Ok(None);
    }
    let why_not = match detect() {
        Place::NotXen => "this kernel does not run under Xen".to_owned(),
        Place::DomU(_) => "this is a domU: only dom0 can record Xen".to_owned(),
        Place::Dom0(_) if is_flight => "a flight recorder cannot record Xen".to_owned(),
        Place::Dom0(dom0) => match dom0.lacks.first() {
            Some(lack) => {
                let why = format!("{}; mend it with: {}", lack.what, lack.mend);
                if !by_name {
                    eprintln!("transect: Xen is not recorded: {why}");
                }
                why
            }
            None => return XenPlan::prepare(dom0, args).map(Some),
        },
    };
    anyhow::ensure!(!by_name, "Xen cannot be recorded: {why_not}");
    Ok(None)
}
