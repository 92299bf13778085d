//! `docs/internals/performance.md`: the figures in it come from a run's rows, never from a keyboard.
//!
//! The page is written by people; between `<!-- bench: NAME -->` and `<!-- end of NAME -->` stands
//! what was measured. A part whose rows a run did not make is left as it is.

mod page;
mod plot;
mod rows;

use anyhow::{Context, Result};
use serde_json::Value;
use std::{fs, path::Path};

/// Writes the figures of a run (`bench.json`) into the page, and the plot beside it.
///
/// # Errors
/// If the run cannot be read or the page lacks a part.
pub fn write(json: &Path, docs: &Path) -> Result<()> {
    let text = fs::read_to_string(json).with_context(|| json.display().to_string())?;
    let run: Value = serde_json::from_str(&text).with_context(|| json.display().to_string())?;
    let path = docs.join("performance.md");
    let old = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let new = page::filled(&old, &run).with_context(|| path.display().to_string())?;
    fs::write(&path, new)?;
    if let Some(svg) = plot::growth(&run) {
        fs::write(docs.join("performance.svg"), svg)?;
    }
    Ok(())
}
