//! The system calls that are explained.

use anyhow::{bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use transect_explain::{Actor, ThreadId};
use transect_model::number::count;
use transect_model::syscall;
use transect_model::table::{Syscall, Tables};
use transect_model::time::Span;

/// What stands for every system call.
const ANY: &str = "any";
/// Names that an error lists.
const MOST_LISTED: usize = 8;

/// The calls of that name by these threads, that begin and end in the range; the longest first.
pub(super) fn longest<'t>(
    tables: &'t Tables,
    wanted: &str,
    actors: &[Actor],
    range: Span,
) -> anyhow::Result<Vec<&'t Syscall>> {
    ensure!(
        !tables.syscalls.is_empty(),
        "no system calls in this range: record them with --profile explain -e 'raw_syscalls:*'"
    );
    let nr = match wanted {
        ANY => None,
        name => match syscall::number(name) {
            Some(nr) => Some(nr),
            None => bail!("no system call of x86-64 is called {name:?}: give its number, or {ANY}"),
        },
    };
    let threads: BTreeSet<ThreadId> = actors
        .iter()
        .filter_map(|actor| match actor {
            Actor::Thread(thread) => Some(*thread),
            Actor::Vcpu(..) => None,
        })
        .collect();
    let is_whole = |call: &&Syscall| {
        let end = call.dur.and_then(|dur| call.ts.checked_add(dur));
        call.ts >= range.start.get() && end.is_some_and(|end| end <= range.end.get())
    };
    let is_of =
        |call: &&Syscall| threads.contains(&ThreadId { machine: call.machine_id, tid: call.tid });
    let whole: Vec<&Syscall> = tables.syscalls.iter().filter(is_whole).filter(is_of).collect();
    let mut calls: Vec<&Syscall> =
        whole.iter().copied().filter(|call| nr.is_none_or(|nr| nr == call.nr)).collect();
    if calls.is_empty() {
        bail!(
            "no call of {wanted} by these threads begins and ends in this range{}",
            others(&whole)
        );
    }
    calls.sort_by_key(|call| (std::cmp::Reverse(call.dur), call.ts));
    Ok(calls)
}

/// Which ones do.
fn others(calls: &[&Syscall]) -> String {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for call in calls {
        *counts.entry(call.nr).or_default() += 1;
    }
    let mut counts: Vec<(i64, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(nr, times)| (std::cmp::Reverse(*times), *nr));
    let listed: Vec<String> = counts
        .iter()
        .take(MOST_LISTED)
        .map(|(nr, times)| format!("{} ({})", syscall::name(*nr), count(*times)))
        .collect();
    if listed.is_empty() { String::new() } else { format!("; they call {}", listed.join(", ")) }
}
