//! Guests of Xen: described by a [`DomUPlan`], booted, watched, destroyed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use super::host::{XenHost, in_cache};
use super::image;
use crate::initramfs::agent_archive;
use crate::job::{JobPlan, Output, Place, quoted};
use crate::kernel::{Flavour, Kernel};
use crate::lateness::Lateness;
use crate::wait::{WaitFor, Watched, tail};

/// How a domU sees the TSC (xen-tscmode(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TscMode {
    /// Xen decides. Under emulation its TSC is not marked reliable, so that Xen emulates it: every read is trapped,
    /// and gives nanoseconds since the domU's start, scaled to the TSC's rate.
    Default,
    /// Emulated in any case.
    AlwaysEmulate,
    /// The host's TSC as it is.
    Native,
}

impl TscMode {
    fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AlwaysEmulate => "always_emulate",
            Self::Native => "native",
        }
    }
}

/// A domU being described.
#[derive(Clone)]
#[must_use = "a domU boots with .boot()"]
pub struct DomUPlan {
    host: XenHost,
    name: String,
    kind: &'static str,
    vcpus: u32,
    memory_mib: u32,
    cap: u32,
    workload: String,
    agent: Option<(PathBuf, Vec<String>)>,
    disk_mib: u32,
    address: Option<String>,
    append: String,
    config: String,
}

impl DomUPlan {
    pub(super) fn new(host: XenHost, name: &str) -> Self {
        Self {
            host,
            name: name.to_owned(),
            kind: "pv",
            vcpus: 1,
            memory_mib: 192,
            cap: 0,
            workload: String::new(),
            agent: None,
            disk_mib: 0,
            address: None,
            append: String::new(),
            config: String::new(),
        }
    }

    /// Para-virtual: hypercalls instead of privileged instructions (the default).
    pub fn pv(mut self) -> Self {
        self.kind = "pv";
        self
    }

    /// In a hardware container: VM exits, nested pages.
    pub fn pvh(mut self) -> Self {
        self.kind = "pvh";
        self
    }

    /// Number of vCPUs (default 1).
    pub fn vcpus(mut self, vcpus: u32) -> Self {
        self.vcpus = vcpus;
        self
    }

    /// Memory in MiB (default 192).
    pub fn memory_mib(mut self, memory_mib: u32) -> Self {
        self.memory_mib = memory_mib;
        self
    }

    /// Its weight under credit and credit2 (256 is Xen's default).
    pub fn weight(self, weight: u32) -> Self {
        self.config(&format!("cpu_weight={weight}"))
    }

    /// At most so many percent of one pCPU, under credit and credit2; from when it is ready, because booting with a
    /// small part of an emulated CPU takes minutes.
    pub fn cap(mut self, percent: u32) -> Self {
        self.cap = percent;
        self
    }

    /// The pCPUs it may run on, as `0` or `0-1`.
    pub fn on_cpus(self, cpus: &str) -> Self {
        self.config(&format!("cpus=\"{cpus}\""))
    }

    /// How it sees the TSC.
    pub fn tsc_mode(self, mode: TscMode) -> Self {
        self.config(&format!("tsc_mode=\"{}\"", mode.name()))
    }

