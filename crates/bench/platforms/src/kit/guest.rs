//! Whole machines of the testbed: QEMU guests, nested hosts, Xen's dom0.

use crate::{
    kit::{Port, cpu_list, failed, fence::threads_of, own::LIFETIME, truth},
    platform::{Bed, Facts, Machine, Pipes, Shape, log_of},
};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::fitted::{Fitted, Fittings, Model, carry_lttng};

/// The machine, and this host, on QEMU's user-mode network (QEMU `docs/system/devices/net.rst`).
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// How long PID 1 may take from taking orders to running workers.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// A machine being described.
pub(crate) struct GuestPlan<'a> {
    /// The platform's name.
    pub name: &'static str,
    /// Which kind.
    pub model: Model,
    /// What it gets. Disks are its own: they are removed with it.
    pub fittings: Fittings,
    /// What it is.
    pub facts: Facts,
    /// Size of its own disk, MiB.
    pub disk_mib: u32,
    /// Which of several it is.
    pub index: u32,
    /// The bed.
    pub bed: &'a Bed,
}

/// What every machine of the testbed gets, before a platform changes it.
pub(crate) fn options_of(shape: &Shape) -> Result<Fittings, Refusal> {
    Ok(Fittings {
        cpus: shape.cpus,
        memory_mib: shape.memory_mib + taken_by_kernel_mib(shape.memory_mib),
        disks: Vec::new(),
        direct_disks: truth(shape, "direct_disk", true)?,
        pipes: 1,
        bridged: false,
        exports: false,
        pin: cpu_list(&shape.pin),
        lifetime: LIFETIME,
    })
}

/// What Debian's kernel takes of a machine's memory before it counts `MemTotal`: code and data, and 64 bytes of
/// each page. Measured with 6.1 under QEMU 7.2: 57 MiB of 555.
pub(crate) fn taken_by_kernel_mib(memory_mib: u32) -> u32 {
    48 + memory_mib / 56
}

/// A booted machine.
pub(crate) struct Guest {
    name: &'static str,
    facts: Facts,
    fitted: Fitted,
    port: Port,
    arguments: Vec<String>,
    disks: Vec<PathBuf>,
    log: PathBuf,
}

impl Guest {
    /// Boots it; no worker runs yet.
    pub(crate) fn boot(plan: GuestPlan<'_>) -> Result<Self, Fault> {
        let GuestPlan { name, model, mut fittings, mut facts, disk_mib, index, bed } = plan;
        let disk = disk_image(bed, &format!("{name}-{index}"), disk_mib)?;
        fittings.disks.insert(0, disk);
        let fitted = Fitted::boot(&model, &fittings).map_err(|error| {
            remove(&fittings.disks);
            failed(&error)
        })?;
        facts.storage_is_below = !fittings.direct_disks;
        let disks = fittings.disks;
        facts.notes.insert("vmm".into(), version_of_qemu());
        let port = port_of(&fitted)?;
        fs::create_dir_all(&bed.logs).map_err(Fault::failed)?;
        let log = log_of(&bed.logs, name, index);
        let arguments = bed.worker_arguments.clone();
        let mut guest = Self { name, facts, fitted, port, arguments, disks, log };
        carry(bed, &guest.fitted.share(), &mut guest.facts)?;
        Ok(guest)
    }

    /// The testbed's handle: for what runs inside this machine.
    pub(crate) fn fitted(&self) -> &Fitted {
        &self.fitted
    }

    /// What is true of its guests too.
    pub(crate) fn facts_of_a_guest(&self) -> Facts {
        self.facts.clone()
    }

    /// Makes a port of another address of its network reachable.
    pub(crate) fn forward(&self, address: Ipv4Addr, port: u16) -> Result<SocketAddr, Fault> {
        self.fitted.forward(address, port).map_err(|error| failed(&error))
    }
}

impl Machine for Guest {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn worker(&mut self) -> Result<Pipes, Fault> {
        self.port.worker(&self.arguments)
    }

    fn reach(&mut self, port: u16) -> Result<SocketAddr, Fault> {
        self.forward(ADDRESS, port)
    }

    fn gateway(&self) -> Option<IpAddr> {
        Some(GATEWAY.into())
    }

    fn host_tids(&self) -> Vec<u32> {
        threads_of(self.fitted.pid())
    }

