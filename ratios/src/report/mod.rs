//! What was measured: one [`Row`] for each thing that must be shown.

mod goal;
mod row;

pub use goal::Goal;
pub(crate) use row::short;
pub use row::{Row, Rows};
