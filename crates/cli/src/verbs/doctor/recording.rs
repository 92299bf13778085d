//! Checks of one recording: how it ended, and what of it can be read.

use super::check::Check;
use anyhow::Context as _;
use std::path::Path;
use transect_model::number::bytes;
use transect_recording::ending::ending;
use transect_store::{Manifest, Recording, StoreError};

/// The checks, for a recording directory.
pub(super) fn checks(dir: &Path) -> anyhow::Result<Vec<Check>> {
    anyhow::ensure!(dir.exists(), "{}: no such recording", dir.display());
    let manifest = Manifest::read(dir).with_context(|| dir.display().to_string())?;
    let mut checks = vec![ended(&manifest)];
    checks.extend(guests(&manifest));
    checks.extend(sources(dir, &manifest));
    Ok(checks)
}

fn ended(manifest: &Manifest) -> Check {
    let ending = ending(manifest);
    let text = ending.describe(manifest.finished);
    match manifest.finished && !ending.is_early() {
        true => Check::ok("ended", text),
        false => Check::limited("ended", text, ""),
    }
}

/// Guests that were not recorded for a part of the time.
fn guests(manifest: &Manifest) -> Option<Check> {
    let lost = manifest.gaps.iter().filter(|gap| gap.cause.starts_with("guest_"));
    let name = |gap: &transect_store::manifest::Gap| {
        let machine = manifest.machines.iter().find(|machine| machine.id == gap.machine_id);
        let name = machine.map_or("?", |machine| &machine.name);
        format!("{name} ({})", gap.cause)
    };
    let mut names: Vec<_> = lost.map(name).collect();
    names.sort();
    names.dedup();
    let finding = format!("not recorded for a part of the time: {}", names.join(", "));
    (!names.is_empty())
        .then(|| Check::limited("guests", finding, "see: transect report DIR --view lost"))
}

fn sources(dir: &Path, manifest: &Manifest) -> Vec<Check> {
    let recording = match Recording::open(dir) {
        Ok(recording) => recording,
        Err(error @ StoreError::Assemble { .. }) => {
            let fix = "its recorder ended before any event was described; record again";
            return vec![Check::missing("events", error.to_string(), fix).essential()];
        }
        Err(error) => return vec![Check::missing("events", error.to_string(), "").essential()],
    };
    let each = recording.sources.iter().map(|source| {
        #[expect(clippy::cast_precision_loss, reason = "three digits for people")]
        let size = bytes(source.bytes.len() as f64);
        format!("{} ({size})", source.entry.file)
    });
    let mut checks = match recording.sources.is_empty() {
        true if manifest.excerpt.is_some() => vec![Check::ok("events", "an excerpt: tables only")],
        true => vec![
            Check::missing("events", "the recording has no sources", "record again").essential(),
        ],
        false => vec![Check::ok("events", each.collect::<Vec<_>>().join(", "))],
    };
    let problems = recording.problems.iter().filter(|problem| problem.file != "manifest.json");
    checks.extend(problems.map(|problem| {
        Check::limited("events", format!("{}: {}", problem.file, problem.message), "")
    }));
    checks
}
