//! What is to be recorded, and how.

use crate::{
    BpfError,
    layout::CHUNK_BYTES,
    program::{Family, PROGRAMS, Program},
};

/// How system calls are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyscallMode {
    /// One record with duration, where nothing lies between entry and exit; else two.
    #[default]
    Folded,
    /// Always two records.
    Both,
    /// Only the exit, with number and result: an instant without duration, at about half the cost.
    ExitOnly,
}

/// What happens when a log is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A consumer takes the records; what does not fit meanwhile is lost, and counted.
    #[default]
    Continuous,
    /// The oldest chunk is overwritten; records are taken by [`crate::Compact::snapshot`].
    FlightRecorder,
}

/// A condition at which all logs are to stand still (flight recorder only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Which event pulls it.
    pub on: TriggerEvent,
    /// Least duration of the interval, ns. Must be 0 for events that have none.
    pub min_ns: u64,
}

/// Events that can pull the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    /// VM exit to VM entry on one CPU.
    KvmExit,
    /// A hard interrupt's handler.
    Irq,
    /// A softirq.
    Softirq,
    /// A system call during which nothing else was recorded.
    Syscall,
    /// A record kind by its number in the compact format: the first one pulls it.
    Kind(u8),
}

/// Which events are recorded. Any filter that is on lets an event pass; none on: all pass.
///
/// An event belongs to the current thread; a switch to both threads; a wakeup to the woken one too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    /// Threads, by the tid of the initial pid namespace.
    pub tids: Vec<u32>,
    /// Processes: a VM is the tgid of its VMM.
    pub tgids: Vec<u32>,
    /// A cgroup of the unified hierarchy, with all below it: its path below the mount of cgroup2.
    pub cgroup: Option<std::path::PathBuf>,
    /// Folded intervals shorter than this are dropped, ns.
    pub min_irq_ns: u64,
    /// The same for softirqs.
    pub min_softirq_ns: u64,
    /// The same for system calls.
    pub min_syscall_ns: u64,
    /// The same for VM exits.
    pub min_exit_ns: u64,
}

impl Filters {
    /// Is any filter by thread on? Then the log alone does not know who runs.
    pub(crate) fn by_thread(&self) -> bool {
        !self.tids.is_empty() || !self.tgids.is_empty() || self.cgroup.is_some()
    }
}

/// What is to be recorded, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Families of events.
    pub families: Vec<Family>,
    /// Events beyond the families' usual ones, as `system:event`.
    pub with: Vec<String>,
    /// Events left out, as `system:event`.
    pub without: Vec<String>,
    /// How system calls are recorded.
    pub syscalls: SyscallMode,
    /// Write the pairs of KVM and interrupts as one record where nothing lies between.
    pub fold: bool,
    /// Who and what is wanted.
    pub filters: Filters,
    /// Size of one CPU's main log: a power of two, at least two chunks (64 KiB).
    pub log_bytes_per_cpu: usize,
    /// What happens when it is full.
    pub mode: Mode,
    /// When a flight recorder is to stop by itself.
    pub trigger: Option<Trigger>,
    /// Wakings tell their context, where the kernel lets programs read it. Off, to measure what that costs.
    pub contexts: bool,
    /// Programs that do nothing, to measure what a program costs at least.
    pub empty_programs: bool,
    /// These take a stamp and do no more: how much of a program's cost is the clock.
    pub empty_stamps: bool,
}

impl Default for Plan {
    /// Everything but system calls, packets and work items; 8 MiB per CPU.
    fn default() -> Self {
        Self::of(&[Family::Sched, Family::Kvm, Family::Irq, Family::Block])
    }
}

/// Size of a side log: interrupts inside a writer are rare and short.
pub(crate) const SIDE_CHUNKS: u32 = 2;

impl Plan {
    /// The usual events of the families.
    pub fn of(families: &[Family]) -> Self {
        Self {
            families: families.to_vec(),
            with: Vec::new(),
            without: Vec::new(),
            syscalls: SyscallMode::default(),
            fold: true,
            filters: Filters::default(),
            log_bytes_per_cpu: 8 << 20,
            mode: Mode::default(),
            trigger: None,
            contexts: true,
            empty_programs: false,
            empty_stamps: false,
        }
    }