    /// Adds a line of xl.cfg(5).
    pub fn config(mut self, line: &str) -> Self {
        self.config += &format!("{line}\n");
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

    /// Adds an empty disk, `/dev/xvda`; its file is [`DomU::disk`].
    pub fn disk_mib(mut self, size_mib: u32) -> Self {
        self.disk_mib = size_mib;
        self
    }

    /// Adds a network card on the bridge of dom0, which is 10.0.0.1 there; its address is [`DomU::address`].
    pub fn network(mut self) -> Self {
        let number = self.host.fresh_address();
        self.address = Some(format!("10.0.0.{number}"));
        self
    }

    /// Adds to the kernel command line.
    pub fn kernel_arguments(mut self, arguments: &str) -> Self {
        self.append += &format!(" {arguments}");
        self
    }

    /// Starts it; it is then booting (see [`DomU::wait_until_ready`]).
    pub fn start(self) -> Result<DomU> {
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = &self.name;
        ensure!(name.chars().all(fine), "a domU's name is of letters, digits, '-' and '_': {name}");
        let place = Arc::clone(&self.host.place);
        let folder = place.run().folder(&format!("share/domus/{name}"))?;
        let shared = place.share().join("domus").join(name);
        let disk = place.scratch().join(format!("{name}.disk"));
        let kernel = Kernel::get(Flavour::Full)?;
        let initrd = self.initrd(&kernel, &folder, &shared)?;
        let config = self.configuration(&in_cache(&kernel.vmlinux())?, &initrd, &disk);
        fs::write(folder.join("xl.cfg"), config).context("cannot write a domU's configuration")?;
        let console = place.run().path().join(format!("share/console/guest-{name}.log"));
        // xenconsoled appends; what an earlier domU of this name said is not about this one.
        drop(fs::remove_file(&console));
        let mut create = format!("xl create -q {}/xl.cfg", shared.display());
        if self.disk_mib > 0 {
            create = format!("truncate -s {}M {} && {create}", self.disk_mib, disk.display());
        }
        JobPlan::new(Arc::clone(&place), &create).within(300)?.ok()?;
        let disk = (self.disk_mib > 0).then_some(disk);
        let mut domu = DomU { place, name: self.name, id: 0, address: self.address, console, disk };
        domu.id = domu.in_dom0(&format!("xl domid {}", domu.name))?.stdout.trim().parse()?;
        Ok(domu)
    }

    /// Starts it and waits until its PID 1 has started agent and workload. A kernel that panics meanwhile is booted
    /// once more: a PVH domU under QEMU's SVM sometimes does (see the README's traps).
    pub fn boot(self) -> Result<DomU> {
        let again = self.clone();
        let domu = self.boot_once().or_else(|(first, panicked)| match panicked {
            true => again
                .boot_once()
                .map_err(|(error, _)| error.context(format!("and before that: {first:#}"))),
            false => Err(first),
        })?;
        Ok(domu)
    }

    /// An error comes with whether its kernel panicked.
    fn boot_once(self) -> Result<DomU, (anyhow::Error, bool)> {
        let (host, cap) = (self.host.clone(), self.cap);
        let domu = self.start().map_err(|error| (error, false))?;
        let ready = domu.wait_until_ready();
        ready.and_then(|()| if cap > 0 { host.cap(domu.name(), cap) } else { Ok(()) }).map_err(
            |error| {
                let panicked = domu.panicked();
                if panicked {
                    // Only the last failure's logs are of interest.
                    host.forget_failures();
                }
                (error, panicked)
            },
        )?;
        Ok(domu)
    }

    /// The image as dom0 sees it: the cached one, or with an agent one of its own.
    fn initrd(&self, kernel: &Kernel, folder: &Path, shared: &Path) -> Result<PathBuf> {
        let base = image::of_domu(kernel)?;
        let Some((binary, arguments)) = &self.agent else { return in_cache(&base) };
        let mut image = fs::read(&base).context("cannot read the base image of domUs")?;
        image.extend(agent_archive(binary, arguments)?);
        fs::write(folder.join("initrd"), image).context("cannot write a domU's image")?;
        Ok(shared.join("initrd"))
    }

    fn configuration(&self, kernel: &Path, initrd: &Path, disk: &Path) -> String {
        let Self { name, kind, vcpus, memory_mib, append, config, .. } = self;
        let (kernel, initrd, disk) = (kernel.display(), initrd.display(), disk.display());
        let marks = "testbed.marks=console";
        let mut extra = format!("console=hvc0 quiet panic=-1 testbed.name={name} {marks}{append}");
        let mut devices = String::new();
        if let Some(address) = &self.address {
            extra += &format!(" testbed.address={address}");
            devices += "vif=[\"bridge=xenbr0,script=testbed-vif\"]\n";
        }
        if self.disk_mib > 0 {
            let how = "format=raw,vdev=xvda,access=w,backendtype=phy,script=testbed-block";
            devices += &format!("disk=[\"{how},target={disk}\"]\n");
        }
        if !self.workload.is_empty() {
            extra += &format!(" testbed.workload={}", self.workload);
        }
        format!(
            "name=\"{name}\"\ntype=\"{kind}\"\nkernel=\"{kernel}\"\nramdisk=\"{initrd}\"\n\
             extra=\"{extra}\"\nvcpus={vcpus}\nmemory={memory_mib}\non_crash=\"destroy\"\non_reboot=\"destroy\"\n{devices}{config}"
        )
    }
}

/// A started domU; it is destroyed when the handle is dropped.
pub struct DomU {
    place: Arc<dyn Place>,
    name: String,
    id: u32,
    address: Option<String>,
    console: PathBuf,
    disk: Option<PathBuf>,
}

impl DomU {
    /// Waits for its "ready" mark.
    pub fn wait_until_ready(&self) -> Result<()> {
        self.wait_for("transect-guest: ready").within(300).map(drop)
    }

