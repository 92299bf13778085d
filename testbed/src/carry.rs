//! Files between this machine and a place of jobs, through the folder that both see.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use crate::job::{JobPlan, Place, quoted};

/// Carries a file or folder there. Missing folders on the way of `to` are made.
pub(crate) fn put(place: &Arc<dyn Place>, file: &Path, to: &str) -> Result<()> {
    let (outside, inside) = parcel(place)?;
    copy(file, &outside.join("it"))?;
    let to = quoted(to);
    let command = format!("mkdir -p \"$(dirname {to})\" && cp -rT {}/it {to}", inside.display());
    JobPlan::new(Arc::clone(place), &command).within(120)?.ok()?;
    fs::remove_dir_all(outside).context("cannot remove a parcel")
}

/// Brings a file or folder from there.
pub(crate) fn get(place: &Arc<dyn Place>, file: &str, to: &Path) -> Result<()> {
    let (outside, inside) = parcel(place)?;
    let command = format!("cp -rT {} {}/it", quoted(file), inside.display());
    JobPlan::new(Arc::clone(place), &command).within(120)?.ok()?;
    copy(&outside.join("it"), to)?;
    fs::remove_dir_all(outside).context("cannot remove a parcel")
}

/// A fresh folder that both sides see: its path here and there.
fn parcel(place: &Arc<dyn Place>) -> Result<(PathBuf, PathBuf)> {
    let name = format!("parcels/{}", place.fresh_number());
    Ok((place.run().folder(&format!("share/{name}"))?, place.share().join(name)))
}

/// `cp -rT`: modes are kept, folders go with all that is in them.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let out =
        std::process::Command::new("cp").arg("-rT").arg(from).arg(to).output().context("no cp")?;
    let complaint = String::from_utf8_lossy(&out.stderr);
    ensure!(
        out.status.success(),
        "cannot copy {} to {}: {complaint}",
        from.display(),
        to.display()
    );
    Ok(())
}
