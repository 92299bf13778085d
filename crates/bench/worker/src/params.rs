//! A job's parameters, checked and completed.

use std::collections::BTreeMap;
use transect_bench_core::{About, Kind, Refusal, protocol::Param};

/// The parameters of a job of this workload: the given ones, defaults for the others.
///
/// A name that the workload does not know and a value of another type are refused. A whole number is taken for a
/// number.
pub(crate) fn complete(
    about: &About,
    given: &BTreeMap<String, Param>,
) -> Result<BTreeMap<String, Param>, Refusal> {
    let what = || format!("workload {}", about.name);
    let known: Vec<&str> = about.params.iter().map(|(name, ..)| *name).collect();
    if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
        let why = format!("it has no parameter {name}");
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Refusal::new(Kind::Plan, what(), why).mend(format!("it has: {known}")));
    }
    let one = |(name, default, _): &(&str, Param, &str)| {
        let value = match (given.get(*name), default) {
            (None, default) => default.clone(),
            #[allow(clippy::cast_precision_loss, reason = "parameters are small")]
            (Some(Param::Int(value)), Param::Float(_)) => Param::Float(*value as f64),
            (Some(value), default) if type_of(value) == type_of(default) => value.clone(),
            (Some(value), default) => {
                let why =
                    format!("parameter {name} is {}, not {}", type_of(value), type_of(default));
                return Err(Refusal::new(Kind::Plan, what(), why));
            }
        };
        Ok(((*name).to_owned(), value))
    };
    about.params.iter().map(one).collect()
}

fn type_of(value: &Param) -> &'static str {
    match value {
        Param::Int(_) => "a whole number",
        Param::Float(_) => "a number",
        Param::Bool(_) => "true or false",
        Param::Text(_) => "a word",
    }
}
