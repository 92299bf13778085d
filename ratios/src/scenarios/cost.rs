//! What an event costs those who are traced.
//!
//! A loop of one operation runs alone on a CPU, without and with a tracer, right after each other;
//! what an operation takes longer, divided by its events, is the cost. Every round plays every
//! tracer once, in an order of its own, so that drift of the machine falls on all alike; the cost's
//! base is the mean of the loop before and after.

use crate::{
    bed::{Bed, on_load_cpu, output, told},
    report::{Goal, Row, Rows},
    roles::{Loop, Pairs, Programs, Timed},
    stats::{Paired, median, shuffle},
    traced::Traced,
    tracers::{
        Collector, Live, Nothing, Perf, Record, SWITCHES, SYSCALLS, Splice, TraceCmd, Tracer, Wish,
    },
};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(super) const ROWS: &[&str] = &[
    "harness/getppid/nothing",
    "cost/getppid/ftrace",
    "cost/getppid/ftrace-local",
    "cost/getppid/perf",
    "cost/getppid/empty",
    "cost/getppid/stamp",
    "cost/getppid/folded",
    "cost/getppid/exit-only",
    "cost/getppid/exit-only-ftrace",
    "cost/getppid/exit-only-perf",
    "cost/getppid/record",
    "cost/getppid/record-full",
    "cost/getppid/consumer",
    "cost/getppid/consumer-record",
    "harness/eventfd/nothing",
    "cost/eventfd/ftrace",
    "cost/eventfd/ftrace-local",
    "cost/eventfd/perf",
    "cost/eventfd/empty",
    "cost/eventfd/stamp",
    "cost/eventfd/record",
    "cost/eventfd/record-full",
    "cost/eventfd/consumer",
    "cost/eventfd/consumer-record",
    "cost/eventfd/live",
    "cost/eventfd/live-all",
    "cost/eventfd/live-nothing",
];

/// One of the two loops.
struct Load {
    name: &'static str,
    /// Of which `events` happen in an operation.
    tracepoints: &'static [&'static str],
    events: f64,
    ops: u32,
}

const LOADS: [Load; 2] = [
    Load { name: "getppid", tracepoints: SYSCALLS, events: 2.0, ops: 100_000 },
    Load { name: "eventfd", tracepoints: SWITCHES, events: 1.0, ops: 20_000 },
];

/// What came out for a tracer in a round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Seen {
    /// Cost of an event for who is traced, in ns.
    cost_ns: f64,
    /// What the loop took with the tracer over what it took without.
    slowdown: f64,
    traced: Traced,
}

/// Of one loop: for each tracer, its rounds, or why there are none.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Costs {
    rounds: BTreeMap<String, Vec<Seen>>,
    absent: BTreeMap<String, String>,
}

impl Costs {
    /// The rounds of two tracers, or which of them is missing and why.
    fn both(&self, ours: &str, peer: &str) -> Result<(&[Seen], &[Seen]), String> {
        let of = |who: &str| {
            if let Some(why) = self.absent.get(who) {
                return Err(format!("{who}: {why}"));
            }
            self.rounds.get(who).map(Vec::as_slice).ok_or_else(|| format!("{who}: not tried"))
        };
        Ok((of(ours)?, of(peer)?))
    }
}

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    for load in &LOADS {
        if ROWS.iter().any(|name| name.contains(load.name) && rows.wants(name)) {
            show(load, &measure(bed, load, &contestants())?, rows);
        }
    }
    Ok(())
}

/// What the nested host compares: an emulated CPU is slow, hence fewer operations.
pub(crate) fn inside(bed: &Bed, which: Loop) -> Result<Costs> {
    let [getppid, eventfd] = LOADS;
    let load = match which {
        Loop::Getppid => Load { ops: getppid.ops / 5, ..getppid },
        Loop::Eventfd => Load { ops: eventfd.ops / 2, ..eventfd },
        Loop::Paced => anyhow::bail!("an emulated CPU cannot keep a fixed rate"),
    };
    let tracers: Vec<Box<dyn Tracer>> = vec![
        Box::new(Nothing),
        Box::new(Splice("local")),
        Box::new(TraceCmd),
        Box::new(Collector(Pairs::Folded)),
    ];
    measure(bed, &load, &tracers)
}

/// The compact collector beside a peer.
pub(super) fn paid_row(name: &str, costs: &Costs, peer: &'static str, goal: Option<Goal>) -> Row {
    paid("", OURS, peer, goal).row(name, costs)
}

