//! Debian's kernels: fetched with apt, unpacked (never installed) into the cache, once.
//!
//! Each comes as `vmlinuz` (the bzImage), `vmlinux` (the ELF file inside it: it boots through PVH and
//! saves the seconds that unpacking takes under emulation), and the few modules the testbed loads.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{self, Key};
use crate::packages::{self, run_tool};

/// The two kernels in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// `linux-image-amd64`: every driver; the nested host needs its 9p and `kvm-amd`, dom0 its Xen back ends.
    Full,
    /// `linux-image-cloud-amd64`: what guests of clouds run; smaller and quicker to boot.
    Cloud,
}

impl Flavour {
    fn package(self) -> &'static str {
        match self {
            Self::Full => "linux-image-amd64",
            Self::Cloud => "linux-image-cloud-amd64",
        }
    }
}

/// Modules kept from the packages, with all they depend on; those a kernel has built in or lacks are skipped.
const KEPT: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "virtio_console",
    "virtio_net",
    "virtio-rng",
    "vmw_vsock_virtio_transport",
    "vhost_vsock",
    "vhost_net",
    "tun",
    "veth",
    "dummy",
    "9p",
    "9pnet_virtio",
    "kvm",
    "kvm-amd",
    "kvm-intel",
    "null_blk",
    "dm-delay",
    // What dom0 and its domUs need of Xen; the root of dom0 is an overlay.
    "xenfs",
    "xen-privcmd",
    "xen-evtchn",
    "xen-gntdev",
    "xen-gntalloc",
    "xen-blkback",
    "xen-blkfront",
    "xen-netback",
    "xen-netfront",
    "bridge",
    "loop",
    "overlay",
    // Disks of the benchmark's machines, and the root of its domUs over TCP.
    "crc32c_generic",
    "ext4",
    "9pnet_fd",
];

/// An unpacked kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    folder: PathBuf,
    release: String,
}

impl Kernel {
    /// The kernel of this flavour, fetched and unpacked if the cache lacks it.
    pub fn get(flavour: Flavour) -> Result<Self> {
        let package = concrete_package(flavour)?;
        let key = Key::new(&package).with(KEPT).name();
        let folder = cache::entry(&key, |folder| unpack(&package, folder))?;
        Ok(Self { folder, release: release_of(&package).to_owned() })
    }

