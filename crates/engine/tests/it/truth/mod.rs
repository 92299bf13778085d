//! The property "not seen is unknown, never guessed": the rows of a damaged recording never
//! contradict those of the whole recording.
//!
//! A case is a simulated system ([`simulate`]), the steps of its activity, and the damage to its
//! recording ([`damage`]). The engine reads the recording twice, whole and damaged, and
//! [`compare`] finds each row of the damaged recording that is neither equal to the whole's nor
//! unknown. Before that, the rows of the whole recording are compared with the simulated truth.
//!
//! A failing case is shrunk and printed with its seed. These variables change the cases:
//!
//! | variable | effect |
//! |---|---|
//! | `TRANSECT_TRUTH_CASES` | number of cases |
//! | `TRANSECT_TRUTH_SEED` | the first seed; the others follow |
//! | `TRANSECT_TRUTH_DAMAGE` | only cases with these kinds of damage: `hole,tail,no wakings` |
//! | `TRANSECT_TRUTH_SURVEY=1` | prints the smallest case of each kind of contradiction |

#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "small numbers; a failed expectation is the report"
)]

mod activity;
mod causes;
mod compare;
mod damage;
mod filtered;
mod overwritten_logs;
mod points;
mod shrink;
mod simulate;
mod system;
mod untruths;
mod wire;

use crate::dsl::Nanoseconds;
use compare::{Contradiction, Outcome, check_tiles, compare};
use damage::{Damage, Damaged, apply, damage};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use shrink::shrink;
use simulate::simulate;
use std::{collections::BTreeMap, fmt::Write, num::NonZeroUsize};
use system::{Plan, Recording, Step, Streams};
use transect_engine::{Engine, Input, Options, Topology};
use transect_model::ids::MachineId;
use untruths::untruths;

/// One case: a system, its activity, and the damage to its recording.
#[derive(Clone, Debug)]
struct Case {
    plan: Plan,
    steps: Vec<Step>,
    damages: Vec<Damage>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (1..5usize, 0..3usize, 1..3usize, 1..5usize, flags).prop_map(
        |(host_cpus, vms, vcpus, threads, (guests, full, migrations, births))| Plan {
            host_cpus,
            vms,
            vcpus,
            threads,
            guests,
            full,
            migrations,
            births,
        },
    )
}

fn steps(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..4u8, any::<u16>(), any::<u16>(), 0..64u8)
        .prop_map(|(cpu, action, detail, after_ns)| Step { cpu, action, detail, after_ns });
    prop::collection::vec(step, count)
}

