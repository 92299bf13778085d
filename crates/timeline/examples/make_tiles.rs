//! Makes the tiles of a folder of tables in another folder, and says how long it took, beside the
//! time it takes only to decode the columns that tiles are made of.
//!
//! `make_tiles TABLES PARENT [THREADS]`
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use transect_timeline::{Build, TimelineError};

fn main() -> Result<(), TimelineError> {
    let args: Vec<String> = std::env::args().collect();
    let [_, tables, parent, rest @ ..] = &args[..] else {
        eprintln!("make_tiles TABLES PARENT [THREADS]");
        return Ok(());
    };
    let threads = rest.first().and_then(|text| text.parse().ok()).unwrap_or(2);
    let build = Build {
        tables: Path::new(tables),
        parent: Path::new(parent),
        threads,
        progress: &|_| (),
        partial: &|_| (),
        stop: &AtomicBool::new(false),
    };
    let begun = Instant::now();
    let rows = build.read_only()?;
    let floor = begun.elapsed().as_secs_f64();
    println!("{rows} rows, decoded alone in {floor:.2} s");
    let begun = Instant::now();
    let view = build.again()?;
    let made = begun.elapsed().as_secs_f64();
    println!("{} tracks, {} keys in {made:.2} s", view.tracks().len(), view.keys().len());
    let begun = Instant::now();
    build.ensure()?;
    println!("opened in {:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}
