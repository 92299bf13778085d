//! Requests to block devices: from the queue to the driver to the answer. What a device that is made of others gets is told
//! as a request that was never queued.
//!
//! ```text
//!   insert ──▶ Queued ── issue ──▶ Issued ── complete ──▶ a row
//!                 └─ merged into a request that is issued for all of its sectors
//! ```
//! The tracepoints share no request number. What pairs them is device, sector and operation, as
//! blktrace and biosnoop pair them; where that is ambiguous:
//! - Queued requests inside the sectors of one that is issued were merged into it
//!   (`attempt_merge`, block/blk-merge.c): they make one row that begins with the first of them.
//! - An issue of exactly what is issued already is either the same request again (the driver had
//!   been busy: `__blk_mq_requeue_request`, block/blk-mq.c) or another one for the same sectors. A
//!   second completion tells; without it there is one row, that of the first issue.
//! - A completion of fewer sectors leaves the rest of the request under way.
//! - A flush is issued with sector 0 and completes with sector −1 (`blk_rq_pos` of a request without
//!   data); the request that waited for it completes with no sectors and was never issued.
//!
//! **Boundary state.** The open requests of the machine, by device and sector. A completion without
//! a beginning makes no row. A hole in the stream of any CPU may hide any request's end (or the end
//! and the next request for the same sectors), so all open ones end there with null `dur`. Requests that begin while the
//! hole hides events make no row. One that was under way then begins with its first event behind the hole.

use super::{
    Env,
    causes::on_cpu::About,
    stages::{Named, Stages, Told, waking::Waking},
};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use transect_model::{
    event::BlockRequest,
    ids::{BlockDevice, CpuId, Tid},
    state::CounterName,
    table::{BlockIo, Row},
};

/// More open requests than any machine's tags allow are broken input (or a device whose
/// completions are not recorded): all are given up, as in a hole.
const MAX_OPEN: usize = 1 << 16;

/// Device, next sector to be done, order of arrival.
type Key = (u32, u64, u64);

/// One request between two events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Open {
    ts: i64,
    tid: Tid,
    /// As it was first seen, or as large as it was then issued.
    request: BlockRequest,
    /// Sectors still to be done.
    left: u32,
    issue: Option<i64>,
    /// Perhaps the same request issued again.
    again: bool,
    stages: Stages,
}

/// The open requests of one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Blocks {
    open: BTreeMap<Key, Open>,
    serial: u64,
    in_flight: BTreeMap<u32, i64>,
    /// Devices in whose queue requests were inserted.
    queues: BTreeSet<u32>,
    /// Requests that are under way may be missing, so they cannot be counted.
    uncounted: bool,
    /// A completion of an issued request was seen.
    seen_end: bool,
    /// How often too many were open.
    pub(crate) given_up: u64,
    /// Those that are done and whose waiting thread has not run yet.
    pub(crate) waking: Waking,
}

impl Blocks {
    /// `block_rq_insert`.
    pub(crate) fn insert(&mut self, t: i64, tid: Tid, request: BlockRequest, env: &mut Env<'_>) {
        self.queue(request);
        self.add(Open::new(t, tid, request), env);
    }

    /// The device has a queue in which requests are inserted.
    pub(crate) fn queue(&mut self, request: BlockRequest) {
        self.queues.insert(request.device);
    }

    /// `block_rq_issue`.
    pub(crate) fn issue(&mut self, t: i64, tid: Tid, request: BlockRequest, env: &mut Env<'_>) {
        if let Some(key) = self.queued(request) {
            if let Some(open) = self.open.get_mut(&key) {
                open.issue = Some(t);
            }
            self.count(t, request.device, 1, env);
            return;
        }
        let first = self.take_merged(request);
        let again = first.is_none() && self.is_issued(request);
        let (ts, tid) = first.map_or((t, tid), |first| (first.ts, first.tid));
        self.add(Open { issue: Some(t), again, ..Open::new(ts, tid, request) }, env);
        if !again {
            self.count(t, request.device, 1, env);
        }
    }

