//! The stages of a block request on its way out of a guest, through its host and back.
//!
//! ```text
//!   guest   submit ─▶ issue ─▶ kick                                  guest_irq ─▶ complete ─▶ wake ─▶ run
//!                               │ doorbell                                ▲ line
//!   host                        └─▶ pickup ─▶ host_submit … host_complete ─▶ signal ─▶ inject
//! ```
//! What joins them:
//! - *kick*: the first doorbell that is rung on the vCPU behind the issue, unless by vote of the requests
//!   before it is not that of the device ([`super::causes::delivery`]).
//! - *pickup*: the thread that was woken in the doorbell's exit gets a CPU.
//! - *host*: a request of the VMM's threads, in [`parts`]. Of a Xen domain, of the threads that serve its disks in dom0.
//! - Of a Xen domain, *kick* is the next call for an event channel, which is not recorded; *pickup* is when the thread
//!   that made the host's request had got its CPU; *`guest_irq`* is the handler in which the request is completed.
//! - *signal*, *inject*, *`guest_irq`*: the interrupt whose handler runs as the request is completed.
//! - *wake*: the waking in that handler, behind this request's completion and before the next one's.
//!
//! Stages that would not be in order are given up: those of the guest's own kernel are certain, then
//! come the host's request, the interrupt, and the doorbell. A request that was joined with a later
//! doorbell, because its own was suppressed (`VIRTIO_F_EVENT_IDX`), loses it so.
//!
//! **Boundary state.** Each open request's, in it ([`Open`](super::block)). A hole in any stream hides the
//! further stages of the requests that are under way.

pub(crate) mod parts;
pub(crate) mod waking;

use super::causes::delivery::Request;
use parts::{Part, Parts};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use transect_model::{
    cause::Evidence,
    event::BlockRequest,
    ids::{BlockDevice, MachineId, Tid},
    stage::Staged as _,
    table::IoRequest,
};

/// A doorbell that was rung for a request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Rung {
    pub(crate) ts: i64,
    /// None if it is not known which.
    pub(crate) doorbell: Option<u64>,
    pub(crate) evidence: Evidence,
}

/// The interrupt that tells of the end of a request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Interrupt {
    /// The first and the last time that it was accepted before it was injected; none if that is not known.
    pub(crate) signals: Option<(i64, i64)>,
    pub(crate) inject: Option<i64>,
    pub(crate) handler: i64,
    pub(crate) evidence: Evidence,
}

/// Threads that were woken for requests and have not run yet, and threads that serve domains' disks, at most.
const MAX_WOKEN: usize = 4096;
/// Times at which such a thread got a CPU that are kept: those of the requests that are under way.
const MAX_RUNS: usize = 256;

/// What is under way between guests and hosts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ways {
    /// By host and thread: the requests, of which VM, for which it was woken and has not run yet.
    woken: BTreeMap<(usize, Tid), Vec<(usize, Request)>>,
    /// By VM: what its VMM asks of the host's devices.
    parts: BTreeMap<usize, Parts>,
    /// By dom0 and thread that serves a domain's disk: when it got a CPU.
    runs: BTreeMap<(usize, Tid), VecDeque<i64>>,
}

impl Ways {
    /// A thread was woken for a request.
    pub(crate) fn wait_for(&mut self, host: usize, tid: Tid, request: (usize, Request)) {
        if self.woken.len() >= MAX_WOKEN {
            self.woken.clear();
        }
        let requests = self.woken.entry((host, tid)).or_default();
        if requests.len() < MAX_WOKEN {
            requests.push(request);
        }
    }

    /// It gets a CPU: the requests.
    pub(crate) fn come(&mut self, host: usize, tid: Tid) -> Vec<(usize, Request)> {
        if self.woken.is_empty() {
            return Vec::new();
        }
        self.woken.remove(&(host, tid)).unwrap_or_default()
    }

