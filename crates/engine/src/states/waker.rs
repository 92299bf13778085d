//! Who woke a thread: another thread, or an interrupt.

use super::{
    causes::{OnCpu, on_cpu::About},
    irqs::{Handler, Irqs},
};
use serde::{Deserialize, Serialize};
use transect_model::{
    cause::CauseKind,
    ids::{CpuId, Tid},
    interrupt::Context,
};

/// Who woke a thread.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Waker {
    /// The thread; none if an interrupt did.
    pub(crate) tid: Option<Tid>,
    /// Where.
    pub(crate) cpu: CpuId,
    /// In which context; none if that is not known.
    pub(crate) context: Option<Context>,
    /// The interrupt's handler, if it was recorded.
    pub(crate) handler: Option<Handler>,
    /// What the interrupt was about, if that was seen.
    pub(crate) about: Option<About>,
}

impl Waker {
    /// Of a waking at `t` in the name of `tid` whose context is `told`, on a CPU with these handlers.
    pub(crate) fn of(
        (t, tid): (i64, Tid),
        cpu: CpuId,
        told: Option<Context>,
        (irqs, on_its_way): (&Irqs, &OnCpu),
    ) -> Self {
        let (context, open) = irqs.within(told);
        let by_interrupt = context.is_some_and(Context::is_interrupt);
        Waker {
            tid: (!by_interrupt).then_some(tid),
            cpu,
            context,
            handler: open.map(|open| open.handler),
            about: on_its_way.about(t, open),
        }
    }

    /// Of a thread that starts another one: in its own context (`wake_up_new_task`).
    pub(crate) fn parent(t: i64, tid: Tid, cpu: CpuId) -> Self {
        let about = Some(About { kind: CauseKind::Fork, ts: t, id: None });
        Waker { tid: Some(tid), cpu, context: Some(Context::Task), handler: None, about }
    }
}
