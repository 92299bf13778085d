//! Machines as the benchmark has them: with a card, disks, pipes to workers, and pinned; else as those of tests.
//!
//! **What.** One whole machine ([`Fitted`]) of one of three models: a guest, a nested host with KVM, Xen with its dom0.
//! Each sees this machine's root read only over 9p, takes commands as every host of the testbed does, and has beside:
//! * `testbed.pipe.N`, virtio-serial ports whose other ends are sockets here ([`Fitted::pipe`]). On number 0 the machine
//!   itself runs workers (`serve_workers` of `guest/host-common.sh`); the others are for guests of the machine.
//! * a card on QEMU's user-mode network: the machine is 10.0.2.15, this one 10.0.2.2 ([`Fitted::forward`]). With
//!   `bridged`, guests of the machine can join that network.
//! * kernel modules, if some are carried into its shared folder ([`carry_lttng`]).
//! * disks, the first of them its own: an ext4 file system at [`SCRATCH`].
//!
//! **Constraints.** Threads of QEMU can be pinned; the machine dies with the run's deadline and with its owner.

use std::ffi::OsString;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::again::{BootFailure, boot_twice};
use crate::emulated::{Emulated, Kind};
use crate::initramfs;
use crate::job::{JobPlan, Place};
use crate::kernel::{Flavour, Kernel};
use crate::lttng;
use crate::qemu::{Accelerator, Line};
use crate::rundir::RunDir;
use crate::xen::{self, XenOptions};

/// Where a machine's own disk is mounted, as the machine sees it.
pub const SCRATCH: &str = "/run/testbed/scratch";

/// The folder, below the one that a machine and this one share, that the machine sees as `/lib/modules/RELEASE` of its
/// kernel, if this machine's root has a `/lib/modules` at all.
pub const MODULES: &str = "modules";

/// The folder that the machine and this one share, as the machine sees it; here it is [`Fitted::share`].
pub const SHARE: &str = "/run/testbed/share";

/// Which kind of machine.
#[derive(Clone, Debug)]
pub enum Model {
    /// A guest of this machine.
    Guest(Accelerator),
    /// A host with KVM, emulated ("L1").
    NestedHost,
    /// Xen and its dom0, emulated. CPUs and memory are in its own options.
    Xen(XenOptions),
}

/// What a machine gets.
#[derive(Clone, Debug)]
pub struct Fittings {
    /// CPUs.
    pub cpus: u32,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Raw images, `/dev/vda` and so on; the first holds an ext4 file system.
    pub disks: Vec<PathBuf>,
    /// Do the disks bypass this machine's page cache (`O_DIRECT`)?
    pub direct_disks: bool,
    /// Ports for workers: one for the machine itself, and one for each of its guests.
    pub pipes: u32,
    /// Is its card a port of a bridge, `xenbr0`?
    pub bridged: bool,
    /// Can its guests mount this machine's root, read only, and below `/mnt` its shared folder (9p over TCP, port 564)? For
    /// Xen's dom0 only, whose domains have no other way to them.
    pub exports: bool,
    /// CPUs of this machine that it may use, as for `taskset -c`; empty: all.
    pub pin: String,
    /// When everything of it is killed, whatever happens.
    pub lifetime: Duration,
}

/// A booted machine. It ends when the last clone is dropped.
#[derive(Clone)]
pub struct Fitted {
    place: Arc<Emulated>,
}

impl Fitted {
    /// Boots a machine and waits until it takes commands; a machine that does not come up is booted once more.
    pub fn boot(model: &Model, fittings: &Fittings) -> Result<Self> {
        let place = boot_twice(|| Self::boot_once(model, fittings))?;
        Ok(Self { place: Arc::new(place) })
    }

    fn boot_once(model: &Model, fittings: &Fittings) -> Result<Result<Emulated, BootFailure>> {
        let (kind, run, mut line) = match model {
            Model::Guest(accelerator) => guest(*accelerator, fittings)?,
            Model::NestedHost => nested_host(fittings)?,
            Model::Xen(options) => xen::prepared(options, &words(fittings))?,
        };
        add(fittings, &run, &mut line);
        if !fittings.pin.is_empty() {
            let taskset: [OsString; 3] = ["taskset".into(), "-c".into(), (&fittings.pin).into()];
            line.0.splice(0..0, taskset);
        }
        let logs = run.path().to_owned();
        Ok(Emulated::boot(kind, run, line).map_err(|error| (error, logs)))
    }

    /// A shell command in it, as root.
    pub fn run(&self, command: &str) -> JobPlan {
        let place: Arc<dyn Place> = Arc::clone(&self.place) as Arc<dyn Place>;
        JobPlan::new(place, command)
    }

