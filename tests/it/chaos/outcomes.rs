//! The table of outcomes.

use super::{files::Kind, judge::Outcome};
use std::{collections::BTreeMap, fmt};

const COLUMNS: [(Outcome, &str); 6] = [
    (Outcome::Equal, "equal"),
    (Outcome::Remade, "remade"),
    (Outcome::Stated, "stated"),
    (Outcome::Error, "error"),
    (Outcome::Unverifiable, "unverif."),
    (Outcome::Wrong, "WRONG"),
];

#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    counts: BTreeMap<(Kind, String, Outcome), usize>,
    changes: BTreeMap<&'static str, usize>,
    pub(crate) damages: usize,
}

impl Outcomes {
    pub(crate) fn add_damage(&mut self, change: &'static str) {
        self.damages += 1;
        *self.changes.entry(change).or_default() += 1;
    }

    pub(crate) fn add(&mut self, kind: Kind, verb: impl fmt::Display, outcome: Outcome) {
        *self.counts.entry((kind, verb.to_string(), outcome)).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: Outcomes) {
        self.damages += other.damages;
        for (change, count) in other.changes {
            *self.changes.entry(change).or_default() += count;
        }
        for (key, count) in other.counts {
            *self.counts.entry(key).or_default() += count;
        }
    }

    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = self.counts.keys().map(|(kind, ..)| *kind).collect();
        kinds.dedup();
        kinds
    }

    pub(crate) fn of(&self, outcome: Outcome) -> usize {
        self.counts.iter().filter(|((.., o), _)| *o == outcome).map(|(_, count)| count).sum()
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes: Vec<String> =
            self.changes.iter().map(|(change, count)| format!("{count} {change}")).collect();
        writeln!(f, "{} damages: {}", self.damages, changes.join(", "))?;
        let head: Vec<String> = COLUMNS.iter().map(|(_, name)| format!("{name:>9}")).collect();
        writeln!(f, "{:<17} {:<17} {}", "file", "verb", head.join(" "))?;
        let mut sums = [0; COLUMNS.len()];
        let mut rows: Vec<(Kind, &str)> =
            self.counts.keys().map(|(kind, verb, _)| (*kind, verb.as_str())).collect();
        rows.dedup();
        for (kind, verb) in rows {
            write!(f, "{kind:<17} {verb:<17}")?;
            for ((outcome, _), sum) in COLUMNS.iter().zip(&mut sums) {
                let key = (kind, verb.to_owned(), *outcome);
                let count = self.counts.get(&key).copied().unwrap_or(0);
                *sum += count;
                write!(f, " {count:>9}")?;
            }
            writeln!(f)?;
        }
        write!(f, "{:<17} {:<17}", "all", "")?;
        sums.iter().try_for_each(|sum| write!(f, " {sum:>9}"))
    }
}
