//! Parameters of platforms, and lists of CPUs.

use crate::platform::Shape;
use transect_bench_core::{Kind, Refusal, protocol::Param};

/// A whole number of at least 0.
pub(crate) fn whole(shape: &Shape, name: &str, otherwise: u32) -> Result<u32, Refusal> {
    match shape.params.get(name) {
        None => Ok(otherwise),
        Some(Param::Int(value)) => {
            u32::try_from(*value).map_err(|_| odd(name, "a number from 0 to 4294967295"))
        }
        Some(_) => Err(odd(name, "a whole number")),
    }
}

/// A switch.
pub(crate) fn truth(shape: &Shape, name: &str, otherwise: bool) -> Result<bool, Refusal> {
    match shape.params.get(name) {
        None => Ok(otherwise),
        Some(Param::Bool(value)) => Ok(*value),
        Some(_) => Err(odd(name, "true or false")),
    }
}

/// A word.
pub(crate) fn text<'a>(
    shape: &'a Shape,
    name: &str,
    otherwise: &'a str,
) -> Result<&'a str, Refusal> {
    match shape.params.get(name) {
        None => Ok(otherwise),
        Some(Param::Text(value)) => Ok(value),
        Some(_) => Err(odd(name, "a text")),
    }
}

fn odd(name: &str, wanted: &str) -> Refusal {
    Refusal::new(Kind::Plan, format!("platform parameter {name}"), format!("it must be {wanted}"))
}

/// As `taskset -c` and cpusets want it.
pub(crate) fn cpu_list(cpus: &[u32]) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// The CPUs of this host that a machine without vCPUs of its own gets: those it is pinned to, else those whose turn it is
/// among the ones that this process may use. So several machines have as many of them together as vCPUs would find.
///
/// # Errors
/// Refuses if there are fewer than the shape asks for, or the pinning names another number of them.
pub(crate) fn own_cpus(platform: &str, shape: &Shape) -> Result<Vec<u32>, Refusal> {
    let what = || format!("platform {platform}");
    let wanted = usize::try_from(shape.cpus).unwrap_or(usize::MAX);
    let allowed = allowed_cpus();
    if let Some(absent) = shape.pin.iter().find(|cpu| !allowed.contains(cpu)) {
        let why = format!("this process may not use CPU {absent}");
        return Err(Refusal::new(Kind::NotHere, what(), why));
    }
    let from = if shape.pin.is_empty() { &allowed } else { &shape.pin };
    if from.len() < wanted || (!shape.pin.is_empty() && from.len() != wanted) {
        let why =
            format!("{wanted} CPUs are requested, but only {} are available to it", from.len());
        return Err(Refusal::new(Kind::Different, what(), why));
    }
    let first = if shape.pin.is_empty() { shape.index } else { 0 };
    Ok(in_turn(from, first, wanted))
}

/// `wanted` of them, those of machine `index`; after the last comes the first again.
fn in_turn(cpus: &[u32], index: u32, wanted: usize) -> Vec<u32> {
    let first = usize::try_from(index).unwrap_or(0).wrapping_mul(wanted) % cpus.len().max(1);
    let mut turn: Vec<u32> = cpus.iter().cycle().skip(first).take(wanted).copied().collect();
    turn.sort_unstable();
    turn
}

/// CPUs that this process may run on.
fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return Vec::new() };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::in_turn;

    #[test]
    fn machines_take_cpus_in_turn_and_share_them_when_there_are_no_more() {
        let all =
            |cpus: &[u32], wanted| (0..3).map(|i| in_turn(cpus, i, wanted)).collect::<Vec<_>>();
        assert_eq!(all(&[0, 1], 1), [[0], [1], [0]]);
        assert_eq!(all(&[2, 3, 5], 2), [[2, 3], [2, 5], [3, 5]]);
        assert_eq!(all(&[0, 1], 2), [[0, 1], [0, 1], [0, 1]]);
    }
}
