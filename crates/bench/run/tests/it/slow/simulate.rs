//! What the method makes of machines that are simulated, and therefore known: how often it sees a difference where
//! there is none, and how often its intervals hold the true one.
//!
//! All seeds are fixed. Everything goes through the public interface as the procedure uses it: blocks, ledger,
//! decision, summary. `docs/reference/bench-method.md` quotes what is printed here.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test's helpers are test code")]

use transect_bench_core::{Better, Family};
use transect_bench_run::{
    plan::{self, Plan},
    procedure::of_block,
};
use transect_bench_stats::{
    design::{Cell, Goal, Label, Layout, Ledger, Reference, Step, decide, estimate_pair},
    statistics::{
        bootstrap, hodges_lehmann, mann_whitney,
        random::Random,
        signed_rank::{self, Zeros},
    },
};

/// What a machine does to the runs that follow each other on it, in logarithms of time.
#[derive(Clone, Copy, Debug)]
enum Machine {
    /// Nothing but noise, 1 %.
    Steady,
    /// It gets slower by 30 % over 200 runs.
    Linear,
    /// Each run starts from the one before: 1 % a step.
    Walk,
    /// One run in ten takes 10 % to 200 % more.
    Spikes,
    /// It is a fifth slower for some runs, and then not: a neighbour that comes and goes.
    Levels,
    /// All of them.
    All,
}

const MACHINES: [Machine; 6] = [
    Machine::Steady,
    Machine::Linear,
    Machine::Walk,
    Machine::Spikes,
    Machine::Levels,
    Machine::All,
];

/// A machine that is run on.
struct Runs {
    machine: Machine,
    random: Random,
    run: u32,
    walk: f64,
    is_disturbed: bool,
}

impl Runs {
    fn new(machine: Machine, seed: u64) -> Self {
        Self { machine, random: Random::stream(seed, 1), run: 0, walk: 0.0, is_disturbed: false }
    }

    /// The next run's time; without disturbance it is about 1.
    fn next(&mut self) -> f64 {
        let random = &mut self.random;
        self.run += 1;
        self.walk += 0.01 * random.normal();
        self.is_disturbed ^= random.uniform() < 0.1;
        let linear = 1.3_f64.ln() * f64::from(self.run) / 200.0;
        let spike = if random.uniform() < 0.1 { (1.1 + 1.9 * random.uniform()).ln() } else { 0.0 };
        let level = if self.is_disturbed { 0.2 } else { 0.0 };
        let drift = match self.machine {
            Machine::Steady => 0.0,
            Machine::Linear => linear,
            Machine::Walk => self.walk,
            Machine::Spikes => spike,
            Machine::Levels => level,
            Machine::All => linear + self.walk + spike + level,
        };
        (drift + 0.01 * random.normal()).exp()
    }
}

/// The reference, the same again, and an arm that costs `EFFECT`.
const EFFECT: f64 = 1.05;

/// What is run in which order is the procedure's own.
struct Order(Plan, Vec<plan::Cell>);

impl Order {
    fn new(seed: u64) -> Self {
        let matrix = "platforms = [\"native\"]\ntracers = [\"none\", \"perf\"]\nworkloads = [\"sysbench-cpu\"]";
        let text = format!("name = \"simulated\"\nseed = {seed}\n[[matrix]]\n{matrix}\n");
        let plan = Plan::parse(&text, "simulated").unwrap();
        let cells = plan.cells().unwrap();
        Self(plan, cells)
    }

    /// Arms and labels of a block as the layout names them.
    fn of_block(&self, block: u32) -> Vec<String> {
        let units = of_block(&self.0, &self.1, block);
        let runs = units.into_iter().flat_map(|unit| unit.runs);
        runs.map(|(cell, label)| match label {
            plan::Label::First => cell.tracer,
            plan::Label::Again => Cell::again_id(&cell.tracer),
        })
        .collect()
    }
}

fn layout() -> Layout {
    let cells = ["none", "perf"].map(|arm| Cell::new(arm, arm, Family::Cpu, Better::Less));
    let reference = Reference { arm: "none".into(), platform: None };
    Layout::new(cells.to_vec(), &reference).unwrap()
}