/// Mostly one kind of damage, so that its own effects are well covered.
fn damages() -> impl Strategy<Value = Vec<Damage>> {
    prop_oneof![
        3 => prop::collection::vec(damage(), 1),
        1 => prop::collection::vec(damage(), 2..4),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    (plan(), steps(1..250), damages()).prop_map(|(plan, steps, damages)| Case {
        plan,
        steps,
        damages,
    })
}

/// Runs the engine in one thread, with one window over everything.
fn run(topology: &Topology, streams: Streams, configure: impl Fn(Engine) -> Engine) -> Outcome {
    let input =
        |(key, items): (_, Vec<_>)| Input { key, stream: items.into_iter(), clock: Nanoseconds };
    let inputs = streams.into_iter().map(input).collect();
    let mut outcome = Outcome::default();
    let engine = Engine::new(topology.clone(), Options { window_ns: 1 << 60 })
        .with_threads(NonZeroUsize::MIN);
    outcome.summary = configure(engine).run(inputs, &mut outcome.tables).unwrap();
    outcome
}

fn run_whole(recording: &Recording) -> Outcome {
    run(&recording.topology, recording.streams(), |engine| engine)
}

fn run_damaged(recording: &Recording, damaged: &Damaged) -> Outcome {
    run(&recording.topology, damaged.streams.clone(), |engine| damaged.configure(engine))
}

/// All contradictions of a case, the certain ones first.
fn contradictions(case: &Case) -> Vec<Contradiction> {
    let recording = simulate(&case.plan, &case.steps);
    let whole = run_whole(&recording);
    let damaged = apply(&recording, &case.damages);
    let outcome = run_damaged(&recording, &damaged);
    let mut found = compare(&whole, &outcome);
    found.extend(check_tiles(&recording.topology, &recording.keys, &outcome));
    if let Some(window) = damaged.window
        && outcome.summary.span != Some(window)
    {
        let rows = format!("{:?}, chosen {window:?}", outcome.summary.span);
        found.push(Contradiction { kind: "span: not the chosen window".into(), rows });
    }
    // Without an event of the host, the guests define the span and are complete up to its end.
    if !damaged.has_event_of_host() {
        return Vec::new();
    }
    // A number that is used again, with the births unseen, has the group of the thread before, and passes
    // the filter as that did.
    if recording.has_reused_tids() {
        let is_filtered = damaged.filters.iter().any(|(_, filter)| filter.threads.is_some());
        if is_filtered && outcome.summary.holes > 0 {
            return Vec::new();
        }
        found.retain(|contradiction| !contradiction.kind.contains("of a cgroup"));
    }
    found.sort_by_key(|contradiction| is_weak(&contradiction.kind));
    found
}

/// The whole recording does not determine the state either, so the row may be true all the same.
fn is_weak(kind: &str) -> bool {
    kind.contains("the whole is unknown")
}

fn number_from(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Has the case only damages of the kinds that the environment selects?
fn is_chosen(case: &Case) -> bool {
    let Ok(chosen) = std::env::var("TRANSECT_TRUTH_DAMAGE") else { return true };
    let is_chosen = |damage: &Damage| chosen.split(',').any(|name| name == damage.name());
    case.damages.iter().all(is_chosen)
}

/// A generator whose cases depend on the seed alone.
fn runner_from_seed(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new_with_rng(config, rng)
}

/// The case of a seed.
fn case_from_seed(seed: u64) -> Case {
    case().new_tree(&mut runner_from_seed(seed)).unwrap().current()
}

/// Checks a property of many cases; the first failing one is shrunk and reported.
fn check_cases(default_cases: u64, check: impl Fn(&Case) -> Vec<Contradiction>) {
    let first = number_from("TRANSECT_TRUTH_SEED", 1);
    let cases = number_from("TRANSECT_TRUTH_CASES", default_cases);
    for seed in first..first + cases {
        let case = case_from_seed(seed);
        if !is_chosen(&case) {
            continue;
        }
        let Some(found) = check(&case).into_iter().next() else { continue };
        let has_kind = |case: &Case| check(case).iter().any(|other| other.kind == found.kind);
        let smallest = shrink(case, 5000, has_kind);
        let report = report(&smallest, &check(&smallest), &found.kind);
        panic!(
            "{report}\nreplay: TRANSECT_TRUTH_SEED={seed} TRANSECT_TRUTH_CASES=1 cargo test \
             -p transect-engine --test it truth"
        );
    }
}

/// A case with its events, and its contradictions of one kind.
fn report(case: &Case, found: &[Contradiction], kind: &str) -> String {
    let recording = simulate(&case.plan, &case.steps);
    let damaged = apply(&recording, &case.damages);
    let mut text = format!("{kind}\n");
    for contradiction in found.iter().filter(|found| found.kind == kind).take(2) {
        writeln!(text, "  {}", contradiction.rows).unwrap();
    }
    writeln!(text, "  {:?}\n  damage: {:?}", case.plan, case.damages).unwrap();
    writeln!(text, "  window {:?}, filters {:?}", damaged.window, damaged.filters).unwrap();
    for event in &recording.events {
        let kept = damaged.streams.get(&event.key).is_some_and(|s| s.contains(&event.item()));
        let mark = if kept { ' ' } else { '-' };
        let (machine, cpu, ts, tid) = (event.key.machine, event.key.cpu, event.ts, event.tid);
        writeln!(text, "  {mark} {machine}/{cpu} {ts} {tid} {}", describe(event)).unwrap();
    }
    text
}

/// An event without the fields that no state machine reads.
fn describe(event: &system::Recorded) -> String {
    let text = event.event.map_or("other".into(), |event| format!("{event:?}"));
    let noise = ["prev_comm: \"\", ", "next_comm: \"\", ", "comm: \"\", ", "prio: 120, "];
    noise.iter().fold(text, |text, noise| text.replace(noise, ""))
}

/// Prints the smallest case of every kind of contradiction.
fn print_survey(default_cases: u64) {
    let first = number_from("TRANSECT_TRUTH_SEED", 1);
    let cases = number_from("TRANSECT_TRUTH_CASES", default_cases);
    let mut counts: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
    for seed in first..first + cases {
        let current = case_from_seed(seed);
        if !is_chosen(&current) {
            continue;
        }
        let name = damage_names(&current);
        let mut kinds: Vec<String> =
            contradictions(&current).into_iter().map(|found| found.kind).collect();
        kinds.sort();
        kinds.dedup();
        for kind in kinds {
            let alone = counts.keys().any(|(k, n)| *k == kind && name.contains(n.as_str()));
            if let Some((count, _)) = counts.get_mut(&(kind.clone(), name.clone())) {
                *count += 1;
            } else if current.damages.len() == 1 || !alone {
                let has_kind =
                    |case: &Case| contradictions(case).iter().any(|found| found.kind == kind);
                let smallest = shrink(current.clone(), 2000, has_kind);
                let text = report(&smallest, &contradictions(&smallest), &kind);
                let entry = counts.entry((kind, damage_names(&smallest))).or_insert((0, text));
                entry.0 += 1;
            }
        }
    }
    for ((kind, name), (count, text)) in counts {
        println!("== [{name}] {kind} (cases: {count})\n{text}");
    }
}

fn damage_names(case: &Case) -> String {
    let mut names: Vec<String> = case.damages.iter().map(Damage::name).collect();
    names.sort();
    names.dedup();
    names.join(" + ")
}

/// The property over this many cases, or the survey.
pub fn check_damaged_recordings(cases: u64) {
    if std::env::var_os("TRANSECT_TRUTH_SURVEY").is_some() {
        return print_survey(cases);
    }
    check_cases(cases, contradictions);
}

/// The simulator and the engine against each other, over this many cases.
pub fn check_whole_recordings(cases: u64) {
    check_cases(cases, |case| {
        let recording = simulate(&case.plan, &case.steps);
        untruths(&recording, &run_whole(&recording))
    });
}

#[test]
fn whole_recordings_have_the_simulated_states() {
    check_whole_recordings(300);
}

#[test]
fn damaged_recordings_never_contradict_the_whole() {
    check_damaged_recordings(300);
}

/// Every kind of event and of damage occurs, so that the properties are not empty.
#[test]
fn simulated_recordings_have_every_event_and_state() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..200 {
        let case = case_from_seed(seed);
        let recording = simulate(&case.plan, &case.steps);
        for event in &recording.events {
            let text = event.event.map_or("Other".into(), |event| format!("{event:?}"));
            let name: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
            *seen.entry(name).or_default() += 1;
            if event.key.machine != MachineId(0) {
                *seen.entry("guest".into()).or_default() += 1;
            }
        }
        let outcome = run_whole(&recording);
        for row in &outcome.tables.vcpu_states {
            *seen.entry(row.state.as_str().into()).or_default() += 1;
        }
        case.damages.iter().for_each(|damage| *seen.entry(damage.name()).or_default() += 1);
    }
    let expected = "SchedSwitch SchedWaking SchedWakeup SchedWakeupNew SchedMigrate SchedFork \
        SchedExit KvmEntry KvmExit KvmUserspaceExit KvmVcpuWakeup KvmHaltPollNs KvmPio \
        KvmHypercall IrqEntry IrqExit VectorEntry VectorExit SoftirqEntry SoftirqExit SyscallEnter SyscallExit \
        BlockInsert BlockIssue BlockComplete NetXmit NetReceive NetPacket Stack WorkStart WorkEnd Other guest \
        exit user halt_poll halted preempted waking blocked overwrite hole tail cut window \
        min_exit";
    let missing: Vec<&str> =
        expected.split_whitespace().filter(|n| !seen.contains_key(*n)).collect();
    assert!(missing.is_empty(), "{missing:?} of {seen:?}");
}
