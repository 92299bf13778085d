//! How fast recordings are read: import and states, decoding, and what it takes of memory.

use crate::{
    bed::{Bed, command, is_installed, output, told},
    recordings,
    report::{Goal, Row, Rows},
    roles::Pace,
    stats::Paired,
    tracers::Record,
};
use anyhow::{Context, Result, ensure};
use std::{path::Path, process::Stdio, time::Instant};

pub(super) const ROWS: &[&str] = &[
    "import/dat",
    "import/dat/trace-cmd",
    "import/dat/perf-script",
    "import/dat/babeltrace2",
    "import/compact",
    "import/compact/synthetic",
    "import/decode/dat",
    "import/decode/compact",
    "import/memory",
];

/// Events of the recordings that are compared.
const EVENTS: u64 = 10_000_000;
/// Events of the one that must fit into memory.
const MANY: u64 = 100_000_000;
/// Peers take seconds a round: more rounds would not fit into the time of a run.
const ROUNDS: usize = 3;

const UNIT: &str = "M ev/s";

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    if rows.wants_any(&ROWS[..4]) || rows.wants("import/decode/dat") {
        from_dat(bed, rows)?;
    }
    from_compact(bed, rows)?;
    if rows.wants("import/memory") {
        rows.push(memory(bed)?);
    }
    Ok(())
}

fn from_dat(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let dir = recordings::mixed(bed, Record::Full, bed.sized(EVENTS))?;
    let dat = dir.join("host.dat").display().to_string();
    let events = decoded(bed, &dat)?.events;
    let held = format!("trace.dat of {events} events, mixed load of this host");
    if rows.wants("import/dat") {
        let paces = paces(bed, &["states", &dir.display().to_string()])?;
        rows.push(rate("import/dat", &paces).goal(Goal::AtLeast(8.0)).note(&held));
    }
    if rows.wants("import/decode/dat") {
        let paces = paces(bed, &["decode", &dat])?;
        let row = rate("import/decode/dat", &paces).goal(Goal::AtLeast(30.0));
        rows.push(row.note(format!("one core, walk and decode of typed fields; {held}")));
    }
    for peer in PEERS {
        let name = format!("import/dat/{}", peer.name);
        if rows.wants(&name) {
            let row = match peer.beside(bed, &name, &dir, events) {
                Ok(row) => row,
                Err(err) => Row::skipped(&name, format!("{err:#}")),
            };
            rows.push(row.goal(Goal::RatioAtLeast(peer.times)));
        }
    }
    Ok(())
}

/// How many events are read, and the words of the command that reads them.
type Reading = (u64, Vec<String>);

/// Somebody else's reader.
struct Peer {
    name: &'static str,
    program: &'static str,
    times: f64,
    /// What it reads, how many events that are, and the words that make it do so.
    reads: fn(&Bed, &Path, u64) -> Result<Reading>,
    note: &'static str,
}

const PEERS: &[Peer] = &[
    Peer {
        name: "trace-cmd",
        program: "trace-cmd",
        times: 20.0,
        reads: |_, dir, events| {
            let dat = dir.join("host.dat").display().to_string();
            Ok((events, ["trace-cmd", "report", "-i", &dat].map(str::to_owned).to_vec()))
        },
        note: "import and states : trace-cmd report > /dev/null, the same file",
    },
    Peer {
        name: "perf-script",
        program: "perf",
        times: 15.0,
        reads: |bed, _, _| {
            let (file, events) = recordings::mixed_by_perf(bed, perf_events(bed))?;
            let file = file.display().to_string();
            Ok((events, ["perf", "script", "-i", &file].map(str::to_owned).to_vec()))
        },
        note: "import and states : perf script > /dev/null on a perf.data of the same load",
    },
    Peer {
        name: "babeltrace2",
        program: "babeltrace2",
        times: 5.0,
        reads: |bed, _, _| {
            let (file, events) = recordings::mixed_by_perf(bed, perf_events(bed))?;
            let dir = recordings::ctf(bed, &file)?.display().to_string();
            Ok((events, ["babeltrace2", &dir, "-o", "dummy"].map(str::to_owned).to_vec()))
        },
        note: "import and states : babeltrace2's dummy sink on the CTF of that perf.data",
    },
];