/// Runs a plan until it is decided.
fn run(machine: Machine, seed: u64, goal: &Goal) -> (Ledger, Step) {
    let mut ledger = Ledger::new(layout());
    let order = Order::new(seed);
    let mut runs = Runs::new(machine, seed);
    for block in 0.. {
        for id in order.of_block(block) {
            let effect = if id == "perf" { EFFECT } else { 1.0 };
            ledger.record(block, &id, effect * runs.next()).unwrap();
        }
        // It can only be decided at a look.
        if goal.looks.at.contains(&(block as usize + 1)) {
            let step = decide(&ledger, goal).step;
            if step != Step::Continue {
                return (ledger, step);
            }
        }
    }
    unreachable!("there is a last look")
}

/// Shares of the trials, in percent.
#[derive(Debug, Default)]
struct Shares {
    false_positives: f64,
    covered: f64,
    gave_up: f64,
    blocks: f64,
}

fn simulate(machine: Machine, goal: &Goal, trials: u32) -> Shares {
    let mut shares = Shares::default();
    let each = 100.0 / f64::from(trials);
    for trial in 0..trials {
        let (ledger, step) = run(machine, u64::from(trial), goal);
        let pair = |cell: &str| {
            let found = estimate_pair(&ledger, cell, "none", goal.looks.confidence).unwrap();
            (found.low.unwrap(), found.high.unwrap(), found.n)
        };
        let (low, high, n) = pair("none~again");
        shares.false_positives += if low > 1.0 || high < 1.0 { each } else { 0.0 };
        let (low, high, _) = pair("perf");
        shares.covered += if low <= EFFECT && EFFECT <= high { each } else { 0.0 };
        shares.gave_up += if step == Step::GaveUp { each } else { 0.0 };
        shares.blocks += n as f64 / f64::from(trials);
    }
    shares
}

/// Six percent of false positives at the most, and 92 % of coverage at the least, on every machine.
fn check(goal: &Goal, trials: u32, name: &str) {
    for machine in MACHINES {
        let shares = simulate(machine, goal, trials);
        println!(
            "{name:>10} {:>8}: false positives {:4.1} %, coverage {:5.1} %, blocks {:4.1}, gave up {:5.1} %",
            format!("{machine:?}"),
            shares.false_positives,
            shares.covered,
            shares.blocks,
            shares.gave_up
        );
        assert!(shares.false_positives <= 6.0, "{machine:?}: {shares:?}");
        assert!(shares.covered >= 92.0, "{machine:?}: {shares:?}");
    }
}

#[test]
fn ten_blocks() {
    check(&Goal::fixed(10), 4000, "10 blocks");
}

#[test]
fn twenty_blocks() {
    check(&Goal::fixed(20), 4000, "20 blocks");
}

#[test]
fn looks() {
    check(&Goal::precise(), 1000, "looks");
}

/// The same intervals where all runs of one cell precede those of the other, as most published benchmarks do it.
#[test]
fn one_after_the_other() {
    const TRIALS: u64 = 1500;
    for machine in MACHINES {
        let (mut wrong, mut unpaired) = (0.0, 0.0);
        for trial in 0..TRIALS {
            let mut runs = Runs::new(machine, trial);
            let first: Vec<f64> = (0..20).map(|_| runs.next().ln()).collect();
            let second: Vec<f64> = (0..20).map(|_| runs.next().ln()).collect();
            let differences: Vec<f64> = second.iter().zip(&first).map(|(b, a)| b - a).collect();
            let is_wrong = |p: f64| if p <= 0.05 { 100.0 / TRIALS as f64 } else { 0.0 };
            wrong += is_wrong(signed_rank::test(&differences, Zeros::Pratt).unwrap().p);
            unpaired += is_wrong(mann_whitney::test(&first, &second).unwrap().p);
        }
        println!(
            "one after the other {:>8}: false positives {wrong:5.1} % (signed rank), {unpaired:5.1} % (Mann–Whitney)",
            format!("{machine:?}")
        );
        // Which is why there are blocks: this must be seen, or the machines above prove nothing.
        match machine {
            Machine::Steady | Machine::Spikes => assert!(wrong <= 6.5 && unpaired <= 6.5),
            _ => assert!(wrong > 15.0 && unpaired > 15.0, "{machine:?}: {wrong}, {unpaired}"),
        }
    }
}

/// What comes of looking after every block, and stopping when something is seen.
#[test]
fn peeking() {
    const TRIALS: u32 = 500;
    let mut wrong = 0.0;
    for trial in 0..TRIALS {
        let mut random = Random::new(u64::from(trial));
        let mut differences: Vec<f64> = (0..5).map(|_| random.normal()).collect();
        let is_seen = (6..=40).any(|_| {
            differences.push(random.normal());
            signed_rank::test(&differences, Zeros::Pratt).unwrap().p <= 0.05
        });
        wrong += if is_seen { 100.0 / f64::from(TRIALS) } else { 0.0 };
    }
    println!("peeking after every block: false positives {wrong:.1} %");
    assert!(wrong > 15.0, "{wrong}");
}

