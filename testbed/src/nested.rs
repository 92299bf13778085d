//! The nested host ("L1"): QEMU's TCG emulates an AMD CPU with SVM, Debian's kernel runs `kvm-amd` on it.

use std::time::Duration;

use anyhow::Result;

use crate::again::BootFailure;
use crate::compile::WORKLOAD;
use crate::emulated::{Emulated, Kind};
use crate::host_options::HostOptions;
use crate::initramfs;
use crate::kernel::{Flavour, Kernel};
use crate::qemu::Line;
use crate::rundir::RunDir;

/// Booting takes 5–8 s on two idle cores; more when they are busy.
const KIND: Kind = Kind { title: "the nested host", boot: Duration::from_secs(120), prologue: "" };

/// Boots one.
pub(crate) fn boot(options: &HostOptions) -> Result<Result<Emulated, BootFailure>> {
    let kernel = Kernel::get(Flavour::Full)?;
    let initrd = initramfs::of_host(&kernel)?;
    // Commands on the host may run it: the host sees the cache as it is when it boots.
    WORKLOAD.binary()?;
    let run = RunDir::new(options.lifetime)?;
    let mut line = Line(vec!["qemu-system-x86_64".into()]);
    line.words(&["-accel", "tcg,thread=multi", "-cpu", "EPYC,+svm"]);
    line.option("-smp", options.cpus.to_string());
    line.option("-m", options.memory_mib.to_string());
    line.option("-kernel", kernel.vmlinux());
    line.option("-initrd", initrd);
    // The emulated TSC is this machine's plus a constant, but the kernel cannot know and would distrust it.
    // Autogroup would make `nice` relative to a session, and every job is a session.
    let tsc = "tsc=reliable clocksource=tsc";
    // The other CPUs are started by PID 1 (host-init.sh), after all tracepoints have been patched.
    let one = "maxcpus=1";
    line.option("-append", format!("console=ttyS0 quiet panic=-1 noautogroup {one} {tsc}"));
    let logs = run.path().to_owned();
    Ok(Emulated::boot(KIND, run, line).map_err(|error| (error, logs)))
}