/// Half as many: perf needs a hundred bytes for each, and the rates are per event.
fn perf_events(bed: &Bed) -> u64 {
    bed.sized(EVENTS) / 2
}

impl Peer {
    #[expect(clippy::cast_precision_loss, reason = "rates for people")]
    fn beside(&self, bed: &Bed, name: &str, dir: &Path, events: u64) -> Result<Row> {
        ensure!(is_installed(self.program), "{} is not installed", self.program);
        let (theirs, words) = (self.reads)(bed, dir, events)?;
        let mut paired = Paired::default();
        for _ in 0..bed.rounds.min(ROUNDS) {
            let ours = pace(bed, &["states", &dir.display().to_string()])?;
            let begun = Instant::now();
            let mut peer = command(&words)?;
            let status = peer.stdout(Stdio::null()).stderr(Stdio::null()).status();
            let status = status.with_context(|| words.join(" "))?;
            ensure!(status.success(), "{}: {status}", words.join(" "));
            let peer = theirs as f64 / begun.elapsed().as_secs_f64();
            paired.push(ours.rate() / 1e6, peer / 1e6);
        }
        Ok(Row::compared(name, UNIT, &paired).note(format!("{} ({theirs} events)", self.note)))
    }
}

fn from_compact(bed: &Bed, rows: &mut Rows) -> Result<()> {
    if rows.wants_any(&["import/compact", "import/decode/compact"]) {
        let dir = recordings::mixed(bed, Record::Compact, bed.sized(EVENTS))?;
        let (dir, file) = (dir.display().to_string(), dir.join("host.compact"));
        let file = file.display().to_string();
        if rows.wants("import/compact") {
            let row = rate("import/compact", &paces(bed, &["states", &dir])?);
            rows.push(row.goal(Goal::AtLeast(20.0)).note("mixed load of this host"));
        }
        if rows.wants("import/decode/compact") {
            let row = rate("import/decode/compact", &paces(bed, &["decode", &file])?);
            rows.push(row.goal(Goal::AtLeast(30.0)).note("one core, core events decoded"));
        }
    }
    if rows.wants("import/compact/synthetic") {
        let dir = recordings::synthetic(bed, bed.sized(EVENTS), 4)?.display().to_string();
        let row = rate("import/compact/synthetic", &paces(bed, &["states", &dir])?);
        rows.push(row.goal(Goal::AtLeast(20.0)).note("synthetic: 4 VMs of 4 vCPUs on 4 CPUs"));
    }
    Ok(())
}

fn memory(bed: &Bed) -> Result<Row> {
    let dir = recordings::synthetic(bed, bed.sized(MANY), 4)?.display().to_string();
    let pace = pace(bed, &["states", &dir])?;
    #[expect(clippy::cast_precision_loss, reason = "mebibytes")]
    let mib = pace.peak_bytes as f64 / f64::from(1 << 20);
    let note = format!(
        "peak resident memory, mapped file included; {} events at {:.1} M/s",
        pace.events,
        pace.rate() / 1e6
    );
    Ok(Row::measured("import/memory", "MiB", &[mib]).goal(Goal::AtMost(512.0)).note(note))
}

fn rate(name: &str, paces: &[Pace]) -> Row {
    let rates: Vec<f64> = paces.iter().map(|pace| pace.rate() / 1e6).collect();
    Row::measured(name, UNIT, &rates)
}

fn paces(bed: &Bed, role: &[&str]) -> Result<Vec<Pace>> {
    (0..bed.rounds).map(|_| pace(bed, role)).collect()
}

pub(super) fn pace(bed: &Bed, role: &[&str]) -> Result<Pace> {
    told(&output(&bed.role(role))?)
}

fn decoded(bed: &Bed, dat: &str) -> Result<Pace> {
    pace(bed, &["decode", dat])
}
