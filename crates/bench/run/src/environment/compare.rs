//! How two environments differ, and what follows.

use super::Environment;
use serde::{Deserialize, Serialize};
use transect_bench_core::{Kind, Refusal};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One machine before and after: a plan that is resumed, or two results that are to differ in one thing only.
    OneMachine,
    /// One machine before and after it was booted by another entry: everything may differ but its programs.
    Boots,
    /// Platforms of one plan: their kernels and devices differ by nature, their programs, memory and CPUs must not.
    Platforms,
}

/// What a difference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Differs from moment to moment; not compared.
    Moves,
    /// Is told beside the results.
    Told,
    /// The results must not be compared.
    Forbids,
}

/// One fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The fact's name.
    pub name: String,
    /// In the first.
    pub a: String,
    /// In the second.
    pub b: String,
    /// What it means.
    pub weight: Weight,
}

/// Beginnings of names, and what a difference means in one machine and between platforms. The first that fits counts.
const WEIGHTS: &[(&str, Weight, Weight)] = &[
    ("moving.", Weight::Moves, Weight::Moves),
    ("program.", Weight::Forbids, Weight::Forbids),
    ("memory.total_bytes", Weight::Forbids, Weight::Forbids),
    ("memory.swap", Weight::Told, Weight::Told),
    ("cpu.online", Weight::Forbids, Weight::Forbids),
    ("cpu.model", Weight::Forbids, Weight::Told),
    ("cpu.smt", Weight::Forbids, Weight::Told),
    ("kernel.smp", Weight::Forbids, Weight::Forbids),
    ("kernel.release", Weight::Forbids, Weight::Told),
    ("kernel.version", Weight::Forbids, Weight::Told),
    ("kernel.config_hash", Weight::Forbids, Weight::Told),
    ("kernel.cmdline", Weight::Forbids, Weight::Told),
    ("kernel.clocksource", Weight::Forbids, Weight::Told),
    ("machine.accelerator", Weight::Forbids, Weight::Told),
    ("machine.name_hash", Weight::Forbids, Weight::Told),
    ("mitigation", Weight::Forbids, Weight::Told),
    ("storage.filesystem", Weight::Forbids, Weight::Told),
    ("", Weight::Told, Weight::Told),
];

fn weight(name: &str, scope: Scope) -> Weight {
    let found = WEIGHTS.iter().find(|(start, _, _)| name.starts_with(start));
    match (found, scope) {
        (Some((_, weight, _)), Scope::OneMachine) | (Some((_, _, weight)), Scope::Platforms) => {
            *weight
        }
        (Some((_, Weight::Moves, _)), Scope::Boots) => Weight::Moves,
        (Some(("program.", _, _)), Scope::Boots) => Weight::Forbids,
        (_, Scope::Boots) | (None, _) => Weight::Told,
    }
}

/// What differs, the forbidding first. A fact that only one of them has differs too, but for programs and packages:
/// those are what each of them ran.
#[must_use]
pub fn difference(a: &Environment, b: &Environment, scope: Scope) -> Vec<Difference> {
    let mut names: Vec<_> = a.facts.keys().chain(b.facts.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut differences: Vec<_> = names
        .into_iter()
        .filter_map(|name| compare(name, a.get(name), b.get(name), scope))
        .collect();
    differences.sort_by_key(|difference| std::cmp::Reverse(difference.weight));
    differences
}

fn compare(name: &str, a: Option<&str>, b: Option<&str>, scope: Scope) -> Option<Difference> {
    let weight = weight(name, scope);
    let is_own = name.starts_with("program.") || name.starts_with("package.");
    if weight == Weight::Moves || a == b || (is_own && (a.is_none() || b.is_none())) {
        return None;
    }
    // One that only one of them has is no pair, and differs.
    if a.zip(b).is_some_and(|(a, b)| is_equivalent(name, a, b, scope)) {
        return None;
    }
    let text = |value: Option<&str>| value.unwrap_or("not captured").to_owned();
    Some(Difference { name: name.to_owned(), a: text(a), b: text(b), weight })
}

fn is_equivalent(name: &str, a: &str, b: &str, scope: Scope) -> bool {
    match name {
        "memory.total_bytes" => is_near(a, b),
        "cpu.online" => scope == Scope::Platforms && cpus(a) == cpus(b),
        _ => false,
    }
}

/// `MemTotal` is what the kernel leaves of the memory: another kernel, another per mille. 2 % is no other machine.
fn is_near(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) if a > 0.0 && b > 0.0 => (a / b - 1.0).abs() <= 0.02,
        _ => false,
    }
}

/// How many CPUs a list holds: between platforms their numbers may differ.
fn cpus(list: &str) -> usize {
    transect_bench_limiter::sampling::parse::cpu_list(list).len()
}

