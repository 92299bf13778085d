//! The first lines of a report: what the tables say about who is to blame, at a glance.
//!
//! Every sentence is computed from the report's own lines; where the data says nothing, nothing is
//! said.

use super::build::Report;
use super::lines::{AntagonistLine, ThreadLine, VcpuLine};
use super::text::{antagonist, count, counted, duration, machine_name, share};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use transect_model::table::Lost;

/// Below this share of its window, waiting is noise rather than a finding.
const WORTH_NAMING: f64 = 0.01;
/// A second VM is named from this share of its vCPU's window on.
const ALSO_WORTH_NAMING: f64 = 0.05;

/// Three to six sentences.
pub(crate) fn sentences(report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(filtered(report));
    out.extend(waiting(report));
    out.extend(stolen_thread(report));
    out.extend(exit_cost(report));
    if report.vcpus.is_empty() {
        out.extend(busiest_thread(report));
        out.extend(slowest_wakeups(report));
    }
    out.push(lost(report));
    out.extend(overwritten(report));
    out.extend(damage(report));
    out.extend(clocks(report));
    out
}

/// A filter leaves the states of most threads unknown: said before anything that rests on states.
fn filtered(report: &Report) -> Option<String> {
    let filter = report.facts.filter.as_ref()?;
    Some(format!("Recorded with the filter {filter}: {}.", report.facts.filter_effect))
}

/// How far back the events of each CPU reach, where a flight recorder has overwritten those before.
fn overwritten(report: &Report) -> Option<String> {
    let window = report.facts.window;
    report.facts.snapshot.as_ref()?;
    // The last hole of each CPU: events of a page that was being read may precede it.
    let mut heads: BTreeMap<_, &Lost> = BTreeMap::new();
    let is_head =
        |row: &&Lost| matches!(row.cause.as_str(), "overwritten" | "buffer_overrun") && row.dur > 0;
    for row in report.lost.iter().filter(is_head) {
        let head = heads.entry((row.machine_id, row.cpu?)).or_insert(row);
        *head = if row.ts > head.ts { row } else { head };
    }
    let heads: Vec<&Lost> = heads.into_values().collect();
    let worst = heads.iter().max_by_key(|row| row.ts + row.dur)?;
    let best = heads.iter().min_by_key(|row| row.ts + row.dur)?;
    let reach = |row: &Lost| ns(report, window.end.get() - (row.ts + row.dur));
    let cpu = |row: &Lost| {
        let machine = report.machines.iter().find(|m| m.machine_id == row.machine_id);
        let machine = machine.map_or("", |machine| machine.name.as_str());
        row.cpu.map_or_else(String::new, |cpu| format!("{machine} CPU {cpu}"))
    };
    let others = match heads.len() {
        1 => String::new(),
        n => format!(", {} up to {}", counted(n as u64 - 1, "other CPU"), reach(best)),
    };
    Some(format!(
        "The events of {} reach back {} of the {} window{others}; before that, their states are unknown.",
        cpu(worst),
        reach(worst),
        ns(report, window.dur_ns())
    ))
}

/// The vCPUs that waited most behind others, at most one of each of two VMs.
fn waiting(report: &Report) -> Vec<String> {
    let mut victims: Vec<(&VcpuLine, i64)> =
        report.vcpus.iter().map(|vcpu| (vcpu, wait_behind_others(report, vcpu))).collect();
    victims.sort_by_key(|(vcpu, behind_others)| Reverse((*behind_others, vcpu.waited_ns)));
    let Some((worst, _)) = victims.first() else {
        return Vec::new();
    };
    if !is_worth_naming(worst.waited_ns, worst.window_ns) {
        return vec![format!(
            "No vCPU waited long because another VM or a host thread held the CPU (maximum: {}, {} of {}).",
            vcpu_name(worst),
            share(worst.waited_ns, worst.window_ns),
            ns(report, worst.window_ns)
        )];
    }
    let of_another_vm = victims.iter().find(|(vcpu, behind_others)| {
        vcpu.machine_id != worst.machine_id
            && *behind_others as f64 > vcpu.window_ns as f64 * ALSO_WORTH_NAMING
    });
    let named = [Some(worst), of_another_vm.map(|(vcpu, _)| vcpu)];
    named.into_iter().flatten().map(|vcpu| wait(report, vcpu)).collect()
}