    /// A thread of dom0 that serves a domain's disk gets a CPU.
    pub(crate) fn serves(&mut self, dom0: usize, tid: Tid, t: i64) {
        if self.runs.len() >= MAX_WOKEN {
            self.runs.clear();
        }
        let runs = self.runs.entry((dom0, tid)).or_default();
        if runs.len() >= MAX_RUNS {
            runs.pop_front();
        }
        runs.push_back(t);
    }

    /// When it had got the CPU that it had at `t`.
    pub(crate) fn served_since(&self, dom0: usize, tid: Tid, t: i64) -> Option<i64> {
        let runs = self.runs.get(&(dom0, tid))?;
        runs.iter().rev().find(|run| **run <= t).copied()
    }

    /// Of a VM.
    pub(crate) fn parts(&mut self, vm: usize) -> &mut Parts {
        self.parts.entry(vm).or_default()
    }

    /// Events are missing.
    pub(crate) fn lose(&mut self) {
        self.woken.clear();
        self.runs.clear();
        self.parts.values_mut().for_each(Parts::lose);
    }
}

/// What is known of a request's way so far.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Stages {
    pub(crate) kick: Option<Rung>,
    pub(crate) pickup: Option<i64>,
    pub(crate) backend: Option<Tid>,
    pub(crate) part: Option<(Part, Evidence)>,
    pub(crate) interrupt: Option<Interrupt>,
    /// Events of its further way may be missing.
    pub(crate) is_hidden: bool,
}

/// A thread that was woken for a request or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WokenFor {
    pub(crate) ts: i64,
    pub(crate) tid: Tid,
    /// It slept.
    pub(crate) slept: bool,
}

impl WokenFor {
    /// Did it have to be woken? One that was about to sleep goes on, unless it had left its CPU already: then it
    /// comes back to one.
    pub(crate) fn counts(self, run: Option<i64>) -> bool {
        self.slept || run.is_some()
    }
}

/// A request as its own kernel tells it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) ts: i64,
    pub(crate) tid: Tid,
    pub(crate) request: BlockRequest,
    pub(crate) issue: Option<i64>,
    /// When it was completed, and with what error.
    pub(crate) done: Option<(i64, i32)>,
    /// Whom the completion woke.
    pub(crate) wake: Option<WokenFor>,
    /// When that thread ran.
    pub(crate) run: Option<i64>,
}

/// What names and clocks tell of a request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) queue: Option<String>,
    pub(crate) error_ns: Option<u64>,
}

/// Stages that are in order.
#[derive(Clone, Copy, Debug, Default)]
struct Ordered {
    kick: Option<Rung>,
    pickup: Option<i64>,
    part: Option<(Part, Evidence)>,
    signal: Option<(i64, Evidence)>,
    inject: Option<i64>,
    handler: Option<(i64, Evidence)>,
}

impl Stages {
    fn ordered(&self, told: &Told) -> Ordered {
        let begin = told.issue.unwrap_or(told.ts);
        let end = told.done.map_or(i64::MAX, |(t, _)| t);
        let part = self.part.filter(|(part, _)| part.submit >= begin && part.complete <= end);
        let picked = self.pickup.filter(|t| *t >= begin && *t <= end);
        let back_from = part.map(|(part, _)| part.complete).or(picked).unwrap_or(begin);
        let interrupt = self.interrupt.filter(|i| i.handler >= back_from && i.handler <= end);
        let inject =
            interrupt.and_then(|i| i.inject.filter(|t| *t >= back_from && *t <= i.handler));
        let signal = interrupt.and_then(|i| {
            let until = inject.unwrap_or(i.handler);
            let (first, last) = i.signals?;
            let first = Some((first, i.evidence)).filter(|(t, _)| *t >= back_from);
            // One that was taken already was not for this request: another was, and they became one.
            let last = Some((last, Evidence::Order)).filter(|(t, _)| *t >= back_from);
            first.or(last).filter(|(t, _)| *t <= until)
        });
        let until = part
            .map(|(part, _)| part.submit)
            .or(signal.map(|(t, _)| t))
            .or(inject)
            .or(interrupt.map(|i| i.handler))
            .unwrap_or(end);
        let kick = self.kick.filter(|kick| kick.ts >= begin && kick.ts <= until);
        let pickup = picked.filter(|t| kick.is_some_and(|kick| *t >= kick.ts) && *t <= until);
        let handler = interrupt.map(|i| (i.handler, i.evidence));
        Ordered { kick, pickup, part, signal, inject, handler }
    }

