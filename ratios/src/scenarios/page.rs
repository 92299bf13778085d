//! The page of `transect view` in a real browser without a GPU: how soon it is drawn, what a frame of a tour through the
//! recording takes, and what browser and server keep of it.

use super::import::pace;
use crate::{
    bed::{self, Bed, output},
    recordings,
    report::{Goal, Row, Rows},
};
use anyhow::{Context, Result, ensure};
use procfs::process::Process;
use serde::Deserialize;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

pub(super) const ROWS: &[&str] =
    &["page/drawn", "page/frame", "page/frame-p99", "page/work", "page/heap", "page/server"];

/// Events of the recording.
const EVENTS: u64 = 100_000_000;
/// Tours; each takes some ten seconds.
const ROUNDS: usize = 3;
/// The page's sources, which hold the tour.
const WEB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../web");

/// What `npm run tour` says (web/browser/tour.ts).
#[derive(Debug, Deserialize)]
struct Tour {
    browser: String,
    drawn_ms: f64,
    frame_ms: Times,
    work_ms: Times,
    #[serde(rename = "heap_MiB")]
    heap_mib: f64,
    errors: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Times {
    #[serde(default)]
    frames: u64,
    median: f64,
    p99: f64,
}

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let browser = ["chromium", "chromium-browser", "google-chrome"];
    if !bed::is_installed("npm") || !browser.into_iter().any(bed::is_installed) {
        ROWS.iter().for_each(|name| rows.push(Row::skipped(name, "no Node or no Chromium")));
        return Ok(());
    }
    let events = bed.sized(EVENTS);
    let dir = recordings::synthetic(bed, events, 4)?;
    make_tiles(bed, &dir, events)?;
    let (mut tours, mut peaks) = (Vec::new(), Vec::new());
    for _ in 0..bed.rounds.min(ROUNDS) {
        let server = Viewed::start(bed, &dir)?;
        let tour = server.tour()?;
        ensure!(tour.errors.is_empty(), "the page reports errors: {:?}", tour.errors);
        peaks.push(server.peak_mib()?);
        tours.push(tour);
    }
    let of = |value: fn(&Tour) -> f64| tours.iter().map(value).collect::<Vec<f64>>();
    let frames = tours.first().map_or(0, |tour| tour.frame_ms.frames);
    let browser = tours.first().map_or("", |tour| tour.browser.as_str());
    let row = |name, unit, values: &[f64], goal: f64, note: String| {
        Row::measured(name, unit, values).goal(Goal::AtMost(goal)).note(note)
    };
    rows.push(row(
        "page/drawn",
        "ms",
        &of(|tour| tour.drawn_ms),
        1000.0,
        format!(
            "{events} events, tiles exist: time from opening the address until everything is drawn"
        ),
    ));
    rows.push(row(
        "page/frame",
        "ms",
        &of(|tour| tour.frame_ms.median),
        16.0,
        format!(
            "time between frames on a tour of {frames} frames (zoom, pan, scroll), median; \
             Chromium {browser}, software rendering, no frame limit"
        ),
    ));
    let note = "the same, 99th percentile; every pause of the tour counts".to_owned();
    rows.push(row("page/frame-p99", "ms", &of(|tour| tour.frame_ms.p99), 33.0, note));
    let note = "the page's own work per frame, 99th percentile".to_owned();
    rows.push(row("page/work", "ms", &of(|tour| tour.work_ms.p99), 33.0, note));
    let note = "JavaScript heap after the tour".to_owned();
    rows.push(row("page/heap", "MiB", &of(|tour| tour.heap_mib), 200.0, note));
    let note = "peak memory of the server, mapped files included".to_owned();
    rows.push(row("page/server", "MiB", &peaks, 512.0, note));
    Ok(())
}

/// Tiles where `transect view` looks for them.
fn make_tiles(bed: &Bed, recording: &Path, events: u64) -> Result<()> {
    let dir = recording.display().to_string();
    let words = [bed.transect.display().to_string(), "tables".to_owned(), dir.clone()];
    let tables = output(&words)?.trim().to_owned();
    pace(bed, &["tiles", &tables, &dir, &events.to_string(), "--open"])?;
    Ok(())
}

/// `transect view` at work; ends when dropped.
struct Viewed {
    server: Child,
    url: String,
}

impl Viewed {
    fn start(bed: &Bed, recording: &Path) -> Result<Self> {
        let dir = recording.display().to_string();
        let program = bed.transect.display().to_string();
        let mut command = bed::command(&[program, "view".into(), "--no-browser".into(), dir])?;
        let mut server = command.stdout(Stdio::piped()).spawn().context("transect view")?;
        let mut url = String::new();
        let stdout = server.stdout.take().context("no pipe from transect view")?;
        BufReader::new(stdout).read_line(&mut url)?;
        let viewed = Self { server, url: url.trim().to_owned() };
        ensure!(
            viewed.url.starts_with("http://"),
            "transect view printed {:?} instead of its address",
            viewed.url
        );
        Ok(viewed)
    }

    fn tour(&self) -> Result<Tour> {
        let words = ["npm", "--prefix", WEB, "run", "--silent", "tour"].map(str::to_owned);
        let mut command = bed::command(&words)?;
        let told = command.env("TRANSECT_VIEW_URL", &self.url).output().context("npm run tour")?;
        let said = String::from_utf8_lossy(&told.stderr);
        ensure!(told.status.success(), "npm run tour: {}: {}", told.status, said.trim());
        bed::told(&String::from_utf8_lossy(&told.stdout))
    }

    /// Linux Documentation/filesystems/proc.rst: `VmHWM` is the peak of resident memory, in kB.
    fn peak_mib(&self) -> Result<f64> {
        let status = Process::new(self.server.id().cast_signed())?.status()?;
        #[expect(clippy::cast_precision_loss, reason = "megabytes for people")]
        let kib = status.vmhwm.context("no VmHWM")? as f64;
        Ok(kib / 1024.0)
    }
}

impl Drop for Viewed {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        drop(self.server.kill());
        drop(self.server.wait());
    }
}
