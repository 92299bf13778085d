//! What all collectors say about this kernel.

/// The kernel as `uname -snrm` prints it.
pub(super) fn uname_text() -> String {
    let uname = rustix::system::uname();
    let parts = [uname.sysname(), uname.nodename(), uname.release(), uname.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

/// One line about events that are not there. That Xen's dom0 has no KVM goes without saying.
pub(super) fn absent_note(absent: &[String]) -> Option<String> {
    let on_xen = matches!(transect_xen::detect(), transect_xen::Place::Dom0(_));
    let (kvm, others): (Vec<_>, Vec<_>) = absent.iter().partition(|e| e.starts_with("kvm:"));
    let mut parts = Vec::new();
    // All of KVM is one fact, not a dozen.
    let is_all = kvm.len() > 6;
    if is_all && !on_xen {
        parts.push("kvm:* (KVM is not loaded: modprobe kvm_intel or kvm_amd)".to_owned());
    } else if !is_all {
        parts.extend(kvm.into_iter().cloned());
    }
    parts.extend(others.into_iter().cloned());
    (!parts.is_empty()).then(|| format!("events that this kernel lacks: {}", parts.join(", ")))
}
