//! Linux guests: described by a [`GuestPlan`], booted, watched, pinned, frozen, stopped.
#![allow(clippy::print_stdout, reason = "what happened belongs in the log of a test run")]

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};

use crate::initramfs;
use crate::job::{Job, JobPlan, Output, Place, quoted};
use crate::kernel::{Flavour, Kernel};
use crate::lateness::Lateness;
use crate::linked;
use crate::qemu::{Accelerator, Disk, Machine};
use crate::wait::{WaitFor, Watched, tail};

/// CIDs below 3 are taken by the protocol (Linux `include/uapi/linux/vm_sockets.h`).
static NEXT_CID: AtomicU32 = AtomicU32::new(3);

/// A guest being described.
#[must_use = "a guest boots with .boot()"]
pub struct GuestPlan {
    place: Arc<dyn Place>,
    accelerator: Accelerator,
    flavour: Flavour,
    name: String,
    vcpus: u32,
    memory_mib: u32,
    cid: Option<u32>,
    workload: String,
    agent: Option<(PathBuf, Vec<String>)>,
    program: Option<PathBuf>,
    port: Option<String>,
    disk_mib: u32,
    disk_at: Option<Disk>,
    tap: Option<String>,
    vhost_net: bool,
    cpus: String,
    nice: i32,
    append: String,
}

impl GuestPlan {
    pub(crate) fn under_kvm(place: Arc<dyn Place>, nested: bool, name: &str) -> Self {
        let mut plan = Self::new(place, Accelerator::Kvm, name);
        let next = NEXT_CID.fetch_add(1, Ordering::Relaxed);
        // A nested host is a world of its own. On a real one others may run guests: keep out of their way.
        plan.cid = Some(if nested { next } else { (std::process::id() << 8) + next });
        plan
    }

    pub(crate) fn new(place: Arc<dyn Place>, accelerator: Accelerator, name: &str) -> Self {
        Self {
            place,
            accelerator,
            flavour: Flavour::Cloud,
            name: name.to_owned(),
            vcpus: 1,
            memory_mib: 256,
            cid: None,
            workload: String::new(),
            agent: None,
            program: None,
            port: None,
            disk_mib: 0,
            disk_at: None,
            tap: None,
            vhost_net: false,
            cpus: String::new(),
            nice: 0,
            append: String::new(),
        }
    }

    /// Number of vCPUs (default 1).
    pub fn vcpus(mut self, vcpus: u32) -> Self {
        self.vcpus = vcpus;
        self
    }

    /// Memory in MiB (default 256).
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// The vsock context id; by default one that is free.
    pub fn cid(mut self, cid: u32) -> Self {
        self.cid = Some(cid);
        self
    }

    /// The kernel (default [`Flavour::Cloud`]).
    pub fn kernel(mut self, flavour: Flavour) -> Self {
        self.flavour = flavour;
        self
    }

    /// What it does: `MODE:key=value`, several joined by `+`; modes are listed in `guest/workload.c`.
    pub fn workload(mut self, workload: &str) -> Self {
        workload.clone_into(&mut self.workload);
        self
    }

    /// Carries this static binary in as the agent and starts it with these arguments, again whenever it ends.
    pub fn agent(mut self, binary: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.agent = Some((binary.as_ref().to_owned(), arguments));
        self
    }

    /// Carries a program of this machine in, with its libraries, to the place that it has here.
    pub fn program(mut self, program: impl AsRef<Path>) -> Self {
        self.program = Some(program.as_ref().to_owned());
        self
    }

    /// Kills the agent once, at the [order](Guest::order) over this vsock port: a reconnect.
    pub fn agent_killed_at_order(mut self, port: u32) -> Self {
        self.append += &format!(" testbed.agent_kill_port={port}");
        self
    }

    /// Adds a virtio-serial port of this name; its socket is [`Guest::port`].
    pub fn port(mut self, name: &str) -> Self {
        self.port = Some(name.to_owned());
        self
    }