    /// The bzImage.
    pub fn vmlinuz(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// The ELF image inside the bzImage.
    pub fn vmlinux(&self) -> PathBuf {
        self.folder.join("vmlinux")
    }

    /// What `uname -r` says in it.
    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    /// The list of its built-in modules, `modules.builtin`.
    pub(crate) fn builtin(&self) -> PathBuf {
        self.folder.join("modules.builtin")
    }

    /// The cache entry's name: differs whenever the kernel does.
    pub(crate) fn key(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Paths of the modules to load, in that order, so that all of `wanted` are there. Names that are
    /// built in are skipped; a name the kernel does not have at all is an error.
    pub(crate) fn modules(&self, wanted: &[&str]) -> Result<Vec<PathBuf>> {
        let table = ModuleTable::read(&self.folder)?;
        let mut order = Vec::new();
        for name in wanted {
            let known = table.add_with_dependencies(name, &mut order);
            ensure!(known, "{} has no module {name}", self.folder.display());
        }
        Ok(order.iter().map(|path| self.folder.join("modules").join(file_name(path))).collect())
    }
}

/// Says which package the meta package means now; remembered in the cache, so that a second run asks no one.
fn concrete_package(flavour: Flavour) -> Result<String> {
    let folder = cache::entry(&format!("resolved-{}", flavour.package()), |folder| {
        fs::write(folder.join("package"), resolve(flavour.package())?).context("cannot write")
    })?;
    fs::read_to_string(folder.join("package")).context("cannot read the resolved kernel package")
}

fn resolve(meta: &str) -> Result<String> {
    let text = packages::depends(&[], meta)?;
    let mut depends = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let concrete = depends.find(|name| name.starts_with("linux-image-"));
    concrete.map(str::to_owned).with_context(|| format!("apt knows no kernel behind {meta}"))
}

fn release_of(package: &str) -> &str {
    package.trim_start_matches("linux-image-")
}

fn unpack(package: &str, into: &Path) -> Result<()> {
    let work = tempfile::tempdir_in(into)?;
    let root = work.path().join("root");
    packages::unpack(&[package], &root)?;
    let version = release_of(package);
    keep_images(&root, version, into)?;
    keep_modules(&root, version, into)
}

fn keep_images(root: &Path, version: &str, into: &Path) -> Result<()> {
    let vmlinuz = root.join(format!("boot/vmlinuz-{version}"));
    fs::copy(&vmlinuz, into.join("vmlinuz"))
        .with_context(|| format!("cannot copy {}", vmlinuz.display()))?;
    let image = fs::read(&vmlinuz).context("cannot read vmlinuz")?;
    fs::write(into.join("vmlinux"), elf_of(&image)?).context("cannot write vmlinux")
}

/// Unpacks the ELF image out of a bzImage (Linux `Documentation/arch/x86/boot.rst`: `setup_sects` at 0x1f1,
/// `payload_offset` at 0x248 and `payload_length` at 0x24c; the payload's last four bytes are the unpacked size).
fn elf_of(image: &[u8]) -> Result<Vec<u8>> {
    let word = |at: usize| -> Option<usize> {
        let bytes = image.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let payload = (|| {
        let start = (usize::from(*image.get(0x1f1)?) + 1) * 512 + word(0x248)?;
        image.get(start..start + word(0x24c)?.checked_sub(4)?)
    })()
    .context("vmlinuz is not a bzImage")?;
    let (tool, package) = match payload {
        [0xfd, b'7', b'z', ..] => ("xz", "xz-utils"),
        [0x02, 0x21, 0x4c, 0x18, ..] => ("lz4", "lz4"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("zstd", "zstd"),
        [0x1f, 0x8b, ..] => ("gzip", "gzip"),
        _ => bail!("vmlinuz is compressed in a way the testbed does not know"),
    };
    let packed = tempfile::NamedTempFile::new()?;
    fs::write(packed.path(), payload)?;
    let stdin = fs::File::open(packed.path())?;
    let elf = run_tool(Command::new(tool).arg("-dc").stdin(stdin), package)?.stdout;
    ensure!(elf.starts_with(b"\x7fELF"), "the payload of vmlinuz is no ELF file");
    Ok(elf)
}

fn keep_modules(root: &Path, version: &str, into: &Path) -> Result<()> {
    run_tool(Command::new("depmod").arg("-b").arg(root).arg(version), "kmod")?;
    let tree = root.join("lib/modules").join(version);
    for name in ["modules.dep", "modules.builtin"] {
        fs::copy(tree.join(name), into.join(name)).with_context(|| format!("no {name}"))?;
    }
    let kept = into.join("modules");
    fs::create_dir(&kept)?;
    let table = ModuleTable::read(into)?;
    let mut order = Vec::new();
    for name in KEPT {
        table.add_with_dependencies(name, &mut order);
    }
    for path in order {
        keep_module(&tree.join(&path), &kept.join(file_name(&path)))?;
    }
    Ok(())
}

/// Copies a module, unpacked: newer Debians compress them, and our PID 1 loads plain ones.
fn keep_module(from: &Path, to: &Path) -> Result<()> {
    if from.extension().is_some_and(|extension| extension == "xz") {
        let plain = run_tool(Command::new("xz").arg("-dc").arg(from), "xz-utils")?.stdout;
        fs::write(to, plain).context("cannot write a module")
    } else {
        fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {}", from.display()))
    }
}

/// `modules.dep` and `modules.builtin`.
struct ModuleTable {
    dependencies: Vec<(String, Vec<String>)>,
    builtin: Vec<String>,
}

impl ModuleTable {
    fn read(folder: &Path) -> Result<Self> {
        let text = |name: &str| {
            fs::read_to_string(folder.join(name)).with_context(|| format!("no {name}"))
        };
        let dependencies = text("modules.dep")?
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(path, rest)| {
                (path.to_owned(), rest.split_whitespace().map(str::to_owned).collect())
            })
            .collect();
        Ok(Self {
            dependencies,
            builtin: text("modules.builtin")?.lines().map(module_name).collect(),
        })
    }

    /// Appends the module after all it needs. False if the kernel knows no such module.
    fn add_with_dependencies(&self, name: &str, order: &mut Vec<String>) -> bool {
        let wanted = module_name(name);
        let Some((path, needs)) =
            self.dependencies.iter().find(|(path, _)| module_name(path) == wanted)
        else {
            return self.builtin.contains(&wanted);
        };
        // depmod lists what is needed most deeply last.
        for path in needs.iter().rev().chain([path]) {
            if !order.contains(path) {
                order.push(path.clone());
            }
        }
        true
    }
}

/// `kernel/net/9p/9pnet.ko.xz` → `9pnet`, with `-` and `_` alike as the kernel does.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// The name a kept module has in the cache.
fn file_name(path: &str) -> String {
    format!("{}.ko", module_name(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_loaded_after_what_they_need() {
        let table = ModuleTable {
            dependencies: vec![
                ("kernel/a.ko".into(), vec!["kernel/b-c.ko".into(), "kernel/d.ko".into()]),
                ("kernel/b-c.ko".into(), vec!["kernel/d.ko".into()]),
                ("kernel/d.ko".into(), vec![]),
            ],
            builtin: vec!["e_f".into()],
        };
        let mut order = Vec::new();
        assert!(table.add_with_dependencies("b_c", &mut order));
        assert!(table.add_with_dependencies("a", &mut order));
        assert!(table.add_with_dependencies("e-f", &mut order));
        assert!(!table.add_with_dependencies("absent", &mut order));
        assert_eq!(order, ["kernel/d.ko", "kernel/b-c.ko", "kernel/a.ko"]);
    }

    #[test]
    fn something_else_than_a_kernel_is_refused() {
        assert!(elf_of(&[0; 100]).is_err());
        assert!(elf_of(&[0; 4096]).is_err());
    }
}
