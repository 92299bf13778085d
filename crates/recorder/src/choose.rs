//! Which collector records: compact where it has what is wanted, else full, with the reason.

use super::{narrow::Narrow, recorder::Recorder, trigger::Trigger};
use anyhow::{Context, bail};
use std::path::PathBuf;
use transect_bpf::{
    Family, Filters, Mode, PROGRAMS, Plan, Trigger as LogTrigger, TriggerEvent, can_run,
};
use transect_compact::kind;
use transect_tracefs::{EventRequest, Namespaces, Profile, namespaces::IdKind};

/// The clock that BPF programs stamp with.
const COMPACT_CLOCK: &str = "mono";

/// What one map of the kernel may hold, generously.
const MAX_LOG_BYTES: usize = 16 << 30;

/// The families of the profiles `io` and `explain`.
pub(super) const IO: &[Family] =
    &[Family::Sched, Family::Kvm, Family::Irq, Family::Block, Family::Net, Family::Syscalls];
const EXPLAIN: &[Family] = &[
    Family::Sched,
    Family::Kvm,
    Family::Irq,
    Family::Block,
    Family::Net,
    Family::Syscalls,
    Family::Vectors,
    Family::Work,
    Family::Causes,
    Family::Locks,
    Family::Quota,
    Family::Memory,
];
/// What `explain` has beyond the families' usual events: bios of devices that are made of others are a VMM's requests.
const BEYOND: [&str; 3] =
    ["irq:softirq_raise", "block:block_bio_queue", "block:block_bio_complete"];

/// The plan of the profile `explain`.
pub(super) fn explain() -> Plan {
    let with = BEYOND.map(str::to_owned).to_vec();
    Plan { with, ..Plan::of(EXPLAIN) }
}

/// How the host is recorded.
pub(super) enum Choice {
    /// By BPF programs.
    Compact(Box<Plan>),
    /// By tracefs; the reason is for the user, unless he asked for it.
    Full(Option<String>),
}

/// Chooses, and makes the plan.
///
/// # Errors
/// What is wanted is in neither collector.
pub(super) fn choose(wanted: &Recorder) -> anyhow::Result<Choice> {
    let narrow = &wanted.narrow;
    if wanted.full {
        if !narrow.is_empty() {
            bail!(
                "--filter vm=, cgroup=, pid=, tid= and dur>= need the compact collector: remove --full, or write 'SYS:EVENT if EXPR'"
            );
        }
        if wanted.stacks {
            bail!("--stacks needs the compact collector: remove --full");
        }
        return Ok(Choice::Full(None));
    }
    let reason = match plan(wanted)? {
        Err(reason) => reason,
        Ok(plan) => match can_run() {
            Ok(_) => return Ok(Choice::Compact(Box::new(plan))),
            Err(why) => why.to_string(),
        },
    };
    if !narrow.is_empty() {
        bail!("--filter vm=, cgroup=, pid=, tid=, dur>= need the compact collector: {reason}");
    }
    if wanted.stacks {
        bail!("--stacks needs the compact collector: {reason}");
    }
    Ok(Choice::Full(Some(reason)))
}

/// The plan, or what the compact collector lacks for it.
fn plan(wanted: &Recorder) -> anyhow::Result<Result<Plan, String>> {
    if let Some(clock) = wanted.clock.as_deref().filter(|clock| *clock != COMPACT_CLOCK) {
        return Ok(Err(format!(
            "the compact collector uses the clock {COMPACT_CLOCK}, not {clock}"
        )));
    }
    if wanted.kallsyms {
        return Ok(Err("--kallsyms needs a trace.dat".to_owned()));
    }
    let mut plan = match events(wanted) {
        Ok(plan) => plan,
        Err(lack) => return Ok(Err(lack)),
    };
    if wanted.stacks {
        add_stacks(&mut plan)?;
    }
    plan.filters = filters(&wanted.narrow)?;
    if let Some(kb) = wanted.buffer_kb {
        plan.log_bytes_per_cpu = log_bytes(kb)?;
    }
    let Some(flight) = &wanted.flight else { return Ok(Ok(plan)) };
    plan.mode = Mode::FlightRecorder;
    match flight.trigger.as_ref().map(trigger).transpose() {
        Ok(trigger) => plan.trigger = trigger,
        Err(lack) => return Ok(Err(lack)),
    }
    Ok(Ok(plan))
}

