//! What `transect explain --json` answers.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{ops::Range, path::Path};
use transect_e2e::{number, output_of, rows, transect};

/// Shares may differ from the truth by this much.
pub(super) const WITHIN: f64 = 0.05;

/// An explanation of a range.
#[derive(Debug)]
pub(super) struct Answer(Value);

impl Answer {
    /// Explains a range of a recording, or all of it.
    pub(super) fn of(dir: &Path, range: Option<&Range<i64>>, whom: &[&str]) -> Result<Self> {
        let dir = dir.to_str().context("path is not UTF-8")?;
        let seconds = |ns: i64| format!("{}.{:09}s", ns / 1_000_000_000, ns % 1_000_000_000);
        let range = range.map(|range| [seconds(range.start), seconds(range.end)]);
        let mut args = vec!["explain", dir, "--json"];
        if let Some([from, until]) = &range {
            args.extend(["--from", from, "--until", until]);
        }
        args.extend(whom);
        let text = output_of(transect()?, &args)?;
        Ok(Answer(serde_json::from_str(&text).context("explain --json is not JSON")?))
    }

    /// The window that is explained.
    pub(super) fn window(&self) -> Result<Range<i64>> {
        let window = &rows(&self.0, "roots")?.first().context("nothing is explained")?["window"];
        Ok(number(window, "from")?..number(window, "until")?)
    }

    /// The only root.
    pub(super) fn root(&self) -> Result<&Value> {
        match rows(&self.0, "roots")?.as_slice() {
            [root] => Ok(root),
            roots => anyhow::bail!("{} roots", roots.len()),
        }
    }

    /// The share of the window that pieces of the path take.
    pub(super) fn share(&self, is_counted: impl Fn(&Value) -> bool) -> Result<f64> {
        let (root, window) = (self.root()?, self.window()?);
        let mut sum = 0;
        for piece in rows(root, "path")?.iter().filter(|piece| is_counted(piece)) {
            sum += number(piece, "dur")?;
        }
        Ok(ratio(sum, window.end - window.start))
    }

    /// Since when the root sleeps to the end of the window, if it does.
    pub(super) fn asleep_since(&self) -> Result<Option<i64>> {
        let last = rows(self.root()?, "path")?.last().context("no pieces")?;
        (last["state"] == "asleep").then(|| number(last, "ts")).transpose()
    }

    /// The share of a layer.
    pub(super) fn layer(&self, name: &str) -> Result<f64> {
        let window = self.window()?;
        Ok(ratio(number(&self.root()?["layers"], name)?, window.end - window.start))
    }

    /// The finding of a rule about a subject whose name begins so; none if the rule does not hold.
    pub(super) fn finding(&self, detector: &str, subject: &str) -> Result<Option<&Value>> {
        let mut all = rows(&self.0, "findings")?.iter();
        let is_about = |found: &Value| {
            found["subject"].as_str().is_some_and(|whole| whole.starts_with(subject))
        };
        Ok(all.find(|found| found["detector"] == detector && is_about(found)))
    }

    /// The same of a rule that must hold.
    pub(super) fn found(&self, detector: &str, subject: &str) -> Result<&Value> {
        let missing = || format!("no {detector} of {subject} in {}", self.0["findings"]);
        self.finding(detector, subject)?.with_context(missing)
    }

    /// The first sentence.
    pub(super) fn first_sentence(&self) -> Result<&str> {
        let sentences = rows(self.root()?, "sentences")?;
        sentences.first().and_then(Value::as_str).context("no sentence")
    }

    /// The first sentence has all of these words.
    pub(super) fn expect_first_sentence(&self, words: &[&str]) -> Result<()> {
        let first = self.first_sentence()?;
        for word in words {
            ensure!(first.contains(word), "the first sentence has no '{word}': {first}");
        }
        Ok(())
    }
}

/// One length in parts of another.
#[expect(clippy::cast_precision_loss, reason = "nanoseconds of some seconds")]
pub(super) fn ratio(part: i64, whole: i64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Prints a row of the table in docs/reference/explain.md; an error if the two shares differ by more than [`WITHIN`].
pub(super) fn expect_share(case: &str, truth: f64, answer: &Answer, said: f64) -> Result<()> {
    let first = answer.first_sentence()?;
    let [truth_percent, said_percent] = [truth, said].map(|share| share * 100.0);
    println!("| {case} | {truth_percent:.1} % | {first} | {said_percent:.1} % |");
    ensure!(
        (truth - said).abs() <= WITHIN,
        "{case}: {said_percent:.1} %, but the truth is {truth_percent:.1} %"
    );
    Ok(())
}
