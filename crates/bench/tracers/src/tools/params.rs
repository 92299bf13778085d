//! An arm's parameters, complete and checked.

use crate::tracer::Tracer;
use std::collections::BTreeMap;
use transect_bench_core::{Job, Kind, Refusal, protocol::Param};

/// The parameters of one job for one arm: the job's, else the arm's defaults.
#[derive(Clone, Debug)]
pub(crate) struct Params(BTreeMap<&'static str, Param>);

impl Params {
    /// Fills in defaults.
    ///
    /// # Errors
    /// A parameter that the arm does not have, of another type, or below zero ([`Kind::Plan`]).
    pub(crate) fn of(arm: &dyn Tracer, job: &Job) -> Result<Self, Refusal> {
        let wrong = |why: String| Refusal::new(Kind::Plan, format!("tracer {}", arm.name()), why);
        let known = arm.params();
        let mut all: BTreeMap<_, _> =
            known.iter().map(|(name, value, _)| (*name, value.clone())).collect();
        for (name, given) in &job.tracer_params {
            let Some((name, default, _)) = known.iter().find(|(known, ..)| known == name) else {
                let names: Vec<_> = known.iter().map(|(name, ..)| *name).collect();
                let known = if names.is_empty() { "none".into() } else { names.join(", ") };
                return Err(wrong(format!("it has no parameter {name} (it has {known})")));
            };
            if std::mem::discriminant(given) != std::mem::discriminant(default) {
                return Err(wrong(format!(
                    "parameter {name} must have the type of {default}, not be {given}"
                )));
            }
            if matches!(given, Param::Int(number) if *number < 0) {
                return Err(wrong(format!("parameter {name} is negative")));
            }
            all.insert(name, given.clone());
        }
        Ok(Self(all))
    }

    /// A word. Empty if the arm declares none of this name.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(Param::Text(text)) => text,
            _ => "",
        }
    }

    /// A number of things.
    pub(crate) fn count(&self, name: &str) -> u64 {
        match self.0.get(name) {
            Some(Param::Int(number)) => u64::try_from(*number).unwrap_or(0),
            _ => 0,
        }
    }

    /// A number of things, if it is not 0, which stands for the tracer's own default.
    pub(crate) fn wish(&self, name: &str) -> Option<u64> {
        Some(self.count(name)).filter(|number| *number > 0)
    }

    /// A switch.
    pub(crate) fn switch(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Param::Bool(true)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    fn ftrace() -> &'static dyn Tracer {
        *registry().iter().find(|arm| arm.name() == "ftrace").unwrap()
    }

    fn job(name: &str, value: Param) -> Job {
        Job { tracer_params: [(name.to_owned(), value)].into(), ..Job::default() }
    }

    #[test]
    fn defaults_are_filled_in() {
        let params = Params::of(ftrace(), &job("buffer_kib", Param::Int(64))).unwrap();
        assert_eq!(params.wish("buffer_kib"), Some(64));
        assert_eq!(params.text("events"), crate::DEFAULT_EVENTS);
        assert!(!params.switch("events"));
    }

    #[test]
    fn what_an_arm_does_not_have_is_refused() {
        for (name, value, says) in [
            ("buffer_size", Param::Int(64), "no parameter buffer_size"),
            ("buffer_kib", Param::Text("64".into()), "must have the type of "),
            ("buffer_kib", Param::Int(-1), "buffer_kib is negative"),
        ] {
            let refusal = Params::of(ftrace(), &job(name, value)).unwrap_err();
            assert_eq!(refusal.kind, Kind::Plan);
            assert!(refusal.why.contains(says), "{refusal}");
        }
    }
}
