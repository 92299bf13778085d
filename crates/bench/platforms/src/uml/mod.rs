//! A kernel as a process: Debian's User Mode Linux. See README.md.

use super::container::{capabilities, run_bundle};
use super::kit::{
    Expected, Fence, LIFETIME, Port, carry_worker, checked, disk_image, failed, need_program,
    need_root, own_cpus,
};
use super::native::enough_memory;
use crate::platform::{Bed, Facts, Machine, Pipes, Platform, Shape, log_of};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::rundir::{Process, RunDir};

/// User Mode Linux.
pub(super) struct Uml;

const INIT: &str = include_str!("init.sh");
const READY_WITHIN: Duration = Duration::from_secs(60);

/// What its kernel takes of its memory, and what it takes beside it, MiB.
const TAKEN_MIB: u32 = 22;
const BESIDE_MIB: u32 = 192;

/// glibc must not use registers that are not kept; see README.md.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,\
     -AVX_Fast_Unaligned_Load,-XSAVE,-XSAVEC";

impl Platform for Uml {
    fn name(&self) -> &'static str {
        "uml"
    }

    fn about(&self) -> &'static str {
        "Debian's User Mode Linux: a kernel that runs as a process; one CPU, no network"
    }

    fn opening_s(&self) -> f64 {
        2.0
    }

    fn slowness(&self) -> f64 {
        3.0
    }

    fn can_run(&self, shape: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "linux.uml", "user-mode-linux")?;
        need_program(self.name(), "crun", "crun")?;
        need_program(self.name(), "busybox", "busybox-static")?;
        need_root(self.name())?;
        if shape.cpus != 1 {
            let why = format!("it has one CPU, not {}", shape.cpus);
            return Err(Refusal::new(Kind::Different, "platform uml", why));
        }
        own_cpus(self.name(), shape)?;
        enough_memory(self.name(), shape)
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let kernel = Kernel::boot(shape, bed)?;
        let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
        checked(Box::new(kernel), &Expected { platform: self.name(), cpus, memory_mib })
    }
}

struct Kernel {
    facts: Facts,
    port: Port,
    arguments: Vec<String>,
    disk: PathBuf,
    log: PathBuf,
    process: Process,
    fence: Fence,
    _run: RunDir,
}

impl Kernel {
    fn boot(shape: &Shape, bed: &Bed) -> Result<Self, Fault> {
        let run = RunDir::new(LIFETIME).map_err(|error| failed(&error))?;
        let cpus = own_cpus("uml", shape)?;
        let fence = Fence::new(&run, shape.memory_mib + TAKEN_MIB + BESIDE_MIB, &cpus)?;
        let folder = |name: &str| run.folder(name).map_err(|error| failed(&error));
        let (state, share) = (folder("state")?, folder("share")?);
        carry_worker(&bed.worker, &share)?;
        let init = share.join("init");
        fs::write(&init, INIT).map_err(Fault::failed)?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&init, executable).map_err(Fault::failed)?;
        fs::create_dir_all(&bed.logs).map_err(Fault::failed)?;
        let log = log_of(&bed.logs, "uml", shape.index);
        let disk = disk_image(bed, &format!("uml-{}", shape.index), shape.disk_mib)?;
        let clean = Unlink(Some(disk.clone()));
        let bundle = bundle(&state, &share, &disk, shape.memory_mib + TAKEN_MIB);
        let unique = run.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let enter = format!("{}; exec \"$@\"", fence.enter());
        let mut words: Vec<OsString> = ["sh", "-c", &enter, "uml"].map(Into::into).into();
        words.extend(run_bundle(&state, &unique, &bundle)?);
        let (process, to, from) = run.spawn_piped(&words, &log).map_err(|error| failed(&error))?;
        let port = Port::new(from, to);
        wait_until_ready(&port).map_err(|why| {
            fence.kill();
            let said = fs::read(&log).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let lines: Vec<_> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(12)..].join("\n");
            Fault::failed(format!("uml: {why}\n{last}"))
        })?;
        clean.keep();
        let arguments = bed.worker_arguments.clone();
        Ok(Self { facts: facts(), port, arguments, disk, log, process, fence, _run: run })
    }
}

/// Removes a file unless it is kept.
struct Unlink(Option<PathBuf>);

