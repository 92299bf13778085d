//! Names of the actors, as small copyable numbers.
//!
//! A number is only meaningful together with the machine it belongs to: tid 42 of a guest is not
//! tid 42 of the host. Types keep the kinds apart; [`MachineId`] keeps the machines apart.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A machine of one recording: host, hypervisor, guest or container. Dense, from 0.
    MachineId(u32)
}
id! {
    /// A CPU as the machine it belongs to numbers it: a pCPU on the host, a vCPU index in a guest.
    CpuId(u32)
}
id! {
    /// A vCPU of a VM, as KVM numbers it (`vcpu_id`) or as Xen does.
    VcpuId(u32)
}
id! {
    /// A thread id in its machine's initial pid namespace (`common_pid` of the ftrace record).
    /// 0 is the idle thread of whichever CPU runs it.
    Tid(i32)
}

impl Tid {
    /// The idle thread: one per CPU, all with this number.
    pub const IDLE: Tid = Tid(0);

    /// Is this the idle thread, that is: does the CPU have nothing to run?
    pub fn is_idle(self) -> bool {
        self == Tid::IDLE
    }
}

/// A block device: the kernel's internal `dev_t` (include/linux/kdev_t.h), major << 20 | minor.
/// Shown as `major:minor`, as `lsblk` and `/sys/dev/block` do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockDevice(pub u32);

impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0 >> 20, self.0 & 0xf_ffff)
    }
}

/// What kind of machine this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineKind {
    /// The machine whose kernel schedules the others (with KVM: kernel and hypervisor in one).
    Host,
    /// A type-1 hypervisor below the first kernel (Xen).
    Hypervisor,
    /// A VM, seen from outside only or with its own kernel's events too.
    Guest,
    /// A cgroup that people know as a container.
    Container,
}

impl MachineKind {
    /// The word used in tables and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            MachineKind::Host => "host",
            MachineKind::Hypervisor => "hypervisor",
            MachineKind::Guest => "guest",
            MachineKind::Container => "container",
        }
    }
}

/// Is the control group at `path` the group `ancestor`, or below it?
pub fn is_in_cgroup(path: &str, ancestor: &str) -> bool {
    let rest = path.strip_prefix(ancestor.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
