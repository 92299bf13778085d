//! A row of numbers as a paper prints it.

use super::csv;
use transect_bench_core::{Better, Fault};

/// A row of `rows.csv`.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Table, figure or place in the text.
    pub table: String,
    /// The paper's name of the workload.
    pub workload: String,
    /// What of the workload varies from row to row: `threads=4`.
    pub params: String,
    /// What was measured.
    pub metric: String,
    /// Its unit, as a word.
    pub unit: String,
    /// `hot`, `cold`, or empty where the paper does not tell them apart.
    pub cache: String,
    /// The paper's name of the platform.
    pub platform: String,
    /// The paper's name of who traced.
    pub state: String,
    /// The number; `None` where only a caption survives.
    pub value: Option<f64>,
    /// The percentage that the paper prints beside it, if it does.
    pub printed: Option<f64>,
    /// Standard deviation that the paper prints, in the row's unit.
    pub sigma: Option<f64>,
    /// What the paper suspects to have been the limit.
    pub limiter: String,
    /// What is wrong with the row; empty: nothing is known to be.
    pub flag: String,
}

/// The columns of `rows.csv`, in order.
const COLUMNS: [&str; 13] = [
    "table", "workload", "params", "metric", "unit", "cache", "platform", "state", "value",
    "printed", "sigma", "limiter", "flag",
];

impl Source {
    /// Every row of a `rows.csv`. Errors name the line.
    pub(super) fn all(text: &str, paper: &str) -> Result<Vec<Self>, Fault> {
        let mut lines = csv::read(text).into_iter();
        if lines.next().is_none_or(|head| head != COLUMNS) {
            return Err(Fault::failed(format!("{paper}/rows.csv: columns are not {COLUMNS:?}")));
        }
        lines.enumerate().map(|(at, line)| Self::of(line, paper, at + 2)).collect()
    }

    fn of(line: Vec<String>, paper: &str, at: usize) -> Result<Self, Fault> {
        let wrong = |why: String| Fault::failed(format!("{paper}/rows.csv, line {at}: {why}"));
        let count = line.len();
        let line: [String; 13] = line
            .try_into()
            .map_err(|_| wrong(format!("{count} fields in place of {}", COLUMNS.len())))?;
        let number = |text: &str| match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| wrong(format!("{text} is not a number"))),
        };
        let (value, printed, sigma) = (number(&line[8])?, number(&line[9])?, number(&line[10])?);
        let [table, workload, params, metric, unit, cache, platform, state, _, _, _, limiter, flag] =
            line;
        Ok(Self {
            table,
            workload,
            params,
            metric,
            unit,
            cache,
            platform,
            state,
            value,
            printed,
            sigma,
            limiter,
            flag,
        })
    }

    /// Which way is good, of the row's unit. `None`: the unit says nothing about speed.
    pub(super) fn better(&self) -> Option<Better> {
        match self.unit.as_str() {
            "s" | "ms" | "us" | "ns" => Some(Better::Less),
            "MB/s" | "Mbit/s" | "packet/s" | "req/s" | "frame/s" => Some(Better::More),
            _ => None,
        }
    }

    /// The row's words in one line, without its table.
    pub(super) fn label(&self) -> String {
        let cache = match self.cache.as_str() {
            "" => String::new(),
            cache => format!("cache {cache}"),
        };
        let words =
            [&self.workload, &self.params, &self.metric, &cache, &self.platform, &self.state];
        let told: Vec<&str> =
            words.into_iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        told.join(" · ")
    }
}