/// "web vcpu0 wanted a CPU for 2.50 s (50.0 % of 5.00 s); it waited for 82.0 % of that (2.05 s),
/// 97.3 % of the wait because batch held the CPU (vcpu0 1.80 s, vcpu1 0.20 s)."
fn wait(report: &Report, vcpu: &VcpuLine) -> String {
    let wanted_ns = vcpu.gotten_ns + vcpu.waited_ns;
    format!(
        "{} wanted a CPU for {} ({} of {}); it waited for {} of that ({}){}.",
        vcpu_name(vcpu),
        ns(report, wanted_ns),
        share(wanted_ns, vcpu.window_ns),
        ns(report, vcpu.window_ns),
        share(vcpu.waited_ns, wanted_ns),
        ns(report, vcpu.waited_ns),
        behind(report, vcpu)
    )
}

/// How long a vCPU waited for CPUs that others than its own VM had.
fn wait_behind_others(report: &Report, victim: &VcpuLine) -> i64 {
    let lines = report.antagonists.iter();
    let of_victim =
        lines.filter(|l| l.machine_id == victim.machine_id && Some(l.vcpu) == victim.vcpu);
    let others = of_victim.filter(|l| match l.by_kind.as_str() {
        "vcpu" | "machine" => l.by_machine_id != Some(victim.machine_id),
        kind => kind == "thread",
    });
    others.map(|l| l.waited_ns).sum()
}

/// ", 97.3 % of the wait because batch held the CPU (vcpu0 1.80 s, vcpu1 0.20 s)"
fn behind(report: &Report, victim: &VcpuLine) -> String {
    let lines: Vec<&AntagonistLine> = report
        .antagonists
        .iter()
        .filter(|l| l.machine_id == victim.machine_id && Some(l.vcpu) == victim.vcpu)
        .collect();
    let Some(top) = blamed_group(&lines) else {
        return String::new();
    };
    let sum_ns: i64 = top.iter().map(|l| l.waited_ns).sum();
    let of_it = share(sum_ns, victim.waited_ns);
    let (Some(first), true) = (top.first(), top.iter().all(|l| l.by_kind == "vcpu")) else {
        return top.first().map_or_else(String::new, |l| {
            format!(", {of_it} of the wait because {} held the CPU", antagonist(l))
        });
    };
    let parts: Vec<String> = top
        .iter()
        .filter_map(|l| l.by_vcpu.map(|vcpu| format!("vcpu{vcpu} {}", ns(report, l.waited_ns))))
        .collect();
    let vm = first.by_machine.clone().unwrap_or_default();
    format!(", {of_it} of the wait because {vm} held the CPU ({})", parts.join(", "))
}

/// The antagonist with the largest part: a whole VM if vCPUs were in the way, else one thread name.
fn blamed_group<'a>(lines: &[&'a AntagonistLine]) -> Option<Vec<&'a AntagonistLine>> {
    let mut groups: BTreeMap<_, Vec<&AntagonistLine>> = BTreeMap::new();
    let is_blamable = |kind: &str| matches!(kind, "vcpu" | "machine" | "thread");
    let blamable = lines.iter().filter(|line| is_blamable(&line.by_kind));
    for line in blamable {
        let name = if line.by_kind == "vcpu" { None } else { line.by_name.as_deref() };
        groups.entry((line.by_kind.as_str(), line.by_machine_id, name)).or_default().push(line);
    }
    groups.into_values().max_by_key(|group| group.iter().map(|l| l.waited_ns).sum::<i64>())
}

/// The guest thread that lost most of the time its kernel believed it ran.
fn stolen_thread(report: &Report) -> Option<String> {
    let stolen = |t: &ThreadLine| t.vcpu_preempted_ns.unwrap_or(0);
    let thread = report.threads.iter().max_by_key(|t| stolen(t))?;
    if !is_worth_naming(stolen(thread), thread.running_ns) || thread.effective_running_ns.is_none()
    {
        return None;
    }
    Some(format!(
        "In {}, the guest kernel had '{}' scheduled in for {}; for {} of that ({}) its vCPU was \
         waiting for a CPU.",
        thread.machine,
        thread.name,
        ns(report, thread.running_ns),
        share(stolen(thread), thread.running_ns),
        ns(report, stolen(thread))
    ))
}

