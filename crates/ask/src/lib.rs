//! Asks the SQL engine, which is a program of its own.
//!
//! **What.** `transect-sql` has DataFusion in it and nothing else has. This crate is all that others know of it: where
//! it is ([`program`]), what is said over its pipe ([`protocol`]), one child of a client ([`Engine`]), the children of
//! several ([`Pool`]), and the words of its command line ([`Wanted`]), which `transect sql` takes and hands on.
//!
//! **Data flow.**
//! ```text
//! Pool ─▶ Engine ──requests, JSON──▶ transect-sql --pipe TABLES ─▶ DataFusion
//!           ◀─── Arrow IPC, then rows and ms; or one error ◀────────┘
//! ```
//!
//! **Design constraints.**
//! - The engine is not trusted with the life of who asks: it answers within the time and the bytes it was given, or
//!   it is ended. Its death is an answer, one line.
//! - Who waits for an answer can stop waiting at any time.
//! - Both sides are of one version: what a child of another one answers is not looked at.
//!
//! # Example
//! ```no_run
//! # fn main() -> Result<(), transect_ask::AskError> {
//! use transect_ask::{Engine, Limits, Options, Patience, Query, program};
//! let mut engine = Engine::start(&program()?, "demo.transect/tables".as_ref(), &Options::default())?;
//! let query = Query { sql: "SELECT reason, count(*) AS n FROM exits GROUP BY reason".to_owned(), ..Query::default() };
//! let answer = engine.ask(&query, &Patience::default())?;
//! println!("{} rows in {} ms", answer.end.rows, answer.end.ms);
//! # Ok(())
//! # }
//! ```

mod answer;
mod command;
mod engine;
mod error;
pub mod memory;
mod place;
mod pool;
pub mod protocol;

pub use answer::Answer;
pub use command::{Layout, Wanted};
pub use engine::{Engine, Options, Patience};
pub use error::AskError;
pub use place::{NAME, program};
pub use pool::{Client, MAX_CHILDREN, Pool};
pub use protocol::{Limits, Query};
