//! The sentences of findings, and what one can try.

use super::{
    names::{self, Names},
    sentences::reason,
};
use crate::{
    blame::Party,
    detect::{Carries, Confidence, Detail, Detector, Finding},
    piece::Why,
};
use transect_model::{
    number::{count, duration, share},
    time::TimeUnit,
};

/// What was found, in one sentence.
pub fn sentence(of: &dyn Names, finding: &Finding, unit: TimeUnit) -> String {
    let who = match (&finding.subject, &finding.detail) {
        // The CPU of a guest is its vCPU.
        (Party::Vcpu(machine, _), Detail::Interrupts { .. }) => names::machine(of, *machine),
        (subject, _) => names::party(of, subject),
    };
    let held = duration(finding.held_ns, unit);
    let part = share(finding.held_ns, finding.of_ns);
    let times = count(finding.count);
    match (finding.detector, &finding.detail) {
        (Detector::Starved, detail) => {
            let behind = match detail {
                Detail::Behind { who, why, ns } => {
                    let why = why.map(|why| format!(" ({})", reason(why))).unwrap_or_default();
                    let most = if *ns == finding.held_ns {
                        String::new()
                    } else {
                        format!(", {} of it", duration(*ns, unit))
                    };
                    format!("{most} behind {}{why}", names::party(of, who))
                }
                _ => String::new(),
            };
            format!("{who} waited {held} ({part} of the time that it wanted a CPU){behind}.")
        }
        (Detector::Throttled, Detail::Periods { ended, all }) => format!(
            "{who} waited {held} ({part} of the range, added up over CPUs), because its quota had ended in {} of {} periods.",
            count(*ended),
            count(*all)
        ),
        (Detector::Throttled, _) => {
            let because = match finding.confidence {
                Confidence::Certain => "because",
                Confidence::Likely => "most likely because",
            };
            format!(
                "{who} waited {held} ({part} of the range) {times} times, {because} its quota or cap had ended."
            )
        }
        (Detector::Affinity, Detail::Idle { cpu, is_allowed }) => {
            let allowed = match is_allowed {
                Some(true) => ", on which it may run",
                Some(false) => ", on which it may not run",
                None => "",
            };
            format!("{who} waited {held} ({part} of the range) while CPU {cpu} was idle{allowed}.")
        }
        (Detector::Affinity, _) => {
            format!("{who} waited {held} ({part} of the range) while another CPU was idle.")
        }
        (Detector::LockHolder, Detail::Holder { holder: Some(holder), behind }) => {
            let behind = behind
                .as_ref()
                .map(|by| format!(", displaced by {}", names::party(of, by)))
                .unwrap_or_default();
            let holder = names::thread(of, *holder);
            match finding.subject {
                Party::Machine(_) => format!(
                    "Threads of {who} waited for locks while {holder} had one and no CPU{behind}: {held} ({part} of all waits for locks)."
                ),
                _ => format!("{who} waited {held} ({part} of the range) for {holder}{behind}."),
            }
        }
        (Detector::LockHolder, _) => format!(
            "{who} paused {times} times in a loop while another of its vCPUs had no CPU: most likely that had a lock."
        ),
        (Detector::PingPong, Detail::PerRun(hundredths)) => format!(
            "{who} ran {times} times with {}.{:02} requests each, and waited {held} ({part}) for it.",
            hundredths / 100,
            hundredths % 100
        ),
        (Detector::ExitStorm, Detail::Exit { reason, detail, rip }) => {
            let about = detail.map(|detail| format!(" 0x{detail:x}")).unwrap_or_default();
            let at = rip.map(|rip| format!(" at 0x{rip:x}")).unwrap_or_default();
            let most = match about.is_empty() && at.is_empty() {
                true => String::new(),
                false => format!(", most often{about}{at}"),
            };
            format!(
                "{who} left the guest {times} times for {reason}{most}: {held} ({part} of its CPU time)."
            )
        }
        (Detector::HaltPoll, _) => {
            format!("The host polled for {who} in vain for {held} ({part} of its CPU time).")
        }
        (Detector::TimerStorm, Detail::Interrupts { cpu, thread }) => {
            let woke = thread
                .map(|thread| format!(", most often for {}", names::thread(of, thread)))
                .unwrap_or_default();
            format!(
                "Timers interrupted CPU {cpu} of {who} {times} times{woke}: {held} ({part} of the range)."
            )
        }
        (Detector::IpiStorm, Detail::Interrupts { cpu, thread }) => {
            let by = thread
                .map(|thread| format!(", most often {}", names::thread(of, thread)))
                .unwrap_or_default();
            format!(
                "Other CPUs interrupted CPU {cpu} of {who} {times} times{by}: {held} ({part} of the range)."
            )
        }
        (Detector::Reclaim, Detail::Pressure) => format!(
            "Threads of {who} waited for memory for {held} ({part} of the range): most likely the kernel reclaimed memory for them, or read it again."
        ),
        (Detector::Reclaim, _) => format!(
            "The kernel reclaimed memory for {who} {times} times before it could go on: {held} ({part} of the time of these threads)."
        ),
        (Detector::SlowDevice, Detail::Device { device, is_host }) => {
            let whose = if *is_host { "The host's device" } else { "Device" };
            format!(
                "{whose} {device} took {held} ({part} of the time) of {times} block requests of {who}."
            )
        }
        (Detector::SlowVmm, Detail::BackEnd { what, holder, behind }) => {
            let whom = holder.map_or("the VMM".to_owned(), |holder| names::thread(of, holder));
            let does = match what {
                Carries::Requests => "to pick them up or to tell of their end",
                Carries::Packets => "to carry them",
            };
            let behind = waited_behind(of, behind.as_ref(), ", and waited for a CPU behind ");
            let what = plural(*what);
            format!(
                "{what} of {who} waited {held} ({part} of their time) for {whom} {does}{behind}."
            )
        }
        (Detector::Delivery, Detail::BackEnd { what, behind, .. }) => {
            let behind = waited_behind(of, behind.as_ref(), ", which waited for a CPU behind ");
            let what = plural(*what);
            format!(
                "{what} of {who} waited {held} ({part} of their time) for its vCPU to take their interrupts{behind}."
            )
        }
        (Detector::DoubleCache, _) => format!(
            "{times} reads of {who} needed no device of the host ({part} of the time of its reads): they are in the page cache of both."
        ),
        (Detector::Lost, _) => {
            format!(
                "Events of {who} are lost for {held} ({part} of the range): that time is unknown."
            )
        }
        (Detector::Clock, Detail::Distance(ns)) => format!(
            "{times} events of {who} lie outside of the time in which its vCPUs ran, by up to {}: its clock does not fit.",
            duration(*ns, unit)
        ),
        (Detector::HostInnocent, _) => {
            format!("Nothing on the host kept {who}: {part} of the time was the host's.")
        }
        (detector, _) => format!("{who}: {}, {held} ({part}).", detector.as_str()),
    }
}

