//! The sentences of an explanation.

use super::names;
use crate::{
    parts::Part,
    piece::{Actor, By, Doing, ThreadId, Why},
    root::Root,
    rows::Rows,
    sums::{Layer, Sum},
};
use transect_model::{
    ids::{MachineKind, Tid},
    number::{duration, share},
    time::TimeUnit,
};

/// From this share of the window on, in percent, it is said what is not known.
const UNKNOWN_PERCENT: i64 = 5;
/// Parts below this share have no sentence of their own, but the largest.
const PART_PERCENT: i64 = 5;
/// Sentences about parts, at most.
const MOST_PARTS: usize = 4;

/// What took most of the time.
pub fn sentences(rows: &Rows<'_>, root: &Root, unit: TimeUnit) -> Vec<String> {
    let who = match root.call {
        Some(call) => format!("{}, {}", names::actor(rows, root.actor), call.name()),
        None => names::actor(rows, root.actor),
    };
    let words = Words { rows, root, unit };
    let mut all = Vec::new();
    for part in root.parts.iter().take(MOST_PARTS) {
        if all.is_empty() {
            all.push(format!("{who}, {}: {}.", duration(root.length(), unit), words.part(part)));
        } else if part.ns * 100 >= root.length() * PART_PERCENT {
            all.push(format!("{}.", words.part(part)));
        }
    }
    if root.not_recorded_ns * 100 >= root.length() * UNKNOWN_PERCENT {
        all.push(format!(
            "{} was not recorded in the first {} of the range: that is not part of it.",
            names::machine(rows, root.actor.machine()),
            duration(root.not_recorded_ns, unit)
        ));
    }
    if root.in_layer(Layer::Unknown) * 100 >= root.length() * UNKNOWN_PERCENT {
        let unknown = share(root.in_layer(Layer::Unknown), root.length());
        let because = match is_under_xen(rows, root) {
            true => "it slept, and Xen does not record the end of a sleep",
            false => "causes of wakeups are not recorded (profile explain records them)",
        };
        all.push(format!("Not known is {unknown}: events are lost there, or {because}."));
    }
    all
}

fn is_under_xen(rows: &Rows<'_>, root: &Root) -> bool {
    let parent = rows.machine(root.actor.machine()).and_then(|machine| machine.parent_id);
    let parent = parent.and_then(|parent| rows.machine(parent));
    parent.is_some_and(|parent| parent.kind == MachineKind::Hypervisor)
}

struct Words<'a, 't> {
    rows: &'a Rows<'t>,
    root: &'a Root,
    unit: TimeUnit,
}

impl Words<'_, '_> {
    /// What happened in a part, without a subject.
    fn part(&self, part: &Part) -> String {
        let time = self.time(part.ns);
        if let Some(other) = part.other {
            return format!(
                "waited {time} for {}{}",
                names::thread(self.rows, other),
                self.other(part)
            );
        }
        let (behind, reason) = (self.behind(part), self.reason(part));
        let vcpu = match part.vcpu {
            Some((machine, vcpu)) => names::vcpu(self.rows, machine, vcpu),
            None => "its vCPU".to_owned(),
        };
        match part.doing {
            Doing::Running => format!("ran {time}"),
            Doing::Exit => format!("spent {time} in VM exits handled by the host's kernel{reason}"),
            Doing::User => format!("spent {time} in VM exits handled by the VMM{reason}"),
            Doing::HaltPoll => format!("was halted {time} while the host polled"),
            Doing::Runnable => format!("waited {time} for a CPU{behind}"),
            Doing::VcpuWait if matches!(self.root.actor, Actor::Vcpu(..)) => {
                format!("waited {time} for a CPU{behind}")
            }
            Doing::VcpuWait => format!("waited {time} while {vcpu} waited for a CPU{behind}"),
            Doing::Handler | Doing::Delivery => {
                format!("waited {time} for interrupts on their way, and their handlers{behind}")
            }
            Doing::Device => format!("waited {time} for a device"),
            Doing::Timer => format!("slept {time} until a timer"),
            Doing::Reclaim => format!("reclaimed memory for {time}"),
            Doing::Lock => format!("waited {time} for locks whose owner is not recorded"),
            Doing::Outside => format!("waited {time} for something outside of the recording"),
            Doing::Unrecorded => {
                format!("slept {time} until an interrupt whose source is not recorded")
            }
            Doing::Offline => format!("was paused or not there {time}"),
            Doing::Asleep => format!("slept {time} to the end of the range"),
            Doing::Unknown => format!("was in an unknown state {time}"),
        }
    }

    fn time(&self, ns: i64) -> String {
        format!("{} ({})", duration(ns, self.unit), share(ns, self.root.length()))
    }