    /// `block_rq_complete`: the request, if that is all of it.
    pub(crate) fn complete(
        &mut self,
        t: i64,
        cpu: CpuId,
        request: BlockRequest,
        error: i32,
        env: &mut Env<'_>,
    ) -> Option<(Told, Stages)> {
        let sector = if request.sector == u64::MAX { 0 } else { request.sector };
        let request = BlockRequest { sector, ..request };
        let key = self.completed(request)?;
        let open = self.open.remove(&key)?;
        if error == 0 && open.issue.is_some() && request.sectors < open.left {
            let left = open.left - request.sectors;
            let next = sector.wrapping_add(u64::from(request.sectors));
            self.open.insert((key.0, next, key.2), Open { left, ..open });
            return None;
        }
        let sectors = open.request.sectors.max(request.sectors);
        let whole = BlockRequest { sectors, ..open.request };
        let open = Open { request: whole, ..open };
        open.emit(Some((t, cpu, error)), env);
        if open.issue.is_some() && !open.again {
            self.count(t, request.device, -1, env);
        }
        Some((open.told(Some((t, error))), open.stages))
    }

    /// A request begins while its other events are not recorded: a row without an end. An issue
    /// begins one where the device has no queue in which others are inserted.
    pub(crate) fn begin(
        &mut self,
        t: i64,
        tid: Tid,
        request: BlockRequest,
        issued: bool,
        env: &mut Env<'_>,
    ) {
        if issued && self.queues.contains(&request.device) {
            return;
        }
        if !issued {
            self.queue(request);
        }
        Open { issue: issued.then_some(t), ..Open::new(t, tid, request) }.emit_unfinished(env);
    }

    /// Events are missing from `t` on: what was open is not known any more.
    pub(crate) fn lose(&mut self, t: i64, env: &mut Env<'_>) {
        self.finish(env);
        for (device, _) in std::mem::take(&mut self.in_flight) {
            env.block_in_flight(t, BlockDevice(device), None);
        }
        self.uncounted = true;
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, env: &mut Env<'_>) {
        for (_, open) in std::mem::take(&mut self.open) {
            open.emit_unfinished(env);
        }
        self.waking.finish(env);
    }

    /// The stages of a request that is issued, unless they are hidden.
    pub(crate) fn stages(&mut self, (device, sector): (u32, u64)) -> Option<&mut Stages> {
        let range = (device, sector, 0)..=(device, sector, u64::MAX);
        let mut issued = self.open.range_mut(range).filter(|(_, open)| open.issue.is_some());
        issued.next_back().map(|(_, open)| &mut open.stages).filter(|stages| !stages.is_hidden)
    }

    /// Events of this request's further way are missing.
    pub(crate) fn hide_stages_of(&mut self, request: (u32, u64)) {
        if let Some(stages) = self.stages(request) {
            stages.is_hidden = true;
        }
    }

    /// Somebody who was woken by the end of a request gets a CPU.
    pub(crate) fn runs(&mut self, about: About, when: (i64, i64), tid: Tid, env: &mut Env<'_>) {
        self.waking.runs(about, when, tid, env);
    }

    /// Events of the requests' further way are missing.
    pub(crate) fn hide_stages(&mut self) {
        for open in self.open.values_mut() {
            open.stages.is_hidden = true;
        }
    }

    fn add(&mut self, open: Open, env: &mut Env<'_>) {
        if self.open.len() >= MAX_OPEN {
            self.given_up += 1;
            self.lose(open.issue.unwrap_or(open.ts), env);
        }
        self.serial += 1;
        self.open.insert((open.request.device, open.request.sector, self.serial), open);
    }

    /// The requests whose next sector is this one's first, in order of arrival.
    fn at(&self, request: BlockRequest) -> impl Iterator<Item = (&Key, &Open)> {
        let (device, sector) = (request.device, request.sector);
        self.open
            .range((device, sector, 0)..=(device, sector, u64::MAX))
            .filter(move |(_, open)| open.request.op == request.op)
    }