/// Which events: a profile's families, or those named.
fn events(wanted: &Recorder) -> Result<Plan, String> {
    let in_kernel = |text: &str| format!("{text} is kernel filter syntax");
    if let Some(condition) = wanted.conditions.first() {
        return Err(in_kernel(&condition.expression));
    }
    let only_named = wanted.profile.is_none() && !wanted.events.is_empty();
    let mut plan = match wanted.profile.unwrap_or(Profile::Vm) {
        _ if only_named => Plan::of(&[]),
        Profile::Sched => Plan::of(&[Family::Sched]),
        Profile::Vm => Plan::of(&[Family::Sched, Family::Kvm, Family::Irq]),
        Profile::Io => Plan::of(IO),
        Profile::Explain => explain(),
        other => {
            return Err(format!(
                "profile {} has events that the compact collector lacks",
                other.name()
            ));
        }
    };
    for EventRequest { system, event, filter, .. } in &wanted.events {
        if let Some(filter) = filter {
            return Err(in_kernel(filter));
        }
        let name = format!("{system}:{event}");
        if !PROGRAMS.iter().any(|program| program.event == name) {
            return Err(format!("the compact collector lacks {name}"));
        }
        plan.with.push(name);
    }
    Ok(plan)
}

/// The stacks of what is recorded.
fn add_stacks(plan: &mut Plan) -> anyhow::Result<()> {
    plan.families.push(Family::Stacks);
    let programs = plan.programs()?;
    if !programs.iter().any(|program| program.has_stack()) {
        bail!(
            "--stacks: none of the chosen events has a stack (block requests, packets, interrupts of vCPUs): use --profile explain"
        );
    }
    Ok(())
}

fn filters(narrow: &Narrow) -> anyhow::Result<Filters> {
    let cgroup = match narrow.cgroups.as_slice() {
        [] => None,
        [one] => Some(PathBuf::from(one)),
        _ => bail!("--filter cgroup= is given more than once; name a common ancestor"),
    };
    let namespaces = Namespaces::current();
    let ids = |key: &str, kind: IdKind, numbers: &[u32]| -> anyhow::Result<Vec<u32>> {
        let convert = |number: &u32| {
            let id = namespaces.initial_id(kind, *number);
            id.with_context(|| format!("--filter {key}={number}"))
        };
        numbers.iter().map(convert).collect()
    };
    let tids = ids("tid", IdKind::Thread, &narrow.tids)?;
    let mut tgids = ids("pid", IdKind::Process, &narrow.pids)?;
    if let Some(name) = narrow.vms.first() {
        if let Some(why) = namespaces.why_no_processes() {
            let fix = namespaces.fix().unwrap_or_default();
            bail!("--filter vm={name}: VMs cannot be discovered: {why}. {fix}");
        }
        let found = transect_guest::discover::vms_in(namespaces.procfs());
        for name in &narrow.vms {
            let Some(vm) = found.vms.iter().find(|vm| vm.name == *name) else {
                let names: Vec<_> = found.vms.iter().map(|vm| vm.name.as_str()).collect();
                let running = if names.is_empty() { "none".into() } else { names.join(", ") };
                bail!("--filter vm={name}: no such VM on this host (running: {running})");
            };
            tgids.push(u32::try_from(vm.pid)?);
        }
    }
    let min_ns = u64::try_from(narrow.min_duration.unwrap_or_default().as_nanos())?;
    Ok(Filters {
        tids,
        tgids,
        cgroup,
        min_irq_ns: min_ns,
        min_softirq_ns: min_ns,
        min_syscall_ns: min_ns,
        min_exit_ns: min_ns,
    })
}

