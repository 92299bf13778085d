//! Threads and their wakeups, machine by machine.

use super::grid::{Column, left, right};
use super::{Page, count, counted, dash, share};
use crate::lines::{ThreadLine, WakeupLine};
use std::io;

const HOST_COLUMNS: [Column; 8] = [
    left("thread"),
    right("tid"),
    right("running"),
    right("of the window"),
    right("waiting for a CPU"),
    right("unknown").expendable(3),
    left("vCPU").expendable(1),
    left("cgroup").expendable(2),
];

const GUEST_COLUMNS: [Column; 9] = [
    left("thread"),
    right("tid"),
    right("running"),
    right("= effective"),
    right("+ vCPU preempted"),
    right("+ exit handling"),
    right("+ vCPU halted").expendable(2),
    right("+ unknown").expendable(1),
    right("waiting for a vCPU").expendable(3),
];

impl Page<'_> {
    pub(crate) fn threads(&mut self) -> io::Result<()> {
        self.heading_of_times(
            "THREADS",
            "running: scheduled in by the thread's own kernel; shares split it by the vCPU state on the host",
        )?;
        if self.report.threads.is_empty() {
            return self.paragraph("No threads were recorded (sched:sched_switch).");
        }
        let report = self.report;
        let groups = report.threads.chunk_by(|a, b| a.machine_id == b.machine_id);
        self.groups(groups, |page, group| {
            let is_known = |line: &ThreadLine| {
                line.running_ns > 0 || line.runnable_ns > 0 || line.blocked_ns > 0
            };
            // Lines of longer running threads come first: those of unknown ones are not all at the end.
            let (known, unknown): (Vec<_>, Vec<_>) =
                group.iter().cloned().partition(|line| is_known(line) || line.unknown_ns == 0);
            let threads = counted(known.len() as u64, "thread");
            let more = match unknown.len() as u64 {
                0 => String::new(),
                n => format!(", and {} whose states are unknown", counted(n, "thread")),
            };
            page.paragraph(&format!("{}: {threads}{more}", group[0].machine))?;
            let group = &known[..];
            if group.is_empty() {
                return Ok(());
            }
            if group[0].effective_running_ns.is_some() {
                page.top_grid(&GUEST_COLUMNS, group, Self::guest_thread_cells)
            } else {
                page.top_grid(&HOST_COLUMNS, group, Self::host_thread_cells)
            }
        })
    }

    fn host_thread_cells(&self, line: &ThreadLine) -> Vec<String> {
        let runs = line.vcpu_machine_id.zip(line.vcpu);
        vec![
            line.name.clone(),
            line.tid.to_string(),
            self.ns(line.running_ns),
            share(line.running_ns, self.window_ns()),
            self.ns(line.runnable_ns),
            match line.unknown_ns {
                0 => dash(),
                ns => share(ns, self.window_ns()),
            },
            runs.map_or_else(dash, |(vm, vcpu)| format!("{} vcpu{vcpu}", self.machine(vm))),
            line.cgroup.clone().unwrap_or_else(dash),
        ]
    }

    fn guest_thread_cells(&self, line: &ThreadLine) -> Vec<String> {
        let part = |ns: Option<i64>| share(ns.unwrap_or(0), line.running_ns);
        vec![
            line.name.clone(),
            line.tid.to_string(),
            self.ns(line.running_ns),
            part(line.effective_running_ns),
            part(line.vcpu_preempted_ns),
            part(line.exit_handling_ns),
            part(line.vcpu_halted_ns),
            part(line.effective_unknown_ns),
            self.ns(line.runnable_ns),
        ]
    }

    pub(crate) fn wakeups(&mut self) -> io::Result<()> {
        self.heading_of_times("WAKEUPS", "from wakeup to running (wakeup latency)")?;
        if self.report.wakeups.is_empty() {
            return self.paragraph("No wakeups were recorded (sched:sched_waking).");
        }
        let columns = [
            left("thread"),
            right("tid"),
            right("wakeups"),
            right("p50"),
            right("p99"),
            right("max"),
            right("total"),
            right("not seen running").expendable(1),
        ];
        let report = self.report;
        let groups = report.wakeups.chunk_by(|a, b| a.machine_id == b.machine_id);
        self.groups(groups, |page, group| {
            page.paragraph(&group[0].machine)?;
            page.top_grid(&columns, group, Self::wakeup_cells)
        })
    }

    fn wakeup_cells(&self, line: &WakeupLine) -> Vec<String> {
        vec![
            line.name.clone(),
            line.tid.to_string(),
            count(line.count),
            self.ns_or_dash(line.p50_ns),
            self.ns_or_dash(line.p99_ns),
            self.ns_or_dash(line.max_ns),
            self.ns(line.total_ns),
            count(line.unfinished),
        ]
    }
}
