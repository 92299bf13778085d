//! `docs/reference/studies/xenmon.md` and its charts, made from the CSV files of `docs/reference/studies/xenmon/`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::figures::FIGURES;
use super::plan;
use super::published::{self, Published};
use super::results::Results;
use super::{charts, claims};
use crate::page::{replaced, short, table};
use crate::spread::Spread;

/// What people wrote, for a folder that has no page yet.
const PAGE: &str = include_str!("../../../docs/reference/studies/xenmon.md");
const PUBLISHED: &str = include_str!("../../../docs/reference/studies/xenmon/published.csv");

/// The folder of CSV files and charts, in the folder of all studies.
pub fn folder(studies: &Path) -> PathBuf {
    studies.join("xenmon")
}

/// The page, in the folder of all studies.
pub fn path(studies: &Path) -> PathBuf {
    studies.join("xenmon.md")
}

/// Writes page and charts anew. A folder without a page gets that of this source, and its published numbers.
///
/// # Errors
/// If a CSV file is not there or incomplete, or the page lacks a part.
pub fn write(studies: &Path) -> Result<()> {
    for (file, text) in [(path(studies), PAGE), (folder(studies).join("published.csv"), PUBLISHED)]
    {
        if !file.exists() {
            fs::write(&file, text).with_context(|| file.display().to_string())?;
        }
    }
    for (file, text) in files(studies)? {
        fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// What page and charts should be: their paths and texts.
///
/// # Errors
/// As [`write`].
pub fn files(studies: &Path) -> Result<Vec<(PathBuf, String)>> {
    let folder = folder(studies);
    let results = Results::read(&folder)?.complete()?;
    let published = published::read(&folder)?;
    let page = path(studies);
    let name = || page.display().to_string();
    let text = fs::read_to_string(&page).with_context(name)?;
    let text = filled(&text, &results, &published).with_context(name)?;
    let mut files = vec![(page, text)];
    let charts = charts::all(&results, &published);
    files.extend(charts.into_iter().map(|(name, svg)| (folder.join(name), svg)));
    Ok(files)
}

fn filled(page: &str, results: &Results, published: &[Published]) -> Result<String> {
    let mut page = replaced(page, "runs", &runs(results))?;
    page = replaced(&page, "claims", &claims::text(results))?;
    page = replaced(&page, "relative", &relative(results, published))?;
    for figure in FIGURES {
        page = replaced(&page, figure.id, &figure.table(results, published))?;
    }
    Ok(page)
}

/// What was run, in figures.
fn runs(results: &Results) -> String {
    let header =
        ["xen", "hosts booted", "runs", "requests per second", "seconds traced", "lost records"];
    let rows = results.setups().into_iter().map(|setup| {
        let of_setup = || results.runs.iter().filter(|run| run.key.setup == setup.name);
        let traced = || of_setup().filter(|run| run.traced);
        let lengths = Spread::of(traced().map(|run| seconds(run.domains[0].ns)));
        let lost: u64 = traced().map(|run| run.domains[0].lost).sum();
        vec![
            setup.title.to_owned(),
            results.repetitions(setup.name).len().to_string(),
            of_setup().count().to_string(),
            results.rates().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            super::figures::spread(lengths),
            lost.to_string(),
        ]
    });
    let (work, reply) = (plan::WORK_US, short(f64::from(plan::REPLY_BYTES)));
    format!(
        "{}\nThe server computes for {work} µs per request and replies with {reply} bytes.\n",
        table("lrrlrr", &header.map(str::to_owned), &rows.collect::<Vec<_>>())
    )
}

#[allow(clippy::cast_precision_loss, reason = "seconds")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn relative(results: &Results, published: &[Published]) -> String {
    let setups = results.setups();
    let mut header = vec!["weights".to_owned(), "published".to_owned()];
    header.extend(setups.iter().map(|setup| setup.title.to_owned()));
    let rows = plan::CONFIGURATIONS.map(|configuration| {
        let known = charts::published_ratio(published, configuration.name);
        let mut row = vec![configuration.name.to_owned(), known.map_or("–".to_owned(), short)];
        row.extend(setups.iter().map(|setup| {
            super::figures::spread(charts::ratio_of_most(results, setup.name, configuration.name))
        }));
        row
    });
    table(&format!("lr{}", "r".repeat(setups.len())), &header, &rows)
}
