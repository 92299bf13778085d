//! `transect record`, as its users start it.

use super::tracer::{Tracer, Wish};
use crate::{
    bed::{Bed, output},
    traced::Traced,
};
use anyhow::{Context, Result};
use serde_json::Value;
use std::{fs, path::Path};

/// The recorder with one of its collectors.
#[derive(Clone, Copy, Debug)]
pub enum Record {
    /// The default.
    Compact,
    /// Over tracefs.
    Full,
}

impl Tracer for Record {
    fn name(&self) -> String {
        match self {
            Record::Compact => "transect record".to_owned(),
            Record::Full => "transect record --full".to_owned(),
        }
    }

    fn why_not(&self, bed: &Bed) -> Option<String> {
        let words = [bed.transect.display().to_string(), "record".to_owned(), "--help".to_owned()];
        match output(&words) {
            Ok(help) if help.contains("--full") => None,
            Ok(_) => Some("this transect has only one collector".to_owned()),
            Err(err) => Some(err.to_string()),
        }
    }

    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        let out = bed.scratch()?;
        let dir = out.path().join("r.transect");
        let said = output(&self.command(bed, wish, &dir, load))?;
        Ok((said, traced(&dir)?))
    }
}

impl Record {
    /// The whole command line.
    #[must_use]
    pub fn command(self, bed: &Bed, wish: &Wish, dir: &Path, load: &[String]) -> Vec<String> {
        let (program, dir) = (bed.transect.display().to_string(), dir.display().to_string());
        let size = format!("{}K", wish.buffer_kib);
        let mut words = vec![&*program, "record", "-q", "-o", &dir, "--buffer-size", &size];
        if let Record::Full = self {
            words.push("--full");
        }
        for event in wish.events {
            words.extend(["-e", event]);
        }
        words.push("--");
        let mut words = wish.place(words.into_iter().map(str::to_owned).collect());
        words.extend_from_slice(load);
        words
    }
}

/// What the manifest says of it.
///
/// # Errors
/// If there is none, or it says nothing of its cost.
pub fn traced(dir: &Path) -> Result<Traced> {
    let text = fs::read_to_string(dir.join("manifest.json"))?;
    let manifest: Value = serde_json::from_str(&text)?;
    let cost = manifest.get("cost").context("no cost in the manifest")?;
    let number = |name: &str| cost.get(name).and_then(Value::as_u64);
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let cpu_s = number("traced_cpu_ns").map(|ns| ns as f64 / 1e9);
    Ok(Traced {
        events: number("events"),
        lost: number("lost"),
        bytes: number("bytes").unwrap_or(0),
        cpu_s,
    })
}
