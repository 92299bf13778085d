//! A published row and what became of it.

use serde::Serialize;
use transect_bench_run::plan::Cell;

/// A published row beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The paper's short name: `lttng-xen`.
    pub paper: String,
    /// Table, figure or place in its text.
    pub table: String,
    /// Workload, metric, cache, platform and who traced, in the paper's words.
    pub label: String,
    /// What the paper says.
    pub theirs: Theirs,
    /// What was measured here; `None`: nothing that speaks to it.
    pub ours: Option<Ours>,
    /// What is to be thought of it.
    pub agrees: Agreement,
    /// Anything that must be known beside.
    pub note: String,
}

/// What a paper says.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Theirs {
    /// The number.
    pub value: Option<f64>,
    /// Its unit, as a word.
    pub unit: String,
    /// The cost ratio that it amounts to, with the error stated or assumed; `None` where it is none.
    pub cost: Option<[f64; 3]>,
    /// `100·(2 − value/base)` of times, `100·value/base` of rates: what LTTng-Xen's paper prints.
    pub percent: Option<f64>,
    /// Speed left, `100·base/value` of times, `100·value/base` of rates.
    pub speed: Option<f64>,
    /// What is claimed, in words.
    pub claim: String,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ours {
    /// The cell.
    pub cell: Cell,
    /// What it is compared with; `None` of a spread or a limiter.
    pub reference: Option<Cell>,
    /// What the figure is: `cost`, `standard deviation`, `runs with this limiter`.
    pub what: &'static str,
    /// It, with its interval; `None`: there is none (too few blocks).
    pub figure: Option<Figure>,
    /// As [`Theirs::percent`]; `None` of what is not a ratio.
    pub percent: Option<f64>,
    /// As [`Theirs::speed`].
    pub speed: Option<f64>,
}

/// A number with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What the interval covers at least, 0 to 1. Of a chain of comparisons: 1 less the sum of what each may miss.
    pub confidence: f64,
    /// Blocks or runs, the fewest in a chain.
    pub runs: u32,
    /// Noise floor, relative; of a chain all of them together; `None`: not measured, or not needed.
    pub floor: Option<f64>,
    /// Comparisons multiplied.
    pub links: u32,
}

/// What is to be thought of a published row. The rule is in [`super`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Agreement {
    /// Ours lies within what the paper says.
    Holds,
    /// Ours lies outside of it.
    DoesNotHold,
    /// It was measured, and cannot be told.
    Unresolved {
        /// What stands in the way.
        why: String,
    },
    /// It could be measured, and was not.
    NotMeasured {
        /// The cells that it takes, as pairs `cell / reference`; one of the pairs is enough.
        cells: Vec<String>,
    },
    /// Nothing here can speak to it.
    CannotSpeak {
        /// The reason.
        why: String,
    },
    /// Its source contradicts it.
    LeftOut {
        /// What is wrong with it.
        why: String,
    },
}

impl Agreement {
    /// A word for tables.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::Unresolved { .. } => "unresolved",
            Self::NotMeasured { .. } => "not measured",
            Self::CannotSpeak { .. } => "cannot speak",
            Self::LeftOut { .. } => "left out",
        }
    }

    /// The reason that goes with it, empty if it needs none.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Holds | Self::DoesNotHold => String::new(),
            Self::Unresolved { why } | Self::CannotSpeak { why } | Self::LeftOut { why } => {
                why.clone()
            }
            Self::NotMeasured { cells } => format!("needs {}", cells.join(", or ")),
        }
    }
}

/// How many rows of a paper came out how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The paper's short name.
    pub paper: String,
    /// All of its rows.
    pub rows: usize,
    /// Rows that hold.
    pub holds: usize,
    /// Rows that do not.
    pub does_not_hold: usize,
    /// Measured, and not to be told.
    pub unresolved: usize,
    /// Not measured.
    pub not_measured: usize,
    /// Nothing here can speak to them.
    pub cannot_speak: usize,
    /// Contradicted by their source.
    pub left_out: usize,
}