    /// The row of a request. `is_virtual`: of a guest whose host is part of the recording; not of dom0, which has the
    /// devices of its host.
    pub(crate) fn row(
        &self,
        told: &Told,
        named: Named,
        (machine_id, is_virtual): (MachineId, bool),
    ) -> IoRequest {
        let ordered = self.ordered(told);
        let Ordered { kick, pickup, part, signal, inject, handler } = ordered;
        let evidence = [
            kick.map(|kick| kick.evidence),
            part.map(|(_, evidence)| evidence),
            signal.map(|(_, evidence)| evidence),
            handler.map(|(_, evidence)| evidence),
        ];
        let is_joined = kick.is_some() || part.is_some() || handler.is_some();
        let part = part.map(|(part, _)| part);
        let (complete_ts, error) = told.done.unzip();
        let (wake_ts, wake_tid) = told
            .wake
            .filter(|woken| woken.counts(told.run))
            .map(|woken| (woken.ts, woken.tid))
            .unzip();
        let mut row = IoRequest {
            ts: told.ts,
            dur: told.run.or(wake_ts).or(complete_ts).map(|t| t - told.ts),
            machine_id,
            tid: told.tid,
            device: BlockDevice(told.request.device),
            queue: named.queue.filter(|_| handler.is_some()),
            op: told.request.op,
            sector: told.request.sector,
            bytes: u64::from(told.request.sectors) * 512,
            issue_ts: told.issue,
            kick_ts: kick.map(|kick| kick.ts),
            pickup_ts: pickup,
            host_submit_ts: part.map(|part| part.submit),
            host_issue_ts: part.and_then(|part| part.issue),
            host_complete_ts: part.map(|part| part.complete),
            signal_ts: signal.map(|(t, _)| t),
            inject_ts: inject,
            guest_irq_ts: handler.map(|(t, _)| t),
            complete_ts,
            wake_ts,
            run_ts: told.run,
            wake_tid,
            backend_tid: self.backend.filter(|_| kick.is_some()),
            host_device: part.map(|part| BlockDevice(part.device)),
            error,
            evidence: evidence.into_iter().flatten().max(),
            missing: String::new(),
            error_ns: named.error_ns.filter(|_| is_joined),
        };
        name_missing(&mut row, is_virtual);
        row
    }
}

/// Says which stages are missing, of those that its way has.
fn name_missing(row: &mut IoRequest, is_virtual: bool) {
    let unknown = || IoRequest::CUTS.iter().zip(row.cuts()).filter(|(_, ts)| ts.is_none());
    let is_missing = |name: &str| unknown().any(|(cut, _)| *cut == name);
    let mut missing = Vec::new();
    let mut look = |names: &[&'static str], together: Option<&'static str>| {
        let gone = names.iter().copied().filter(|name| is_missing(name));
        match together.filter(|_| names.iter().all(|name| is_missing(name))) {
            Some(together) => missing.push(together),
            None => missing.extend(gone),
        }
    };
    look(&["issue"], None);
    if is_virtual {
        look(&["kick", "pickup"], None);
        look(&["host_submit", "host_issue", "host_complete"], Some("host"));
        look(&["signal", "inject", "guest_irq"], None);
    }
    look(&["complete"], None);
    look(&["wake", "run"], Some("wake"));
    row.missing = missing.join(",");
}