/// The VM whose exits cost the largest share of its vCPUs' time, and the reason that cost most.
fn exit_cost(report: &Report) -> Option<String> {
    let costs = report.vms.iter().filter(|vm| vm.window_ns > 0).filter_map(|vm| {
        let lines: Vec<_> = report.exits.iter().filter(|e| e.machine_id == vm.machine_id).collect();
        let sum_ns: i64 = lines.iter().map(|e| e.handling_total_ns).sum();
        // Where none has an end (a Xen PV guest's have none), there is nothing to say.
        lines.iter().find(|line| line.unfinished < line.count)?;
        Some((vm, sum_ns, *lines.first()?))
    });
    let of_window = |vm: &VcpuLine, ns: i64| ns as f64 / vm.window_ns as f64;
    let (vm, sum_ns, top) =
        costs.max_by(|a, b| of_window(a.0, a.1).total_cmp(&of_window(b.0, b.1)))?;
    Some(format!(
        "Exit handling took {} of {}'s vCPU time; the costliest reason was {} ({}, {}).",
        share(sum_ns, vm.window_ns),
        vm.machine,
        top.reason,
        counted(top.count, "exit"),
        ns(report, top.handling_total_ns)
    ))
}

fn busiest_thread(report: &Report) -> Option<String> {
    let thread = report.threads.iter().max_by_key(|t| t.running_ns)?;
    Some(format!(
        "The busiest thread was '{}' (tid {}) on {}: {} of one CPU.",
        thread.name,
        thread.tid,
        thread.machine,
        share(thread.running_ns, report.facts.window.dur_ns())
    ))
}

fn slowest_wakeups(report: &Report) -> Option<String> {
    let line = report.wakeups.iter().max_by_key(|w| w.total_ns)?;
    Some(format!(
        "'{}' (tid {}) had the highest total wakeup latency: {}, p99 {} over {}.",
        line.name,
        line.tid,
        ns(report, line.total_ns),
        ns(report, line.p99_ns?),
        counted(line.count, "wakeup")
    ))
}

fn lost(report: &Report) -> String {
    let window_ns: i64 = report.vcpus.iter().map(|v| v.window_ns).sum();
    let unknown_ns: i64 = report.vcpus.iter().map(|v| v.unknown_ns).sum();
    let unknown = if unknown_ns == 0 {
        String::new()
    } else {
        format!(" {} of the vCPUs' time is unknown.", share(unknown_ns, window_ns))
    };
    if report.lost.is_empty() {
        return format!("No events were lost.{unknown}");
    }
    let events: u64 = report.lost.iter().filter_map(|l| l.count).sum();
    let gaps = counted(report.lost.len() as u64, "gap");
    let were = if events == 1 { "event was" } else { "events were" };
    match (events, report.lost.iter().all(|l| l.count.is_some())) {
        (0, _) => format!("Events were lost in {gaps}.{unknown}"),
        (n, true) => format!("{} {were} lost in {gaps}.{unknown}", count(n)),
        (n, false) => format!("At least {} {were} lost in {gaps}.{unknown}", count(n)),
    }
}

/// Whatever reading it cost is told first thing, not only in the log.
fn damage(report: &Report) -> Option<String> {
    let remarks = report.import_log.iter().filter(|row| row.data_loss).count();
    (remarks > 0).then(|| {
        let remarks = counted(remarks as u64, "remark");
        format!("Some data is incomplete: {remarks} in the import log (--view log).")
    })
}

/// How far the guests' clocks can be trusted.
fn clocks(report: &Report) -> Option<String> {
    let guests = report.machines.iter().filter(|m| m.parent_id.is_some());
    let worst = guests.filter_map(|m| Some((m, m.error_bound_ns?))).max_by_key(|g| g.1)?;
    let outside: u64 = report.clock_check.iter().map(|c| c.outside).sum();
    let tested: u64 = report.clock_check.iter().map(|c| c.tested).sum();
    let check = match (tested, outside) {
        (0, _) => "no guest event could be tested".to_owned(),
        (tested, 0) => {
            format!("all {} testable guest events pass the causality check", count(tested))
        }
        (tested, outside) => {
            format!(
                "{} of {} testable guest events fail the causality check",
                count(outside),
                count(tested)
            )
        }
    };
    let bound = i64::try_from(worst.1).ok()?;
    Some(format!(
        "Guest clock error is at most ±{} ({}); {check}.",
        if bound == 0 { format!("0 {}", report.facts.unit.as_str()) } else { ns(report, bound) },
        machine_name(report, worst.0.machine_id)
    ))
}

fn vcpu_name(line: &VcpuLine) -> String {
    line.vcpu.map_or_else(|| line.machine.clone(), |vcpu| format!("{} vcpu{vcpu}", line.machine))
}

fn is_worth_naming(part_ns: i64, whole_ns: i64) -> bool {
    part_ns as f64 > whole_ns as f64 * WORTH_NAMING
}

fn ns(report: &Report, value: i64) -> String {
    duration(value, report.facts.unit)
}
