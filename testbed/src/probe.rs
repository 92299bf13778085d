//! Whether this machine's KVM is usable: a Debian kernel must boot under it in time.
//!
//! The existence of `/dev/kvm` proves nothing: para-virtual KVMs offer it, run a few instructions, and hang or fail
//! on a stock kernel. The timed boot is remembered for as long as this machine stays booted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cache;
use crate::direct::Direct;
use crate::guest::GuestPlan;
use crate::qemu::Accelerator;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Stock kernels boot.
    Usable,
    /// They do not, and why.
    Unusable(String),
}

impl Verdict {
    /// Whether hosts can be this machine itself.
    pub fn is_usable(&self) -> bool {
        *self == Self::Usable
    }
}

/// Seconds a guest has to boot; `TRANSECT_KVM_PROBE_SECS` changes it (nested hosts are slow).
const BOOT_SECS: u64 = 5;

/// Looks, and if in doubt boots.
pub fn kvm() -> Result<Verdict> {
    if let Some(why) = obstacle() {
        return Ok(Verdict::Unusable(why));
    }
    let boot_id =
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").context("no boot id")?;
    let memory = cache::folder()?.join(format!("kvm-verdict-{}", boot_id.trim()));
    if let Ok(text) = std::fs::read_to_string(&memory) {
        return Ok(if text.is_empty() { Verdict::Usable } else { Verdict::Unusable(text) });
    }
    let verdict = timed_boot()?;
    let text = if let Verdict::Unusable(why) = &verdict { why.as_str() } else { "" };
    // Only saves time: where the cache is read only, the next one probes again.
    drop(std::fs::write(memory, text));
    Ok(verdict)
}

/// What makes a boot needless.
fn obstacle() -> Option<String> {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    if let Err(error) = device {
        return Some(format!("/dev/kvm: {error}"));
    }
    let vendor = ["kvm_amd", "kvm_intel"]
        .into_iter()
        .find(|name| Path::new("/sys/module").join(name).exists());
    if vendor.is_none() {
        return Some(
            "neither kvm_amd nor kvm_intel is there, so there are no kvm_entry and kvm_exit events"
                .into(),
        );
    }
    if !Path::new("/dev/vhost-vsock").exists() {
        return Some("/dev/vhost-vsock is missing (modprobe vhost_vsock)".into());
    }
    None
}

fn timed_boot() -> Result<Verdict> {
    let asked = std::env::var("TRANSECT_KVM_PROBE_SECS").ok().and_then(|text| text.parse().ok());
    let within = asked.unwrap_or(BOOT_SECS);
    let place = Arc::new(Direct::new(Duration::from_secs(within + 60))?);
    let guest = GuestPlan::new(place, Accelerator::Kvm, "probe").start()?;
    let ready = guest.wait_for("transect-guest: ready").within(within);
    guest.forget_failures();
    Ok(match ready {
        Ok(_) => Verdict::Usable,
        Err(error) => {
            let first = error.to_string().lines().next().unwrap_or_default().to_owned();
            Verdict::Unusable(format!("a Debian kernel under KVM: {first}"))
        }
    })
}

/// For `testbed probe-kvm`: a line for people.
pub fn sentence(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Usable => "KVM is usable: hosts are this machine itself".into(),
        Verdict::Unusable(why) => format!("KVM is not usable: {why}; hosts are nested under TCG"),
    }
}