    /// Programs that the plan asks for, alternatives included.
    ///
    /// # Errors
    /// An event that no program records.
    pub fn programs(&self) -> Result<Vec<&'static Program>, BpfError> {
        for event in self.with.iter().chain(&self.without) {
            if !PROGRAMS.iter().any(|program| program.event == event) {
                return Err(BpfError::Plan(unknown_event(event)));
            }
        }
        Ok(PROGRAMS.iter().filter(|program| self.wants(program)).collect())
    }

    fn wants(&self, program: &Program) -> bool {
        let named = |list: &[String]| list.iter().any(|event| event == program.event);
        let in_family = program.usual && self.families.contains(&program.family);
        let skipped = self.syscalls == SyscallMode::ExitOnly && program.name == "sys_enter";
        (in_family || named(&self.with)) && !named(&self.without) && !skipped
    }

    /// # Errors
    /// Sizes and conditions that cannot be.
    pub(crate) fn check(&self) -> Result<(), BpfError> {
        let bytes = self.log_bytes_per_cpu;
        if !bytes.is_power_of_two() || !(2 * CHUNK_BYTES..=1 << 34).contains(&bytes) {
            return Err(BpfError::Plan(format!(
                "{bytes} bytes per CPU: the log size must be a power of two from 64 KiB to 16 GiB"
            )));
        }
        if self.trigger.is_some() && self.mode != Mode::FlightRecorder {
            return Err(BpfError::Plan(
                "a trigger needs a flight recorder: choose flight recorder mode, or remove the trigger"
                    .into(),
            ));
        }
        match self.trigger {
            Some(Trigger { on: TriggerEvent::Kind(_), min_ns }) if min_ns != 0 => {
                Err(BpfError::Plan(
                    "the event of the trigger has no duration: remove the minimum duration".into(),
                ))
            }
            _ => Ok(()),
        }
    }
}

fn unknown_event(event: &str) -> String {
    let name = event.split(':').next_back().unwrap_or(event);
    let close =
        PROGRAMS.iter().find(|program| program.event.contains(name) || program.name.contains(name));
    match close {
        Some(program) => {
            format!("no event {event} in the compact collector: did you mean {}?", program.event)
        }
        None => {
            format!("no event {event} in the compact collector: record it with --full -e {event}")
        }
    }
}

impl Family {
    /// The word for it on the command line and in metadata.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Syscalls => "syscalls",
            Self::Irq => "irq",
            Self::Vectors => "vectors",
            Self::Kvm => "kvm",
            Self::Block => "block",
            Self::Net => "net",
            Self::Work => "work",
            Self::Causes => "causes",
            Self::Stacks => "stacks",
            Self::Locks => "locks",
            Self::Quota => "quota",
            Self::Memory => "memory",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_takes_the_usual_events_and_those_named() {
        let mut plan = Plan::of(&[Family::Irq]);
        let names =
            |plan: &Plan| plan.programs().unwrap().iter().map(|p| p.name).collect::<Vec<_>>();
        assert_eq!(
            names(&plan),
            ["irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit"]
        );
        plan.with.push("irq:softirq_raise".into());
        plan.without.push("irq:irq_handler_exit".into());
        assert_eq!(
            names(&plan),
            ["irq_handler_entry", "softirq_entry", "softirq_exit", "softirq_raise"]
        );
    }

    #[test]
    fn unknown_events_and_odd_sizes_are_refused_in_words() {
        let plan = Plan { with: vec!["sched:sched_stat_runtime".into()], ..Plan::default() };
        assert!(
            plan.programs().unwrap_err().to_string().contains("--full -e sched:sched_stat_runtime")
        );
        let plan = Plan { log_bytes_per_cpu: 3 << 20, ..Plan::default() };
        assert!(plan.check().unwrap_err().to_string().contains("power of two"));
        let plan =
            Plan { trigger: Some(Trigger { on: TriggerEvent::Irq, min_ns: 1 }), ..Plan::default() };
        assert!(plan.check().unwrap_err().to_string().contains("flight recorder"));
    }
}
