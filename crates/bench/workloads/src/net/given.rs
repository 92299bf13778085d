//! A job's parameters, with their types and ranges checked.

use std::ops::RangeInclusive;
use transect_bench_core::{Fault, Job, Kind, Refusal, protocol::Param};

/// Reads parameters of one job. Every error names the workload, the parameter and what it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'a>(pub(crate) &'a Job);

impl Given<'_> {
    /// A number; a whole one will do.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<f64>) -> Result<f64, Fault> {
        let value = match self.param(name)? {
            #[expect(clippy::cast_precision_loss, reason = "plans hold small numbers")]
            Param::Int(value) => *value as f64,
            Param::Float(value) => *value,
            other => return Err(self.wrong(name, &format!("must be a number, not {other:?}"))),
        };
        if range.contains(&value) {
            return Ok(value);
        }
        let (low, high) = (range.start(), range.end());
        Err(self.wrong(name, &format!("is {value}, must be {low} to {high}")))
    }

    /// A whole number.
    pub(crate) fn whole(&self, name: &str, range: RangeInclusive<u32>) -> Result<u32, Fault> {
        let Param::Int(value) = self.param(name)? else {
            return Err(self.wrong(name, "must be a whole number"));
        };
        let (low, high) = (*range.start(), *range.end());
        u32::try_from(*value)
            .ok()
            .filter(|value| range.contains(value))
            .ok_or_else(|| self.wrong(name, &format!("is {value}, must be {low} to {high}")))
    }

    /// One of a few words.
    pub(crate) fn word<'w>(&self, name: &str, words: &[&'w str]) -> Result<&'w str, Fault> {
        let Param::Text(value) = self.param(name)? else {
            return Err(self.wrong(name, &format!("must be one of {}", words.join(", "))));
        };
        words.iter().copied().find(|word| word == value).ok_or_else(|| {
            self.wrong(name, &format!("is \"{value}\", must be one of {}", words.join(", ")))
        })
    }

    /// A switch.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, Fault> {
        match self.param(name)? {
            Param::Bool(value) => Ok(*value),
            _ => Err(self.wrong(name, "must be true or false")),
        }
    }

    fn param(&self, name: &str) -> Result<&Param, Fault> {
        self.0.params.get(name).ok_or_else(|| self.wrong(name, "is missing"))
    }

    fn wrong(&self, name: &str, why: &str) -> Fault {
        let what = format!("workload {}", self.0.workload);
        Refusal::new(Kind::Plan, what, format!("parameter {name} {why}")).into()
    }
}
