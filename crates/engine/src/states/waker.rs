//! Who woke a thread: another thread, or an interrupt.

use super::irqs::{Handler, Irqs};
use serde::{Deserialize, Serialize};
use transect_model::{
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
}

impl Waker {
    /// Of an event in the name of `tid` whose context is `told`, on a CPU with these handlers.
    pub(crate) fn of(tid: Tid, cpu: CpuId, told: Option<Context>, irqs: &Irqs) -> Self {
        let (context, handler) = irqs.within(told);
        let by_interrupt = context.is_some_and(Context::is_interrupt);
        Waker { tid: (!by_interrupt).then_some(tid), cpu, context, handler }
    }
}
