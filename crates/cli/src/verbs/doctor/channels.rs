//! What guests can be reached through, and which guests there are.

use super::Check;
use std::path::Path;

pub(super) fn checks() -> Vec<Check> {
    vec![btf(), vsock()]
}

/// BTF lets the compact collector's programs fit this kernel without a compiler.
fn btf() -> Check {
    match std::fs::metadata("/sys/kernel/btf/vmlinux") {
        Ok(meta) => {
            Check::ok("btf", format!("the kernel describes its types ({} KiB)", meta.len() / 1024))
        }
        Err(_) => Check::missing(
            "btf",
            "no /sys/kernel/btf/vmlinux: BPF collection is not possible, tracefs recording is",
            "use a kernel built with CONFIG_DEBUG_INFO_BTF (distribution kernels are)",
        ),
    }
}

/// The host's end of AF_VSOCK to guests is vhost-vsock.
fn vsock() -> Check {
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/vhost-vsock") {
        Ok(_) => Check::ok("vsock", "/dev/vhost-vsock opens: guests can be reached over vsock"),
        Err(_) if Path::new("/dev/vhost-vsock").exists() => {
            Check::limited("vsock", "/dev/vhost-vsock exists but does not open", "run as root")
        }
        Err(_) => Check::limited(
            "vsock",
            "no /dev/vhost-vsock: guests can be reached over virtio-serial only",
            "modprobe vhost_vsock",
        ),
    }
}
