//! What being watched costs a host: loads beside `transect serve`, beside what people use today, and beside
//! nobody; and what `serve` itself takes.
//!
//! Every round plays every watcher once, in an order of its own, and the load alone before and after each:
//! what it takes longer than their mean is what being watched costs. The load has CPU 0 for itself and
//! watchers' processes have CPU 1, so what is measured is what happens in the load's own context; the
//! rest is the watcher's own CPU time (`overhead/own/…`).

use crate::{
    bed::{Bed, on_load_cpu, output, told},
    process::Beside,
    report::{Goal, Row, Rows},
    roles::Timed,
    stats::{Paired, median, shuffle},
    watchers::{FrontEnds, Serving, Who},
};
use anyhow::{Context, Result, ensure};
use std::{collections::BTreeMap, path::Path, time::Duration};
use transect_testbed::{KvmHost, counting::Counts};

/// Switches a second of the load that has a fixed rate.
const SWITCHES: f64 = 50_000.0;
/// Machines, threads and groups of which are watched.
const VMS: u32 = 100;
/// How long `serve`'s own CPU time is counted for, at rest and asked each.
const COUNTED: Duration = Duration::from_secs(20);
/// What it takes to have seen all processes and looked up their groups and names.
const SETTLES: Duration = Duration::from_secs(6);

pub(super) const PACED: &[&str] = &[
    "overhead/paced/nothing",
    "overhead/paced/serve",
    "overhead/paced/serve-asked",
    "overhead/paced/serve-windows",
    "overhead/paced/bpftrace-runqlat",
    "overhead/paced/bpftrace-exits",
    "overhead/paced/perf-kvm",
];
pub(super) const EVENTFD: &[&str] = &[
    "overhead/eventfd/nothing",
    "overhead/eventfd/serve",
    "overhead/eventfd/serve-asked",
    "overhead/eventfd/serve-windows",
    "overhead/eventfd/bpftrace-runqlat",
    "overhead/eventfd/bpftrace-exits",
    "overhead/eventfd/perf-kvm",
];
pub(super) const GETPPID: &[&str] = &[
    "overhead/getppid/nothing",
    "overhead/getppid/serve",
    "overhead/getppid/serve-asked",
    "overhead/getppid/serve-windows",
    "overhead/getppid/bpftrace-runqlat",
    "overhead/getppid/bpftrace-exits",
    "overhead/getppid/perf-kvm",
];
pub(super) const NESTED: &[&str] = &[
    "overhead/nested/nothing",
    "overhead/nested/serve",
    "overhead/nested/serve-asked",
    "overhead/nested/serve-windows",
    "overhead/nested/bpftrace-runqlat",
    "overhead/nested/bpftrace-exits",
    "overhead/nested/perf-kvm",
];
pub(super) const OWN: &[&str] = &["overhead/own/rest", "overhead/own/asked", "overhead/own/memory"];

/// A load: a role of this program that says what an operation takes.
struct Load {
    words: Vec<String>,
}

impl Load {
    fn of(words: &[&str]) -> Self {
        Load { words: words.iter().map(|word| (*word).to_owned()).collect() }
    }
}

pub(super) fn paced(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let seen = measure(bed, &Load::of(&["work", "paced", "--ops", "12500", "--batches", "4"]))?;
    // What an operation takes longer, as often as there are some: of a CPU's time.
    let share = |(with, alone): &(f64, f64)| (with - alone) * SWITCHES / 1e9 * 100.0;
    for who in Who::ALL {
        let name = format!("overhead/paced/{}", who.name());
        let row = match &seen[who.name()] {
            Ok(rounds) => {
                let shares: Vec<f64> = rounds.iter().map(share).collect();
                Row::measured(&name, "% of CPU", &shares).note(who.what())
            }
            Err(why) => Row::skipped(&name, why),
        };
        let is_ours = matches!(who, Who::Serve | Who::ServeAsked | Who::ServeWindows);
        rows.push(if is_ours { row.goal(Goal::AtMost(0.5)) } else { row });
    }
    Ok(())
}

pub(super) fn eventfd(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let seen = measure(bed, &Load::of(&["work", "eventfd", "--ops", "20000"]))?;
    slowed("eventfd", &seen, rows);
    Ok(())
}

pub(super) fn getppid(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let seen = measure(bed, &Load::of(&["work", "getppid", "--ops", "100000"]))?;
    slowed("getppid", &seen, rows);
    Ok(())
}

/// Exits of a guest under real KVM, on a host that is itself emulated: of its times only the ratios say something.
pub(super) fn nested(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let host = KvmHost::nested().context("the nested host")?;
    for program in [&bed.bench, &bed.transect] {
        let name =
            program.file_name().and_then(|name| name.to_str()).context("a program's name")?;
        host.put(program, name)?;
    }
    // Carries the VMM there.
    Counts::default().command(&host)?;
    let counting = host.scratch().join("counting");
    let rounds = bed.rounds.min(5);
    let role = format!("watched {} --rounds {rounds}", counting.display());
    slowed("nested", &told(&super::nested::inside(&host, &role, 900)?)?, rows);
    Ok(())
}

