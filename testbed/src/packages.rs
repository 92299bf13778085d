//! Debian packages: asked for by name, fetched with apt and unpacked, never installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// A server that fails once is asked again.
const RETRIES: &str = "Acquire::Retries=5";

/// What a package depends on (`Depends` and `PreDepends`), as apt writes it; apt's lists are brought up to date if it
/// does not know the package.
pub(crate) fn depends(options: &[&str], package: &str) -> Result<String> {
    let ask = || {
        let mut command = Command::new("apt-cache");
        command.args(["depends", "--important"]).args(options).arg(package);
        let out = run_tool(&mut command, "apt")?;
        Ok::<_, anyhow::Error>(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    ask().or_else(|_| {
        update()?;
        ask()
    })
}

/// Fetches the packages and unpacks all of them into one tree, `root`.
pub(crate) fn unpack(packages: &[&str], root: &Path) -> Result<()> {
    let work = tempfile::tempdir().context("no temporary folder")?;
    let mut download = Command::new("apt-get");
    // The sandbox user of apt may not enter our folder; root's downloads are checked by hash all the same.
    download
        .args(["-q", "-o", RETRIES, "-o", "APT::Sandbox::User=root", "download"])
        .args(packages)
        .current_dir(work.path());
    if run_tool(&mut download, "apt").is_err() {
        update()?;
        run_tool(&mut download, "apt")?;
    }
    let debs = debs_in(work.path())?;
    ensure!(debs.len() == packages.len(), "apt-get left {} of {packages:?}", debs.len());
    for deb in debs {
        run_tool(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(root), "dpkg")?;
    }
    Ok(())
}

fn update() -> Result<()> {
    run_tool(Command::new("apt-get").args(["-q", "-o", RETRIES, "update"]), "apt").map(drop)
}

fn debs_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(files.filter(|path| path.extension().is_some_and(|ending| ending == "deb")).collect())
}

/// Runs a tool to its end; an error names the package that has it, or says what it complained about.
pub(crate) fn run_tool(command: &mut Command, package: &str) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| {
        format!("cannot run {name}: install {package} (`make setup` installs all that is needed)")
    })?;
    let complaint = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{name} failed ({}): {}", out.status, complaint.trim());
    Ok(out)
}
