//! An OCI container under crun. See README.md.

use super::kit::{Expected, Own, OwnPlan, Roots, checked, need_program, need_root, own_cpus};
use super::native::enough_memory;
use crate::platform::{Bed, Facts, Machine, Platform, Shape};
use procfs::process::Process;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use transect_bench_core::{Fault, Refusal};

/// crun.
pub(super) struct Container;

/// Where the machine's own folder and the worker are inside.
pub(super) const SCRATCH: &str = "/run/testbed/scratch";
pub(super) const WORKER: &str = "/run/testbed/worker";

/// What makes a mount namespace in which the root can be mounted once more. crun 1.8 starts nothing where a hybrid
/// hierarchy has controllers in its second half; nothing in there is its business here.
pub(super) const OWN_MOUNTS: &str = "mount --make-rprivate / && mount --bind / \"$0/rootfs\" && \
     { umount -l /sys/fs/cgroup/unified 2>/dev/null || :; } && exec \"$@\"";

impl Platform for Container {
    fn name(&self) -> &'static str {
        "container"
    }

    fn about(&self) -> &'static str {
        "an OCI container (crun) on this host's root, read-only, with a private writable folder"
    }

    fn can_run(&self, shape: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "crun", "crun")?;
        need_root(self.name())?;
        own_cpus(self.name(), shape)?;
        enough_memory(self.name(), shape)
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let mut facts =
            Facts { accelerator: "crun".into(), storage_is_below: true, ..Facts::default() };
        facts.notes.insert("network".into(), "the host's".into());
        let cpus = own_cpus(self.name(), shape)?;
        let words = |roots: &Roots| words(roots, &bed.worker_arguments);
        // The arguments are in the bundle already.
        let bed = &Bed { worker_arguments: Vec::new(), ..bed.clone() };
        let own = Own::new(OwnPlan { name: self.name(), facts, cpus, shape, bed, words: &words })?;
        let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
        checked(Box::new(own), &Expected { platform: self.name(), cpus, memory_mib })
    }
}

fn words(roots: &Roots, arguments: &[String]) -> Result<Vec<OsString>, Fault> {
    run_bundle(&roots.state, &roots.unique, &config(roots, arguments))
}

/// Writes a bundle into the folder, and gives the words that run it; its root is this host's.
pub(super) fn run_bundle(
    state: &Path,
    unique: &str,
    config: &Value,
) -> Result<Vec<OsString>, Fault> {
    fs::create_dir_all(state.join("rootfs")).map_err(Fault::failed)?;
    fs::create_dir_all(state.join("crun")).map_err(Fault::failed)?;
    fs::write(state.join("config.json"), config.to_string()).map_err(Fault::failed)?;
    let mut words: Vec<OsString> =
        ["unshare", "--mount", "sh", "-c", OWN_MOUNTS].map(Into::into).into();
    words.push(state.into());
    words.extend(["crun", "--cgroup-manager=disabled", "--root"].map(Into::into));
    words.push(state.join("crun").into());
    words.extend(["run", "--bundle"].map(Into::into));
    words.push(state.into());
    words.push(unique.into());
    Ok(words)
}

/// The bundle (OCI runtime specification 1.0, `config.md`). The process is in the machine's control group before crun
/// starts, so the bundle names none; all capabilities stay, because tracer arms inside need them.
fn config(roots: &Roots, arguments: &[String]) -> Value {
    let tmpfs = |at: &str, mode: &str| {
        json!({"destination": at, "type": "tmpfs", "source": "tmpfs",
               "options": ["nosuid", mode]})
    };
    let bind = |at: &str, from: &Path| json!({"destination": at, "type": "none", "source": from, "options": ["bind", "rw"]});
    let namespaces = ["pid", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
    let capabilities = capabilities();
    let mut args = vec![WORKER.to_owned()];
    args.extend(arguments.iter().cloned());
    json!({
        "ociVersion": "1.0.0",
        "hostname": "container",
        "process": {
            "terminal": false, "user": {"uid": 0, "gid": 0}, "cwd": SCRATCH, "args": args,
            "env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LC_ALL=C.UTF-8", format!("HOME={SCRATCH}"), format!("TMPDIR={SCRATCH}"),
            ],
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
            },
        },
        "root": {"path": roots.state.join("rootfs"), "readonly": true},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            tmpfs("/dev", "mode=755"),
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
             "options": ["newinstance", "ptmxmode=0666", "mode=0620"]},
            tmpfs("/dev/shm", "mode=1777"),
            {"destination": "/sys", "type": "none", "source": "/sys", "options": ["rbind", "rw"]},
            tmpfs("/tmp", "mode=1777"),
            tmpfs("/run", "mode=755"),
            bind(SCRATCH, &roots.scratch),
            bind(WORKER, &roots.worker),
        ],
        "linux": {"namespaces": namespaces},
    })
}

/// Those that this process has; a runtime may give no others. Linux `include/uapi/linux/capability.h`.
pub(super) fn capabilities() -> Vec<&'static str> {
    let status = Process::myself().and_then(|process| process.status());
    let mask = status.ok().and_then(|status| status.capbnd).unwrap_or(0);
    NAMES
        .iter()
        .enumerate()
        .filter(|(bit, _)| mask >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect()
}

const NAMES: [&str; 38] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
];
