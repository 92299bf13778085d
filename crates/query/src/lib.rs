//! SQL over a recording's tables.
//!
//! **What.** [`Database::open`] takes the folder of Parquet tables that a recording was reduced
//! to, and answers SQL over it: every table of [`transect_model::table::TABLES`] (those a
//! recording has no rows of are empty, not missing), one table `ev_NAME` per kind of event,
//! `events` over all of them, the documented [`views`], and what time-sorted intervals need and SQL lacks:
//! `asof`, `interval_join` and `cut` ([`operators`]); and what `transect explain` finds ([`explain`]).
//!
//! **Data flow.** files → [`catalog`] (schema from the model, files picked by machine, order by
//! `ts` declared where the files prove it) → DataFusion → record batches → [`output`].
//!
//! **Design constraints.**
//! - The model describes every column once; schema and docs here are made from it.
//! - A query has a memory limit. What can spill spills to a temporary folder; what cannot fails
//!   with one line that says so.
//! - Errors are one line for people: position and the nearest name where SQL is wrong.
//! - Callers are synchronous: the async runtime stays in here.
//!
//! The program `transect-sql` (`src/bin`) is the only one that has this library, and DataFusion with it, in it: it answers
//! in a terminal for `transect sql`, and over a pipe (`transect-ask`) for all others.
//!
//! # Example
//! ```no_run
//! # fn main() -> Result<(), transect_query::QueryError> {
//! use transect_query::{Database, Options, Stop};
//! let database = Database::open("demo.transect/tables".as_ref(), &Options::default())?;
//! for statement in database.parse("SELECT reason, count(*) FROM exits GROUP BY reason")? {
//!     let mut rows = database.run(statement)?;
//!     while let Some(batch) = rows.next(&Stop::never())? {
//!         println!("{} rows", batch.num_rows());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod allowed;
mod arguments;
mod catalog;
mod database;
pub mod docs;
mod error;
mod explain;
mod functions;
mod operators;
pub mod output;
#[cfg(test)]
mod random;
mod ready;
mod stopping;
mod suggest;
pub mod views;

pub use arrow;
pub use catalog::Tables;
pub use database::{Database, Parameter, Rows, Statement, Stop};
pub use error::{Place, QueryError};
pub use transect_ask::Options;
