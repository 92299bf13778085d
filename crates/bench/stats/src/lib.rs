//! The method of the benchmark, without I/O: [`design`] has layouts of cells, decisions and verdicts, [`statistics`] the
//! numbers that they are made of.

pub mod design;
pub mod statistics;