    /// This machine's end of a port. To be connected once, before the other end is opened.
    pub fn pipe(&self, number: u32) -> Result<UnixStream> {
        let path = self.logs().join(format!("pipe.{number}"));
        UnixStream::connect(&path).with_context(|| format!("cannot connect {}", path.display()))
    }

    /// Makes a port of `address` in the machine's network reachable from here, TCP and UDP alike, and says where.
    pub fn forward(&self, address: Ipv4Addr, port: u16) -> Result<SocketAddr> {
        // Between the choice of a free port and QEMU's bind another may take it: that is seen, and another is chosen.
        let mut last = String::new();
        for _ in 0..5 {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
            let here = ["tcp", "udp"].map(|kind| format!("{kind}:{free}"));
            let mut is_forwarded = |here: &str| {
                last = self.monitor(&format!("hostfwd_add net {here}-{address}:{port}"))?;
                Ok::<_, anyhow::Error>(last.trim().is_empty())
            };
            if is_forwarded(&here[0])? && is_forwarded(&here[1])? {
                return Ok(free);
            }
            // Half of it may be there, which nobody would take away.
            for here in &here {
                self.monitor(&format!("hostfwd_remove net {here}"))?;
            }
        }
        Err(self.place.run().failure(format!("QEMU forwards no port: {last}")))
    }

    /// An order to QEMU's monitor; gives what it says.
    fn monitor(&self, order: &str) -> Result<String> {
        let mut stream = UnixStream::connect(self.logs().join("monitor"))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        until_prompt(&mut stream)?;
        stream.write_all(format!("{order}\n").as_bytes())?;
        let said = until_prompt(&mut stream)?;
        // The monitor echoes the order, letter by letter with control sequences between them.
        let after = said.split_once('\n').map(|(_, after)| after.to_owned());
        Ok(after.unwrap_or_default())
    }

    /// QEMU's process.
    pub fn pid(&self) -> u32 {
        self.place.pid()
    }

    /// The folder of logs and sockets, on this machine; gone when the machine is, unless something failed.
    pub fn logs(&self) -> &Path {
        self.place.run().path()
    }

    /// The shared folder, on this machine.
    pub fn share(&self) -> PathBuf {
        self.logs().join("share")
    }

    /// An error if it has ended, with what its console said.
    pub fn check_alive(&self) -> Result<()> {
        self.place.check_alive()
    }

    /// What its console and QEMU said last.
    pub fn diagnosis(&self) -> String {
        self.place.diagnosis()
    }

    /// Throws kept logs away: the failure was expected.
    pub fn forget_failures(&self) {
        self.place.run().discard();
    }

    /// Ends it at once.
    pub fn end(&self) {
        self.place.end();
    }
}

/// Up to `(qemu) `, which is what the monitor asks with.
fn until_prompt(stream: &mut UnixStream) -> Result<String> {
    let (mut said, mut some) = (Vec::new(), [0; 512]);
    while !said.ends_with(b"(qemu) ") {
        let count = match stream.read(&mut some) {
            // Stopped and going on.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other.context("QEMU's monitor does not answer")?,
        };
        ensure!(count > 0, "QEMU's monitor went away");
        said.extend_from_slice(&some[..count]);
    }
    said.truncate(said.len() - b"(qemu) ".len());
    Ok(String::from_utf8_lossy(&said).replace('\r', ""))
}

fn guest(accelerator: Accelerator, fittings: &Fittings) -> Result<(Kind, RunDir, Line)> {
    let boot = Duration::from_secs(120);
    let kind = Kind { title: "the guest", boot, prologue: "" };
    let (cpu, accel) = match accelerator {
        Accelerator::Kvm => ("host", "kvm"),
        Accelerator::Tcg => ("EPYC", "tcg,thread=multi"),
    };
    let unlistened = accelerator == Accelerator::Kvm || fittings.cpus == 1;
    let more = if unlistened { "testbed.unlistened" } else { "testbed.plain maxcpus=1" };
    let (run, line) = linux(fittings, false, &["-accel", accel, "-cpu", cpu], more)?;
    Ok((kind, run, line))
}

fn nested_host(fittings: &Fittings) -> Result<(Kind, RunDir, Line)> {
    let boot = Duration::from_secs(120);
    let kind = Kind { title: "the nested host", boot, prologue: "" };
    let cpu = ["-accel", "tcg,thread=multi", "-cpu", "EPYC,+svm"];
    let more = if fittings.cpus == 1 { "testbed.unlistened" } else { "maxcpus=1" };
    let (run, line) = linux(fittings, true, &cpu, &format!("{more} noautogroup"))?;
    Ok((kind, run, line))
}

