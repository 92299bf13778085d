//! Who waits for a CPU that others have, or for a quota.

use super::scene::{HOST, Scene, range};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transect_explain::{
    Party,
    detect::{Confidence, Detail, Detector, Finding, Range, rules},
};
use transect_model::ids::{CpuId, Tid};

#[derive(Default)]
struct Wanted<'a> {
    ran: i64,
    waited: i64,
    /// Behind others.
    starved: i64,
    /// Part of it that no row of antagonists covers: most likely behind the thread that had this CPU for most of the window.
    guessed: i64,
    times: u64,
    behind: BTreeMap<Party, i64>,
    /// Behind nobody.
    idle: i64,
    idle_times: u64,
    groups: BTreeSet<&'a str>,
}

pub(super) fn find(scene: &Scene<'_>, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<Party, Wanted<'_>> = BTreeMap::new();
    let masters = masters(scene);
    for row in &scene.window.threads {
        let subject = scene.subject(row.tid);
        let wanted = all.entry(subject.clone()).or_default();
        add(&mut wanted.ran, row.gotten_ns);
        add(&mut wanted.waited, row.waited_ns);
        wanted.groups.extend(row.cgroup.as_deref());
        // A wait that goes on has no antagonists yet.
        if row.unattributed_ns > row.waited_ns / 2
            && let Some(master) = masters.get(&row.cpu).filter(|tid| **tid != row.tid)
        {
            wanted.guess(&subject, scene.subject(*master), row.unattributed_ns);
        }
    }
    for row in &scene.window.antagonists {
        let subject = scene.subject(row.tid);
        let Some(wanted) = all.get_mut(&subject) else { continue };
        match scene.antagonist(row) {
            Some(who) => wanted.behind(&subject, who, row.ns, row.times),
            None => {
                add(&mut wanted.idle, row.ns);
                wanted.idle_times = wanted.idle_times.saturating_add(row.times);
            }
        }
    }
    let mut found = quotas(scene);
    for (subject, wanted) in all {
        found.extend(wanted.findings(scene, &subject, range));
    }
    found
}

/// The threads that had their CPUs for more than half of the window, and have them.
fn masters(scene: &Scene<'_>) -> HashMap<CpuId, Tid> {
    let on = scene.window.threads.iter().filter(|row| row.state == "running");
    on.filter(|row| row.gotten_ns > row.dur / 2).map(|row| (row.cpu, row.tid)).collect()
}

/// Groups that the kernel throttled.
fn quotas(scene: &Scene<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in &scene.window.pressure {
        let (Some(path), Some(_), Some(held)) = (&row.cgroup, row.quota_ns, row.throttled_ns)
        else {
            continue;
        };
        let ended = row.periods_throttled.unwrap_or(0);
        if ended == 0 || !rules::is_throttled(held, range(row.ts, row.dur)) {
            continue;
        }
        found.push(Finding {
            detector: Detector::Throttled,
            subject: Party::Group(HOST, path.clone()),
            held_ns: held,
            of_ns: row.dur,
            count: ended,
            confidence: Confidence::Certain,
            detail: Detail::Periods { ended, all: row.periods.unwrap_or(0).max(ended) },
        });
    }
    found
}

impl Wanted<'_> {
    fn behind(&mut self, subject: &Party, who: Party, ns: i64, times: u64) {
        // Its own threads are not what starves it.
        if who != *subject {
            add(&mut self.starved, ns);
            self.times = self.times.saturating_add(times);
            add(self.behind.entry(who).or_default(), ns);
        }
    }

    fn guess(&mut self, subject: &Party, who: Party, ns: i64) {
        if who != *subject {
            add(&mut self.guessed, ns);
            self.times = self.times.saturating_add(1);
            add(self.behind.entry(who).or_default(), ns);
        }
    }

    fn findings(self, scene: &Scene<'_>, subject: &Party, range: Range) -> Vec<Finding> {
        let mut found = Vec::new();
        let finding = |detector, held_ns, of_ns, count, confidence, detail| Finding {
            detector,
            subject: subject.clone(),
            held_ns,
            of_ns,
            count,
            confidence,
            detail,
        };
        let throttled = throttled(scene, &self.groups, range);
        let wanted = self.ran.saturating_add(self.waited);
        let most = self.behind.into_iter().max_by_key(|(_, ns)| *ns);
        let all = self.starved.saturating_add(self.guessed);
        // While its quota had ended others had the CPU: that is not what kept it.
        let held = all.saturating_sub(throttled);
        let is_certain = rules::is_starved(self.starved.saturating_sub(throttled), wanted, range)
            && knows_quotas(scene, &self.groups);
        if rules::is_starved(held, wanted, range) {
            let confidence = if is_certain { Confidence::Certain } else { Confidence::Likely };
            let detail = most.map_or(Detail::None, |(who, ns)| Detail::Behind {
                who,
                why: None,
                ns: if ns == all { held } else { ns.min(held) },
            });
            found.push(finding(Detector::Starved, held, wanted, self.times, confidence, detail));
        }
        // Of whom no group is known (under Xen, in a cgroup namespace), a long wait for a CPU that nobody has is for a limit.
        let on_average = self.idle / i64::try_from(self.idle_times.max(1)).unwrap_or(i64::MAX);
        if self.groups.is_empty()
            && rules::is_throttled(self.idle, range)
            && rules::is_too_long_for_idle(on_average, range)
        {
            found.push(finding(
                Detector::Throttled,
                self.idle,
                range.length(),
                self.idle_times,
                Confidence::Likely,
                Detail::None,
            ));
        }
        found
    }
}

/// Is it known for how long the quotas of these groups, and of those above them, kept threads? Not before they were looked at
/// twice.
fn knows_quotas(scene: &Scene<'_>, groups: &BTreeSet<&str>) -> bool {
    let mut rows = groups.iter().flat_map(|group| scene.pressures_above(group));
    rows.all(|row| row.quota_ns.is_none() || row.throttled_ns.is_some())
}

/// For how long of the window a quota of one of the groups, or of those above them, kept threads.
fn throttled(scene: &Scene<'_>, groups: &BTreeSet<&str>, range: Range) -> i64 {
    let rows = groups.iter().flat_map(|group| scene.pressures_above(group));
    let held = rows.filter(|row| row.quota_ns.is_some()).filter_map(|row| {
        let held = i128::from(row.throttled_ns?) * i128::from(range.length());
        i64::try_from(held / i128::from(row.dur.max(1))).ok()
    });
    held.max().unwrap_or(0)
}

/// Numbers of a log can be anything.
fn add(to: &mut i64, ns: i64) {
    *to = to.saturating_add(ns);
}