    /// Adds an empty virtio disk.
    pub fn disk_mib(mut self, size_mib: u32) -> Self {
        self.disk_mib = size_mib;
        self
    }

    /// Makes a block device of its host its virtio disk: what it reads and writes are requests of that device.
    pub fn disk_at(mut self, device: impl AsRef<Path>) -> Self {
        self.disk_at = Some(Disk::Device(device.as_ref().to_owned()));
        self
    }

    /// The same through the page cache of the host.
    pub fn disk_cached_at(mut self, device: impl AsRef<Path>) -> Self {
        self.disk_at = Some(Disk::Cached(device.as_ref().to_owned()));
        self
    }

    /// The host's kernel carries the packets of its network card, and not QEMU.
    pub fn vhost_net(mut self) -> Self {
        self.vhost_net = true;
        self
    }

    /// Adds a network card, which its host has as the tap device `device`; in the guest it has this address, in a
    /// network of 256.
    pub fn tap(mut self, device: &str, address: &str) -> Self {
        self.tap = Some(device.to_owned());
        self.append += &format!(" testbed.address={address}");
        self
    }

    /// Pins all its threads to these host CPUs (as in `taskset -c`).
    pub fn on_cpus(mut self, cpus: &str) -> Self {
        cpus.clone_into(&mut self.cpus);
        self
    }

    /// Niceness of all its threads; a lower one is a larger weight.
    pub fn nice(mut self, nice: i32) -> Self {
        self.nice = nice;
        self
    }

    /// Adds to the kernel command line.
    pub fn kernel_arguments(mut self, arguments: &str) -> Self {
        self.append += &format!(" {arguments}");
        self
    }

    /// Starts it; it is then booting (see [`Guest::wait_until_ready`]).
    pub fn start(self) -> Result<Guest> {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        ensure!(
            self.name.chars().all(fine),
            "a guest's name is of letters, digits, '-' and '_': {}",
            self.name
        );
        let folder = self.place.run().folder(&format!("share/guests/{}", self.name))?;
        for of_one_before in ["marks", "pid"] {
            match fs::remove_file(folder.join(of_one_before)) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(error).context("cannot remove what a guest of this name left");
                }
                _ => {}
            }
        }
        let kernel = Kernel::get(self.flavour)?;
        let shared = self.place.share().join("guests").join(&self.name);
        self.write_initrd(&kernel, &folder.join("initrd"))?;
        provide(&kernel.vmlinux(), &folder.join("vmlinux"))?;
        // Byte-wise and hot files stay off the 9p share.
        let local = self.place.scratch().join("guests").join(&self.name);
        let command = self.command(&shared, &local);
        let job = JobPlan::new(Arc::clone(&self.place), &command).spawn()?;
        let Self { place, name, cid, port, .. } = self;
        let port = port.map(|_| local.join("port.sock"));
        Ok(Guest {
            place,
            name,
            cid,
            port,
            folder,
            console: local.join("console.log"),
            job,
            is_forgiven: AtomicBool::new(false),
        })
    }

    /// Starts it and waits until its PID 1 has started agent and workload.
    pub fn boot(self) -> Result<Guest> {
        let guest = self.start()?;
        guest.wait_until_ready()?;
        Ok(guest)
    }

    fn write_initrd(&self, kernel: &Kernel, to: &Path) -> Result<()> {
        let base = initramfs::of_guest(kernel)?;
        if self.agent.is_none() && self.program.is_none() {
            return provide(&base, to);
        }
        let mut image = fs::read(&base).context("cannot read the guest's base image")?;
        if let Some((binary, arguments)) = &self.agent {
            image.extend(initramfs::agent_archive(binary, arguments)?);
        }
        if let Some(program) = &self.program {
            image.extend(linked::archive(program)?);
        }
        fs::write(to, image).context("cannot write a guest's image")
    }

    fn command(&self, shared: &Path, local: &Path) -> String {
        let mut append = format!("testbed.name={}{}", self.name, self.append);
        if !self.workload.is_empty() {
            append += &format!(" testbed.workload={}", self.workload);
        }
        let machine = Machine {
            accelerator: self.accelerator,
            name: self.name.clone(),
            vcpus: self.vcpus,
            memory_mib: self.memory_mib,
            kernel: shared.join("vmlinux"),
            initrd: shared.join("initrd"),
            append,
            console: local.join("console.log"),
            marks: shared.join("marks"),
            cid: self.cid,
            port: self.port.clone().map(|name| (name, local.join("port.sock"))),
            disk: match &self.disk_at {
                Some(disk) => Some(disk.clone()),
                None => (self.disk_mib > 0).then(|| Disk::File(local.join("disk.img"))),
            },
            tap: self.tap.clone(),
            vhost_net: self.vhost_net,
        };
        let words: Vec<_> =
            machine.command().iter().map(|word| quoted(&word.to_string_lossy())).collect();
        let local = quoted(&local.to_string_lossy());
        let mut script = format!("mkdir -p {local}\n");
        if self.disk_mib > 0 {
            script += &format!("truncate -s {}M {local}/disk.img\n", self.disk_mib);
        }
        if self.nice != 0 {
            // Where sessions are scheduled as groups, niceness counts between groups (sched(7), "autogroup").
            script += &format!("echo {} >/proc/self/autogroup 2>/dev/null\n", self.nice);
        }
        script += &format!("echo $$ >{}\nexec ", quoted(&shared.join("pid").to_string_lossy()));
        if self.nice != 0 {
            script += &format!("nice -n {} ", self.nice);
        }
        if !self.cpus.is_empty() {
            script += &format!("taskset -c {} ", self.cpus);
        }
        script + &words.join(" ")
    }
}

