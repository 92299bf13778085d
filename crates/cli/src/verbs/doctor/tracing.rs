//! Can this kernel be recorded: tracefs, its clocks, its tracepoints?

use super::check::Check;
use std::path::Path;
use transect_tracefs::{Instance, Tracefs, TracefsError, X86_TSC, choose_clock};

/// Name prefix of the instances this verb makes and removes.
const PREFIX: &str = "transect-doctor";

/// What the reports need, by subsystem: without `sched` there is nothing to say, without `kvm` VMs
/// are only processes.
const WANTED: &[(&str, &str, &str)] = &[
    (
        "sched",
        "sched/sched_switch",
        "boot a kernel with CONFIG_SCHED_TRACER or CONFIG_EVENT_TRACING",
    ),
    ("irq", "irq/irq_handler_entry", "boot a kernel with CONFIG_EVENT_TRACING"),
    ("kvm", "kvm/kvm_exit", "modprobe kvm-amd or kvm-intel"),
    ("raw_syscalls", "raw_syscalls/sys_enter", "boot a kernel with CONFIG_FTRACE_SYSCALLS"),
];

pub(super) fn checks() -> Vec<Check> {
    let tracefs = match Tracefs::find() {
        Ok(tracefs) => tracefs,
        Err(error) => {
            return vec![
                Check::missing(
                    "tracefs",
                    error.to_string(),
                    "as root: mount -t tracefs nodev /sys/kernel/tracing",
                )
                .essential(),
            ];
        }
    };
    let mut all = vec![instance(&tracefs), trace_clock(&tracefs), tsc()];
    all.extend(WANTED.iter().map(|(name, event, mend)| tracepoints(&tracefs, name, event, mend)));
    all
}

/// Makes an instance and removes it: the first thing a recording does.
fn instance(tracefs: &Tracefs) -> Check {
    let made = Instance::create(tracefs, PREFIX).and_then(|instance| {
        let kb = instance.buffer_kb_per_cpu()?;
        instance.remove()?;
        Ok(kb)
    });
    match made {
        Ok(_) => Check::ok(
            "tracefs",
            format!("{}: a tracing instance was created and removed", tracefs.root().display()),
        ),
        Err(error) => Check::missing("tracefs", error.to_string(), "run as root").essential(),
    }
}

fn trace_clock(tracefs: &Tracefs) -> Check {
    match choose_clock(tracefs, None) {
        Ok(choice) if choice.name == X86_TSC => Check::ok(
            "trace clock",
            "x86-tsc: guests are aligned exactly if KVM's TSC offset is readable",
        ),
        Ok(choice) => Check::limited(
            "trace clock",
            format!("{}: guest clocks are estimated, not exact", choice.name),
            "on x86, boot with a TSC that the kernel trusts (see clocksource below)",
        ),
        Err(error) => Check::missing("trace clock", error.to_string(), "run as root").essential(),
    }
}

/// Does the kernel itself trust the TSC? What it does not trust, drifts between CPUs.
fn tsc() -> Check {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(path).unwrap_or_default();
    match source.trim() {
        "" => Check::limited("clocksource", format!("cannot read {path}"), "run as root"),
        "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page" | "arch_sys_counter" => {
            Check::ok("clocksource", format!("{} (counter trusted by the kernel)", source.trim()))
        }
        other => Check::limited(
            "clocksource",
            format!(
                "{other}: the kernel does not trust the TSC, the timestamps of two CPUs may differ"
            ),
            "if the TSC of the hardware is reliable, boot with tsc=reliable clocksource=tsc",
        ),
    }
}

fn tracepoints(tracefs: &Tracefs, name: &str, event: &str, mend: &str) -> Check {
    let facility = match name {
        "sched" => "sched events",
        "irq" => "irq events",
        "kvm" => "kvm events",
        _ => "syscall events",
    };
    if Path::new(&tracefs.path(&format!("events/{event}/format"))).exists() {
        let dir = tracefs.path(&format!("events/{name}"));
        let count =
            std::fs::read_dir(dir).map(|d| d.flatten().filter(|e| e.path().is_dir()).count());
        Check::ok(facility, format!("{} tracepoints", count.unwrap_or(0)))
    } else if name == "sched" {
        Check::missing(facility, format!("no tracepoint {event}"), mend).essential()
    } else {
        Check::missing(facility, format!("no tracepoint {event}"), mend)
    }
}

/// Counts how often `event` (`system/name`) fires on this machine while `run` runs; none where
/// tracefs or the tracepoint is missing.
pub(super) fn count_events(
    event: &str,
    run: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Option<u64>> {
    let counter = Tracefs::find().ok().and_then(|tracefs| counting_instance(&tracefs, event).ok());
    let ran = run();
    let count = counter.map(count_and_remove).transpose();
    ran?;
    Ok(count?)
}

fn counting_instance(tracefs: &Tracefs, event: &str) -> Result<Instance, TracefsError> {
    let instance = Instance::create(tracefs, PREFIX)?;
    let (system, name) = event.split_once('/').unwrap_or((event, ""));
    instance.enable(system, Some(name))?;
    instance.set_tracing(true)?;
    Ok(instance)
}

fn count_and_remove(instance: Instance) -> Result<u64, TracefsError> {
    instance.set_tracing(false)?;
    let mut events = 0;
    for cpu in transect_tracefs::cpus::possible()? {
        if let Ok(stats) = instance.cpu_stats(cpu) {
            events += stats.entries + stats.lost();
        }
    }
    instance.disable_all()?;
    instance.remove()?;
    Ok(events)
}