    fn queued(&self, request: BlockRequest) -> Option<Key> {
        let same = |open: &Open| open.issue.is_none() && open.left == request.sectors;
        self.at(request).find(|(_, open)| same(open)).map(|(key, _)| *key)
    }

    fn is_issued(&self, request: BlockRequest) -> bool {
        self.at(request).any(|(_, open)| open.issue.is_some() && open.left == request.sectors)
    }

    /// Takes the queued requests out that were merged into this one; the first of them.
    fn take_merged(&mut self, request: BlockRequest) -> Option<Open> {
        let end = request.sector.checked_add(u64::from(request.sectors))?;
        let range = (request.device, request.sector, 0)..(request.device, end, 0);
        let mut parts = Vec::new();
        let mut free_from = request.sector;
        for (key, open) in self.open.range(range) {
            let open_end = key.1.saturating_add(u64::from(open.left));
            let is_part = open.issue.is_none() && open.left > 0 && open.request.op == request.op;
            if is_part && key.1 >= free_from && open_end <= end {
                free_from = open_end;
                parts.push(*key);
            }
        }
        let parts = parts.into_iter().filter_map(|key| self.open.remove(&key));
        parts.min_by_key(|open| open.ts)
    }

    /// The request that a completion is about.
    fn completed(&self, done: BlockRequest) -> Option<Key> {
        let fits = |open: &Open| match (done.sectors, open.left) {
            (0, left) => left == 0,
            (_, 0) => false,
            // One that was not seen to be issued may have grown by merges since.
            (sectors, left) => sectors <= left || open.issue.is_none(),
        };
        let rank = |key: &Key, open: &Open| {
            let order = if open.again { (u64::MAX, Reverse(key.2)) } else { (key.2, Reverse(0)) };
            (open.left != done.sectors, open.issue.is_none(), open.again, order)
        };
        let candidates = self.at(done).filter(|(_, open)| fits(open));
        candidates.min_by_key(|(key, open)| rank(key, open)).map(|(key, _)| *key)
    }

    fn count(&mut self, t: i64, device: u32, change: i64, env: &mut Env<'_>) {
        if self.uncounted {
            return;
        }
        let value = self.in_flight.entry(device).or_default();
        *value += change;
        // Until a completion is seen, nothing proves that completions are recorded.
        self.seen_end |= change < 0;
        if !self.seen_end {
            return;
        }
        env.block_in_flight(t, BlockDevice(device), Some(*value));
    }
}

impl Open {
    fn new(ts: i64, tid: Tid, request: BlockRequest) -> Self {
        let (left, stages) = (request.sectors, Stages::default());
        Open { ts, tid, request, left, issue: None, again: false, stages }
    }

    fn told(&self, done: Option<(i64, i32)>) -> Told {
        let Open { ts, tid, request, issue, .. } = *self;
        Told { ts, tid, request, issue, done, wake: None, run: None }
    }

    /// The rows of a request whose end is not known.
    fn emit_unfinished(self, env: &mut Env<'_>) {
        self.emit(None, env);
        if !self.again {
            env.io_request(&self.stages, &self.told(None), Named::default());
        }
    }

    /// One row of the table; `done` is when and where the device answered, and what.
    fn emit(self, done: Option<(i64, CpuId, i32)>, env: &mut Env<'_>) {
        if self.ts < env.start || !env.wants.block_io || (self.again && done.is_none()) {
            return;
        }
        env.sink.row(Row::BlockIo(BlockIo {
            ts: self.ts,
            dur: done.map(|(t, ..)| t - self.ts),
            machine_id: env.machine,
            tid: self.tid,
            device: BlockDevice(self.request.device),
            sector: self.request.sector,
            bytes: u64::from(self.request.sectors) * 512,
            op: self.request.op,
            issue_ns: self.issue.map(|t| t - self.ts),
            complete_cpu: done.map(|(_, cpu, _)| cpu),
            error: done.map(|(.., error)| error),
        }));
    }
}

impl Env<'_> {
    fn block_in_flight(&mut self, t: i64, device: BlockDevice, value: Option<i64>) {
        self.counter(t, CounterName::BlockInFlight, None, Some(device), value);
    }
}
