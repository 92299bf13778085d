//! LTTng's kernel modules for the guests' kernel: Debian's sources, compiled against that kernel's headers. All of it is
//! fetched with apt and unpacked (never installed) into the cache, once.
//!
//! Two things are not as `lttng-modules-dkms` would make them. `lttng-probe-timer` is left out: it does not compile since
//! stable updates of 6.1 gave the tracepoint `hrtimer_start` another argument (2.13.9 and 2.13.18, seen with 6.1.192).
//! And headers alone do not have what the probes of kvm on x86, kmem, ext4, btrfs, compaction and regmap include.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::{self, Key};
use crate::kernel::Kernel;
use crate::packages::{self, run_tool};

/// Probes that do not compile.
const LEFT_OUT: &[&str] = &["lttng-probe-timer"];

/// A folder as `/lib/modules/RELEASE` is, with LTTng's modules and what libkmod needs to find them. Fetches and compiles
/// them if the cache lacks them: a minute or two.
pub(crate) fn modules(kernel: &Kernel) -> Result<PathBuf> {
    let key = Key::new("lttng-modules").with(kernel.key()).with(LEFT_OUT).name();
    let entry = cache::entry(&key, |folder| make(kernel, folder))?;
    Ok(entry.join(tree_of(kernel.release())))
}

fn tree_of(release: &str) -> PathBuf {
    Path::new("lib/modules").join(release)
}

fn make(kernel: &Kernel, into: &Path) -> Result<()> {
    let work = tempfile::tempdir_in(into)?;
    let root = work.path().join("root");
    let release = kernel.release();
    let headers = format!("linux-headers-{release}");
    let text = packages::depends(&[], &headers)?;
    let parts = text.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let parts = parts
        .filter(|name| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-"));
    let mut wanted: Vec<&str> = parts.collect();
    wanted.extend([headers.as_str(), "lttng-modules-dkms"]);
    packages::unpack(&wanted, &root)?;
    let sources = root.join("usr/src");
    let headers = sources.join(&headers);
    // The headers of a flavour include those of all flavours by their absolute path.
    edit(&headers.join("Makefile"), |line| {
        Some(line.replace("/usr/src/", &format!("{}/", sources.display())))
    })?;
    let modules = lttng_in(&sources)?;
    edit(&modules.join("src/probes/Kbuild"), |line| {
        let is_out = LEFT_OUT.iter().any(|name| line.ends_with(&format!("{name}.o")));
        (!is_out).then(|| line.to_owned())
    })?;
    let mut make = Command::new("make");
    make.arg("-C").arg(&headers).arg(format!("M={}", modules.display()));
    make.args(["CONFIG_LTTNG=m", "modules", &format!("-j{}", cpus())]);
    run_tool(&mut make, "make and gcc")?;
    install(&modules, kernel, into)
}

/// Rewrites a file line by line; what becomes nothing is left out.
fn edit(path: &Path, line: impl FnMut(&str) -> Option<String>) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("no {}", path.display()))?;
    let lines: Vec<String> = text.lines().filter_map(line).collect();
    fs::write(path, lines.join("\n") + "\n").context("cannot write a makefile")
}

fn lttng_in(sources: &Path) -> Result<PathBuf> {
    let mut folders = fs::read_dir(sources)?.filter_map(|entry| Some(entry.ok()?.path()));
    let found = folders.find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lttng-modules-"))
    });
    found.context("lttng-modules-dkms has no sources")
}

/// Puts what was compiled where libkmod finds it.
fn install(built: &Path, kernel: &Kernel, into: &Path) -> Result<()> {
    let tree = into.join(tree_of(kernel.release()));
    let extra = tree.join("extra");
    fs::create_dir_all(&extra)?;
    let mut modules = Vec::new();
    find_modules(built, &mut modules)?;
    ensure!(!modules.is_empty(), "no module of LTTng was compiled");
    for module in modules {
        let to = extra.join(module.file_name().unwrap_or_default());
        fs::copy(&module, &to).context("cannot copy a module")?;
        run_tool(Command::new("strip").arg("--strip-debug").arg(&to), "binutils")?;
    }
    fs::copy(kernel.builtin(), tree.join("modules.builtin")).context("no modules.builtin")?;
    fs::write(tree.join("modules.order"), "")?;
    run_tool(Command::new("depmod").arg("-b").arg(into).arg(kernel.release()), "kmod").map(drop)
}

fn find_modules(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            find_modules(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "ko") {
            found.push(path);
        }
    }
    Ok(())
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
