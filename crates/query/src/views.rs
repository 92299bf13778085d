//! The documented views: `sql/*.sql`, one file each.
//!
//! A view's file is a comment header and one query. The header is what `--views` and
//! `docs/reference/sql.md` print: the first line says what the view shows, `column:` lines say what its
//! columns are, further lines say more, and `example:` ends it with a query.

use crate::error::QueryError;
use crate::ready::block_on_memory;
use datafusion::prelude::SessionContext;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A view as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Name in SQL: the file's.
    pub name: &'static str,
    /// What one row is, in one sentence.
    pub title: String,
    /// What else there is to know.
    pub text: String,
    /// Name and meaning of each column, in order.
    pub columns: Vec<(String, String)>,
    /// A query worth copying.
    pub example: String,
    /// The query behind it.
    pub sql: String,
}

macro_rules! views {
    ($($name:literal),* $(,)?) => {
        /// Every view's file, in the order in which they may use one another and are listed.
        const SOURCES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../sql/", $name, ".sql")))),*];
    };
}

views![
    "vm_metrics",
    "domain_metrics",
    "pcpu_metrics",
    "vcpu_time",
    "antagonists",
    "runqueue_latency",
    "wake_chains",
    "cause_shares",
    "exit_latency",
    "top_exits",
    "thread_time",
    "guest_thread_time",
    "cpu_time",
    "irq_time",
    "syscall_latency",
    "block_latency",
    "io_stages",
    "io_stages_latency",
    "packet_stages",
    "packet_stages_latency",
    "stage_stacks",
    "net_rates",
    "lost_summary",
    "clock_quality",
];

/// Every view, parsed.
pub fn all() -> Vec<View> {
    SOURCES.iter().map(|(name, source)| parse(name, source)).collect()
}

/// The views, made known to SQL when a text first names them: planning all of them would take
/// longer than many a query.
#[derive(Debug)]
pub(crate) struct Views {
    views: Vec<View>,
    known: Mutex<BTreeSet<&'static str>>,
}

impl Views {
    pub(crate) fn new() -> Self {
        Self { views: all(), known: Mutex::default() }
    }

    /// Their names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.views.iter().map(|view| view.name)
    }

    /// Makes the views known that `sql` names, even within quotes, where table functions have
    /// queries; all of them if it asks what tables there are.
    pub(crate) fn require(&self, context: &SessionContext, sql: &str) -> Result<(), QueryError> {
        let sql = sql.to_lowercase();
        let all = sql.contains("information_schema") || sql.starts_with("show");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for view in self.views.iter().filter(|view| all || sql.contains(view.name)) {
            if known.insert(view.name) {
                register(context, view)?;
            }
        }
        Ok(())
    }
}

fn register(context: &SessionContext, view: &View) -> Result<(), QueryError> {
    let sql = format!("CREATE VIEW {} AS {}", view.name, view.sql);
    let made = block_on_memory(context.sql(&sql));
    made.map(drop).map_err(|error| QueryError::Run {
        message: format!("view {}: {}", view.name, error.strip_backtrace()),
    })
}

fn parse(name: &'static str, source: &str) -> View {
    let is_header = |line: &&str| line.starts_with("--");
    let header: Vec<&str> = source
        .lines()
        .take_while(is_header)
        .map(|line| line.trim_start_matches('-').trim())
        .collect();
    let sql: Vec<&str> = source.lines().skip_while(is_header).collect();
    let mut view = View {
        name,
        title: header.first().map_or_else(String::new, ToString::to_string),
        text: String::new(),
        columns: Vec::new(),
        example: String::new(),
        sql: sql.join("\n").trim().trim_end_matches(';').to_owned(),
    };
    let mut in_example = false;
    for line in header.iter().skip(1) {
        if let Some(column) = line.strip_prefix("column: ") {
            let (name, meaning) = column.split_once(" – ").unwrap_or((column, ""));
            view.columns.push((name.to_owned(), meaning.to_owned()));
        } else if let Some(example) = line.strip_prefix("example: ") {
            in_example = true;
            example.clone_into(&mut view.example);
        } else {
            let into = if in_example { &mut view.example } else { &mut view.text };
            if !into.is_empty() {
                into.push(' ');
            }
            into.push_str(line);
        }
    }
    view
}