/// Logs are powers of two: the next one that holds what was asked for.
pub(super) fn log_bytes(kb: u64) -> anyhow::Result<usize> {
    let bytes = usize::try_from(kb)?.checked_mul(1024).and_then(usize::checked_next_power_of_two);
    match bytes {
        Some(bytes) if bytes <= MAX_LOG_BYTES => Ok(bytes.max(64 << 10)),
        _ => {
            bail!("--buffer-size: {kb} KiB per CPU exceeds the limit of the compact collector, 16G")
        }
    }
}

/// A trigger the programs can test, or why they cannot.
fn trigger(trigger: &Trigger) -> Result<LogTrigger, String> {
    let name = format!("{}:{}", trigger.system(), trigger.event());
    let interval = match name.as_str() {
        "kvm:kvm_exit" => Some(TriggerEvent::KvmExit),
        "irq:irq_handler_entry" => Some(TriggerEvent::Irq),
        "irq:softirq_entry" => Some(TriggerEvent::Softirq),
        "raw_syscalls:sys_enter" => Some(TriggerEvent::Syscall),
        _ => None,
    };
    let event = interval.or_else(|| kind_of(&name).map(TriggerEvent::Kind));
    let Some(on) = event else {
        return Err(format!("the compact collector cannot trigger on {name}"));
    };
    let Some(expression) = trigger.expression() else {
        return Ok(LogTrigger { on, min_ns: 0 });
    };
    let mut narrow = Narrow::default();
    let length = match narrow.take(expression) {
        Some(Ok(())) => narrow.min_duration.filter(|_| interval.is_some()),
        _ => None,
    };
    match length.and_then(|length| u64::try_from(length.as_nanos()).ok()) {
        Some(min_ns) => Ok(LogTrigger { on, min_ns }),
        None => Err(format!("{expression} is kernel filter syntax")),
    }
}

/// The record of an event that always has the same kind.
fn kind_of(event: &str) -> Option<u8> {
    Some(match event {
        "sched:sched_wakeup_new" => kind::WAKEUP_NEW,
        "sched:sched_process_fork" => kind::FORK,
        "sched:sched_process_exec" => kind::EXEC,
        "sched:sched_process_exit" => kind::EXIT,
        "task:task_rename" => kind::NAME,
        "kvm:kvm_userspace_exit" => kind::KVM_USERSPACE_EXIT,
        "kvm:kvm_pio" => kind::KVM_PIO,
        "kvm:kvm_mmio" => kind::KVM_MMIO,
        "kvm:kvm_fast_mmio" => kind::KVM_FAST_MMIO,
        "kvm:kvm_set_irq" => kind::KVM_SET_IRQ,
        "kvm:kvm_msi_set_irq" => kind::KVM_MSI,
        "kvm:kvm_inj_virq" => kind::KVM_INJ_VIRQ,
        "kvm:kvm_write_tsc_offset" => kind::KVM_TSC_OFFSET,
        "block:block_rq_insert" => kind::BLOCK_INSERT,
        "block:block_rq_issue" => kind::BLOCK_ISSUE,
        "block:block_rq_complete" => kind::BLOCK_COMPLETE,
        "net:net_dev_xmit" => kind::NET_XMIT,
        "net:netif_receive_skb" => kind::NET_RECEIVE,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_the_logs_can_test() {
        let parse = |text: &str| trigger(&Trigger::parse(text).unwrap());
        let exit = parse("kvm:kvm_exit if dur>=1ms").unwrap();
        assert_eq!((exit.on, exit.min_ns), (TriggerEvent::KvmExit, 1_000_000));
        let exec = parse("sched:sched_process_exec").unwrap();
        assert_eq!(exec.on, TriggerEvent::Kind(kind::EXEC));
        for full in [
            "sched:sched_switch if prev_prio < 100",
            "sched:sched_switch",
            "net:net_dev_xmit if dur>=1ms",
        ] {
            assert!(parse(full).is_err(), "{full}");
        }
    }

    #[test]
    fn logs_are_powers_of_two() {
        assert_eq!(log_bytes(8 << 10).unwrap(), 8 << 20);
        assert_eq!(log_bytes(5 << 10).unwrap(), 8 << 20);
        assert_eq!(log_bytes(1).unwrap(), 64 << 10);
    }
}
