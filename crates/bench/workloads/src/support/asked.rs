//! A job's parameters, with the bounds that a workload has for them.

use std::{ops::RangeInclusive, time::Duration};
use transect_bench_core::{Job, Kind, Refusal, protocol::Param};

/// A whole number within bounds.
pub(crate) fn number(job: &Job, name: &str, within: RangeInclusive<u64>) -> Result<u64, Refusal> {
    let given = match job.params.get(name) {
        Some(Param::Int(value)) => u64::try_from(*value).ok(),
        _ => None,
    };
    given.filter(|value| within.contains(value)).ok_or_else(|| {
        refused(job, name, &format!("a whole number from {} to {}", within.start(), within.end()))
    })
}

/// A number within bounds.
pub(crate) fn real(job: &Job, name: &str, within: RangeInclusive<f64>) -> Result<f64, Refusal> {
    let given = match job.params.get(name) {
        Some(Param::Float(value)) => Some(*value),
        #[allow(clippy::cast_precision_loss, reason = "parameters are small")]
        Some(Param::Int(value)) => Some(*value as f64),
        _ => None,
    };
    given.filter(|value| within.contains(value)).ok_or_else(|| {
        refused(job, name, &format!("a number from {} to {}", within.start(), within.end()))
    })
}

/// A length of time in seconds, at most an hour.
pub(crate) fn seconds(job: &Job, name: &str) -> Result<Duration, Refusal> {
    real(job, name, 0.001..=3600.0).map(Duration::from_secs_f64)
}

/// A switch.
pub(crate) fn switch(job: &Job, name: &str) -> Result<bool, Refusal> {
    match job.params.get(name) {
        Some(Param::Bool(value)) => Ok(*value),
        _ => Err(refused(job, name, "true or false")),
    }
}

/// A word.
pub(crate) fn word<'a>(job: &'a Job, name: &str) -> Result<&'a str, Refusal> {
    match job.params.get(name) {
        Some(Param::Text(value)) => Ok(value),
        _ => Err(refused(job, name, "a word")),
    }
}

/// One of several words.
pub(crate) fn choice<'a>(job: &'a Job, name: &str, of: &[&str]) -> Result<&'a str, Refusal> {
    let given = word(job, name)?;
    if !of.contains(&given) {
        return Err(refused(job, name, &of.join(" | ")));
    }
    Ok(given)
}

fn refused(job: &Job, name: &str, wanted: &str) -> Refusal {
    let why = match job.params.get(name) {
        Some(value) => format!("parameter {name} = {value}: it must be {wanted}"),
        None => format!("parameter {name} is missing: it must be {wanted}"),
    };
    Refusal::new(Kind::Plan, format!("workload {}", job.workload), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_refused_with_the_bounds() {
        let params =
            [("n", Param::Int(5)), ("x", Param::Float(0.5)), ("w", Param::Text("a".into()))];
        let params = params.map(|(name, value)| (name.to_owned(), value)).into();
        let job = Job { workload: "w".into(), params, ..Job::default() };
        assert_eq!(number(&job, "n", 1..=5).unwrap(), 5);
        let refusal = number(&job, "n", 1..=4).unwrap_err();
        assert!(refusal.why.contains("from 1 to 4"), "{refusal}");
        assert_eq!(refusal.kind, Kind::Plan);
        assert_eq!(real(&job, "n", 0.0..=9.0).unwrap(), 5.0);
        assert_eq!(seconds(&job, "x").unwrap(), Duration::from_millis(500));
        assert_eq!(choice(&job, "w", &["b", "a"]).unwrap(), "a");
        assert!(choice(&job, "w", &["b"]).is_err());
        assert!(number(&job, "missing", 0..=1).unwrap_err().why.contains("missing"));
    }
}
