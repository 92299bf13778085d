//! Interrupt context: what runs on a CPU in nobody's name, and which interrupt it is.

use serde::{Deserialize, Serialize};

/// In which context a CPU was, the innermost one: what the kernel's preemption count tells
/// (`include/linux/preempt.h`), and ftrace's `common_flags` of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Context {
    /// The current thread's own.
    Task,
    /// A softirq is being served: on the way out of an interrupt, or by ksoftirqd.
    Softirq,
    /// A hard interrupt.
    Irq,
    /// A non-maskable interrupt.
    Nmi,
}

impl Context {
    /// `TRACE_FLAG_HARDIRQ` of `include/linux/trace_events.h`.
    const FLAG_HARDIRQ: u8 = 0x08;
    /// `TRACE_FLAG_SOFTIRQ`.
    const FLAG_SOFTIRQ: u8 = 0x10;
    /// `TRACE_FLAG_NMI`, since Linux 4.6.
    const FLAG_NMI: u8 = 0x40;

    /// What `common_flags` of an ftrace record say.
    #[inline]
    pub fn from_common_flags(flags: u8) -> Self {
        match () {
            () if flags & Self::FLAG_NMI != 0 => Context::Nmi,
            () if flags & Self::FLAG_HARDIRQ != 0 => Context::Irq,
            () if flags & Self::FLAG_SOFTIRQ != 0 => Context::Softirq,
            () => Context::Task,
        }
    }

    /// An interrupt's: what happens in it is not the current thread's doing.
    #[inline]
    pub fn is_interrupt(self) -> bool {
        self != Context::Task
    }

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Context::Task => "task",
            Context::Softirq => "softirq",
            Context::Irq => "irq",
            Context::Nmi => "nmi",
        }
    }
}

/// Interrupts of x86 that are no line of a device: the event class of `irq_vectors:*` with a vector
/// (`arch/x86/include/asm/trace/irq_vectors.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum VectorSource {
    /// The timer of the CPU's local APIC.
    LocalTimer,
    /// Another CPU asks this one to schedule.
    Reschedule,
    /// Another CPU has a function for several CPUs to run.
    CallFunction,
    /// Another CPU has a function for this CPU to run.
    CallFunctionSingle,
    /// Work that this CPU, or another, put off until it may be done in an interrupt.
    IrqWork,
    /// The platform's own.
    PlatformIpi,
    /// The CPU is too hot.
    Thermal,
    /// A machine-check counter ran over.
    Threshold,
    /// A deferred machine-check error.
    DeferredError,
    /// An interrupt that was gone when the CPU looked.
    Spurious,
    /// The APIC found an error.
    Error,
    /// One that this version does not know.
    Other,
}

impl VectorSource {
    /// Every source.
    pub const ALL: [VectorSource; 12] = [
        VectorSource::LocalTimer,
        VectorSource::Reschedule,
        VectorSource::CallFunction,
        VectorSource::CallFunctionSingle,
        VectorSource::IrqWork,
        VectorSource::PlatformIpi,
        VectorSource::Thermal,
        VectorSource::Threshold,
        VectorSource::DeferredError,
        VectorSource::Spurious,
        VectorSource::Error,
        VectorSource::Other,
    ];

    /// The word in tables: the tracepoint's, without `_entry` or `_exit`.
    pub fn as_str(self) -> &'static str {
        match self {
            VectorSource::LocalTimer => "local_timer",
            VectorSource::Reschedule => "reschedule",
            VectorSource::CallFunction => "call_function",
            VectorSource::CallFunctionSingle => "call_function_single",
            VectorSource::IrqWork => "irq_work",
            VectorSource::PlatformIpi => "x86_platform_ipi",
            VectorSource::Thermal => "thermal_apic",
            VectorSource::Threshold => "threshold_apic",
            VectorSource::DeferredError => "deferred_error_apic",
            VectorSource::Spurious => "spurious_apic",
            VectorSource::Error => "error_apic",
            VectorSource::Other => "other_vector",
        }
    }
}

/// Linux' softirqs by number (`include/linux/interrupt.h`, 6.1).
const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// A softirq's name in the kernel.
pub fn softirq_name(vector: i32) -> Option<&'static str> {
    SOFTIRQS.get(usize::try_from(vector).ok()?).copied()
}

/// What an interrupt handler serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum IrqSource {
    /// An interrupt line, most often a device's.
    Line,
    /// A softirq.
    Softirq,
    /// A vector of the CPU's own.
    Vector(VectorSource),
}

impl IrqSource {
    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            IrqSource::Line => "line",
            IrqSource::Softirq => "softirq",
            IrqSource::Vector(source) => source.as_str(),
        }
    }

    /// The interrupt's name: its line's number, a softirq by its name in the kernel, a vector by its
    /// source.
    pub fn name(self, vector: i32) -> String {
        match self {
            IrqSource::Line => format!("irq {vector}"),
            IrqSource::Softirq => match softirq_name(vector) {
                Some(name) => format!("softirq {name}"),
                None => format!("softirq {vector}"),
            },
            IrqSource::Vector(source) => source.as_str().to_owned(),
        }
    }

    /// Every source.
    pub fn all() -> impl Iterator<Item = IrqSource> {
        let vectors = VectorSource::ALL.into_iter().map(IrqSource::Vector);
        [IrqSource::Line, IrqSource::Softirq].into_iter().chain(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_context_counts() {
        let cases = [
            (0x00, Context::Task),
            // Interrupts off, to be scheduled, softirqs off: all of a thread's own doing.
            (0x01 | 0x04 | 0x80, Context::Task),
            (0x10, Context::Softirq),
            (0x10 | 0x08, Context::Irq),
            (0x40 | 0x10 | 0x08, Context::Nmi),
        ];
        for (flags, context) in cases {
            assert_eq!(Context::from_common_flags(flags), context, "{flags:#x}");
        }
    }
}
