//! The initramfs images: one of the nested host, one per kernel of the guests. Cached; a guest's own files
//! (its agent) are appended as a second archive.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache::{self, Key};
use crate::compile::{INIT, STEADY, WORKLOAD};
use crate::cpio::Cpio;
use crate::kernel::Kernel;

const HOST_INIT: &str =
    concat!(include_str!("../guest/host-common.sh"), include_str!("../guest/host-init.sh"));

const HOST_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "9p",
    "9pnet_virtio",
    "kvm-amd",
    "vhost_vsock",
    "null_blk",
    "dm-delay",
    "tun",
    "vhost_net",
    "veth",
    "dummy",
];

const GUEST_MODULES: &[&str] =
    &["virtio_pci", "virtio_console", "virtio_blk", "virtio_net", "vmw_vsock_virtio_transport"];

/// The image of the nested host.
pub fn of_host(kernel: &Kernel) -> Result<PathBuf> {
    let modules = kernel.modules(HOST_MODULES)?;
    image("host", kernel, &format!("{HOST_INIT} {}", STEADY.key()), &modules, |cpio| {
        cpio.script("init", HOST_INIT)?;
        cpio.program("bin/steady", &STEADY.binary()?)
    })
}

// A real root file system, a card, a disk and a bridge beside; no null_blk.
const FITTED_MODULES: &[&str] = &[
    "virtio_pci",
    "virtio_console",
    "virtio_net",
    "virtio_blk",
    "9p",
    "9pnet_virtio",
    "crc32c_generic",
    "ext4",
];

const FITTED_HOST_MODULES: &[&str] = &["kvm-amd", "kvm-intel", "vhost_net", "tun", "bridge"];

/// The image of the benchmark's machines and, with `hosts`, of those that run machines themselves.
pub fn of_fitted(kernel: &Kernel, hosts: bool) -> Result<PathBuf> {
    let more = if hosts { FITTED_HOST_MODULES } else { &[] };
    let modules = kernel.modules(&[FITTED_MODULES, more].concat())?;
    let role = if hosts { "fitted-host" } else { "fitted" };
    image(role, kernel, &format!("{HOST_INIT} {}", STEADY.key()), &modules, |cpio| {
        cpio.script("init", HOST_INIT)?;
        cpio.program("bin/steady", &STEADY.binary()?)
    })
}

/// The image of a machine that boots by GRUB ([`crate::booting`]).
pub fn of_booting(kernel: &Kernel) -> Result<PathBuf> {
    let modules = kernel.modules(BOOTING_MODULES)?;
    image("booting", kernel, BOOTING_INIT, &modules, |cpio| cpio.script("init", BOOTING_INIT))
}

const BOOTING_INIT: &str =
    concat!(include_str!("../guest/host-common.sh"), include_str!("../guest/booting-init.sh"));

const BOOTING_MODULES: &[&str] =
    &["virtio_pci", "virtio_blk", "9p", "9pnet_virtio", "crc32c_generic", "ext4", "overlay"];

/// The base image of guests.
pub fn of_guest(kernel: &Kernel) -> Result<PathBuf> {
    let modules = kernel.modules(GUEST_MODULES)?;
    image("guest", kernel, &guest_ingredients(), &modules, add_guest_programs)
}

/// What the programs of guests are made from.
pub(crate) fn guest_ingredients() -> String {
    format!("{} {}", INIT.key(), WORKLOAD.key())
}

/// PID 1 and the workloads.
pub(crate) fn add_guest_programs(cpio: &mut Cpio) -> Result<()> {
    cpio.program("init", &INIT.binary()?)?;
    cpio.link("bin/sh", "busybox")?;
    cpio.program("bin/workload", &WORKLOAD.binary()?)
}

/// The archive that adds an agent and its arguments to a guest's image.
pub(crate) fn agent_archive(agent: &Path, arguments: &[String]) -> Result<Vec<u8>> {
    let mut cpio = Cpio::default();
    cpio.folder("etc")?;
    cpio.file("etc/agent.args", arguments.join("\n").as_bytes())?;
    cpio.program("bin/agent", agent)?;
    cpio.finish()
}

/// The image of a role: busybox, modules, and what `add` adds.
pub(crate) fn image(
    role: &str,
    kernel: &Kernel,
    ingredients: &str,
    modules: &[PathBuf],
    add: impl FnOnce(&mut Cpio) -> Result<()>,
) -> Result<PathBuf> {
    let busybox = busybox()?;
    let key = Key::new(&format!("initramfs-{role}"))
        .with(kernel.key())
        .with(ingredients)
        .with(names(modules))
        .with(std::fs::metadata(&busybox)?.len());
    let folder = cache::entry(&key.name(), |folder| {
        let mut cpio = Cpio::default();
        for name in ["bin", "dev", "proc", "sys", "run", "tmp", "m"] {
            cpio.folder(name)?;
        }
        cpio.program("bin/busybox", &busybox)?;
        let mut list = String::new();
        for module in modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            cpio.program(&format!("m/{name}"), module)?;
            list += &format!("/m/{name}\n");
        }
        cpio.file("modules.list", list.as_bytes())?;
        add(&mut cpio)?;
        std::fs::write(folder.join("image"), cpio.finish()?).context("cannot write an image")
    })?;
    Ok(folder.join("image"))
}

/// Without their folders: a cache may be seen under another path (in a nested host it is).
fn names(paths: &[PathBuf]) -> Vec<&OsStr> {
    paths.iter().filter_map(|path| path.file_name()).collect()
}

fn busybox() -> Result<PathBuf> {
    let mut places = ["/usr/bin/busybox", "/bin/busybox"].into_iter().map(PathBuf::from);
    places
        .find(|path| path.exists())
        .context("no busybox: install busybox-static (`make setup` does)")
}
