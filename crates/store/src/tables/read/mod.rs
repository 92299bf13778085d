//! Tables back from their files: frames of columns, and rows from frames.
//!
//! **Data flow.**
//! ```text
//! files of a folder ─▶ row groups whose bounds meet the range ─▶ frames (columns of some
//! thousand rows) ─▶ an excerpt's files (columns as they are) │ rows in order of ts ─▶ TableSink
//! ```
//!
//! **Design constraints.** Memory is that of a few frames. What a file says of itself is checked
//! against what the model says of the table; a damaged file is one error that names it, never a
//! panic of the decoder's.

mod file;
mod files;
mod frame;
mod order;
mod rows;
mod span;

pub(crate) use file::TableFile;
pub(crate) use files::{event_names, folders, open_folder};
pub(crate) use frame::{Column, Frame, Values};
pub(crate) use order::Timing;
pub use rows::read_rows;
pub use span::span_of;
