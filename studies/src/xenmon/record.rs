//! Makes the runs: boots, loads, records, and asks `transect`. Each run is a line of `runs.csv` as soon as it is over, so
//! that what was made is kept whatever comes after.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::analysis;
use super::plan::{self, Setup, Step};
use super::results::{KEY, Key, RUNS, Results, Run, Trace, run_line};
use super::scene::Bed;

/// What to run, and where to.
#[derive(Clone, Debug)]
pub struct Orders {
    /// The folder of the CSV files.
    pub out: PathBuf,
    /// Are the runs that are in them kept, and not made again?
    pub is_resumed: bool,
    /// The folder of the traces.
    pub traces: PathBuf,
    /// How Xen is booted.
    pub setups: Vec<Setup>,
    /// Requests per second.
    pub rates: Vec<u32>,
    /// How often each is repeated.
    pub repetitions: u32,
}

/// Makes all runs, or all that are not there yet; `say` gets a line about each.
///
/// # Errors
/// If a host does not boot or a run fails twice. What was made until then is kept.
pub fn record(orders: &Orders, say: &mut dyn FnMut(&str)) -> Result<()> {
    begin(orders, "runs.csv", RUNS)?;
    begin(orders, "windows.csv", &windows_header())?;
    fs::create_dir_all(&orders.traces).with_context(|| orders.traces.display().to_string())?;
    let done = Results::read(&orders.out)?.runs;
    for repetition in 1..=orders.repetitions {
        for setup in &orders.setups {
            let steps = plan::steps(repetition, &orders.rates);
            let is_done = |step: &&Step| {
                let key = key(setup, step, repetition);
                done.iter().any(|run| run.key == key && run.traced == step.traced)
            };
            let missing: Vec<_> = steps.iter().filter(|step| !is_done(step)).collect();
            if !missing.is_empty() {
                say(&format!("{}, repetition {repetition}: booting", setup.title));
                on_one_host(orders, setup, repetition, &missing, say)
                    .with_context(|| format!("{}, repetition {repetition}", setup.title))?;
            }
        }
    }
    Ok(())
}

/// Asks `transect` about every trace that `windows.csv` has nothing of; with `again` about all of them.
///
/// # Errors
/// If a trace is gone or `transect` cannot read it.
pub fn analyse(transect: &Path, out: &Path, traces: &Path, again: bool) -> Result<()> {
    if again {
        fs::write(out.join("windows.csv"), windows_header()).context("cannot write windows.csv")?;
    }
    for run in Results::read(out)?.unread() {
        let Run { key, trace, .. } = run;
        let path = traces.join(file_name(key));
        let windows = analysis::metrics(transect, &path, trace.tsc_hz, trace.server_id);
        let windows = windows.with_context(|| path.display().to_string())?;
        append(out, "windows.csv", &analysis::lines(key, &windows))?;
    }
    Ok(())
}

fn windows_header() -> String {
    format!("{KEY},{}\n", analysis::COLUMNS.join(","))
}

fn key(setup: &Setup, step: &Step, repetition: u32) -> Key {
    let configuration = step.configuration.name.to_owned();
    Key { setup: setup.name.to_owned(), configuration, rate: step.rate, repetition }
}

fn file_name(key: &Key) -> String {
    key.fields().join("-") + ".bin"
}

fn on_one_host(
    orders: &Orders,
    setup: &Setup,
    repetition: u32,
    steps: &[&Step],
    say: &mut dyn FnMut(&str),
) -> Result<()> {
    let bed = Bed::boot(setup)?;
    for step in steps {
        let key = key(setup, step, repetition);
        let said = one_run(orders, &bed, step, &key).or_else(|first| {
            let again = one_run(orders, &bed, step, &key);
            again.map_err(|error| error.context(format!("and before that: {first:#}")))
        });
        say(&said.with_context(|| format!("{key:?}"))?);
    }
    Ok(())
}

fn one_run(orders: &Orders, bed: &Bed, step: &Step, key: &Key) -> Result<String> {
    let path = orders.traces.join(file_name(key));
    let load = bed.run(step, &path)?;
    let bytes = if step.traced { fs::metadata(&path)?.len() } else { 0 };
    let trace = Trace { bytes, tsc_hz: bed.tsc_hz(), server_id: bed.server_id() };
    append(&orders.out, "runs.csv", &run_line(key, step, &load, trace))?;
    let [took_us, ..] = load.took_us;
    Ok(format!(
        "{} {} at {}/s{}: {} requests sent, {} answered after {took_us} µs on average; {bytes} bytes of trace",
        key.setup,
        key.configuration,
        key.rate,
        if step.traced { "" } else { ", untraced" },
        load.asked,
        load.answered,
    ))
}

/// Makes the file, with its header, unless it is there and goes on.
fn begin(orders: &Orders, name: &str, header: &str) -> Result<()> {
    let path = orders.out.join(name);
    fs::create_dir_all(&orders.out).with_context(|| orders.out.display().to_string())?;
    if orders.is_resumed && path.exists() {
        return Ok(());
    }
    fs::write(&path, header).with_context(|| path.display().to_string())
}

fn append(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    let file = OpenOptions::new().append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| path.display().to_string())
}