/// What all machines that boot Linux directly have in common.
fn linux(fittings: &Fittings, hosts: bool, cpu: &[&str], more: &str) -> Result<(RunDir, Line)> {
    let kernel = Kernel::get(Flavour::Full)?;
    let initrd = initramfs::of_fitted(&kernel, hosts)?;
    let run = RunDir::new(fittings.lifetime)?;
    let mut line = Line(vec!["qemu-system-x86_64".into()]);
    line.words(cpu);
    line.option("-smp", fittings.cpus.to_string());
    line.option("-m", fittings.memory_mib.to_string());
    line.option("-kernel", kernel.vmlinux());
    line.option("-initrd", initrd);
    let words = words(fittings);
    // On a busy host the emulated timer does not tick often enough within the loop that looks whether it ticks at all,
    // and the kernel panics (`timer_irq_works`, Linux `arch/x86/kernel/apic/io_apic.c`).
    let more = format!("no_timer_check {more}");
    let tsc = "tsc=reliable clocksource=tsc";
    line.option("-append", format!("console=ttyS0 quiet panic=-1 {tsc} {more} {words}"));
    Ok((run, line))
}

/// What PID 1 is told.
fn words(fittings: &Fittings) -> String {
    let bridge = if fittings.bridged { " testbed.bridge" } else { "" };
    let exports = if fittings.exports { " testbed.exports" } else { "" };
    format!("testbed.address=10.0.2.15{bridge}{exports}")
}

fn add(fittings: &Fittings, run: &RunDir, line: &mut Line) {
    let cache = if fittings.direct_disks { "cache=none,aio=threads" } else { "cache=writeback" };
    for disk in &fittings.disks {
        let disk = disk.display();
        line.option("-drive", format!("file={disk},format=raw,if=virtio,{cache}"));
    }
    line.option("-netdev", "user,id=net,net=10.0.2.0/24,host=10.0.2.2");
    line.option("-device", "virtio-net-pci,netdev=net,romfile=");
    let monitor = run.path().join("monitor");
    line.option("-monitor", format!("unix:{},server=on,wait=off", monitor.display()));
    line.option("-device", "virtio-serial-pci,id=pipes,max_ports=31");
    for number in 0..fittings.pipes {
        let path = run.path().join(format!("pipe.{number}"));
        let path = path.display();
        line.option("-chardev", format!("socket,id=pipe{number},path={path},server=on,wait=off"));
        let name = format!("name=testbed.pipe.{number}");
        let device = format!("virtserialport,bus=pipes.0,chardev=pipe{number},{name}");
        line.option("-device", device);
    }
}

/// The kernel and the initramfs of a Xen domain that has its root from dom0, as dom0 sees them; they are made if need be.
/// Its command line says `testbed.name=` (the folder below the shared one that is its own), `testbed.address=` and
/// `testbed.worker=ADDRESS:PORT` (where it connects to be given workers).
pub fn domain_images() -> Result<(PathBuf, PathBuf)> {
    let kernel = Kernel::get(Flavour::Full)?;
    Ok((in_cache(&kernel.vmlinux())?, in_cache(&xen::of_fitted_domu(&kernel)?)?))
}

/// A path of the cache as machines see it. What is to be seen there must be there when the machine boots.
pub fn in_cache(path: &Path) -> Result<PathBuf> {
    xen::in_cache(path)
}

/// The kernel and the initramfs of a machine within a machine, as the outer one sees them; they are made if need be.
pub fn inner_images() -> Result<(PathBuf, PathBuf)> {
    let kernel = Kernel::get(Flavour::Full)?;
    Ok((in_cache(&kernel.vmlinux())?, in_cache(&initramfs::of_fitted(&kernel, false)?)?))
}

/// Puts LTTng's kernel modules where a machine of that shared folder looks for modules ([`MODULES`]). They are made if need
/// be, which takes a minute or two and needs the network.
pub fn carry_lttng(share: &Path) -> Result<()> {
    ensure!(
        Path::new("/lib/modules").is_dir(),
        "machines see this one's root, and it has no /lib/modules where theirs could be: mkdir it"
    );
    let from = lttng::modules(&Kernel::get(Flavour::Full)?)?;
    let (from, to) = (from.as_path(), share.join(MODULES));
    let copied = Command::new("cp").arg("-rT").args([from, &to]).status().context("cp")?;
    ensure!(copied.success(), "cannot copy {} to {}", from.display(), to.display());
    Ok(())
}
