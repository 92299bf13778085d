//! The hypervisor below this kernel, where that is a dom0 of Xen: its trace, its facts, its domains.
//!
//! The order of calls: [`plan`] finds out and asks Xen; [`XenPlan::begin`] adds it to a new recording (as the machine
//! before dom0: machines come after those they run on); [`XenRecording::start`] … [`XenRecording::stop`] record;
//! [`XenRecording::end`] writes what is known only then.

mod domains;
mod hypervisor;
mod only;
mod settings;
mod sink;

pub(super) use domains::XenDomains;
pub(super) use hypervisor::{XenPlan, XenRecording, XenTotals};
pub(super) use only::NoKernel;
pub use settings::{XenPart, XenSettings};

use transect_xen::{Place, detect};

/// Plans the recording of Xen; `None` if this machine has no Xen or it is not wanted. `warnings` gets the reason for
/// which a dom0's Xen is not recorded.
///
/// # Errors
/// It was asked for by name and cannot be.
pub(super) fn plan(
    settings: &XenSettings,
    is_flight: bool,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Option<XenPlan>> {
    let by_name = settings.is_only() || settings.events.is_some() || settings.buffer_kb.is_some();
    if settings.part == XenPart::Off {
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
                    warnings.push(format!("Xen is not recorded: {why}"));
                }
                why
            }
            None => return XenPlan::prepare(dom0, settings).map(Some),
        },
    };
    anyhow::ensure!(!by_name, "cannot record Xen: {why_not}");
    Ok(None)
}