    fn check_alive(&mut self) -> Result<(), Fault> {
        self.fitted.check_alive().map_err(|error| {
            self.fitted.forget_failures();
            Fault::failed(format!("{}: {error:#}", self.name))
        })
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        // Its disk goes with it, so nothing in it needs an orderly end.
        Ok(())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.fitted.end();
        // A log that cannot be kept must not hide why the machine ended.
        drop(fs::copy(self.fitted.logs().join("console.log"), &self.log));
        remove(&self.disks);
    }
}

fn remove(disks: &[PathBuf]) {
    for disk in disks {
        drop(fs::remove_file(disk));
    }
}

fn port_of(fitted: &Fitted) -> Result<Port, Fault> {
    let socket = fitted.pipe(0).map_err(|error| failed(&error))?;
    port_over(socket, READY_WITHIN, || fitted.check_alive().is_err()).map_err(|error| {
        Fault::failed(format!("the machine starts no workers: {error}\n{}", fitted.diagnosis()))
    })
}

/// A socket of whichever family.
pub(crate) trait Socket: Read + Write + Send + Sized + 'static {
    /// Another handle of it.
    fn another(&self) -> io::Result<Self>;
    /// How long a read may wait.
    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()>;
}

impl Socket for UnixStream {
    fn another(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(time)
    }
}

impl Socket for TcpStream {
    fn another(&self) -> io::Result<Self> {
        self.try_clone()
    }

    fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(time)
    }
}

/// The port behind a socket, when the machine at its other end is ready; it is given up after that time, or when its
/// machine `is_over`.
pub(crate) fn port_over(
    socket: impl Socket,
    within: Duration,
    is_over: impl Fn() -> bool,
) -> io::Result<Port> {
    let port = Port::new(socket.another()?, socket.another()?);
    let deadline = Instant::now() + within;
    socket.wait_at_most(Some(Duration::from_millis(500)))?;
    let mut line = Vec::new();
    loop {
        match port.wait_until_ready(&mut line) {
            Ok(()) => break,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if is_over() => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) if Instant::now() > deadline => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => {}
        }
    }
    socket.wait_at_most(None)?;
    Ok(port)
}

/// Puts what a machine is to have where it sees it: the worker, and LTTng's modules if somebody wants them. A machine without
/// the latter is as good for everybody else: why it has none is among its notes.
pub(crate) fn carry(bed: &Bed, share: &Path, facts: &mut Facts) -> Result<(), Fault> {
    carry_worker(&bed.worker, share)?;
    if bed.lttng {
        let note = match carry_lttng(share) {
            Ok(()) => "built from lttng-modules-dkms, without the timer probe".to_owned(),
            Err(error) => format!("could not be built: {error:#}"),
        };
        facts.notes.insert("LTTng's modules".into(), note);
    }
    Ok(())
}

/// Puts the worker's binary where machines see it; `share` is their shared folder.
pub(crate) fn carry_worker(worker: &Path, share: &Path) -> Result<(), Fault> {
    let to = share.join("worker");
    fs::copy(worker, &to).map(drop).map_err(|error| {
        Fault::failed(format!("cannot copy {} to {}: {error}", worker.display(), to.display()))
    })
}

/// A raw image with an empty ext4 file system; sparse.
pub(crate) fn disk_image(bed: &Bed, name: &str, mib: u32) -> Result<PathBuf, Fault> {
    fs::create_dir_all(&bed.scratch).map_err(Fault::failed)?;
    let path = bed.scratch.join(format!("{name}-{}.img", std::process::id()));
    let file = fs::File::create(&path).map_err(Fault::failed)?;
    file.set_len(u64::from(mib.max(16)) << 20).map_err(Fault::failed)?;
    // Everything is written now, so that no thread of the machine's kernel does it while something is measured.
    let options = ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    let out = Command::new("/sbin/mkfs.ext4").args(options).arg(&path).output().map_err(|_| {
        let refusal = Refusal::new(Kind::Missing, "a machine's disk", "mkfs.ext4 is not installed");
        Fault::from(refusal.mend("apt-get install e2fsprogs"))
    })?;
    if out.status.success() {
        return Ok(path);
    }
    drop(fs::remove_file(&path));
    Err(Fault::failed(format!("mkfs.ext4: {}", String::from_utf8_lossy(&out.stderr).trim())))
}

fn version_of_qemu() -> String {
    let out = Command::new("qemu-system-x86_64").arg("--version").output();
    let text = out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}