fn contestants() -> Vec<Box<dyn Tracer>> {
    vec![
        Box::new(Nothing),
        Box::new(Splice("x86-tsc")),
        Box::new(Splice("local")),
        Box::new(Perf),
        Box::new(Record::Full),
        Box::new(Record::Compact),
        Box::new(Collector(Pairs::Folded)),
        Box::new(Collector(Pairs::Two)),
        Box::new(Collector(Pairs::ExitOnly)),
        Box::new(Collector(Pairs::Empty)),
        Box::new(Collector(Pairs::Stamp)),
        Box::new(Live { programs: Programs::Count, all: false }),
        Box::new(Live { programs: Programs::Empty, all: false }),
        Box::new(Live { programs: Programs::Count, all: true }),
        Box::new(Live { programs: Programs::Empty, all: true }),
    ]
}

/// Enough that none of them loses events here: a tracer that drops is cheaper than it is.
const BUFFER_KIB: u32 = 32 << 10;

fn measure(bed: &Bed, load: &Load, tracers: &[Box<dyn Tracer>]) -> Result<Costs> {
    let (ops, batches) = (load.ops.to_string(), batches(bed).to_string());
    let words = ["work", load.name, "--ops", &ops, "--batches", &batches];
    let words = on_load_cpu(bed.role(&words));
    let wish = Wish { events: load.tracepoints, buffer_kib: BUFFER_KIB, consumer_alone: true };
    let mut costs = Costs::default();
    for tracer in tracers {
        costs.absent.extend(tracer.why_not(bed).map(|why| (tracer.name(), why)));
    }
    let alone = || per_op(&output(&words)?);
    for round in 0..bed.rounds {
        let mut order: Vec<&dyn Tracer> = tracers.iter().map(AsRef::as_ref).collect();
        shuffle(&mut order, round as u64);
        let mut before = alone()?;
        for tracer in order {
            let name = tracer.name();
            if costs.absent.contains_key(&name) {
                continue;
            }
            let around = tracer.around(bed, &wish, &words);
            let checked = around.and_then(|(said, traced)| {
                load.expect_events(bed, tracer.share(), &traced)?;
                Ok((per_op(&said)?, traced))
            });
            let (with, traced) = match checked {
                Ok(measured) => measured,
                Err(err) => {
                    costs.absent.insert(name, format!("{err:#}"));
                    continue;
                }
            };
            let after = alone()?;
            let base = f64::midpoint(before, after);
            let cost_ns = (with - base) / load.events;
            let seen = Seen { cost_ns, slowdown: with / base, traced };
            costs.rounds.entry(name).or_default().push(seen);
            before = after;
        }
    }
    Ok(costs)
}

fn batches(bed: &Bed) -> u32 {
    if bed.quick { 3 } else { 9 }
}

impl Load {
    /// A tracer that does not see the events is cheap.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second")]
    fn expect_events(&self, bed: &Bed, share: Option<f64>, traced: &Traced) -> Result<()> {
        let (Some(events), Some(share)) = (traced.events, share) else { return Ok(()) };
        let seen = (events + traced.lost.unwrap_or(0)) as f64;
        let happened = share * self.events * f64::from(self.ops) * f64::from(batches(bed) + 1);
        ensure!(seen >= 0.99 * happened, "the tracer recorded {seen} of {happened} events");
        Ok(())
    }
}

fn per_op(said: &str) -> Result<f64> {
    let timed: Timed = told(said)?;
    median(&timed.cpu_ns).context("a loop without batches")
}

/// Two tracers beside each other.
struct Duel {
    row: &'static str,
    ours: &'static str,
    peer: &'static str,
    goal: Option<Goal>,
    of: fn(&Seen) -> Option<f64>,
    note: &'static str,
}

const FTRACE: &str = "ftrace splice (x86-tsc)";
const FTRACE_LOCAL: &str = "ftrace splice (local)";
const PERF: &str = "perf record";
const OURS: &str = "compact collector";
const TWO_RECORDS: &str = "compact collector, two records";
const EXITS_ONLY: &str = "compact collector, exits only";
const NOTHING: &str = "nothing";
const EMPTY: &str = "empty BPF programs";
const STAMP: &str = "BPF programs that read the clock";
const LIVE: &str = "live windows";
const LIVE_EMPTY: &str = "empty live programs";
const LIVE_ALL: &str = "live windows, all programs";
const LIVE_ALL_EMPTY: &str = "empty live programs, all programs";
const RECORD: &str = "transect record";
const FULL: &str = "transect record --full";

