//! Can the compact collector run here? Tried: its programs are loaded, switched on and off.

use super::check::Check;
use transect_bpf::{Compact, Family, Plan, can_run};

pub(super) fn check() -> Check {
    let capabilities = match can_run() {
        Ok(capabilities) => capabilities,
        Err(why) => {
            return Check::limited(
                "compact collector",
                why.to_string(),
                "without it, record uses the full collector (tracefs), which costs more per event",
            );
        }
    };
    let mut plan = Plan::of(&[Family::Sched, Family::Kvm, Family::Irq]);
    plan.log_bytes_per_cpu = 64 << 10;
    let tried = Compact::load(&plan).and_then(|mut compact| {
        compact.attach()?;
        Ok(compact.programs().len())
    });
    match tried {
        Ok(programs) => Check::ok(
            "compact collector",
            format!(
                "{programs} BPF programs loaded and ran; VM exits: {}",
                capabilities.kvm_exit.as_str()
            ),
        ),
        Err(error) => Check::limited(
            "compact collector",
            error.to_string(),
            "transect record --full; please report this kernel",
        ),
    }
}