    /// What another thread did meanwhile, as far as that matters.
    fn other(&self, part: &Part) -> String {
        let matters = |ns: i64| ns * 100 >= part.ns * PART_PERCENT;
        let mut did = Vec::new();
        if matters(part.ran_ns) {
            did.push(format!("ran {}", duration(part.ran_ns, self.unit)));
        }
        if matters(part.waited_ns) {
            let behind = self.behind(part);
            did.push(format!("waited {} for a CPU{behind}", duration(part.waited_ns, self.unit)));
        }
        if matters(part.timer_ns) {
            did.push(format!("slept {} until a timer", duration(part.timer_ns, self.unit)));
        }
        if did.is_empty() { String::new() } else { format!(", which {}", did.join(" and ")) }
    }

    fn behind(&self, part: &Part) -> String {
        let Some(most) = part.behind else { return String::new() };
        let (by, why) = most.what;
        let who = match (by, why) {
            (_, Some(Why::Throttled)) => "because its quota or cap had ended".to_owned(),
            (Some(By::Idle), _) => "while it left its idle state".to_owned(),
            (Some(by), Some(why)) => {
                format!("behind {} ({})", names::by(self.rows, by), reason(why))
            }
            (Some(by), None) => format!("behind {}", names::by(self.rows, by)),
            (None, why) => format!("({})", why.map_or("unknown", reason)),
        };
        match most.ns == part.waited_ns {
            true => format!(", {who}"),
            false => format!(", {} of it {who}", duration(most.ns, self.unit)),
        }
    }

    fn reason(&self, part: &Part) -> String {
        let Some(most) = part.reason else { return String::new() };
        match most.ns == part.ns {
            true => format!(" ({})", most.what),
            false => format!(", {} of it {}", duration(most.ns, self.unit), most.what),
        }
    }
}

/// Shares of the layers: `host 85 % · guest 15 %`.
pub fn layers(root: &Root) -> String {
    let shown = root.layers.iter().filter(|(layer, ns)| {
        *ns > 0 || matches!(layer, Layer::Guest | Layer::Host | Layer::Unknown)
    });
    let words =
        shown.map(|(layer, ns)| format!("{} {}", layer.as_str(), share(*ns, root.length())));
    words.collect::<Vec<_>>().join(" · ")
}

/// What happened, as the end of a sentence.
pub fn phrase(rows: &Rows<'_>, sum: &Sum) -> String {
    let what = own_phrase(rows, sum);
    if sum.is_own {
        return what;
    }
    match sum.tid.filter(|tid| *tid != Tid(-1)) {
        Some(tid) => {
            let who = names::thread(rows, ThreadId { machine: sum.machine, tid });
            match sum.doing {
                Doing::Running => format!("waiting for {who}, which ran"),
                _ => format!("waiting for {who}: {what}"),
            }
        }
        None => format!("{what} ({})", names::machine(rows, sum.machine)),
    }
}

fn own_phrase(rows: &Rows<'_>, sum: &Sum) -> String {
    let reason = sum.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let vcpu = match sum.vcpu {
        Some(vcpu) => names::vcpu(rows, sum.machine, vcpu),
        None => "the vCPU".to_owned(),
    };
    match sum.doing {
        Doing::Running => "running".to_owned(),
        Doing::Exit => format!("VM exits{reason} handled by the host's kernel"),
        Doing::User => format!("VM exits{reason} handled by the VMM"),
        Doing::HaltPoll => "the host polled for a halted vCPU".to_owned(),
        Doing::Runnable => format!("waiting for a CPU{}", behind(rows, sum)),
        Doing::VcpuWait => format!("{vcpu} waiting for a CPU{}", behind(rows, sum)),
        Doing::Handler => "an interrupt was handled".to_owned(),
        Doing::Delivery => "an interrupt or message on its way".to_owned(),
        Doing::Device => "a request in its device".to_owned(),
        Doing::Timer => "sleeping until a timer".to_owned(),
        Doing::Reclaim => "reclaiming memory".to_owned(),
        Doing::Lock => "waiting for a lock".to_owned(),
        Doing::Outside => "waiting for something outside of the recording".to_owned(),
        Doing::Unrecorded => "waiting for an interrupt whose source is not recorded".to_owned(),
        Doing::Offline => "paused, or not there".to_owned(),
        Doing::Asleep => "asleep to the end of the range".to_owned(),
        Doing::Unknown => "unknown".to_owned(),
    }
}

fn behind(rows: &Rows<'_>, sum: &Sum) -> String {
    match (sum.by, sum.why) {
        (_, Some(Why::Throttled)) => " because its quota or cap had ended".to_owned(),
        (Some(By::Idle), _) => " that left its idle state".to_owned(),
        (Some(by), Some(why)) => format!(" behind {} ({})", names::by(rows, by), reason(why)),
        (Some(by), None) => format!(" behind {}", names::by(rows, by)),
        (None, _) => String::new(),
    }
}

/// The scheduler's reason, in words.
pub fn reason(why: Why) -> &'static str {
    match why {
        Why::Throttled => "quota or cap had ended",
        Why::Class => "higher class or priority",
        Why::Affinity => "another CPU was idle meanwhile",
        Why::Weight => "larger weight",
        Why::Share => "share",
        Why::LeavingIdle => "leaving idle",
    }
}