/// Cost of an event for who is traced.
const fn paid(
    row: &'static str,
    ours: &'static str,
    peer: &'static str,
    goal: Option<Goal>,
) -> Duel {
    Duel { row, ours, peer, goal, of: |seen| Some(seen.cost_ns), note: "" }
}

/// What the loop takes longer, over what it takes without.
const fn slowed(
    row: &'static str,
    ours: &'static str,
    peer: &'static str,
    goal: Option<Goal>,
) -> Duel {
    Duel { row, ours, peer, goal, of: |seen| Some(seen.slowdown), note: "; time of an operation" }
}

/// CPU time of what consumes the events, for each of them.
const fn spent(
    row: &'static str,
    ours: &'static str,
    peer: &'static str,
    goal: Option<Goal>,
) -> Duel {
    Duel { row, ours, peer, goal, of: Seen::consumer_ns, note: "; CPU time of the consumer" }
}

const DUELS: &[Duel] = &[
    paid("ftrace", OURS, FTRACE, Some(Goal::RatioAtMost(0.6))),
    paid("ftrace-local", OURS, FTRACE_LOCAL, None),
    paid("perf", OURS, PERF, Some(Goal::RatioAtMost(0.2))),
    paid("empty", OURS, EMPTY, Some(Goal::RatioAtMost(2.0))),
    paid("stamp", OURS, STAMP, None),
    paid("folded", OURS, TWO_RECORDS, Some(Goal::RatioAtMost(0.75))),
    paid("exit-only", EXITS_ONLY, TWO_RECORDS, Some(Goal::RatioAtMost(0.75))),
    paid("exit-only-ftrace", EXITS_ONLY, FTRACE, Some(Goal::RatioAtMost(0.6))),
    paid("exit-only-perf", EXITS_ONLY, PERF, Some(Goal::RatioAtMost(0.2))),
    paid("record", RECORD, FTRACE, None),
    paid("record-full", FULL, FTRACE, None),
    spent("consumer", OURS, FTRACE, Some(Goal::RatioAtMost(0.5))),
    spent("consumer-record", RECORD, FTRACE, None),
    paid("live", LIVE, LIVE_EMPTY, Some(Goal::RatioAtMost(1.6))),
    paid("live-all", LIVE_ALL, LIVE_ALL_EMPTY, Some(Goal::RatioAtMost(1.6))),
    slowed("live-nothing", LIVE_ALL, NOTHING, None),
];

fn show(load: &Load, costs: &Costs, rows: &mut Rows) {
    let same = costs.rounds.get("nothing").into_iter().flatten();
    let same = Paired { rounds: same.map(|seen| (seen.slowdown, 1.0)).collect() };
    rows.push(
        Row::compared(&format!("harness/{}/nothing", load.name), "x", &same)
            .goal(Goal::RatioWithin(0.98, 1.02))
            .note("the loop against itself, no tracer: error of the harness"),
    );
    for duel in DUELS {
        let name = format!("cost/{}/{}", load.name, duel.row);
        // Pairs are of the system call loop alone.
        if ROWS.contains(&&*name) {
            rows.push(duel.row(&name, costs));
        }
    }
}

impl Duel {
    fn row(&self, name: &str, costs: &Costs) -> Row {
        let goal = |row: Row| self.goal.into_iter().fold(row, Row::goal);
        let (mine, theirs) = match costs.both(self.ours, self.peer) {
            Ok(both) => both,
            Err(why) => return goal(Row::skipped(name, why)),
        };
        let pairs = mine.iter().zip(theirs);
        let rounds = pairs.filter_map(|(m, t)| Some(((self.of)(m)?, (self.of)(t)?))).collect();
        let note = format!("{} : {}{}", self.ours, self.peer, self.note);
        let lost = losses(self.peer, theirs) + &losses(self.ours, mine);
        goal(Row::compared(name, "ns/event", &Paired { rounds })).note(note + &lost)
    }
}

impl Seen {
    #[expect(clippy::cast_precision_loss, reason = "counts of a second")]
    fn consumer_ns(&self) -> Option<f64> {
        Some(self.traced.cpu_s? * 1e9 / self.traced.events.filter(|events| *events > 0)? as f64)
    }
}

fn losses(who: &str, rounds: &[Seen]) -> String {
    let lost: u64 = rounds.iter().filter_map(|seen| seen.traced.lost).sum();
    if lost == 0 { String::new() } else { format!("; {who} lost {lost} events in all rounds") }
}
