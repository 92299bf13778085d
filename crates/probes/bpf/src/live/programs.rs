//! The counting programs: one flat table, and which of them this kernel can have.

use std::path::Path;

use crate::{KvmExitMethod, choice, kernel::Names};

/// One program of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveProgram {
    pub(crate) name: &'static str,
    /// The event it counts, spelled as tracefs spells it.
    pub(crate) event: &'static str,
}

const fn row(name: &'static str, event: &'static str) -> LiveProgram {
    LiveProgram { name, event }
}

/// Without this one there is nothing to show.
pub(crate) const SWITCH: &str = "live_switch";

/// Reads who is there; not on a tracepoint.
pub(crate) const TASKS: &str = "live_tasks";
const EXIT_SVM: &str = "live_exit_svm";
const EXIT_CLASSIC: &str = "live_exit_classic";

/// Every counting program. Two rows of one event are alternatives.
pub(crate) const PROGRAMS: &[LiveProgram] = &[
    row(SWITCH, "sched:sched_switch"),
    row("live_waking", "sched:sched_waking"),
    row("live_wakeup_new", "sched:sched_wakeup_new"),
    row("live_migrate", "sched:sched_migrate_task"),
    row("live_fork", "sched:sched_process_fork"),
    row("live_exec", "sched:sched_process_exec"),
    row("live_rename", "task:task_rename"),
    row("live_entry", "kvm:kvm_entry"),
    row(EXIT_SVM, "kvm:kvm_exit"),
    row(EXIT_CLASSIC, "kvm:kvm_exit"),
    row("live_userspace_exit", "kvm:kvm_userspace_exit"),
    row("live_halt", "kvm:kvm_vcpu_wakeup"),
    row("live_halt_poll", "kvm:kvm_halt_poll_ns"),
    row("live_pio", "kvm:kvm_pio"),
    row("live_mmio", "kvm:kvm_mmio"),
    row("live_fast_mmio", "kvm:kvm_fast_mmio"),
    row("live_set_irq", "kvm:kvm_set_irq"),
    row("live_msi", "kvm:kvm_msi_set_irq"),
    row("live_inj_virq", "kvm:kvm_inj_virq"),
    row("live_block_queue", "block:block_bio_queue"),
    row("live_block_issue", "block:block_rq_issue"),
    row("live_block_complete", "block:block_rq_complete"),
    row("live_net_xmit", "net:net_dev_xmit"),
    row("live_net_receive", "net:netif_receive_skb"),
];

impl LiveProgram {
    pub(crate) fn is_kvm(&self) -> bool {
        self.event.starts_with("kvm:")
    }

    fn tracepoint(&self) -> &'static str {
        self.event.split_once(':').map_or(self.event, |(_, name)| name)
    }

    fn is_possible(&self, names: &Names) -> bool {
        match self.name {
            // Other architectures' KVM events have the same names and other arguments.
            _ if self.is_kvm() && !cfg!(target_arch = "x86_64") => false,
            EXIT_SVM => choice::kvm_exit_method(names) == KvmExitMethod::Svm,
            EXIT_CLASSIC => choice::kvm_exit_method(names) == KvmExitMethod::Classic,
            _ => names.has_tracepoint(self.tracepoint()),
        }
    }
}

/// An event that is not counted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCounted {
    /// The event, as `system:event`.
    pub event: &'static str,
    /// Why: one clause.
    pub why: String,
}

/// The programs wanted that this kernel can have, and the events for which it has none.
pub(crate) fn choose(
    names: &Names,
    wanted: impl Fn(&LiveProgram) -> bool,
) -> (Vec<&'static LiveProgram>, Vec<NotCounted>) {
    let wanted: Vec<_> = PROGRAMS.iter().filter(|program| wanted(program)).collect();
    let (possible, lacking): (Vec<&LiveProgram>, Vec<&LiveProgram>) =
        wanted.into_iter().partition(|program| program.is_possible(names));
    let mut absent: Vec<NotCounted> = Vec::new();
    for program in lacking {
        let has_other = possible.iter().any(|other| other.event == program.event);
        if !has_other && absent.iter().all(|known| known.event != program.event) {
            absent.push(NotCounted { event: program.event, why: why_lacking(program) });
        }
    }
    absent.extend(never_traced(Path::new("/sys/module")));
    (possible, absent)
}

fn why_lacking(program: &LiveProgram) -> String {
    match program.is_kvm() {
        true if !cfg!(target_arch = "x86_64") => "KVM events are counted on x86-64 only".to_owned(),
        true if !Path::new("/sys/module/kvm").exists() => {
            "KVM is not loaded (modprobe kvm_amd or kvm_intel)".to_owned()
        }
        _ => format!("this kernel has no {} (or no BTF for it)", program.event),
    }
}

/// Events that are declared and never happen: with the PVM back end, the switch into the guest is not
/// where KVM's generic code traces it.
fn never_traced(modules: &Path) -> Vec<NotCounted> {
    let has = |module: &str| modules.join(module).exists();
    if !has("kvm_pvm") || has("kvm_amd") || has("kvm_intel") {
        return Vec::new();
    }
    let never = |event| NotCounted {
        event,
        why: "KVM uses the PVM backend (kvm_pvm), which never traces this event".to_owned(),
    };
    vec![never("kvm:kvm_entry"), never("kvm:kvm_exit")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_kvm_its_events_are_not_counted_and_the_rest_is() {
        let names = Names::default();
        let (programs, absent) = choose(&names, |_| true);
        assert!(programs.is_empty());
        let exit = absent.iter().find(|a| a.event == "kvm:kvm_exit").unwrap();
        assert!(!exit.why.is_empty());
        assert_eq!(absent.iter().filter(|a| a.event == "sched:sched_switch").count(), 1);
    }

    #[test]
    fn pvm_has_events_that_never_come() {
        let modules = tempfile::tempdir().unwrap();
        assert!(never_traced(modules.path()).is_empty());
        std::fs::create_dir(modules.path().join("kvm_pvm")).unwrap();
        assert_eq!(never_traced(modules.path()).len(), 2);
        std::fs::create_dir(modules.path().join("kvm_amd")).unwrap();
        assert!(never_traced(modules.path()).is_empty());
    }
}
