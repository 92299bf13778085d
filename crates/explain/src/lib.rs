//! Why a thread or vCPU was slow: who and what kept it, through all machines.
//!
//! # Data flow
//! ```text
//! rows of the tables ─▶ Gathered ─▶ Rows (by actor) ─▶ walk (a path for each root) ─▶ Tally: pieces without their moments
//!                                                      waits charged, with a reason    └─▶ parts, sums, layers, blame
//! rows, pieces ─▶ detect: findings
//!
//! roots, findings ─┬─▶ words: names, sentences
//!                  └─▶ lines: rows of results, for programs
//! ```
//! No I/O. Faces print.
//!
//! # Example
//! ```
//! use transect_explain::{Actor, Doing, Rows, ThreadId, walk};
//! use transect_model::{ids::{CpuId, MachineId, Tid}, state::ThreadState};
//! use transect_model::table::{Tables, ThreadStateRow};
//!
//! let row = |ts, dur, state| ThreadStateRow {
//!     ts, dur, machine_id: MachineId(0), tid: Tid(7), cpu: Some(CpuId(0)), state,
//!     effective: None, reason: None, waker_tid: None, waker_context: None,
//! };
//! let thread_states = vec![row(0, 10, ThreadState::Running), row(10, 5, ThreadState::Runnable)];
//! let tables = Tables { thread_states, ..Tables::default() };
//! let root = ThreadId { machine: MachineId(0), tid: Tid(7) };
//! let path = walk(&Rows::new(&tables), Actor::Thread(root), (2, 15));
//! let pieces: Vec<_> = path.pieces.iter().map(|piece| (piece.ts, piece.dur, piece.doing)).collect();
//! assert_eq!(pieces, [(2, 8, Doing::Running), (10, 5, Doing::Runnable)]);
//! ```

mod alike;
mod blame;
mod charge;
pub mod detect;
mod explained;
mod group;
pub mod lines;
mod parallel;
mod parts;
mod piece;
mod places;
mod quota;
mod root;
mod rows;
mod spans;
mod sums;
mod walk;
pub mod words;

pub use alike::{Alike, Kind, Tally, alike};
pub use blame::{Blame, Level, Party, blame, parties};
pub use explained::Explained;
pub use parts::{Most, Part, parts};
pub use piece::{Actor, By, Doing, Piece, ThreadId, Why};
pub use root::{Call, Carried, Root, charged};
pub use rows::{Gathered, NEEDS, Packed, Rows};
pub use sums::{Layer, Sum, layers, sums};
pub use walk::{Path, Walked, each_piece, each_wait, waits, walk};
