//! The pages of `docs/reference/studies` are what their CSV files make them.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failed expectation is the report")]

use std::fs;
use std::path::{Path, PathBuf};

use transect_studies::csv::Table;
use transect_studies::{paths, xenmon};

fn studies() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/studies")
}

#[test]
fn every_figure_of_the_xenmon_page_comes_from_its_files() {
    let files = xenmon::page::files(&studies()).unwrap();
    assert!(files.len() > 10, "a page and its charts");
    for (path, text) in files {
        let there = fs::read_to_string(&path).unwrap();
        let first = there.lines().zip(text.lines()).find(|(there, made)| there != made);
        let name = path.display();
        assert!(there == text, "{name} is not what `study-xenmon --page-only` makes: {first:?}");
    }
}

#[test]
fn every_figure_of_the_page_of_paths_comes_from_its_file() {
    let (path, made) = (paths::page::path(&studies()), paths::page::text(&studies()).unwrap());
    let there = fs::read_to_string(path).unwrap();
    let first = there.lines().zip(made.lines()).find(|(there, made)| there != made);
    assert!(there == made, "paths.md is not what `study-paths --page-only` makes: {first:?}");
}

#[test]
fn the_page_shows_every_chart() {
    let page = fs::read_to_string(xenmon::page::path(&studies())).unwrap();
    for (path, _) in xenmon::page::files(&studies()).unwrap().iter().skip(1) {
        let name = path.file_name().unwrap().to_string_lossy();
        assert!(page.contains(&format!("](xenmon/{name})")), "{name}");
    }
}

#[test]
fn published_numbers_name_their_place() {
    let text = fs::read_to_string(studies().join("xenmon/published.csv")).unwrap();
    let table = Table::parse(&text).unwrap();
    assert!(table.rows().count() > 20);
    for row in table.rows() {
        assert!(row.text("place").unwrap().starts_with("HPL-2005-187, section "));
        row.number::<f64>("value").unwrap();
    }
}
