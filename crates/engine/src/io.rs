//! What the events of devices and kernel workers do: their part of the routing.

use crate::{
    at::At,
    world::{World, env},
};
use transect_model::{event::CoreEvent, table::TableSink};

impl World {
    /// Events of block devices, network devices and work queues.
    pub(crate) fn io(&mut self, at: At, event: &CoreEvent, sink: &mut dyn TableSink) {
        if matches!(
            event,
            CoreEvent::WorkStart { .. }
                | CoreEvent::LockBegin { .. }
                | CoreEvent::ReclaimBegin { .. }
        ) {
            // Holes go by what is known of each thread; so the worker must be known at all.
            let _slot = self.slot(at.m, at.tid);
        }
        let machine = &mut self.machines[at.m];
        // A request's other events may be those of a hidden CPU. What is issued was perhaps issued before, and what is
        // inserted is perhaps merged: neither begins a request that could be told.
        let is_hidden = at.t < machine.threads.hidden_until;
        // Or they are those of a thread that does not pass the filter.
        let is_partial = machine.is_filtered() || machine.filter.partial_block;
        let env = env!(self, machine, sink);
        match *event {
            CoreEvent::BlockInsert(request) if is_hidden => machine.blocks.queue(request),
            CoreEvent::BlockIssue(_) | CoreEvent::BlockComplete { .. } if is_hidden => {}
            CoreEvent::BlockInsert(request) if is_partial => {
                machine.blocks.begin(at.t, at.tid, request, false, env);
            }
            CoreEvent::BlockIssue(request) if is_partial => {
                machine.blocks.begin(at.t, at.tid, request, true, env);
            }
            CoreEvent::BlockComplete { .. } if is_partial => {}
            CoreEvent::BlockInsert(request) => machine.blocks.insert(at.t, at.tid, request, env),
            CoreEvent::BlockIssue(request) => {
                machine.blocks.issue(at.t, at.tid, request, env);
                let host = machine.info.parent.map(|host| host.0 as usize);
                if host.is_some_and(|host| self.causes.is_hidden(host, at.t)) {
                    machine.blocks.hide_stages_of((request.device, request.sector));
                }
            }
            CoreEvent::BlockComplete { request, error } => {
                let done = machine.blocks.complete(at.t, at.cpu, request, error, env);
                if let Some(done) = done {
                    self.request_ends(at, request, done, sink);
                }
            }
            CoreEvent::NetXmit { device, bytes, code, .. } => {
                env.packet(at, device, bytes, Some(code));
            }
            CoreEvent::NetReceive { device, bytes, .. } => env.packet(at, device, bytes, None),
            CoreEvent::WorkStart { work, function } => {
                machine.works.start(at, work, function, env);
            }
            CoreEvent::WorkEnd { work, .. } => machine.works.end(at, work, env),
            CoreEvent::LockBegin { lock, flags, owner } => {
                machine.waits.lock(at, lock, (flags, owner), env);
            }
            CoreEvent::LockEnd { lock, ret } => {
                let unlocked = machine.waits.locked(at, lock, ret == 0, env);
                if let Some(owner) =
                    unlocked.and_then(|unlocked| unlocked.owner).filter(|_| ret == 0)
                {
                    env.unlocked(at, lock, owner);
                }
            }
            CoreEvent::Throttle { cgroup, cpu } => {
                machine.waits.throttle(at.t, (cpu, cgroup), env);
            }
            CoreEvent::Unthrottle { cgroup, cpu } => {
                machine.waits.unthrottle(at.t, (cpu, cgroup), env);
            }
            CoreEvent::ReclaimBegin { memcg, order } => {
                machine.waits.reclaim(at, memcg, order, env);
            }
            CoreEvent::ReclaimEnd { memcg, pages } => {
                machine.waits.reclaimed(at, memcg, pages, env);
            }
            _ => {}
        }
    }
}
