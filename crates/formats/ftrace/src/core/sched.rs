//! `sched:*` and `task:*` (`include/trace/events/sched.h`, `task.h`).

use super::fields::{Decode, Fields, decoder};
use transect_model::{
    event::{Comm, CoreEvent, PrevState},
    ids::{CpuId, Tid},
    interrupt::Context,
};

pub(super) fn switch(f: &Fields<'_>) -> Option<Decode> {
    let (prev, next) = (f.int(&["prev_pid"])?, f.int(&["next_pid"])?);
    let (prev_comm, next_comm) = (f.comm(&["prev_comm"])?, f.comm(&["next_comm"])?);
    let (prev_prio, next_prio) = (f.int(&["prev_prio"])?, f.int(&["next_prio"])?);
    let prev_state = f.int(&["prev_state"])?;
    decoder(move |p| {
        Some(CoreEvent::SchedSwitch {
            prev: Tid(prev.i32(p)?),
            prev_comm: prev_comm.get(p)?,
            prev_prio: prev_prio.i32(p)?,
            prev_state: PrevState(prev_state.u32(p)?),
            next: Tid(next.i32(p)?),
            next_comm: next_comm.get(p)?,
            next_prio: next_prio.i32(p)?,
        })
    })
}

/// Who is woken: the three wakeup events share one layout.
struct Woken {
    tid: Tid,
    comm: Comm,
    prio: i32,
    target_cpu: CpuId,
    context: Option<Context>,
}

fn woken(f: &Fields<'_>, event: fn(Woken) -> CoreEvent) -> Option<Decode> {
    let (tid, comm) = (f.int(&["pid"])?, f.comm(&["comm"])?);
    let (prio, cpu) = (f.int(&["prio"])?, f.int(&["target_cpu"])?);
    let context = f.context();
    decoder(move |p| {
        Some(event(Woken {
            tid: Tid(tid.i32(p)?),
            comm: comm.get(p)?,
            prio: prio.i32(p)?,
            target_cpu: CpuId(cpu.u32(p)?),
            context: context(p),
        }))
    })
}

pub(super) fn waking(f: &Fields<'_>) -> Option<Decode> {
    woken(f, |Woken { tid, comm, prio, target_cpu, context }| CoreEvent::SchedWaking {
        tid,
        comm,
        prio,
        target_cpu,
        context,
    })
}

pub(super) fn wakeup(f: &Fields<'_>) -> Option<Decode> {
    woken(f, |Woken { tid, comm, prio, target_cpu, context }| CoreEvent::SchedWakeup {
        tid,
        comm,
        prio,
        target_cpu,
        context,
    })
}

pub(super) fn wakeup_new(f: &Fields<'_>) -> Option<Decode> {
    woken(f, |Woken { tid, comm, prio, target_cpu, .. }| CoreEvent::SchedWakeupNew {
        tid,
        comm,
        prio,
        target_cpu,
    })
}

pub(super) fn migrate(f: &Fields<'_>) -> Option<Decode> {
    let (tid, from, to) = (f.int(&["pid"])?, f.int(&["orig_cpu"])?, f.int(&["dest_cpu"])?);
    decoder(move |p| {
        Some(CoreEvent::SchedMigrate {
            tid: Tid(tid.i32(p)?),
            orig_cpu: CpuId(from.u32(p)?),
            dest_cpu: CpuId(to.u32(p)?),
        })
    })
}

pub(super) fn fork(f: &Fields<'_>) -> Option<Decode> {
    let (parent, child) = (f.int(&["parent_pid"])?, f.int(&["child_pid"])?);
    let child_comm = f.comm(&["child_comm"])?;
    decoder(move |p| {
        Some(CoreEvent::SchedFork {
            parent: Tid(parent.i32(p)?),
            child: Tid(child.i32(p)?),
            child_pid: None,
            child_comm: child_comm.get(p)?,
        })
    })
}

pub(super) fn exec(f: &Fields<'_>) -> Option<Decode> {
    let (tid, old) = (f.int(&["pid"])?, f.int(&["old_pid"])?);
    decoder(move |p| {
        Some(CoreEvent::SchedExec { tid: Tid(tid.i32(p)?), old_tid: Tid(old.i32(p)?) })
    })
}

pub(super) fn exit(f: &Fields<'_>) -> Option<Decode> {
    let (tid, comm) = (f.int(&["pid"])?, f.comm(&["comm"])?);
    decoder(move |p| Some(CoreEvent::SchedExit { tid: Tid(tid.i32(p)?), comm: comm.get(p)? }))
}

/// Where `task_rename` has no `pid`, the renamed thread is the current one, whom the record's
/// `common_pid` names.
pub(super) fn rename(f: &Fields<'_>) -> Option<Decode> {
    let new_comm = f.comm(&["newcomm"])?;
    let tid = f.int(&["pid"]).or_else(|| {
        let mut event = f.event.clone();
        event.fields.append(&mut event.common);
        Fields { event: &event, machine: f.machine }.int(&["common_pid"])
    })?;
    decoder(move |p| {
        Some(CoreEvent::TaskRename { tid: Tid(tid.i32(p)?), new_comm: new_comm.get(p)? })
    })
}
