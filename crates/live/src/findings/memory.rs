//! Control groups whose threads wait for memory.

use super::scene::{HOST, Scene};
use std::collections::HashSet;
use transect_explain::{
    Party,
    detect::{Confidence, Detail, Detector, Finding, rules},
};

/// By the kernel's pressure stalls. The host as a whole has none of these: its stalls are kswapd's, too.
pub(super) fn find(scene: &Scene<'_>) -> Vec<Finding> {
    let is_it = |held: i64, of: i64| rules::is_reclaiming(held, of);
    let rows: Vec<_> = scene
        .window
        .pressure
        .iter()
        .filter_map(|row| Some((row.cgroup.as_deref()?, row.memory_some_ns?, row.dur)))
        .filter(|(path, held, dur)| path.len() > 1 && is_it(*held, *dur))
        .collect();
    // The stalls of a group are also those of all groups above it.
    let parents: HashSet<&str> = rows
        .iter()
        .flat_map(|(path, ..)| path.match_indices('/').map(|(at, _)| &path[..at]))
        .collect();
    let own = rows.into_iter().filter(|(path, ..)| !parents.contains(path));
    own.map(|(path, held, dur)| Finding {
        detector: Detector::Reclaim,
        subject: Party::Group(HOST, path.to_owned()),
        held_ns: held,
        of_ns: dur,
        count: 0,
        confidence: Confidence::Likely,
        detail: Detail::Pressure,
    })
    .collect()
}