/// Two sets of twenty blocks each, the second run when the first was over: nothing has changed but the time.
#[test]
fn two_sets() {
    const TRIALS: u64 = 2000;
    for machine in MACHINES {
        let (mut costs, mut ratios) = (0.0, 0.0);
        for trial in 0..TRIALS {
            let mut runs = Runs::new(machine, trial);
            let mut random = Random::stream(trial, 2);
            let mut set = || -> (Vec<f64>, Vec<f64>) {
                let block = |_| {
                    let mut pair = [0.0, 0.0];
                    let first = random.below(2);
                    pair[first] = runs.next().ln();
                    pair[1 - first] = runs.next().ln();
                    (pair[0], pair[0] - pair[1])
                };
                (0..20).map(block).unzip()
            };
            let (before, after) = (set(), set());
            let wrong = |first: &[f64], second: &[f64]| {
                let p = mann_whitney::test(first, second).unwrap().p;
                if p <= 0.05 { 100.0 / TRIALS as f64 } else { 0.0 }
            };
            costs += wrong(&before.0, &after.0);
            ratios += wrong(&before.1, &after.1);
        }
        println!(
            "two sets {:>8}: false positives {costs:5.1} % (costs), {ratios:4.1} % (ratios)",
            format!("{machine:?}")
        );
        assert!(ratios <= 6.0, "{machine:?}: {ratios}");
    }
}

/// The bootstrap is a cross-check only because of this.
#[test]
fn the_bootstrap_covers_less() {
    const TRIALS: u64 = 400;
    let centre = |values: &[f64]| hodges_lehmann::centre(values).unwrap();
    for machine in [Machine::Steady, Machine::Spikes] {
        let (mut ranks, mut bca) = (0.0, 0.0);
        for trial in 0..TRIALS {
            let mut runs = Runs::new(machine, trial);
            let logs: Vec<f64> = (0..10).map(|_| -runs.next().ln() + runs.next().ln()).collect();
            let holds = |low: f64, high: f64| {
                if low <= 0.0 && high >= 0.0 { 100.0 / TRIALS as f64 } else { 0.0 }
            };
            let interval = signed_rank::interval(&logs, 0.95).unwrap();
            ranks += holds(interval.low, interval.high);
            let drawn = bootstrap::distribution(&logs, centre, 400, trial);
            let (low, high) = bootstrap::bca(&logs, centre, &drawn, 0.95).unwrap();
            bca += holds(low, high);
        }
        println!("10 blocks {machine:?}: coverage {ranks:.1} % (signed rank), {bca:.1} % (BCa)");
        assert!(ranks >= 92.0, "{ranks}");
        assert!(bca < ranks, "{bca}");
    }
}

/// Warm-up is seen where it is, and seldom where it is not.
#[test]
fn warm_up() {
    const TRIALS: u64 = 100;
    let found = |warming: f64, machine: Machine| {
        let trials = (0..TRIALS).filter(|trial| {
            let mut runs = Runs::new(machine, *trial);
            let mut values: Vec<f64> = (0..24).map(|_| runs.next()).collect();
            values[..4].iter_mut().for_each(|value| *value *= warming);
            transect_bench_stats::design::warm_up(&values).is_some()
        });
        100.0 * trials.count() as f64 / TRIALS as f64
    };
    let (never, spiky, real) =
        (found(1.0, Machine::Steady), found(1.0, Machine::Spikes), found(1.1, Machine::Steady));
    println!(
        "warm-up: seen in {never:.1} % without, {spiky:.1} % with spikes only, {real:.1} % where 4 of 24 take 10 % more"
    );
    assert!(never <= 3.0 && spiky <= 3.0 && real >= 95.0);
}

/// The second label runs as the first does: on a machine of any kind neither is before the other more often.
#[test]
fn labels_are_treated_alike() {
    let layout = layout();
    let order = Order::new(9);
    let place = |order: &[String], label| {
        order.iter().position(|id| {
            layout.cell(id).is_some_and(|cell| cell.arm == "none" && cell.label == label)
        })
    };
    let first = (0..2000).filter(|block| {
        let order = order.of_block(*block);
        place(&order, Label::First) < place(&order, Label::Again)
    });
    let first = first.count();
    assert!((900..=1100).contains(&first), "{first} of 2000");
}
