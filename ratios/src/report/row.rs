//! A measured thing, as a line for people and as an object for programs.

use super::Goal;
use crate::stats::{self, Paired};
use serde::Serialize;
use serde_json::{Value, json};
use std::{fmt, fs, path::Path};

/// One thing that was to be shown.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is called: `group/what`, unique in a run, stable between versions.
    pub name: String,
    /// Ours, in `unit`: the median of the rounds.
    pub ours: Option<f64>,
    /// The peer's, in `unit`: the median of the rounds.
    pub peer: Option<f64>,
    /// Unit of `ours` and `peer`.
    pub unit: &'static str,
    /// Ours over the peer's: the median of the rounds' own ratios.
    pub ratio: Option<f64>,
    /// What is to be shown; a row without one is there to be known.
    pub goal: Option<Goal>,
    /// How many rounds there were.
    pub rounds: usize,
    /// Smallest and largest of the rounds, of what the goal is about (the ratio, if there is one).
    pub spread: Option<[f64; 2]>,
    /// Who the peer is, and what else must be known to read the row.
    pub note: String,
    /// Why there is nothing, if there is nothing.
    pub skipped: Option<String>,
}

impl Row {
    fn empty(name: &str, unit: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            ours: None,
            peer: None,
            unit,
            ratio: None,
            goal: None,
            rounds: 0,
            spread: None,
            note: String::new(),
            skipped: None,
        }
    }

    /// A comparison in rounds.
    #[must_use]
    pub fn compared(name: &str, unit: &'static str, paired: &Paired) -> Self {
        let ratios = paired.ratios();
        Self {
            ours: paired.ours(),
            peer: paired.peer(),
            ratio: stats::median(&ratios),
            spread: stats::spread(&ratios),
            rounds: paired.rounds.len(),
            ..Self::empty(name, unit)
        }
    }

    /// Ours alone, in rounds.
    #[must_use]
    pub fn measured(name: &str, unit: &'static str, values: &[f64]) -> Self {
        Self {
            ours: stats::median(values),
            spread: stats::spread(values),
            rounds: values.len(),
            ..Self::empty(name, unit)
        }
    }

    /// Not measured, and why.
    #[must_use]
    pub fn skipped(name: &str, why: impl Into<String>) -> Self {
        Self { skipped: Some(why.into()), ..Self::empty(name, "") }
    }

    /// With what it is to show.
    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// With words to read it by.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Whether the goal is met; `None` without a goal or without a measurement.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        self.goal?.holds(self.ours, self.peer, self.ratio)
    }

    /// As an object of `bench.json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "ours": self.ours,
            "peer": self.peer,
            "unit": self.unit,
            "ratio": self.ratio,
            "goal": self.goal.map(|goal| goal.to_string()),
            "holds": self.holds(),
            "rounds": self.rounds,
            "spread": self.spread,
            "note": self.note,
            "skipped": self.skipped,
        })
    }
}

/// `name  ours  peer  ratio  goal  holds`.
impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.skipped {
            return write!(f, "{:<44} skipped: {why}", self.name);
        }
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
        let holds = match (self.goal, self.holds()) {
            (None, _) => "info",
            (_, None) => "unknown",
            (_, Some(true)) => "holds",
            (_, Some(false)) => "MISSED",
        };
        write!(
            f,
            "{:<44} {:>9} {:>9} {:<9} {:>8} {:<17} {holds:<9}",
            self.name,
            number(self.ours),
            number(self.peer),
            self.unit,
            number(self.ratio),
            self.goal.map_or_else(|| "-".to_owned(), |goal| goal.to_string()),
        )?;
        if let Some([low, high]) = self.spread {
            write!(f, " [{} .. {}] n={}", short(low), short(high), self.rounds)?;
        }
        if self.note.is_empty() { Ok(()) } else { write!(f, "  {}", self.note) }
    }
}

/// Four significant digits or so: more would be a claim.
#[must_use]
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The rows of a run; each is printed as it comes, for a run takes minutes.
#[derive(Debug, Default)]
pub struct Rows {
    rows: Vec<Row>,
    wanted: Vec<String>,
}

impl Rows {
    /// What the columns of a printed row are.
    pub const HEADINGS: &'static str = "\
name                                              ours      peer unit         ratio goal              holds     [spread] rounds  note";

    /// Only rows with one of these words in their names; all if there is none.
    #[must_use]
    pub fn only(wanted: &[String]) -> Self {
        Self { rows: Vec::new(), wanted: wanted.to_vec() }
    }

    /// Whether somebody wants it.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|word| name.contains(word.as_str()))
    }

    /// Whether somebody wants one of them.
    #[must_use]
    pub fn wants_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.wants(name))
    }

    /// Prints and keeps a row, if it is wanted.
    #[expect(clippy::print_stdout, reason = "the result of the program")]
    pub fn push(&mut self, row: Row) {
        if self.wants(&row.name) {
            println!("{row}");
            self.rows.push(row);
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Row] {
        &self.rows
    }

    /// How it went, in a sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        let count = |which: Option<bool>| {
            self.rows.iter().filter(|row| row.goal.is_some() && row.holds() == which).count()
        };
        let (held, missed, unknown) = (count(Some(true)), count(Some(false)), count(None));
        format!("{held} goals hold, {missed} missed, {unknown} not measured")
    }

    /// Whether a goal was missed.
    #[must_use]
    pub fn any_missed(&self) -> bool {
        self.rows.iter().any(|row| row.holds() == Some(false))
    }

    /// Writes `bench.json`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path, machine: &impl Serialize) -> anyhow::Result<()> {
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        let whole = json!({ "machine": machine, "rows": rows });
        fs::write(path, serde_json::to_string_pretty(&whole)? + "\n")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_holds_by_its_ratio() {
        let mut paired = Paired::default();
        paired.push(110.0, 200.0);
        paired.push(100.0, 210.0);
        paired.push(120.0, 200.0);
        let row = Row::compared("cost/x", "ns", &paired).goal(Goal::RatioAtMost(0.6));
        assert_eq!((row.ours, row.peer, row.ratio), (Some(110.0), Some(200.0), Some(0.55)));
        assert_eq!(row.holds(), Some(true));
        let json = row.to_json();
        assert_eq!(json["holds"], true);
        assert_eq!(json["goal"], "<= 0.6x");
        assert_eq!(json["rounds"], 3);
    }

    #[test]
    fn what_was_skipped_neither_holds_nor_not() {
        let row = Row::skipped("cost/y", "no perf");
        assert_eq!(row.holds(), None);
        assert_eq!(row.to_json()["holds"], Value::Null);
        assert!(row.to_string().contains("skipped: no perf"));
    }

    #[test]
    fn only_wanted_rows_are_kept() {
        let mut rows = Rows::only(&["cost".to_owned()]);
        rows.push(Row::measured("cost/a", "ns", &[1.0]));
        rows.push(Row::measured("sql/a", "ms", &[1.0]));
        assert_eq!(rows.all().len(), 1);
        assert!(rows.wants_any(&["sql/a", "cost/b"]));
    }
}