impl Unlink {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unlink {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It may never have been made.
            drop(fs::remove_file(path));
        }
    }
}

fn wait_until_ready(port: &Port) -> Result<(), String> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let waiting = port.clone();
    // It ends with the kernel's process if not before.
    std::thread::spawn(move || drop(sender.send(waiting.wait_until_ready(&mut Vec::new()))));
    match receiver.recv_timeout(READY_WITHIN) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("it ended: {error}")),
        Err(_) => Err(format!("it was not ready within {READY_WITHIN:?}")),
    }
}

fn facts() -> Facts {
    let mut facts = Facts { accelerator: "uml".into(), storage_is_below: true, ..Facts::default() };
    facts.emulated = vec!["system calls and page faults: each stops a process under ptrace".into()];
    let registers = "saved without AVX: threads of one process must not use AVX";
    facts.notes.insert("registers".into(), registers.into());
    facts.notes.insert("glibc_tunables".into(), TUNABLES.into());
    facts
}

/// crun gives the kernel a mount namespace and a PID namespace, so that nothing of it survives, and a filter that refuses
/// `ptrace(PTRACE_GETREGSET, …, NT_X86_XSTATE)`; see README.md.
fn bundle(state: &Path, share: &Path, disk: &Path, memory_mib: u32) -> Value {
    let all = capabilities();
    let bind = |at: &str, from: &Path| json!({"destination": at, "type": "none", "source": from, "options": ["bind", "rw"]});
    let tmpfs = |at: &str| json!({"destination": at, "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]});
    let namespaces = ["pid", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
    let memory = format!("mem={memory_mib}M");
    json!({
        "ociVersion": "1.0.0",
        "process": {
            "terminal": false, "user": {"uid": 0, "gid": 0}, "cwd": "/",
            "args": [
                "linux.uml", memory, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
                "init=/run/testbed/share/init", "ubd0=/run/testbed/disk", "ssl0=fd:0,fd:1",
                "con=null", "con0=null,fd:2", "quiet", "panic=-1",
                // Unknown to the kernel, so that it is in the environment of PID 1 and of all that follows.
                format!("GLIBC_TUNABLES={TUNABLES}"),
            ],
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR=/dev/shm", "HOME=/dev/shm"],
            "capabilities": {"bounding": all, "effective": all, "permitted": all},
        },
        "root": {"path": state.join("rootfs"), "readonly": true},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
            {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
             "options": ["newinstance", "ptmxmode=0666", "mode=0620"]},
            tmpfs("/dev/shm"),
            tmpfs("/run"),
            bind("/run/testbed/share", share),
            bind("/run/testbed/disk", disk),
        ],
        "linux": {
            "namespaces": namespaces,
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
                "syscalls": [{
                    "names": ["ptrace"], "action": "SCMP_ACT_ERRNO", "errnoRet": 22,
                    "args": [
                        {"index": 0, "value": 0x4204, "op": "SCMP_CMP_EQ"},
                        {"index": 2, "value": 0x202, "op": "SCMP_CMP_EQ"},
                    ],
                }],
            },
        },
    })
}

impl Machine for Kernel {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn worker(&mut self) -> Result<Pipes, Fault> {
        self.port.worker(&self.arguments)
    }

    fn reach(&mut self, _: u16) -> Result<SocketAddr, Fault> {
        let why = "its kernel has no network card";
        Err(Refusal::new(Kind::NotHere, "a port of platform uml", why).into())
    }

    fn gateway(&self) -> Option<IpAddr> {
        None
    }

    fn host_tids(&self) -> Vec<u32> {
        self.fence.tids()
    }

    fn check_alive(&mut self) -> Result<(), Fault> {
        if self.process.ended().map_err(|error| failed(&error))?.is_none() {
            return Ok(());
        }
        let said = fs::read(&self.log).unwrap_or_default();
        Err(Fault::failed(format!("uml ended: {}", String::from_utf8_lossy(&said))))
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        // Its disk goes with it, so nothing in it needs an orderly end.
        Ok(())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.fence.kill();
        self.process.kill();
        // The folder of the bed is removed as a whole later; this is for its size.
        drop(fs::remove_file(&self.disk));
    }
}
