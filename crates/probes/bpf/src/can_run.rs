//! Whether the compact collector can run here, and if not, why.

use std::fs;

use libbpf_rs::{MapHandle, MapType};
use procfs::process::Process;

use crate::{
    KvmExitMethod, WhyNot,
    kernel::{Names, Version, release},
};

/// What this kernel allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The kernel's release.
    pub kernel: String,
    /// Events of the compact collector that this kernel lacks, as `system:event`.
    pub absent: Vec<String>,
    /// How VM exits would be recorded.
    pub kvm_exit: KvmExitMethod,
}

/// Can the compact collector run here? Loads nothing but one small map, which goes at once.
///
/// # Errors
/// Why it cannot, with what to do.
pub fn can_run() -> Result<Capabilities, WhyNot> {
    let names = check()?;
    Ok(Capabilities {
        kernel: release(),
        absent: crate::choice::absent(&names),
        kvm_exit: crate::choice::kvm_exit_method(&names),
    })
}

pub(crate) fn check() -> Result<Names, WhyNot> {
    if Version::running() < Version(5, 14) {
        return Err(WhyNot::TooOld(release()));
    }
    let names = Names::read()?;
    if !may_load() {
        return Err(WhyNot::NoPermission);
    }
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return Err(WhyNot::Lockdown);
    }
    if !names.has_tracepoint("sched_switch") {
        return Err(WhyNot::NoTracepoints);
    }
    try_map()?;
    Ok(names)
}

/// The kinds of permission bpf(2) asks for (kernel/bpf/syscall.c, since 5.8).
fn may_load() -> bool {
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let Ok(status) = Process::myself().and_then(|own| own.status()) else {
        return true; // no procfs: the kernel will say
    };
    let has = |capability: u32| status.capeff >> capability & 1 == 1;
    has(SYS_ADMIN) || (has(PERFMON) && has(BPF))
}

fn try_map() -> Result<(), WhyNot> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let map = MapHandle::create(MapType::Array, Some("transect_try"), 4, 64, 1, &options);
    map.map(drop).map_err(|error| WhyNot::Refused(error.to_string()))
}
