//! The cases: one damage, one verb, one copy.

#![allow(clippy::print_stdout, reason = "a wrong case belongs in the log")]

use super::{
    damage::Damage,
    files::{Kind, by_kind, copy_tree, files_of},
    judge::{Outcome, judge},
    outcomes::Outcomes,
    random::Random,
    subjects::Subject,
};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

/// So many copies of wrong cases are kept.
const KEPT: u64 = 40;

/// How many cases, and which. `TRANSECT_CHAOS_ONLY` selects one kind of file by its name in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) cases: u64,
}

impl Plan {
    /// `TRANSECT_CHAOS_SEED` and `TRANSECT_CHAOS_CASES`, or these.
    pub(crate) fn of_environment(seed: u64, cases: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse().ok();
        Plan {
            seed: number("TRANSECT_CHAOS_SEED").unwrap_or(seed),
            cases: number("TRANSECT_CHAOS_CASES").unwrap_or(cases),
        }
    }
}

/// Damages copies of the subjects in turn: one kind of file after the other, so that small and rare files are hit as
/// often as large ones.
pub(crate) fn run_cases(subjects: &[Subject], plan: Plan, scratch: &Path) -> Result<Outcomes> {
    let next = AtomicU64::new(0);
    let kept = AtomicU64::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let work = |worker: usize| -> Result<Outcomes> {
        let mut outcomes = Outcomes::default();
        let scratch = scratch.join(format!("worker-{worker}"));
        fs::create_dir_all(&scratch)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= plan.cases {
                return Ok(outcomes);
            }
            let at = usize::try_from(number)? % subjects.len();
            let subject = &subjects[at];
            // Each subject begins with another kind, so that few cases hit all kinds.
            let turn = number / subjects.len() as u64 + 3 * at as u64;
            run_case(subject, plan.seed, number, turn, &scratch, &kept, &mut outcomes)
                .with_context(|| format!("case {number} of seed {}", plan.seed))?;
        }
    };
    let mut all = Outcomes::default();
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..workers).map(|n| scope.spawn(move || work(n))).collect();
        for worker in workers {
            let outcomes = worker.join().map_err(|_| anyhow::anyhow!("a worker panicked"))??;
            all.merge(outcomes);
        }
        Ok(all)
    })
}

fn run_case(
    subject: &Subject,
    seed: u64,
    number: u64,
    turn: u64,
    scratch: &Path,
    kept: &AtomicU64,
    outcomes: &mut Outcomes,
) -> Result<()> {
    let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
    let files = files_of(&subject.dir.join(subject.root))?;
    let files = files.into_iter().map(|file| Path::new(subject.root).join(file)).collect();
    let mut kinds = by_kind(files);
    if let Ok(only) = std::env::var("TRANSECT_CHAOS_ONLY") {
        kinds.retain(|kind, _| kind.to_string().trim() == only);
        if kinds.is_empty() {
            return Ok(());
        }
    }
    let turn = usize::try_from(turn)? % kinds.len();
    let (kind, files) = kinds.iter().nth(turn).context("no files")?;
    let file = random.one_of(files).context("no file")?;
    let alike: Vec<PathBuf> = files.iter().filter(|other| *other != file).cloned().collect();
    let damage = Damage::draw(&subject.dir, file, &alike, &mut random)?;
    outcomes.add_damage(damage.change.name());
    for (verb, reference) in &subject.references {
        let dir = scratch.join("case");
        copy_tree(&subject.dir, &dir)?;
        damage.apply(&dir)?;
        let answer = verb.run(&dir, &subject.import)?;
        let verdict = judge(*verb, reference, &damage, &answer);
        outcomes.add(*kind, verb, verdict.outcome);
        if verdict.outcome == Outcome::Wrong {
            let place = keep(&dir, number, &verb.to_string(), kept)?;
            let name = &subject.name;
            println!(
                "WRONG: case {number} of seed {seed}, {name}, {verb}: {damage}\n{}\n{place}\n",
                verdict.why
            );
        }
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
    }
    Ok(())
}

/// Keeps the directory of a wrong case outside of the test's own, which is removed.
fn keep(dir: &Path, number: u64, verb: &str, kept: &AtomicU64) -> Result<String> {
    if kept.fetch_add(1, Ordering::Relaxed) >= KEPT {
        return Ok(String::new());
    }
    let name = format!("transect-chaos-{}-{number}-{}", std::process::id(), verb.replace(' ', "-"));
    let to = std::env::temp_dir().join(name);
    copy_tree(dir, &to)?;
    Ok(format!("kept: {}", to.display()))
}

/// Every kind that a subject has must have been hit.
pub(crate) fn missed_kinds(subjects: &[Subject], outcomes: &Outcomes) -> Result<Vec<Kind>> {
    let hit = outcomes.kinds();
    let mut missed = Vec::new();
    for subject in subjects {
        let kinds = by_kind(files_of(&subject.dir.join(subject.root))?);
        missed.extend(kinds.into_keys().filter(|kind| !hit.contains(kind)));
    }
    Ok(missed)
}
