//! Operators over tables sorted by `ts`, which SQL has no words for: as-of and interval joins,
//! and cutting intervals at bucket edges.
//!
//! **Data flow.** A call such as `asof('exits', 'irqs', 'machine_id')` is a table function
//! ([`functions`]): it plans its arguments (names or queries), works out the columns of the
//! result, and gives a table provider ([`merged`], [`cutting`]) whose scan is a physical operator
//! ([`merge_exec`], [`cut`]) over the plans of the arguments, with whatever filters and columns can
//! be pushed into them.
//!
//! **Design constraints.** Memory follows the state that is open (last row per key, open
//! intervals), never the rows read, and is accounted to the query's pool. An input that is not in
//! the order it claims is an error. Columns are taken with arrow's kernels, batch by batch.

mod asof;
mod cursor;
mod cut;
mod cutting;
mod functions;
mod held;
mod interval;
mod keys;
mod lanes;
mod merge_exec;
mod merged;
mod output;
#[cfg(test)]
mod tests;

pub(crate) use functions::register;
pub(crate) use merge_exec::{by_ts, counted};