/// A started guest; it is killed when the handle is dropped.
pub struct Guest {
    place: Arc<dyn Place>,
    name: String,
    cid: Option<u32>,
    port: Option<PathBuf>,
    folder: PathBuf,
    console: PathBuf,
    job: Job,
    /// Its failures were expected.
    is_forgiven: AtomicBool,
}

impl Guest {
    /// Waits for its "ready" mark.
    pub fn wait_until_ready(&self) -> Result<()> {
        self.wait_for("transect-guest: ready").within(120).map(drop)
    }

    /// Waits for a mark with this text.
    pub fn wait_for(&self, text: &str) -> WaitFor<'_> {
        WaitFor::new(self, text)
    }

    /// All marks so far: what its PID 1 and workloads said.
    pub fn marks(&self) -> Result<String> {
        match fs::read(self.folder.join("marks")) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error).context("cannot read a guest's marks"),
        }
    }

    /// What its periodic workload said about itself, window by window.
    pub fn lateness(&self) -> Result<Vec<Lateness>> {
        Lateness::all_in(&self.marks()?)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its vsock context id; none under TCG on a machine without vhost-vsock.
    pub fn cid(&self) -> Option<u32> {
        self.cid
    }

    /// The socket of its virtio-serial port, as commands of its host see it.
    pub fn port(&self) -> Option<&Path> {
        self.port.as_deref()
    }

    /// QEMU's process id, as its host counts.
    pub fn pid(&self) -> Result<u32> {
        let text = fs::read_to_string(self.folder.join("pid"))
            .context("the guest's QEMU has not started")?;
        text.trim().parse().context("the guest's pid file is odd")
    }

    /// Pins all its threads to these host CPUs from now on.
    pub fn pin(&self, cpus: &str) -> Result<()> {
        self.on_host(&format!("taskset -acp {cpus} {}", self.pid()?)).map(drop)
    }

    /// Gives it the order that is waited for at a vsock port of it: a workload's `after_port=`, or
    /// [`GuestPlan::agent_killed_at_order`]. Comes back when it was taken.
    pub fn order(&self, port: u32) -> Result<()> {
        let cid = self.cid.context("a guest without vsock takes no orders")?;
        // A struct sockaddr_vm; the other side hangs up.
        let connect = format!(
            "socket(S, 40, 1, 0) && connect(S, pack('SSLLx4', 40, 0, {port}, {cid})) || exit 1; \
             sysread S, $_, 1"
        );
        let command = format!("until perl -e {}; do sleep 0.1; done", quoted(&connect));
        JobPlan::new(Arc::clone(&self.place), &command).within(120)?.ok().map(drop)
    }

    /// Stops its QEMU: from inside, time jumps when it is thawed.
    pub fn freeze(&self) -> Result<()> {
        self.on_host(&format!("kill -STOP {}", self.pid()?)).map(drop)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.on_host(&format!("kill -CONT {}", self.pid()?)).map(drop)
    }

    /// Waits until it says this once more: it is still alive, which the exits of a guest that hung would not tell.
    pub fn expect_to_go_on(&self, text: &str) -> Result<()> {
        let said = self.marks()?.lines().filter(|line| line.contains(text)).count();
        // The last line may be one that still grows: it does not count as a new one.
        self.wait_for(text).times(said + 1).within(120).map(drop)
    }

    /// Kills it, as a crash of its QEMU would. That it was there no more is an error.
    pub fn kill(self) -> Result<()> {
        match self.job.ended_by_itself() {
            None => self.job.kill(),
            // Dropped here, which notes it.
            Some(code) => bail!("guest {} had ended by itself, with {code}", self.name),
        }
    }

    /// What its kernel wrote to its serial console.
    pub fn console(&self) -> Result<String> {
        Ok(self.on_host(&format!("cat {}", quoted(&self.console.to_string_lossy())))?.stdout)
    }

    /// Throws kept logs away: the failure was expected.
    pub fn forget_failures(&self) {
        self.is_forgiven.store(true, Ordering::Relaxed);
        self.place.run().discard();
    }

    fn on_host(&self, command: &str) -> Result<Output> {
        JobPlan::new(Arc::clone(&self.place), command).within(60)?.ok()
    }
}

