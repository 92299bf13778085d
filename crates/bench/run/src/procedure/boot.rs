//! Platforms that need this host to be booted differently: another kernel, or Xen.
//!
//! A plan names the boot loader's entry of such a platform (`[platforms."xen-dom0"] boot = "…"`) and of all others
//! (`[machine] boot = "…"`). Within a block, units of one entry follow each other, the entries in random order. Where
//! another one is needed, the journal says so, the boot loader is told to take it the next time only, and the host is
//! rebooted; `resume` goes on there. A host that does not come up again there comes up with its default entry.

use std::{collections::BTreeMap, path::PathBuf, process::Command};
use transect_bench_core::Fault;

/// What boots this host.
pub trait Boots: std::fmt::Debug + Send + Sync {
    /// Differs from boot to boot.
    fn id(&self) -> Result<String, Fault>;
    /// What was booted: differs from entry to entry, and not between two boots by the same.
    fn running(&self) -> Result<String, Fault> {
        let read = |path: &str| read(path).map(|text| text.trim().to_owned());
        let kernel = [read("/proc/sys/kernel/osrelease")?, read("/proc/cmdline")?].join(" ");
        // Linux under Xen may have the same words as without.
        Ok(match read("/sys/hypervisor/type") {
            Ok(below) => format!("{kernel} (under {below})"),
            Err(_) => kernel,
        })
    }
    /// Reboots into an entry of the boot loader, once. Does not wait for it.
    fn reboot_into(&self, entry: &str) -> Result<(), Fault>;
    /// Everything is done: it is not to go on after another boot.
    fn over(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// Nobody may reboot it: people are told what to do.
#[derive(Debug)]
pub struct ByHand;

/// GRUB's `grub-reboot`, and systemd, whose unit `transect-bench@.service` goes on after the boot.
#[derive(Debug)]
pub struct Grub {
    /// The folder of results.
    pub results: PathBuf,
}

impl Grub {
    /// The unit of these results, as `systemd-escape` has it.
    fn unit(&self) -> Result<String, Fault> {
        let folder = std::path::absolute(&self.results).map_err(Fault::failed)?;
        let mut escape = Command::new("systemd-escape");
        let named = escape.args(["--path", "--template=transect-bench@.service"]).arg(folder);
        Ok(run(named)?.trim().to_owned())
    }
}

impl Boots for ByHand {
    fn id(&self) -> Result<String, Fault> {
        boot_id()
    }

    fn reboot_into(&self, entry: &str) -> Result<(), Fault> {
        Err(Fault::failed(format!(
            "the next cells need this host booted with the entry \"{entry}\": run `grub-reboot '{entry}' && reboot`, then resume, \
             or pass --may-reboot to reboot automatically"
        )))
    }
}

impl Boots for Grub {
    fn id(&self) -> Result<String, Fault> {
        boot_id()
    }

    fn reboot_into(&self, entry: &str) -> Result<(), Fault> {
        run(Command::new("systemctl").args(["enable", "--quiet"]).arg(self.unit()?))?;
        run(Command::new("grub-reboot").arg(entry))?;
        run(Command::new("systemctl").arg("reboot")).map(drop)
    }

    fn over(&self) -> Result<(), Fault> {
        run(Command::new("systemctl").args(["disable", "--quiet"]).arg(self.unit()?)).map(drop)
    }
}

fn boot_id() -> Result<String, Fault> {
    read("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

fn read(path: &str) -> Result<String, Fault> {
    std::fs::read_to_string(path).map_err(|error| Fault::failed(format!("{path}: {error}")))
}

/// Refuses what came up if it is not `entry`, as far as that can be seen: `grub-reboot` takes any name, and GRUB boots its
/// default where it knows none of it.
pub(super) fn check(
    entry: &str,
    running: &str,
    before: &BTreeMap<String, String>,
) -> Result<(), Fault> {
    let same = before.iter().find(|(other, what)| *other != entry && *what == running);
    if let Some((other, _)) = same {
        return Err(Fault::failed(format!(
            "the boot entry \"{entry}\" was requested, but the host runs the kernel of \"{other}\": {running}. Check that the boot loader \
             has this entry (`grep -E 'menuentry |submenu ' /boot/grub/grub.cfg`; write one in a submenu as SUBMENU>ENTRY)"
        )));
    }
    match before.get(entry) {
        Some(what) if what != running => Err(Fault::failed(format!(
            "the boot entry \"{entry}\" now runs {running}, and ran {what} before: results of two kernels cannot be mixed"
        ))),
        _ => Ok(()),
    }
}

fn run(command: &mut Command) -> Result<String, Fault> {
    let out = command.output();
    let out = out.map_err(|error| Fault::failed(format!("cannot run {command:?}: {error}")))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    Err(Fault::failed(format!("{command:?}: {}: {}", out.status, said.trim_end())))
}
