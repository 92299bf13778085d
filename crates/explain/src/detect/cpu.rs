//! Who waits for a CPU: starved, throttled, or kept from an idle one.

use super::{
    finding::{Confidence, Detail, Detector, Finding, Range, reaches},
    rules,
    waits::{Alike, BesideIdle, Total, Waits},
};
use crate::{
    blame::{Level, Party, party},
    piece::{Actor, By, ThreadId, Why},
    rows::Rows,
};
use std::collections::BTreeMap;
use transect_model::cause::Evidence;

/// Waits of this share of the range beside an idle CPU are worth a word.
const AFFINITY_PERCENT: i64 = 5;

#[derive(Default)]
struct Wanted {
    /// Threads, or vCPUs, of it that wanted a CPU.
    ran: i64,
    waited: i64,
    starved: Total,
    behind: BTreeMap<(Party, Option<Why>), i64>,
    throttled: Total,
    /// Most likely for a quota: behind idle alone for too long, or parked by Xen.
    likely: Total,
    beside_idle: BesideIdle,
    /// Has a group above it a quota? None if that was not recorded.
    has_quota: Option<bool>,
}

/// Starvation of vCPUs, control groups, and threads outside of groups.
pub(super) fn find(rows: &Rows<'_>, waits: Vec<Waits>, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<Party, Wanted> = BTreeMap::new();
    for waits in waits {
        let subject = match waits.of {
            Actor::Thread(thread) => subject(rows, thread),
            Actor::Vcpu(machine, vcpu) => Party::Vcpu(machine, vcpu),
        };
        let quota = match waits.of {
            Actor::Thread(thread) => rows.has_quota(thread),
            Actor::Vcpu(..) => None,
        };
        let wanted = all.entry(subject.clone()).or_default();
        if let Some(has) = quota {
            wanted.has_quota = Some(wanted.has_quota.unwrap_or(false) || has);
        }
        wanted.add(rows, &subject, waits);
    }
    all.into_iter().flat_map(|(subject, wanted)| wanted.findings(&subject, range)).collect()
}

/// A vCPU, a control group below the root, else the thread.
pub(super) fn subject(rows: &Rows<'_>, thread: ThreadId) -> Party {
    if rows.vcpu_of_thread(thread).is_some() {
        return party(rows, thread, Level::Thread);
    }
    match party(rows, thread, Level::Group) {
        Party::Group(machine, path) if path.len() > 1 => Party::Group(machine, path),
        _ => Party::Thread(thread),
    }
}

/// Who had the CPU, if that was another: its own threads are not what starves it.
pub(super) fn other(rows: &Rows<'_>, by: Option<By>, subject: &Party) -> Option<Party> {
    let who = match by? {
        By::Thread(by) => self::subject(rows, by),
        By::Vcpu(machine, vcpu) => Party::Vcpu(machine, vcpu),
        By::Idle => return None,
    };
    (who != *subject).then_some(who)
}

impl Wanted {
    fn add(&mut self, rows: &Rows<'_>, subject: &Party, waits: Waits) {
        self.ran += waits.ran;
        self.likely.merge(waits.too_long);
        let own = waits.all.iter().filter(|(alike, _)| waits.is_own(alike.doing));
        for (Alike { by, why, evidence, .. }, total) in own {
            self.waited += total.ns;
            match why {
                Some(Why::Throttled) if *evidence == Evidence::Order => self.likely.merge(*total),
                Some(Why::Throttled) => self.throttled.merge(*total),
                why => {
                    let Some(who) = other(rows, *by, subject) else { continue };
                    self.starved.merge(*total);
                    *self.behind.entry((who, *why)).or_default() += total.ns;
                }
            }
        }
        for (by, beside) in waits.beside_idle {
            if other(rows, Some(by), subject).is_some() {
                self.beside_idle.merge(beside);
            }
        }
    }

    fn findings(self, subject: &Party, range: Range) -> Vec<Finding> {
        let mut found = Vec::new();
        let finding = |detector, held: Total, of_ns, detail| Finding {
            detector,
            subject: subject.clone(),
            held_ns: held.ns,
            of_ns,
            count: held.count,
            confidence: Confidence::Certain,
            detail,
        };
        let wanted = self.ran + self.waited;
        let most = self.behind.into_iter().max_by_key(|(_, ns)| *ns);
        let behind = most.map_or(Detail::None, |((who, why), ns)| Detail::Behind { who, why, ns });
        if rules::is_starved(self.starved.ns, wanted, range) {
            found.push(finding(Detector::Starved, self.starved, wanted, behind));
        }
        let throttled = |held| finding(Detector::Throttled, held, range.length(), Detail::None);
        if rules::is_throttled(self.throttled.ns, range) {
            found.push(throttled(self.throttled));
        } else if rules::is_throttled(self.likely.ns, range) && self.has_quota != Some(false) {
            found.push(Finding { confidence: Confidence::Likely, ..throttled(self.likely) });
        }
        let beside = self.beside_idle;
        if reaches(beside.sum.ns, AFFINITY_PERCENT, range.length()) {
            let most = beside.idle.into_iter().max_by_key(|(_, ns)| *ns);
            let detail = most.map_or(Detail::None, |(cpu, _)| Detail::Idle {
                cpu,
                is_allowed: beside.is_allowed.get(&cpu).copied(),
            });
            found.push(finding(Detector::Affinity, beside.sum, range.length(), detail));
        }
        found
    }
}
