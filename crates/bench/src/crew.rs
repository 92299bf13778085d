//! placeholder
#![allow(missing_docs)]
use crate::{Fault, Metric, RunResult, protocol::Role, workloads::About};
#[derive(Clone, Debug)]
pub struct Part {
    pub machine: Option<u32>,
    pub role: Role,
}
pub fn parts(_: &About, guests: u32) -> Vec<Part> {
    (0..guests).map(|at| Part { machine: Some(at), role: Role::Whole }).collect()
}
pub fn combine(_: &About, results: &[(Part, RunResult)]) -> Result<Vec<Metric>, Fault> {
    Ok(results[0].1.metrics.clone())
}
