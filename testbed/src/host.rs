//! A host with working KVM: this machine, or a nested one on it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::{Result, anyhow};

use crate::again::{MACHINE_FAILED, boot_twice, report_to_runner};
use crate::carry;
use crate::compile::WORKLOAD;
use crate::direct::Direct;
use crate::guest::GuestPlan;
use crate::host_options::HostOptions;
use crate::job::{JobPlan, Place};
use crate::nested;
use crate::probe;
use crate::xen::in_cache;

/// A host that takes longer for doing nothing hangs.
const ANSWER_SECONDS: u64 = 30;

/// A Linux host on which KVM works. Clones are the same host; it goes away with the last of them and the last
/// guest and job on it.
#[derive(Clone)]
pub struct KvmHost {
    place: Arc<dyn Place>,
    nested: bool,
}

impl KvmHost {
    /// This machine if it has usable KVM (see [`probe`]), else a nested host.
    pub fn boot() -> Result<Self> {
        Self::boot_with(&HostOptions::default())
    }

    /// The same, with options.
    pub fn boot_with(options: &HostOptions) -> Result<Self> {
        if probe::kvm()?.is_usable() {
            Self::this_machine(options)
        } else {
            Self::nested_with(options)
        }
    }

    /// A nested host, whatever this machine can do.
    pub fn nested() -> Result<Self> {
        Self::nested_with(&HostOptions::default())
    }

    /// The same, with options.
    pub fn nested_with(options: &HostOptions) -> Result<Self> {
        Ok(Self { place: Arc::new(boot_twice(|| nested::boot(options))?), nested: true })
    }

    /// This machine, unchecked. Commands then act on it with the caller's rights.
    pub fn this_machine(options: &HostOptions) -> Result<Self> {
        Ok(Self { place: Arc::new(Direct::new(options.lifetime)?), nested: false })
    }

    /// One host for all tests of a process: booted by the first caller, ended when the process ends.
    /// Where it has died, or did not boot, another one is booted, a few times.
    pub fn shared() -> Result<&'static Self> {
        static HOSTS: [OnceLock<Result<KvmHost, String>>; 6] = [const { OnceLock::new() }; 6];
        let mut died = None;
        for host in &HOSTS {
            match host.get_or_init(|| Self::boot().map_err(|error| format!("{error:#}"))) {
                Ok(host) if host.has_died() => {
                    host.place.end();
                    died = Some(anyhow!("each shared host has died"));
                }
                Ok(host) => return Ok(host),
                Err(error) => died = Some(anyhow!("the shared host did not boot: {error}")),
            }
        }
        Err(died.unwrap_or_else(|| anyhow!("there is no shared host")))
    }

    /// Has it ended by itself, does it no longer answer, or, where it is emulated, has a guest ended by itself or
    /// something not happened in time? An emulated host and its guests may die or hang of the emulator.
    pub fn has_died(&self) -> bool {
        self.place.check_alive().is_err()
            || self.nested && self.place.run().was_late()
            || self.run("true").within(ANSWER_SECONDS).is_err()
    }

    /// Prints that it or a guest of it is the cause of a failure, if that is so.
    pub(crate) fn report_if_dead(&self) {
        if self.has_died() {
            report_to_runner(MACHINE_FAILED, &self.logs().display());
        }
    }

    /// Whether it is a nested host: times on it are then no measurements.
    pub fn is_nested(&self) -> bool {
        self.nested
    }

    /// A shell command on the host, as root where nested. Starts in [`Self::scratch`].
    pub fn run(&self, command: &str) -> JobPlan {
        JobPlan::new(Arc::clone(&self.place), command)
    }

    /// A Linux guest under the host's KVM.
    pub fn guest(&self, name: &str) -> GuestPlan {
        GuestPlan::under_kvm(Arc::clone(&self.place), self.nested, name)
    }

    /// The program of the workloads, as commands on the host see it.
    pub fn workload(&self) -> Result<PathBuf> {
        let program = WORKLOAD.binary()?;
        if self.nested { in_cache(&program) } else { Ok(program) }
    }

    /// The folder in which commands start, as they see it: writable, in memory where nested.
    pub fn scratch(&self) -> PathBuf {
        self.place.scratch()
    }

    /// Carries a file or folder onto the host. `to` is relative to [`Self::scratch`] or absolute; missing folders
    /// on its way are made.
    pub fn put(&self, file: impl AsRef<Path>, to: &str) -> Result<()> {
        carry::put(&self.place, file.as_ref(), to)
    }

    /// Brings a file or folder of the host to `to` on this machine.
    pub fn get(&self, file: &str, to: impl AsRef<Path>) -> Result<()> {
        carry::get(&self.place, file, to.as_ref())
    }

    /// An error about this host: keeps its logs and says where they are.
    pub fn failure(&self, message: impl std::fmt::Display) -> anyhow::Error {
        self.place.run().failure(message)
    }

    /// Throws kept logs away: the failure was expected.
    pub fn forget_failures(&self) {
        self.place.run().discard();
    }

    /// The folder of logs and shared files, on this machine; gone when the host is, unless something failed.
    pub fn logs(&self) -> &Path {
        self.place.run().path()
    }
}