fn waited_behind(of: &dyn Names, who: Option<&Party>, how: &str) -> String {
    who.map(|who| format!("{how}{}", names::party(of, who))).unwrap_or_default()
}

fn plural(what: Carries) -> &'static str {
    match what {
        Carries::Requests => "Block requests",
        Carries::Packets => "Packets",
    }
}

/// What one can try.
pub fn hint(finding: &Finding) -> &'static str {
    match finding.detector {
        Detector::Starved => match finding.detail {
            Detail::Behind { why: Some(Why::Class), .. } => {
                "limit the thread of the higher class (its duty, or its CPUs), or pin this one elsewhere"
            }
            Detail::Behind { why: Some(Why::Affinity), .. } => {
                "widen its cpuset, or pin it to the idle CPU"
            }
            _ => "pin it elsewhere, or give it more weight (cpu.weight, Xen: weight)",
        },
        Detector::Throttled => "raise the quota (cpu.max, Xen: cap)",
        Detector::Affinity => "widen its cpuset, or pin it to the idle CPU",
        Detector::LockHolder => "fewer vCPUs, or pin them, so that those of one VM run together",
        Detector::PingPong => "an I/O thread, larger batches, or a smaller weight for its peer",
        Detector::ExitStorm => "virtio in place of emulated devices; a paravirtual clock and timer",
        Detector::HaltPoll => "a smaller halt_poll_ns (module kvm)",
        Detector::TimerStorm => "a larger timer slack, fewer short timers, nohz",
        Detector::IpiStorm => "fewer vCPUs for its threads, or pin its threads",
        Detector::Reclaim => {
            "a larger memory limit (memory.max, memory.high), or more memory for the machine"
        }
        Detector::SlowDevice => {
            "a faster device, or fewer requests to it; see transect report --view requests"
        }
        Detector::SlowVmm => {
            "an I/O thread (iothread) with a CPU of its own, or more weight for the thread"
        }
        Detector::Delivery => {
            "a CPU of its own for the vCPU that takes the interrupts, or another vCPU for them (smp_affinity)"
        }
        Detector::DoubleCache => "cache=none for the VM's disk",
        Detector::Lost => "record again with larger buffers (--buffer-size), or fewer events",
        Detector::Clock => "record again; see docs/reference/clocks.md",
        Detector::HostInnocent => "look inside the guest: the path shows where",
    }
}
