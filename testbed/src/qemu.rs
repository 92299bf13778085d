//! The QEMU command lines of guests, as data.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The host's KVM.
    Kvm,
    /// Emulation: works everywhere, some 10 to 50 times slower.
    Tcg,
}

impl Accelerator {
    pub(crate) fn arguments(self, vcpus: u32) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            Self::Tcg if vcpus == 1 => ["-accel", "tcg,thread=multi", "-cpu", "EPYC"],
            // In parallel, one vCPU may run code for ever that another has patched (host-init.sh says how).
            Self::Tcg => ["-accel", "tcg,thread=single", "-cpu", "EPYC"],
        }
    }
}

/// A guest's machine; every path as QEMU sees it.
pub(crate) struct Machine {
    pub(crate) accelerator: Accelerator,
    pub(crate) name: String,
    pub(crate) vcpus: u32,
    pub(crate) memory_mib: u32,
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
    pub(crate) append: String,
    pub(crate) console: PathBuf,
    pub(crate) marks: PathBuf,
    pub(crate) cid: Option<u32>,
    /// Name of the virtio-serial port and path of its socket.
    pub(crate) port: Option<(String, PathBuf)>,
    pub(crate) disk: Option<Disk>,
    /// The tap device of its network card; QEMU makes it.
    pub(crate) tap: Option<String>,
    /// Does a vhost worker of the host carry its packets, and not QEMU?
    pub(crate) vhost_net: bool,
}

impl Machine {
    /// The whole command line, program first.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let mut line = Line(vec!["qemu-system-x86_64".into()]);
        line.words(&["-display", "none", "-nodefaults", "-no-reboot"]);
        line.words(&self.accelerator.arguments(self.vcpus));
        line.option("-name", format!("{},debug-threads=on", self.name));
        line.option("-smp", self.vcpus.to_string());
        line.option("-m", self.memory_mib.to_string());
        line.option("-kernel", &self.kernel);
        line.option("-initrd", &self.initrd);
        let tsc = "tsc=reliable";
        line.option("-append", format!("console=ttyS0 quiet panic=-1 {tsc} {}", self.append));
        line.option("-serial", format!("file:{}", self.console.display()));
        line.option("-device", "virtio-serial-pci");
        line.option("-chardev", format!("file,id=marks,path={}", self.marks.display()));
        line.option("-device", "virtserialport,chardev=marks,name=testbed.marks");
        if let Some((name, socket)) = &self.port {
            let socket = socket.display();
            line.option("-chardev", format!("socket,id=port,path={socket},server=on,wait=off"));
            line.option("-device", format!("virtserialport,chardev=port,name={name}"));
        }
        if let Some(cid) = self.cid {
            line.option("-device", format!("vhost-vsock-pci,guest-cid={cid}"));
        }
        if let Some(disk) = &self.disk {
            let (file, how) = match disk {
                Disk::File(file) => (file, "cache=writeback"),
                // Each request of the guest is one of the host: past its page cache.
                Disk::Device(device) => (device, "cache=none,aio=threads"),
                Disk::Cached(device) => (device, "cache=writeback,aio=threads"),
            };
            line.option("-drive", format!("file={},format=raw,if=virtio,{how}", file.display()));
        }
        if let Some(tap) = &self.tap {
            let script = "script=no,downscript=no";
            let vhost = if self.vhost_net { "on" } else { "off" };
            line.option("-netdev", format!("tap,id=net,ifname={tap},{script},vhost={vhost}"));
            line.option("-device", "virtio-net-pci,netdev=net,romfile=");
        }
        line.0
    }
}

/// What a guest's disk is on its host.
#[derive(Clone, Debug)]
pub(crate) enum Disk {
    File(PathBuf),
    /// A block device past the page cache.
    Device(PathBuf),
    /// A block device through it.
    Cached(PathBuf),
}

/// A command line being written.
pub(crate) struct Line(pub(crate) Vec<OsString>);

impl Line {
    pub(crate) fn words(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    /// A folder of this machine, over 9p.
    pub(crate) fn folder(&mut self, path: &Path, tag: &str, is_read_only: bool) {
        let path = path.display();
        let more = if is_read_only { "readonly=on," } else { "" };
        let local = "security_model=none,multidevs=remap";
        self.option("-virtfs", format!("local,path={path},mount_tag={tag},{more}{local}"));
    }

    pub(crate) fn option(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.push(option.into());
        self.0.push(value.into());
    }
}