/// That comparison, inside.
pub(crate) fn inside(bed: &Bed, counting: &Path) -> Result<Seen> {
    let counting = counting.display().to_string();
    measure(bed, &Load::of(&["exits", &counting, "--ops", "4000"]))
}

/// The load as fast as it goes: how much longer an operation takes.
fn slowed(load: &str, seen: &Seen, rows: &mut Rows) {
    for who in Who::ALL {
        let name = format!("overhead/{load}/{}", who.name());
        let row = match seen.get(who.name()) {
            Some(Ok(rounds)) => {
                let paired = Paired { rounds: rounds.clone() };
                Row::compared(&name, "ns/op", &paired).note(format!("{} : no watcher", who.what()))
            }
            Some(Err(why)) => Row::skipped(&name, why),
            None => Row::skipped(&name, "not measured"),
        };
        let is_nobody = who == Who::Nobody;
        rows.push(if is_nobody { row.goal(Goal::RatioWithin(0.98, 1.02)) } else { row });
    }
}

/// ns an operation, with each watcher and without, round by round; or why there are none.
type Seen = BTreeMap<String, Result<Vec<(f64, f64)>, String>>;

fn measure(bed: &Bed, load: &Load) -> Result<Seen> {
    let words: Vec<&str> = load.words.iter().map(String::as_str).collect();
    let words = on_load_cpu(bed.role(&words));
    let per_op = |said: &str| -> Result<f64> {
        let timed: Timed = told(said)?;
        median(&timed.cpu_ns).context("a loop without batches")
    };
    let alone = || per_op(&output(&words)?);
    let mut seen: Seen = Who::ALL
        .into_iter()
        .map(|who| (who.name().to_owned(), who.why_not().map_or(Ok(Vec::new()), Err)))
        .collect();
    for round in 0..bed.rounds.min(5) {
        let mut order = Who::ALL;
        shuffle(&mut order, round as u64);
        let mut before = alone()?;
        for who in order {
            let Some(Ok(rounds)) = seen.get_mut(who.name()) else { continue };
            match who.around(bed, &words).and_then(|said| per_op(&said)) {
                Ok(with) => {
                    let after = alone()?;
                    rounds.push((with, f64::midpoint(before, after)));
                    before = after;
                }
                Err(err) => {
                    seen.insert(who.name().to_owned(), Err(format!("{err:#}")));
                }
            }
        }
    }
    Ok(seen)
}

/// CPU time of `serve` itself beside many VMs.
#[expect(clippy::cast_precision_loss, reason = "ns of seconds, bytes of memory")]
pub(super) fn own(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let (mut rest, mut asked, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    let scratch = bed.scratch()?;
    let folder = scratch.path().display().to_string();
    let count = VMS.to_string();
    let vms = Beside::start(&bed.role(&["vms", "--count", &count, "--scratch", &folder]))?;
    for _ in 0..bed.rounds.min(3) {
        let serving = Serving::start(bed, true)?;
        std::thread::sleep(SETTLES);
        let percent = || -> Result<f64> {
            let (begun, before) = (std::time::Instant::now(), serving.watcher.cpu_ns()?);
            std::thread::sleep(COUNTED);
            let spent = serving.watcher.cpu_ns()? - before;
            Ok(spent as f64 / begun.elapsed().as_nanos() as f64 * 100.0)
        };
        rest.push(percent()?);
        let front_ends = FrontEnds::start(serving.address)?;
        let before = front_ends.answers();
        asked.push(percent()?);
        let after = front_ends.answers();
        ensure!(
            after.0 >= before.0 + COUNTED.as_secs() - 2 && after.1 > before.1,
            "the front ends received {} windows and {} scrapes in {COUNTED:?}",
            after.0 - before.0,
            after.1 - before.1
        );
        memory.push(serving.watcher.memory_bytes()? as f64 / f64::from(1 << 20));
        front_ends.end()?;
        serving.watcher.end()?;
    }
    let watched: serde_json::Value = vms.end()?;
    ensure!(watched["vms"] == VMS, "VMs are missing: {watched}");
    let what = format!("{VMS} VMs of 10 threads, 200 vCPUs of which 40 wake 200 times a second");
    rows.push(
        Row::measured("overhead/own/rest", "% of core", &rest)
            .note(format!("CPU time of transect serve, no clients; {what}")),
    );
    rows.push(
        Row::measured("overhead/own/asked", "% of core", &asked)
            .goal(Goal::AtMost(0.2))
            .note("the same with a dashboard (every window) and Prometheus (every 15 s)"),
    );
    rows.push(
        Row::measured("overhead/own/memory", "MiB", &memory)
            .note("resident memory, of which 2 × 16 MiB for the flight recorder"),
    );
    Ok(())
}