impl Drop for Guest {
    /// A guest that ended although nobody ended it: under an emulator that may be the emulator's doing.
    fn drop(&mut self) {
        if !self.is_forgiven.load(Ordering::Relaxed)
            && self.place.check_alive().is_ok()
            && let Some(code) = self.job.ended_by_itself()
        {
            let message = format!("guest {} had ended by itself, with {code}", self.name);
            println!("{:#}", self.too_late(&message));
        }
    }
}

impl Watched for Guest {
    fn title(&self) -> String {
        format!("guest {}", self.name)
    }

    fn said(&self) -> Result<String> {
        self.marks()
    }

    fn over(&self) -> Result<Option<String>> {
        Ok(self.job.ended()?.map(|code| format!("ended with {code}")))
    }

    fn too_late(&self, message: &str) -> anyhow::Error {
        self.place.run().note_lateness();
        self.failure(message)
    }

    fn failure(&self, message: &str) -> anyhow::Error {
        let or_why = |text: Result<String>| text.unwrap_or_else(|error| format!("{error:#}"));
        let [marks, console, qemu] =
            [self.marks(), self.console(), self.job.stderr()].map(|text| tail(&or_why(text), 12));
        let rest = self.place.diagnosis();
        self.place.run().failure(format!(
            "{message}\n--- marks\n{marks}\n--- console\n{console}\n--- its QEMU\n{qemu}\n{rest}"
        ))
    }
}

/// Puts a file of the cache where a host can see it: a hard link where that is possible.
fn provide(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_file(to).context("cannot replace a guest's file")?;
    }
    fs::hard_link(from, to)
        .or_else(|_| fs::copy(from, to).map(drop))
        .with_context(|| format!("cannot provide {}", from.display()))
}
