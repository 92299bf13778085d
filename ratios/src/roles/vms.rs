//! Processes that look like a host's VMs from outside: a QEMU each by its program's and threads' names, with a
//! control group of its own as libvirt makes them. Nothing is virtualized: what is measured with them is
//! what a watcher pays for so many processes and threads, most of which sleep.

use super::protocol;
use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// As a VMM's process is called; discovery goes by it.
const PROGRAM: &str = "qemu-system-x86_64";
/// vCPUs of each.
const VCPUS: u32 = 2;
/// Threads of each besides vCPUs and the main loop, which sleep for good: workers, VNC, a monitor.
const SLEEPERS: u32 = 7;
/// How often an idle guest's vCPU wakes up, and a busy one's, a second.
const IDLE_HZ: u32 = 10;
const BUSY_HZ: u32 = 200;
/// Every so manieth is busy.
const BUSY_ONE_OF: u32 = 5;
/// QEMU's main loop has timers.
const MAIN_LOOP: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// `ratios role vms`.
#[derive(Debug, Args)]
pub struct Vms {
    /// How many.
    #[arg(long)]
    count: u32,
    /// Where the program is copied to, under the name that it needs.
    #[arg(long)]
    scratch: PathBuf,
}

/// `ratios role vm`: one of them.
#[derive(Debug, Args)]
pub struct OneVm {
    /// Its name.
    #[arg(long)]
    name: String,
    /// How often its vCPUs wake up.
    #[arg(long)]
    hz: u32,
}

impl OneVm {
    pub(super) fn play(&self) -> Result<()> {
        let pause = Duration::from_secs(1) / self.hz.max(1);
        for vcpu in 0..VCPUS {
            let wakes = move || -> () {
                loop {
                    thread::sleep(pause);
                }
            };
            thread::Builder::new().name(format!("CPU {vcpu}/KVM")).spawn(wakes)?;
        }
        for _ in 0..SLEEPERS {
            let sleeps = || -> () {
                loop {
                    thread::park();
                }
            };
            thread::Builder::new().name("worker".to_owned()).spawn(sleeps)?;
        }
        // Until whoever started it closes its standard input.
        let input = std::io::stdin();
        while poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&MAIN_LOOP))? == 0 {}
        Ok(())
    }
}

impl Vms {
    pub(super) fn play(&self) -> Result<()> {
        let program = self.scratch.join(PROGRAM);
        fs::copy(std::env::current_exe()?, &program).context(PROGRAM)?;
        let mut all = Started { children: Vec::new(), groups: Vec::new() };
        let slice = slice();
        if let Some(slice) = &slice {
            fs::create_dir(slice).with_context(|| slice.display().to_string())?;
            all.groups.push(slice.clone());
        }
        for number in 1..=self.count {
            all.start(&program, slice.as_deref(), number)?;
        }
        protocol::ready()?;
        protocol::wait_for_the_end()?;
        for child in &mut all.children {
            ensure!(child.try_wait()?.is_none(), "a VM exited unexpectedly");
        }
        protocol::told(&serde_json::json!({ "vms": all.children.len() }))
    }
}

/// Where control groups are made: the unified hierarchy, which has pressure, else version 1's.
fn slice() -> Option<PathBuf> {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu"].map(Path::new);
    let mount = mounts.into_iter().find(|mount| mount.join("cgroup.procs").exists())?;
    Some(mount.join(format!("transect-bench-{}.slice", std::process::id())))
}

/// Processes that end, and groups that are removed, when it is dropped.
struct Started {
    children: Vec<Child>,
    groups: Vec<PathBuf>,
}

impl Started {
    fn start(&mut self, program: &Path, slice: Option<&Path>, number: u32) -> Result<()> {
        let name = format!("vm{number}");
        let hz = if number.is_multiple_of(BUSY_ONE_OF) { BUSY_HZ } else { IDLE_HZ };
        let mut command = Command::new(program);
        command.args(["role", "vm", "--name", &name, "--hz", &hz.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| name.clone())?;
        let pid = child.id();
        self.children.push(child);
        if let Some(slice) = slice {
            // As systemd escapes the names that libvirt gives.
            let group = slice.join(format!("machine-qemu\\x2d{number}\\x2d{name}.scope"));
            fs::create_dir(&group).with_context(|| group.display().to_string())?;
            self.groups.push(group.clone());
            fs::write(group.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
        // A group is empty a moment after its last process was waited for.
        thread::sleep(Duration::from_millis(100));
        for group in self.groups.iter().rev() {
            let _ = fs::remove_dir(group);
        }
    }
}
