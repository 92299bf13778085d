//! One thread of a made-up recording.

use transect_model::ids::Tid;

/// One thread of the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) tid: Tid,
    /// VM and vCPU, if it runs one.
    pub(super) vcpu: Option<(u32, u32)>,
}

impl Planned {
    pub(super) fn name(self) -> String {
        match self.vcpu {
            Some((_, vcpu)) => format!("CPU {vcpu}/KVM"),
            None => format!("task-{}", self.tid),
        }
    }
}
