//! Can VMs run here, and can they be traced?
//!
//! `/dev/kvm` proves neither: under some hypervisors (PVM) the device exists and runs tiny guests,
//! but boots no stock kernel and never fires `kvm_exit`. So a tiny VM is run with a deadline while
//! the `kvm` tracepoints are counted, and, where QEMU and a kernel image are at hand, that kernel
//! is booted with a deadline.

use super::{check::Check, tiny_vm::PORT_WRITES, tracing};
use anyhow::bail;
use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const TINY_VM_DEADLINE: Duration = Duration::from_secs(2);
const BOOT_DEADLINE: Duration = Duration::from_secs(8);
/// A kernel that boots says this first on its console.
const BOOT_SIGN: &[u8] = b"Linux version";

pub(super) fn checks() -> Vec<Check> {
    if !Path::new("/dev/kvm").exists() {
        return vec![Check::missing(
            "kvm",
            "no /dev/kvm",
            "modprobe kvm-amd or kvm-intel; in a VM, first enable nested virtualization on its host",
        )];
    }
    let mut all = vec![tiny_vm_check()];
    all.push(boot_check());
    all.push(offsets_check());
    all
}

/// Runs the tiny VM in a child with a deadline, and counts the exits the tracepoints saw.
fn tiny_vm_check() -> Check {
    let started = Instant::now();
    let counted = tracing::count_events("kvm/kvm_exit", || {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["doctor", "--run-tiny-vm"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        if !finishes_within(&mut child, TINY_VM_DEADLINE)? {
            bail!("a tiny VM did not finish within {} s", TINY_VM_DEADLINE.as_secs());
        }
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim().replace("transect: ", ""));
        }
        Ok(())
    });
    let took = started.elapsed().as_millis();
    match counted {
        Err(error) => Check::missing(
            "kvm",
            format!("/dev/kvm exists, but {error:#}"),
            "run as root or in group kvm; if it fails again, check dmesg for kvm messages",
        ),
        Ok(Some(exits)) if exits >= u64::from(PORT_WRITES) => {
            Check::ok("kvm", format!("a tiny VM ran in {took} ms and kvm_exit fired {exits} times"))
        }
        Ok(Some(exits)) => Check::limited(
            "kvm",
            format!(
                "a tiny VM made {PORT_WRITES} exits, but kvm_exit fired {exits} times: this \
                 KVM does not trace VM entries and exits (as with PVM)"
            ),
            "record on a host with kvm-intel or kvm-amd; here, sched events still identify vCPU threads",
        ),
        Ok(None) => Check::limited(
            "kvm",
            format!("a tiny VM ran in {took} ms; its exits cannot be counted without tracefs"),
            "fix tracefs, see its line above",
        ),
    }
}

/// Boots the newest kernel of /boot under QEMU until it speaks.
fn boot_check() -> Check {
    let facility = "kvm boot";
    let Some(kernel) = newest_kernel() else {
        return Check::limited(
            facility,
            "not tried: no readable kernel image in /boot",
            "apt-get install linux-image-amd64, or run as root",
        );
    };
    let qemu = format!("qemu-system-{}", std::env::consts::ARCH);
    let started = Instant::now();
    let child = Command::new(&qemu)
        .args(["-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults", "-nographic"])
        .args(["-no-reboot", "-serial", "stdio", "-append", "console=ttyS0 panic=-1", "-kernel"])
        .arg(&kernel)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        return Check::limited(
            facility,
            format!("not tried: no {qemu}"),
            "apt-get install qemu-system-x86",
        );
    };
    let spoke = says_within(&mut child, BOOT_SIGN, BOOT_DEADLINE);
    if spoke {
        Check::ok(
            facility,
            format!(
                "a stock kernel booted and printed its version after {} ms",
                started.elapsed().as_millis()
            ),
        )
    } else {
        Check::missing(
            facility,
            format!("{} printed nothing within {} s", kernel.display(), BOOT_DEADLINE.as_secs()),
            "this KVM cannot boot a stock kernel: use a host with hardware virtualization, or \
             nested KVM under emulation as `make demo` does",
        )
    }
}

/// Are the TSC offsets of VMs readable, so that guest time can be aligned exactly?
fn offsets_check() -> Check {
    if Path::new("/sys/kernel/debug/kvm").is_dir() {
        Check::ok(
            "kvm tsc offsets",
            "/sys/kernel/debug/kvm is readable: guest TSCs are aligned exactly",
        )
    } else {
        Check::limited(
            "kvm tsc offsets",
            "no /sys/kernel/debug/kvm: guest clocks are only estimated, from exchanges with the agent",
            "as root: mount -t debugfs nodev /sys/kernel/debug (kernel lockdown forbids it)",
        )
    }
}

fn newest_kernel() -> Option<PathBuf> {
    let mut kernels: Vec<PathBuf> = std::fs::read_dir("/boot")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("vmlinuz")))
        .filter(|path| std::fs::File::open(path).is_ok())
        .collect();
    kernels.sort();
    kernels.pop()
}

/// Waits for the child; kills and reaps it if the deadline comes first.
fn finishes_within(child: &mut Child, limit: Duration) -> std::io::Result<bool> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill()?;
    child.wait()?;
    Ok(false)
}

/// Does the child print `sign` before the limit? The child is dead and reaped afterwards.
fn says_within(child: &mut Child, sign: &[u8], limit: Duration) -> bool {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    if let Some(mut console) = child.stdout.take() {
        let sign = sign.to_vec();
        std::thread::spawn(move || {
            let mut seen = Vec::new();
            let mut chunk = [0; 4096];
            while let Ok(n) = console.read(&mut chunk) {
                seen.extend_from_slice(&chunk[..n]);
                if n == 0 || seen.len() > 1 << 20 {
                    break;
                }
                if seen.windows(sign.len()).any(|w| w == sign) {
                    let _ = tell.send(());
                    break;
                }
            }
        });
    }
    let spoke = told.recv_timeout(limit).is_ok();
    let _ = child.kill();
    let _ = child.wait();
    spoke
}
