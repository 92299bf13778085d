//! Client of the SQL engine, which runs in a process of its own.
//!
//! **What.** `transect-sql` is the only program that links DataFusion. This crate holds the rest: the engine's location
//! ([`program`]), the protocol on its pipe ([`protocol`]), one child process ([`Engine`]), the children of several clients
//! ([`Pool`]), and the command line ([`Wanted`]) that `transect sql` parses and passes on.
//!
//! **Data flow.**
//! ```text
//! Pool ─▶ Engine ──requests, JSON──▶ transect-sql --pipe TABLES ─▶ DataFusion
//!           ◀─ Arrow IPC or JSON, then rows and ms; or one error ◀──┘
//! ```
//!
//! **Design constraints.**
//! - A child is killed when it exceeds the time or the bytes of a query. Its exit becomes a one-line error of that query.
//! - The caller can cancel a query at any time.
//! - Client and engine must have the same version; it is compared before the first query.
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
mod sandbox;
mod spawner;

pub use answer::Answer;
pub use command::{Layout, Wanted};
pub use engine::{Engine, Options, Patience};
pub use error::AskError;
pub use place::program;
pub use pool::{Client, MAX_CHILDREN, Pool};
pub use protocol::{Form, Limits, Query};
pub use sandbox::missing_walls;

/// File name of the engine.
pub const NAME: &str = "transect-sql";