    /// Waits for a mark with this text.
    pub fn wait_for(&self, text: &str) -> WaitFor<'_> {
        WaitFor::new(self, text)
    }

    /// All it has written to its console: what its kernel, PID 1 and workloads said.
    pub fn marks(&self) -> Result<String> {
        match fs::read(&self.console) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error).context("cannot read a domU's console"),
        }
    }

    /// Whether its kernel has said that it panics.
    pub fn panicked(&self) -> bool {
        self.marks().is_ok_and(|text| text.contains("Kernel panic - not syncing"))
    }

    /// What its periodic workload said about itself, window by window.
    pub fn lateness(&self) -> Result<Vec<Lateness>> {
        Lateness::all_in(&self.marks()?)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Xen's number of it, as in traces.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its address on the bridge, if it has a card.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The file of its disk, as commands in dom0 see it: what the domU has synced is in it.
    pub fn disk(&self) -> Option<&Path> {
        self.disk.as_deref()
    }

    /// Takes it off its pCPUs until [`Self::unpause`].
    pub fn pause(&self) -> Result<()> {
        self.in_dom0(&format!("xl pause {}", self.name)).map(drop)
    }

    /// Lets it go on.
    pub fn unpause(&self) -> Result<()> {
        self.in_dom0(&format!("xl unpause {}", self.name)).map(drop)
    }

    /// Ends it at once, as pulling the plug would.
    pub fn destroy(self) -> Result<()> {
        self.end()
    }

    fn end(&self) -> Result<()> {
        self.in_dom0(&format!("! xl domid {0} 2>/dev/null || xl destroy {0}", self.name))?;
        if let Some(disk) = &self.disk {
            self.in_dom0(&format!("rm -f {}", quoted(&disk.to_string_lossy())))?;
        }
        Ok(())
    }

    fn in_dom0(&self, command: &str) -> Result<Output> {
        JobPlan::new(Arc::clone(&self.place), command).within(60)?.ok()
    }
}

impl Drop for DomU {
    fn drop(&mut self) {
        // After `destroy` there is nothing to do; and if the order cannot be given, the host is gone with all on it.
        drop(self.end());
    }
}

impl Watched for DomU {
    fn title(&self) -> String {
        format!("domU {}", self.name)
    }

    fn said(&self) -> Result<String> {
        self.marks()
    }

    /// A domU that was destroyed is noticed by the deadline only: asking dom0 would disturb what is traced.
    fn over(&self) -> Result<Option<String>> {
        self.place.check_alive()?;
        Ok(self.panicked().then(|| "panicked".to_owned()))
    }

    fn too_late(&self, message: &str) -> anyhow::Error {
        self.place.run().note_lateness();
        self.failure(message)
    }

    fn failure(&self, message: &str) -> anyhow::Error {
        let console = tail(&self.marks().unwrap_or_else(|error| format!("{error:#}")), 15);
        let list =
            self.in_dom0("xl list").map_or_else(|error| format!("{error:#}"), |out| out.stdout);
        let rest = self.place.diagnosis();
        self.place.run().failure(format!(
            "{message}\n--- console of {}\n{console}\n--- xl list\n{list}{rest}",
            self.name
        ))
    }
}
