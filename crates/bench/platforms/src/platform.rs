//! What each platform implements: machines of a shape, which run workers.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};
use transect_bench_core::{Fault, Kind, Refusal};

/// What a machine is to be like. Equal on all platforms of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Which of several machines of one cell it is, from 0.
    pub index: u32,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// CPUs it has.
    pub cpus: u32,
    /// CPUs of the host that it is pinned to; empty: all.
    pub pin: Vec<u32>,
    /// Size of its own writable disk or folder, MiB.
    pub disk_mib: u32,
    /// What only this platform knows, e.g. `address` of `remote`.
    pub params: BTreeMap<String, transect_bench_core::protocol::Param>,
}

/// What a platform needs of the procedure.
#[derive(Clone, Debug)]
pub struct Bed {
    /// The binary that is to be run as the worker, and the arguments that make it one.
    pub worker: PathBuf,
    /// See [`Bed::worker`].
    pub worker_arguments: Vec<String>,
    /// A folder for the machine's disks and sockets, removed afterwards.
    pub scratch: PathBuf,
    /// A folder for what the machine said (consoles), kept.
    pub logs: PathBuf,
    /// Will somebody want LTTng's kernel modules in it, or in its host?
    pub lttng: bool,
}

/// A kind of machine.
pub trait Platform: Sync {
    /// Its name in plans: `nested-kvm`.
    fn name(&self) -> &'static str;
    /// One line for people.
    fn about(&self) -> &'static str;
    /// Is a machine of it this host itself, with its kernel, programs and privileges? Then what runs there can be asked
    /// before it is opened.
    fn is_this_host(&self) -> bool {
        false
    }
    /// About how long opening takes, seconds: for estimates only.
    fn opening_s(&self) -> f64 {
        1.0
    }
    /// How much longer than native a fixed piece of work takes about, for estimates only.
    fn slowness(&self) -> f64 {
        1.0
    }
    /// Why it cannot be had here, without starting it.
    fn can_run(&self, shape: &Shape) -> Result<(), Refusal>;
    /// Creates the machine, and checks that it is what was asked for.
    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault>;
}

/// The worker's ends of its pipes.
pub struct Pipes {
    /// To the worker.
    pub to: Box<dyn Write + Send>,
    /// From the worker.
    pub from: Box<dyn BufRead + Send>,
}

/// A machine that runs. Dropping it ends it and cleans up.
pub trait Machine: Send {
    /// What it is, as found.
    fn facts(&self) -> &Facts;
    /// Starts the worker in it. At most one at a time: a worker whose pipes are dropped is told to end, and has a moment
    /// for it. Its current folder, which is also its `TMPDIR`, is the machine's own writable disk. In machines that are
    /// not this host, the root is this host's, read only, with `/tmp` and `/run` of their own.
    fn worker(&mut self) -> Result<Pipes, Fault>;
    /// Starts a worker on the machine below, where that is another than this host: the nested host of an L2 guest, dom0
    /// of a domU. For samplers and tracer arms there ([`transect_bench_core::protocol::Role::Bystander`]).
    fn worker_below(&mut self) -> Result<Pipes, Fault> {
        let why = "the machine below is this host";
        Err(Refusal::new(Kind::Senseless, "a worker on the machine below", why).into())
    }
    /// How this process reaches a TCP port of the machine.
    fn reach(&mut self, port: u16) -> Result<SocketAddr, Fault>;
    /// How the machine reaches this process, if it can.
    fn gateway(&self) -> Option<IpAddr>;
    /// Threads of this host that are the machine: VMM, vCPUs, helpers. Empty where the machine is this host.
    fn host_tids(&self) -> Vec<u32>;
    /// An error that says what its console said, if it has died.
    fn check_alive(&mut self) -> Result<(), Fault>;
    /// Ends it in an orderly way.
    fn close(self: Box<Self>) -> Result<(), Fault>;
}

/// What a machine is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The accelerator or mechanism really used: `kvm`, `tcg`, `kvm under tcg`, `crun`, `none`.
    pub accelerator: String,
    /// What of it is emulated and therefore transfers to no other machine; empty if nothing.
    pub emulated: Vec<String>,
    /// Is its storage this host's page cache too, so that a cold cache means both are?
    pub storage_is_below: bool,
    /// Anything else worth keeping: VMM version, machine type, kernel package.
    pub notes: BTreeMap<String, String>,
}

/// Where a console or a disk of a machine of this name goes.
#[must_use]
pub fn log_of(logs: &Path, name: &str, index: u32) -> PathBuf {
    logs.join(format!("{name}-{index}.log"))
}
