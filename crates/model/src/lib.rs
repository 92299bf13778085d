//! The vocabulary of transect: ids, typed time, events, states and table rows.
//!
//! **What.** Everything two layers must agree on lives here once: who the actors are ([`ids`]),
//! what a time stamp means ([`time`]), what a probe can tell ([`event`], [`exit`]), which states
//! time is divided into ([`state`]) and which rows the tables hold ([`table`]).
//!
//! **Data flow.** Codecs turn bytes into [`event::CoreEvent`]s stamped in [`time::Source`] time;
//! the clock graph turns those stamps into [`time::Trace`] time; the engine turns aligned events
//! into [`table`] rows; faces (report, export, SQL) read rows and nothing else.
//!
//! Text from outside has a type, [`untrusted`], and one place for each kind of output ([`escape`], [`guard`]).
//!
//! **Design constraints.** No I/O, no allocation in events (they are `Copy`, so that a merge of
//! hundred million of them costs no heap), no unit left out of a name, no lossy conversion of time.
//!
//! ```
//! use transect_model::{event::CoreEvent, exit::{ExitReason, Isa}, ids::VcpuId};
//! let exit = CoreEvent::KvmExit {
//!     vcpu: Some(VcpuId(0)),
//!     reason: ExitReason { isa: Isa::Svm, code: 0x81 },
//!     rip: 0xffff_8000,
//!     info1: 0,
//!     info2: 0,
//! };
//! if let CoreEvent::KvmExit { reason, .. } = exit {
//!     assert_eq!(reason.to_string(), "hypercall");
//! }
//! ```

pub mod cause;
pub mod cell;
pub mod column;
pub mod escape;
pub mod event;
pub mod event_fields;
pub mod exit;
pub mod from_cell;
pub mod guard;
pub mod ids;
pub mod interrupt;
pub mod json;
pub mod number;
pub mod people;
mod record_type;
mod row;
mod selected;
pub mod setting;
pub mod stack;
pub mod stage;
pub mod state;
pub mod syscall;
pub mod table;
pub mod time;
pub mod untrusted;
pub mod wall;
pub mod xen;
