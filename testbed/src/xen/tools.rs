//! Xen itself and its tools: Debian's packages, unpacked into the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::packages::{self, run_tool};

/// The package whose dependencies are one version of hypervisor and tools.
const META: &str = "xen-system-amd64";

/// What of the dependencies is unpacked; everything else is on this machine because the testbed itself needs it.
const WANTED: &[&str] =
    &["xen-hypervisor-", "xen-utils-", "xenstore-utils", "libxen", "libyajl", "libncurses6"];

/// Left out of the tree: large, and of no use in a dom0 without HVM guests with devices.
const UNUSED: &[&str] =
    &["boot/xen-shim", "boot/hvmloader", "bin/oxenstored", "bin/test-cpu-policy", "lib/python"];

/// Why a Xen host cannot be booted on this machine at all; none if it can be tried.
pub fn missing() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("the testbed's Xen host is for x86-64 only".to_owned());
    }
    let runs = |program: &&str| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let absent = ["qemu-system-x86_64", "apt-get", "dpkg-deb"].into_iter().find(|name| !runs(name));
    absent.map(|name| format!("there is no {name}"))
}

/// The path of one of Xen's tools that needs nothing of Xen, as `xenalyze`, for use on this machine.
pub fn tool(name: &str) -> Result<PathBuf> {
    XenTools::get()?.program(name)
}

/// The unpacked packages.
#[derive(Clone, Debug)]
pub(crate) struct XenTools {
    folder: PathBuf,
}

impl XenTools {
    /// Fetched and unpacked if the cache lacks them.
    pub(crate) fn get() -> Result<Self> {
        let packages = wanted_packages()?;
        let names: Vec<_> = packages.split_whitespace().collect();
        let key = cache::Key::new("xen").with(&packages).with(UNUSED).name();
        let folder = cache::entry(&key, |folder| unpack(&names, folder))?;
        Ok(Self { folder })
    }

    /// The hypervisor, unpacked as multiboot loaders want it.
    pub(crate) fn hypervisor(&self) -> PathBuf {
        self.folder.join("xen")
    }

    /// The tree of the tools: `usr` and `etc`.
    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// The cache entry's name: differs whenever what is in it does.
    pub(crate) fn key(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        let usr = self.tree().join("usr");
        let libraries = fs::read_dir(usr.join("lib"))?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut folders = libraries.map(|folder| folder.join("bin")).chain([usr.join("bin")]);
        folders
            .find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
            .with_context(|| format!("{} has no program {name}", self.folder.display()))
    }
}

/// The packages behind [`META`], in one line; remembered in the cache, so that a second run asks no one.
fn wanted_packages() -> Result<String> {
    let folder = cache::entry(&format!("resolved-{META}"), |folder| {
        let text = packages::depends(&["--recurse"], META)?;
        let wanted = |name: &&str| WANTED.iter().any(|start| name.starts_with(start));
        let mut names: Vec<_> = text.lines().filter(wanted).collect();
        names.retain(|name| *name != "xen-hypervisor-common");
        names.sort_unstable();
        names.dedup();
        fs::write(folder.join("packages"), names.join(" ")).context("cannot write")
    })?;
    fs::read_to_string(folder.join("packages")).context("cannot read the resolved Xen packages")
}

fn unpack(packages: &[&str], into: &Path) -> Result<()> {
    let all = tempfile::tempdir_in(into)?;
    packages::unpack(packages, all.path())?;
    let packed = hypervisor_in(&all.path().join("boot"))?;
    let hypervisor = run_tool(Command::new("gzip").arg("-dc").arg(&packed), "gzip")?.stdout;
    fs::write(into.join("xen"), hypervisor).context("cannot write the hypervisor")?;
    let root = into.join("root");
    fs::create_dir(&root)?;
    for part in ["usr", "etc"] {
        fs::rename(all.path().join(part), root.join(part))
            .with_context(|| format!("the Xen packages have no /{part}"))?;
    }
    fs::remove_dir_all(root.join("usr/share")).context("cannot leave the documentation out")?;
    leave_out_unused(&root.join("usr/lib"))
}

fn hypervisor_in(boot: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(boot).context("the Xen packages have no /boot")?;
    for path in files.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("xen-") && name.ends_with(".gz") {
            return Ok(path);
        }
    }
    bail!("there is no hypervisor in {}", boot.display())
}

fn leave_out_unused(libraries: &Path) -> Result<()> {
    for folder in fs::read_dir(libraries)?.filter_map(|entry| Some(entry.ok()?.path())) {
        for unused in UNUSED {
            let path = folder.join(unused);
            let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            // Most are in one of the folders only, and another version may not have them.
            drop(gone);
        }
    }
    Ok(())
}
