//! What can go wrong: one message, with the place and the remedy.

use std::io;

/// Why this kernel, or this process, cannot run the compact collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyNot {
    /// No type information: the programs cannot be fitted to the kernel.
    #[error(
        "the kernel has no BTF (/sys/kernel/btf/vmlinux: {0}): boot a kernel with CONFIG_DEBUG_INFO_BTF, or record with --full"
    )]
    NoBtf(String),
    /// The process may not load BPF programs.
    #[error(
        "no permission to load BPF programs (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN): run as root"
    )]
    NoPermission,
    /// Lockdown in confidentiality mode forbids reading kernel memory.
    #[error(
        "kernel lockdown is in confidentiality mode, which forbids BPF programs to read kernel memory: record with --full"
    )]
    Lockdown,
    /// Older than what the programs need.
    #[error(
        "kernel {0} is too old: the compact collector needs Linux 5.14 or later (BPF programs of type syscall); record with --full"
    )]
    TooOld(String),
    /// The kernel refused a map of the kind the logs need.
    #[error(
        "the kernel refused a BPF map ({0}): seccomp or a container may forbid bpf(2); record on the host, or with --full"
    )]
    Refused(String),
    /// Not even the scheduler's tracepoints are there.
    #[error("the kernel's BTF has no tracepoint sched_switch: record with --full")]
    NoTracepoints,
}

/// Failure of the compact collector.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// The collector cannot run here at all.
    #[error(transparent)]
    CannotRun(#[from] WhyNot),
    /// The plan contradicts itself or the machine.
    #[error("{0}")]
    Plan(String),
    /// The kernel refused the programs.
    #[error("the kernel refused the BPF programs: {error}{log}")]
    Load {
        /// libbpf's error.
        error: libbpf_rs::Error,
        /// The last lines that libbpf and the verifier said, each on its own line.
        log: String,
    },
    /// A part of the loading or attaching failed.
    #[error("{doing}: {error}")]
    Bpf {
        /// What was being done, with the program or map.
        doing: String,
        /// libbpf's error.
        error: libbpf_rs::Error,
    },
    /// A call of the operating system failed.
    #[error("{doing}: {error}")]
    System {
        /// What was being done.
        doing: String,
        /// The error.
        error: io::Error,
    },
    /// Whoever takes the slices failed; recording has stopped, what was taken before is whole.
    #[error("cannot write the records: {0}; recording stopped at this point")]
    Sink(#[source] io::Error),
}

impl BpfError {
    pub(crate) fn bpf(doing: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Bpf { doing, error }
    }

    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::System { doing, error }
    }
}
