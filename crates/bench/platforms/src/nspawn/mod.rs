//! A container under systemd-nspawn. See README.md.

use super::container::{OWN_MOUNTS, SCRATCH, WORKER};
use super::kit::{Expected, Own, OwnPlan, Roots, checked, need_program, need_root, own_cpus};
use super::native::enough_memory;
use crate::platform::{Bed, Facts, Machine, Platform, Shape};
use std::ffi::OsString;
use std::fs;
use transect_bench_core::{Fault, Refusal};

/// systemd-nspawn.
pub(super) struct Nspawn;

impl Platform for Nspawn {
    fn name(&self) -> &'static str {
        "nspawn"
    }

    fn about(&self) -> &'static str {
        "a container under systemd-nspawn on this host's root, read-only, with a private writable folder"
    }

    fn can_run(&self, shape: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "systemd-nspawn", "systemd-container")?;
        need_root(self.name())?;
        own_cpus(self.name(), shape)?;
        enough_memory(self.name(), shape)
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let mut facts = Facts {
            accelerator: "systemd-nspawn".into(),
            storage_is_below: true,
            ..Facts::default()
        };
        facts.notes.insert("network".into(), "the host's".into());
        // systemd-nspawn(1), --system-call-filter: a filter that is always there.
        facts.notes.insert("seccomp".into(), "systemd-nspawn's default filter".into());
        let cpus = own_cpus(self.name(), shape)?;
        let own = Own::new(OwnPlan { name: self.name(), facts, cpus, shape, bed, words: &words })?;
        let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
        checked(Box::new(own), &Expected { platform: self.name(), cpus, memory_mib })
    }
}

fn words(roots: &Roots) -> Result<Vec<OsString>, Fault> {
    fs::create_dir_all(roots.state.join("rootfs")).map_err(Fault::failed)?;
    let name = roots.unique.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
    let mut words: Vec<OsString> =
        ["unshare", "--mount", "sh", "-c", OWN_MOUNTS].map(Into::into).into();
    words.push(roots.state.clone().into());
    // /run/systemd is the namespace's own, so that nothing of nspawn's stays there.
    let private = "mount -t tmpfs none /run/systemd && exec \"$@\"";
    words.extend(["sh", "-c", private, "nspawn", "systemd-nspawn", "--quiet"].map(Into::into));
    words.extend(["--register=no", "--keep-unit", "--as-pid2", "--pipe"].map(Into::into));
    words.extend(["--read-only", "--link-journal=no", "--capability=all"].map(Into::into));
    words.extend(["--resolv-conf=off", "--timezone=off"].map(Into::into));
    // It mounts a /run of its own by itself.
    words.push("--tmpfs=/tmp".into());
    let option = |name: &str, value: String| OsString::from(format!("--{name}={value}"));
    words.push(option("machine", name));
    words.push(option("directory", roots.state.join("rootfs").display().to_string()));
    words.push(option("bind", format!("{}:{SCRATCH}", roots.scratch.display())));
    words.push(option("bind-ro", format!("{}:{WORKER}", roots.worker.display())));
    words.push(option("setenv", format!("TMPDIR={SCRATCH}")));
    words.push(option("setenv", format!("HOME={SCRATCH}")));
    words.push(option("chdir", SCRATCH.into()));
    words.push(WORKER.into());
    Ok(words)
}
