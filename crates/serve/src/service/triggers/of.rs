//! Kinds of actors.

/// Whose rows are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Vcpu,
    Vm,
    Cgroup,
}

impl Of {
    pub(super) const ALL: [(&'static str, Of); 3] =
        [("vcpu", Of::Vcpu), ("vm", Of::Vm), ("cgroup", Of::Cgroup)];

    pub(crate) fn word(self) -> &'static str {
        Of::ALL.iter().find(|(_, of)| *of == self).map_or("", |(word, _)| word)
    }

    /// Is a row about such an actor, that is about a vCPU, a control group, a thread?
    pub(super) fn is(self, is_vcpu: bool, is_cgroup: bool, is_thread: bool) -> bool {
        match self {
            Of::Vcpu => is_vcpu,
            Of::Cgroup => is_cgroup,
            Of::Vm => !is_vcpu && !is_cgroup && !is_thread,
        }
    }
}