/// A refusal of kind [`Kind::Different`] if any difference forbids comparing.
#[must_use]
pub fn refuse(what: &str, differences: &[Difference]) -> Option<Refusal> {
    let forbids = differences.iter().filter(|difference| difference.weight == Weight::Forbids);
    let told: Vec<_> = forbids
        .map(|difference| format!("{}: {} and {}", difference.name, difference.a, difference.b))
        .collect();
    (!told.is_empty()).then(|| {
        Refusal::new(Kind::Different, what, format!("they differ in {}", told.join("; ")))
            .mend("run both with the same, or start a new result folder")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(facts: &[(&str, &str)]) -> Environment {
        let facts = facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment { captured_realtime_ns: 0, facts: facts.collect() }
    }

    fn refused(a: &[(&str, &str)], b: &[(&str, &str)], scope: Scope) -> Option<Refusal> {
        refuse("compare", &difference(&environment(a), &environment(b), scope))
    }

    #[test]
    fn what_moves_is_no_difference() {
        let differences = difference(
            &environment(&[("moving.load", "0.1"), ("kernel.release", "6.1")]),
            &environment(&[("moving.load", "9"), ("kernel.release", "6.1")]),
            Scope::OneMachine,
        );
        assert_eq!(differences, []);
    }

    #[test]
    fn binaries_memory_cpus_and_smp_forbid_in_both_scopes() {
        for (name, a, b) in [
            ("program.fio", "aa", "bb"),
            ("memory.total_bytes", "1000000", "1100000"),
            ("cpu.online", "0-1", "0"),
            ("kernel.smp", "true", "false"),
        ] {
            for scope in [Scope::OneMachine, Scope::Platforms] {
                let refusal = refused(&[(name, a)], &[(name, b)], scope).unwrap();
                assert_eq!(refusal.kind, Kind::Different);
                assert!(refusal.why.contains(name) && refusal.why.contains(a), "{refusal}");
            }
        }
    }

    #[test]
    fn another_kernel_forbids_on_one_machine_and_is_told_between_platforms() {
        let (a, b) = ([("kernel.release", "6.1")], [("kernel.release", "6.18")]);
        assert!(refused(&a, &b, Scope::OneMachine).is_some());
        assert!(refused(&a, &b, Scope::Platforms).is_none());
        let told = difference(&environment(&a), &environment(&b), Scope::Platforms);
        assert_eq!(told.first().unwrap().weight, Weight::Told);
    }

    #[test]
    fn another_boot_may_be_another_kernel_and_no_other_program() {
        let before =
            [("kernel.release", "6.1"), ("memory.total_bytes", "1000"), ("program.fio", "a")];
        let xen =
            environment(&[("kernel.release", "6.12"), ("memory.total_bytes", "700"), before[2]]);
        let told = difference(&environment(&before), &xen, Scope::Boots);
        assert_eq!(refuse("resume", &told), None);
        assert_eq!(told.len(), 2, "{told:?}");
        let other = environment(&[before[0], before[1], ("program.fio", "b")]);
        let found = difference(&environment(&before), &other, Scope::Boots);
        assert!(refuse("resume", &found).is_some(), "{found:?}");
    }

    #[test]
    fn near_is_the_same() {
        let one = Scope::OneMachine;
        let memory = |bytes| [("memory.total_bytes", bytes)];
        assert!(refused(&memory("1000000"), &memory("1000100"), one).is_none());
        let platforms = Scope::Platforms;
        assert!(refused(&[("cpu.online", "0-1")], &[("cpu.online", "2-3")], platforms).is_none());
        assert!(refused(&[("cpu.online", "0-1")], &[("cpu.online", "2-3")], one).is_some());
    }

    #[test]
    fn a_fact_that_one_lacks_is_told_and_a_program_that_one_did_not_run_is_not() {
        let one = Scope::OneMachine;
        let found = difference(&environment(&[("memory.ksm", "0")]), &environment(&[]), one);
        assert_eq!(found.first().unwrap().b, "not captured");
        let found = difference(&environment(&[("program.fio", "a")]), &environment(&[]), one);
        assert_eq!(found, []);
        let memory = difference(&environment(&[("cpu.online", "0")]), &environment(&[]), one);
        assert_eq!(memory.first().unwrap().weight, Weight::Forbids);
    }

    #[test]
    fn the_forbidding_are_first() {
        let a = environment(&[("a.other", "1"), ("program.x", "1")]);
        let b = environment(&[("a.other", "2"), ("program.x", "2")]);
        let found = difference(&a, &b, Scope::OneMachine);
        assert_eq!(found.first().unwrap().name, "program.x");
        assert_eq!(found.len(), 2);
    }
}
